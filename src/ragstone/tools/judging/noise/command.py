"""`ragstone noise`: how much scores vary when nothing changed."""

from __future__ import annotations

from pathlib import Path

import click

from ragstone.commands.context import run_context, run_to_end
from ragstone.commands.options import CONFIG, FORMAT, PATH, option, setting, settings_from
from ragstone.commands.output import show
from ragstone.project.plan import project_metrics
from ragstone.project.policy import read_policy
from ragstone.rounds.sources import JudgeSource
from ragstone.run.directory import RunDirectory
from ragstone.tools.judging.noise.noise import measure_noise, recorded_noise


@click.command(name="noise")
@click.argument("run", type=PATH)
@option("--again", value="RUN", help="A second run of the same version, to measure the system's own variance.")
@option("--recorded", is_flag=True, help="Use recorded repeats (--repeats 2 or more); make no new judgements.")
@setting("judge")
@setting("judge_base_url")
@setting("max_cost_usd")
@option("--answers", type=int, default=100, help="Number of answers to sample.")
@setting("seed")
@setting("thresholds", help="Policy file, to warn about a max_drop below the noise")
@FORMAT
@CONFIG
def command(run: Path, again: Path | None, recorded: bool, answers: int, form: str, **flags: object) -> int:
    """Judge the answers of RUN twice, and report how much the results differ.

    The judgement cache is not used, so a paid judge costs money: about 8 calls per answer for the four headline
    metrics. Reports how much of the variance of a score comes from the samples, the judge and, with --again, the
    system. Warns if a max_drop in the policy is smaller than the noise.
    """
    settings = settings_from(flags)
    policy = read_policy(settings)
    one = RunDirectory.open(run)
    other = None if again is None else RunDirectory.open(again)
    if recorded:
        found = recorded_noise(one, policy, again=other)
    else:
        project, judge = project_metrics(settings), JudgeSource(settings.judge)
        with run_context(settings) as context:
            found = run_to_end(
                measure_noise(one, policy, project, judge, context, seed=settings.run.seed, again=other, limit=answers)
            )
    show(form, found.json, found.text)
    return 0
