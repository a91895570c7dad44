"""What a JSON file of rocprofv3 holds, as far as it is read."""

from typing import Any

import msgspec

from traceroof.core import regex


class Handle(msgspec.Struct):
    handle: int = 0


class Correlation(msgspec.Struct):
    internal: int | None = None


class Size(msgspec.Struct):
    x: int | None = None
    y: int | None = None
    z: int | None = None


class Info(msgspec.Struct):
    agent_id: Handle | None = None
    queue_id: Handle | None = None
    kernel_id: int | None = None
    dispatch_id: int | None = None
    private_segment_size: int | None = None
    group_segment_size: int | None = None
    workgroup_size: Size = msgspec.field(default_factory=Size)
    grid_size: Size = msgspec.field(default_factory=Size)


class Dispatch(msgspec.Struct):
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    correlation_id: Correlation | None = None
    stream_id: Handle | None = None
    dispatch_info: Info = msgspec.field(default_factory=Info)


class Call(msgspec.Struct):
    kind: int | None = None
    operation: int | None = None
    thread_id: int | None = None
    correlation_id: Correlation | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None


class Copy(msgspec.Struct):
    kind: int | None = None
    operation: int | None = None
    correlation_id: Correlation | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    dst_agent_id: Handle | None = None
    src_agent_id: Handle | None = None
    stream_id: Handle | None = None
    bytes: int | None = None


class Value(msgspec.Struct):
    counter_id: Handle = msgspec.field(default_factory=Handle)
    value: float | None = None


class Counted(msgspec.Struct):
    dispatch_data: Dispatch = msgspec.field(default_factory=Dispatch)
    records: list[Value] = []


class Symbol(msgspec.Struct):
    kernel_id: int | None = None
    kernel_name: str | None = None
    formatted_kernel_name: str | None = None
    demangled_kernel_name: str | None = None
    sgpr_count: int | None = None
    arch_vgpr_count: int | None = None
    accum_vgpr_count: int | None = None


class Counter(msgspec.Struct):
    id: Handle = msgspec.field(default_factory=Handle)
    name: str | None = None


class Names(msgspec.Struct):
    kind: str | None = None
    operations: list[str] = []


class Strings(msgspec.Struct):
    buffer_records: list[Names] = []
    pc_sample_instructions: list[str | None] = []
    pc_sample_comments: list[str | None] = []


class ProgramCounter(msgspec.Struct):
    code_object_offset: int | None = None


class Snapshot(msgspec.Struct):
    # The name of the reason, or its number in the tool's list.
    stall_reason: Any = None


class SampleRecord(msgspec.Struct):
    dispatch_id: int | None = None
    pc: ProgramCounter = msgspec.field(default_factory=ProgramCounter)
    wave_issued: Any = None
    snapshot: Snapshot | None = None
    wave_cnt: Any = None


class Sample(msgspec.Struct):
    record: SampleRecord = msgspec.field(default_factory=SampleRecord)
    inst_index: Any = None


class Buffers(msgspec.Struct):
    kernel_dispatch: list[Dispatch] = []
    hip_api: list[Call] = []
    hsa_api: list[Call] = []
    rccl_api: list[Call] = []
    memory_copy: list[Copy] = []
    pc_sample_host_trap: list[Sample] = []
    pc_sample_stochastic: list[Sample] = []


class Callbacks(msgspec.Struct):
    counter_collection: list[Counted] = []


class Metadata(msgspec.Struct):
    pid: int | None = None

    def __post_init__(self) -> None:
        if self.pid is not None and not 0 <= self.pid < 2**63:
            self.pid = None  # no process has it


class Tool(msgspec.Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[dict[str, Any]] = []
    counters: list[Counter] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    callback_records: Callbacks = msgspec.field(default_factory=Callbacks)
    buffer_records: Buffers = msgspec.field(default_factory=Buffers)


class Document(msgspec.Struct):
    tools: list[Tool] = msgspec.field(name="rocprofiler-sdk-tool")


# Each takes a look at the whole document.
_MOST_MISTYPED = 100
_PLACE = regex.compile(r"at `\$([^`]*)`")
_STEP = regex.compile(r"\.([^.\[]+)|\[(\d+)\]")


def tools_of(data: bytes) -> tuple[list[Tool], int]:
    """The processes in a document, without values of another type than belongs there, and how many
    these were. Raises msgspec.DecodeError for what is no such document."""
    try:
        return msgspec.json.decode(data, type=Document).tools, 0
    except msgspec.ValidationError:
        document = msgspec.json.decode(data)
    for mistyped in range(_MOST_MISTYPED):
        try:
            return msgspec.convert(document, Document).tools, mistyped
        except msgspec.ValidationError as error:
            if not _left_out(document, str(error)):
                raise
    return msgspec.convert(document, Document).tools, _MOST_MISTYPED


def _left_out(document: Any, error: str) -> bool:
    """Delete what an error of the decoder points at; False where it points at nothing."""
    place = _PLACE.search(error)
    steps = [name or int(number) for name, number in _STEP.findall(place[1])] if place else []
    if not steps:
        return False
    holder = document
    for step in steps[:-1]:
        holder = holder[step]
    del holder[steps[-1]]
    return True
