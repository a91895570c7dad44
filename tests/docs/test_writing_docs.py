"""The examples of the two writing guides work as they stand."""

import re
from pathlib import Path
from typing import Any

import pytest

from traceroof.errors import TraceroofError
from traceroof.parser import Options, Parser, silent
from traceroof.rule import Facts, Rule, judge


def _run(page: Path) -> dict[str, Any]:
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), namespace)  # noqa: S102
    return namespace


def test_the_parser_of_the_guide_reads_a_file(root: Path, tmp_path: Path) -> None:
    parser = _run(root / "docs/writing-a-parser.md")["PARSER"]
    assert isinstance(parser, Parser)
    file = tmp_path / "kernels.txt"
    file.write_text("#tinyprof\nadd,1.5\nbroken\nmul<1, 2>,2.25\n")
    assert parser.recognises(file.read_bytes(), file) == 2
    recording = parser.read(file, silent, Options())
    assert recording.kernels["kernel_name"].to_pylist() == ["add", "mul<1, 2>"]
    assert recording.kernels["duration_ns"].to_pylist() == [1500, 2250]
    assert [str(note) for note in recording.notes] == ["lines that are no kernel, skipped"]
    file.write_text("#tinyprof\n")
    with pytest.raises(TraceroofError, match="no kernel"):
        parser.read(file, silent, Options())


def test_the_rule_of_the_guide_agrees_with_its_examples(root: Path) -> None:
    (rule,) = _run(root / "docs/writing-a-rule.md")["RULES"]
    assert isinstance(rule, Rule)
    assert judge(rule, Facts.of(rule.fires, rule.columns)).fired.all()
    assert not judge(rule, Facts.of(rule.silent, rule.columns)).fired.any()
