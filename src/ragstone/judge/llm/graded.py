"""Computes how sure a model is of its verdicts, from the log-probabilities of the
tokens that it wrote.

The probability of a verdict is that of the token with which it begins, among the
alternatives that begin a verdict (Kadavath et al. 2022, Language models (mostly) know
what they know, section 3: the probability of the token "True").
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ragstone.judge.judgements import Verdict
from ragstone.judge.llm.any_json import dict_or_empty, list_or_empty, text_or_empty
from ragstone.judge.llm.provider import ChatReply
from ragstone.judge.llm.replies import Values

GRADED = frozenset({"support"})
"""The names of the prompts whose verdicts get a probability."""
ALTERNATIVES = 4
"""How many alternatives to each token are requested; there are three verdicts."""

PROBABILITY = "probability"
"""The key of a verdict's probability."""
_ITEM_ID = re.compile(r'"id"\s*:[\s\[]*"\W*(s\d+)\b', re.IGNORECASE | re.ASCII)
_ITEM_VERDICT = re.compile(r'"verdict"\s*:[\s\[]*"([a-z]*)"', re.ASCII)
"""Neither is found inside a quote, whose quotation marks are escaped."""
_MIN_LOGPROB = -1e5
_MAX_LOGPROB = 0.01
"""More than 0, because it may be rounded."""
_MIN_VERDICT_PROBABILITY = 0.5
"""The least probability that a token begins any verdict, by the alternatives that are
listed; with less, they say too little about the verdict."""


def with_probabilities(values: Values, reply: ChatReply) -> Values:
    """`values` of `reply`, in which each verdict has the probability that its statement
    is supported, if the provider reports those of tokens.

    A probability that the model itself wrote is left out.
    """
    values_with_probabilities = dict(values)
    probabilities = _probabilities(reply.tokens)
    for path, value in values.items():
        if path[0] == "verdicts" and isinstance(value, dict):
            probability = probabilities.get((path[1], value["verdict"]))
            verdict = dict(value)
            verdict.pop(PROBABILITY, None)
            if probability is not None:
                verdict[PROBABILITY] = probability
            values_with_probabilities[path] = verdict
    return values_with_probabilities


def _probabilities(tokens: Sequence[object]) -> dict[tuple[str, str], float | None]:
    """The probability of "supported" by statement and its verdict in a reply; None if
    the alternatives don't say.

    Empty if ids and verdicts don't match; without statements that occur twice.
    """
    texts = list(map(_text, tokens))
    token_ends = list(accumulate(map(len, texts)))
    reply = "".join(texts)
    statement_ids = [match[1].lower() for match in _ITEM_ID.finditer(reply)]
    verdicts = list(_ITEM_VERDICT.finditer(reply))
    probabilities: dict[tuple[str, str], float | None] = {}
    if len(statement_ids) != len(verdicts):
        return probabilities
    for statement_id, verdict in zip(statement_ids, verdicts, strict=True):
        is_unique = statement_ids.count(statement_id) == 1
        if is_unique and verdict[1]:
            verdict_start = verdict.start(1)
            token_index = bisect_right(token_ends, verdict_start)
            token_start = token_ends[token_index] - len(texts[token_index])
            probabilities[statement_id, verdict[1]] = _supported_probability(
                tokens[token_index], verdict_start - token_start
            )
    return probabilities


def _supported_probability(token: object, offset: int) -> float | None:
    """The probability of "supported" among the verdicts that `token` and its
    alternatives begin, `offset` characters after their start; None if all of them are
    unlikely."""
    alternatives = list_or_empty(dict_or_empty(token).get("top_logprobs"))
    # By text, because the token itself may be among its alternatives.
    probabilities = {
        _text(choice): _probability(choice) for choice in (*alternatives, token)
    }
    text_before = _text(token)[:offset]
    by_verdict: dict[str, float] = dict.fromkeys(Verdict, 0.0)
    for text, probability in probabilities.items():
        beginning = text[offset:].partition('"')[0]
        begun = [verdict for verdict in Verdict if verdict.startswith(beginning)]
        if beginning and text.startswith(text_before) and len(begun) == 1:
            by_verdict[begun[0]] += probability
    total = sum(by_verdict.values())
    if total < _MIN_VERDICT_PROBABILITY:
        return None
    return round(min(1.0, by_verdict[Verdict.SUPPORTED] / total), 4)


def _text(token: object) -> str:
    return text_or_empty(dict_or_empty(token).get("token"))


def _probability(token: object) -> float:
    """The probability of a token; 0 if its logarithm is not valid."""
    logprob: Any = dict_or_empty(token).get("logprob")
    is_number = type(logprob) in (int, float)
    if not is_number or not _MIN_LOGPROB < logprob < _MAX_LOGPROB:
        return 0.0
    return math.exp(min(0.0, logprob))
