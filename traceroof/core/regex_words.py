"""The words that a text must hold for a regular expression to fit it, without compiling it.

To parse and compile a pattern takes Python a thousand times as long as to see that the text lacks
its word. The scan is cautious: where it does not understand a pattern it says that no word is needed.
"""

import re
from dataclasses import dataclass, field

#: Of these words, in small letters, a text that fits holds one; None: it need hold none.
Words = frozenset[str] | None

_TOKEN = re.compile(
    r"""
    (?P<literal>[A-Za-z0-9_:<>,~=&@%!"'/;-]+)
    | \\(?P<escape>.)
    | (?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])
    | (?P<repeat>(?:[*+?]|\{\d*(?:,\d*)?\})[?+]?)
    | (?P<not>\(\?<?!)
    | (?P<open>\((?:\?(?:P<\w+>|<?=|[:>]|-?i:))?(?!\?))
    | (?P<flags>\(\?[ai]+\))
    | (?P<close>\))
    | (?P<bar>\|)
    | (?P<sign>[.^$])
    | (?P<blank>\s+|\#[^\n]*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
# Escapes that stand for a kind of sign, or a place between two.
_KINDS = frozenset("dDwWsSbBAZ")


@dataclass
class _Group:
    """An open group: its finished branches, and of the last one the words and the run of letters."""

    counts: bool = True
    branches: list[Words] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)
    run: str = ""

    def add(self, words: Words) -> None:
        """Something that is no plain letter."""
        if self.run:
            self.words.append(frozenset({self.run.lower()}))
            self.run = ""
        self.words.append(words)

    def repeat(self, least: int) -> None:
        """The last thing may come more often, or (least 0) not at all."""
        if self.run:
            before, last = self.run[:-1], self.run[-1:]
            self.run = self.run if least else before
            self.add(None if least else frozenset({last}))
        if not least and self.words:
            self.words[-1] = None

    def end_branch(self) -> None:
        """The branch is complete: the longer its shortest word, the fewer texts hold any."""
        self.add(None)
        known = [one for one in self.words if one]
        self.branches.append(max(known, key=lambda one: min(map(len, one)), default=None))
        self.words = []

    def all(self) -> Words:
        """The words of all branches."""
        if not self.counts or not all(self.branches):
            return None
        return frozenset(word for one in self.branches for word in one or ())


def required_words(pattern: str, flags: int = 0) -> Words:
    """The words of a pattern. Holds for ASCII texts alone: beyond, letters have other small ones."""
    verbose = bool(flags & re.VERBOSE)
    open_groups = [_Group()]
    for token in _TOKEN.finditer(pattern):
        group, kind, text = open_groups[-1], token.lastgroup, token[token.lastgroup or 0]
        if kind == "blank" and verbose:
            continue
        match kind:
            case "literal":
                group.run += text
            case "escape" if not text.isalnum():
                group.run += text
            case "escape" if text in _KINDS:
                group.add(None)
            case "class" | "sign":
                group.add(None)
            case "repeat":
                group.repeat(0 if text[0] in "*?{" and text[:2] not in _SOME else 1)
            case "open" | "not":
                group.add(None)
                open_groups.append(_Group(counts=kind == "open"))
            case "bar":
                group.end_branch()
            case "close" if len(open_groups) > 1:
                group.end_branch()
                open_groups.pop()
                open_groups[-1].add(group.all())
            case "flags":
                pass
            case "blank" if not text.startswith("#"):
                group.run += text
            case _:
                return None
    if len(open_groups) > 1:
        return None
    open_groups[0].end_branch()
    return open_groups[0].all()


# Beginnings of repeats that need the thing once.
_SOME = tuple(f"{{{digit}" for digit in range(1, 10))
