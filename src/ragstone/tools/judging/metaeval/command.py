"""`ragstone meta-eval`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ragstone.commands.context import run_to_end
from ragstone.commands.options import CONFIG, FORMAT, JUDGE, PATH, option, setting, settings_from, with_options
from ragstone.commands.output import write_text
from ragstone.report.escape import terminal
from ragstone.report.templates import render_text_template
from ragstone.tools.judging.metaeval.evaluate import evaluate_judge, to_json


@click.command(name="meta-eval")
@click.argument("dataset", type=PATH)
@with_options((CONFIG,), JUDGE[:-2])
@option(
    "--method",
    choices=["metric", "score", "ranking"],
    default="metric",
    help="Ragstone's metrics, or the RAGAS paper's GPT Score and GPT Ranking baselines.",
)
@option("--split", value="NAME", help="Split to use  [default: test, if it exists]")
@option("--limit", value="N", type=click.IntRange(min=1), help="Use only the first N items.")
@setting("seed")
@setting("out", help="Directory of the judgement cache")
@option("--output", value="FILE", help="Also write the results as JSON.")
@FORMAT
def command(
    dataset: Path, method: str, split: str | None, limit: int | None, output: Path | None, form: str, **flags: object
) -> None:
    """Measure a judge on a human-labelled data set.

    DATASET is JSON Lines (or .jsonl.gz) in the format of docs/judges.md, or WikiEval, BEGIN, WiCE, HaluEval QA,
    CLAPNQ or the RAGChecker meta-evaluation, which are recognised by their fields. Intervals are 95 % bootstrap
    intervals over groups.
    """
    settings = settings_from(flags)
    found = run_to_end(evaluate_judge(settings, dataset, environ=os.environ, method=method, split=split, limit=limit))
    document = to_json(found)
    if output is not None:
        write_text(output, document)
    if form == "json":
        click.echo(document, nl=False)
    else:
        click.echo(terminal(render_text_template("results.txt.j2", "ragstone.tools.judging.metaeval", found=found)))
