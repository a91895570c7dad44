"""Damage one value 6,000 times and say what became of launches and times:
``python -m benchmarks.one_value``. Prints a table in Markdown, the classes of silent changes, and each
that fits no class (a fault of the reader, exit 1)."""

import argparse
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzzing.seeds import FORMATS
from tests.fuzzing.silent import CLASSES, FAULT, sound_signatures, trial

_KNOWN = ("none", "unchanged", "noted", "unknown", "refused")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", default=FORMATS)
    parser.add_argument("--count", type=int, default=6000, help="damages over all formats")
    parser.add_argument("--each", type=int, help="damages of each format")
    asked = parser.parse_args()
    each = asked.each or asked.count // len(asked.formats)
    classes = [*(one.name for one in CLASSES), FAULT]
    total: Counter[str] = Counter()
    faults: list[str] = []
    print("| format | damages | unchanged | noted | shown as unknown | refused | silent |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in asked.formats:
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
            sound = sound_signatures(name, Path(place))
            outcomes = [trial(name, number, sound, Path(place)) for number in range(each)]
        found = Counter(outcomes)
        faults += [f"{name} {at}" for at, one in enumerate(outcomes) if one == FAULT]
        total += found
        silent = sum(found[one] for one in classes)
        figures = " | ".join(f"{found[one]:,}" for one in _KNOWN[1:])
        print(f"| {name} | {each - found['none']:,} | {figures} | {silent:,} |", flush=True)
    print()
    for one in classes:
        print(f"- {one}: {total[one]:,}")
    sys.exit(f"faults: {', '.join(faults)}" if faults else 0)


if __name__ == "__main__":
    main()
