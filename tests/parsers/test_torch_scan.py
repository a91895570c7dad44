"""The compiled scanner takes what is usual as the decoder would read it, and nothing else."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceroof.parsers.torch.columns import Fold
from traceroof.parsers.torch.event_columns import Columns
from traceroof.parsers.torch.event_rows import fold_events
from traceroof.parsers.torch.events import Decoder
from traceroof.parsers.torch.scanned import Scan, _compiled

IS_COMPILED = _compiled([]) is not None
compiled = pytest.mark.skipif(not IS_COMPILED, reason="installed without a C compiler")
SAMPLE = Path(__file__).parents[2] / "sample_traces/torch/training.rank0.json"

USUAL = (
    b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":12.345,"dur":6,'
    b'"args":{"correlation":5,"grid":[1,2,3],"stream":7}}'
)


def test_ci_tests_the_compiled_scanner() -> None:
    assert IS_COMPILED or "TRACEROOF_CI" not in os.environ


def scanned(text: bytes) -> tuple[int, Fold]:
    """How much of a text of events is taken, and what that is."""
    scan, fold = Scan(), Fold()
    place = scan.pass_over(bytearray(text), 0, len(text))
    taken = scan.taken()
    if taken:
        scan.fold(fold, taken)
    return place, fold


def decoded(text: bytes) -> Fold:
    """What the decoder makes of a text of events."""
    fold = Fold()
    fold_events(fold, Decoder()(b"[" + text + b"]"))
    return fold


def plain(fold: Fold) -> dict[str, Any]:
    """All that is in a fold, with texts for codes, the rows of each table in no order that means
    anything."""
    interned = {
        "name": fold.names, "line": fold.names, "thread": fold.threads, "launch": fold.launches,
        "signature": fold.signatures, "category": fold.event_categories, "grid": fold.texts,
        "block": fold.texts, "what": fold.collectives,
    }  # fmt: skip

    def rows(table: Columns) -> list[dict[str, str]]:
        columns = {}
        for name in table._columns:
            values = table.peek(name).tolist()
            if name in interned:
                things = list(interned[name])
                values = [things[code] for code in values]
            columns[name] = [repr(one) for one in values]
        return [dict(zip(columns, one, strict=True)) for one in zip(*columns.values(), strict=True)]

    tables = {name: rows(one) for name, one in vars(fold).items() if isinstance(one, Columns)}
    for name, of in (
        ("gpu_collectives", "gpu"), ("operator_collectives", "operators"),
        ("operator_lines", "operators"), ("shaped_calls", "calls"),
    ):  # fmt: skip
        for row in tables.pop(name):
            at = row.pop("call") if name == "shaped_calls" else row.pop("row")
            tables[of][int(at)] |= {f"{name}.{key}": value for key, value in row.items()}
    return {
        "categories": {one: count for one, count in fold.categories.items() if count},
        "counts": {one: count for one, count in fold.counts.items() if count},
        **{name: sorted(map(str, one)) for name, one in tables.items()},
    }


# ------------------------------------------------------------------------------------------------
# The same as decoding

_TEXTS = st.sampled_from(
    ["", "k", "aten::mm", "nn.Module: Linear_0", "train.py(3): main", 'a"b\\c', "\u00e9\u4e2d\U0001f600",
     "\n\t", "long name " * 9, "record_param_comms", "12", "0x7", "-1.5"]
)  # fmt: skip
_NUMBERS = st.one_of(
    st.integers(-(10**6), 10**6),
    st.integers(0, 1 << 64),
    st.sampled_from(
        [0, -0.0, 1.5, 0.001, 12.345, 1e300, 1e-7, 3.14159, 1661203462598738.125, 8e18]
    ),
    st.integers(0, 10**16).map(lambda ns: ns / 1000),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=2)
    ),
    max_leaves=4,
)
_CATEGORIES = st.sampled_from(
    ["kernel", "gpu_memcpy", "cuda_runtime", "cpu_op", "Operator", "python_function", "ac2g",
     "user_annotation", "cuda_sync", "Memset", "something", ""]
)  # fmt: skip
_ARGS = st.dictionaries(
    st.sampled_from(
        ["correlation", "stream", "device", "grid", "block", "bytes", "size", "rank", "Call stack",
         "Input Dims", "Input dims", "Input type", "Concrete Inputs", "Sequence number", "finished",
         "Collective name", "In msg nelems", "Process Group Name", "External id", "shared memory"]
    ),
    _VALUES,
    max_size=6,
)  # fmt: skip
_WELL_FORMED = st.fixed_dictionaries(
    {
        "ph": st.sampled_from(["X", "X", "X", "i", "M"]),
        "cat": _CATEGORIES,
        "name": _TEXTS,
        "pid": st.one_of(st.integers(0, 9), _TEXTS),
        "tid": st.integers(0, 1 << 20),
        "ts": _NUMBERS,
        "dur": _NUMBERS,
        "args": _ARGS,
    }
)
_ANY = st.dictionaries(
    st.sampled_from(["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id"]), _VALUES
)
_LAYOUTS = st.sampled_from([{"separators": (",", ":")}, {}, {"indent": 2}, {"ensure_ascii": False}])


def texts(events: list[dict[str, Any]], layout: dict[str, Any]) -> Iterator[bytes]:
    for event in events:
        yield json.dumps(event, **layout).encode()


@compiled
@settings(max_examples=1500, deadline=None)
@given(st.lists(st.one_of(_WELL_FORMED, _WELL_FORMED, _ANY), max_size=6), _LAYOUTS)
def test_events_are_taken_as_they_would_be_decoded(
    events: list[dict[str, Any]], layout: dict[str, Any]
) -> None:
    """GIVEN any events WHEN scanned THEN what is taken is a number of whole events, and the tables
    are those of the decoder."""
    parts = list(texts(events, layout))
    text = b", ".join(parts)
    place, fold = scanned(text)
    ends = [len(b", ".join(parts[:count])) for count in range(len(parts) + 1)]
    assert place in ends
    assert plain(fold) == plain(decoded(text[:place]))


@compiled
@pytest.mark.parametrize("name", ["training.rank0.json", "decode.json"])
def test_all_of_a_trace_is_usual(name: str) -> None:
    """GIVEN a trace in Kineto's layout WHEN scanned THEN all events are taken."""
    events = json.loads(SAMPLE.with_name(name).read_text())["traceEvents"]
    text = b",\n".join(texts(events, {"indent": 2}))
    place, fold = scanned(text)
    assert place == len(text)
    assert plain(fold) == plain(decoded(text))
    assert fold.categories.total() == len(events)


@compiled
def test_damaged_text_is_taken_up_to_the_damage_at_most() -> None:
    """GIVEN events with bytes changed, lost or added at random WHEN scanned THEN what is taken is
    what the decoder reads in those bytes."""
    source = random.Random(1)
    events = json.loads(SAMPLE.read_text())["traceEvents"]
    text = b",\n".join(texts(source.sample(events, 60), {}))
    marks = b'{}[]",:\\0-.eE \n\xc3\x28\xff\x00tfn'
    stopped = 0
    for _ in range(3000):
        damaged = bytearray(text)
        for _ in range(source.choice((1, 1, 2, 5))):
            at = source.randrange(len(damaged))
            match source.randrange(3):
                case 0:
                    damaged[at] = source.choice(marks)
                case 1:
                    del damaged[at]
                case _:
                    damaged.insert(at, source.choice(marks))
        place, fold = scanned(bytes(damaged))
        stopped += place < len(damaged)
        assert plain(fold) == plain(decoded(bytes(damaged[:place])))
    assert stopped > 1000


@compiled
def test_no_byte_beyond_the_end_is_looked_at() -> None:
    """GIVEN events cut anywhere WHEN scanned THEN the whole ones are taken."""
    text = b",".join([USUAL, USUAL.replace(b'"k"', b'"\xc3\xa9\\u00e9"'), USUAL])
    whole = [at + 1 for at in range(len(text)) if text[at : at + 1] == b"}" and text[at - 1] == 125]
    for end in range(len(text) + 1):
        buffer = bytearray(text)
        place = Scan().pass_over(buffer, 0, end)
        assert place == max((one for one in whole if one <= end), default=0)


# ------------------------------------------------------------------------------------------------
# What is not usual


@compiled
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"ts":12.345', b'"ts":12.3456'),
        (b'"ts":12.345', b'"ts":1e3'),
        (b'"ts":12.345', b'"ts":"12"'),
        (b'"ts":12.345', b'"ts":012'),
        (b'"ts":12.345', b'"ts":9223372036854775.808'),
        (b'"ts":12.345', b'"ts":null'),
        (b'"ts":12.345', b'"ts":.5'),
        (b'"ts":12.345', b'"ts":5.'),
        (b'"ts":12.345,', b""),
        (b'"ph":"X"', b'"ph":"i"'),
        (b'"ph":"X"', b'"ph":1'),
        (b'"ph":"X",', b""),
        (b'"ph"', b'"\\u0070h"'),
        (b'"cat":"kernel"', b'"cat":"other"'),
        (b'"cat":"kernel"', b'"cat":""'),
        (b'"cat":"kernel"', b'"cat":null'),
        (b'"cat":"kernel"', b'"cat":"kernel","cat":"kernel"'),
        (b'"name":"k"', b'"name":5'),
        (b'"name":"k"', b'"name":"\\ud800"'),
        (b'"name":"k"', b'"name":"\xed\xa0\x80"'),
        (b'"name":"k"', b'"name":"\xc3"'),
        (b'"name":"k"', b'"name":"a\nb"'),
        (b'"name":"k"', b'"name":"\\x"'),
        (b'"name":"k"', b'"name":"k","args":{}'),
        (b'"pid":0', b'"pid":0.5'),
        (b'"pid":0', b'"pid":[]'),
        (b'"correlation":5', b'"correlation":5.5'),
        (b'"correlation":5', b'"correlation":"0x5"'),
        (b'"correlation":5', b'"correlation":5,"correlation":6'),
        (b'"correlation":5', b'"correlation":5,'),
        (b'"correlation":5', b'"correlation":12345678901234567890'),
        (b'"correlation":5', b'"correlation":true'),
        (b"[1,2,3]", b"[1,2,3}"),
        (b"[1,2,3]", b"[1,2,3,]"),
        (b"[1,2,3]", b"[" * 65 + b"]" * 65),
        (b"[1,2,3]", b"nul"),
        (b'{"ph"', b'{,"ph"'),
        (b'{"ph"', b'["ph"'),
    ],
)
def test_what_is_not_usual_is_left(old: bytes, new: bytes) -> None:
    """GIVEN an event with something unusual behind a usual one THEN only that one is taken."""
    other = USUAL.replace(old, new, 1)
    assert other != USUAL
    text = USUAL + b" ,\n" + other + b"," + USUAL
    place, fold = scanned(text)
    assert (place, fold.gpu.rows) == (len(USUAL), 1)


@compiled
def test_times_are_exact() -> None:
    """GIVEN microseconds as they are written since 1970 THEN they are whole nanoseconds."""
    given = ["1712195495519689.047", "0.001", "-5.5", "7", "9223372036854775.807", "0.100000"]
    text = b",".join(USUAL.replace(b"12.345", one.encode()) for one in given)
    _, fold = scanned(text)
    assert fold.gpu.peek("start").tolist() == [
        1712195495519689047, 1, -5500, 7000, 9223372036854775807, 100,
    ]  # fmt: skip


@compiled
def test_a_part_of_a_buffer_outside_of_it_is_refused() -> None:
    scanner = _compiled([])
    assert scanner is not None
    for start, end in ((-1, 1), (2, 1), (0, 5)):
        with pytest.raises(ValueError, match="no such part"):
            scanner.scan(bytearray(b"{}{}"), start, end)
    with pytest.raises(IndexError):
        scanner.texts(0, 0, 0)


@compiled
def test_many_texts_have_their_codes() -> None:
    """GIVEN 5,000 names in several turns WHEN folded in between THEN each row has its own name."""
    scan, fold = Scan(), Fold()
    names = [f"kernel_{(at * 7919) % 5000}" for at in range(20_000)]
    for first in range(0, len(names), 1000):
        events = [
            USUAL.replace(b'"k"', json.dumps(one).encode()) for one in names[first : first + 1000]
        ]
        text = b",".join(events)
        assert scan.pass_over(bytearray(text), 0, len(text)) == len(text)
        if first % 3000 == 0:
            taken = scan.taken()
            assert taken
            scan.fold(fold, taken)
    taken = scan.taken()
    assert taken
    scan.fold(fold, taken)
    known = np.array(list(fold.names), dtype=object)
    assert known[fold.gpu.peek("name")].tolist() == names


def test_the_decoder_is_stricter_nowhere() -> None:
    """What the scanner stops at is read by the decoder, so that nothing usual is lost."""
    with pytest.raises(msgspec.MsgspecError):
        decoded(b'{"ph":"X"')
    assert decoded(USUAL.replace(b"12.345", b"12.3456")).gpu.rows == 1
