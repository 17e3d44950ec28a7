"""`ragstone calibrate`: how well the judge agrees with people."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from ragstone.cli.context import run_to_end
from ragstone.cli.options import CONFIG, FORMAT, PATH, option, setting, settings_from
from ragstone.cli.output import write_text
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.scores import RunScores
from ragstone.gate.calibration import (
    Calibration,
    Estimate,
    JudgeDisagreement,
    MetricCalibration,
)
from ragstone.gate.grouping import group_labels
from ragstone.pipeline.compare import read_compare_policy, read_side
from ragstone.report.escape import terminal
from ragstone.report.templates import render_text_template
from ragstone.settings.settings import Settings
from ragstone.stats.agreement import Agreement, cohen_kappa, krippendorff_alpha
from ragstone.stats.estimate import Estimate as MeanEstimate
from ragstone.stats.intervals import mean_interval
from ragstone.stats.ppi import PoweredMean, inverse_weights, powered_mean, weighted_powered_mean
from ragstone.tools.judging.labels import PASS_MARK, Labels, read_labels
from ragstone.tools.judging.measures import auroc, estimate
from ragstone.tools.judging.pairs import METHODS, measure_on_pairs

MAX_ERRORS = 10

Floats = NDArray[np.float64]


def calibrate(run: RunScores, labels: Labels, *, confidence: float = 0.95, seed: int = 0) -> Calibration:
    """Compare the scores of `run` with `labels`, metric by metric.

    Assumes that the labelled samples were drawn at random from the run: with the probabilities of `labels`, if it has
    any, else all with the same one. Raises ConfigError for a metric that the run did not measure, or if no labelled
    sample has a score.
    """
    found = {}
    for metric in sorted(labels.by_metric):
        if metric not in run.metrics:
            raise ConfigError(
                f"the labels are for '{metric}', which this run did not measure.",
                where=run.label,
                hint=f"It measured: {', '.join(sorted(run.metrics))}.",
            )
        found[metric] = _metric(run, metric, labels, confidence, seed)
    return Calibration(judge=None if run.manifest is None else run.manifest.judge, metrics=found)


def _metric(run: RunScores, metric: str, labels: Labels, confidence: float, seed: int) -> MetricCalibration:
    scores, people = run.metrics[metric].values, labels.mean(metric)
    ids = sorted(scores.keys() & people.keys())
    if not ids:
        raise ConfigError(
            f"no labelled sample has a score of '{metric}'.",
            where=run.label,
            hint="Labels and run must have the same sample ids: is this the run whose answers were labelled?",
        )
    judge = np.array([scores[i] for i in ids], dtype=np.float64)
    human = np.array([people[i] for i in ids], dtype=np.float64)
    unlabelled = sorted(scores.keys() - people.keys())
    rest = np.array([scores[i] for i in unlabelled], dtype=np.float64)
    alpha = krippendorff_alpha(np.vstack([judge, human]), level="interval", confidence=confidence, seed=seed)
    marks = (judge >= PASS_MARK).astype(np.float64), (human >= PASS_MARK).astype(np.float64)
    kappa = cohen_kappa(*marks, confidence=confidence, seed=seed)
    groups = group_labels(run, ids)
    shares = labels.probabilities
    weight = inverse_weights(np.array([shares[i] for i in ids])) if shares else np.ones(len(ids))
    weights = dict(zip(ids, weight.tolist(), strict=True)) if shares else {}
    reach = float(weight.max())
    bias = mean_interval(weight * (judge - human), confidence=confidence, bounds=(-reach, reach), groups=groups)
    if shares:
        every = np.array([scores[i] for i in sorted(scores)], dtype=np.float64)
        both = _groups(run, ids, sorted(scores))
        powered = weighted_powered_mean(human, judge, weight, every, confidence=confidence, groups=both)
    else:
        powered = powered_mean(human, judge, rest, confidence=confidence, groups=_groups(run, ids, unlabelled))
    farthest = sorted(ids, key=lambda i: (-abs(scores[i] - people[i]), i))[:MAX_ERRORS]
    table = _ratings(labels, metric)
    return MetricCalibration(
        version=run.metrics[metric].version,
        pairs={i: (scores[i], people[i]) for i in ids},
        weights=weights,
        groups={i: name for i in ids if (name := run.samples[i].group) is not None},
        agreement=_estimate(alpha),
        kappa=_estimate(kappa),
        auroc=_auroc(run, ids, judge, marks[1], confidence, seed),
        equal=kappa.equal,
        people=_among(table, confidence, seed),
        people_kappa=_two(table, confidence, seed),
        annotators=labels.annotators(metric),
        bias=_estimate(bias),
        corrected=_estimate(powered),
        judge_mean=float(np.mean(list(scores.values()))),
        gain=powered.gain,
        too_high=int(np.sum((marks[0] == 1.0) & (marks[1] == 0.0))),
        too_low=int(np.sum((marks[0] == 0.0) & (marks[1] == 1.0))),
        errors=tuple(
            JudgeDisagreement(sample_id=i, judge=scores[i], people=people[i])
            for i in farthest
            if scores[i] != people[i]
        ),
        left_out=len(people) - len(ids),
    )


def _auroc(
    run: RunScores, ids: list[str], judge: Floats, passes: Floats, confidence: float, seed: int
) -> Estimate | None:
    """How well the judge ranks what people pass above what they fail; None if they did not do both."""
    if passes.all() or not passes.any():
        return None
    groups = [run.samples[i].group or i for i in ids]
    found = estimate(auroc, judge, passes, groups, confidence=confidence, seed=seed)
    return Estimate(
        estimate=found.value,
        low=found.low,
        high=found.high,
        confidence=confidence,
        method="AUROC, bootstrap over groups",
    )


def _groups(run: RunScores, first: list[str], second: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The groups of two lists of samples, in one numbering; None if there are none."""
    every = sorted({*first, *second})
    labels = group_labels(run, every)
    if labels is None:
        return None
    label_of = dict(zip(every, labels, strict=True))
    return np.array([label_of[i] for i in first]), np.array([label_of[i] for i in second], dtype=np.int64)


def _ratings(labels: Labels, metric: str) -> Floats:
    """(annotators, samples), NaN where there is no label; what people said before anything was adjudicated."""
    names, rows = labels.annotators(metric), labels.by_metric[metric]
    table = [[rows[i].get(name, np.nan) for i in sorted(rows)] for name in names]
    return np.array(table, dtype=np.float64).reshape(len(names), len(rows))


def _among(table: Floats, confidence: float, seed: int) -> Estimate | None:
    if not np.any(np.sum(~np.isnan(table), axis=0) >= 2):
        return None
    return _estimate(krippendorff_alpha(table, level="interval", confidence=confidence, seed=seed))


def _two(table: Floats, confidence: float, seed: int) -> Estimate | None:
    both = table[:, ~np.isnan(table).any(axis=0)]
    if len(both) != 2 or both.shape[1] == 0:
        return None
    first, second = (both >= PASS_MARK).astype(np.float64)
    return _estimate(cohen_kappa(first, second, confidence=confidence, seed=seed))


def _estimate(found: Agreement | MeanEstimate | PoweredMean) -> Estimate:
    return Estimate(
        estimate=found.estimate, low=found.low, high=found.high, confidence=found.confidence, method=found.method
    )


@click.command(name="calibrate")
@click.argument("labels", type=PATH)
@option(
    "--run", type=PATH, default=Path(Settings().run.out), help="The run whose answers were labelled, or a score file."
)
@option("--metric", value="NAME", help="The labelled metric, if the lines don't name it.")
@option("--scale", value="WORST BEST", type=(float, float), default=(0.0, 1.0), help="Scale of numeric labels.")
@option("-o", "--output", value="FILE", help="Write the calibration for the gate.")
@option("--fit", value="FILE", help="Fit a judge to the labels, for judge fitted:FILE.")
@option("--method", choices=tuple(METHODS), help="LABELS has pairs, as WikiEval: how to ask the judge about them.")
@setting("judge", help="The judge to ask about pairs")
@setting("max_cost_usd")
@CONFIG
@FORMAT
def command(
    labels: Path,
    run: Path,
    metric: str | None,
    scale: tuple[float, float],
    output: Path | None,
    fit: Path | None,
    method: str | None,
    form: str,
    **flags: object,
) -> int:
    """Compare the judge of a run with human LABELS.

    LABELS is JSON Lines, or CSV with a header, with id, label, metric and, if there were several people, annotator.
    A label is a number from 0 to 1 (or on --scale), or pass or fail. Label samples drawn at random, or give the
    probability of each: `ragstone label` draws them and makes pages for labelling.

    Reports how well judge and people agree, where the judge errs, and an estimate of the mean that people would have
    given to all samples.

    With --fit, a judge of your own is fitted to labels of faithfulness, from 10 of each class on: the offline judge,
    corrected by logistic regression. It is graded by cross-validation, beside the plain offline judge.

    With --method, LABELS has pairs of a better and a worse answer or context, in WikiEval's layout, and the judge is
    asked about each: by statements and their support, or by the RAGAS paper's baselines GPT Score and GPT Ranking.

    \b
    Examples:
      ragstone calibrate labels.csv --run ragstone-run --metric faithfulness -o calibration.json
      ragstone calibrate wikieval.jsonl --method ranking --judge openai:gpt-5.4-mini
    """
    settings = settings_from(flags)
    if method is not None:
        if output is not None or fit is not None:
            raise ConfigError("pairs give no calibration: --method goes with neither --output nor --fit.")
        return _measure_on_pairs(labels, method, settings, form)
    people = read_labels(labels, metric=metric, scale=scale)
    if fit is not None:
        return _fit(run, people, fit, settings.run.seed, form)
    scores = read_side(run).scores
    found = calibrate(scores, people, seed=settings.run.seed)
    if output is not None:
        write_text(output, found.model_dump_json(indent=1) + "\n")
    if form == "json":
        click.echo(found.model_dump_json(indent=2))
    else:
        policy = settings.gate.thresholds
        file = None if policy is None else settings.path(policy)
        required = read_compare_policy(file, calibration=False).labels.min_agreement
        values = {"calibration": found, "label": scores.label, "required": required, "file": output}
        click.echo(terminal(render_text_template("calibration.txt.j2", __package__, **values)))
    return 0


def _measure_on_pairs(path: Path, method: str, settings: Settings, form: str) -> int:
    found = run_to_end(measure_on_pairs(settings, path, method, seed=settings.run.seed))
    click.echo(found.json() if form == "json" else terminal(found.text()))
    return 0


def _fit(run: Path, labels: Labels, out: Path, seed: int, form: str) -> int:
    # Numerics that a mere comparison does not need.
    from ragstone.tools.judging.fit import fit_judge

    found = fit_judge(RunDirectory.open(run), labels, seed=seed)
    write_text(out, found.model_dump_json(indent=1) + "\n")
    if form == "json":
        click.echo(found.model_dump_json(indent=2))
    else:
        click.echo(terminal(render_text_template("fitted.txt.j2", __package__, fitted=found, file=out)))
    return 0
