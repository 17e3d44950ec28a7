"""Measure a judge on a human-labelled data set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from ragstone._version import __version__
from ragstone.config import Settings
from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.judge.names import provider_of
from ragstone.judge.protocol import Judge, Ledger
from ragstone.run.directory import CACHE
from ragstone.tools.judging.metaeval.evaluate import METHODS, MetaEvaluation, run_judge, summarise
from ragstone.tools.judging.metaeval.items import Item, Pairwise
from ragstone.tools.judging.metaeval.load import load_items

SCHEMA_VERSION = 1


async def evaluate_judge(
    settings: Settings,
    dataset: Path,
    *,
    environ: Mapping[str, str],
    method: str = "metric",
    split: str | None = None,
    limit: int | None = None,
) -> MetaEvaluation:
    """How well the judge in `settings` agrees with the people who labelled `dataset`.

    Judgements are cached in ``judgements.sqlite`` in the run directory of `settings`, so that a stopped evaluation can
    be resumed; the budget in `settings` applies. Raises GoldenSetError for a data set that can't be read, ConfigError
    for a judge that doesn't support `method`, JudgeError if the judge fails.
    """
    if method not in METHODS:
        raise ConfigError(f"unknown method '{method}'.", hint=f"Known: {', '.join(METHODS)}.")
    items = load_items(dataset, split=split, limit=limit)
    uncached = provider_of(settings.judge.name).free
    cache = None if uncached else settings.path(settings.run.out) / CACHE
    if cache is not None:
        cache.parent.mkdir(parents=True, exist_ok=True)
    judge = build_judge(settings.judge, golden_set=as_golden_set(items), cache=cache, environ=environ)
    try:
        return await evaluate_with(judge, items, dataset.name, method=method, seed=settings.run.seed)
    finally:
        await judge.close()


async def evaluate_with(
    judge: Judge, items: Sequence[Item], dataset: str, *, method: str = "metric", seed: int = 0
) -> MetaEvaluation:
    """How well `judge`, which is not closed, agrees with the people who labelled `items`. Raises as above."""
    ledger = Ledger()
    outcomes = await run_judge(judge, items, method=method, ledger=ledger)
    return MetaEvaluation(dataset, judge.identity, method, summarise(outcomes, seed=seed), ledger)


def as_golden_set(items: Sequence[Item]) -> GoldenSet:
    """The questions and references of `items`, for a judge that is fitted to the golden set."""
    samples: dict[tuple[str, str | None], Sample] = {}
    for item in items:
        case = item.first if isinstance(item, Pairwise) else item.case
        key = (case.question, case.reference)
        samples.setdefault(key, Sample(item.id, case.question, reference=case.reference))
    return GoldenSet(tuple(samples.values()))


def to_json(found: MetaEvaluation) -> str:
    """The machine-readable file: documented in docs/judges.md, schema version 1."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "ragstone_version": __version__,
        "dataset": found.dataset,
        "method": found.method,
        "judge": asdict(found.judge),
        "cost": asdict(found.ledger),
        "results": [asdict(result) for result in found.results],
    }
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
