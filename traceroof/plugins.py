"""Every parser and every rule: the built-in modules, then what other packages installed.

Built-in ones are found by looking into the folders, so a new file is a new parser or rule. Third
parties register a module or object under the entry points ``traceroof.parsers`` (an object that
satisfies ``Parser``) and ``traceroof.rules`` (a ``Rule`` or a list of them).
"""

import importlib
import pkgutil
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from traceroof.errors import TraceroofError
from traceroof.parser import Parser
from traceroof.rule import Rule


def _built_in(
    package_name: str, attribute: str, left_out: Collection[str]
) -> Iterator[tuple[str, Any]]:
    """What the modules of a package hold, each with its file as seen from the repository."""
    folder = package_name.rpartition(".")[2]
    package = importlib.import_module(package_name)
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda found: found.name):
        if module.ispkg or module.name.startswith("_") or module.name in left_out:
            continue  # what several parsers or rules share
        found = getattr(_imported(f"{package_name}.{module.name}"), attribute, None)
        if found is not None:
            yield f"{folder}/{module.name}.py", found


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise TraceroofError(
            f"the module {name} could not be loaded: {type(error).__name__}: {error}",
            "reinstall traceroof, or undo the last change to this file",
        ) from error


def _installed(group: str) -> Iterator[tuple[str, Any]]:
    """What other packages registered, each with the name of its object."""
    for entry in sorted(_entry_points(group), key=lambda found: found.name):
        try:
            yield entry.value, entry.load()
        except Exception as error:
            # A stranger's package must not take traceroof down with a traceback.
            raise TraceroofError(
                f"the plug-in {entry.value} could not be loaded: {type(error).__name__}: {error}",
                f"reinstall or remove the package that registers {group}",
            ) from error


def _entry_points(group: str) -> Iterable[Any]:
    """The entry points of a group. Hardly anybody has some, and ``importlib.metadata`` loads half
    of the standard library: whether a package names the group is looked up first."""
    if not any(group.encode() in text for text in _registrations()):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


@cache
def _registrations() -> tuple[bytes, ...]:
    """The entry points of all installed packages, unread."""
    return tuple(
        file.read_bytes()
        for folder in dict.fromkeys(map(Path, sys.path))
        for kind in ("dist", "egg")
        for file in folder.glob(f"*.{kind}-info/entry_points.txt")
    )


def _found(group: str, attribute: str, left_out: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    yield from _built_in(group, attribute, left_out)
    yield from _installed(group)


def parsers() -> tuple[Parser, ...]:
    """All parsers. Raises TraceroofError for a plug-in that is none."""
    return _parsers(frozenset())


def parsers_for(head: bytes) -> tuple[Parser, ...]:
    """The parsers that may know a file that begins so; for a folder (no bytes) all."""
    if not head:
        return parsers()
    looks = _imported("traceroof.parsers._first_look").LOOKS
    return _parsers(frozenset(name for name, look in looks.items() if not look(head)))


@cache
def _parsers(left_out: frozenset[str]) -> tuple[Parser, ...]:
    found: list[Parser] = []
    for _, parser in _found("traceroof.parsers", "PARSER", left_out):
        if not isinstance(parser, Parser):
            raise TraceroofError(f"the plug-in {parser!r} is not a parser (see traceroof.parser)")
        found.append(parser)
    return tuple(found)


def formats() -> tuple[Parser, ...]:
    """The parsers that give something, by name: what can be read, without those that refuse."""
    return tuple(sorted((one for one in parsers() if one.gives), key=lambda one: one.name))


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, ids unique. Raises TraceroofError for a plug-in that is none or a double id."""
    return tuple(rule for rule, _ in _rules().values())


#: The folder of the built-in rules, as files are seen from the repository.
RULES = "rules"


def file_of(rule: Rule) -> str:
    """Where a rule is written, as ``rule_file``; one that nobody registered has no file."""
    known = _rules().get(rule.id)
    return known[1] if known and known[0].when is rule.when else "this program"


def rule_file(rule_id: str) -> str:
    """Where a rule is written: ``rules/small_grid.py``, or the object of a plug-in."""
    return _rules()[rule_id][1]


@cache
def _rules() -> dict[str, tuple[Rule, str]]:
    found: dict[str, tuple[Rule, str]] = {}
    for source, entry in _found("traceroof.rules", "RULES"):
        for rule in entry if isinstance(entry, list | tuple) else (entry,):
            if not isinstance(rule, Rule):
                raise TraceroofError(f"the plug-in {rule!r} is not a rule (see traceroof.rule)")
            if rule.id in found:
                raise TraceroofError(f"two rules are called {rule.id}")
            found[rule.id] = (rule, source)
    return found
