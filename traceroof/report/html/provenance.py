"""Where the numbers of the page come from: files, GPUs and import notes, as plain data."""

from collections import Counter
from collections.abc import Sequence

from traceroof.core.units import quantity
from traceroof.diagnosis.diagnosis import Diagnosis

# The limits only matter for thousands of files.
_MOST_FILES, _MOST_NOTES = 60, 60


def sources(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    """Name, format and launches of every file."""
    names = file_names([one.path for one in diagnosis.sources])
    listed = [
        (name, one.format, f"{one.launches:,}")
        for name, one in zip(names, diagnosis.sources, strict=True)
    ]
    left = len(listed) - _MOST_FILES
    return listed[:_MOST_FILES] + ([(f"and {left:,} more", "", "")] if left > 0 else [])


def file_names(paths: Sequence[str]) -> list[str]:
    """Paths as names: no folder, except what tells two files of one name apart."""
    parts = [path.replace("\\", "/").rstrip("/").split("/") for path in paths]
    kept = [1] * len(parts)
    while True:
        shown = ["/".join(part[-count:]) for part, count in zip(parts, kept, strict=True)]
        counted = Counter(shown)
        longer = [
            n for n, name in enumerate(shown) if counted[name] > 1 and kept[n] < len(parts[n])
        ]
        if not longer:
            return shown
        for n in longer:
            kept[n] += 1


def devices(diagnosis: Diagnosis) -> list[Sequence[tuple[str, str]]]:
    """What is known of each GPU, each once."""
    cards: dict[tuple[tuple[str, str], ...], None] = {}
    for device in diagnosis.devices:
        known = device.known
        lines = [
            ("GPU", device.name or "not named in the file"),
            ("architecture", known.architecture if known else ""),
            ("compute capability", device.info.compute_capability or ""),
            ("target", device.info.gfx_target or ""),
            ("SMs or compute units",
             str(device.info.sm_count or (known.sm_count if known else "") or "")),
            ("nominal DRAM bandwidth",
             quantity(known.dram_bandwidth_bytes_per_s, "byte/s")
             if known and known.dram_bandwidth_bytes_per_s else ""),
            ("nominal dense rates",
             ", ".join(f"{dtype} {quantity(rate, 'FLOP/s')}"
                       for dtype, rate in sorted(known.flops_per_s.items())) if known else ""),
            ("source of the nominal figures", known.source if known else ""),
        ]  # fmt: skip
        cards[tuple(line for line in lines if line[1])] = None
    return list(cards)


def notes(diagnosis: Diagnosis) -> list[str]:
    """The notes of the run and of every file, each once, by the names of the files."""
    lines = dict.fromkeys(diagnosis.notes)
    names = file_names([one.path for one in diagnosis.sources])
    for name, source in zip(names, diagnosis.sources, strict=True):
        for note in source.notes:
            lines[f"{name}: {note}" if len(names) > 1 else str(note)] = None
    listed = list(lines)
    if len(listed) > _MOST_NOTES:
        left = len(listed) - _MOST_NOTES
        listed = [*listed[:_MOST_NOTES], f"and {left:,} more (diagnose --format json has all)"]
    return listed
