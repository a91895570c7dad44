"""What collectives move, and between which ranks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from traceroof.parsers.host.arrow import (
    Texts,
    reals,
    wholes,
)
from traceroof.parsers.torch.events import (
    UNKNOWN,
    real_number,
    whole_number,
)

# Bytes of an element by its name in c10 (ScalarType.h), as collectives give it.
_ELEMENT_BYTES: Final[Mapping[str, int]] = {
    "byte": 1, "char": 1, "bool": 1, "short": 2, "int": 4, "long": 8, "half": 2, "float": 4,
    "double": 8, "bfloat16": 2, "complexhalf": 4, "complexfloat": 8, "complexdouble": 16,
    "float8_e5m2": 1, "float8_e4m3fn": 1, "float8_e5m2fnuz": 1, "float8_e4m3fnuz": 1,
    "uint16": 2, "uint32": 4, "uint64": 8,
}  # fmt: skip


class Collectives:
    """Collectives by code: name, payload, and the group of ranks that takes part."""

    def __init__(
        self, entries: Iterable[Sequence[str]], described: Mapping[str, str] | None = None
    ) -> None:
        """described: what the framework calls a group, by its name (``process_groups``)."""
        found = list(entries)
        names, groups, ranks = ([entry[at] for entry in found] for at in (0, 5, 6))
        groups = [(described or {}).get(name, name) for name in groups]
        # The default group may be written as [] ranks: all, whichever those are.
        ranks = ["" if text in _NO_RANKS else text for text in ranks]
        self._names, self._groups, self._ranks = Texts(names), Texts(groups), Texts(ranks)
        self._has_group, self._has_ranks = (
            np.array([*map(bool, texts), False]) for texts in (groups, ranks)
        )
        self._payloads = np.array([*map(_payload, found), np.nan])
        self._sizes = np.array(
            [*(whole_number(entry[3]) for entry in found), UNKNOWN], dtype=np.int64
        )
        # A wait is recorded like a collective, but nothing is sent.
        self._is_one = np.array([*(name not in ("", "wait") for name in names), False])

    def at(self, codes: npt.NDArray[Any]) -> dict[str, Any]:
        codes = np.where(self._is_one[codes], codes, -1)
        return {
            "collective": self._names.at(codes),
            "process_group": self._groups.at(np.where(self._has_group[codes], codes, -1)),
            "group_ranks": self._ranks.at(np.where(self._has_ranks[codes], codes, -1)),
            "message_bytes": reals(self._payloads[codes]),
            "group_size": wholes(self._sizes[codes]),
        }


_NO_RANKS: Final = ("", "[]")


def _payload(entry: Sequence[str]) -> float:
    """The payload in bytes. That of a gather or a reduce-scatter is the larger of what goes in and
    what comes out, which is what busbw formulas want (nccl-tests)."""
    _, elements_in, elements_out, _, dtype, _, _ = entry
    elements = max(real_number(elements_in), real_number(elements_out))
    size = _ELEMENT_BYTES.get(dtype.lower().removeprefix("c10::"))
    return elements * size if size is not None else float("nan")
