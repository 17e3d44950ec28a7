"""`ragstone label`: draw answers of a run for people to label, divide them among
annotators, and write their tables and the page that fills them in."""

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
from ragstone.evaluation.record import SampleRecord
from ragstone.evaluation.run_files import replace_text, writing_to
from ragstone.evaluation.scores import RunScores
from ragstone.files import refuse_link
from ragstone.metrics.registry import find_metric
from ragstone.printable import clean
from ragstone.report.html_page import render_page
from ragstone.report.templates import read_template
from ragstone.tools.judging.label_table import (
    RESERVED_COLUMNS,
    SETTLED,
    TEXTS,
    cell_text,
    refuse_existing,
    write_table,
)

DrawMethod = Literal["random", "unsure"]
"""How answers are drawn: all with the same probability, or more of those that the judge
is unsure of."""

PAGE = "label.html"

_UNSURE_SCORES = (0.2, 0.8)
"""The judge is unsure of an answer whose score is between these."""

_UNSURE_SHARE = 2 / 3
"""By ``unsure``, this share of the drawn answers are ones that the judge is unsure
of."""

_ANNOTATOR = re.compile(r"[\w][\w.-]{0,63}")


class DrawnAnswers(Struct, frozen=True):
    """The answers that were drawn for people to label."""

    metrics: tuple[str, ...]
    """What people label in each answer."""
    assigned: Mapping[str, tuple[str, ...]]
    """The sample ids that each annotator labels, in the order of their table."""
    probabilities: Mapping[str, float]
    """The probability with which each answer was drawn, by sample id."""
    population_size: int
    """How many answers could have been drawn."""


def draw_answers(
    run: RunDirectory,
    *,
    n: int,
    annotators: Sequence[str],
    overlap: float = 0.2,
    by: DrawMethod = "random",
    metrics: Sequence[str] = (),
    seed: int = 0,
    redact: Callable[[str], str] = str,
) -> DrawnAnswers:
    """Draw `n` scored answers of `run`, or all if there are fewer, and assign them to
    `annotators`.

    The share `overlap` of the drawn answers goes to everyone, so that agreement can be
    computed; all others are divided evenly. Without `metrics`, people label the first
    metric of the run that has scores. Answers whose id `redact` would change, because
    it has a secret, are left out. Raises ConfigError.
    """
    scores = run.scores()
    for name in metrics:
        _check_metric(name, scores)
    distinct = set(annotators)
    if not annotators or len(distinct) != len(annotators):
        raise ConfigError(
            "name each annotator once.", hint="For example: --annotators anna,ben"
        )
    for name in annotators:
        if not _ANNOTATOR.fullmatch(name) or name == SETTLED:
            raise ConfigError(
                f"'{name}' can't be an annotator's name.",
                hint="Use letters, digits, '.', '-' and '_'.",
            )
    scored = tuple(name for name, metric in scores.metrics.items() if metric.values)
    labelled_metrics = tuple(metrics) or scored[:1]
    population = []
    for sample_id in sorted(scores.samples):
        is_answered = sample_id not in scores.system.failures
        is_scored = any(
            sample_id in scores.metrics[name].values for name in labelled_metrics
        )
        if is_answered and is_scored and redact(sample_id) == sample_id:
            population.append(sample_id)
    if not population:
        raise ConfigError(
            "has no scored answers to label.",
            where=str(run.path),
            hint="Name a run that scored its answers, or other --metrics.",
        )
    size = min(n, len(population))
    strata = [(population, size)]
    if by == "unsure":
        unsure = [
            sample_id
            for sample_id in population
            if _is_unsure(scores, labelled_metrics, sample_id)
        ]
        if not unsure:
            raise ConfigError(
                "has no answer of which the judge is unsure.",
                where=str(run.path),
                hint="Draw at random: --by random",
            )
        sure = sorted(set(population) - set(unsure))
        unsure_target = round(_UNSURE_SHARE * size)
        unsure_size = min(len(unsure), unsure_target)
        sure_size = min(len(sure), size - unsure_size)
        strata = [(unsure, size - sure_size), (sure, sure_size)]
    generator = random.Random(seed)  # noqa: S311 - fair, not secret
    probabilities = {}
    for sample_ids, stratum_size in strata:
        for sample_id in generator.sample(sample_ids, stratum_size):
            probabilities[sample_id] = stratum_size / len(sample_ids)
    drawn_ids = list(probabilities)
    generator.shuffle(drawn_ids)
    return DrawnAnswers(
        metrics=labelled_metrics,
        assigned=_assign(drawn_ids, annotators, overlap, generator),
        probabilities=probabilities,
        population_size=len(population),
    )


def _check_metric(name: str, scores: RunScores) -> None:
    """Raise ConfigError if people can't label the metric `name`."""
    if name not in scores.metrics:
        raise ConfigError(
            f"the run has no metric '{name}'.",
            hint=suggestion(name, scores.metrics),
        )
    if name.lower() in RESERVED_COLUMNS:
        raise ConfigError(
            f"a metric called '{name}' can't be labelled: the table has a column of this name.",
            hint="Give the metric another name.",
        )


def _assign(
    drawn_ids: Sequence[str],
    annotators: Sequence[str],
    overlap: float,
    generator: random.Random,
) -> dict[str, tuple[str, ...]]:
    """Divide the `drawn_ids` sample ids among `annotators`: each gets the shared ones and
    every nth of the others, in a random order."""
    shared_size = round(overlap * len(drawn_ids))
    shared = drawn_ids[:shared_size]
    assigned = {}
    for index, annotator in enumerate(annotators):
        share = drawn_ids[shared_size + index :: len(annotators)]
        sample_ids = [*shared, *share]
        generator.shuffle(sample_ids)
        assigned[annotator] = tuple(sample_ids)
    return assigned


def _is_unsure(scores: RunScores, metrics: Sequence[str], sample_id: str) -> bool:
    """Whether the judge is unsure of the answer in one of `metrics`."""
    low, high = _UNSURE_SCORES
    # An answer without a score is not an unsure one.
    values = [scores.metrics[name].values.get(sample_id, 0.0) for name in metrics]
    return any(low < value < high for value in values)


def write_tables(
    run: RunDirectory,
    drawn_answers: DrawnAnswers,
    folder: Path,
    *,
    redact: Callable[[str], str] = str,
) -> tuple[list[Path], Path]:
    """Write a table for each annotator and the page to `folder`, and return the paths
    of the tables and of the page.

    Raises ConfigError rather than overwrite a table, which may have labels.
    """
    tables = [folder / f"{annotator}.csv" for annotator in drawn_answers.assigned]
    for path in (folder, *tables):
        with disk_errors(path, "can't be written"):
            refuse_link(path)
    for path in tables:
        refuse_existing(path, "Use another folder, or remove it.")
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
    records = run.find(drawn_answers.probabilities)
    columns = ("id", *drawn_answers.metrics, "comment", *TEXTS, "probability")
    for path, assigned in zip(tables, drawn_answers.assigned.values(), strict=True):
        rows = [
            _row(records[sample_id], drawn_answers.probabilities[sample_id], redact)
            for sample_id in assigned
        ]
        write_table(path, columns, rows)
    page = folder / PAGE
    replace_text(page, label_page(drawn_answers.metrics))
    return tables, page


def _row(
    record: SampleRecord, probability: float, redact: Callable[[str], str]
) -> dict[str, str]:
    """The cells of an answer in a table, by column."""
    sample = record.sample
    response = record.response
    contexts = []
    for rank, context in enumerate(response.contexts, start=1):
        context_id = f" {context.id}" if context.id else ""
        contexts.append(f"[{rank}]{context_id}\n{context.text}")
    texts = {
        "question": sample.question,
        "answer": response.answer,
        "reference": sample.reference or "",
        "contexts": "\n\n".join(contexts),
    }
    cells = {column: cell_text(redact(text)) for column, text in texts.items()}
    return {"id": sample.id, "probability": repr(probability), **cells}


def label_page(metrics: Sequence[str]) -> str:
    """Render the page that opens a table, takes labels of `metrics`, and saves the
    table. The page itself has no text of the run."""
    package = "ragstone.tools.judging"
    metric_texts = [
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
        metrics=metric_texts,
    )


def _title(name: str) -> str:
    """The title of the metric `name`, or the name of one that isn't Ragstone's."""
    metric = find_metric(name)
    return clean(metric.info.title) if metric else clean(name)


def _hint(name: str) -> str:
    """What the page tells people to look for when they label the metric `name`."""
    guide = label_guides().get(name)
    if guide:
        question = guide["ask"]
        example = guide["example"]
        return f"{question}\nFor example: {example}"
    metric = find_metric(name)
    return clean(metric.info.source) if metric else ""


@cache
def label_guides() -> dict[str, dict[str, str]]:
    """By the name of a metric, what it asks of a person, in two sentences (``ask``),
    and a labelled ``example``."""
    return tomllib.loads(read_template("questions.toml", "ragstone.tools.judging"))
