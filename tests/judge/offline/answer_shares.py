"""Labelled answers: what share of them is supported, and what the offline judge's public scores say of them.

Answers composed of k supported and m unsupported statements, each supported with a chance of BASE_RATE: labelled
answers of BEGIN test and WiCE test, and texts of our own in four languages (answers.jsonl); and those of
RAGTruth, where people marked what is unsupported.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from data_sets import read_rows
from judge_opinions import pearson
from labelled_sets import Case, Pointwise, load_items
from model_answers import RAGTRUTH
from numpy.typing import NDArray
from public_scores import public_scores

from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import language
from ragstone.judge.offline.statements import split_statements
from ragstone.judge.offline.support import BASE_RATE
from ragstone.judge.sentences import split_sentences
from ragstone.metrics.hallucination import FLAGGED_FROM
from ragstone.tools.judging.measures import auroc
from tests.judge.offline.styles import load_facts

BEGIN, WICE = "BEGIN (wow, test)", "WiCE claims (test)"
FILES = {BEGIN: "begin.jsonl.gz", WICE: "wice_claim.jsonl.gz"}
MODELS = "RAGTruth QA"
COMPOSED = 300
SIZES = (2, 3, 4, 5, 6, 8, 10)

Floats = NDArray[np.float64]
Labelled = tuple[Case, float]
"""An answer with its contexts, and the share of it that is supported."""


def composed(supported: Sequence[Case], unsupported: Sequence[Case], count: int = COMPOSED) -> list[Labelled]:
    """Answers made of both, against all their contexts."""
    draw = random.Random(0)
    found = []
    for _ in range(count):
        size = draw.choice(SIZES)
        good = sum(draw.random() < BASE_RATE for _ in range(size))
        parts = draw.choices(supported, k=good) + draw.choices(unsupported, k=size - good)
        draw.shuffle(parts)
        texts = [part.answer.strip() for part in parts]
        answer = " ".join(text if text.endswith((".", "!", "?", "。")) else f"{text}." for text in texts)
        contexts = dict.fromkeys(context for part in parts for context in part.contexts)
        found.append((Case("", answer, tuple(contexts)), good / size))
    return found


def by_label(cases: Sequence[Labelled]) -> tuple[list[Case], list[Case]]:
    return [one for one, share in cases if share == 1], [one for one, share in cases if share == 0]


def labelled(data: Path) -> dict[str, list[Labelled]]:
    """The answers of BEGIN and WiCE as 0 or 1, and of RAGTruth as the share of sentences without a marked span."""
    found = {
        name: [(item.case, float(item.label)) for item in load_items(data / file) if isinstance(item, Pointwise)]
        for name, file in FILES.items()
    }
    found[MODELS] = [
        (Case(row["question"], row["answer"], tuple(row["contexts"])), people_share(row["answer"], row["spans"]))
        for row in read_rows(data / RAGTRUTH)
    ]
    return found


def people_share(answer: str, spans: Sequence[dict[str, int]]) -> float:
    """The share of the sentences of `answer` in which people marked nothing."""
    if not spans:
        return 1.0
    end, marked, count = 0, 0, 0
    for sentence in split_sentences(normalise(answer), "en"):
        start = answer.find(sentence[:20], end)
        if start < 0:
            continue
        end = start + len(sentence)
        count += 1
        marked += any(span["start"] < end and span["end"] > start for span in spans)
    return 1 - max(1, marked) / max(1, count)


def own() -> list[Labelled]:
    """Answers composed of the right and the invented sentences of each language."""
    facts = load_facts()
    found = []
    for code in dict.fromkeys(one.language for one in facts):
        mine = [one for one in facts if one.language == code]
        right = [Case("", text, one.contexts) for one in mine for text in one.right]
        wrong = [Case("", text, one.contexts) for one in mine for text in one.wrong]
        found += composed(right, wrong, COMPOSED // 9)
    return found


def scores(cases: Sequence[Labelled], metric: str) -> tuple[Floats, Floats]:
    """What the metric says of each answer, and the share; answers without a score are left out."""
    found = public_scores({str(at): case for at, (case, _) in enumerate(cases)}, [metric])[metric]
    scored = [(found[str(at)], share) for at, (_, share) in enumerate(cases) if str(at) in found]
    return np.array([value for value, _ in scored]), np.array([share for _, share in scored])


def difference(cases: Sequence[Labelled]) -> tuple[float, float, float]:
    """How far faithfulness is from the share: the mean absolute difference, the bias and the correlation."""
    values, shares = scores(cases, "faithfulness")
    return float(abs(values - shares).mean()), float((values - shares).mean()), pearson(values, shares)


def copied(case: Case) -> bool:
    """Whether all that the answer says stands in its contexts, word for word."""
    said = split_statements(normalise(case.answer), language("en"))
    contexts = [normalise(context).lower() for context in case.contexts]
    return all(any(one.text.lower().strip(" .") in text for text in contexts) for one in said if one.keys)


def flagged(cases: Sequence[Labelled]) -> tuple[float, float, float]:
    """The share of answers that hallucination flags, that of those with something unsupported, and the AUROC."""
    values, shares = scores(cases, "hallucination")
    wrong = (shares < 1).astype(float)
    return float((values >= FLAGGED_FROM).mean()), float(wrong.mean()), auroc(values, wrong)
