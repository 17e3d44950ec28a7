"""`ragstone check`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ragstone.cli.context import run_context, run_to_end
from ragstone.cli.options import CHECK, CONFIG, settings_from, with_options
from ragstone.cli.output import say
from ragstone.formatting import dollars, seconds
from ragstone.gate.verdict import Action
from ragstone.github.api.event import HOSTS
from ragstone.judge.llm.account_settings import judge_hosts
from ragstone.pipeline.check import CheckResult, check
from ragstone.pipeline.open_request import open_request
from ragstone.report.escape import clip, one_line
from ragstone.report.filters import sentence
from ragstone.report.templates import render_text_template

_SHOWN = 200
"""Characters of an answer or a context."""


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
        with open_request(settings, context) as opened:
            result = run_to_end(check(opened.request, context))
        hosts = [f"{host}:443" for host in HOSTS]
        hosts = [*judge_hosts(settings.judge, context.environ), *hosts]
    judge, estimate, must = result.judge, result.estimate, result.policy.must_pass
    fitted = None
    if judge.provider == "fitted":
        # With the digest that judge.model_digests takes.
        fitted = f"{judge.model} sha256:{dict(judge.parameters)['sha256']}"
    cost, budget_usd = estimate.sentence(), settings.judge.max_cost_usd
    if estimate.calls:
        cost += f" ({estimate.assumptions})"
    usd = estimate.usd or 0.0
    if budget_usd is not None and usd > budget_usd:
        cost += f"\nbudget       {dollars(budget_usd)} is less than that: a run may stop early with code 5"
    must_pass = dict.fromkeys(must.ids)
    for sample in result.golden:
        if not sample.draft and (must.every or sample.bounds):
            must_pass[sample.id] = None
    text = render_text_template(
        "check.txt.j2",
        __package__,
        found=result,
        unanswerable=sum(not sample.answerable for sample in result.golden),
        fitted=fitted,
        blocks=", ".join(_rules(result, Action.BLOCK)),
        warns=", ".join(_rules(result, Action.WARN)),
        must_pass=list(must_pass),
        baseline=result.baseline,
        cost=cost,
        measured=bool(result.baseline) and not settings.gate.baseline_commit,
        hosts=hosts,
        seconds=seconds,
        short=lambda text: clip(one_line(text), _SHOWN),
    )
    say(text)
    for problem in result.problems:
        say(f"error: {sentence(problem)}", err=True, label="error:")
    return result.rehearsal.exit_code if result.problems else 0


def _rules(result: CheckResult, action: Action) -> Iterator[str]:
    """The bounds of the policy that block, or those that only warn."""
    metrics = result.policy.in_force
    applying = {size.name for size in result.sizes if size.applies}
    for rule in result.rules:
        is_in_force = rule.written or rule.metric in applying
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
