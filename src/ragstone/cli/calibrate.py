"""`ragstone calibrate`: how well the judge agrees with people."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import click

from ragstone.cli.context import run_until_done
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
from ragstone.pipeline.accept import policy_folder
from ragstone.pipeline.compare import read_side
from ragstone.pipeline.gate_request import read_policy
from ragstone.printable import shown_name
from ragstone.report.templates import render_text_template
from ragstone.settings.settings import Settings
from ragstone.tools.judging.calibrate import calibrate, write_disagreements
from ragstone.tools.judging.label_table import Labels, label_files, read_labels
from ragstone.tools.judging.pairs import (
    METHODS,
    Pair,
    PairResults,
    measure_judge,
    read_pairs,
)

_TEMPLATES = "ragstone.tools.judging"


_DEFAULT_RUN = Path(Settings().run.out)
_DEFAULT_SCALE = (0.0, 1.0)


@click.command(name="calibrate")
@click.argument("places", nargs=-1, required=True, type=PATH, metavar="LABELS...")
@option(
    "--run",
    type=PATH,
    default=_DEFAULT_RUN,
    help="The run whose answers were labelled, or a score file.",
)
@option(
    "--scale",
    value="WORST BEST",
    type=(float, float),
    default=_DEFAULT_SCALE,
    help="Scale of numeric labels.",
)
@option(
    "--settle",
    value="FILE",
    help="Write a table of the answers on which people disagree; it must be called settled.csv.",
)
@option("-o", "--output", value="FILE", help="Write the calibration for the gate.")
@option(
    "--fit",
    value="FILE",
    help="Write a judge that is fitted to the labels; use it as judge fitted:FILE.",
)
@option(
    "--method",
    choices=METHODS,
    help="How to ask the judge about pairs; LABELS is then a file of pairs, as in WikiEval.",
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
    format_name: str,
    **flags: object,
) -> int:
    """Compare the judge of a run with human LABELS, and say whether it may block.

    LABELS are tables of `ragstone label`, or folders of them: one file for each person,
    with the id of an answer in each row, and a column for each metric. A label is pass
    or fail, or a number from 0 to 1 (or on --scale). Answers must be drawn at random, or
    with the probabilities in the tables, as `ragstone label` does.

    With --fit, a judge of your own is fitted to at least 30 labels of faithfulness: the
    offline judge, corrected by logistic regression. It is graded on labels that it has
    not seen, and compared with the plain offline judge.

    With --method, LABELS is a file of pairs of a better and a worse answer or context,
    in WikiEval's layout or with the columns named by --column. The judge is asked about
    each pair: by statements and their support, or by the RAGAS paper's baselines GPT
    Score and GPT Ranking.

    \b
    Examples:
      ragstone calibrate labels --run ragstone-run -o calibration.json
      ragstone calibrate wikieval.jsonl --method ranking --judge openai:gpt-5.4-mini
    """
    # Which options were used, of those that can't be combined with others.
    table_options = {"--output": output is not None, "--settle": settle is not None}
    label_options = {
        "--fit": fit is not None,
        "--run": run != _DEFAULT_RUN,
        "--scale": scale != _DEFAULT_SCALE,
        **table_options,
    }
    pair_options = {
        "--judge": flags["judge"] is not None,
        "--max-cost-usd": flags["max_cost_usd"] is not None,
        "--column": bool(columns),
    }
    settings = settings_from(flags)
    if method is not None:
        _refuse_options(label_options, "does not go with --method")
        if len(places) != 1:
            raise ConfigError(
                "--method takes one file of pairs.", hint="Name only that file."
            )
        results = run_until_done(
            _ask_about_pairs(settings, places[0], columns_from(columns), method)
        )
        show(format_name, results.document, results.text)
        return 0
    _refuse_options(pair_options, "is for pairs, and needs --method")
    scores = read_side(run).scores
    labels = read_labels(
        label_files(places), metrics=tuple(scores.metrics), scale=scale
    )
    if fit is not None:
        _refuse_options(table_options, "does not go with --fit")
        _fit(run, labels, fit, format_name)
        return 0
    policy = read_policy(settings, of_stored=True)
    report = calibrate(scores, labels, min_agreement=policy.labels.min_agreement)
    if output is not None:
        write_text(output, report.calibration.model_dump_json(indent=1) + "\n")
    show(format_name, report.document, report.text)
    if settle is not None and report.unsettled:
        check_output(settle)
        write_disagreements(settle, report, labels)
        say(
            f"wrote {shown_name(str(settle))}: label it like the others, and name it among LABELS.",
            err=True,
        )
    elif settle is not None:
        say(
            f"There is nothing to settle, so {shown_name(str(settle))} was not written.",
            err=True,
        )
    if output is not None:
        # The policy names files relative to its own folder.
        file = os.path.relpath(output, policy_folder(policy, settings.root))
        value = json.dumps(file, ensure_ascii=False)
        say(
            f"wrote {shown_name(str(output))}. To let the gate use it, set file = {value} under [labels] in "
            "thresholds.toml.",
            err=True,
        )
    return 0


def _refuse_options(is_used: Mapping[str, bool], objection: str) -> None:
    """Raise ConfigError for the first option that is used."""
    for name, is_in_use in is_used.items():
        if is_in_use:
            raise ConfigError(f"{name} {objection}.", hint=f"Leave out {name}.")


async def _ask_about_pairs(
    settings: Settings, path: Path, columns: Mapping[str, str], method: str
) -> PairResults:
    """Ask the judge about the pairs in `path`, and count how often it prefers the
    better one.

    The replies of a judge that costs money are cached, so that an interrupted command
    can be continued.
    """
    pairs = read_pairs(path, columns)
    cache = None
    if not provider_of(settings.judge.name).free:
        cache = settings.path(settings.run.out) / CACHE
        cache.parent.mkdir(parents=True, exist_ok=True)
    judge = build_judge(
        settings.judge,
        golden_set=_golden_set_of(pairs),
        cache=cache,
        environ=os.environ,
    )
    try:
        return await measure_judge(judge, pairs, method, file=path.name)
    finally:
        await judge.close()


def _golden_set_of(pairs: tuple[Pair, ...]) -> GoldenSet:
    """The questions of the pairs, one sample for each group."""
    samples = {pair.group: Sample(pair.group, pair.better.question) for pair in pairs}
    return GoldenSet(tuple(samples.values()))


def _fit(run: Path, labels: Labels, output: Path, format_name: str) -> None:
    """Fit a judge to `labels` of `run`, write it to `output`, and print its grades."""
    # Imported here: it loads numerics that a mere comparison does not need.
    from ragstone.tools.judging.fit import fit_judge

    fitted = fit_judge(RunDirectory.open(run), labels)
    write_text(output, fitted.model_dump_json(indent=1) + "\n")

    def text() -> str:
        return render_text_template(
            "fitted.txt.j2", _TEMPLATES, fitted=fitted, file=output
        )

    show(format_name, fitted.model_dump, text)
