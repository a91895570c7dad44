"""What comes out of a file, whatever it is packed in, and what is refused."""

import bz2
import gzip
import io
import os
import random
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from traceroof.cli.main import app
from traceroof.errors import TraceroofError
from traceroof.ingest import decompress
from traceroof.parser import Options

# Long enough for several reading steps once packed, and not compressible to nothing.
TEXT = b"\n".join(b"%d,%x" % (i, hash((i, i))) for i in range(40_000))


DEFAULTS = Options()


def read(path: Path, options: Options = DEFAULTS) -> tuple[bytes, list[str]]:
    with decompress.open_inflated(path, options) as stream:
        data = stream.read()
        return data, [note.text for note in stream.notes]


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "trace.bin"
        path.write_bytes(content)
        return path

    return write


@pytest.fixture(params=["isal", "zlib"])
def both_inflaters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "zlib":
        monkeypatch.setattr(decompress, "_inflater", lambda: (zlib.decompressobj, zlib.error))


def zipped(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def bzipped(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr(name, content)
    return out.getvalue()


def tarred(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


PACKED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT),
    "gzip in gzip": gzip.compress(gzip.compress(TEXT)),
    "concatenated gzip": gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:]),
    "an empty member first": gzip.compress(b"") + gzip.compress(TEXT),
    "zeros between and after": gzip.compress(TEXT[:9])
    + b"\0" * 99
    + gzip.compress(TEXT[9:])
    + b"\0",
    "zip": zipped(("a/trace.json", TEXT)),
    "zip with a folder and a twin": zipped(("a/", b""), ("a/t", TEXT), ("__MACOSX/a/._t", b"x")),
    "gzip in zip": zipped(("trace.json.gz", gzip.compress(TEXT))),
    "tar": tarred(("trace.json", TEXT)),
    "tar.gz with a twin": gzip.compress(tarred(("a/._t", b"x"), ("a/t", TEXT))),
    "gzip in tar.gz": gzip.compress(tarred(("t.gz", gzip.compress(TEXT)))),
}


@pytest.mark.usefixtures("both_inflaters")
@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED.keys())
def test_the_same_bytes_come_out_of_every_packing(
    packed: bytes, file: Callable[[bytes], Path]
) -> None:
    path = file(packed)
    assert read(path) == (TEXT, [])
    assert decompress.head(path, 100) == TEXT[:100]
    with decompress.open_inflated(path, Options()) as stream:
        assert stream.plain == (packed == TEXT)
        # A small buffer, filled again and again, gives the same as one read.
        buffer, parts = bytearray(777), []
        while count := stream.readinto(buffer):
            parts.append(bytes(buffer[:count]))
        assert b"".join(parts) == TEXT
        assert stream.consumed <= len(packed)


def test_text_can_be_read_through_it(file: Callable[[bytes], Path]) -> None:
    with (
        decompress.open_inflated(file(gzip.compress(TEXT)), Options()) as stream,
        io.TextIOWrapper(stream, "utf-8") as text,
    ):
        assert [line.rstrip("\n") for line in text] == TEXT.decode().split("\n")


@pytest.mark.usefixtures("both_inflaters")
def test_gzip_cut_at_any_byte_gives_what_comes_before(file: Callable[[bytes], Path]) -> None:
    # GIVEN a gzip of two members WHEN it ends at any of its bytes THEN what comes out is the
    # start of the text, never shrinks as more of the file is there, and a cut is noted.
    text = TEXT[:3000]
    first = gzip.compress(text[:1500])
    packed = first + gzip.compress(text[1500:])
    longest, refused = 0, list[str]()
    for cut in range(3, len(packed)):
        path = file(packed[:cut])
        try:
            data, notes = read(path)
        except TraceroofError as error:
            refused.append(error.message)
            assert longest == 0
            continue
        assert text.startswith(data)
        assert len(data) >= longest
        longest = len(data)
        if cut == len(first):
            assert notes == []
        elif cut in (len(first) + 1, len(first) + 2):
            assert notes == ["bytes that follow the end of the gzip data ignored"]
        else:
            assert notes == ["gzip data cut short: only what comes before the cut was read"]
    assert longest == len(text)
    assert all(message.endswith("cut short: nothing of it can be unpacked") for message in refused)


def test_two_magic_bytes_are_not_gzip(file: Callable[[bytes], Path]) -> None:
    assert read(file(b"\x1f\x8b")) == (b"\x1f\x8b", [])


def test_bytes_behind_the_gzip_data_are_noted(file: Callable[[bytes], Path]) -> None:
    assert read(file(gzip.compress(TEXT) + b"]}\n")) == (
        TEXT,
        ["bytes that follow the end of the gzip data ignored"],
    )


@pytest.mark.usefixtures("both_inflaters")
def test_damage_in_the_middle_gives_the_start(file: Callable[[bytes], Path]) -> None:
    noise = random.Random(3).randbytes(1 << 20)  # does not compress: damage lies where we put it
    packed = bytearray(gzip.compress(noise))
    packed[-8:] = b"\0" * 8  # the checksum
    data, notes = read(file(bytes(packed)))
    assert noise.startswith(data)
    assert len(data) > len(noise) - 2 * (1 << 16)
    assert notes == ["damaged gzip data: nothing after the damage was read"]


def test_a_checksum_that_is_wrong_in_a_small_file_is_refused(file: Callable[[bytes], Path]) -> None:
    packed = bytearray(gzip.compress(b"short"))
    packed[-5] ^= 1
    with pytest.raises(TraceroofError, match="damaged gzip data: nothing of it can be unpacked"):
        read(file(bytes(packed)))


REFUSED = {
    "empty": (b"", "is empty"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
    "zstd": (b"\x28\xb5\x2f\xfd" + b"x" * 9, "compressed with zstd"),
    "bzip2": (bz2.compress(b"text"), "compressed with bzip2"),
    "several in a zip": (zipped(("a", b"1"), ("b", b"2")), r"archive of 2 files \(a, b\)"),
    "many in a zip": (
        zipped(*((str(i), b"") for i in range(8))),
        r"8 files \(0, 1, 2, 3, 4 and 3 more\)",
    ),
    "none in a zip": (zipped(), "without a file"),
    "a zip packed with bzip2": (bzipped("a", TEXT), "compression method is number 12"),
    "a cut zip": (zipped(("a", TEXT))[:-30], "cut short or damaged"),
    "several in a tar": (tarred(("a", TEXT), ("b", b"2")), r"archive of 2 files \(a, b\)"),
    "none in a tar.gz": (gzip.compress(tarred(("._a", b"1"))), "without a file"),
    "a zip in a gzip": (gzip.compress(zipped(("a", b"1"))), "holds a packed zip"),
    "gzip five times over": (
        gzip.compress(gzip.compress(gzip.compress(gzip.compress(gzip.compress(b"x"))))),
        "packed more than 4 times",
    ),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(
    content: bytes, message: str, file: Callable[[bytes], Path]
) -> None:
    path = file(content)
    with pytest.raises(TraceroofError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_bzip2_magic_in_a_text_is_text(file: Callable[[bytes], Path]) -> None:
    assert read(file(b"BZhang,12")) == (b"BZhang,12", [])


def test_missing_folder_and_pipe(tmp_path: Path) -> None:
    with pytest.raises(TraceroofError, match="does not exist"):
        read(tmp_path / "nowhere")
    with pytest.raises(TraceroofError, match="is a folder"):
        read(tmp_path)
    assert decompress.head(tmp_path, 9) == b""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceroofError, match="is a pipe or a device"):
        read(tmp_path / "pipe")
    with pytest.raises(TraceroofError, match="cannot be opened"):
        read(tmp_path / ("n" * 300))


def test_a_file_that_may_not_be_read(
    file: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may read everything, so the refusal is the operating system's word, given for it.
    path = file(b"x")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TraceroofError, match="may not be read by this user"):
        read(path)


def test_a_bomb_is_refused_by_its_growth_and_can_be_allowed(file: Callable[[bytes], Path]) -> None:
    size = 80 << 20
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
    path = file(bomb)
    with pytest.raises(TraceroofError, match="is more than 200 times larger"):
        read(path)
    assert len(read(path, Options(max_inflation=2000))[0]) == size
    with pytest.raises(TraceroofError, match="is more than 200 times larger"):
        read(file(gzip.compress(bomb)))
    with pytest.raises(TraceroofError, match="is more than 200 times larger"):
        read(file(zipped(("a", bytes(size)))))
    # Looking at the first bytes inflates no more than them.
    assert decompress.head(path, 10) == bytes(10)


@pytest.mark.parametrize("packed", [gzip.compress(TEXT), zipped(("a", TEXT))], ids=["gzip", "zip"])
def test_the_size_limit_is_on_the_output(packed: bytes, file: Callable[[bytes], Path]) -> None:
    path = file(packed)
    assert read(path, Options(max_inflated_bytes=len(TEXT)))[0] == TEXT
    with pytest.raises(TraceroofError, match="unpacks to more than"):
        read(path, Options(max_inflated_bytes=len(TEXT) - 1))
    # A plain file is as large as it is: no limit.
    assert read(file(TEXT), Options(max_inflated_bytes=10))[0] == TEXT


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.binary(max_size=200_000), max_size=4),
    levels=st.lists(st.integers(0, 9), min_size=5, max_size=5),
    size=st.integers(1, 300_000),
)
def test_any_members_in_any_read_size(
    parts: list[bytes], levels: list[int], size: int, tmp_path: Path
) -> None:
    path = tmp_path / "any.gz"
    parts = [b"{", *parts]  # a start that is no magic of another packing
    path.write_bytes(
        b"".join(gzip.compress(p, level) for p, level in zip(parts, levels, strict=False))
    )
    whole = b"".join(parts)
    with decompress.open_inflated(path, Options()) as stream:
        out = b"".join(iter(lambda: stream.read(size), b""))
    assert out == whole
    assert stream.notes == ()


@pytest.mark.fuzz
@pytest.mark.parametrize("name", [name for name in PACKED if name != "plain"])
def test_any_mutation_ends_in_bytes_or_a_clear_error(
    name: str, file: Callable[[bytes], Path]
) -> None:
    rounds = int(os.environ.get("TRACEROOF_FUZZ", "200"))
    random_ = random.Random(name)
    small = {
        "gzip": gzip.compress(TEXT[:2000]),
        "zip": zipped(("a", TEXT[:2000])),
        "tar": tarred(("a", TEXT[:2000])),
    }
    original = small.get(name, PACKED[name])
    for _ in range(rounds):
        content = bytearray(original)
        for _ in range(random_.randrange(1, 5)):
            at = random_.randrange(len(content))
            match random_.randrange(3):
                case 0:
                    content[at] = random_.randrange(256)
                case 1:
                    del content[at : at + random_.randrange(1, 50)]
                case _:
                    content[at:at] = random_.randbytes(random_.randrange(1, 50))
        try:
            data, _notes = read(file(bytes(content)))
        except TraceroofError:
            continue
        assert isinstance(data, bytes)


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("ingest", []),
        ("diagnose", []),
        ("report", []),
        ("compare", ["{path}"]),
        ("export", ["-o", "kernels.csv"]),
        ("calibrate", []),
    ],
)
def test_every_command_that_reads_files_takes_both_limits(
    command: str,
    more: list[str],
    samples: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GIVEN a gzip that is within the defaults WHEN less is allowed THEN each command refuses it
    and names the option that it takes."""
    monkeypatch.setattr(decompress, "_GROWTH_FLOOR", 0)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "decode.json.gz"
    path.write_bytes(gzip.compress((samples / "torch/decode.json").read_bytes()))
    arguments = [command, str(path), *(one.format(path=path) for one in more)]

    def refusal(*options: str) -> str:
        found = CliRunner().invoke(app, [*arguments, *options]).exception
        return f"{found.message}: {found.hint}" if isinstance(found, TraceroofError) else ""

    growing = refusal("--max-inflation", "1")
    assert "is more than 1 times larger" in growing
    assert "--max-inflation FACTOR" in growing
    assert "unpack" not in refusal("--max-inflated", "1")
    assert CliRunner().invoke(app, [*arguments, "--max-inflated", "0"]).exit_code == 2
