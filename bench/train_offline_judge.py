"""Train the offline judge's support model: ``python bench/train_offline_judge.py [DATA_DIR]``.

Reads the training splits only: BEGIN dev (CC BY 4.0, CDLA-Sharing 1.0) and WiCE dev (ODC-BY). Writes
``src/ragstone/judge/offline/weights.json``. Deterministic; takes about half a minute.

The support model is a logistic regression over `statement_evidence.FEATURES`: the weights of shares are non-negative,
those of conflicts non-positive. It is fitted to answers that people labelled, each as the mean over its statements,
and to sentences of the contexts with a harmless or a harmful change (`contrast.py`): one half of all sentences;
`judge_contrast.py` reports on the other half. In each source, BASE_RATE of the statements count as supported: this is
where the probabilities are calibrated.

A second model says from the probabilities of an answer's statements whether all are supported; for it, half of the
labelled answers are, and BASE_RATE of longer ones, composed of two to five labelled ones. The weights of
the length and the cut are set by hand. A third says whether a context is useful.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from contrast import HARMFUL, HARMLESS, contrasts, copied_sentences
from data_sets import data_folder, read_rows
from judge_opinions import balanced_accuracy
from numpy.typing import NDArray
from scipy.optimize import minimize

from ragstone.judge.normal import normalise
from ragstone.judge.offline import statement_evidence, text_agreement
from ragstone.judge.offline.conflicts import KINDS
from ragstone.judge.offline.lexicon import language
from ragstone.judge.offline.passage import Passage, read_passage
from ragstone.judge.offline.statements import split_statements
from ragstone.judge.offline.support import ALL_SUPPORTED_FEATURES, BASE_RATE, all_supported_features
from ragstone.tools.judging.measures import auroc

Floats = NDArray[np.float64]

VERSION = "13"
ROOT = Path(__file__).parents[1]
WEIGHTS = ROOT / "src" / "ragstone" / "judge" / "offline" / "weights.json"
ENGLISH = language("en")
RIDGE, CONFLICT_RIDGE = 0.03, 0.1
MAX_WEIGHTS = {"words": 3.5}
MAX_WEIGHT, MAX_CONFLICT, MIN_CONFLICT = 5.0, 4.5, 3.9
"""No feature decides alone: a missing word would, by the dialogues of BEGIN, function words above all, which change
with every rewording, and a conflict, by the changes. The labelled answers have hardly any conflict, so each kind has a
least weight, too.
"""

MIN_WEIGHTS = {"pairs": 0.3, "numbers": 2.8, "names": 1.9}
"""Set by hand: in the training sets hardly a number or name is wrong without a conflict, unlike what models write."""

SCALE = 1487.0
FOLDS = 5
PIECE = 8
FILES = ("begin.jsonl.gz", "wice_claim.jsonl.gz")
LONGER = 400
CHANGED = 150
SHARES = {"begin/wow": 1.0, "begin/cmu": 0.25, "begin/tc": 0.25, "wice": 1.0}
"""Weight of each source of labels in the fit, whatever its size."""

CHANGED_SHARE = 0.3
LONGER_SHARES = {"longer/begin/wow": 1.0, "longer/wice": 0.5}
SEVERAL, LENGTH = 1.97, 1.2
FLAGGED_LESS = 0.01
"""Set by hand: the weights of how many statements an answer has and of how much they say, and by how much fewer of the
labelled answers are flagged than people flag, so that on BEGIN dev and on RAGTruth's half the shares are about those of
people. The composed answers are wrong more plainly than those that language models write."""

ABOUT = 0.005


@dataclass(frozen=True)
class Row:
    """A text as features, and whether it is supported."""

    source: str
    features: Floats
    label: float


@dataclass(frozen=True)
class Example:
    """An answer: for each statement its features and its weight, and the share of what it claims that is supported."""

    source: str
    statements: Floats
    weights: Floats
    label: float

    def row(self) -> Row:
        """The mean over its statements, by their weights."""
        return Row(self.source, self.weights @ self.statements / self.weights.sum(), self.label)


def training_texts(data: Path) -> Iterator[tuple[str, str, str, float]]:
    """(source, answer, evidence, label) of every labelled example of the training splits."""
    for row in read_rows(data / "begin.jsonl.gz"):
        if row["split"] == "dev" and row["label_faithful"] is not None:
            yield f"begin/{row['source']}", row["answer"], row["context"], float(row["label_faithful"])
    for row in read_rows(data / "wice_claim.jsonl.gz"):
        if row["split"] == "dev":
            yield "wice", row["claim"], "\n".join(row["evidence_sentences"]), float(row["label_faithful"])


@cache
def read_context(text: str) -> Passage:
    return read_passage(text, ENGLISH)


def example(source: str, answer: str, contexts: Sequence[str], label: float) -> Example | None:
    """The answer taken apart as the judge does; None when it has no statement with content."""
    statements = [one for one in split_statements(normalise(answer), ENGLISH) if one.keys]
    if not statements:
        return None
    passages = [read_context(text) for text in contexts]
    features = [statement_evidence.match(statement, passages).features for statement in statements]
    weights = [len(statement.key_set) for statement in statements]
    return Example(source, np.array(features), np.array(weights, dtype=np.float64), label)


def labelled(data: Path) -> list[Example]:
    found = (example(source, answer, [text], label) for source, answer, text, label in training_texts(data))
    return [one for one in found if one is not None]


def longer(data: Path) -> list[Example]:
    """Answers of two to five labelled ones of a source, against all their contexts."""
    draw = random.Random(0)
    texts = list(training_texts(data))
    answers: list[Example | None] = []
    for source in ("begin/wow", "wice"):
        good = [one for one in texts if one[0] == source and one[3] == 1]
        bad = [one for one in texts if one[0] == source and one[3] == 0]
        for _ in range(LONGER):
            size = draw.choice([2, 3, 4, 5])
            wrong = min(size, draw.choice([0, 0, 1, 1, 2, size]))
            parts = draw.sample(bad, wrong) + draw.sample(good, size - wrong)
            draw.shuffle(parts)
            contexts = [text for _, _, text, _ in parts]
            stopped = [answer.strip() + ("" if answer.strip()[-1:] in ".!?" else ".") for _, answer, _, _ in parts]
            answers.append(example(f"longer/{source}", " ".join(stopped), contexts, 1 - wrong / size))
    return [one for one in answers if one is not None]


def changed(data: Path) -> list[Row]:
    """Sentences of the contexts, unchanged and changed, from the half that is for training."""
    sentences = [one for one in copied_sentences(data) if one.training]
    rows: list[Row] = []
    for name, change in (HARMFUL | HARMLESS).items():
        for original, text in contrasts(name, change, sentences, CHANGED):
            for statement, label in ((original.text, 1.0), (text, float(name in HARMLESS))):
                found = example("changed", statement, [original.context], label)
                if found is not None:
                    rows.append(found.row())
    return rows


@dataclass(frozen=True)
class Fitted:
    """p = σ(bias + Σ w·x)."""

    weights: Floats
    bias: float

    def chances(self, features: Floats) -> Floats:
        return np.asarray(1 / (1 + np.exp(-(features @ self.weights + self.bias))))


def fit(
    rows: Sequence[Row],
    shares: Mapping[str, float],
    names: Sequence[str],
    base_rates: Mapping[str, float] | None = None,
) -> Fitted:
    """The penalised logistic regression over the features `names`, by L-BFGS-B on the weighted log loss.

    `base_rates`: the share of each source that counts as supported; None: as it is.
    """
    features = np.array([one.features for one in rows])
    labels = np.array([float(one.label == 1) for one in rows])
    importance = np.array([shares[one.source] for one in rows])
    sizes, sides = Counter(one.source for one in rows), Counter((one.source, one.label == 1) for one in rows)
    if base_rates is None:
        importance /= [sizes[one.source] for one in rows]
    else:
        importance *= [base_rates[one.source] if one.label == 1 else 1 - base_rates[one.source] for one in rows]
        importance /= [sides[one.source, one.label == 1] for one in rows]
    importance *= SCALE / importance.sum()
    conflict = np.array([name in KINDS for name in names])
    ridge = np.where(conflict, CONFLICT_RIDGE, RIDGE)

    def loss(point: Floats) -> tuple[float, Floats]:
        weights, bias = point[:-1], point[-1]
        z = features @ weights + bias
        value = (importance * (np.logaddexp(0, z) - labels * z)).sum() + (ridge * weights**2).sum() / 2
        slope = importance * (1 / (1 + np.exp(-z)) - labels)
        return float(value), np.concatenate([features.T @ slope + ridge * weights, [slope.sum()]])

    bounds: list[tuple[float | None, float | None]] = []
    for name in names:
        least, most = MIN_WEIGHTS.get(name, 0.0), MAX_WEIGHTS.get(name, MAX_WEIGHT)
        bounds.append((-MAX_CONFLICT, -MIN_CONFLICT) if name in KINDS else (least, most))
    start = np.zeros(len(names) + 1)
    options = {"maxiter": 5000, "ftol": 1e-13}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[*bounds, (None, None)], options=options)
    return Fitted(found.x[:-1], float(found.x[-1]))


def out_of_fold(found: Sequence[Example], more: Sequence[Row]) -> Floats:
    """The cross-validated probability of the weakest statement of each labelled answer; `more` is in every fold."""
    folds = np.random.default_rng(0).integers(0, FOLDS, len(found))
    values = np.zeros(len(found))
    for fold in range(FOLDS):
        rows = [one.row() for one, at in zip(found, folds, strict=True) if at != fold]
        model = fit_support([*rows, *more])
        for index in np.flatnonzero(folds == fold).tolist():
            values[index] = model.chances(found[index].statements).min()
    return values


def fit_support(rows: Sequence[Row]) -> Fitted:
    shares = SHARES | {"changed": CHANGED_SHARE}
    return fit(rows, shares, statement_evidence.FEATURES, dict.fromkeys(shares, BASE_RATE))


def windows(data: Path) -> Iterator[tuple[tuple[float, ...], float]]:
    """Features and label of pieces of WiCE's pages: does a piece hold a sentence that people named as support?

    One piece that does and two that don't for each claim, drawn with a fixed seed: the same page, so the same topic.
    """
    draw = random.Random(0)
    for row in read_rows(data / "wice_claim.jsonl.gz"):
        named = {index for group in row["supporting_sentences"] or [] for index in group}
        if row["split"] != "dev" or not named:
            continue
        lines = row["evidence_sentences"]
        pieces = [range(start, min(start + PIECE, len(lines))) for start in range(0, len(lines), PIECE)]
        useful = [piece for piece in pieces if named & set(piece)]
        useless = [piece for piece in pieces if not named & set(piece)]
        statements = [one for one in split_statements(normalise(row["claim"]), ENGLISH) if one.keys]
        picked = [(piece, 1.0) for piece in draw.sample(useful, min(1, len(useful)))]
        picked += [(piece, 0.0) for piece in draw.sample(useless, min(2, len(useless)))]
        for piece, label in picked:
            passage = read_passage("\n".join(lines[index] for index in piece), ENGLISH)
            matches = [statement_evidence.match(one, [passage]) for one in statements]
            yield text_agreement.use_features(statements, matches, ())[0], label


def fit_use(data: Path) -> dict[str, Any]:
    """The model of a context's usefulness, as weights.json holds it."""
    rows = [Row("wice", np.array(features), label) for features, label in windows(data)]
    found = fit(rows, SHARES, text_agreement.USE_FEATURES)
    labels = np.array([one.label for one in rows])
    probabilities = found.chances(np.array([one.features for one in rows]))
    candidates = np.arange(0.1, 0.8, 0.02).round(2)
    threshold = max(candidates, key=lambda at: balanced_accuracy((probabilities >= at).astype(float), labels))
    print(f"use: {len(rows)} pieces, AUROC {auroc(probabilities, labels):.3f} on the pieces it was fitted to")
    return written(found, text_agreement.USE_FEATURES, float(threshold))


def written(found: Fitted, names: Sequence[str], threshold: float) -> dict[str, Any]:
    """A model as weights.json has it."""
    weights = dict(zip(names, found.weights.round(3).tolist(), strict=True))
    return {"bias": round(found.bias, 3), "weights": weights, "threshold": threshold}


def fit_whole(model: Fitted, found: Sequence[Example], answers: Sequence[Example]) -> Fitted:
    """Whether all statements of an answer are supported, by their probabilities; `answers` are the longer ones."""
    rows = [
        Row(
            one.source,
            np.array(all_supported_features(model.chances(one.statements).tolist(), one.weights.tolist())),
            one.label,
        )
        for one in (*found, *answers)
    ]
    base_rates = dict.fromkeys(SHARES, 0.5) | dict.fromkeys(LONGER_SHARES, BASE_RATE)
    fitted = fit(rows, SHARES | LONGER_SHARES, ALL_SUPPORTED_FEATURES, base_rates)
    fitted = replace(fitted, weights=np.array([fitted.weights[0], SEVERAL, LENGTH]))
    labelled_rows = rows[: len(found)]
    margins = np.array([one.features @ fitted.weights for one in labelled_rows])
    sides = Counter((one.source, one.label) for one in labelled_rows)
    importance = np.array([SHARES[one.source] / sides[one.source, one.label] for one in labelled_rows])
    order = np.argsort(margins, kind="stable")
    cut = np.searchsorted(np.cumsum(importance[order]), importance.sum() * (0.5 - FLAGGED_LESS))
    return replace(fitted, bias=-float(margins[order][cut]))


def best_threshold(probabilities: Floats, labels: Floats, sources: Sequence[str]) -> float:
    """The lowest threshold whose mean balanced accuracy over the sources is about the best: nine of ten statements are
    right where the gate passes, and each that is called wrong costs trust.
    """
    names = np.array(sources)

    def quality(threshold: float) -> float:
        said = (probabilities >= threshold).astype(float)
        each = [SHARES[name] * balanced_accuracy(said[names == name], labels[names == name]) for name in SHARES]
        return sum(each) / sum(SHARES.values())

    found = {float(at): quality(at) for at in np.arange(0.4, 0.92, 0.02).round(2)}
    return min(at for at, value in found.items() if value >= max(found.values()) - ABOUT)


def train(data: Path) -> dict[str, Any]:
    """The content of weights.json: the newly trained models, and the hand-set models unchanged."""
    found = labelled(data)
    more = changed(data)
    labels = np.array([one.label for one in found])
    sources = [one.source for one in found]
    held_out = out_of_fold(found, more)
    model = fit_support([*(one.row() for one in found), *more])
    for source in SHARES:
        inside = np.array(sources) == source
        print(f"{source}: {inside.sum()} answers, cross-validated AUROC {auroc(held_out[inside], labels[inside]):.3f}")
    document: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    document["version"] = VERSION
    document["support"] = written(model, statement_evidence.FEATURES, best_threshold(held_out, labels, sources))
    document["whole"] = written(fit_whole(model, found, longer(data)), ALL_SUPPORTED_FEATURES, 0.5)
    document["use"] = fit_use(data)
    return document


def main(data: Path) -> None:
    document = train(data)
    WEIGHTS.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: document[name] for name in ("support", "whole", "use")}, indent=1))


if __name__ == "__main__":
    main(data_folder(FILES, *sys.argv[1:2]))
