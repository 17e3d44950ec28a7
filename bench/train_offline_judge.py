"""Train the offline judge's support model: ``python bench/train_offline_judge.py [DATA_DIR]``.

Reads the training splits only: BEGIN dev (CC BY 4.0, CDLA-Sharing 1.0) and WiCE dev (ODC-BY). Writes
``src/ragstone/judge/offline/weights.json``. Deterministic; takes about ten seconds.

The model is a logistic regression with non-negative weights over the features of `evidence.FEATURES`. It is fitted on
whole answers, because that is what people labelled; the threshold is set on single statements, because that is what the
judge decides about: an answer is supported when each of its statements is.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from data_sets import data_folder
from numpy.typing import NDArray
from scipy.optimize import minimize

from ragstone.judge.offline import evidence, usefulness
from ragstone.judge.offline.lexicon import language
from ragstone.judge.offline.model import load_weights
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import read_passage, read_sentence
from ragstone.judge.offline.rarity import Rarity
from ragstone.judge.offline.statements import split_statements
from ragstone.judge.offline.support import SupportModel
from ragstone.judge.offline.tokens import NUMBER
from ragstone.metaeval.measures import auroc, balanced_accuracy

Floats = NDArray[np.float64]

VERSION = "2"
ROOT = Path(__file__).parents[1]
WEIGHTS = ROOT / "src" / "ragstone" / "judge" / "offline" / "weights.json"
ENGLISH = language("en")
EVERYDAY_WORDS = 400
COMMON_RANK = 1200
LEAST_WEIGHT = 0.15
RIDGE = 0.3
FOLDS = 5
PIECE = 8
FILES = ("begin.jsonl.gz", "wice_claim.jsonl.gz")
SHARES = {"begin/wow": 1.0, "begin/cmu": 0.5, "begin/tc": 0.5, "wice": 1.0}
"""How much each source counts in the fit, whatever its size."""


@dataclass(frozen=True)
class Example:
    """An answer as features, each of its statements as features, and whether people called all of it supported."""

    source: str
    whole: Floats
    statements: Floats
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
    """The commonest first, ties by key, so that the order in which words were met doesn't matter."""
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
    return {key: round(max(LEAST_WEIGHT, 1 - math.log(count) / math.log(total)), 2) for key, count in sorted(kept)}


def examples(data: Path, rarity: Rarity) -> list[Example]:
    found = []
    for source, answer, text, label in training_texts(data):
        passage = read_passage(text, ENGLISH)
        statements = [one for one in split_statements(normalise(answer), ENGLISH) if one.keys]
        if statements:
            joined = read_sentence(" ".join(one.text for one in statements), ENGLISH)
            rows = [evidence.match(one, [passage], rarity, ENGLISH)[0].features for one in [joined, *statements]]
            found.append(Example(source, np.array(rows[0]), np.array(rows[1:]), label))
    return found


def fit(found: Sequence[Example]) -> tuple[Floats, float]:
    """Non-negative weights and a bias, by L-BFGS-B on the weighted log loss with a ridge penalty."""
    rows = np.array([example.whole for example in found])
    width = rows.shape[1]
    sizes = Counter(example.source for example in found)
    importance = np.array([SHARES[example.source] / sizes[example.source] for example in found])
    importance *= len(found) / importance.sum()
    signs = np.array([1 - 2 * example.label for example in found])

    def loss(point: Floats) -> tuple[float, Floats]:
        margins = signs * (rows @ point[:-1] + point[-1])
        value = float((importance * np.logaddexp(0, margins)).sum() + RIDGE / 2 * (point[:-1] ** 2).sum())
        slope = importance * signs / (1 + np.exp(-margins))
        return value, np.append(rows.T @ slope + RIDGE * point[:-1], slope.sum())

    bounds = [(0, None)] * width + [(None, None)]
    start = np.append(np.ones(width), -width / 2)
    point = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return point[:-1], float(point[-1])


def logistic(margins: Floats) -> Floats:
    return 1 / (1 + np.exp(-margins))


def out_of_fold(found: Sequence[Example]) -> tuple[Floats, Floats]:
    """Cross-validated probabilities of whole answers, and of their least supported statements."""
    folds = np.random.default_rng(0).integers(0, FOLDS, len(found))
    whole, least = np.zeros(len(found)), np.zeros(len(found))
    for fold in range(FOLDS):
        weights, bias = fit([example for example, at in zip(found, folds, strict=True) if at != fold])
        for index in np.flatnonzero(folds == fold).tolist():
            whole[index] = found[index].whole @ weights + bias
            least[index] = (found[index].statements @ weights + bias).min()
    return logistic(whole), logistic(least)


def windows(data: Path, rarity: Rarity) -> Iterator[tuple[tuple[float, ...], float]]:
    """Features and label of pieces of WiCE's pages: does a piece hold a sentence that people named as support?

    One piece that does and two that don't for each claim, drawn with a fixed seed: the same page, so the same topic.
    """
    draw = random.Random(0)
    model = SupportModel(load_weights(), rarity)
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
            ratings = [model.rate(one, [passage], ENGLISH)[0] for one in statements]
            yield usefulness.features(statements, ratings, passage, rarity, ()), label


def fit_use(data: Path, rarity: Rarity) -> dict[str, Any]:
    """The model of a context's usefulness, as weights.json holds it."""
    rows = [
        Example("wice", np.array(features), np.array([features]), label) for features, label in windows(data, rarity)
    ]
    weights, bias = fit(rows)
    labels = np.array([row.label for row in rows])
    probabilities = logistic(np.array([row.whole @ weights + bias for row in rows]))
    candidates = np.arange(0.1, 0.8, 0.02).round(2)
    threshold = max(candidates, key=lambda at: balanced_accuracy((probabilities >= at).astype(float), labels))
    print(f"use: {len(rows)} pieces, AUROC {auroc(probabilities, labels):.3f} on the pieces it was fitted to")
    return {
        "bias": round(bias, 3),
        "weights": {name: round(float(weight), 3) for name, weight in zip(usefulness.FEATURES, weights, strict=True)},
        "threshold": float(threshold),
    }


def best_threshold(probabilities: Floats, labels: Floats, sources: Sequence[str]) -> float:
    """The threshold with the best mean balanced accuracy over the sources."""
    names = np.array(sources)

    def quality(threshold: float) -> float:
        said = (probabilities >= threshold).astype(float)
        each = [SHARES[name] * balanced_accuracy(said[names == name], labels[names == name]) for name in SHARES]
        return sum(each) / sum(SHARES.values())

    return float(max(np.arange(0.2, 0.8, 0.02).round(2), key=quality))


def train(data: Path) -> dict[str, Any]:
    """The whole of weights.json: what is learnt anew, and the two models that were set by hand as they stand there."""
    texts = list(training_texts(data))
    everyday = everyday_words([(source, text) for source, _, text, _ in texts])
    found = examples(data, Rarity((), everyday))
    labels = np.array([example.label for example in found])
    sources = [example.source for example in found]
    held_out, least = out_of_fold(found)
    for source in SHARES:
        inside = np.array(sources) == source
        print(f"{source}: {inside.sum()} examples, cross-validated AUROC {auroc(held_out[inside], labels[inside]):.3f}")
    weights, bias = fit(found)
    threshold = best_threshold(least, labels, sources)
    document: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    document["version"] = VERSION
    document["support"] = {
        "bias": round(bias, 3),
        "weights": {name: round(float(weight), 3) for name, weight in zip(evidence.FEATURES, weights, strict=True)},
        "threshold": threshold,
    }
    document["use"] = fit_use(data, Rarity((), everyday))
    document["everyday"] = everyday
    return document


def main(data: Path) -> None:
    document = train(data)
    lines = json.dumps(document, ensure_ascii=False, indent=1)
    WEIGHTS.write_text(lines + "\n", encoding="utf-8")
    print(json.dumps(document["support"], indent=1), f"{WEIGHTS.stat().st_size} bytes")


if __name__ == "__main__":
    main(data_folder(FILES, *sys.argv[1:2]))
