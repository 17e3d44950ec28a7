"""The house: a room imports only from the rooms to its left, and every module is in a room."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "ragstone"
ROOMS = (
    "golden",
    "system",
    "judge",
    "metrics",
    "run",
    "stats",
    "gate",
    "history",
    "report",
    "metaeval",
    "usecases",
    "github",
    "commands",
)
EVERYWHERE = {"errors", "config", "files", "_version"}
DOORS = {"api", "cli", "action", "__init__", "__main__"}


def imports(path: Path) -> Iterator[str]:
    """The rooms (or top-level modules) of Ragstone that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "ragstone" else [f"ragstone.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "ragstone" and len(parts) > 1:
                yield parts[1]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_its_left(room: str) -> None:
    allowed = {*ROOMS[: ROOMS.index(room) + 1], *EVERYWHERE}
    wrong = {
        f"{path.relative_to(PACKAGE)} imports {found}"
        for path in (PACKAGE / room).rglob("*.py")
        for found in imports(path)
        if found not in allowed
    }
    assert not wrong


def test_every_folder_is_a_room_and_every_module_beside_them_a_door_or_known_everywhere() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ROOMS)
    assert {path.stem for path in PACKAGE.glob("*.py")} == EVERYWHERE | DOORS


def test_the_page_on_the_architecture_draws_the_same_house() -> None:
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert " → ".join(f"{room}/" for room in ROOMS) in page
