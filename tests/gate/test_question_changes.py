"""How likely a question looks broken by chance."""

from __future__ import annotations

import pytest

from ragstone.gate.evidence import Evidence
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.question_changes import RECORDED, chance_of_one
from tests.gate.conftest import build_run, make_manifest

ASKS_AGAIN = {"confirm": True, "confirm_repeats": 2, "decision": "evidence"}


@pytest.mark.parametrize(
    ("gate", "entrypoint", "chance"),
    [
        (ASKS_AGAIN, "app:answer", 0.25),
        (ASKS_AGAIN, f"{RECORDED}answers.jsonl", 0.5),
        (ASKS_AGAIN | {"confirm": False}, "app:answer", 0.5),
        (ASKS_AGAIN | {"decision": "point"}, "app:answer", 0.5),
        (ASKS_AGAIN, None, 0.5),
    ],
)
def test_a_question_that_is_asked_again_looks_broken_by_chance_less_often(
    gate: dict[str, object], entrypoint: str | None, chance: float
) -> None:
    manifest = None
    if entrypoint is not None:
        manifest = make_manifest()
        system = manifest.system.model_copy(update={"entrypoint": entrypoint})
        manifest = manifest.model_copy(update={"system": system})
    run = build_run({"faithfulness": [1.0] * 4}, manifest=manifest)
    policy = policy_from_mapping({"metrics": {"faithfulness": {"min": 0.5}}, "gate": gate})
    assert chance_of_one(Evidence(run, policy, None, (), ())) == chance
