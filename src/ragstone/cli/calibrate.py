"""`ragstone calibrate`: how well the judge agrees with people."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from ragstone.cli.context import run_to_end
from ragstone.cli.options import (
    COLUMNS,
    CONFIG,
    FORMAT,
    PATH,
    columns_from,
    option,
    setting,
    settings_from,
)
from ragstone.cli.output import check_output, say, show, write_text
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import CACHE, RunDirectory
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.judge.names import provider_of
from ragstone.pipeline.compare import read_side
from ragstone.pipeline.gate_request import read_policy
from ragstone.printable import shown_name
from ragstone.report.templates import render_text_template
from ragstone.settings.settings import Settings
from ragstone.tools.judging.calibrate import calibrate, write_disagreements
from ragstone.tools.judging.pairs import (
    METHODS,
    Pair,
    Results,
    measure_judge,
    read_pairs,
)
from ragstone.tools.judging.table import Labels, label_files, read_labels

TEMPLATES = "ragstone.tools.judging"


@click.command(name="calibrate")
@click.argument("places", nargs=-1, required=True, type=PATH, metavar="LABELS...")
@option(
    "--run",
    type=PATH,
    default=Path(Settings().run.out),
    help="The run whose answers were labelled, or a score file.",
)
@option(
    "--scale",
    value="WORST BEST",
    type=(float, float),
    default=(0.0, 1.0),
    help="Scale of numeric labels.",
)
@option(
    "--settle",
    value="FILE",
    help="Write the answers on which people disagree, as a table settled.csv.",
)
@option("-o", "--output", value="FILE", help="Write the calibration for the gate.")
@option("--fit", value="FILE", help="Fit a judge to the labels, for judge fitted:FILE.")
@option(
    "--method",
    choices=METHODS,
    help="LABELS has pairs, as WikiEval: how to ask the judge about them.",
)
@COLUMNS
@setting("judge", help="The judge to ask about pairs")
@setting("max_cost_usd")
@CONFIG
@FORMAT
def command(
    places: tuple[Path, ...],
    run: Path,
    scale: tuple[float, float],
    settle: Path | None,
    output: Path | None,
    fit: Path | None,
    method: str | None,
    columns: tuple[str, ...],
    form: str,
    **flags: object,
) -> int:
    """Compare the judge of a run with human LABELS, and say whether it may block.

    LABELS are tables of `ragstone label`, or folders of them: one file for each person,
    with the id of an answer in each row, and a column for each metric. A label is pass
    or fail, or a number from 0 to 1 (or on --scale). Answers must be drawn at random, or
    with the probabilities in the tables, as `ragstone label` does.

    With --fit, a judge of your own is fitted to labels of faithfulness, from 30 on: the
    offline judge, corrected by logistic regression. It is graded on labels that it has
    not seen, beside the plain offline judge.

    With --method, LABELS is a file of pairs of a better and a worse answer or context,
    in WikiEval's layout or in other columns, and the judge is asked about each: by
    statements and their support, or by the RAGAS paper's baselines GPT Score and GPT
    Ranking.

    \b
    Examples:
      ragstone calibrate labels --run ragstone-run -o calibration.json
      ragstone calibrate wikieval.jsonl --method ranking --judge openai:gpt-5.4-mini
    """
    settings = settings_from(flags)
    if method is not None:
        if output or fit or settle or len(places) != 1:
            raise ConfigError(
                "--method takes one file of pairs, and goes with neither --output, --fit nor --settle."
            )
        results = run_to_end(
            _ask_about_pairs(settings, places[0], columns_from(columns), method)
        )
        show(form, results.document, results.text)
        return 0
    files = label_files(places)
    scores = read_side(run).scores
    labels = read_labels(files, measured=tuple(scores.metrics), scale=scale)
    if fit is not None:
        return _fit(run, labels, fit, form)
    report = calibrate(
        scores,
        labels,
        required=read_policy(settings, of_stored=True).labels.min_agreement,
    )
    if output is not None:
        write_text(output, report.calibration.model_dump_json(indent=1) + "\n")
    show(form, report.document, report.text)
    if settle is not None and report.unsettled:
        check_output(settle)
        write_disagreements(settle, report, labels)
        say(
            f"wrote {shown_name(str(settle))}: label it as the others, and name it among LABELS.",
            err=True,
        )
    if output is not None:
        name = shown_name(output.name)
        say(
            f'wrote {shown_name(str(output))}. The gate uses it with [labels] file = "{name}".',
            err=True,
        )
    return 0


async def _ask_about_pairs(
    settings: Settings, path: Path, columns: Mapping[str, str], method: str
) -> Results:
    """How often the judge prefers the better case. Its replies are cached, so that a
    stopped command can be resumed."""
    pairs = read_pairs(path, columns)
    cache = None
    if not provider_of(settings.judge.name).free:
        cache = settings.path(settings.run.out) / CACHE
        cache.parent.mkdir(parents=True, exist_ok=True)
    judge = build_judge(
        settings.judge, golden_set=_questions(pairs), cache=cache, environ=os.environ
    )
    try:
        return await measure_judge(judge, pairs, method, file=path.name)
    finally:
        await judge.close()


def _questions(pairs: tuple[Pair, ...]) -> GoldenSet:
    questions = {pair.group: Sample(pair.group, pair.better.question) for pair in pairs}
    return GoldenSet(tuple(questions.values()))


def _fit(run: Path, labels: Labels, out: Path, form: str) -> int:
    # Numerics that a mere comparison does not need.
    from ragstone.tools.judging.fit import fit_judge

    fitted = fit_judge(RunDirectory.open(run), labels)
    write_text(out, fitted.model_dump_json(indent=1) + "\n")
    show(
        form,
        fitted.model_dump,
        lambda: render_text_template(
            "fitted.txt.j2", TEMPLATES, fitted=fitted, file=out
        ),
    )
    return 0
