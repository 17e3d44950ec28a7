"""The steps of an answer, each as a line: what was done, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ragstone.formatting import counted, seconds
from ragstone.system.response import ModelCall, Retrieval, Step, ToolCall

MAX_STEPS = 50
"""Steps shown of one answer."""
MAX_STEP_CHARACTERS = 300
"""Of what a step did, and of what came of it."""

_MAX_RAW_CHARACTERS = 10 * MAX_STEP_CHARACTERS


def step_text(step: Step, shorten: Callable[[str], str]) -> str:
    """`step` as one line: ``lookup_order(order_id=7) → shipped``. `shorten` makes its
    halves fit to be shown."""
    action, outcome = map(shorten, step_line(step))
    return f"{action} → {outcome}" if outcome else action


def step_line(step: Step) -> tuple[str, str]:
    """What `step` did and what came of it, such as ``lookup_order(order_id=7)`` and
    ``shipped``; raw text.

    Both are longer than they are shown, so that they can be redacted before they are
    clipped.
    """
    if isinstance(step, Retrieval):
        line = (
            f'{step.source or "search"} "{step.query}"',
            counted(len(step.contexts), "context"),
        )
    elif isinstance(step, ToolCall):
        line = f"{step.name}({_arguments(step.arguments)})", _outcome(step)
    else:
        line = f"model {step.model}".rstrip(), _effort(step)
    return line[0][:_MAX_RAW_CHARACTERS], line[1][:_MAX_RAW_CHARACTERS]


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
    )


def _outcome(call: ToolCall) -> str:
    if call.error is not None:
        return f"failed: {call.error}"
    return "no result" if call.result is None else call.result


def _effort(call: ModelCall) -> str:
    """The tokens and the time that a model took, as far as they are known."""
    parts = []
    if call.usage is not None:
        parts.append(
            counted(call.usage.input_tokens + call.usage.output_tokens, "token")
        )
    if call.latency_s is not None:
        parts.append(seconds(call.latency_s))
    return ", ".join(parts)
