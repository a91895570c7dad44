"""Labels of ranks before process numbers, in files that hold several ranks."""

import re
from typing import Any

from traceroof.core import regex
from traceroof.parsers.torch.columns import Fold

# SGLang and others put ranks before the process where they merge files: "[TP00] 5000", "TP0_5000",
# "rank0: 5000".
_LABEL = regex.compile(
    r"\s*(?:\[([^\]]*\d[^\]]*)\]\s"
    r"|((?:(?:DCP|[TDPEC]P|rank|worker)[-_ ]?\d{1,6}[-_ ]?)+)[:\s_-](?=\s*\d+\s*$))",
    re.IGNORECASE,
)
_ONE_NUMBER = regex.compile(r"[A-Za-z_ -]*(\d{1,6})")


def ranks_of_labels(fold: Fold) -> dict[str, int]:
    """Rank by the label before a process number; in a file without labels none.

    A label of one number is that rank; labels of several (TP00-PP01) are counted in their order.
    """
    pids = [pid for pid, _ in fold.threads] + [launch[0] for launch in fold.launches]
    labels = sorted({label for pid in pids if (label := label_of(pid))})
    numbers = [_ONE_NUMBER.fullmatch(label) for label in labels]
    if all(numbers):
        return {label: int(found[1]) for label, found in zip(labels, numbers, strict=True) if found}
    return {label: number for number, label in enumerate(labels)}


def label_of(pid: Any) -> str:
    """The label before a process number, empty for none."""
    found = _LABEL.match(pid) if isinstance(pid, str) else None
    return (found[1] or found[2]).strip(" _-") if found else ""
