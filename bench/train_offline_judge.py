"""Train the offline judge's support model: ``python bench/train_offline_judge.py [DATA_DIR]``.

Reads the training splits only: BEGIN dev (CC BY 4.0, CDLA-Sharing 1.0) and WiCE dev (ODC-BY). Writes
``src/ragstone/judge/offline/weights.json``. Deterministic; takes about half a minute.

The model is a logistic regression with non-negative weights over the features of `evidence.FEATURES`, times a factor
for each of `evidence.DOUBTS`. It is fitted on three kinds of statements:

- answers that people labelled, each as one statement against its own context;
- the same answers as statements of longer ones: two to five of a source, supported and not, against all their contexts;
- sentences of the contexts, word for word, with a harmless or a harmful change (`contrast.py`): one half of all
  sentences; `judge_contrast.py` reports on the other half.

In each source, BASE_RATE of the statements count as supported: this is where the probabilities are calibrated. A second
model says from the probabilities of an answer's statements whether all are supported; for it, half of the labelled
answers are, and BASE_RATE of the longer ones.
Printed besides: how well the mean, the least, the product and the geometric means tell which answers are supported
throughout, by cross-validation and on the longer answers.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from contrast import HARMFUL, HARMLESS, contrasts, copied_sentences
from data_sets import data_folder
from judge_opinions import balanced_accuracy, pearson
from numpy.typing import NDArray
from scipy.optimize import minimize

from ragstone.judge.offline import agreement, evidence
from ragstone.judge.offline.lexicon import language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import Passage, read_passage, read_sentence
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.statements import split_statements
from ragstone.judge.offline.support import BASE_RATE, WHOLE_FEATURES, whole_features
from ragstone.judge.offline.tokens import NUMBER
from ragstone.tools.judging.measures import auroc

Floats = NDArray[np.float64]

VERSION = "7"
ROOT = Path(__file__).parents[1]
WEIGHTS = ROOT / "src" / "ragstone" / "judge" / "offline" / "weights.json"
ENGLISH = language("en")
EVERYDAY_WORDS = 400
COMMON_RANK = 1200
MIN_WEIGHT = 0.15
RIDGE = 0.03
MAX_WEIGHT = 5.0
MIN_WEIGHTS = {"pairs_held": 0.5}
DOUBT_RIDGE = 0.1
SCALE = 1487.0
FOLDS = 5
PIECE = 8
FILES = ("begin.jsonl.gz", "wice_claim.jsonl.gz")
LONGER = 400
CHANGED = 150
SHARES = {"begin/wow": 1.0, "begin/cmu": 0.25, "begin/tc": 0.25, "wice": 1.0}
"""Weight of each source of labels in the fit, whatever its size."""

MORE_SHARES = {"longer/begin/wow": 1.0, "longer/wice": 0.5, "changed": 1.0}
BASE_RATES = dict.fromkeys(SHARES | MORE_SHARES, BASE_RATE)
MIN_DOUBT, MAX_DOUBT = 0.05, 0.9
ABOUT = 0.005
AGGREGATES: dict[str, Callable[[Floats, Floats], float]] = {
    "mean": lambda chances, weights: float(chances.mean()),
    "least": lambda chances, weights: float(chances.min()),
    "product": lambda chances, weights: float(chances.prod()),
    "geometric mean": lambda chances, weights: float(np.exp(np.log(chances).mean())),
    "weighted product": lambda chances, weights: whole_features(list(chances), list(weights))[0],
}


@dataclass(frozen=True)
class Row:
    """A statement as features and conflicts (0 or 1), its weight, and whether it is supported."""

    source: str
    features: Floats
    conflicts: Floats
    weight: float
    label: float


@dataclass(frozen=True)
class Example:
    """An answer as one statement, each of its statements, and the share of what it claims that is supported."""

    source: str
    whole: Row
    statements: tuple[Row, ...]
    label: float


def training_texts(data: Path) -> Iterator[tuple[str, str, str, float]]:
    """(source, answer, evidence, label) of every labelled example of the training splits."""
    for row in read(data / "begin.jsonl.gz"):
        if row["split"] == "dev" and row["label_faithful"] is not None:
            yield f"begin/{row['source']}", row["answer"], row["context"], float(row["label_faithful"])
    for row in read(data / "wice_claim.jsonl.gz"):
        if row["split"] == "dev":
            yield "wice", row["claim"], "\n".join(row["evidence_sentences"]), float(row["label_faithful"])


def read(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def ranked(counter: Counter[str]) -> list[tuple[str, int]]:
    """The most common first, ties by key, so that the order of the words doesn't matter."""
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))


def everyday_words(texts: Sequence[tuple[str, str]]) -> dict[str, float]:
    """The commonest content keys and their weight: 1 - log(sentences with it) ÷ log(sentences), at least 0.15.

    `texts` are (source, evidence). Only keys that are common in dialogue pages and in cited web pages alike count:
    what is common in one alone (a sport, a film) is that source's topic.
    """
    counts: dict[str, Counter[str]] = {"begin": Counter(), "wice": Counter()}
    total = 0
    for source, text in texts:
        for sentence in read_passage(text, ENGLISH).sentences:
            counts[source.partition("/")[0]].update(sentence.key_set)
            total += 1
    common = [{key for key, _ in ranked(counter)[:COMMON_RANK]} for counter in counts.values()]
    both = counts["begin"] + counts["wice"]
    kept = [
        (key, count)
        for key, count in ranked(both)
        if all(key in keys for keys in common) and not key.startswith(NUMBER) and len(key) > 1
    ][:EVERYDAY_WORDS]
    return {key: round(max(MIN_WEIGHT, 1 - math.log(count) / math.log(total)), 2) for key, count in sorted(kept)}


@cache
def read_context(text: str) -> Passage:
    return read_passage(text, ENGLISH)


def row(source: str, text: str, contexts: Sequence[str], rarity: Rarity, label: float) -> Row:
    found = evidence.match(read_sentence(text, ENGLISH), [read_context(one) for one in contexts], rarity, ENGLISH)
    return Row(source, np.array(found.features), np.array(found.conflicts, dtype=float), found.weight, label)


def example(source: str, answer: str, contexts: Sequence[str], rarity: Rarity, label: float) -> Example | None:
    """The answer taken apart as the judge does; None when it has no statement with content."""
    statements = [one.text for one in split_statements(normalise(answer), ENGLISH) if one.keys]
    if not statements:
        return None
    rows = [row(source, text, contexts, rarity, label) for text in [" ".join(statements), *statements]]
    return Example(source, rows[0], tuple(rows[1:]), label)


def labelled(data: Path, rarity: Rarity) -> list[Example]:
    found = (example(source, answer, [text], rarity, label) for source, answer, text, label in training_texts(data))
    return [one for one in found if one is not None]


def longer(data: Path, rarity: Rarity) -> tuple[list[Example], list[Row]]:
    """Answers of two to five labelled ones of a source, against all their contexts; and their parts, one by one."""
    draw = random.Random(0)
    texts = list(training_texts(data))
    answers: list[Example] = []
    rows: list[Row] = []
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
            found = example(source, " ".join(stopped), contexts, rarity, 1 - wrong / size)
            if found is not None:
                answers.append(found)
            for _, answer, _, label in parts:
                statements = [one.text for one in split_statements(normalise(answer), ENGLISH) if one.keys]
                if statements:
                    rows.append(row(f"longer/{source}", " ".join(statements), contexts, rarity, label))
    return answers, rows


def changed(data: Path, rarity: Rarity) -> list[Row]:
    """Sentences of the contexts, unchanged and changed, from the half that is for training."""
    sentences = [one for one in copied_sentences(data) if one.training]
    rows: list[Row] = []
    for name, change in (HARMFUL | HARMLESS).items():
        for original, text in contrasts(name, change, sentences, CHANGED):
            for statement, label in ((original.text, 1.0), (text, float(name in HARMLESS))):
                found = example("", statement, [original.context], rarity, label)
                if found is not None:
                    first = found.whole
                    rows.append(replace(first, source="changed", label=label))
    return rows


@dataclass(frozen=True)
class Fitted:
    """The support model: p = σ(bias + Σ w·x) · Π doubt over the conflicts."""

    weights: Floats
    bias: float
    doubts: Floats

    def chance(self, one: Row) -> float:
        margin = float(one.features @ self.weights) + self.bias
        return float(1 / (1 + np.exp(-margin)) * np.where(one.conflicts > 0, self.doubts, 1.0).prod())


def fit(
    rows: Sequence[Row],
    shares: Mapping[str, float],
    names: Sequence[str],
    base_rates: Mapping[str, float] | None = None,
) -> Fitted:
    """Non-negative weights, a bias and a factor for each kind of conflict, by L-BFGS-B on the weighted log loss.

    `names` are the features' names. `base_rates`: the share of each source that counts as supported; None: as it is.
    No weight exceeds MAX_WEIGHT, so that no feature decides alone: a single "I"
    would, by the dialogues of BEGIN. MIN_WEIGHTS are set by hand: the training sets have hardly any statements whose
    words are all there but not side by side, and those must not score as high as copies.
    """
    features = np.array([one.features for one in rows])
    conflicts = np.array([one.conflicts for one in rows])
    labels = np.array([one.label for one in rows])
    width, kinds = features.shape[1], conflicts.shape[1]
    importance = np.array([shares[one.source] for one in rows])
    if base_rates is None:
        sizes = Counter(one.source for one in rows)
        importance /= [sizes[one.source] for one in rows]
    else:
        sides = Counter((one.source, one.label) for one in rows)
        importance *= [base_rates[one.source] if one.label else 1 - base_rates[one.source] for one in rows]
        importance /= [sides[one.source, one.label] for one in rows]
    importance *= SCALE / importance.sum()

    def loss(point: Floats) -> tuple[float, Floats]:
        weights, bias, logs = point[:width], point[width], point[width + 1 :]
        chances = 1 / (1 + np.exp(-np.clip(features @ weights + bias, -40, 40)))
        left = np.exp(-conflicts @ logs)
        found = np.clip(chances * left, 1e-9, 1 - 1e-9)
        value = -(importance * (labels * np.log(found) + (1 - labels) * np.log(1 - found))).sum()
        value += RIDGE / 2 * (weights**2).sum() + DOUBT_RIDGE / 2 * (logs**2).sum()
        slope = importance * ((1 - labels) / (1 - found) - labels / found)
        inner = slope * left * chances * (1 - chances)
        by_doubt = DOUBT_RIDGE * logs - conflicts.T @ (slope * found)
        gradient: list[Floats] = [features.T @ inner + RIDGE * weights, np.array([inner.sum()]), by_doubt]
        return float(value), np.concatenate(gradient)

    bounds: list[tuple[float | None, float | None]] = [(MIN_WEIGHTS.get(name, 0.0), MAX_WEIGHT) for name in names]
    bounds += [(None, None), *[(-math.log(MAX_DOUBT), -math.log(MIN_DOUBT))] * kinds]
    start = np.concatenate([np.ones(width), [-width / 2], np.full(kinds, 0.5)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 5000, "ftol": 1e-13})
    point = found.x
    return Fitted(point[:width], float(point[width]), np.exp(-point[width + 1 :]))


def logistic(margins: Floats) -> Floats:
    return 1 / (1 + np.exp(-margins))


def aggregated(found: Fitted, answers: Sequence[Example]) -> dict[str, Floats]:
    """For each aggregate its value of each answer's statements."""
    each = [chances_and_weights(found, answer) for answer in answers]
    return {
        name: np.array([of(np.array(chances), np.array(weights)) for chances, weights in each])
        for name, of in AGGREGATES.items()
    }


def out_of_fold(found: Sequence[Example], more: Sequence[Row]) -> dict[str, Floats]:
    """Cross-validated aggregates of labelled answers; `more` is for training in every fold."""
    folds = np.random.default_rng(0).integers(0, FOLDS, len(found))
    values = {name: np.zeros(len(found)) for name in AGGREGATES}
    for fold in range(FOLDS):
        seen = [one.whole for one, at in zip(found, folds, strict=True) if at != fold]
        model = fit([*seen, *more], SHARES | MORE_SHARES, evidence.FEATURES, BASE_RATES)
        held_out = np.flatnonzero(folds == fold).tolist()
        for name, each in aggregated(model, [found[index] for index in held_out]).items():
            values[name][held_out] = each
    return values


def windows(data: Path, rarity: Rarity) -> Iterator[tuple[tuple[float, ...], float]]:
    """Features and label of pieces of WiCE's pages: does a piece hold a sentence that people named as support?

    One piece that does and two that don't for each claim, drawn with a fixed seed: the same page, so the same topic.
    """
    draw = random.Random(0)
    for row in read(data / "wice_claim.jsonl.gz"):
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
            matches = [evidence.match(one, [passage], rarity, ENGLISH) for one in statements]
            yield agreement.use_features(statements, matches, rarity, ())[0], label


def fit_use(data: Path, rarity: Rarity) -> dict[str, Any]:
    """The model of a context's usefulness, as weights.json holds it."""
    nothing = np.zeros(len(evidence.DOUBTS))
    rows = [Row("wice", np.array(features), nothing, 1.0, label) for features, label in windows(data, rarity)]
    found = fit(rows, SHARES, agreement.USE_FEATURES)
    labels = np.array([one.label for one in rows])
    probabilities = np.array([found.chance(one) for one in rows])
    candidates = np.arange(0.1, 0.8, 0.02).round(2)
    threshold = max(candidates, key=lambda at: balanced_accuracy((probabilities >= at).astype(float), labels))
    print(f"use: {len(rows)} pieces, AUROC {auroc(probabilities, labels):.3f} on the pieces it was fitted to")
    return written(found, agreement.USE_FEATURES, float(threshold))


def written(found: Fitted, names: Sequence[str], threshold: float) -> dict[str, Any]:
    """A model without conflicts, as weights.json has it."""
    weights = dict(zip(names, found.weights.round(3).tolist(), strict=True))
    return {"bias": round(found.bias, 3), "weights": weights, "threshold": threshold}


def fit_whole(model: Fitted, found: Sequence[Example], answers: Sequence[Example]) -> Fitted:
    """Whether all statements of an answer are supported, by their probabilities; `answers` are the longer ones.

    Half of the labelled answers count as supported, and BASE_RATE of the longer ones. The bias is then set so that as
    many of the labelled ones are called unsupported as people call so.
    """
    nothing = np.zeros(len(evidence.DOUBTS))
    rows = [
        Row(one.source, np.array(whole_features(*chances_and_weights(model, one))), nothing, 1.0, float(one.label == 1))
        for one in (*found, *(replace(one, source=f"longer/{one.source}") for one in answers))
    ]
    fitted = fit(rows, SHARES | MORE_SHARES, WHOLE_FEATURES, BASE_RATES | dict.fromkeys(SHARES, 0.5))
    labelled_rows = rows[: len(found)]
    margins = np.array([one.features @ fitted.weights for one in labelled_rows])
    sides = Counter((one.source, one.label) for one in labelled_rows)
    importance = np.array([SHARES[one.source] / sides[one.source, one.label] for one in labelled_rows])
    order = np.argsort(margins, kind="stable")
    middle = np.searchsorted(np.cumsum(importance[order]), importance.sum() / 2)
    return replace(fitted, bias=-float(margins[order][middle]))


def chances_and_weights(model: Fitted, answer: Example) -> tuple[list[float], list[float]]:
    return [model.chance(one) for one in answer.statements], [one.weight for one in answer.statements]


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
    """The content of weights.json: the newly trained models, and the two hand-set models unchanged."""
    texts = list(training_texts(data))
    everyday = everyday_words([(source, text) for source, _, text, _ in texts])
    rarity = Rarity((), everyday)
    found = labelled(data, rarity)
    answers, parts = longer(data, rarity)
    more = [*parts, *changed(data, rarity)]
    labels = np.array([example.label for example in found])
    sources = [example.source for example in found]
    held_out = out_of_fold(found, more)
    model = fit([*(one.whole for one in found), *more], SHARES | MORE_SHARES, evidence.FEATURES, BASE_RATES)
    throughout = fit_whole(model, found, answers)
    for source in SHARES:
        inside = np.array(sources) == source
        each = ", ".join(f"{name} {auroc(values[inside], labels[inside]):.3f}" for name, values in held_out.items())
        print(f"{source}: {inside.sum()} examples, cross-validated AUROC: {each}")
    for source in ("begin/wow", "wice"):
        chosen = [one for one in answers if one.source == source]
        supported = np.array([one.label for one in chosen])
        for name, values in aggregated(model, chosen).items():
            whole_auroc = auroc(values, (supported == 1).astype(float))
            print(f"longer answers of {source}, {name}: AUROC {whole_auroc:.3f}, r {pearson(values, supported):.3f}")
    threshold = best_threshold(held_out["least"], labels, sources)
    document: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    document["version"] = VERSION
    document["support"] = {
        "bias": round(model.bias, 3),
        "weights": dict(zip(evidence.FEATURES, model.weights.round(3).tolist(), strict=True)),
        "doubts": dict(zip(evidence.DOUBTS, model.doubts.round(3).tolist(), strict=True)),
        "threshold": threshold,
    }
    document["whole"] = written(throughout, WHOLE_FEATURES, 0.5)
    document["use"] = fit_use(data, rarity)
    document["everyday"] = everyday
    return document


def main(data: Path) -> None:
    document = train(data)
    lines = json.dumps(document, ensure_ascii=False, indent=1)
    WEIGHTS.write_text(lines + "\n", encoding="utf-8")
    print(json.dumps(document["support"], indent=1), f"{WEIGHTS.stat().st_size} bytes")


if __name__ == "__main__":
    main(data_folder(FILES, *sys.argv[1:2]))
