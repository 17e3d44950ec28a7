"""Optional features of a request, which are left out once a model has refused them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragstone.judge.llm.provider import Rejected

SCHEMA = "json_schema"
"""The request mode in which the provider makes replies follow the schema."""
PROMPT = "prompt"
"""The request mode in which the prompt asks for the schema, and the reply is parsed."""
SYSTEM_ROLE = "system role"
OUTPUT_LIMIT = "output limit"


class Feature(Struct, frozen=True):
    """A part of a request that not every model accepts."""

    name: str
    refusal_words: tuple[str, ...]
    """Words in lower case; an error that contains one of them refuses the feature."""
    note: str
    """The note for the report if the feature is refused: what happens without it."""


_ANY_PARAMETER = "requested parameters"
"""OpenRouter's words if no provider of a model takes all parameters: they don't say
which one is refused."""

STRUCTURED = Feature(
    SCHEMA,
    (
        "response_format",
        "json_schema",
        "json schema",
        "structured_output",
        "structured output",
        "output_config",
        "output_format",
        "schema for",
        "invalid schema",
        "grammar",
        "schema produces",
        _ANY_PARAMETER,
    ),
    "the model has no JSON-schema mode; the schema is in the prompt",
)
SYSTEM = Feature(
    SYSTEM_ROLE,
    (
        "system role",
        "role 'system'",
        'role "system"',
        "system message",
        "system instruction",
        "developer instruction",
    ),
    "the model has no system role; the prompt is in the user's message",
)


def output_limit_feature(name: str) -> Feature:
    """The limit of the reply's length, which the provider calls `name`."""
    refusal_words = (
        "max_tokens",
        "max_completion_tokens",
        "in the completion",
        "completion tokens",
    )
    return Feature(
        OUTPUT_LIMIT,
        refusal_words,
        f"the model does not accept '{name}' as sent; its own limit holds",
    )


def parameter_feature(name: str, *other_words: str) -> Feature:
    """A parameter, refused by an error with its name or one of `other_words`."""
    return Feature(
        name,
        (name.casefold(), *other_words),
        f"the model does not accept '{name}'; its default is used",
    )


LOGPROBS = parameter_feature("logprobs", _ANY_PARAMETER)
PROMPT_CACHE_KEY = parameter_feature("prompt_cache_key")
PROMPT_CACHE_OPTIONS = parameter_feature(
    "prompt_cache_options", "prompt_cache_breakpoint"
)
CACHE_CONTROL = parameter_feature("cache_control", "prompt_caching", "prompt caching")


def effort_feature(parameters: Mapping[str, object]) -> Feature:
    """A set of parameters that asks the model to reason less."""
    name = _effort_name(parameters)
    refusal_words = tuple(map(str.casefold, parameters))
    return Feature(
        name, refusal_words, f"the model does not accept {name}, to reason less"
    )


def _effort_name(parameters: Mapping[str, object]) -> str:
    assignments = [
        f"{name} = {json.dumps(value)}" for name, value in parameters.items()
    ]
    return ", ".join(assignments)


class Features:
    """The features in use: at first all of them, later those that the model has not
    refused.

    A refusal that names a feature, whatever its HTTP status, ends its use for all calls
    and is noted once.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        parameters: Mapping[str, object],
        effort_parameters: Sequence[Mapping[str, object]] = (),
    ) -> None:
        """`parameters` are sent with every request. Of `effort_parameters`, the first
        that the model has not refused are sent, too."""
        self._features = {feature.name: feature for feature in features}
        for name, value in parameters.items():
            # Nested parameters may say how and where the user's data are handled, so
            # they are never left out: if they are refused, the request fails.
            if not isinstance(value, dict | list):
                self._features.setdefault(name, parameter_feature(name, _ANY_PARAMETER))
        for effort_set in effort_parameters:
            self._features[_effort_name(effort_set)] = effort_feature(effort_set)
        self._effort_parameters = effort_parameters
        self._parameters = parameters
        self.in_use = frozenset(self._features)
        self.notes: list[str] = []

    @property
    def request_mode(self) -> str:
        """How replies are made to follow the schema: SCHEMA or PROMPT."""
        return SCHEMA if SCHEMA in self.in_use else PROMPT

    def parameters(self) -> dict[str, object]:
        """The parameters of a request: those to reason less, and the user's, without
        those that the model has refused."""
        parameters: dict[str, object] = {}
        for effort_set in self._effort_parameters:
            if _effort_name(effort_set) in self.in_use:
                parameters.update(effort_set)
                break
        parameters.update(self._parameters)
        for name in self._features.keys() - self.in_use:
            parameters.pop(name, None)
        return parameters

    def drop_refused(self, error_text: str, sent: frozenset[str]) -> bool:
        """Stop using the feature that the error of a request with the features `sent`
        refuses; return whether it refuses one."""
        for name, feature in self._features.items():
            is_refused = any(word in error_text for word in feature.refusal_words)
            if is_refused and name in sent:
                # Another request in flight may have been refused for it before.
                if name in self.in_use:
                    self.in_use -= {name}
                    self.note(feature.note)
                return True
        return False

    def note(self, text: str) -> None:
        """Add a note for the report, unless it is there already."""
        if text not in self.notes:
            self.notes.append(text)


class FeatureRefused(Rejected):
    """An error reply that may refuse a feature.

    `error_text` is what it says, in lower case. If it refuses no feature that was sent,
    `error` is raised instead.
    """

    def __init__(self, error: Exception, error_text: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.error_text = error_text


def with_schema(data: str, schema: Mapping[str, object]) -> str:
    """`data`, followed by the schema as text, for a model whose provider does not
    enforce it."""
    return (
        f"{data}\n\nReply with one JSON object and nothing else. It must follow this JSON schema:\n"
        f"{json.dumps(schema, ensure_ascii=False, separators=(',', ':'))}"
    )
