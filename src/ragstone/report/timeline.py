"""The steps of an answer, each as a line: what was done, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable

from ragstone.formatting import counted, seconds
from ragstone.system.response import Retrieval, Step, ToolCall

MAX_STEPS = 50
"""Steps shown of one answer."""
MAX_STEP_CHARACTERS = 300
"""Of what a step did, and of what came of it."""

_MAX_RAW_CHARACTERS = 10 * MAX_STEP_CHARACTERS
"""More than is shown, so that it can be redacted before it is clipped."""


def step_text(step: Step, shorten: Callable[[str], str]) -> str:
    """`step` as one line: ``lookup_order(order_id=7) → shipped``. `shorten` redacts its
    halves and makes them fit."""
    if isinstance(step, Retrieval):
        action = f'{step.source or "search"} "{step.query}"'
        outcome = counted(len(step.contexts), "context")
    elif isinstance(step, ToolCall):
        arguments = [
            f"{name}={json.dumps(value, ensure_ascii=False)}"
            for name, value in step.arguments.items()
        ]
        action = f"{step.name}({', '.join(arguments)})"
        outcome = step.result or "no result"
        if step.error is not None:
            outcome = f"failed: {step.error}"
    else:
        action = f"model {step.model}".rstrip()
        effort = []
        if step.usage is not None:
            tokens = step.usage.input_tokens + step.usage.output_tokens
            effort.append(counted(tokens, "token"))
        if step.latency_s is not None:
            effort.append(seconds(step.latency_s))
        outcome = ", ".join(effort)
    action = shorten(action[:_MAX_RAW_CHARACTERS])
    outcome = shorten(outcome[:_MAX_RAW_CHARACTERS])
    return f"{action} → {outcome}" if outcome else action
