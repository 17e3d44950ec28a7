"""What a request may ask for besides the judgement, and how a refusal of it is
heard."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragstone.judge.llm.provider import Rejected

SCHEMA = "json_schema"
"""The provider constrains the reply to its schema. Without it, the schema is in the
prompt, and the reply is parsed."""
PROMPT = "prompt"
"""The other way to get a structured reply."""
SYSTEM_ROLE = "system role"
OUTPUT_LIMIT = "output limit"


class Feature(Struct, frozen=True):
    """`words`: what a refusal of it says, in lower case. `instead`: what happens
    without it, for the report."""

    name: str
    words: tuple[str, ...]
    instead: str


_ANY_PARAMETER = "requested parameters"
"""OpenRouter's words where no provider of a model takes all parameters; it does not say
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


def output_limit(name: str) -> Feature:
    """The limit of the reply's length, under the name that the provider gives it."""
    words = (
        "max_tokens",
        "max_completion_tokens",
        "in the completion",
        "completion tokens",
    )
    return Feature(
        OUTPUT_LIMIT,
        words,
        f"the model does not accept '{name}' as sent; its own limit holds",
    )


def parameter(name: str, *other_words: str) -> Feature:
    words = (name.casefold(), *other_words)
    return Feature(
        name, words, f"the model does not accept '{name}'; its default is used"
    )


LOGPROBS = parameter("logprobs", _ANY_PARAMETER)
PROMPT_CACHE_KEY = parameter("prompt_cache_key")
PROMPT_CACHE_OPTIONS = parameter("prompt_cache_options", "prompt_cache_breakpoint")
CACHE_CONTROL = parameter("cache_control", "prompt_caching", "prompt caching")


def effort(way: Mapping[str, object]) -> Feature:
    """One way to ask the model to reason little."""
    name = _effort_name(way)
    words = tuple(parameter.casefold() for parameter in way)
    return Feature(name, words, f"the model does not accept {name}, to reason less")


def _effort_name(way: Mapping[str, object]) -> str:
    assigned = [f"{name} = {json.dumps(value)}" for name, value in way.items()]
    return ", ".join(assigned)


class Features:
    """The features in use: all at first, without those that the model refused.

    Of several `ways` to reason little, the first in use is sent.

    A refusal that names a feature, whatever its status, ends its use for all calls, and
    is noted once.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        parameters: Mapping[str, object],
        ways: Sequence[Mapping[str, object]] = (),
    ) -> None:
        self._features = {feature.name: feature for feature in features}
        for name, value in parameters.items():
            # Nested parameters say how and where the user's data are handled: they are
            # kept, or the request fails.
            if not isinstance(value, dict | list):
                self._features.setdefault(name, parameter(name, _ANY_PARAMETER))
        for way in ways:
            self._features[_effort_name(way)] = effort(way)
        self._ways = ways
        self._parameters = parameters
        self.in_use = frozenset(self._features)
        self.notes: list[str] = []

    @property
    def way(self) -> str:
        """How replies get their structure."""
        return SCHEMA if SCHEMA in self.in_use else PROMPT

    def parameters(self) -> dict[str, object]:
        """The parameters to reason little, and the user's, without those that the model
        refused."""
        parameters: dict[str, object] = {}
        for way in self._ways:
            if _effort_name(way) in self.in_use:
                parameters.update(way)
                break
        parameters.update(self._parameters)
        for name in self._features.keys() - self.in_use:
            parameters.pop(name, None)
        return parameters

    def step_down(self, complaint: str, sent: frozenset[str]) -> bool:
        """Whether the refusal of a request with the features `sent` names one of them,
        which is then no longer used."""
        for name, feature in self._features.items():
            is_named = any(word in complaint for word in feature.words)
            if is_named and name in sent:
                if name in self.in_use:
                    self.in_use -= {name}
                    self.note(feature.instead)
                return True
        return False

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


class FeatureRefused(Rejected):
    """A refusal whose `complaint` (lower case) may name a feature. If it names none,
    `error` is raised."""

    def __init__(self, error: Exception, complaint: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.complaint = complaint


def with_schema(data: str, schema: Mapping[str, object]) -> str:
    """`data`, followed by the schema as text, for models whose schema is not enforced
    otherwise."""
    return (
        f"{data}\n\nReply with one JSON object and nothing else. It must follow this JSON schema:\n"
        f"{json.dumps(schema, ensure_ascii=False, separators=(',', ':'))}"
    )
