"""The hard cases of the benchmarks: own texts, unlike any prompt, balanced, and true to their evidence."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from labelled_sets import HARD_CASES as FOLDER
from labelled_sets import HARD_CASES_NAME

import ragstone.judge.llm

PROMPTS = Path(ragstone.judge.llm.__file__).with_name("prompts")
TASKS = ("faithfulness", "context_use", "answerability", "correctness", "answer_relevancy", "statements")
DIGESTS = {"hard cases, version 2": "63a97418a38f7ac5"}
"""Of the data of each version: if the data change, so does the version, because a grade belongs to it."""


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


DOCUMENTS = {row["id"]: row for row in rows("documents")}
CASES = {task: rows(task) for task in TASKS}


def texts_of(case: Mapping[str, Any]) -> list[str]:
    """What a judge is shown of a case, but for its documents."""
    sides = [case, *(case[side] for side in ("first", "second") if side in case)]
    return [side[key] for side in sides for key in ("question", "answer", "reference") if key in side]


def words(text: str) -> list[str]:
    return [word.casefold() for word in re.findall(r"\w+", text)]


def test_the_version_changes_with_the_data() -> None:
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(FOLDER.iterdir()))).hexdigest()
    assert DIGESTS[HARD_CASES_NAME] == digest[:16]


@pytest.mark.parametrize("task", TASKS)
def test_a_judge_that_always_says_the_same_is_right_by_chance_only(task: str) -> None:
    labels = Counter(case.get("label", case.get("preference")) for case in CASES[task])
    if task == "statements":
        assert max(labels.values()) <= 0.25 * labels.total()
        assert set(labels) == set(range(7))
    else:
        assert len(labels) == 2
        assert len(set(labels.values())) == 1


def test_what_decides_a_case_stands_in_the_documents_that_it_names() -> None:
    for task in ("faithfulness", "context_use", "answerability"):
        for case in CASES[task]:
            assert case.get("evidence") or case["label"] == 0, case["id"]
            for name, quote in case.get("evidence", {}).items():
                assert name in case["documents"], case["id"]
                assert quote in DOCUMENTS[name]["text"], case["id"]


# What the prompts say in the cases would be known to the judge already.


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        try:
            inner = json.loads(value)
        except ValueError:
            return
        yield " ".join(strings(inner)) if isinstance(inner, dict | list) else ""
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


PROMPT_TEXTS = [
    text for path in sorted(PROMPTS.glob("*.toml")) for text in strings(tomllib.loads(path.read_text(encoding="utf-8")))
]


def shingles(text: str) -> set[tuple[str, ...]]:
    """Five words in a row, or twelve characters of a language without spaces."""
    found = words(text)
    runs = {tuple(found[at : at + 5]) for at in range(len(found) - 4)}
    for run in re.findall("[\u3040-\u30ff\u4e00-\u9fff]+", text):
        runs |= {tuple(run[at : at + 12]) for at in range(len(run) - 11)}
    return runs


def shown_texts() -> Iterator[tuple[str, str]]:
    yield from ((name, row["text"]) for name, row in DOCUMENTS.items())
    yield from ((case["id"], text) for task in TASKS for case in CASES[task] for text in texts_of(case))


def test_no_case_shares_five_words_in_a_row_with_a_prompt() -> None:
    known = set().union(*map(shingles, PROMPT_TEXTS))
    assert ("when", "was", "the", "vell", "bridge") in known
    assert {name: shared for name, text in shown_texts() if (shared := shingles(text) & known)} == {}
