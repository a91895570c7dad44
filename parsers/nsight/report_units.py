"""Units of metrics by their names: a report stores numbers in base units and no unit.

The words are those that Nsight Compute prints for the same metric in CSV.
"""

from functools import lru_cache

from traceroof.core import regex

# What a name says outright, first match first.
_NAMED = tuple(
    (regex.compile(pattern), unit)
    for pattern, unit in (
        (r"launch__registers_per_thread(_allocated)?", "register/thread"),
        (r"launch__shared_mem_per_block(_\w+)?", "byte/block"),
        (r"launch__shared_mem_config_size", "byte"),
        (r"launch__occupancy_limit_\w+|launch__cluster_max_potential_size", "block"),
        (r"launch__cluster_max_active", "cluster"),
        (r"launch__thread_count", "thread"),
        (r"launch__sm_count", "SM"),
        (r"launch__\w+_pct", "%"),
        (r"(launch|device)__\w+", ""),
        (r"gpu__time_(duration|active|start|end)\w*(\.\w+)*", "ns"),
        (r"profiler__\w*_interval_time", "ns"),
        (r"profiler__\w*_interval_cycles", "cycle"),
        (r"profiler__\w*_bytes(_\w+)?(\.\w+)?", "byte"),
        (r"profiler__\w*_samples", "sample"),
        (r"profiler__.*", ""),
        (r"sm(sp)?__maximum_warps_avg_per_active_cycle", "warp"),
        (r"smsp__average_warp(s_active|_latency)_per_inst_\w+\.ratio", "cycle"),
        (r"smsp__average_inst_executed_per_warp\.ratio", "inst/warp"),
        (r"l1tex__average_t_sectors_per_request\w*\.ratio", "sector/request"),
        (r"smsp__pcsamp_\w+", "sample"),
    )
)
# The patterns above fit no name that begins otherwise: most names need none of them.
_BEGINNINGS = (
    "launch__", "device__", "gpu__time_", "profiler__", "sm__maximum_", "smsp__maximum_",
    "smsp__average_", "l1tex__average_", "smsp__pcsamp_",
)  # fmt: skip
# What is counted, by a word of the counter's name, first match first.
_COUNTED = (
    ({"cycles"}, "cycle"),
    ({"bytes"}, "byte"),
    ({"sectors"}, "sector"),
    ({"requests"}, "request"),
    ({"inst", "instructions"}, "inst"),
    ({"warps"}, "warp"),
)
_PER_CYCLE = regex.compile(r"per_cycle_\w+|peak_sustained(_\w+)?")


@lru_cache(maxsize=8192)
def unit_of(metric: str) -> str:
    """The unit of a metric's value; empty where it has none or none is known."""
    for pattern, unit in _NAMED if metric.startswith(_BEGINNINGS) else ():
        if pattern.fullmatch(metric):
            return unit
    counter, _, form = metric.partition("__")[2].partition(".")
    if "pct" in (form or counter):
        return "%"
    counted = _counted(counter)
    ending = form.rpartition(".")[2]
    if ending == "per_second":
        return f"{counted}/second" if counted else ""
    if _PER_CYCLE.fullmatch(ending):
        # Warps per cycle are a mean number of warps.
        return f"{counted}/cycle" if counted not in ("", "cycle", "warp") else counted
    return "" if ending == "ratio" else counted


def _counted(counter: str) -> str:
    words = set(counter.split("_"))
    for counted, unit in _COUNTED:
        if counted & words:
            return unit
    return ""
