"""`ragstone check`."""

from __future__ import annotations

import click

from ragstone.cli.context import run_context, run_to_end
from ragstone.cli.options import CHECK, CONFIG, settings_from, with_options
from ragstone.cli.output import say
from ragstone.evaluation.rounds.sources import needs_history
from ragstone.formatting import dollars, percent, seconds
from ragstone.gate.policy_table import MetricRule
from ragstone.gate.verdict import Action
from ragstone.github.api.event import HOSTS
from ragstone.judge.llm.account_settings import judge_hosts
from ragstone.judge.llm.estimate import CostEstimate
from ragstone.judge.protocol import JudgeIdentity
from ragstone.pipeline.check import CheckResult, check
from ragstone.pipeline.folder_gate import look_up
from ragstone.pipeline.gate_request import gate_request
from ragstone.report.escape import clip, one_line
from ragstone.report.filters import sentence
from ragstone.report.templates import render_text_template
from ragstone.report.timeline import step_text

_SHOWN = 200
"""Characters of an answer or a context."""


def _bounds(rule: MetricRule) -> str:
    keys = (
        ("min", rule.min),
        ("max", rule.max),
        ("max_drop", rule.max_drop),
        ("max_rise", rule.max_rise),
    )
    return " and ".join(f"{key} {bound:g}" for key, bound in keys if bound is not None)


def _rules(result: CheckResult) -> tuple[str, str]:
    """The rules that block, and those that only warn."""
    policy = result.policy
    bounds: dict[Action, dict[str, list[str]]] = {Action.BLOCK: {}, Action.WARN: {}}
    levels, changes = {"min": None, "max": None}, {"max_drop": None, "max_rise": None}
    for rule in result.rules:
        if rule.slice is not None or rule.key not in policy.metrics:
            continue
        written = policy.metrics[rule.key]
        for action, left_out in (
            (rule.floor_action, changes),
            (rule.drop_action, levels),
        ):
            if text := _bounds(written.model_copy(update=left_out)):
                bounds[action].setdefault(rule.metric, []).append(text)
    blocks, warns = (
        ", ".join(
            f"{metric} {' and '.join(parts)}"
            for metric, parts in bounds[action].items()
        )
        for action in (Action.BLOCK, Action.WARN)
    )
    return blocks, warns


def _short(text: str) -> str:
    return clip(one_line(text), _SHOWN)


def _cost(estimate: CostEstimate, budget_usd: float | None) -> str:
    if not estimate.calls:
        return "no judge calls, $0"
    price = (
        f"about {dollars(max(estimate.usd, 0.01))}"
        if estimate.usd is not None
        else "price unknown: set it under [judge.prices]"
    )
    share = estimate.cached_input_tokens / max(1, estimate.input_tokens)
    cached = f" ({percent(share)} from the provider's cache)" if share else ""
    tokens = (
        f"{estimate.input_tokens:,} tokens in{cached}, {estimate.output_tokens:,} out"
    )
    cost = f"at most {estimate.calls:,} judge calls, {tokens}, {price} ({estimate.assumptions})"
    if budget_usd is None or estimate.usd is None or estimate.usd <= budget_usd:
        return cost
    return (
        f"{cost}\nbudget       {dollars(budget_usd)} is less than that: a run may stop early with code 5; raise "
        "judge.max_cost_usd, or finish with --resume"
    )


def _fitted(judge: JudgeIdentity) -> str | None:
    """The file of a fitted judge, with the digest that judge.model_digests takes; None
    for other judges."""
    if judge.provider != "fitted":
        return None
    return f"{judge.model} sha256:{dict(judge.parameters)['sha256']}"


def _must_pass(result: CheckResult) -> list[str]:
    must = result.policy.must_pass
    own = (
        sample.id
        for sample in result.golden
        if not sample.draft and (must.every or sample.bounds)
    )
    return list(dict.fromkeys((*must.ids, *own)))


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
        stored = None
        if settings.gate.baseline_folder is not None:
            stored = look_up(settings, context)
        result = run_to_end(check(gate_request(settings, context), context))
        hosts = (
            *judge_hosts(settings.judge, context.environ),
            *(f"{host}:443" for host in HOSTS),
        )
    blocks, warns = _rules(result)
    cost = result.estimate
    text = render_text_template(
        "check.txt.j2",
        __package__,
        found=result,
        unanswerable=sum(not sample.answerable for sample in result.golden),
        conversations=sum(
            needs_history(sample, result.first.system) for sample in result.golden
        ),
        given=f"{sum(bool(sample.reference_contexts) for sample in result.golden):,}",
        fitted=_fitted(result.judge),
        blocks=blocks,
        warns=warns,
        sizes={
            tag: sum(tag in sample.tags for sample in result.golden)
            for tag in result.policy.slices
        },
        must_pass=_must_pass(result),
        baseline=result.baseline or stored,
        cost=_cost(cost, settings.judge.max_cost_usd),
        measured=bool(result.baseline) and not settings.gate.baseline_commit,
        bounds=_bounds,
        hosts=hosts,
        seconds=seconds,
        short=_short,
        step_text=step_text,
    )
    say(text)
    for problem in result.problems:
        say(f"error: {sentence(problem)}", err=True, label="error:")
    return result.rehearsal.exit_code if result.problems else 0
