"""Files in the shape of other tools' output: what each is, and what to give in its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from traceroof.errors import TraceroofError
from traceroof.ingest.detect import read


def event(cat: str, name: str, pid: object = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": 1, "dur": 2, "pid": pid, "tid": 1,
            "args": args}  # fmt: skip


OPERATOR = event("cpu_op", "aten::mm")
NPU = {"ph": "X", "name": "MatMulV2", "ts": "17.1", "dur": 2, "pid": 2, "tid": 3,
       "args": {"Task Type": "AI_CORE", "Stream Id": 3}}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words", "instead"),
    [
        # ONNX Runtime built with CUPTI: kernels beside the nodes.
        ([event("Node", "Conv_0_kernel_time", provider="CUDAExecutionProvider"),
          event("Kernel", "implicit_convolve_sgemm", stream="0x7")], "ONNX Runtime", "nsys"),
        ([event("Session", "model_loading_uri")], "ONNX Runtime", "nsys"),
        ([NPU, event("", "AscendCL@aclnnMatmul")], "Ascend", "msprof-analyze"),
        ({"traceEvents": [OPERATOR, event("async_npu", "torch_to_npu"), NPU]}, "Ascend", "msprof"),
        # chrometracing_logger.cc: the version is text.
        ({"schemaVersion": "1.0.1", "displayTimeUnit": "ms", "span_indx": "0",
          "traceEvents": [event("Kernel", "k[0.1 ms]", device=0, stream=7)]}, "PaddlePaddle", "nsys"),
        ({"traceEvents": [event("CNRT API", "cnInvokeKernel"), event("Kernel", "MLUUnion1")]},
         "Cambricon", "torch_mlu"),
        ({"traceEvents": [event("MUSA_API", "musaLaunchKernel"), event("MUSA Kernel", "gemm")]},
         "Moore Threads", "torch_musa"),
        ({"traceEvents": [event("cnrt", "cnInvokeKernel"), event("kernel", "k")]},
         "Cambricon", "torch_mlu"),
        # Of Intel's GPUs the advice is PyTorch's for them.
        ({"schemaVersion": 1, "traceEvents": [OPERATOR, event("xpu_runtime", "urDeviceGet")]},
         "ran on the CPU", "ProfilerActivity.XPU"),
        ({"schemaVersion": 1, "traceEvents": [event("mtia_runtime", "launch"),
                                              event("mtia_ccp_events", "fc")]}, "MTIA", "on a GPU"),
        ({"schemaVersion": 1, "traceEvents": [event("privateuse1_driver", "hpu::gemm")]},
         "PrivateUse1", "on a GPU"),
        ({"schema": "1.0.1", "nodes": [{"name": "[pytorch|profiler|execution_graph|process]"}]},
         "execution trace", "Kineto"),
        ({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True},
          "traceEvents": [event("", "fusion.1")]}, "XLA", "xplane.pb"),
        ({"schemaVersion": 1, "traceEvents": [event("cuda_profiler_range", "__aten_mm")]},
         "ranges of CUPTI counters", "without experimental_config"),
        ({"schemaVersion": 1, "traceEvents": [event("cpu_instant_event", "[memory]")]},
         "events of the memory allocator only", "ProfilerActivity.CUDA"),
        ("Step Id,Device_id,Name,Type,OP State,Accelerator Core,Start Time(us)\n", "Ascend", "msprof"),
        ("Device_id,OP Type,Core Type,Count,Total Time(us)\n", "Ascend", "msprof-analyze"),
        ("---  ---\n   Name    Self CPU %   Self CPU\n---  ---\naten::mm  10.00%  10us\n",
         "a printed table of torch.profiler", "export_chrome_trace"),
        ("20.104 ROOT\n├─ 11.203 layer1\n└─ 8.901 layer2\n", "proton-viewer", ".hatchet"),
        ("+-----+\n| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2 |\n",
         "nvidia-smi", "--query-gpu"),
    ],
)  # fmt: skip
def test_what_it_is_and_what_to_give(
    content: Any, words: str, instead: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(TraceroofError) as refused:
        read([path])
    assert words in refused.value.message
    assert instead in (refused.value.hint or "")
