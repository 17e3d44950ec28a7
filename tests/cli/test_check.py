"""`ragstone check` finds what `ragstone gate` would refuse, and shows what the system returned."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.project import (
    POLICY,
    append,
    change_rows,
    golden_lines,
    make_project,
    ragstone,
    read_json,
    words,
    write_rows,
)


def with_policy(text: str) -> Callable[[Path], list[str]]:
    def change(project: Path) -> list[str]:
        (project / "thresholds.toml").write_text(text, encoding="utf-8")
        return []

    return change


def other_golden_set(project: Path) -> list[str]:
    ragstone(["run", "--out", "main"], project, exit_code=0)
    others = golden_lines(24).splitlines(keepends=True)[12:]
    (project / "golden.jsonl").write_text("".join(others), encoding="utf-8")
    return ["--baseline", "main"]


def foreign_folder(project: Path) -> list[str]:
    (project / "thesis").mkdir()
    (project / "thesis" / "chapter.txt").write_text("mine", encoding="utf-8")
    append(project / "ragstone.toml", '[run]\nout = "thesis"\n')
    return []


def no_references(project: Path) -> list[str]:
    change_rows(project, lambda row: {**row, "reference": None})
    return []


def unknown_commit(project: Path) -> list[str]:
    append(project / "ragstone.toml", '[gate]\nbaseline_commit = "HEAD"\n')
    return []


REFUSED: dict[str, tuple[Callable[[Path], list[str]], int, str]] = {
    "a tag that no sample has": (
        with_policy(f"{POLICY}[slices.evn.metrics.faithfulness]\nmin = 0.5\n"),
        5,
        "no sample has it. Did you mean 'even'?",
    ),
    "a must-pass sample that is not there": (
        with_policy(f'must_pass = ["house-1", "house-999"]\n{POLICY}'),
        5,
        "Must-pass sample house-999: it is not in this run.",
    ),
    "a must-pass sample without a floor": (
        with_policy('must_pass = ["house-1"]\n[gate]\nonly_named = true\n[metrics.faithfulness]\nmax_drop = 0.1\n'),
        5,
        "no metric with a floor has a score for it",
    ),
    "a metric that is not measured": (with_policy("[metrics.rouge_l]\nmin = 0.5\n"), 2, ""),
    "a metric that applies to nothing": (no_references, 5, "most often because the sample has no reference"),
    "a baseline of another golden set": (other_golden_set, 6, "no sample is the same"),
    "a folder with something else": (foreign_folder, 2, "thesis"),
    "a baseline inside the run": (
        lambda _project: ["--baseline", "ragstone-run/x"],
        2,
        "must be in directories of their own",
    ),
    "an unknown commit": (unknown_commit, 2, ""),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", REFUSED)
def test_what_gate_refuses_check_refuses_with_the_same_code(name: str, tmp_path: Path) -> None:
    change, code, says = REFUSED[name]
    project = make_project(tmp_path, n=12)
    arguments = change(project)
    checked = ragstone(["check", *arguments], project)
    refused = ragstone(["gate", *arguments], project)
    assert (checked.returncode, refused.returncode) == (code, code), checked.stdout + checked.stderr
    assert says in checked.stderr, checked.stderr


def test_a_sound_setup_is_shown_with_its_rules_and_its_answer(tmp_path: Path) -> None:
    slices = "[slices.even.metrics.faithfulness]\nmin = 0.7\n"
    policy = f'must_pass = ["house-1", "house-2"]\n{POLICY}action = "warn"\n{slices}'
    found = ragstone(["check"], make_project(tmp_path, n=12, policy=policy), exit_code=0)
    lines = found.stdout.splitlines()
    shown = {line[:12].strip(): line[13:] for line in lines if line[:12].strip()}
    assert "faithfulness min 0.8 and max_drop 0.05" in shown["policy"]
    assert "context_recall min 0.8 and max_drop 0.05" in shown["only warns"]
    assert "note" not in shown
    assert shown["slices"] == "even"
    assert shown["must pass"] == "2 samples: house-1, house-2"
    assert shown["answer"] == "House number 0 is painted red."
    assert shown["context 1"] == "[d0?] House number 0 is painted red. It has a door."
    assert "             api.github.com:443" in lines, "the hosts of a job, a line each, to be pasted"


def returning(value: str) -> str:
    return f"def answer(question):\n    return {value}\n"


@pytest.mark.parametrize(
    ("system", "says"),
    [
        (returning('"An answer."'), "No contexts were returned"),
        (returning("""('{"answer": "A.", "sources": []}', ["a context"])"""), "The answer looks like JSON"),
        (returning('("", ["a context"])'), "The answer is empty."),
    ],
)
def test_a_response_that_is_hardly_meant_is_remarked_on(system: str, says: str, tmp_path: Path) -> None:
    found = ragstone(["check"], make_project(tmp_path, n=2, system=system), exit_code=0)
    assert f"note         {says}" in found.stdout


def test_samples_without_a_recorded_answer_are_counted(tmp_path: Path) -> None:
    project = make_project(tmp_path, n=4)
    rows = ({"id": f"house-{n}", "answer": "Red.", "contexts": ["It is red."]} for n in (0, 2))
    write_rows(project / "answers.jsonl", rows)
    found = ragstone(["check", "--entrypoint", "file:answers.jsonl"], project)
    assert "2 of 4 samples have no usable recorded answer: house-1, house-3." in found.stdout


@pytest.mark.parametrize(("n", "says"), [(1, "only drafts (1 sample)"), (3, "only drafts (3 samples)")])
def test_a_set_of_drafts_alone_ends_check_and_gate_alike(tmp_path: Path, n: int, says: str) -> None:
    project = make_project(tmp_path / "p", n=n)
    change_rows(project, lambda row: {**row, "status": "draft"})
    checked, _ = (ragstone([command], project, exit_code=5) for command in ("check", "gate"))
    assert says in words(checked.stderr)
    assert "ragstone review" in words(checked.stderr)
    assert "too small to detect" not in checked.stdout


@pytest.mark.parametrize("variables", [{}, {"RAGSTONE_METRICS": "faithfulness"}], ids=["defaults", "others"])
def test_the_metrics_that_the_policy_names_are_measured(tmp_path: Path, variables: dict[str, str]) -> None:
    policy = f"{POLICY}[metrics.token_f1]\nmin = 0.3\n[slices.even.metrics.exact_match]\nmin = 0.3\n"
    project = make_project(tmp_path, n=12, policy=policy)
    checked, _ = (ragstone([command], project, env=variables, exit_code=0) for command in ("check", "gate"))
    for name in ("token_f1", "exact_match", "context_recall"):
        assert name in read_json(project / "ragstone-run/manifest.json")["metrics"]
        assert re.search(rf"{name} +12 of 12", checked.stdout)


def test_a_policy_that_names_no_metric_is_said_here_and_in_no_report(tmp_path: Path) -> None:
    project = make_project(tmp_path, n=4)
    (project / "thresholds.toml").write_text("[gate]\nmin_coverage = 0.9\n", encoding="utf-8")
    said = words(ragstone(["check"], project, exit_code=0).stdout)
    assert "thresholds.toml names no metric: the default rules apply, and with the offline judge their" in said
    assert "names no metric" not in ragstone(["gate", "--verbose"], project).stdout


def test_names_of_documents_without_their_texts_are_said(tmp_path: Path) -> None:
    row = {"question": "What holds?", "reference": "It holds.", "relevant_ids": ["a.md"]}
    write_rows(tmp_path / "golden.jsonl", [{"id": f"q{i}", **row} for i in range(4)])
    (tmp_path / "app.py").write_text(
        "def answer(q): return {'answer': 'It holds.', 'sources': ['docs/a.md', 'b.md']}\n"
    )
    found = ragstone(["check", "--golden", "golden.jsonl", "--entrypoint", "app:answer"], tmp_path, exit_code=0)
    said = words(found.stdout)
    assert "The contexts are names of documents, without their texts (docs/a.md, b.md)." in said
    assert "can't be measured (faithfulness, hallucination, context_recall" in said
    assert "None of the ids that were returned (docs/a.md, b.md) is among the relevant_ids" in said
