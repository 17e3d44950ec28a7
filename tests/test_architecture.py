"""The page on the architecture draws the rooms that the import contracts of pyproject.toml hold the code to."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ragstone"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]


def rooms() -> list[str]:
    """The packages of the layers contract, the innermost first."""
    (layers,) = (
        found["layers"] for found in CONTRACTS if found["type"] == "layers" and found["containers"] == ["ragstone"]
    )
    names = [name for layer in reversed(layers) for name in layer.split(" : ")]
    return [name for name in names if (PACKAGE / name).is_dir()]


def test_the_page_on_the_architecture_draws_the_rooms_of_the_contract_and_describes_each_and_every_tool() -> None:
    assert " → ".join(f"{room}/" for room in rooms()) in PAGE
    tools = [f"tools/{found.parent.name}" for found in (PACKAGE / "tools").glob("*/__init__.py")]
    assert tools
    assert [room for room in [*rooms(), *tools] if f"`{room}/`" not in PAGE] == []


FRONT_DOOR = ("settings", "github", "tools", "cli")
"""Rooms that may see all settings at once: those that turn them into plans, and those that ask for that."""
PLANNERS = {"base_checkout", "open_request", "gate_request", "invocation", "known_secrets"}
PLANNERS |= {"no_key_fallback", "run_plan"}
"""Modules of `pipeline` that may: they make of the settings what the use cases are given."""


def test_settings_stop_at_the_front_door() -> None:
    taking = [
        str(path.relative_to(PACKAGE))
        for room in rooms()
        if room not in FRONT_DOOR
        for path in (PACKAGE / room).rglob("*.py")
        if path.stem not in PLANNERS and _takes_all_settings(path)
    ]
    assert taking == []


def _takes_all_settings(path: Path) -> bool:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "ragstone.settings.settings":
            return "Settings" in {one.name for one in node.names}
    return False


def test_every_part_of_the_core_is_forbidden_to_import_a_tool() -> None:
    (forbidden,) = (found for found in CONTRACTS if found.get("forbidden_modules") == ["ragstone.tools"])
    parts = {found.stem for found in PACKAGE.glob("[!_]*.py")}
    parts |= {found.parent.name for found in PACKAGE.glob("*/__init__.py")}
    assert set(forbidden["source_modules"]) == {f"ragstone.{part}" for part in parts - {"cli", "tools"}}
