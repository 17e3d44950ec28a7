"""The benefit of a local entailment model over the offline judge: ``python bench/local_judge.py --model FOLDER``.

Prints the model's digest, the result of the self-test, a table of every developer set (words only, combined as by
default, the model alone), and the speed. A model that fails the self-test is measured anyway; the gate would reject it.
``--fit`` fits the weights of the combination to BEGIN dev and WiCE dev and writes them into
``src/ragstone/judge/local/weights.json``. ``--labels`` and ``--threads`` are `judge.local.labels` and `.threads`;
``--cache FILE`` keeps the model's ratings, so that a later run with other words asks it nothing twice.
Slow: up to an hour for a model of 80 MB on one core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pickle
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from data_sets import data_folder
from judge_opinions import run_judge, summarise
from judge_reliability import FILES, ROOT, SHOWN, pieces_of_pages
from labelled_sets import Item, Pairwise, load_items
from offline_judge import HEADLINE, sample
from scipy.optimize import minimize
from train_offline_judge import PIECE, read, training_texts

from ragstone.config.settings import LocalJudgeSettings, LocalWeights
from ragstone.errors import ConfigError
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import StatementList
from ragstone.judge.local.checker import Checker, PairRating
from ragstone.judge.local.judge import LocalJudge, combined, shipped_weights
from ragstone.judge.local.selftest import require_sense
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.model import log_odds
from ragstone.judge.offline.support import even_odds
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.system.response import Context
from ragstone.tools.judging.measures import auroc

WEIGHTS = ROOT / "src" / "ragstone" / "judge" / "local" / "weights.json"
VERSION = "1"
RIDGE = 1.0
SPEED_SAMPLES = 5
METRICS = ("faithfulness", "context_recall", "context_precision")


class Remembering(Checker):
    """Keeps all ratings in a file, by the model's digest."""

    def open(self, file: Path | None) -> None:
        self._file = file
        self._known: dict[tuple[str, str, str], PairRating] = {}
        if file is not None and file.is_file():
            self._known = pickle.loads(file.read_bytes())
        self.asked = 0
        self.seconds = 0.0

    def rate(self, text: str, statement: str) -> PairRating:
        key = (f"{self.digest} {' '.join(self.labels)}", text, statement)
        if key not in self._known:
            start = time.perf_counter()
            self._known[key] = super().rate(text, statement)
            self.seconds += time.perf_counter() - start
            self.asked += 1
            if self.asked % 500 == 0:
                self.save()
        return self._known[key]

    def save(self) -> None:
        if self._file is not None:
            draft = self._file.with_suffix(".part")
            draft.write_bytes(pickle.dumps(self._known))
            draft.replace(self._file)


def fit(rows: Sequence[tuple[float, float]], labels: Sequence[float], sources: Sequence[str]) -> LocalWeights:
    """A bias and two non-negative weights for the log-odds of words and model; each source counts the same."""
    x, y = np.array([[log_odds(one) for one in row] for row in rows]), np.array(labels)
    names = sorted(set(sources))
    share = np.array([len(sources) / len(names) / sources.count(source) for source in sources])
    signs = 1 - 2 * y

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (x @ point[:-1] + point[-1])
        slope = share * signs / (1 + np.exp(-margins))
        value = float((share * np.logaddexp(0, margins)).sum() + RIDGE / 2 * (point[:-1] ** 2).sum())
        return value, np.append(x.T @ slope + RIDGE * point[:-1], slope.sum())

    point = minimize(loss, [0.5, 0.5, 0.0], jac=True, method="L-BFGS-B", bounds=[(0, None)] * 2 + [(None, None)]).x
    return LocalWeights(bias=round(point[2], 3), words=round(point[0], 3), model=round(point[1], 3))


Answer = tuple[str, float, float, list[tuple[float, float]]]


async def dev_answers(judge: OfflineJudge, checker: Checker, data: Path) -> list[Answer]:
    """(source, label, words of the whole, statements as (words, model)) of each answer of the dev splits."""
    found = []
    call = Call("dev")
    for source, answer, evidence, label in training_texts(data):
        try:
            listed = await judge.statements("", answer, call=call)
            if not listed.statements:
                continue
            table = await judge.support([Context(evidence)], listed.statements, call=call)
            model = [checker.rate(evidence, one.text).supported for one in listed.statements]
        except JudgementFailed:
            continue
        words = [even_odds(one.chance) for one in table.supports]
        found.append(
            (source.partition("/")[0], label, table.all_supported or 0.0, list(zip(words, model, strict=True)))
        )
    return found


def dev_pieces(data: Path) -> Iterator[tuple[float, str, str]]:
    """(label, claim, text) of pieces of WiCE's dev pages: does a piece hold a sentence that people named?"""
    draw = random.Random(0)
    for row in read(data / "wice_claim.jsonl.gz"):
        named = {index for group in row["supporting_sentences"] or [] for index in group}
        if row["split"] != "dev" or not named:
            continue
        lines = row["evidence_sentences"]
        pieces = [range(start, min(start + PIECE, len(lines))) for start in range(0, len(lines), PIECE)]
        useful = [piece for piece in pieces if named & set(piece)]
        useless = [piece for piece in pieces if not named & set(piece)]
        picked = [(piece, 1.0) for piece in draw.sample(useful, min(1, len(useful)))]
        picked += [(piece, 0.0) for piece in draw.sample(useless, min(2, len(useless)))]
        for piece, label in picked:
            yield label, row["claim"], "\n".join(lines[index] for index in piece)


async def rated_pieces(judge: OfflineJudge, checker: Checker, data: Path) -> list[tuple[float, float, float]]:
    """(label, words, model) of each of them."""
    found = []
    for label, claim, text in dev_pieces(data):
        use = await judge.context_use("", claim, "", [Context(text)], call=Call("dev"))
        model = max(checker.rate(text, one.text).supported for one in use.reference_statements)
        found.append((label, use.contexts[0].probability or 0.0, model))
    return found


async def fit_all(checker: Checker, data: Path) -> dict[str, object]:
    judge = OfflineJudge()
    answers = await dev_answers(judge, checker, data)
    sources = [one[0] for one in answers]
    wholes = [(words, min(model for _, model in each)) for _, _, words, each in answers]
    labels = [one[1] for one in answers]
    single = [at for at, one in enumerate(answers) if len(one[3]) == 1]
    pieces = await rated_pieces(judge, checker, data)
    parts = {
        "statement": fit(
            [answers[at][3][0] for at in single], [labels[at] for at in single], [sources[at] for at in single]
        ),
        "whole": fit(wholes, labels, sources),
        "use": fit([one[1:] for one in pieces], [one[0] for one in pieces], ["wice"] * len(pieces)),
    }
    rows = {
        "whole": (wholes, labels, sources),
        "use": ([one[1:] for one in pieces], [one[0] for one in pieces], ["wice"] * len(pieces)),
    }
    for name, (pairs, truth, origin) in rows.items():
        for source in sorted(set(origin)):
            at = [n for n, one in enumerate(origin) if one == source]
            y = np.array([truth[n] for n in at])
            scores = [np.array([f(*pairs[n]) for n in at]) for f in (_words, _model, _both(parts[name]))]
            shown = ", ".join(f"{auroc(one, y):.3f}" for one in scores)
            print(f"dev {name} {source}: {len(at)} cases, AUROC of words, model, both: {shown}")
    return {"version": VERSION, **{name: part.model_dump() for name, part in parts.items()}}


def _words(words: float, _model: float) -> float:
    return words


def _model(_words: float, model: float) -> float:
    return model


def _both(weights: LocalWeights) -> Callable[[float, float], float]:
    return lambda words, model: combined(weights, words, model)


def judges(checker: Checker, items: Sequence[Item], settings: LocalJudgeSettings) -> Iterator[tuple[str, Judge]]:
    cases = [item.first if isinstance(item, Pairwise) else item.case for item in items]
    questions, references = [case.question for case in cases], [case.reference for case in cases if case.reference]
    yield "words", OfflineJudge(questions, references)
    for name, alone in (("combined", False), ("alone", True)):
        yield (
            name,
            LocalJudge(checker, OfflineJudge(questions, references), settings.model_copy(update={"alone": alone})),
        )


def tables(checker: Remembering, data: Path, settings: LocalJudgeSettings, only: tuple[str, ...]) -> None:
    sets = {name: load_items(data / file) for name, file in FILES.items()}
    sets["WiCE pieces of pages (test)"] = pieces_of_pages(data / "wice_claim.jsonl.gz")
    print("\n| metric | data set | measure | items | words | combined | model alone |\n|---|---|---|---|---|---|---|")
    for name, items in sets.items():
        if only and not name.startswith(only):
            continue
        cells: dict[tuple[str, str], list[str]] = {}
        sizes: dict[tuple[str, str], int] = {}
        for _, judge in judges(checker, items, settings):
            outcomes = asyncio.run(run_judge(judge, items))
            for result in summarise(outcomes):
                for metric, measure in SHOWN.get((str(result.task), result.kind), ()):
                    if metric not in METRICS or (metric == "context_recall" and not name.startswith("WiCE")):
                        continue
                    found = result.measures[measure]
                    cells.setdefault((metric, measure), []).append(
                        f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
                    )
                    sizes[metric, measure] = result.scored
        for (metric, measure), row in cells.items():
            print(f"| `{metric}` | {name} | {measure} | {sizes[metric, measure]} | {' | '.join(row)} |", flush=True)
        checker.save()


async def speed(path: Path, settings: LocalJudgeSettings) -> None:
    """CPU time for a pair (one context of 120 words and a statement), and for a sample of five contexts."""
    checker = Checker(path, settings, within=None, digests=())
    judge = LocalJudge(checker, OfflineJudge(), settings)
    pairs = [
        (context.text, response.answer.split(". ")[0])
        for _, response in map(sample, range(10))
        for context in response.contexts[:2]
    ]
    start = time.process_time()
    for text, statement in pairs:
        checker.rate(text, statement)
    each = (time.process_time() - start) / len(pairs)
    start = time.process_time()
    for number in range(100, 100 + SPEED_SAMPLES):
        one, response = sample(number)
        found = await collect_judgements(judge, one, response, HEADLINE, Call(one.id))
        assert isinstance(found.statements, StatementList)
    whole = (time.process_time() - start) / SPEED_SAMPLES
    await judge.close()
    print(f"\nspeed, in CPU time: {each * 1e3:.0f} ms a pair, {whole * 1e3:.0f} ms a sample of 5 contexts of 120 words")


def main(given: argparse.Namespace) -> None:
    settings = LocalJudgeSettings(labels=tuple(given.labels), threads=given.threads)
    checker = Remembering(given.model, settings, within=None, digests=())
    checker.open(given.cache)
    size = sum(file.stat().st_size for file in given.model.rglob("*.onnx*")) / 1e6
    print(f"model {checker.name}: {size:.0f} MB, sha256:{checker.digest}, labels {', '.join(checker.labels)}")
    print(
        f"{checker.max_tokens} tokens, batches of {checker._batch}, {os.cpu_count()} cores, {settings.threads} threads"
    )
    try:
        require_sense(checker)
        print("self-test: passed")
    except ConfigError as error:
        print(f"self-test: refused\n{error}")
    if given.fit:
        document = asyncio.run(fit_all(checker, given.data))
        checker.save()
        WEIGHTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        shipped_weights.cache_clear()
        print(json.dumps(document))
    if not given.no_tables:
        tables(checker, given.data, settings, tuple(given.sets))
    print(f"\n{checker.asked} ratings by the model, {checker.seconds:.0f} s")
    asyncio.run(speed(given.model, settings))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--labels", nargs="*", default=())
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--no-tables", action="store_true")
    parser.add_argument("--sets", nargs="*", default=(), help="only data sets whose names begin so")
    chosen = parser.parse_args()
    chosen.data = data_folder(FILES.values(), chosen.data)
    main(chosen)
