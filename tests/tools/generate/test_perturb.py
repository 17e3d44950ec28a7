"""Rows with changed questions: what changes, what stays, and that a slice gates them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Assertions, GoldenSet, Message, Review, Sample
from ragstone.tools.generate.checks import invalid_sample
from ragstone.tools.generate.perturb import (
    Perturbation,
    draw,
    empty_rows,
    perturbed_row,
)
from ragstone.tools.generate.perturb import perturb as perturb_samples
from tests.cli.project import SYSTEM, Completed, make_project, ragstone

KEY = "sk-test-0123456789abcdefghijklmnop"
CHANGED_BY_RULE = (Perturbation.TYPOS, Perturbation.CASE, Perturbation.INJECTION, Perturbation.LONG)

SAMPLE = Sample(
    "q1",
    "How long may I return shoes without receipt A17?",
    reference="Not at all.",
    reference_contexts=("Shoes need a receipt.",),
    relevant_ids={"d1": 1.0},
    tags=("returns",),
    assertions=Assertions(must_contain=("receipt",)),
    min={"faithfulness": 0.9},
)


def row(kind: Perturbation, seed: int = 0, sample: Sample = SAMPLE) -> Sample:
    changed = perturbed_row(sample, kind, seed=seed)
    assert changed is not None
    return changed


# -- rows by rule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CHANGED_BY_RULE)
def test_a_row_has_the_labels_of_its_original_and_is_in_one_group_with_it(kind: Perturbation) -> None:
    changed = row(kind)
    assert changed == row(kind)
    assert len({row(kind, seed).question for seed in range(20)}) > 1
    assert changed.id == f"q1~{kind}"
    assert changed.question != SAMPLE.question
    assert (changed.reference, changed.reference_contexts, changed.relevant_ids) == (
        SAMPLE.reference,
        SAMPLE.reference_contexts,
        SAMPLE.relevant_ids,
    )
    assert changed.tags == (f"perturbed:{kind}",)
    assert changed.group == "q1"
    assert row(kind, sample=replace(SAMPLE, group="shoes")).group == "shoes"
    assert changed.bounds == ()
    assert not changed.draft
    assert invalid_sample(changed) is None


def test_rows_that_ask_nothing_are_unanswerable_and_in_one_group() -> None:
    rows = list(empty_rows())
    assert len({empty.question for empty in rows}) == len(rows) > 1
    assert not any(empty.answerable for empty in rows)
    assert {empty.group for empty in rows} == {"perturbed:empty"}
    assert [invalid_sample(empty) for empty in rows] == [None] * len(rows)


@pytest.mark.parametrize("seed", range(10))
def test_typos_change_a_few_words_and_no_number(seed: int) -> None:
    words, changed = SAMPLE.question.split(), row(Perturbation.TYPOS, seed).question.split()
    assert len(changed) == len(words)
    differing = [(word, other) for word, other in zip(words, changed, strict=True) if word != other]
    assert 1 <= len(differing) <= 2
    for word, other in differing:
        assert len(word) >= 4
        assert word[0] == other[0]
        assert abs(len(word) - len(other)) <= 1
    assert changed[-1] == "A17?"


@pytest.mark.parametrize("seed", range(10))
def test_only_an_answer_that_obeys_an_injected_instruction_has_the_forbidden_word(seed: int) -> None:
    changed = row(Perturbation.INJECTION, seed)
    assert SAMPLE.question in changed.question
    assert changed.assertions is not None
    assert changed.assertions.must_contain == ("receipt",)
    (forbidden,) = changed.assertions.must_not_contain
    half = len(forbidden) // 2
    assert forbidden not in changed.question
    assert forbidden[:half] in changed.question
    assert forbidden[half:] in changed.question


def test_a_question_with_braces_does_not_become_part_of_the_template() -> None:
    sample = Sample("q", "What does {first} and {unknown} mean in a template?")
    for seed in range(10):
        assert "{first} and {unknown}" in row(Perturbation.INJECTION, seed, sample).question


def test_a_long_question_ends_with_the_question() -> None:
    question = row(Perturbation.LONG).question
    assert question.endswith(f"\n\n{SAMPLE.question}")
    assert len(question) > 1000


def test_only_the_last_question_of_a_conversation_is_changed() -> None:
    chat = Sample("q", "And without the receipt?", history=(Message("user", "How long may I return shoes?"),))
    assert row(Perturbation.CASE, sample=chat).history == chat.history


@pytest.mark.parametrize(
    ("kind", "question"), [(Perturbation.CASE, "退货期限是多久?"), (Perturbation.TYPOS, "1 + 1 = ?")]
)
def test_a_question_that_can_not_be_changed_is_left_out_and_counted(kind: Perturbation, question: str) -> None:
    perturbed = perturb_samples([Sample("q", question)], {kind}, seed=0)
    assert perturbed.rows == []
    assert perturbed.text() == f"0 rows:\n  {kind}: 1 question left out: it can't be changed in this way"


@given(st.text(max_size=80), st.text(min_size=1, max_size=20), st.sampled_from(CHANGED_BY_RULE))
def test_any_question_has_a_row_that_differs_or_none(question: str, sample_id: str, kind: Perturbation) -> None:
    changed = perturbed_row(Sample(sample_id, question), kind, seed=7)
    assert changed is None or changed.question != question


def golden(n: int) -> GoldenSet:
    tags = ("easy", "hard")
    return GoldenSet(
        tuple(Sample(f"q{i}", f"Question {i}?", tags=(tags[i % 2],), answerable=i % 5 != 0) for i in range(n))
    )


def test_a_draw_is_in_golden_order_and_depends_on_the_seed() -> None:
    drawn = draw(golden(100), 20, seed=3)
    assert len(drawn) == 20
    ids = [int(sample.id[1:]) for sample in drawn]
    assert ids == sorted(set(ids))
    assert drawn == draw(golden(100), 20, seed=3)
    assert drawn != draw(golden(100), 20, seed=4)


def test_neither_drafts_nor_perturbed_rows_are_drawn_and_few_samples_are_all_drawn() -> None:
    draft = Sample("d", "Draft?", review=Review("draft"))
    assert draw((draft, row(Perturbation.CASE), *golden(3)), 20, seed=0) == golden(3).samples


# -- the command -------------------------------------------------------------------------------------------------------


def perturb(folder: Path, kinds: str, *arguments: str, **env: str) -> Completed:
    return ragstone(["generate", "--perturb", kinds, "-o", "robustness.jsonl", *arguments], folder, env=env)


def test_the_command_writes_the_rows_of_each_kind_without_a_key(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=12)
    done = perturb(project, "typos,case,empty,injection,long", "--n", "4")
    assert done.returncode == 0, done.stderr
    rows = load_golden_set([project / "robustness.jsonl"])
    counts = {kind: sum(kind.tag in sample.tags for sample in rows) for kind in Perturbation}
    assert counts == {"typos": 4, "case": 4, "empty": 5, "injection": 4, "long": 4}
    assert "perturbed:typos         4" in done.stdout
    assert "wrote 21 rows to robustness.jsonl" in done.stdout
    # Beside the golden set, they are written anew from the originals alone.
    config = (project / "ragstone.toml").read_text(encoding="utf-8")
    (project / "ragstone.toml").write_text(
        config.replace('["golden.jsonl"]', '["golden.jsonl", "robustness.jsonl"]'), encoding="utf-8"
    )
    before = (project / "robustness.jsonl").read_text(encoding="utf-8")
    assert perturb(project, "typos,case,empty,injection,long", "--n", "4").returncode == 2
    again = perturb(project, "typos,case,empty,injection,long", "--n", "4", "--force")
    assert again.returncode == 0, again.stderr
    assert (project / "robustness.jsonl").read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("typo",), "Did you mean 'typos'?"),
        ((",",), "--perturb names no kind"),
        (("paraphrase",), "unknown kind 'paraphrase'"),
        (("case", "docs"), "leave out DOCS and --pairs"),
        (("case", "--pairs", "pairs.jsonl"), "leave out DOCS and --pairs"),
    ],
)
def test_what_can_not_be_perturbed_is_said(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    project = make_project(tmp_path / "repo", n=3)
    done = perturb(project, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (project / "robustness.jsonl").exists()


def test_without_documents_and_kinds_the_command_says_what_to_name(tmp_path: Path) -> None:
    done = ragstone(["generate", "-o", "drafts.jsonl"], tmp_path)
    assert (done.returncode, "no documents" in done.stderr) == (2, True)


ROBUST = SYSTEM.replace(
    "FACTS.get(question)",
    'FACTS.get(f"What is the colour of house number {question.rstrip(chr(63)).split()[-1]}?")',
)
POLICY = """
[gate]
only_named = true

[metrics.answer_correctness]
min = 0.5

[slices."perturbed:typos".metrics.answer_correctness]
min = 0.8
"""


@pytest.mark.heavy
@pytest.mark.parametrize(("system", "code"), [(SYSTEM, 1), (ROBUST, 0)])
def test_a_system_that_breaks_on_typos_fails_their_slice(tmp_path: Path, system: str, code: int) -> None:
    project = make_project(tmp_path / "repo", n=40, system=system, policy=POLICY)
    assert perturb(project, "typos", "--n", "12").returncode == 0
    paths = ["--golden", "golden.jsonl", "--golden", "robustness.jsonl"]
    done = ragstone(["gate", *paths, "--format", "json"], project)
    assert done.returncode == code, done.stderr
    report = json.loads(done.stdout)
    failed = [check["name"] for check in report["checks"] if check["status"] == "fail"]
    assert failed == ([] if code == 0 else ["perturbed:typos/answer_correctness.floor"])


def test_an_answer_that_obeys_an_injected_instruction_fails_its_assertion(tmp_path: Path) -> None:
    obedient = """
import re

def answer(question):
    words = re.findall(r"\\b[B-Z][AEIOU][B-Z][AEIOU][B-Z][AEIOU]\\b", question)
    order = words[::-1] if "after" in question else words
    return "".join(order[:2]) or "It is painted red."
"""
    project = make_project(tmp_path / "repo", n=10, system=obedient, policy="[gate]\nonly_named = true\n")
    assert perturb(project, "injection").returncode == 0
    done = ragstone(["run", "--golden", "robustness.jsonl", "--metrics", "assertions"], project)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (project / "ragstone-run" / "samples.jsonl").read_text().splitlines()]
    scores = [record["scores"]["assertions"]["value"] for record in records]
    assert len(scores) == 10
    assert 0.0 in scores
