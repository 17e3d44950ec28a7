"""How sure a model is of its verdicts, from the log-probabilities of the tokens that it
wrote.

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
"""The prompts whose verdicts are graded."""
ALTERNATIVES = 4
"""How many alternatives to each token are requested; there are three verdicts."""

PROBABILITY = "probability"
_ITEM_ID = re.compile(r'"id"\s*:[\s\[]*"\W*(s\d+)\b', re.IGNORECASE | re.ASCII)
_ITEM_VERDICT = re.compile(r'"verdict"\s*:[\s\[]*"([a-z]*)"', re.ASCII)
"""Neither is found within a string: its quotation marks are escaped there."""
_MIN_LOG, _MAX_LOG = -1e5, 0.01
"""Of a probability; it may be rounded."""
_MIN_MASS = 0.5
"""If the listed alternatives that begin a verdict have less, they say too little."""


def with_probabilities(values: Values, reply: ChatReply) -> Values:
    """`values` of `reply`, with the probability that each statement is supported if the
    provider gave those of tokens.

    What the reply itself claims to be a probability is left out.
    """
    graded = dict(values)
    chances = _chances(reply.tokens)
    for path, value in values.items():
        if path[0] == "verdicts" and isinstance(value, dict):
            chance = chances.get((path[1], value["verdict"]))
            checked = dict(value)
            checked.pop(PROBABILITY, None)
            if chance is not None:
                checked[PROBABILITY] = chance
            graded[path] = checked
    return graded


def _chances(tokens: Sequence[object]) -> dict[tuple[str, str], float | None]:
    """By statement and its verdict in a reply, the probability of "supported"; nothing
    on a statement named twice."""
    texts = list(map(_text, tokens))
    ends = list(accumulate(map(len, texts)))
    reply = "".join(texts)
    names = [match[1].lower() for match in _ITEM_ID.finditer(reply)]
    verdicts = list(_ITEM_VERDICT.finditer(reply))
    chances: dict[tuple[str, str], float | None] = {}
    if len(names) != len(verdicts):
        return chances
    for name, verdict in zip(names, verdicts, strict=True):
        if names.count(name) == 1 and verdict[1]:
            place = verdict.start(1)
            at = bisect_right(ends, place)
            start = ends[at] - len(texts[at])
            chances[name, verdict[1]] = _supported(tokens[at], place - start)
    return chances


def _supported(token: object, inside: int) -> float | None:
    """The share of "supported" among the alternatives to `token`; the verdict begins
    `inside` characters within it."""
    listed = list_or_empty(dict_or_empty(token).get("top_logprobs"))
    chances = {_text(choice): _chance(choice) for choice in (*listed, token)}
    before = _text(token)[:inside]
    mass: dict[str, float] = dict.fromkeys(Verdict, 0.0)
    for text, chance in chances.items():
        word = text[inside:].partition('"')[0]
        begun = [verdict for verdict in Verdict if verdict.startswith(word)]
        if word and text.startswith(before) and len(begun) == 1:
            mass[begun[0]] += chance
    total = sum(mass.values())
    if total < _MIN_MASS:
        return None
    return round(min(1.0, mass[Verdict.SUPPORTED] / total), 4)


def _text(token: object) -> str:
    return text_or_empty(dict_or_empty(token).get("token"))


def _chance(token: object) -> float:
    """The probability of a token; 0 if its logarithm can't be one."""
    value: Any = dict_or_empty(token).get("logprob")
    is_log = type(value) in (int, float) and _MIN_LOG < value < _MAX_LOG
    return math.exp(min(0.0, value)) if is_log else 0.0
