"""`ragstone meta-eval`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragstone.commands.options import CONFIG, FORMAT, JUDGE, PATH, setting, settings_from, with_options
from ragstone.formatting import counted, dollars

if TYPE_CHECKING:
    from ragstone.tools.judging.metaeval.evaluate import MetaEvaluation


@click.command(name="meta-eval")
@click.argument("dataset", type=PATH)
@with_options((CONFIG,), JUDGE[:-2])
@click.option(
    "--method",
    type=click.Choice(["metric", "score", "ranking"]),
    default="metric",
    show_default=True,
    help="Ragstone's metrics, or the RAGAS paper's GPT Score and GPT Ranking baselines.",
)
@click.option("--split", metavar="NAME", help="Split to use  [default: test, if it exists]")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Use only the first N items.")
@setting("seed")
@setting("out", help="Directory of the judgement cache")
@click.option("--output", type=PATH, metavar="FILE", help="Also write the results as JSON.")
@FORMAT
def command(
    dataset: Path, method: str, split: str | None, limit: int | None, output: Path | None, form: str, **flags: object
) -> None:
    """Measure a judge on a human-labelled data set.

    DATASET is JSON Lines (or .jsonl.gz) in the format of docs/judges.md, or WikiEval, BEGIN, WiCE, HaluEval QA,
    CLAPNQ or the RAGChecker meta-evaluation, which are recognised by their fields. Intervals are 95 % bootstrap
    intervals over groups.
    """
    import os

    from ragstone.commands.context import run_to_end
    from ragstone.errors import ConfigError
    from ragstone.tools.judging.metaeval.meta_eval import evaluate_judge, to_json

    settings = settings_from(flags)
    found = run_to_end(evaluate_judge(settings, dataset, environ=os.environ, method=method, split=split, limit=limit))
    document = to_json(found)
    if output is not None:
        try:
            output.write_text(document, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"can't be written: {error.strerror}", where=str(output)) from None
    click.echo(document if form == "json" else as_text(found), nl=False)


def as_text(found: MetaEvaluation) -> str:
    """The table as text: one block per task, one line per measure."""
    from ragstone.report.escape import terminal

    lines = [f"{terminal(found.judge.label())} on {terminal(found.dataset)}, method {found.method}"]
    for result in found.results:
        lines.append("")
        lost = f", {result.not_applicable} not applicable, {result.failed} failed"
        lines.append(f"{result.task.value} ({result.kind}): {result.scored} of {result.items} scored{lost}")
        for name, estimate in result.measures.items():
            interval = "" if estimate.low is None else f"  [{estimate.low:.3f}, {estimate.high:.3f}]"
            lines.append(f"  {name.replace('_', ' '):<18} {estimate.value:6.3f}{interval}")
        lines.extend(f"  not scored: {terminal(reason)}" for reason in result.reasons)
    ledger = found.ledger
    if ledger.calls or ledger.cached_calls:
        cost = "unknown cost" if ledger.cost_usd is None else dollars(ledger.cost_usd)
        lines.extend(["", f"{counted(ledger.calls, 'call')}, {ledger.cached_calls} from the cache, {cost}"])
    return "\n".join(lines) + "\n"
