"""Where retrieval falls, the report and the manifest say what became of the evidence."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ragstone.evaluation.rounds.context import RunContext
from ragstone.gate.verdict import RetrievalChanges
from ragstone.pipeline.gate import GateOutcome
from ragstone.settings.load import load_settings
from tests.cli.project import make_project
from tests.pipeline.asked import gate

N = 20
SYSTEM = """
HOUSES = [(f"The house number {i} in Mill Lane was painted in the year {1900 + i} by its owner.",
           f"Its garden of {i} square metres has an old pear tree beside the well.",
           f"A bus to the harbour stops every {i} minutes in front of it.") for i in range(20)]


def contexts(i):
    return [(f"h{i}-{n}", text) for n, text in enumerate(HOUSES[i])]


def answer(question):
    i = int(question.rstrip("?").split()[-1])
    return {"answer": HOUSES[i][0], "contexts": [{"id": key, "text": text} for key, text in contexts(i)]}
"""
RECHUNKED = """

def contexts(i):
    words = " ".join(HOUSES[i]).split()
    return [(f"new{i}-{n}", " ".join(words[n:n + 8])) for n in range(0, len(words), 8)]
"""
MOVED = """

def contexts(i):
    found = [(f"h{i}-{n}", text) for n, text in enumerate(HOUSES[i])]
    if i < 3:
        return [(f"x{i}", "Nothing of this has to do with the question, however long it may be."), found[1]]
    return [found[1], found[2], found[0]] if i < 8 else found
"""


def golden(label: str) -> str:
    def one(i: int) -> dict[str, object]:
        text = f"The house number {i} in Mill Lane was painted in the year {1900 + i} by its owner."
        labels = {"ids": {"relevant_ids": [f"h{i}-0"]}, "text": {"reference_contexts": [text]}, "none": {}}[label]
        question = f"When was the house painted that has number {i}?"
        return {"id": f"q{i:02}", "question": question, "reference": text, **labels}

    return "".join(json.dumps(one(i)) + "\n" for i in range(N))


def gated(project: Path, out: str, *metrics: str, baseline: str | None = None) -> GateOutcome:
    given = {"run.metrics": metrics, "run.out": out, "gate.baseline": baseline}
    settings = load_settings(directory=project, environ={}, overrides={k: v for k, v in given.items() if v})
    return asyncio.run(
        gate(settings, RunContext(environ={"PATH": "/usr/bin"}, now=lambda: datetime(2026, 11, 22, tzinfo=UTC)))
    )


def compared(tmp_path: Path, label: str, change: str, *metrics: str) -> GateOutcome:
    policy = "".join(f'[metrics."{name}"]\nmax_drop = 0.02\n' for name in metrics)
    project = make_project(tmp_path / "repo", n=N, system=SYSTEM, policy=policy)
    (project / "golden.jsonl").write_text(golden(label), encoding="utf-8")
    gated(project, "main", *metrics)
    file = project / "houses.py"
    file.write_text(SYSTEM + change, encoding="utf-8")
    return gated(project, "out", *metrics, baseline="main")


def warned(outcome: GateOutcome) -> list[str]:
    return [text for text in outcome.view.warnings if text.startswith("relevant_ids no longer fit")]


def noted(outcome: GateOutcome) -> list[str]:
    return [text for text in outcome.view.notes if text.startswith("Retrieval got worse")]


def test_re_chunking_drops_nothing_that_is_labelled_by_text(tmp_path: Path) -> None:
    outcome = compared(tmp_path, "text", RECHUNKED, "recall@10", "mrr", "ndcg")
    assert outcome.exit_code == 0
    assert outcome.verdict.retrieval is None
    assert all(row.score == 1.0 for row in outcome.view.metrics)


def test_ids_of_an_earlier_corpus_are_told_from_a_loss(tmp_path: Path) -> None:
    outcome = compared(tmp_path, "ids", RECHUNKED, "recall@10")
    everything = tuple(f"q{i:02}" for i in range(N))
    assert outcome.verdict.retrieval == RetrievalChanges({}, (), everything, (), old_ids=everything)
    (warning,) = warned(outcome)
    assert "in 20 samples the evidence is still returned" in warning
    (note,) = noted(outcome)
    assert note.startswith("Retrieval got worse on 20 samples: on 20, the evidence is still returned, in other chunks")


@pytest.mark.parametrize(("label", "metric"), [("text", "mrr"), ("ids", "mrr"), ("none", "context_precision")])
def test_evidence_that_is_gone_or_ranks_lower_is_named_whatever_the_labels(
    tmp_path: Path, label: str, metric: str
) -> None:
    outcome = compared(tmp_path, label, MOVED, metric)
    found = outcome.verdict.retrieval
    assert found is not None
    assert dict(found.gone) == dict.fromkeys(("q00", "q01", "q02"), 0.0)
    assert found.lower == ("q03", "q04", "q05", "q06", "q07")
    assert (found.rechunked, found.other) == ((), ())
    assert warned(outcome) == []
    (note,) = noted(outcome)
    assert note == (
        "Retrieval got worse on 8 samples: on 3, the evidence is gone from what the system returns (q00, q01, q02); "
        "on 5, it ranks lower (q03, q04, q05, q06, q07)."
    )
    manifest = json.loads((tmp_path / "repo" / "out" / "manifest.json").read_text())
    assert manifest["retrieval"] == {"fell": 8, "gone": 3, "lower": 5, "rechunked": 0, "other": 0}
    report = json.loads((tmp_path / "repo" / "out" / "report.json").read_text())
    assert report["retrieval"]["gone"] == [{"id": f"q0{i}", "left": 0.0} for i in range(3)]
    assert report["retrieval"]["lower"] == ["q03", "q04", "q05", "q06", "q07"]
    assert note in (tmp_path / "repo" / "out" / "report.html").read_text()


def test_the_same_ids_with_other_texts_still_fit(tmp_path: Path) -> None:
    same_ids = RECHUNKED.replace('f"new{i}-{n}"', 'f"h{i}-0"').replace("return [", 'return [("top", "Welcome!")] + [')
    outcome = compared(tmp_path, "ids", same_ids, "mrr")
    assert outcome.verdict.retrieval is not None
    assert len(outcome.verdict.retrieval.rechunked) == N
    assert warned(outcome) == []
