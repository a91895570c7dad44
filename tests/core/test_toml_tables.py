"""Tables of the program: parsed once, and anew when they have changed."""

import os
import sys
from decimal import Decimal
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from traceroof.core import toml_tables
from traceroof.core.toml_tables import toml_table


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable package with a table in it, and bytecode kept beside it."""
    folder = tmp_path / "with_table"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "rows.toml").write_text("[one]\nrate = 989.4\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "with_table", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return folder


def test_a_table_is_parsed_once_and_anew_when_it_changes(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    original = toml_tables._parsed

    def counted(text: str, exact: bool) -> dict[str, object]:
        parsed.append(text)
        return original(text, exact)

    monkeypatch.setattr(toml_tables, "_parsed", counted)
    for _ in range(3):
        assert toml_table("with_table", "rows.toml") == {"one": {"rate": 989.4}}
    assert len(parsed) == 1
    table = package / "rows.toml"
    table.write_text("[one]\nrate = 494.7\n")
    os.utime(table, (1, 1))
    assert toml_table("with_table", "rows.toml") == {"one": {"rate": 494.7}}
    # Decimals are kept as such, and apart.
    assert toml_table("with_table", "rows.toml", exact=True) == {"one": {"rate": Decimal("494.7")}}


def test_what_is_kept_may_be_damaged_or_forbidden(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Path(cache_from_source(f"{package / 'rows.toml'}.py"))
    toml_table("with_table", "rows.toml")
    kept.write_bytes(kept.read_bytes()[:-4])
    assert toml_table("with_table", "rows.toml") == {"one": {"rate": 989.4}}
    kept.unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert toml_table("with_table", "rows.toml") == {"one": {"rate": 989.4}}
    assert not kept.exists()
