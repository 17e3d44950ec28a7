"""Rows with changed questions: what changes, what stays, and that a slice gates them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.golden.load import load_golden_set
from ragstone.golden.sample import Assertions, ConversationTurn, Message, Review, Sample
from ragstone.tools.generate import perturb as module
from ragstone.tools.generate.checks import why_invalid
from ragstone.tools.generate.perturb import Perturbation, draw_samples, empty_rows, perturb_sample
from tests.cli.project import Completed, make_project, ragstone

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
    changed = perturb_sample(sample, kind, seed=seed)
    assert changed is not None
    return changed


@pytest.mark.parametrize("kind", CHANGED_BY_RULE)
def test_a_row_has_the_labels_of_its_original_and_is_in_one_group_with_it(kind: Perturbation) -> None:
    changed = row(kind)
    assert changed == row(kind)
    assert len({row(kind, seed).question for seed in range(20)}) > 1
    assert changed.question != SAMPLE.question
    expected = replace(SAMPLE, id=f"q1~{kind}", tags=(f"perturbed:{kind}",), group="q1", min={})
    assert replace(changed, question=SAMPLE.question, assertions=SAMPLE.assertions) == expected
    chat = replace(SAMPLE, group="shoes", history=(Message("user", "How long may I return shoes?"),))
    assert row(kind, sample=chat).group == "shoes"
    assert row(kind, sample=chat).history == chat.history, "only the last question is changed"
    assert why_invalid(changed) is None


def test_rows_that_ask_nothing_are_unanswerable_and_in_one_group() -> None:
    rows = list(empty_rows())
    assert len({empty.question for empty in rows}) == len(rows) > 1
    assert not any(empty.answerable for empty in rows)
    assert {empty.group for empty in rows} == {"perturbed:empty"}
    assert [why_invalid(empty) for empty in rows] == [None] * len(rows)


@pytest.mark.parametrize("seed", range(10))
def test_each_kind_changes_what_it_says(seed: int) -> None:
    words, changed = SAMPLE.question.split(), row(Perturbation.TYPOS, seed).question.split()
    differing = [(word, other) for word, other in zip(words, changed, strict=True) if word != other]
    assert 1 <= len(differing) <= 2
    assert all(len(word) >= 4 and word[0] == other[0] for word, other in differing)
    assert all(abs(len(word) - len(other)) <= 1 for word, other in differing)
    assert changed[-1] == "A17?"
    assert row(Perturbation.CASE, seed).question.lower() == SAMPLE.question.lower()
    long = row(Perturbation.LONG, seed).question
    assert long.endswith(f"\n\n{SAMPLE.question}")
    assert len(long) > 1000
    braces = Sample("q", "What does {first} and {unknown} mean in a template?")
    assert braces.question in row(Perturbation.INJECTION, seed, braces).question


@pytest.mark.parametrize("seed", range(5))
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


def test_a_draw_is_of_plain_samples_in_golden_order_and_depends_on_the_seed() -> None:
    golden = [Sample(f"q{number}", f"Question {number}?") for number in range(100)]
    draft = Sample("d", "Draft?", review=Review("draft"))
    turn = Sample("t", "And then?", turn=ConversationTurn("t", 2, 2))
    drawn = draw_samples([draft, turn, row(Perturbation.CASE), *golden], 20, seed=3)
    numbers = [int(sample.id[1:]) for sample in drawn]
    assert len(drawn) == 20
    assert numbers == sorted(set(numbers))
    assert drawn == draw_samples(golden, 20, seed=3) != draw_samples(golden, 20, seed=4)
    assert draw_samples([draft, *golden[:3]], 20, seed=0) == tuple(golden[:3])


@pytest.mark.parametrize(
    ("kind", "question"), [(Perturbation.CASE, "退货期限是多久?"), (Perturbation.TYPOS, "1 + 1 = ?")]
)
def test_a_question_that_can_not_be_changed_is_left_out_and_counted(kind: Perturbation, question: str) -> None:
    perturbed = module.perturb([Sample("q", question)], {kind})
    assert perturbed.rows == []
    assert perturbed.text() == f"0 rows:\n  {kind}: 1 question that can't be changed in this way"


@given(st.text(max_size=80), st.text(min_size=1, max_size=20), st.sampled_from(CHANGED_BY_RULE))
def test_any_question_has_a_row_that_differs_or_none(question: str, sample_id: str, kind: Perturbation) -> None:
    changed = perturb_sample(Sample(sample_id, question), kind, seed=7)
    assert changed is None or changed.question != question


def perturb(folder: Path, *arguments: str, exit_code: int = 0) -> Completed:
    words = ["generate", "--perturb", "typos,case,empty,injection,long", "-o", "robustness.jsonl", "--n", "4"]
    return ragstone([*words, *arguments], folder, exit_code=exit_code)


def test_the_command_writes_the_rows_of_each_kind_without_a_key(tmp_path: Path) -> None:
    project = make_project(tmp_path / "repo", n=12)
    done = perturb(project)
    rows = load_golden_set([project / "robustness.jsonl"])
    counts = {kind: sum(kind.tag in sample.tags for sample in rows) for kind in Perturbation}
    assert counts == {"typos": 4, "case": 4, "empty": 5, "injection": 4, "long": 4}
    assert "perturbed:typos         4" in done.stdout
    assert "wrote 21 rows to robustness.jsonl" in done.stdout
    # Beside the golden set, they are written anew from the originals alone.
    config = (project / "ragstone.toml").read_text(encoding="utf-8")
    both = config.replace('["golden.jsonl"]', '["golden.jsonl", "robustness.jsonl"]')
    (project / "ragstone.toml").write_text(both, encoding="utf-8")
    before = (project / "robustness.jsonl").read_text(encoding="utf-8")
    perturb(project, exit_code=2)
    perturb(project, "--force")
    assert (project / "robustness.jsonl").read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--perturb", "typo"), "Did you mean 'typos'?"),
        (("--perturb", ","), "--perturb names no kind"),
        (("--perturb", "case", "docs"), "Leave out DOCS and --pairs"),
        (("--perturb", "case", "--pairs", "pairs.jsonl"), "Leave out DOCS and --pairs"),
        ((), "no documents"),
    ],
)
def test_what_can_not_be_perturbed_is_said(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = ragstone(["generate", "-o", "robustness.jsonl", *arguments], tmp_path, exit_code=2)
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
