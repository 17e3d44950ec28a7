"""Functions of custom metrics: called with what they ask for by name, and their grades.

Part of the worker (see `join.py`): standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from ragstone.system.worker.adapters import EntrypointError, Parameters
from ragstone.system.worker.fields import BadReturn, Json, number
from ragstone.system.worker.wording import shown

ARGUMENTS = ("question", "answer", "contexts", "context_ids", "reference", "tags", "id")
"""What a metric's function can ask for, by the names of its parameters."""

_OFFER = (
    f"A metric's function gets, by the names of its parameters: {', '.join(ARGUMENTS)}."
)


class Functions:
    """The functions of custom metrics, by metric. Raises EntrypointError for one that
    can't be called."""

    def __init__(self, targets: Json) -> None:
        self._targets = targets
        self._names = {
            metric: _parameter_names(metric, target)
            for metric, target in targets.items()
        }

    def answer(self, question: str) -> Any:
        """The grade by the function of a metric, as JSON; it may be awaitable.
        `question` is the JSON of the ``metric`` and its ``arguments``, by the names of
        ARGUMENTS. Raises BadReturn, and whatever the function raises."""
        request = json.loads(question)
        metric, arguments = request["metric"], request["arguments"]
        arguments = {name: arguments[name] for name in self._names[metric]}
        value = self._targets[metric](**arguments)
        return _awaited(value) if inspect.isawaitable(value) else _grade(value)


async def _awaited(value: Any) -> str:
    return _grade(await value)


def _parameter_names(metric: str, target: Any) -> tuple[str, ...]:
    """The names that `target` is called with. Raises EntrypointError for a target that
    can't be called with them."""
    if not callable(target) or inspect.isclass(target):
        raise EntrypointError(f"{shown(target)} is not a function (metric '{metric}').")
    parameters = Parameters(target)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.all):
        return ARGUMENTS
    names = [p.name for p in parameters.all if p.name in ARGUMENTS]
    unknown = [name for name in parameters.required if name not in ARGUMENTS]
    if unknown or not names:
        raise EntrypointError(
            f"{parameters.name} asks for {unknown or 'nothing'} (metric '{metric}'). {_OFFER}"
        )
    return tuple(names)


def _grade(value: object) -> str:
    """The JSON of a returned value as a number in [0, 1]; None (does not apply) stays
    None. Raises BadReturn."""
    score = float(value) if isinstance(value, bool) else number(value)
    if value is not None and (score is None or not 0.0 <= score <= 1.0):
        raise BadReturn(
            f"Returned {shown(value)}. Expected True, False, a number from 0 to 1, or None if it does not apply."
        )
    return json.dumps(score)
