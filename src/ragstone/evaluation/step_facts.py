"""What the steps of an answer did, and which values it took over from earlier turns,
without the texts themselves.

Values are what a user refers to: ids, long numbers, and names of two words.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

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
"""Maximum number of steps of an answer, and of tool calls, to compare."""
MAX_VALUES = 100
"""Maximum number of ids, of names and of numbers to keep of a text."""
MAX_KEYS = 1_000
"""Maximum number of values to keep of an answer and the input of its steps."""
MAX_VALUE_CHARACTERS = 60
MIN_VALUE_CHARACTERS = 3
MIN_NUMBER_DIGITS = 5
"""A shorter number is a year, a day or an amount, which identifies nothing."""
MIN_KEY_DIGITS = 3
"""With fewer digits, different ids would have the same digits."""
MAX_TEXT_CHARACTERS = 20_000

_TOKEN = re.compile(r"\w[\w./@-]*")
# Two capitalised words. The look-ahead lets matches overlap, for names of three words.
_NAME = re.compile(r"\b(?=([^\W\d_a-z][^\W\d_]{1,40} [^\W\d_a-z][^\W\d_]{1,40})\b)")
_DIGITS = re.compile(r"\d+")
_SEPARATOR = re.compile(r"[/#:]")


class HopFacts(Struct, frozen=True):
    """Whether the evidence of one hop was found, and in which source; the source is
    empty if it is not known."""

    hop: int
    is_found: bool
    source: str = ""


class CallFacts(Struct, frozen=True):
    """A tool call, with fingerprints of its arguments and its result."""

    tool: str
    arguments: str
    result: str | None = None
    """None if the call returned nothing."""


class StepFacts(Struct, frozen=True):
    """What the steps of an answer did, and which values it took over from earlier
    turns."""

    step_count: int = 0
    are_steps_known: bool = True
    """False if the answer came with contexts alone."""
    hops: tuple[HopFacts, ...] = ()
    calls: tuple[CallFacts, ...] = ()
    called_tools: frozenset[str] = frozenset()
    """The tools that were called, and the sources of retrievals."""
    retrieval_count: int = 0
    tool_result_count: int = 0
    """How many results of tools are contexts of the answer."""
    expected_tools: frozenset[str] = frozenset()
    """The tools that the labels expect; alternatives are one entry: ``a or b``."""
    mistakes: frozenset[ToolMistake] = frozenset()
    """Mistakes in tool calls, without values."""
    needed_values: frozenset[str] = frozenset()
    """The values of the user's earlier turns that the labels contain, and the question
    does not."""
    value_keys: frozenset[str] = frozenset()
    """The `value_key` of each value in the answer, its queries and its arguments."""
    argument_names: tuple[tuple[str, str], ...] = ()
    """The `value_kind` of each argument that is a value, with the argument's name."""
    asks_back: bool | None = None
    """None if the sample expects no clarification."""


def step_facts(sample: Sample, response: Response) -> StepFacts | None:
    """The facts of a response that has steps, or is to a turn of a conversation, or to
    a sample with labels of steps; None for others."""
    if sample.turn is None and not (
        response.steps or sample.hops or sample.tools or sample.expects_clarification
    ):
        return None
    calls = [step for step in response.steps if isinstance(step, ToolCall)][:MAX_STEPS]
    expected_arguments = [
        call.arguments for call in sample.tools if call.arguments is not None
    ]
    arguments = [*(call.arguments for call in calls), *expected_arguments]
    facts = StepFacts(
        step_count=len(response.steps),
        are_steps_known=not response.lacks_steps,
        hops=_hop_facts(sample, response),
        calls=tuple(map(_call_facts, calls)),
        called_tools=called_tools(response),
        retrieval_count=sum(isinstance(step, Retrieval) for step in response.steps),
        tool_result_count=len(tool_results(response.steps)),
        expected_tools=frozenset(" or ".join(call.names) for call in sample.tools),
        mistakes=frozenset(
            map(_without_values, tool_mistakes(sample, response)[:MAX_STEPS])
        ),
        argument_names=tuple(dict.fromkeys(_argument_names(arguments)))[:MAX_VALUES],
        asks_back=asks_back(response.answer) if sample.expects_clarification else None,
    )
    history = response.messages_before(sample)
    if sample.turn is None or not history:
        return facts
    from_user = values_of(
        "\n".join(message.text for message in history if message.role == "user")
    )
    labels = [
        *sample.references,
        *sample.reference_contexts,
        *map(_json, expected_arguments),
    ]
    labelled = values_of("\n".join(labels))
    outputs = [response.answer, *map(_input_of, response.steps[:MAX_STEPS])]
    keys = dict.fromkeys(chain.from_iterable(map(_value_keys, outputs)))
    return replace(
        facts,
        needed_values=(from_user - values_of(sample.question)) & labelled,
        value_keys=frozenset(list(keys)[:MAX_KEYS]),
    )


def _hop_facts(sample: Sample, response: Response) -> tuple[HopFacts, ...]:
    contexts = found_contexts(response)
    facts: list[HopFacts] = []
    for hop in hops_of(sample, response):
        is_found = 0 not in hop.ranks
        source = ""
        if is_found:
            source, context = contexts[hop.ranks[0] - 1]
            source = source or _source_in_id(context.id or "")
        facts.append(HopFacts(hop.number, is_found, source[:MAX_VALUE_CHARACTERS]))
    return tuple(facts)


def _source_in_id(context_id: str) -> str:
    """The part of an id before its first separator: ``bills`` of ``bills/7``; empty
    without a separator."""
    separator = _SEPARATOR.search(context_id)
    return context_id[: separator.start()] if separator else ""


def _call_facts(call: ToolCall) -> CallFacts:
    result = None if call.result is None else _digest(call.result)
    return CallFacts(call.name, _digest(_json(call.arguments)), result)


def _without_values(mistake: ToolMistake) -> ToolMistake:
    """`mistake` with nothing but the name of the wrong argument."""
    name = re.split(r"[.\[]", mistake.argument, maxsplit=1)[0]
    return ToolMistake(mistake.kind, mistake.tool, name[:MAX_VALUE_CHARACTERS])


def _input_of(step: Step) -> str:
    """The query or the arguments that the system gave to a step."""
    match step:
        case Retrieval():
            return step.query
        case ToolCall():
            return _json(step.arguments)
        case ModelCall():
            return ""


def values_of(text: str) -> frozenset[str]:
    """The values in `text`; if there are too many, those at its end, where a
    conversation is newest."""
    return frozenset(_values_in_order(text))


def _values_in_order(text: str) -> list[str]:
    ids: list[str] = []
    for token in _tokens(text):
        digits = sum(map(str.isdigit, token))
        has_letters = any(map(str.isalpha, token))
        is_id = digits >= MIN_NUMBER_DIGITS or (digits and has_letters)
        if is_id and MIN_VALUE_CHARACTERS <= len(token) <= MAX_VALUE_CHARACTERS:
            ids.append(token)
    names = filter(str.istitle, _NAME.findall(text[-MAX_TEXT_CHARACTERS:]))
    return ids[-MAX_VALUES:] + list(dict.fromkeys(names))[-MAX_VALUES:]


def value_key(value: str) -> str:
    """What spellings of a value have in common: its digits, so ``4101`` for
    ``TF-4101``; with fewer than MIN_KEY_DIGITS, the value in lower case."""
    digits = "".join(filter(str.isdigit, value))
    return digits if len(digits) >= MIN_KEY_DIGITS else value.casefold()


def value_kind(value: str) -> str:
    """The kind of a value: ``TF-0`` for ``TF-4101``; empty for a name."""
    has_digits = any(map(str.isdigit, value))
    return _DIGITS.sub("0", value) if has_digits else ""


def _value_keys(text: str) -> list[str]:
    """The `value_key` of each value in `text`, and of shorter numbers."""
    numbers = [
        token
        for token in _tokens(text)
        if sum(map(str.isdigit, token)) >= MIN_KEY_DIGITS
    ]
    return list(map(value_key, [*numbers[:MAX_VALUES], *_values_in_order(text)]))


def _tokens(text: str) -> Iterable[str]:
    """The words at the end of `text`, each once."""
    tokens = dict.fromkeys(_TOKEN.findall(text[-MAX_TEXT_CHARACTERS:]))
    return dict.fromkeys(token.rstrip("./@-_") for token in tokens)


def _argument_names(calls: Iterable[Mapping[str, object]]) -> Iterator[tuple[str, str]]:
    """The kind of each value among the arguments of `calls`, with the name of its
    argument."""
    for arguments in calls:
        for name, value in arguments.items():
            if isinstance(value, str) and values_of(value) == {value}:
                yield value_kind(value), name[:MAX_VALUE_CHARACTERS]


def _json(arguments: Mapping[str, object]) -> str:
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
