"""What an answer did step by step, and what it took over from earlier turns: facts that
need no record."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

from msgspec import Struct
from msgspec.structs import replace

from ragstone.golden.sample import Sample
from ragstone.judge.clarification import asks_back
from ragstone.metrics.hops import found_contexts, hops_of
from ragstone.metrics.tool_calls import ToolMistake, tool_mistakes
from ragstone.system.response import (
    ModelCall,
    Response,
    Retrieval,
    Step,
    ToolCall,
    called_tools,
    tool_results,
)

MAX_STEPS = 100
"""Steps of an answer that are looked at, and tool calls that are compared; the rest is
left out."""
MAX_VALUES = 100
"""Values of a text; those before are left out."""
MAX_KEYS = 1_000
"""Values of an answer and what it asks of its steps."""
MAX_VALUE_CHARACTERS = 60
MIN_VALUE_CHARACTERS = 3
MIN_DIGITS = 5
"""A number of fewer digits is a year, a day or an amount, and names nothing."""
MIN_KEY_DIGITS = 3
MAX_TEXT_CHARACTERS = 20_000

_TOKEN = re.compile(r"\w[\w./@-]*")
_NAME = re.compile(r"\b(?=([^\W\d_a-z][^\W\d_]{1,40} [^\W\d_a-z][^\W\d_]{1,40})\b)")
_DIGITS = re.compile(r"\d+")
_SEPARATOR = re.compile(r"[/#:]")


class HopFacts(Struct, frozen=True):
    """The evidence of one hop, and the source that it was found in; empty if that is
    not clear."""

    hop: int
    found: bool
    source: str = ""


class CallFacts(Struct, frozen=True):
    """A tool call. `arguments` and `result` are fingerprints; `result` is None if there
    is none."""

    tool: str
    arguments: str
    result: str | None = None


class StepFacts(Struct, frozen=True):
    """What an answer did. Of contexts without steps it is not known how they were
    found.

    `called` are the tools that were called, and the sources of the `retrievals`;
    `results` are those of tools that are among the contexts. `expected` are the tools
    that the labels expect, and `mistakes` what they show, without values and with the
    name of a wrong argument alone. Values are ids, long numbers and names. `needed` are
    those of the user's earlier turns that the labels have and the question lacks;
    `value_keys` are all in the answer, queries and arguments, as `value_key` writes
    them. `argument_names` are the kinds of values that are arguments of tools, each
    with the argument's name. `asks_back` is None where nothing needs to be asked back.
    """

    steps: int = 0
    are_steps_known: bool = True
    hops: tuple[HopFacts, ...] = ()
    calls: tuple[CallFacts, ...] = ()
    called: frozenset[str] = frozenset()
    retrievals: int = 0
    results: int = 0
    expected: frozenset[str] = frozenset()
    mistakes: frozenset[ToolMistake] = frozenset()
    needed: frozenset[str] = frozenset()
    value_keys: frozenset[str] = frozenset()
    argument_names: tuple[tuple[str, str], ...] = ()
    asks_back: bool | None = None


def step_facts(sample: Sample, response: Response) -> StepFacts | None:
    """The facts of an answer to a turn, or with steps, or to a sample with labels of
    them; None of any other."""
    if sample.turn is None and not (
        response.steps or sample.hops or sample.tools or sample.expects_clarification
    ):
        return None
    calls = [step for step in response.steps if isinstance(step, ToolCall)][:MAX_STEPS]
    call_facts: list[CallFacts] = []
    for call in calls:
        result = None if call.result is None else _digest(call.result)
        digest = _digest(_json(call.arguments))
        call_facts.append(CallFacts(call.name, digest, result))
    hops: list[HopFacts] = []
    contexts = found_contexts(response)
    for hop in hops_of(sample, response):
        is_found = 0 not in hop.ranks
        source = ""
        if is_found:
            source, context = contexts[hop.ranks[0] - 1]
            if not source:  # what comes before the first separator of the context's id
                parts = _SEPARATOR.split(context.id or "", maxsplit=1)
                source = "".join(parts[:-1])
        hops.append(HopFacts(hop.number, is_found, source[:MAX_VALUE_CHARACTERS]))
    mistakes: set[ToolMistake] = set()
    for mistake in tool_mistakes(sample, response)[:MAX_STEPS]:
        argument = re.split(r"[.\[]", mistake.argument, maxsplit=1)[0]
        name = argument[:MAX_VALUE_CHARACTERS]
        mistakes.add(ToolMistake(mistake.kind, mistake.tool, name))
    expected_arguments = [
        call.arguments for call in sample.tools if call.arguments is not None
    ]
    arguments = [*(call.arguments for call in calls), *expected_arguments]
    facts = StepFacts(
        steps=len(response.steps),
        are_steps_known=not response.lacks_steps,
        hops=tuple(hops),
        calls=tuple(call_facts),
        called=called_tools(response),
        retrievals=sum(isinstance(step, Retrieval) for step in response.steps),
        results=len(tool_results(response.steps)),
        expected=frozenset(" or ".join(call.names) for call in sample.tools),
        mistakes=frozenset(mistakes),
        argument_names=tuple(islice(_argument_names(arguments), MAX_VALUES)),
        asks_back=asks_back(response.answer) if sample.expects_clarification else None,
    )
    history = response.messages_before(sample)
    if sample.turn is None or not history:
        return facts
    in_question = values_of(sample.question)
    from_user = values_of(
        "\n".join(message.text for message in history if message.role == "user")
    )
    labels = [
        *sample.references,
        *sample.reference_contexts,
        *map(_json, expected_arguments),
    ]
    passed = [response.answer, *map(_passed_to, response.steps[:MAX_STEPS])]
    keys = chain.from_iterable(map(_keys, passed))
    return replace(
        facts,
        needed=(from_user - in_question) & values_of("\n".join(labels)),
        value_keys=frozenset(islice(keys, MAX_KEYS)),
    )


def _passed_to(step: Step) -> str:
    """What the system passed to a step."""
    match step:
        case Retrieval():
            return step.query
        case ToolCall():
            return _json(step.arguments)
        case ModelCall():
            return ""


def values_of(text: str) -> frozenset[str]:
    """The ids, long numbers and names of two words in the end of `text`, which is what
    is newest of a conversation."""
    ids: list[str] = []
    for token in _tokens(text):
        digits = sum(map(str.isdigit, token))
        has_letters = any(map(str.isalpha, token))
        is_short = MIN_VALUE_CHARACTERS <= len(token) <= MAX_VALUE_CHARACTERS
        if is_short and (digits >= MIN_DIGITS or (digits and has_letters)):
            ids.append(token)
    names = filter(str.istitle, _NAME.findall(text[-MAX_TEXT_CHARACTERS:]))
    last_names = list(dict.fromkeys(names))[-MAX_VALUES:]
    return frozenset([*ids[-MAX_VALUES:], *last_names])


def value_key(value: str) -> str:
    """The digits of a value with MIN_KEY_DIGITS or more, so that ``TF-4101`` is
    ``4101``; any other in lower case."""
    digits = "".join(filter(str.isdigit, value))
    return digits if len(digits) >= MIN_KEY_DIGITS else value.casefold()


def value_kind(value: str) -> str:
    """What values of one kind have in common: ``TF-0`` for ``TF-4101``, and the same
    for all names."""
    has_digits = any(map(str.isdigit, value))
    return _DIGITS.sub("0", value) if has_digits else ""


def _keys(text: str) -> frozenset[str]:
    numbers = [
        token
        for token in _tokens(text)
        if sum(map(str.isdigit, token)) >= MIN_KEY_DIGITS
    ]
    values = [*numbers[:MAX_VALUES], *values_of(text)]
    return frozenset(map(value_key, values))


def _tokens(text: str) -> Iterable[str]:
    """The words of the end of `text`, each once."""
    tokens = dict.fromkeys(_TOKEN.findall(text[-MAX_TEXT_CHARACTERS:]))
    return dict.fromkeys(token.rstrip("./@-_") for token in tokens)


def _argument_names(calls: Iterable[Mapping[str, object]]) -> Iterator[tuple[str, str]]:
    """The kinds of values among the arguments of calls, each with the name of its
    argument."""
    for arguments in calls:
        for name, value in arguments.items():
            if isinstance(value, str) and values_of(value) == {value}:
                yield value_kind(value), name[:MAX_VALUE_CHARACTERS]


def _json(arguments: Mapping[str, object]) -> str:
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
