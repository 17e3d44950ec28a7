"""No declared secret is in anything that a job writes, whoever repeats it."""

from __future__ import annotations

import json

import pytest

from ragstone.evaluation.redact import MASK
from ragstone.settings.variables import SECRETS
from tests.github.api.fake import TOKEN, FakeGitHub
from tests.github.builders import FACTS, Checkout, pull_request
from tests.github.test_identity import written

CANARIES = {name: f"canary-{number}-of-{name.lower()}" for number, name in enumerate(SECRETS)} | {
    "RAGSTONE_GITHUB_TOKEN": TOKEN,
    "RAGSTONE_NOTIFY": "https://canary.example/of-ragstone-notify",
}


@pytest.mark.attack(
    by="other CI", tries="have a token repeated in a report", stopped_by="declared secrets are redacted"
)
def test_a_job_writes_no_declared_secret(github: FakeGitHub, checkout: Checkout) -> None:
    said = " ".join(CANARIES.values())
    checkout.answer({name: f"{said} {fact}" for name, _, fact in FACTS})
    done = checkout.gate("pull_request", pull_request(), **CANARIES)
    inputs = (checkout.root / "outputs.jsonl", checkout.files / "event.json")
    for path in inputs:
        path.unlink(missing_ok=True)
    posted = json.dumps(github.comments)
    lines = [line for line in done.log.splitlines() if not line.startswith("::add-mask::")]
    for text in (written(checkout), posted, "\n".join(lines), done.summary, json.dumps(done.outputs)):
        assert [name for name, value in CANARIES.items() if value in text] == []
    assert MASK in written(checkout)
