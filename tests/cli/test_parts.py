"""A retriever and a generator, each gated with a golden set of its own."""

from __future__ import annotations

from pathlib import Path

from ragstone.evaluation.directory import RunDirectory
from tests.cli.project import change_rows, make_project, ragstone

RETRIEVER = """
FACTS = {f"What is the colour of house number {i}?": f"House number {i} is painted {c}."
         for i, c in ((i, ["red", "green", "blue", "white", "yellow"][i % 5]) for i in range(100))}
BROKEN = False


def retrieve(question):
    if BROKEN:
        return ["A passage about the weather."]
    return [{"id": "d" + question.split()[-1].rstrip("?"), "text": FACTS[question] + " It has a door."}]
"""
GENERATOR = """
def answer(question, contexts):
    return contexts[0] if contexts else "I don't know."
"""


def halves(path: Path, source: str, *, part: str, attribute: str, contexts: bool = False, rest: str = "") -> Path:
    project = make_project(path, n=12, system=source, policy="")
    (project / "thresholds.toml").unlink()
    (project / "ragstone.toml").write_text(
        f'[golden]\npaths = ["golden.jsonl"]\n'
        f'[system]\nentrypoint = "python:houses:{attribute}"\npart = "{part}"\n{rest}',
        encoding="utf-8",
    )
    if contexts:
        change_rows(project, lambda row: {**row, "reference_contexts": [row["reference"]]})
    return project


def test_a_retriever_is_scored_by_retrieval_metrics_and_gated(tmp_path: Path) -> None:
    project = halves(tmp_path / "repo", RETRIEVER, part="retrieval", attribute="retrieve", contexts=True)
    checked = ragstone(["check"], project, exit_code=0)
    assert "retrieval alone" in checked.stdout
    assert "(empty)" not in checked.stdout
    assert "The answer is empty" not in checked.stdout
    ragstone(["gate", "--out", "good"], project, exit_code=0)
    run = RunDirectory.open(project / "good")
    assert run.manifest.system.part == "retrieval"
    assert set(run.scores().metrics) == {"context_recall", "context_precision", "recall@5", "ndcg@10"}
    assert run.scores().metrics["recall@5"].mean == 1.0
    assert not run.scores().system.failures
    (project / "houses.py").write_text(RETRIEVER.replace("BROKEN = False", "BROKEN = True"), encoding="utf-8")
    second = ragstone(["gate", "--baseline", "good", "--out", "bad"], project, exit_code=1)
    assert "retrieval" in second.stdout.lower()


def test_a_metric_of_the_other_half_is_refused_at_the_door(tmp_path: Path) -> None:
    project = halves(tmp_path / "repo", RETRIEVER, part="retrieval", attribute="retrieve", contexts=True)
    found = ragstone(["check"], project, env={"RAGSTONE_METRICS": "context_precision"}, exit_code=2)
    assert "context_precision_no_reference can't be measured with part" in found.stderr
    assert not (project / "ragstone-run").exists()


def test_a_generator_needs_contexts_for_each_answerable_sample(tmp_path: Path) -> None:
    project = halves(tmp_path / "repo", GENERATOR, part="generation", attribute="answer", contexts=True)
    change_rows(project, lambda row: {**row, "reference_contexts": []} if row["id"] == "house-3" else row)
    for command in ("run", "check"):
        found = ragstone([command], project, exit_code=3)
        assert "1 sample without reference_contexts to give to the system: house-3" in found.stderr
        assert "golden.jsonl:4" in found.stderr
    change_rows(project, lambda row: {**row, "answerable": row["id"] != "house-3"})
    ragstone(["run"], project, exit_code=0)
    for record in RunDirectory.open(project / "ragstone-run").records():
        assert [one.text for one in record.response.contexts] == list(record.sample.reference_contexts)
        assert record.sample.id == "house-3" or record.response.answer == record.sample.reference


def test_what_a_retriever_returned_can_be_rescored_and_resumed(tmp_path: Path) -> None:
    project = halves(tmp_path / "repo", RETRIEVER, part="retrieval", attribute="retrieve", contexts=True)
    ragstone(["run", "--metrics", "context_recall"], project, exit_code=0)
    ragstone(["run", "--resume", "--metrics", "context_recall"], project, exit_code=0)
    ragstone(["rescore", "ragstone-run", "--metrics", "ndcg@10"], project, exit_code=0)
    assert RunDirectory.open(project / "ragstone-rescored").manifest.system.part == "retrieval"
    refused = ragstone(["rescore", "ragstone-run", "--metrics", "faithfulness", "--out", "other"], project, exit_code=2)
    assert "faithfulness can't be measured with part" in refused.stderr
