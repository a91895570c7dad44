"""Recordings for the tests of the HTML report, and a reader of its elements."""

import json
import re
from html.parser import HTMLParser
from typing import Any

from tests.runs import recording
from traceroof.core.recording import Recording

#: Names that are code to a careless page, and what else files hold.
HOSTILE = (
    "</script><script>document.title='x'</script>",
    "<img src=x onerror=document.title='x'>",
    "k<b>bold</b>(int) & <i>x</i>",
    '"><svg onload=document.title="x">',
    "javascript:document.title='x'",
    "{{ 7 * 7 }} {% raw %}",
    "--><!--<script>",
    "a\u202eb\u0007c",
)


def kernels(names: list[str], **columns: Any) -> Recording:
    """One launch of each name, 1 µs longer from one to the one before it; DRAM at its wall."""
    count = len(names)
    return recording(
        {
            "kernel_name": names,
            "duration_ns": [20_000 + 1000 * (count - at) for at in range(count)],
            "sm_throughput_pct": [10.0] * count,
            "memory_throughput_pct": [90.0] * count,
            "dram_throughput_pct": [90.0] * count,
            **columns,
        }
    )


def many(count: int, name_length: int = 120) -> Recording:
    """Distinct kernels with long names and every utilisation, traffic and operation count known."""
    names = [
        f"void cutlass::device_kernel<{at}, {'Tile<int>, ' * (name_length // 11)}int>(Params)"
        for at in range(count)
    ]
    return kernels(
        names,
        l2_throughput_pct=[30.0 + at % 60 for at in range(count)],
        l1_throughput_pct=[20.0 + at % 60 for at in range(count)],
        dram_bytes=[1_000_000 + at for at in range(count)],
        flop_fp32=[500_000 * (1 + at % 90) for at in range(count)],
        peak_dram_bytes_per_s=[2.0e12] * count,
        peak_fp32_flops_per_s=[2.0e13] * count,
        registers_per_thread=[32 + at % 200 for at in range(count)],
        achieved_occupancy_pct=[10.0 + at % 80 for at in range(count)],
        theoretical_occupancy_pct=[50.0 + at % 50 for at in range(count)],
        stall_long_scoreboard=[0.4] * count,
        stall_barrier=[0.1] * count,
    )


def extremes() -> Recording:
    """Kernels from 1e-6 to 1e6 FLOP/byte and up to 2 PFLOP/s: axes of many decades."""
    return kernels(
        ["slow", "fast"],
        duration_ns=[1_000_000_000, 1_000_000],
        dram_bytes=[1_000_000_000, 2_000_000],
        flop_fp32=[1e3, 2e12],
        peak_dram_bytes_per_s=[4e12] * 2,
        peak_fp32_flops_per_s=[3e15] * 2,
    )


def timeline() -> Recording:
    """Two kernels and a copy on one GPU: busy 0-40 and 60-90 µs, idle 20 of 90 µs."""
    return recording(
        {
            "kind": ["kernel", "memcpy", "kernel"],
            "kernel_name": ["first(int)", "Memcpy HtoD", "second(int)"],
            "start_ns": [0, 30_000, 60_000],
            "duration_ns": [30_000, 10_000, 30_000],
            "device": [0, 0, 0],
            "stream": [7, 7, 7],
        },
        time_basis="timeline",
    )


class Elements(HTMLParser):
    """The start tags of a page with their attributes, and the texts of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self._open: tuple[str, dict[str, str | None]] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs)) if tag in ("script", "style") else None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.raw.append((*self._open, data))

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def attributes(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [
            value or "" for _, attrs in self.tags for key, value in attrs.items() if key == name
        ]


def data_of(page: str) -> Any:
    """What the page gives to its script."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])
