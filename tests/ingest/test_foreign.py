"""Files of tools that traceroof does not read: named, with what to give in their place."""

import gzip
import json
from pathlib import Path

import pytest

from traceroof.errors import TraceroofError
from traceroof.ingest.detect import read
from traceroof.ingest.foreign import foreign, foreign_folder, looks_like

#: What a file of each tool begins with, as its documentation or a public file shows it.
BEGINNINGS = [
    # perfetto's trace.proto: packets (field 1), the first with a clock snapshot (field 6).
    (bytes.fromhex("0a24321d0a0b08061080e4b1f6fcafe3010a0c08011080"), "a Perfetto trace"),
    (bytes.fromhex("0a2a408080c8a19b92f5d9185001321c0a0c08061080ff00"), "a Perfetto trace"),
    (b"\x89HDF\r\n\x1a\n\x00\x00", "in HDF5"),
    (b"PAR1\x15\x04\x15", "a Parquet file"),
    (b"ARROW1\x00\x00", "an Arrow file"),
    (b'{"Type":48,"CudaEvent":{"correlationId":1,"globalTid":"72057844756653436"}}', "JSON lines"),
    (b"\x18\0\0\0\0\0\0\0\xa3\x7fK\x22\x09\0\0\x80\xa8\x1c\xdaA\x1a\rbrain.Event:2", "TensorBoard"),
    (b"Function,CPU Time,CPU Time:Effective Time\nmain,1.2,1.1\n", "VTune"),
    (b"\n=== Device Timing Summary ===\n\n  Total Execution Time (ns):  214649009\n", "unitrace"),
    (b'<?xml version="1.0"?>\n<trace-query-result>\n', "Instruments"),
    (b'{"events":[{"name":"musaLaunchKernel"}]}', "msys"),
    (b'[{"name": "cnInvokeKernel"}]', "cnperf"),
    (b"OTF2\x01\x00", "OTF2"),
    (b'{"segments": [{"device": 0}]}', "memory snapshot"),
    (b'[[1, "PREEXISTING", "x", 1]]', "memory timeline"),
    (b"WARNING: CUPTI initialization failed\nCUPTI_ERROR_INSUFFICIENT_PRIVILEGES\n", "permitted"),
    (b"======== Error: unified memory profiling failed.\n", "log of nvprof"),
    (b"Collecting data...\nFATAL ERROR: permission denied\n", "log of Nsight Systems"),
    (b"\x80\x04\x95\x10\x00", "pickle"),
    (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', "execution trace"),
    (b'[{ "count" : 10 }, { "name" : "conv1", "averageMs" : 0.02 }]', "trtexec"),
    (b"Device_id,Op Name,OP Type,Task Type\n", "Ascend"),
]


@pytest.mark.parametrize(("content", "words"), BEGINNINGS)
def test_a_foreign_file_is_named_with_what_to_give(
    content: bytes, words: str, tmp_path: Path
) -> None:
    """GIVEN the beginning of another tool's file, plain and packed
    WHEN it is read
    THEN one sentence names the tool, and the hint says what to give."""
    for name, data in (("x", content), ("x.gz", gzip.compress(content))):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(TraceroofError) as refused:
            read([path])
        assert words in str(refused.value), name
        assert refused.value.hint


def test_words_of_a_tool_in_a_log_are_no_sign() -> None:
    for text in (b"built with MSYS2 and mingw", b"Elapsed Time: 3 s", b"see the VTune manual"):
        assert foreign(text) is None
        assert "that begins with" in looks_like(text)[0]


def test_a_first_line_without_a_word() -> None:
    for text in (b"\x0c\nmore", b"\x1c\x1d", "\u00a0\n".encode()):
        assert "that begins with" in looks_like(text)[0]


def test_messages_of_another_protobuf_are_no_perfetto_trace() -> None:
    assert foreign(b"\x0a\x05\x0a\x03abc\x00\x00") is None


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("data.vtune", "VTune"),
        ("Trace1.run", "Instruments"),
        ("ASCEND_PROFILER_OUTPUT", "Ascend"),
        ("traces.otf2", "OTF2"),
        ("events.out.tfevents.17.host.1.0", "TensorBoard"),
    ],
)
def test_a_foreign_result_folder_is_named(entry: str, words: str, tmp_path: Path) -> None:
    (tmp_path / entry).write_bytes(b"x")
    found = foreign_folder(tmp_path)
    assert found is not None
    assert words in found.words
    with pytest.raises(TraceroofError, match=words):
        read([tmp_path])


def test_a_folder_of_foreign_files_says_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"segments": [], "device_traces": []}))
    with pytest.raises(TraceroofError, match=r"a\.json looks like a memory snapshot") as refused:
        read([tmp_path])
    assert "torch.profiler" in (refused.value.hint or "")


@pytest.mark.corpus
def test_real_traces_of_perfetto_and_unitrace_are_named(corpus: Path) -> None:
    for path in (corpus / "other" / "pftrace").glob("*trace*"):
        with pytest.raises(TraceroofError, match="a Perfetto trace"):
            read([path])
    for path in (corpus / "other" / "intel").glob("unitrace*"):
        with pytest.raises(TraceroofError, match="unitrace"):
            read([path])
