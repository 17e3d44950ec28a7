"""Answer relevancy on our own cases, all through `ragstone.evaluate`. They have served for tuning.

The shares of right short answers from 0.8, of wrong ones that no text holds up to 0.3, and of true sentences about
another subject below 0.2, each judged with contexts and a reference, and with one of them; the mean of halves of right
answers ÷ the mean of the whole ones, and by how much two true sentences about other subjects lower these, with
contexts, and with a reference or without; and evasive answers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from labelled_sets import Case
from public_scores import public_scores

from tests.judge.offline.styles import load_facts

_DATA: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("relevancy_cases.toml").read_text(encoding="utf-8"))
PAGES: Mapping[str, str] = _DATA["pages"]
ANSWERS: list[list[str]] = _DATA["answers"]
SUBJECTS: list[str] = _DATA["subjects"]


def cases() -> Iterator[tuple[str, Case]]:
    for at, (page, question, right, wrong, reference) in enumerate(ANSWERS):
        others = {f"other{rank}": SUBJECTS[(5 * at + rank) % len(SUBJECTS)] for rank in range(4)}
        for name, answer in {"right": right, "wrong": wrong, **others}.items():
            yield f"{name}/{at}/both", Case(question, answer, (PAGES[page],), reference)
            yield f"{name}/{at}/contexts", Case(question, answer, (PAGES[page],))
            yield f"{name}/{at}/reference", Case(question, answer, (), reference)
    for at, (page, question, answer) in enumerate(_DATA["evasive"]):
        yield f"evasive/{at}/contexts", Case(question, answer, (PAGES[page],))
    for at, (question, answer) in enumerate(_DATA["unheld"]):
        yield f"unheld/{at}/alone", Case(question, answer)
        yield f"unheld/{at}/contexts", Case(question, answer, tuple(PAGES.values()))
    yield from changed_answers()


def changed_answers() -> Iterator[tuple[str, Case]]:
    """Right answers of answers.jsonl, whole, in halves, and with two sentences about other subjects."""
    for at, facts in enumerate(load_facts()):
        between = "" if facts.language in ("zh", "ja") else " "
        sentences = list(facts.right)
        whole = between.join(sentences)
        middle = max(1, len(sentences) // 2)
        words = whole.split()
        padding = [SUBJECTS[(3 * at + rank) % len(SUBJECTS)] for rank in range(6)]
        texts = {
            "whole": whole,
            "half0": between.join(sentences[:middle]),
            "half1": between.join(sentences[middle:]),
            "half2": " ".join(words[: len(words) // 2]) if len(words) > 1 else whole[: len(whole) // 2],
            "padded0": f"{whole} {padding[0]} {padding[1]}",
            "padded1": f"{padding[2]} {whole} {padding[3]}",
            "padded2": f"{padding[4]} {padding[5]} {whole}",
        }
        for name, answer in texts.items():
            yield f"{name}/{at}/both", Case(facts.question, answer, facts.contexts, whole)
            yield f"{name}/{at}/contexts", Case(facts.question, answer, facts.contexts)


@pytest.fixture(scope="module")
def shares() -> dict[str, float]:
    """The figures, by what was given besides the question."""
    scores = public_scores(dict(cases()), ["answer_relevancy"])["answer_relevancy"]
    found = {}
    for given in ("both", "contexts", "reference"):
        right = [scores[f"right/{at}/{given}"] for at in range(len(ANSWERS))]
        wrong = [scores[f"wrong/{at}/{given}"] for at, row in enumerate(ANSWERS) if not _is_yes_or_no(row[3])]
        others = [scores[f"other{rank}/{at}/{given}"] for at in range(len(ANSWERS)) for rank in range(4)]
        found[f"right from 0.8, {given}"] = sum(value >= 0.8 for value in right) / len(right)
        found[f"wrong up to 0.3, {given}"] = sum(value <= 0.3 for value in wrong) / len(wrong)
        found[f"another subject below 0.2, {given}"] = sum(value < 0.2 for value in others) / len(others)
    for given in ("both", "contexts"):
        whole = _mean(scores, "whole", given)
        halves = fmean(_mean(scores, f"half{rank}", given) for rank in range(3))
        padded = fmean(_mean(scores, f"padded{rank}", given) for rank in range(3))
        found[f"halves, {given}"] = halves / whole
        found[f"lost by padding, {given}"] = whole - padded
    for name in ("evasive", "unheld"):
        found[f"largest {name}"] = max(value for key, value in scores.items() if key.startswith(name))
    return found


def _mean(scores: Mapping[str, float], name: str, given: str) -> float:
    return fmean(value for key, value in scores.items() if key.startswith(f"{name}/") and key.endswith(f"/{given}"))


def _is_yes_or_no(answer: str) -> bool:
    return answer.split()[0].strip(".,") in ("Yes", "No")


@pytest.mark.parametrize("given", ["both", "reference", "contexts"])
def test_relevancy_knows_short_answers_and_other_subjects(shares: dict[str, float], given: str) -> None:
    assert shares[f"right from 0.8, {given}"] >= 0.95
    assert shares[f"another subject below 0.2, {given}"] >= 0.95
    assert shares[f"wrong up to 0.3, {given}"] >= 0.95


def test_half_an_answer_is_less_relevant_by_the_reference_and_unrelated_sentences_lower_it(
    shares: dict[str, float],
) -> None:
    assert shares["halves, both"] <= 0.8
    assert shares["lost by padding, both"] >= 0.1
    assert shares["lost by padding, contexts"] >= 0.1


def test_an_answer_that_only_echoes_or_that_no_text_holds_is_not_relevant(shares: dict[str, float]) -> None:
    assert shares["largest evasive"] < 0.4
    assert shares["largest unheld"] <= 0.3
