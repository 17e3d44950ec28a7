"""`ragstone check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ragstone.commands.options import CONFIG, GATE, JUDGE, RUN, SYSTEM, settings_from, with_options
from ragstone.commands.output import say
from ragstone.formatting import counted, dollars, percent, seconds, some
from ragstone.gate.verdict import Action
from ragstone.report.escape import clip, one_line
from ragstone.report.wording import sentence

if TYPE_CHECKING:
    from ragstone.app.check import CheckResult, PerturbedSize
    from ragstone.gate.policy_table import MetricRule
    from ragstone.judge.llm.estimate import CostEstimate
    from ragstone.judge.protocol import JudgeIdentity

_SHOWN = 200
"""Characters of an answer or a context."""

_CONTEXTS = 5


def _bounds(rule: MetricRule) -> str:
    keys = (("min", rule.min), ("max", rule.max), ("max_drop", rule.max_drop), ("max_rise", rule.max_rise))
    return " and ".join(f"{key} {bound:g}" for key, bound in keys if bound is not None)


def _policy(found: CheckResult) -> list[str]:
    """The rules that block, those that only warn, those of slices, and the must-pass samples."""
    policy = found.policy
    bounds: dict[Action, dict[str, list[str]]] = {Action.BLOCK: {}, Action.WARN: {}}
    levels, changes = {"min": None, "max": None}, {"max_drop": None, "max_rise": None}
    for rule in found.rules:
        if rule.slice is not None or rule.key not in policy.metrics:
            continue
        written = policy.metrics[rule.key]
        if written.target is not None:
            bounds[Action.WARN].setdefault(rule.metric, []).append(f"target {written.target:g}")
        for action, left_out in ((rule.floor_action, changes), (rule.drop_action, levels)):
            if text := _bounds(written.model_copy(update=left_out)):
                bounds[action].setdefault(rule.metric, []).append(text)
    texts = {
        action: ", ".join(f"{metric} {' and '.join(parts)}" for metric, parts in of.items())
        for action, of in bounds.items()
    }
    lines = [f"policy       {policy.file or 'defaults'}: {texts[Action.BLOCK] or 'no rule blocks'}"]
    if texts[Action.WARN]:
        lines.append(f"only warns   {texts[Action.WARN]}")
    for tag, part in policy.slices.items():
        size = sum(tag in sample.tags for sample in found.golden)
        rules = ", ".join(f"{name} {_bounds(rule)}" for name, rule in part.metrics.items())
        lines.append(f"slice        {tag} ({counted(size, 'sample')}): {rules}")
    if policy.must_pass.samples:
        named = list(dict.fromkeys(policy.must_pass.samples))
        lines.append(f"must pass    {counted(len(named), 'sample')}: {some(named)}")
    return lines


def _metrics(found: CheckResult) -> list[str]:
    """Every metric: on how many samples, what it needs, and what it would cost alone."""
    n = len(found.golden)
    width = max((len(one.name) for one in found.sizes), default=0)
    lines: list[str] = []
    for size in found.sizes:
        applies = f"{size.applies} of {n}"
        line = f"{size.name:<{width}}  {applies:>{len(f'{n} of {n}')}}  {size.needs}"
        if size.estimate.calls:
            line += f"; alone {size.estimate.sentence()}"
        if size.excuse is not None:
            line += f" ({'else' if size.applies else 'none'}: {clip(one_line(size.excuse), _SHOWN)})"
        lines.append(f"{'metrics' if not lines else '':<12} {line}")
    return lines


def _response(found: CheckResult) -> list[str]:
    """The answer and the contexts that the system gave, shortened."""
    answer = clip(one_line(found.response.answer), _SHOWN)
    retrieved = not answer and found.part is not None and found.part.startswith("retrieval")
    lines = [] if retrieved else [f"answer       {answer or '(empty)'}"]
    for number, context in enumerate(found.response.contexts[:_CONTEXTS], 1):
        name = f"[{context.id}] " if context.id else ""
        lines.append(f"context {number:<4} {name}{clip(one_line(context.text), _SHOWN)}")
    more = len(found.response.contexts) - _CONTEXTS
    return [*lines, f"             and {counted(more, 'more context')}"] if more > 0 else lines


def _whole_cost(found: CheckResult) -> CostEstimate:
    """That of the run and of its perturbed questions."""
    return found.estimate if found.perturbed is None else found.estimate.plus(found.perturbed.estimate)


def _perturbed(found: PerturbedSize | None) -> list[str]:
    if found is None:
        return []
    more = counted(found.questions, "more question")
    cost = f"; of the cost, {found.estimate.sentence()} (less for unchanged answers)" if found.estimate.calls else ""
    return [f"perturb      {counted(found.samples, 'sample')}: {more} ({', '.join(found.kinds)}){cost}"]


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
    parameters = dict(judge.parameters) if judge.provider == "local" else {}
    digest, device = parameters.get("sha256"), parameters.get("device")
    on = "" if device is None else f" on {device}"
    lines = [] if digest is None else [f"{judge.model} sha256:{digest}{on}"]
    if judge.embeddings is not None and judge.embeddings.startswith("local "):
        lines.append(judge.embeddings.removeprefix("local "))
    return lines


@click.command(name="check")
@with_options((CONFIG,), SYSTEM, JUDGE, RUN, GATE)
def command(**flags: object) -> int:
    """Validate everything that `ragstone gate` can refuse, before anything is paid for.

    Asks the entrypoint one question and shows the answer and its contexts. Lists the rules of the policy, and estimates
    the number of judge calls in a run and, if prices are known, their cost. Judges nothing and writes nothing. Exits
    with the code that `ragstone gate` would end with.
    """
    from ragstone.app.check import check
    from ragstone.commands.context import run_context, run_to_end
    from ragstone.project.gate import gate_request

    settings = settings_from(flags)
    with run_context(settings) as context:
        stored = None
        if settings.gate.baseline_store is not None:
            from ragstone.job.stored_gate import look_up

            stored = look_up(settings, context)
        found = run_to_end(check(gate_request(settings, context), context))
    unanswerable = sum(not sample.answerable for sample in found.golden)
    latency = f" in {seconds(found.response.latency_s)}" if found.response.latency_s is not None else ""
    lines = [
        f"golden set   {counted(len(found.golden), 'sample')}, {unanswerable} unanswerable",
        f"entrypoint   {found.entrypoint}: answered '{found.asked.id}' with "
        f"{counted(len(found.response.contexts), 'context')}{latency}",
        *([] if found.part is None else [f"part         {found.part}"]),
        *([] if found.oracle is None else [f"oracle       {found.oracle}"]),
        *([] if found.history is None else [f"history      {found.history}"]),
        f"question     {clip(one_line(found.asked.question), _SHOWN)}",
        *_response(found),
        *_metrics(found),
        f"judge        {found.judge.label()}",
        *(f"model        {line}" for line in _models(found.judge)),
        *_policy(found),
        f"baseline     {found.baseline or stored or 'none: only floors are checked'}",
        f"cost         {_cost(_whole_cost(found), settings.judge.max_cost_usd)}",
        *_perturbed(found.perturbed),
    ]
    if found.policy.gate.confirm and found.estimate.calls:
        more = found.policy.gate.confirm_repeats
        lines.append(
            f"confirm      when in doubt, each question is asked up to {more} more times, each time at up to that cost"
        )
    if found.resolution is not None:
        by = (
            "The variances are those of the baseline's scores."
            if found.baseline and not settings.gate.baseline_commit
            else "This assumes typical variances."
        )
        lines.append(f"resolution   {found.resolution} {by}")
    lines += [f"note         {remark}" for remark in found.warnings]
    say("\n".join(lines))
    for problem in found.problems:
        say(f"error: {sentence(problem)}", err=True, label="error:")
    return found.rehearsal.exit_code if found.problems else 0
