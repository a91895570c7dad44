"""Print the lowest version that pyproject.toml allows of everything the sample goldens need.

pip install --only-binary :all: -r lowest.txt && pip install --no-deps .
"""

import re
import sys
import tomllib
from pathlib import Path

_LOWEST = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?>=(?P<version>[\d.]+)[^;]*(?P<marker>;.*)?")


def main() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    for entry in (*project["project"]["dependencies"], *project["dependency-groups"]["golden"]):
        found = _LOWEST.fullmatch(entry)
        if found is None:
            raise SystemExit(f"{entry} has no lowest version")
        sys.stdout.write(f"{found['name']}=={found['version']}{found['marker'] or ''}" + "\n")


if __name__ == "__main__":
    main()
