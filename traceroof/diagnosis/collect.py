"""The command that collects what a verdict lacked, limited to the kernels that lack it."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from traceroof.core import kernel_names, regex
from traceroof.core.toml_tables import toml_table
from traceroof.hardware.run_devices import RunDevice, vendor_of

#: At most so many functions are listed: the first ones, so give the kernels most time first.
MOST_KERNELS = 8

# Tensile's names take three hundred letters; the beginning tells them apart well enough.
_NAME_LENGTH = 60

# Identifiers only: older releases of rocprof-compute look for the text of -k in the name, newer
# ones for the expression, and both read letters alike.
_IDENTIFIER = regex.compile(r"\w+")

#: From so many sections on the full set is no more.
_MANY_SECTIONS = 6


@cache
def _sources() -> Mapping[str, Any]:
    return toml_table("traceroof.diagnosis", "collect.toml")


#: Of AMD's GPUs, those that rocprof-compute profiles (its documentation, supported accelerators); no
#: Radeon is among them.
_ROCPROF_COMPUTE = ("gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
#: The tool of a GPU that none of ours profiles.
NO_TOOL = "none"

# Of a kernel that is launched so often nobody wants every launch replayed; so many show its scatter.
_MANY_LAUNCHES = 1_000
_LAUNCHES_EACH = 5


#: NVIDIA's tool before compute capability 7.0, which Nsight Compute does not profile.
NVPROF = "nvprof"
_NSIGHT_COMPUTE_FROM = 7.0


def tool_for(
    vendor: str | None,
    gfx_targets: Iterable[str | None],
    capabilities: Iterable[str | None] = (),
) -> str | None:
    """Whose tool collects on these GPUs: the vendor's, nvprof on old ones of NVIDIA, ``NO_TOOL``
    where it knows none of them."""
    if vendor not in (None, "nvidia", "amd", "hygon"):
        return NO_TOOL
    targets = {one.split(":")[0] for one in gfx_targets if one}
    if vendor == "amd" and targets and not targets & set(_ROCPROF_COMPUTE):
        return NO_TOOL
    known = [float(one) for one in capabilities if one]
    if vendor == "nvidia" and known and max(known) < _NSIGHT_COMPUTE_FROM:
        return NVPROF
    return vendor


def tool_of(devices: Iterable[RunDevice]) -> str | None:
    """Whose tool collects on the GPUs of the run (``tool_for``)."""
    listed = list(devices)
    targets = (
        one.info.gfx_target or (one.known.gfx_target if one.known else None) for one in listed
    )
    capabilities = (
        one.info.compute_capability or (one.known.compute_capability if one.known else None)
        for one in listed
    )
    return tool_for(vendor_of(listed), targets, capabilities)


def command(
    columns: Iterable[str],
    kernels: Sequence[str],
    *,
    vendor: str | None = None,
    launches: int = 0,
) -> str | None:
    """A command that collects ``columns`` for ``kernels``; None where nothing collects them.

    columns: columns of the kernel table or of a kernel group. kernels: full kernel names. vendor:
    whose GPU it is (``tool_for``): rocprof-compute for "amd", hipprof for "hygon", nvprof for old
    GPUs of NVIDIA, Nsight Compute otherwise. launches: how many there are of these kernels; of many, only the first are collected.
    What no such tool knows is the framework's to record.
    """
    wanted = list(dict.fromkeys(columns))
    found: str | None
    if vendor == NO_TOOL:
        found = None
    elif vendor == "amd":
        found = _rocprof_compute(wanted, kernels)
    elif vendor == "hygon":
        found = _hipprof(wanted)
    elif vendor == NVPROF:
        found = _nvprof(wanted, kernels)
    else:
        found = _ncu(wanted, kernels, launches)
    table = "framework_without_tool" if vendor == NO_TOOL else "framework"
    return found or next(iter(_look_up(_sources()[table], wanted)), None)


def pieces(columns: Iterable[str], vendor: str | None) -> list[str]:
    """What the vendor's tool has to collect for these columns: metrics, sections, blocks, presets;
    empty where one of them it does not know."""
    if vendor == NO_TOOL:
        return []
    tables = _sources()[_TOOLS.get(vendor or "", "ncu")]
    # Single metrics before the section that holds them.
    order = sorted(tables.values(), key=lambda table: table is not tables.get("metrics"))
    found: dict[str, None] = {}
    for column in columns:
        made = next((one for one in (_look_up(table, [column]) for table in order) if one), [])
        if not made:
            return []
        found.update(dict.fromkeys(made))
    return list(found)


def is_frameworks(command: str) -> bool:
    """Whether a command makes a trace of the framework's own profiler anew."""
    tables = ("framework", "framework_without_tool")
    return any(command in _sources()[table].values() for table in tables)


def collects(columns: Iterable[str], vendor: str | None) -> bool:
    """Whether the vendor's tool collects every one of these columns."""
    return bool(pieces(columns, vendor))


# The entry of collect.toml for each vendor with a tool of its own.
_TOOLS = {"amd": "rocprof_compute", "hygon": "hipprof", NVPROF: NVPROF}


def _ncu(columns: Sequence[str], kernels: Sequence[str], launches: int) -> str | None:
    sources = _sources()["ncu"]
    metrics = _look_up(sources["metrics"], columns)
    others = [one for one in columns if not _look_up(sources["metrics"], [one])]
    sections = _look_up(sources["sections"], others)
    if not sections and not metrics:
        return None
    parts = ["ncu", "--csv", "--page", "raw"]
    if len(sections) >= _MANY_SECTIONS:
        # The full set has these sections, and the raw page prints their metrics.
        parts += ["--set", "full"]
    else:
        for section in sections:
            parts += ["--section", section]
        if metrics:
            parts += ["--metrics", ",".join(metrics)]
    functions = dict.fromkeys(map(_expression, _functions(kernels)))
    if functions:
        parts += ["--kernel-name", f"regex:^({'|'.join(functions)})$"]
    if launches >= _MANY_LAUNCHES:
        parts += ["--launch-count", str(_LAUNCHES_EACH * max(len(functions), 1))]
    return shlex.join(parts) + " YOUR_PROGRAM > more.csv"


def _rocprof_compute(columns: Sequence[str], kernels: Sequence[str]) -> str | None:
    blocks = _look_up(_sources()["rocprof_compute"]["blocks"], columns)
    if not blocks:
        return None
    parts = ["rocprof-compute", "profile", "-n", "more"]
    found = (_IDENTIFIER.search(function) for function in _functions(kernels))
    functions = dict.fromkeys(one[0][:_NAME_LENGTH] for one in found if one)
    if functions:
        parts += ["-k", *functions]
    parts += ["-b", *blocks]
    return shlex.join(parts) + " -- YOUR_PROGRAM"


def _nvprof(columns: Sequence[str], kernels: Sequence[str]) -> str | None:
    metrics = _look_up(_sources()[NVPROF]["metrics"], columns)
    if not metrics:
        return None
    parts = ["nvprof", "--csv", "--log-file", "more.csv"]
    functions = dict.fromkeys(map(_expression, _functions(kernels)))
    if functions:
        # It applies to the metrics that follow.
        parts += ["--kernels", "|".join(functions)]
    return shlex.join([*parts, "--metrics", ",".join(metrics)]) + " YOUR_PROGRAM"


def _hipprof(columns: Sequence[str]) -> str | None:
    presets = _look_up(_sources()["hipprof"]["presets"], columns)
    runs = [f"hipprof {preset} --pmc-type 3 YOUR_PROGRAM" for preset in presets]
    return " && ".join(runs) or None


def _functions(kernels: Sequence[str]) -> list[str]:
    """Function names without template arguments, the first MOST_KERNELS."""
    # A name in parentheses stands for none ("(name not in the file)").
    found: dict[str, None] = {}
    for name in kernels:
        function = kernel_names.function(kernel_names.demangled(name)).split("<")[0]
        if function and not name.startswith("("):
            found[function] = None
        if len(found) == MOST_KERNELS:
            break
    return list(found)


def _expression(function: str) -> str:
    """A regular expression for the whole of a function's name, long ones by their beginning."""
    begins = re.escape(function[:_NAME_LENGTH]).replace("\\ ", " ")
    return begins if len(function) <= _NAME_LENGTH else begins + ".*"


def _look_up(table: Mapping[str, str | list[str]], columns: Sequence[str]) -> list[str]:
    """What collects the columns, by longest prefix, each once, in the order asked for."""
    found: dict[str, None] = {}
    for column in columns:
        prefixes = (column[:length] for length in range(len(column), 0, -1))
        longest = next((one for one in prefixes if one in table), None)
        if longest:
            entry = table[longest]
            found.update(dict.fromkeys([entry] if isinstance(entry, str) else entry))
    return list(found)
