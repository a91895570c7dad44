"""Large traces in little time: gzip members repeated, since a gzip file may have many."""

import gzip
import json
import random
from pathlib import Path

_HEAD = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108}],
}
_CHUNK_BYTES = 1_000_000


def large_trace(path: Path, megabytes: int) -> Path:
    """A PyTorch trace of about so many MB, gzipped: kernels of 16 names in groups of 4,000."""
    begin = json.dumps(_HEAD)[:-1] + ', "traceEvents": [\n'
    chunk, last = "".join(_events()), _event(random.Random(2), 99_999_999.0)
    repeated = gzip.compress(chunk.encode(), 1)
    with path.open("wb") as out:
        out.write(gzip.compress(begin.encode(), 1))
        for _ in range(max(megabytes * 1_000_000 // len(chunk), 1)):
            out.write(repeated)
        out.write(gzip.compress(f"{last}\n]}}".encode(), 1))
    return path


def _events() -> list[str]:
    drawn = random.Random(1)
    found, size, at = [], 0, 1_000.0
    while size < _CHUNK_BYTES:
        at += drawn.uniform(1, 100)
        found.append(_event(drawn, round(at, 3)) + ",\n")
        size += len(found[-1])
    return found


def _event(drawn: random.Random, at: float) -> str:
    return json.dumps(
        {
            "ph": "X",
            "cat": "kernel",
            "name": f"kernel_{drawn.randrange(16)}(float*)",
            "pid": 0,
            "tid": 7,
            "ts": at,
            "dur": round(drawn.uniform(1, 50), 3),
            "args": {
                "device": 0,
                "stream": 7,
                "correlation": drawn.randrange(10**9),
                "grid": [drawn.randrange(1, 5000), 1, 1],
                "block": [256, 1, 1],
                "External id": drawn.randrange(10**9),
            },
        }
    )
