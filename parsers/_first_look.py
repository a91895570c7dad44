"""A first look at a file: which parsers may know it, so that the modules of the others stay unloaded.

Each look is a fact that every head has which the parser recognises; one that is not listed is always
asked. A head is the first bytes of a file, decompressed.
"""

from collections.abc import Callable, Mapping

from traceroof.ingest.sqlite import MAGIC
from traceroof.parsers.amd.kinds import is_printed, layout


def _is_database(head: bytes) -> bool:
    return head.startswith(MAGIC)


def _is_json(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def _is_array(head: bytes) -> bool:
    return head.lstrip().startswith(b"[")


def _begins_with_events(head: bytes) -> bool:
    return head.lstrip().removeprefix(b"{").lstrip().startswith(b'"traceEvents"')


def _is_no_trace(head: bytes) -> bool:
    """No log and no text holds a Chrome trace from its first byte on."""
    return not (_is_json(head) and any(sign in head for sign in _OF_TRACES))


def _is_binary(head: bytes) -> bool:
    return b"\0" in head[:4096]


def _is_amd_table(head: bytes) -> bool:
    return layout(head) is not None


_OF_TRACES = (b'"traceEvents"', b'"ph":', b'"deviceProperties"')
_OF_NSYS_STATS = (b"Total Time", b"Duration (", b"Total (", b"Operations", b"SKIPPED: ", b"** ")
_OF_NVPROF = (b"NVPROF", b" result:", b"Time(%)", b"Grid ", b'"Kernel",', b'"Stream",')

LOOKS: Mapping[str, Callable[[bytes], bool]] = {
    "amd_counter_list": _is_amd_table,
    "amd_kernel_stats": lambda head: (
        _is_no_trace(head) and (_is_amd_table(head) or is_printed(head))
    ),
    "amd_no_kernels": _is_amd_table,
    "amd_smi": _is_no_trace,
    "dcgmi": _is_no_trace,
    "hipprof": lambda head: _is_database(head) or b'"HIPOPS"' in head or _is_amd_table(head),
    "hy_smi": _is_no_trace,
    "nsight_compute": _is_no_trace,
    "nsight_compute_report": _is_binary,
    "nsight_compute_text": _is_no_trace,
    "nsight_systems": _is_database,
    "nsight_systems_report": _is_binary,
    "nsys_stats": lambda head: _is_no_trace(head) and any(sign in head for sign in _OF_NSYS_STATS),
    "nvidia_smi": _is_no_trace,
    "nvprof": lambda head: _is_no_trace(head) and any(sign in head for sign in _OF_NVPROF),
    "own_output": _is_json,
    "proton": _is_array,
    "rocm_smi": _is_no_trace,
    "rocpd": _is_database,
    "rocprof_compute": _is_amd_table,
    "rocprof_compute_text": lambda head: _is_no_trace(head) and "│".encode() in head,
    "rocprof_v1_csv": _is_amd_table,
    "rocprof_v1_db": _is_database,
    "rocprof_v1_json": _begins_with_events,
    "rocprofv2_csv": _is_amd_table,
    "rocprofv3_csv": _is_amd_table,
    "rocprofv3_json": lambda head: b'"rocprofiler-sdk-tool"' in head,
    "rpd": lambda head: _is_database(head) or _is_array(head),
    "torch_profiler": _is_json,
    "xplane": lambda head: head.startswith(b"\n"),
}
