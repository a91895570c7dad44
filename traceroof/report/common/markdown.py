"""GitHub Markdown: text that stays text, code, tables, and what fits into a comment."""

import re
from collections.abc import Iterable, Sequence

from traceroof.core.units import one_line

# No sentence needs more; names of runs and of files may be of any length.
_LONGEST = 600

# GitHub makes links of what follows these, escaped or not: mentions, issues, addresses. A
# zero-width space behind each keeps the text as it is.
_LINKED = re.compile(
    r"@|#(?=\d)|\bGH-(?=\d)|\b(?:https?|ftp|mailto|xmpp):|\bwww(?=\.)", re.IGNORECASE
)


def marker(what: str, key: str) -> str:
    """The hidden first line of a comment; one comment a key. what: 'pr-report', 'diagnosis'."""
    # No "--": it would end the comment.
    safe = re.sub(r"[^A-Za-z0-9._]+", "-", key).strip("-")[:60] or "default"
    return f"<!-- traceroof:{what}:v1 key={safe} -->"


def fitting(lines: Iterable[str], budget: int) -> list[str]:
    """The first lines that have room in so many characters."""
    kept: list[str] = []
    for line in lines:
        budget -= len(line) + 1
        if budget < 0:
            break
        kept.append(line)
    return kept


def short(value: str) -> str:
    """Plain text inside Markdown, of a length that leaves room for the rest."""
    return text(value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…")


def table(header: Sequence[str], alignment: str, rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of cells that are Markdown already; alignment: "l", "r" or "-" per column."""
    marks = {"l": ":--", "r": "--:", "-": "---"}
    return [
        f"| {' | '.join(header)} |",
        f"|{'|'.join(marks[letter] for letter in alignment)}|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def details(title: str, lines: Sequence[str]) -> list[str]:
    """Lines that GitHub folds away under a title; nothing where there are none."""
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>"] if lines else []


def text(value: str) -> str:
    """Plain text inside Markdown: nothing in it is markup, a mention or the end of a cell."""
    return _escaped(" ".join(value.split()))


def _escaped(value: str) -> str:
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", one_line(value))
    return _LINKED.sub("\\g<0>\u200b", escaped)


def prose(value: str) -> str:
    """A text of ours inside Markdown: what it has between backticks is code."""
    parts = re.split(r"`([^`]+)`", " ".join(value.split()))
    return "".join(
        code(part) if at % 2 else _escaped(part) for at, part in enumerate(parts) if part
    )


def code(value: str) -> str:
    """Text as inline code that holds whatever the text holds, backticks and pipes included."""
    value = one_line(" ".join(value.split())).replace("|", "\\|") or " "
    fence = "`" * (max((len(run) for run in re.findall(r"`+", value)), default=0) + 1)
    pad = " " if value.startswith("`") or value.endswith("`") else ""
    return f"{fence}{pad}{value}{pad}{fence}"
