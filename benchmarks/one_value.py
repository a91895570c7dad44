"""Damage one value 6,000 times and say what became of launches and times:
``python -m benchmarks.one_value``. Prints a table in Markdown, and with ``--silent`` each change that
no note tells of."""

import argparse
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzzing.one_value import CLASSES, sound_signatures, trial
from tests.fuzzing.seeds import FORMATS

_KNOWN = ("none", "unchanged", "noted", "refused")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", default=FORMATS)
    parser.add_argument("--count", type=int, default=6000, help="damages over all formats")
    asked = parser.parse_args()
    each = asked.count // len(asked.formats)
    classes = [one.name for one in CLASSES]
    total: Counter[str] = Counter()
    print("| format | damages | unchanged | noted | refused | changed silently |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in asked.formats:
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
            sound = sound_signatures(name, Path(place))
            found = Counter(trial(name, number, sound, Path(place)) for number in range(each))
        total += found
        silent = sum(found[one] for one in classes)
        figures = " | ".join(f"{found[one]:,}" for one in _KNOWN[1:])
        print(f"| {name} | {each - found['none']:,} | {figures} | {silent:,} |", flush=True)
    print()
    for one in classes:
        print(f"- {one}: {total[one]:,}")


if __name__ == "__main__":
    main()
