"""`ragstone compare`: only the decision."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import click

from ragstone.commands.options import PATH, POLICY, REPORT, SEED, option, with_options
from ragstone.commands.output import write_text


@click.command(name="compare")
@click.argument("runs", type=PATH, metavar="[BASELINE] RUN...", nargs=-1, required=True)
@option("--golden", value="FILE", type=str, multiple=True, help="Golden set of score files, can be repeated.")
@POLICY
@with_options(REPORT)
@option("--baseline-any", is_flag=True, help="Compare with BASELINE even if its run failed.")
@SEED
def command(
    runs: tuple[Path, ...],
    golden: tuple[str, ...],
    thresholds: Path | None,
    form: str,
    output: Path | None,
    verbose: bool,
    baseline_any: bool,
    seed: int,
) -> int:
    """Compare each RUN with a policy and with BASELINE, and decide. One RUN alone is compared with the floors only.

    Each is a run directory, or a score file from any evaluator: JSON Lines, or a table, with id, metric, value (in
    [0, 1]) and, if samples belong together, group; or with one sample per row and a column for each metric, as ragas
    writes it. Its rows are matched with the golden set, if one is given, by id, question or place.

    Several runs share the policy's error rate: the chance that any of them fails without being worse is at most that.
    The report has one table over all of them, and then the report of each; the exit code is that of the worst.

    Exits with 0 pass · 1 fail · 2 usage or a bad file · 5 coverage too low · 6 baseline missing or not comparable ·
    8 inconclusive, if the policy says that blocks.

    \b
    Examples:
      ragstone compare scores.csv --thresholds thresholds.toml
      ragstone compare baseline.csv current.csv
      ragstone compare main-run small-chunks large-chunks --format html -o chunks.html
    """
    from ragstone.app.compare import compare_all, read_compare_policy
    from ragstone.golden.load import load_golden_set
    from ragstone.report.render import Format, render
    from ragstone.report.several import (
        NamedView,
        overall_exit_code,
        render_several,
        summary_of_several,
        text_of_several,
    )
    from ragstone.report.terminal import look_of, print_report, write_to

    form = cast(Format, form)
    baseline = runs[0] if len(runs) > 1 else None
    runs = runs[-1:] if baseline is None else runs[1:]
    found = compare_all(
        baseline,
        runs,
        read_compare_policy(thresholds),
        seed=seed,
        baseline_any=baseline_any,
        golden=load_golden_set(golden) if golden else None,
    )
    pages = [one.page() if form == "html" else () for one in found]
    views = [NamedView(str(run), one.view, page) for run, one, page in zip(runs, found, pages, strict=True)]
    to_terminal = output is None and form == "text"
    if len(views) == 1 and to_terminal:
        print_report(views[0].view, verbose=verbose)
        return found[0].verdict.exit_code
    if to_terminal:
        width, colour = look_of(sys.stdout)
        several = text_of_several(str(baseline), views, width=width, colour=colour) if verbose else None
        write_to(sys.stdout, several or summary_of_several(views, width=width, colour=colour))
        return overall_exit_code(views)
    text = (
        render(views[0].view, form, page=views[0].page)
        if len(views) == 1
        else render_several(str(baseline), views, form)
    )
    if output is not None:
        write_text(output, text)
    else:
        click.echo(text, nl=False)
    return overall_exit_code(views)
