"""`traceroof mcp` on a large trace: progress, other calls meanwhile, cancellation.

    python benchmarks/mcp_large.py [MB]       1,000 by default

The trace is made in a moment: a gzip file may have many members, so one is repeated.
"""

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.mcp.traces import large_trace


async def _measure(folder: Path, trace: Path) -> None:
    arguments = ["-m", "traceroof", "mcp", "--root", str(folder), "--store", str(folder / "store")]
    server = StdioServerParameters(command=sys.executable, args=[*arguments, "--no-config"])
    async with Client(server) as client:
        told: list[float] = []
        waited: list[float] = []
        ended = anyio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            told.append(time.monotonic())

        async def look() -> None:
            """Other calls while the trace is read."""
            while not ended.is_set():
                began = time.monotonic()
                await client.call_tool("list", {"what": "rules"})
                waited.append(time.monotonic() - began)
                await anyio.sleep(1)

        began = time.monotonic()
        async with anyio.create_task_group() as beside:
            beside.start_soon(look)
            result = await client.call_tool(
                "diagnose", {"paths": [trace.name]}, progress_callback=hear
            )
            ended.set()
        if result.is_error:
            raise SystemExit(str(result.content))
        gaps = [later - one for one, later in pairwise(told)]
        print(f"answered after {told[-1] - began:.1f} s: {result.structured_content['totals']}")
        print(f"progress told {len(told)} times, at most {max(gaps):.1f} s apart")
        print(f"{len(waited)} other calls meanwhile, at most {max(waited):.2f} s each")
        trace.touch()  # read it again
        with anyio.move_on_after(3):
            await client.call_tool("diagnose", {"paths": [trace.name]})
        began = time.monotonic()
        await client.call_tool("list", {"what": "runs"})
        print(f"next answer {time.monotonic() - began:.2f} s after a cancelled call")


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        anyio.run(_measure, folder, large_trace(folder / "trace.json.gz", megabytes))


if __name__ == "__main__":
    main()
