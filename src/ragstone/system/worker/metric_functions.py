"""Calls the functions of custom metrics with the arguments that they accept, and checks
the grades that they return.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from ragstone.system.worker.adapters import EntrypointError, Parameters
from ragstone.system.worker.fields import BadReturn, number
from ragstone.system.worker.wording import shown

ARGUMENTS = ("question", "answer", "contexts", "context_ids", "reference", "tags", "id")
"""The parameters that a metric's function can have."""

_EXPECTED_PARAMETERS = f"A metric's function is called by keyword, with those of {', '.join(ARGUMENTS)} that it accepts."


class Functions:
    """The functions of custom metrics, by metric. Raises EntrypointError for a function
    that can't be called."""

    def __init__(self, targets: Mapping[str, Callable[..., Any]]) -> None:
        self._targets = targets
        self._names = {
            metric: _parameter_names(metric, target)
            for metric, target in targets.items()
        }

    def answer(self, question: str) -> Any:
        """Call the function of a metric. Returns the grade as JSON, or an awaitable of
        it. Raises BadReturn, and whatever the function raises.

        The worker calls it as it calls a system, so that the call is in the text
        `question`: the JSON of an object with the name of the ``metric``, and all
        ARGUMENTS by name as ``arguments``.
        """
        request = json.loads(question)
        metric = request["metric"]
        arguments = {name: request["arguments"][name] for name in self._names[metric]}
        value = self._targets[metric](**arguments)
        return _await_grade(value) if inspect.isawaitable(value) else _grade_json(value)


async def _await_grade(value: Any) -> str:
    return _grade_json(await value)


def _parameter_names(metric: str, target: Any) -> tuple[str, ...]:
    """The names of the arguments that the function `target` is called with, all by
    keyword. Raises EntrypointError if the function can't be called with these alone."""
    if not callable(target) or inspect.isclass(target):
        raise EntrypointError(f"{shown(target)} is not a function (metric '{metric}').")
    parameters = Parameters(target)
    has_kwargs = any(p.kind is p.VAR_KEYWORD for p in parameters.all)
    names = [name for name in parameters.keyword_names if name in ARGUMENTS]
    unknown = [name for name in parameters.required if name not in names]
    if unknown or not (names or has_kwargs):
        function = f"{parameters.target_name} (metric '{metric}')"
        problem = "has no parameters that it could be called with"
        if unknown:
            problem = (
                f"requires {', '.join(unknown)}, which it can't be given by keyword"
            )
        raise EntrypointError(f"{function} {problem}. {_EXPECTED_PARAMETERS}")
    return ARGUMENTS if has_kwargs else tuple(names)


def _grade_json(value: object) -> str:
    """The JSON of a grade: a number in [0, 1], or null if the function returned None,
    since the metric does not apply. Raises BadReturn."""
    score = float(value) if isinstance(value, bool) else number(value)
    if value is not None and (score is None or not 0.0 <= score <= 1.0):
        raise BadReturn(
            f"Returned {shown(value)}. Expected True, False, a number from 0 to 1, or None if the metric does not apply."
        )
    return json.dumps(score)
