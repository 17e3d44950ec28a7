"""Context entity recall: the names, places, dates and numbers of the reference that occur in the contexts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from ragstone.formatting import counted, some
from ragstone.golden.sample import Sample
from ragstone.judge.abilities import ENTITIES_PROMPT_VERSION
from ragstone.judge.judgements import EntityList, JudgementKind, Judgements
from ragstone.judge.offline.lexicon import Language, guess_language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import read_passage, read_sentence
from ragstone.judge.offline.support import digest
from ragstone.judge.offline.tokens import NUMBER
from ragstone.judge.sentences import split_sentences
from ragstone.metrics.metric import BaseMetric, MetricInfo, given
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response

_NAME = r"[^\W\d_a-z][\w'’-]*"
_LINK = r"(?:of|the|de|du|von|van|der|la|le|di|da)"
_CAPITALISED = re.compile(rf"{_NAME}(?:\s+(?:{_LINK}\s+)?{_NAME})*")
_SIDE_BY_SIDE = re.compile(rf"{_NAME}(?:\s+{_NAME})*")
_CLOCK = re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b")
_NAMED_AT_START = re.compile(
    r"(?!\w+(?:ing|ly|tion|ment|ness|ity)\b)\w+(?:'s|, (?:and |or )?[A-Z]| \(| (?:is|was|has|[a-z]{2,}s)\b)"
    r"|(?!\w+(?:s|ing|ly|tion|ment|ness|ity)\b)\w+ (?:had|will|can|became|[a-z]+ed)\b"
)
"""A first word before what follows a name: "Ada's", "Ada, Ben and", "Ada was"."""

_INSIDE = re.compile(r"(?<=[a-z0-9,;] )[^\W\d_a-z][\w'’-]*")
_CAPITAL_NOUNS = frozenset({"de"})
"""Languages that write every noun with a capital."""

_Keys = tuple[str, ...]


def entities(
    text: str, language: Language, common: Collection[str] = (), names: Collection[str] = ()
) -> frozenset[_Keys]:
    """Names, places, dates and numbers in `text`, each as its keys: runs of capitalised words, times, and every number.

    The first word of a sentence counts only if it is capitalised elsewhere, if more capitalised words follow it, or if
    it stands as a name does: "Ada was". `common` are words that are common nouns, known because they are written small
    elsewhere: they are no part of a name of several words. `names` are words that have capitals inside other texts. In
    languages that capitalise all nouns, only names of several words and abbreviations count.
    """
    found: set[_Keys] = set()
    sentences = split_sentences(normalise(text), language.code)
    inside = {word for sentence in sentences for word in re.findall(r"\w+", sentence)[1:] if word[:1].isupper()}
    inside.update(names)
    nouns = language.code in _CAPITAL_NOUNS
    for sentence in sentences:
        for run in (_SIDE_BY_SIDE if nouns else _CAPITALISED).finditer(sentence):
            words = run.group().split()
            if not words[0][:1].isupper():
                continue
            opens = run.start() == 0 and len(words) == 1 and words[0] not in inside
            if opens and (nouns or words[0].casefold() in common or not _NAMED_AT_START.match(sentence)):
                continue
            named = [word for word in words if len(words) == 1 or word.casefold() not in common] or words
            keys = read_sentence(" ".join(named), language).keys
            if nouns and len(keys) < 2 and not any(_is_abbreviation(word) for word in words):
                continue
            if keys and not all(map(_is_number, keys)):
                found.add(keys)
        for clock in _CLOCK.findall(sentence):
            found.add(read_sentence(clock, language).keys)
        rest = _CLOCK.sub(" ", sentence)
        found.update((key,) for key in read_sentence(rest, language).keys if _is_number(key))
    return frozenset(found)


def _is_number(key: str) -> bool:
    """Whether a key is that of a number, and not of a month."""
    return key.startswith(NUMBER) and not key[1:].startswith("m")


def _is_abbreviation(word: str) -> bool:
    return sum(letter.isupper() for letter in word) > 1


class ContextEntityRecall(BaseMetric):
    """Entities of the reference that occur in some context ÷ all entities of the reference.

    An LLM judge lists the entities of the reference; they are then looked for in the contexts with the offline judge's
    word lists. The digest of these, and the version of the prompt, are part of the metric's version. Other judges list
    none: then entities are found by capitals and digits, which is coarser. Of several references, the judge reads the
    one that the contexts hold most of; by writing, the best counts. Not applicable if the reference names no entities.
    """

    info = MetricInfo(
        name="context_entity_recall",
        version=f"3.{ENTITIES_PROMPT_VERSION}-{digest()}",
        blames="retrieval",
        source="RAGAS documentation, context entities recall = |CE ∩ RE| / |RE|; entities by writing are Ragstone's",
        answerless=True,
    )

    reads = frozenset({JudgementKind.ENTITIES})
    texts_needed = True
    answerable_only = reference_needed = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if judgements.entities is None:
            return _by_writing(sample.references, response)
        return _by_judge(sample, response, given(judgements.entities, "entities"))


_NONE = NotApplicable("the reference names no entities")
_NO_CONTEXTS = Scored(0.0, note="no contexts were returned")


def _by_judge(sample: Sample, response: Response, named: EntityList) -> Score:
    if not named.names:
        return _NONE
    if not response.contexts:
        return _NO_CONTEXTS
    language = guess_language(normalise(" ".join(sample.references)))
    is_held = _holder(response, language)
    left_out = [name for name in named.names if not is_held(read_sentence(normalise(name), language).keys, name)]
    held = len(named.names) - len(left_out)
    gone = f"; not: {some(left_out)}" if left_out else ""
    return Scored(held / len(named.names), note=f"{held} of {counted(len(named.names), 'entity', 'entities')}{gone}")


def _by_writing(references: Sequence[str], response: Response) -> Score:
    shares = [_share(reference, response) for reference in references]
    found = [share for share in shares if share is not None]
    if not found:
        return _NONE
    if response.contexts:
        return Scored(max(found))
    return _NO_CONTEXTS


def _share(reference: str, response: Response) -> float | None:
    """The share of the entities of `reference` that some context holds; None if it has none."""
    language = guess_language(normalise(reference))
    texts = (reference, *(context.text for context in response.contexts))
    common = {word for text in texts for word in re.findall(r"\w+", text) if word.islower()}
    names = {word for context in response.contexts for word in _INSIDE.findall(context.text)}
    wanted = entities(reference, language, common, names - set(map(str.capitalize, common)))
    if not wanted:
        return None
    is_held = _holder(response, language)
    return sum(is_held(entity, "") for entity in wanted) / len(wanted)


def _holder(response: Response, language: Language) -> Callable[[_Keys, str], bool]:
    """Whether one context holds all keys of an entity, or its text if it has no keys."""
    places = [read_passage(context.text, language).places for context in response.contexts]
    plain = [normalise(context.text).casefold() for context in response.contexts]

    def is_held(keys: _Keys, text: str) -> bool:
        if keys:
            return any(all(key in each for key in keys) for each in places)
        return any(normalise(text).casefold() in each for each in plain)

    return is_held
