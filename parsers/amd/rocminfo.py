"""The GPUs that rocminfo lists."""

from collections.abc import Iterable, Mapping
from typing import Any

from traceroof.core import regex
from traceroof.parsers.amd.fields import gfx, read_real, read_whole
from traceroof.parsers.amd.gpus import Gpu
from traceroof.parsers.amd.kinds import squash


def of_rocminfo(pairs: Iterable[tuple[str, str, str]]) -> list[Gpu]:
    """The GPUs of a rocminfo dump, given as (agent, key, value) with squashed keys."""
    agents: dict[str, dict[str, str]] = {}
    for agent, key, value in pairs:
        agents.setdefault(agent, {}).setdefault(key, value)
    found: list[Gpu] = []
    for fields in agents.values():
        arch = gfx(fields.get("name"))
        if arch is None:
            continue
        chip = (fields.get("chipid") or "").partition("(")[0]
        engines = read_whole(fields.get("shaderengines"))
        node = fields.get("node", "").strip()
        gpu = Gpu(
            # rocprof v1 numbers devices by node, the host's processors among them.
            index=int(node) if node.isdigit() and len(node) < 6 else len(found),
            name=_spaced(fields.get("marketingname") or "") or arch,
            arch=arch,
            pci_device_id=read_whole(chip),
            cu=read_whole(fields.get("computeunit")),
            se=engines,
            sclk_mhz=read_real(fields.get("maxclockfreq.(mhz)")),
            told_by="rocminfo",
        )
        found.append(gpu)
    return found


# results.json drops the blanks: "AMDInstinctMI210".
_GLUED = regex.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=AMD)(?=[A-Z][a-z])")


def _spaced(name: str) -> str:
    name = name.strip()
    return name if " " in name else _GLUED.sub(" ", name)


_ROCMINFO_AGENT = regex.compile(r"\s*(Agent\s*\d+)\s*$")


def rocminfo_text(text: str) -> list[Gpu]:
    """The GPUs of what rocminfo printed (``results.sysinfo.txt``)."""
    agent = ""
    pairs: list[tuple[str, str, str]] = []
    for line in text.splitlines():
        match = _ROCMINFO_AGENT.match(line)
        if match:
            agent = match.group(1)
        elif agent:
            key, colon, value = line.partition(":")
            if colon and value.strip():
                pairs.append((agent, squash(key), value.strip()))
    return of_rocminfo(pairs)


def rocminfo_mapping(data: Mapping[str, Any]) -> list[Gpu]:
    """The GPUs of the flat rocminfo in a rocprof ``results.json`` (``Agent7.ChipID``)."""
    pairs = []
    for path, value in data.items():
        agent, dot, key = str(path).partition(".")
        if dot and agent.startswith("Agent") and key.partition(".")[0] not in _NESTED:
            pairs.append((agent, squash(key), str(value)))
    return of_rocminfo(pairs)


_NESTED = frozenset({"PoolInfo", "ISAInfo", "CacheInfo"})
