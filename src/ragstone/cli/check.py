"""`ragstone check`: validate the setup, and ask one question."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ragstone.cli.context import run_context, run_until_done
from ragstone.cli.options import CHECK, CONFIG, settings_from, with_options
from ragstone.cli.output import say
from ragstone.formatting import dollars, seconds
from ragstone.gate.verdict import Action
from ragstone.github.api.event import HOSTS
from ragstone.judge.llm.account_settings import judge_hosts
from ragstone.judge.llm.prices import CostEstimate
from ragstone.pipeline.check import CheckResult, check
from ragstone.pipeline.open_request import open_request
from ragstone.report.escape import clean_line, clip
from ragstone.report.filters import sentence
from ragstone.report.templates import render_text_template

_MAX_SHOWN_CHARACTERS = 200
"""Longer answers and contexts are cut."""


@click.command(name="check")
@with_options((CONFIG,), CHECK)
def command(**flags: object) -> int:
    """Validate everything that `ragstone gate` can refuse, before anything is paid for.

    Asks the entrypoint one question and shows the answer and its contexts. Lists the
    rules of the policy and the hosts that a job needs, and estimates the number of
    judge calls in a run and, if prices are known, their cost. Judges nothing and writes
    nothing. Exits with the code that `ragstone gate` would end with.
    """
    settings = settings_from(flags)
    with run_context(settings) as context:
        with open_request(settings, context) as opened_request:
            result = run_until_done(check(opened_request.request, context))
        hosts = [f"{host}:443" for host in HOSTS]
        hosts = [*judge_hosts(settings.judge, context.environ), *hosts]
    judge = result.judge
    fitted_model = None
    if judge.provider == "fitted":
        # With the digest, to be copied to judge.model_digests.
        fitted_model = f"{judge.model} sha256:{dict(judge.parameters)['sha256']}"
    must_pass = result.policy.must_pass
    must_pass_ids = dict.fromkeys(must_pass.ids)
    for sample in result.golden:
        if not sample.is_draft and (must_pass.every or sample.bounds):
            must_pass_ids[sample.id] = None
    text = render_text_template(
        "check.txt.j2",
        __package__,
        found=result,
        unanswerable=sum(not sample.answerable for sample in result.golden),
        fitted_model=fitted_model,
        blocks=", ".join(_bounds(result, Action.BLOCK)),
        warns=", ".join(_bounds(result, Action.WARN)),
        must_pass_ids=list(must_pass_ids),
        baseline=result.baseline,
        cost=_cost_text(result.estimate, settings.judge.max_cost_usd),
        is_measured=bool(result.baseline) and not settings.gate.baseline_commit,
        hosts=hosts,
        seconds=seconds,
        short=lambda text: clip(clean_line(text), _MAX_SHOWN_CHARACTERS),
    )
    say(text)
    for problem in result.problems:
        say(f"error: {sentence(problem)}", err=True, label="error:")
    return result.rehearsal.exit_code if result.problems else 0


def _cost_text(estimate: CostEstimate, budget_usd: float | None) -> str:
    """The cost of judging in words, with a line about the budget if that is less."""
    text = estimate.sentence()
    if estimate.calls:
        text += f" ({estimate.assumptions})"
    usd = estimate.usd or 0.0
    if budget_usd is not None and usd > budget_usd:
        text += f"\nbudget       {dollars(budget_usd)} is less than that: a run may stop early with code 5"
    return text


def _bounds(result: CheckResult, action: Action) -> Iterator[str]:
    """The bounds of the policy with this `action`, by metric, such as ``faithfulness
    min 0.8``."""
    metrics = result.policy.rules_in_force
    applicable = {scope.metric for scope in result.scopes if scope.samples}
    for rule in result.rules:
        # A default rule is in force only where its metric is measured.
        is_in_force = rule.written or rule.metric in applicable
        if rule.slice is not None or rule.key not in metrics or not is_in_force:
            continue
        written = metrics[rule.key]
        bounds: list[tuple[str, float | None]] = []
        if rule.floor_action is action:
            bounds += [("min", written.min), ("max", written.max)]
        if rule.drop_action is action:
            bounds += [("max_drop", written.max_drop), ("max_rise", written.max_rise)]
        texts = [f"{key} {bound:g}" for key, bound in bounds if bound is not None]
        if texts:
            yield f"{rule.metric} {' and '.join(texts)}"
