"""Does a history pass? The gates of ``history --fail-on``."""

from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches

from traceroof.config.settings import Accepted
from traceroof.config.values import fits
from traceroof.errors import TraceroofError
from traceroof.history.history import Change, History, within

GATES = ("change", "regression")
#: A gate looks at changes in so many of the newest runs: older ones have been seen.
NEWEST = 20


def checked(gates: Iterable[str]) -> tuple[str, ...]:
    """The gates as given. Raises TraceroofError for one that does not exist."""
    found = tuple(gates)
    for gate in found:
        if gate not in GATES:
            close = get_close_matches(gate, GATES, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there is {' and '.join(GATES)}"
            raise TraceroofError(f"--fail-on {gate} is not a gate of `history`", hint)
    return found


def failing(
    history: History,
    gates: Iterable[str],
    newest: int = NEWEST,
    accept: Iterable[Accepted] = (),
    today: date | None = None,
) -> list[Change]:
    """The changes by which a history does not pass, the most important first.

    accept: kernels of which a slowdown is known and wanted. today: by which entries expire.
    """
    today = today or date.today()
    valid = [one for one in accept if one.until is None or today <= one.until]

    def accepted(change: Change) -> bool:
        return change.level == "kernel" and any(fits(one.kernel, change.series) for one in valid)

    wanted = set(gates)
    return [
        one
        for one in within(history, newest).changes
        if ("change" in wanted or ("regression" in wanted and one.slower)) and not accepted(one)
    ]
