"""The loops of docs/agents.md are what the server and the command line answer today, and what the page
says of set-up holds."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from docs import agent_loop
from traceroof.mcp.calls import CALLS


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    """The page."""
    return (root / "docs/agents.md").read_text("utf-8")


def test_the_loop_through_the_tools_leads_to_the_right_fix(text: str) -> None:
    """GIVEN a program whose stores are scattered WHEN diagnosed, captured as told, diagnosed with both,
    edited and compared THEN the page shows it: a guess by name, the command, the cause at 0.9, the delta
    of 78 %, and inconclusive for one run per side."""
    loop = agent_loop.looped()
    assert agent_loop.page(text, {"tools": loop}) == text, "run python -m docs.agent_loop"
    asked, captured, decided = (loop.index(one) for one in (
        '"rule": "layout-conversion-share"', '"command": "ncu ', '"rule": "uncoalesced-global"',
    ))  # fmt: skip
    assert asked < captured < decided
    assert loop.index('"verdict": "inconclusive"') < loop.index('"verdict": "improved"')
    # The model's times: 1,420 and 311 us a launch.
    change = next(one for one in re.findall(r'"delta_pct": (-[\d.]+)', loop) if "-78.1" in one)
    assert float(change) == pytest.approx((311 / 1420 - 1) * 100, abs=0.5)


def test_the_loop_on_the_command_line(text: str) -> None:
    shell = agent_loop.shelled()
    assert agent_loop.page(text, {"shell": shell}) == text, "run python -m docs.agent_loop"
    assert "Global accesses move bytes that no thread asked for" in shell


def test_the_set_up_lines_are_well_formed(text: str) -> None:
    """GIVEN the configuration of three clients WHEN read THEN each starts `traceroof mcp`."""
    json_blocks = re.findall(r"```json\n(\{\n  \"(?:mcpServers|servers)\".*?)```", text, re.DOTALL)
    servers = [json.loads(one) for one in json_blocks]
    found = [one.get("mcpServers", one.get("servers"))["traceroof"] for one in servers]
    (toml,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    found.append(tomllib.loads(toml)["mcp_servers"]["traceroof"])
    assert len(found) == 3
    for one in found:
        assert one["command"] == "traceroof"
        assert one["args"][0] == "mcp"
    assert "claude mcp add traceroof -- traceroof mcp" in text


def test_the_page_names_every_tool(text: str) -> None:
    rows = re.findall(r"^\| `(\w+)\(", text, re.MULTILINE)
    assert rows == list(CALLS)
