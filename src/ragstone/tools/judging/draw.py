"""Draws answers of a run for people to label, divides them among annotators, and writes
their tables and the page."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ragstone.errors import ConfigError, disk_errors, suggestion
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.files import replace_text, writing_to
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.scores import RunScores
from ragstone.files import refuse_link
from ragstone.metrics.registry import find_metric
from ragstone.printable import clean
from ragstone.report.html_page import render_page
from ragstone.report.templates import read_template
from ragstone.tools.judging.table import (
    OWN_COLUMNS,
    SETTLED,
    TEXTS,
    refuse_existing,
    shown_text,
    write_table,
)

By = Literal["random", "unsure"]

PAGE = "label.html"
_UNSURE = (0.2, 0.8)
"""Between these scores the judge is unsure of an answer."""
_UNSURE_SHARE = 2 / 3
"""Of the drawn answers, if unsure ones are to be drawn more often."""
_ANNOTATOR = re.compile(r"[\w][\w.-]{0,63}")


class Draw(Struct, frozen=True):
    """Drawn answers: who labels which, and the probability with which each was drawn
    from `population` answers."""

    metrics: tuple[str, ...]
    assigned: Mapping[str, tuple[str, ...]]
    probabilities: Mapping[str, float]
    population: int


def draw_answers(
    run: RunDirectory,
    *,
    n: int,
    annotators: Sequence[str],
    overlap: float = 0.2,
    by: By = "random",
    metrics: Sequence[str] = (),
    seed: int = 0,
    redact: Callable[[str], str] = str,
) -> Draw:
    """Draw `n` scored answers of `run`, or all if there are fewer, and assign them to
    `annotators`.

    The share `overlap` of them goes to everyone, so that agreement can be computed; the
    rest are divided evenly. By ``unsure``, two thirds are answers that the judge is
    unsure of; the probabilities let estimates allow for it. Answers whose id has a
    secret are left out. Raises ConfigError.
    """
    scores = run.scores()
    for name in metrics:
        _check_metric(name, scores)
    distinct = set(annotators)
    if not annotators or len(distinct) != len(annotators):
        raise ConfigError("name each annotator once.", hint="--annotators anna,ben")
    for name in annotators:
        if not _ANNOTATOR.fullmatch(name) or name == SETTLED:
            raise ConfigError(
                f"'{name}' can't be an annotator's name.",
                hint="Use letters, digits, '.', '-' and '_'.",
            )
    scored = tuple(name for name, metric in scores.metrics.items() if metric.values)
    names = tuple(metrics) or scored[:1]
    population = []
    for sample_id in sorted(scores.samples):
        is_answered = sample_id not in scores.system.failures
        is_scored = any(sample_id in scores.metrics[name].values for name in names)
        if is_answered and is_scored and redact(sample_id) == sample_id:
            population.append(sample_id)
    if not population:
        raise ConfigError("has no scored answers to label.", where=str(run.path))
    size = min(n, len(population))
    strata = [(population, size)]
    if by == "unsure":
        unsure = [name for name in population if _is_unsure(scores, names, name)]
        if not unsure:
            raise ConfigError(
                "has no answer of which the judge is unsure.",
                where=str(run.path),
                hint="Draw at random: --by random",
            )
        sure = sorted(set(population) - set(unsure))
        unsure_target = round(_UNSURE_SHARE * size)
        from_unsure = min(len(unsure), unsure_target)
        from_sure = min(len(sure), size - from_unsure)
        strata = [(unsure, size - from_sure), (sure, from_sure)]
    chance = random.Random(seed)  # noqa: S311 - fair, not secret
    probabilities = {}
    for stratum, share in strata:
        for sample_id in chance.sample(stratum, share):
            probabilities[sample_id] = share / len(stratum)
    drawn = list(probabilities)
    chance.shuffle(drawn)
    assigned = _assigned(drawn, annotators, overlap, chance)
    return Draw(names, assigned, probabilities, len(population))


def _check_metric(name: str, scores: RunScores) -> None:
    """Raise ConfigError if answers can't be labelled for this metric."""
    if name not in scores.metrics:
        raise ConfigError(
            f"the run has no metric '{name}'.",
            hint=suggestion(name, scores.metrics),
        )
    if name.lower() in OWN_COLUMNS:
        raise ConfigError(
            f"a metric called '{name}' can't be labelled: the table has a column of this name."
        )


def _assigned(
    drawn: Sequence[str],
    annotators: Sequence[str],
    overlap: float,
    chance: random.Random,
) -> dict[str, tuple[str, ...]]:
    """Who labels which of the `drawn` answers, each in an order of their own."""
    shared = round(overlap * len(drawn))
    for_everyone = drawn[:shared]
    assigned = {}
    for place, annotator in enumerate(annotators):
        share = drawn[shared + place :: len(annotators)]
        own = [*for_everyone, *share]
        chance.shuffle(own)
        assigned[annotator] = tuple(own)
    return assigned


def _is_unsure(scores: RunScores, metrics: Sequence[str], sample_id: str) -> bool:
    low, high = _UNSURE
    values = [scores.metrics[name].values.get(sample_id, 0.0) for name in metrics]
    return any(low < value < high for value in values)


def write_tables(
    run: RunDirectory, draw: Draw, folder: Path, *, redact: Callable[[str], str] = str
) -> tuple[list[Path], Path]:
    """Write a table for each annotator and the page to `folder`: their paths. Raises
    ConfigError rather than overwrite a table, which may have labels.
    """
    tables = [folder / f"{annotator}.csv" for annotator in draw.assigned]
    for path in (folder, *tables):
        with disk_errors(path, "can't be written"):
            refuse_link(path)
    for path in tables:
        refuse_existing(path, "Use another folder, or remove it.")
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
    records = run.find(draw.probabilities)
    columns = ("id", *draw.metrics, "comment", *TEXTS, "probability")
    for path, assigned in zip(tables, draw.assigned.values(), strict=True):
        rows = [
            _row(records[name], draw.probabilities[name], redact) for name in assigned
        ]
        write_table(path, columns, rows)
    page = folder / PAGE
    replace_text(page, label_page(draw.metrics))
    return tables, page


def _row(
    record: SampleRecord, probability: float, redact: Callable[[str], str]
) -> dict[str, str]:
    sample = record.sample
    response = record.response
    contexts = []
    for rank, context in enumerate(response.contexts, start=1):
        name = f" {redact(context.id)}" if context.id else ""
        text = redact(context.text)
        contexts.append(f"[{rank}]{name}\n{text}")
    question = redact(sample.question)
    answer = redact(response.answer)
    reference = redact(sample.reference or "")
    passages = "\n\n".join(contexts)
    return {
        "id": sample.id,
        "probability": repr(probability),
        "question": shown_text(question),
        "answer": shown_text(answer),
        "reference": shown_text(reference),
        "contexts": shown_text(passages),
    }


def label_page(metrics: Sequence[str]) -> str:
    """The page that reads a table, takes labels of `metrics`, and saves the table. It
    has no texts of the run."""
    package = "ragstone.tools.judging"
    hints = [
        {"name": name, "title": _title(name), "hint": _hint(name)} for name in metrics
    ]
    stylesheet = read_template("label.css", package)
    script = read_template("label.js", package)
    return render_page(
        "label.html.j2",
        package=package,
        styles=(stylesheet,),
        script=script,
        title="Labels",
        metrics=hints,
    )


def _title(name: str) -> str:
    metric = find_metric(name)
    return clean(metric.info.title) if metric else clean(name)


def _hint(name: str) -> str:
    guide = questions().get(name)
    if guide:
        question = guide["ask"]
        example = guide["example"]
        return f"{question}\nFor example: {example}"
    metric = find_metric(name)
    return clean(metric.info.source) if metric else ""


@cache
def questions() -> dict[str, dict[str, str]]:
    """What a metric asks of a person, in two sentences (`ask`), and a labelled
    `example`, by the metric's name."""
    return tomllib.loads(read_template("questions.toml", "ragstone.tools.judging"))
