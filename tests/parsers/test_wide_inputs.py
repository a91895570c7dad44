"""Inputs that are extreme in one dimension: read, or refused in one sentence, in little memory."""

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import traceroof
from traceroof.errors import TraceroofError

EVENT = (
    '{"ph":"X","cat":"kernel","name":"k%d","pid":0,"tid":7,"ts":%d,"dur":5,'
    '"args":{"device":0,"stream":7%s}}'
)
AMD = "Kind,Agent_Id,Queue_Id,Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp"


def _trace(*texts: str) -> bytes:
    return ('{"traceEvents":[' + ",\n".join(texts) + "]}").encode()


def _deep(opening: str, closing: str) -> bytes:
    """Three kernels, the second with an argument that is nested 100,000 levels."""
    nested = ',"x":' + opening * 100_000 + closing * 100_000
    return _trace(EVENT % (0, 10, ""), EVENT % (1, 20, nested), EVENT % (2, 30, ""))


def _long_name(length: int) -> bytes:
    return _trace((EVENT % (0, 10, "")).replace("k0", "k" * length), EVENT % (1, 20, ""))


def _zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return packed.getvalue()


def _matryoshka() -> bytes:
    """An archive within an archive, 50 times."""
    data = b"x"
    for _ in range(50):
        data = _zipped({"a.zip": data})
    return data


# File -> its bytes, and how many kernel launches are read of it, or a word of why none is.
WIDE: dict[str, tuple[Callable[[], bytes], int | str]] = {
    "lists.json": (lambda: _deep("[", "]"), 2),
    "objects.json": (lambda: _deep('{"x":', "}").replace(b'"x":}', b'"x":1}'), 2),
    "metadata_nested.json": (
        lambda: (
            _trace(EVENT % (0, 10, ""))[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        ),
        1,
    ),
    "metadata_events.json": (
        lambda: _trace(
            EVENT % (0, 10, ""),
            *(
                f'{{"ph":"M","name":"thread_name","pid":{at},"tid":{at},"args":{{"name":"{at}"}}}}'
                for at in range(20_000)
            ),
        ),
        1,
    ),
    # An event is given up beyond 1 MB.
    "name_of_half_a_MB.json": (lambda: _long_name(500_000), 2),
    "name_of_10_MB.json": (lambda: _long_name(10_000_000), 1),
    "only_a_name_of_10_MB.json": (
        lambda: _trace((EVENT % (0, 10, "")).replace('"name":"', '"name":"' + "k" * 10_000_000, 1)),
        "broken, or longer than 1 MB",
    ),
    "nested_results.json": (
        lambda: b'{"rocprofiler-sdk-tool":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
        "nested too deep",
    ),
    "spaces.json.gz": (lambda: gzip.compress(b'{"traceEvents":[' + b" " * 10**7), "cut short"),
    "zeros.json.gz": (lambda: gzip.compress(bytes(10**7)), ""),
    "1_kernel_trace.csv": (
        lambda: (
            f"{AMD},{','.join(f'C{at}' for at in range(100_000))}\n"
            f"KERNEL_DISPATCH,Agent 2,1,1,k,1000,2000{',1' * 100_000}\n"
        ).encode(),
        "more than 20,000 columns",
    ),
    "members.zip": (lambda: _zipped({f"{at}.txt": b"x" for at in range(5_000)}), "5000 files"),
    "archives.zip": (_matryoshka, "holds a packed zip archive"),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDE)
def test_what_is_extreme_in_one_way_is_read_or_refused(name: str, tmp_path: Path) -> None:
    """GIVEN a file of extreme depth, width or number WHEN read THEN what is sound of it is there, or
    one sentence says why not."""
    make, expected = WIDE[name]
    path = tmp_path / name
    path.write_bytes(make())
    if isinstance(expected, int):
        assert traceroof.read(path).recording.kernels.num_rows == expected
        return
    with pytest.raises(TraceroofError) as refused:
        traceroof.read(path)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)
