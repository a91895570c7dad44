"""Runs the tests of the compiled scanner with gcc's address and undefined-behaviour sanitizers.

    python tests/parsers/sanitized.py

They run in a copy of the checkout, as the library there is compiled otherwise.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = "tests/parsers/test_torch_scan.py"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "traceroof"
        left_out = shutil.ignore_patterns(".*", "*.so", "build", "__pycache__")
        shutil.copytree(ROOT, copy, symlinks=True, ignore=left_out)
        source = copy / "parsers/torch/_scan.c"
        subprocess.run(
            ["gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
             "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
             f"-I{sysconfig.get_path('include')}", str(source),
             "-o", str(source.with_suffix(".abi3.so"))],
            check=True,
        )  # fmt: skip
        preloaded = [
            subprocess.run(
                ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
            ).stdout.strip()
            for name in ("libasan.so", "libubsan.so")
        ]
        run = "import sys, pytest; sys.path.insert(0, '.'); sys.exit(pytest.main(sys.argv[1:]))"
        return subprocess.run(
            [sys.executable, "-c", run, "-q", "-p", "no:cacheprovider", TESTS],
            check=False,
            cwd=copy,
            # Python itself does not free all it has at its end.
            env={**os.environ, "LD_PRELOAD": " ".join(preloaded), "ASAN_OPTIONS": "detect_leaks=0"},
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
