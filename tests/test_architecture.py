"""The page on the architecture draws the rooms that the import contracts of pyproject.toml hold the code to."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ragstone"


def rooms() -> list[str]:
    """The packages of the layers contract, the innermost first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (
        found["layers"] for found in contracts if found["type"] == "layers" and found["containers"] == ["ragstone"]
    )
    names = [name for layer in reversed(layers) for name in layer.split(" : ")]
    return [name for name in names if (PACKAGE / name).is_dir()]


def test_the_page_on_the_architecture_draws_the_rooms_of_the_contract() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert " → ".join(f"{room}/" for room in rooms()) in page


def test_the_page_on_the_architecture_describes_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert not [room for room in rooms() if f"`{room}/`" not in page]


def test_the_page_on_the_architecture_describes_every_tool() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tools = [found.parent.name for found in (PACKAGE / "tools").glob("*/__init__.py")]
    assert tools
    assert not [tool for tool in tools if f"`tools/{tool}/`" not in page]
