"""Whoever tampers with a run, with its attestation, or with what the verifier is given is found, and it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.verify.tampering import TAMPERINGS, found, tampered
from tests.tools.verify.world import World, make_world

QUICK = 6 * len(TAMPERINGS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("verify") / "repo")


def missed(world: World, numbers: range, spare: Path) -> list[str]:
    """The tamperings that are not found, or not named."""
    lines = []
    for number in numbers:
        name, expected, differs = tampered(world, number, spare)
        if expected not in differs:
            lines.append(f"{name}: expected {expected!r}, found {differs!r}")
    return lines


def test_what_nobody_tampered_with_holds(world: World) -> None:
    assert found(world) == ""
    assert all(part.holds for part in world.verified().values())


def test_each_kind_of_tampering_is_found_and_named(world: World, tmp_path: Path) -> None:
    assert missed(world, range(QUICK), tmp_path / "spare") == []


@pytest.mark.heavy
def test_a_thousand_tamperings_are_found_and_named(world: World, tmp_path: Path) -> None:
    assert missed(world, range(QUICK, 1000), tmp_path / "spare") == []
