"""`ragstone check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ragstone.commands.options import CONFIG, GATE, JUDGE, RUN, SYSTEM, settings_from, with_options
from ragstone.commands.output import say
from ragstone.formatting import dollars, percent, seconds

if TYPE_CHECKING:
    from ragstone.gate.policy import Policy
    from ragstone.judge.llm.estimate import CostEstimate
    from ragstone.judge.protocol import JudgeIdentity


def _rules(policy: Policy) -> str:
    where = policy.file or "defaults"
    rules = []
    for name, rule in policy.metrics.items():
        keys = (("min", rule.min), ("max", rule.max), ("max_drop", rule.max_drop), ("max_rise", rule.max_rise))
        bounds = [f"{key} {bound:g}" for key, bound in keys if bound is not None]
        if bounds:
            rules.append(f"{name} {' and '.join(bounds)}")
    return f"{where}: {', '.join(rules) or 'no floors or drops'}"


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
    tokens = f"{estimate.input_tokens:,} tokens in{cached}, {estimate.output_tokens:,} out"
    cost = f"at most {estimate.calls:,} judge calls, {tokens}, {price} ({estimate.assumptions})"
    if budget_usd is None or estimate.usd is None or estimate.usd <= budget_usd:
        return cost
    return (
        f"{cost}\nbudget       {dollars(budget_usd)} is less than that: a run may stop early with code 5; raise "
        "judge.max_cost_usd, or finish with --resume"
    )


def _models(judge: JudgeIdentity) -> list[str]:
    """The local models, with the digests that judge.model_digests takes."""
    digest = dict(judge.parameters).get("sha256") if judge.provider == "local" else None
    lines = [] if digest is None else [f"{judge.model} sha256:{digest}"]
    if judge.embeddings is not None and judge.embeddings.startswith("local "):
        lines.append(judge.embeddings.removeprefix("local "))
    return lines


@click.command(name="check")
@with_options((CONFIG,), SYSTEM, JUDGE, RUN, GATE)
def command(**flags: object) -> None:
    """Validate config, policy, golden set and entrypoint.

    Asks the entrypoint one question, and estimates the number of judge calls in a run and, if prices are known, their
    cost. Judges nothing and writes nothing.
    """
    from ragstone.commands.context import run_context, run_to_end
    from ragstone.usecases.check import check

    settings = settings_from(flags)
    with run_context(settings) as context:
        found = run_to_end(check(settings, context))
    unanswerable = sum(not sample.answerable for sample in found.golden)
    latency = f" in {seconds(found.response.latency_s)}" if found.response.latency_s is not None else ""
    lines = [
        f"golden set   {len(found.golden)} samples, {unanswerable} unanswerable",
        f"entrypoint   {found.entrypoint}: answered '{found.asked.id}' with {len(found.response.contexts)} "
        f"contexts{latency}",
        f"metrics      {', '.join(metric.info.name for metric in found.metrics)}",
        f"judge        {found.judge.label()}",
        *(f"model        {line}" for line in _models(found.judge)),
        f"policy       {_rules(found.policy)}",
        f"baseline     {found.baseline or 'none: only floors are checked'}",
        f"cost         {_cost(found.estimate, settings.judge.max_cost_usd)}",
    ]
    if found.resolution is not None:
        by = (
            "from the baseline's scores"
            if found.baseline and not settings.gate.baseline_commit
            else "assuming typical variances"
        )
        lines.append(f"resolution   {found.resolution} ({by})")
    lines += [f"note         {remark}" for remark in found.warnings]
    say("\n".join(lines))
