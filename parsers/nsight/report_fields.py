"""The messages of a ``.ncu-rep`` report: their fields by number."""

from functools import cache
from typing import Any

from traceroof.ingest.messages import messages

# Field numbers as observed in reports of 2020.1 to 2026.2; what is not named is not read. Metrics
# (Metric) and their instances (Instance) stay bytes: there are millions (``report_metrics``). Rules do
# too: launches of one kernel repeat most of them.
DESCRIBED = {
    "FileHeader": "1 version uint32",
    "BlockHeader": """
        1 sources uint64
        2 results uint64
        4 strings Strings
        5 payload uint64
        6 process Process
        7 ranges uint64
    """,
    "Strings": "1 texts *string",
    "Process": """
        1 id uint64
        3 name string
    """,
    "Result": """
        1 thread uint64
        5 mangled string
        6 function string
        7 demangled string
        10 grid Extent
        11 block Extent
        13 metrics *bytes
        15 source SourceKey
        19 rules *bytes
        21 nvtx Nvtx
        22 context uint64
        23 stream uint64
    """,
    "SourceKey": "1 reference uint64",
    "Module": """
        1 reference uint64
        4 image string
        9 loaded Loaded
    """,
    "Loaded": """
        1 functions *Placed
        2 data *Placed
    """,
    "Placed": """
        1 name string
        2 address uint64
        3 symbol uint64
    """,
    "Extent": """
        1 x uint64
        2 y uint64
        3 z uint64
    """,
    "Metric": """
        1 name uint64
        2 value Value
        3 instances *bytes
    """,
    "ListedMetric": """
        1 name uint64
        2 value Value
        3 instances *Instance
    """,
    "Value": """
        1 text string
        2 single float
        3 real double
        4 small uint64
        5 whole uint64
    """,
    "Instance": """
        1 at Value
        2 value Value
    """,
    "Rule": """
        1 name string
        3 body RuleBody
        4 section string
    """,
    "RuleBody": "1 items *RuleItem",
    "RuleItem": """
        1 message RuleMessage
        10 speedup Speedup
    """,
    "RuleMessage": """
        1 text string
        2 level uint64
    """,
    "Speedup": """
        1 scope uint64
        2 percent double
    """,
    "Nvtx": """
        1 domains *NvtxDomain
        2 threads *NvtxThread
    """,
    "NvtxDomain": """
        1 id uint64
        2 name string
    """,
    "NvtxThread": "2 stacks *NvtxStack",
    "NvtxStack": """
        1 domain uint64
        3 ranges *NvtxRange
    """,
    "NvtxRange": "1 name string",
}


@cache
def report_messages() -> Any:
    """The message classes of a report, by name."""
    return messages("traceroof.ncu_rep", DESCRIBED)
