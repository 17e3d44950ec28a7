"""Context entity recall: the names, places, dates and numbers of the reference that
occur in the contexts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from ragstone.formatting import counted, join_first
from ragstone.golden.sample import Sample
from ragstone.judge.abilities import ENTITIES_PROMPT_VERSION
from ragstone.judge.judgements import EntityList, JudgementKind, Judgements
from ragstone.judge.normal import normalise
from ragstone.judge.offline.lexicon import Language, guess_language
from ragstone.judge.offline.model import judge_version
from ragstone.judge.offline.passage import Sentence, read_passage
from ragstone.judge.offline.tokens import NUMBER
from ragstone.judge.sentences import split_sentences
from ragstone.metrics.metric import BaseMetric, MetricInfo, require
from ragstone.metrics.score import NOTHING_RETURNED, NotApplicable, Score, Scored
from ragstone.system.response import Response

_CAPITALISED = r"[^\W\d_a-z][\w'’-]*"
_LINK = r"(?:of|the|de|du|von|van|der|la|le|di|da)"
_NUMBER_AFTER = r"(?:\s+\d[\w-]*(?![.:,]?\d))?"
_NAME = rf"{_CAPITALISED}(?:\s+(?:{_LINK}\s+)?{_CAPITALISED})*{_NUMBER_AFTER}"
"""Capitalised words, with small words that link them: "Bank of England", "Apollo 11"."""

_NAME_WITHOUT_LINKS = rf"{_CAPITALISED}(?:\s+{_CAPITALISED})*{_NUMBER_AFTER}"
"""For languages that capitalise nouns, where links also join nouns."""

_STARTS_WITH_NAME = (
    r"(?!\w+(?:ing|ly|tion|ment|ness|ity)\b)\w+(?:'s|, (?:and |or )?[A-Z]| \(| (?:is|was|has|[a-z]{2,}s)\b)"
    r"|(?!\w+(?:s|ing|ly|tion|ment|ness|ity)\b)\w+ (?:had|will|can|became|[a-z]+ed)\b"
)
"""The beginning of a sentence whose first word is used as a name: "Ada's", "Ada, Ben
and", "Ada was"."""

_NAME_IN_CONTEXT = r"(?:^|(?<=[a-z0-9,;] ))[^\W\d_a-z][\w'’-]*"
"""A word with a capital inside a sentence, or at the beginning of a context."""

_Keys = tuple[str, ...]
"""The keys of the words of an entity (see judge/offline/tokens.py)."""


def entities(
    text: str,
    language: Language,
    common: Collection[str] = (),
    names: Collection[str] = (),
) -> frozenset[_Keys]:
    """The names, places, dates and numbers in `text`, each as its keys: runs of
    capitalised words, times, and every number.

    The first word of a sentence counts only if it is capitalised elsewhere, if more
    capitalised words or a number follow it, or if it is used as a name: "Ada was".
    `common` are words that are also written small, so that they are no part of a name
    of several words. `names` are words that are capitalised in other texts. In
    languages that capitalise all nouns, only names of several words and abbreviations
    count.
    """
    entity_keys: set[_Keys] = set()
    sentences = split_sentences(normalise(text), language.code)
    capitalised = set(names)
    for sentence in sentences:
        words = re.findall(r"\w+", sentence)
        # The capital of the first word says nothing.
        capitalised.update(word for word in words[1:] if word[:1].isupper())
    for sentence in sentences:
        names_here = set(_names_in(sentence, language, common, capitalised))
        keys_of_names = set[str]().union(*names_here)
        entity_keys.update(names_here)
        for key in Sentence(sentence, language).keys:
            if _is_number(key) and key not in keys_of_names:
                entity_keys.add((key,))
    return frozenset(entity_keys)


def _names_in(
    sentence: str,
    language: Language,
    common: Collection[str],
    capitalised: Collection[str],
) -> Iterator[_Keys]:
    """The names in a sentence, each as its keys. The parameters are as in
    `entities`."""
    has_capital_nouns = language.capitalises_nouns
    pattern = _NAME_WITHOUT_LINKS if has_capital_nouns else _NAME
    for run in re.finditer(pattern, sentence):
        words = run.group().split()
        first = words[0]
        if not first[:1].isupper():
            continue  # a letter of a script without capitals
        is_start = run.start() == 0
        if is_start and len(words) == 1 and first not in capitalised:
            is_common = has_capital_nouns or first.casefold() in common
            if is_common or not re.match(_STARTS_WITH_NAME, sentence):
                continue
        name = [word for word in words if word.casefold() not in common]
        keys = Sentence(" ".join(name or words), language).keys
        may_be_noun = has_capital_nouns and len(keys) < 2
        if may_be_noun and not any(map(_is_abbreviation, words)):
            continue
        if not all(map(_is_number, keys)):
            yield keys


def _is_abbreviation(word: str) -> bool:
    return sum(map(str.isupper, word)) > 1


def _is_number(key: str) -> bool:
    """Whether `key` is of a number, and not of a month."""
    return key.startswith(NUMBER) and not key[1:].startswith("m")


class ContextEntityRecall(BaseMetric):
    """Entities of the reference that occur in some context ÷ all entities of the
    reference.

    An LLM judge lists the entities of the reference, which are then looked for in the
    contexts with the offline judge's word lists, so that the version of the metric
    contains those of the offline judge and of the prompt. Other judges list no
    entities: then these are found by capitals and digits, which is coarser. Of several
    references, an LLM judge reads the one that the contexts support best; without one,
    the best share counts. Not applicable if the reference names no entities.
    """

    info = MetricInfo(
        name="context_entity_recall",
        version=f"5.{ENTITIES_PROMPT_VERSION}-{judge_version()}",
        blames="retrieval",
        source="RAGAS documentation, context entities recall = |CE ∩ RE| / |RE|; entities by writing are Ragstone's",
        needs_no_answer=True,
    )

    reads = frozenset({JudgementKind.ENTITIES})
    needs_texts = True
    is_for_answerable_only = True
    needs_reference = True

    def rate(self, sample: Sample, response: Response, judgements: Judgements) -> Score:
        if judgements.entities is None:
            return _score_by_spelling(sample.references, response)
        entities = require(judgements.entities, "entities")
        return _score_listed(sample, response, entities)


_NO_ENTITIES = NotApplicable("the reference names no entities")


def _score_listed(sample: Sample, response: Response, entities: EntityList) -> Score:
    """The score by the `entities` that the judge listed."""
    if not entities.names:
        return _NO_ENTITIES
    if not response.contexts:
        return NOTHING_RETURNED
    language = guess_language(normalise(" ".join(sample.references)))
    is_in_contexts = _search(response, language)
    missing = [
        name
        for name in entities.names
        if not is_in_contexts(Sentence(normalise(name), language).keys, name)
    ]
    total = len(entities.names)
    present_count = total - len(missing)
    note = f"{present_count} of {counted(total, 'entity', 'entities')}"
    if missing:
        note += f"; missing: {join_first(missing)}"
    return Scored(present_count / total, note=note)


def _score_by_spelling(references: Sequence[str], response: Response) -> Score:
    """The score by the entities that are found by their capitals and digits."""
    shares = [_share(reference, response) for reference in references]
    applicable = [share for share in shares if share is not None]
    if not applicable:
        return _NO_ENTITIES
    if response.contexts:
        return Scored(max(applicable))
    return NOTHING_RETURNED


def _share(reference: str, response: Response) -> float | None:
    """The share of the entities of `reference` that a context has; None if the
    reference has no entities."""
    language = guess_language(normalise(reference))
    contexts = [context.text for context in response.contexts]
    common: set[str] = set()
    for text in (reference, *contexts):
        words = re.findall(r"\w+", text)
        common.update(filter(str.islower, words))
    names: set[str] = set()
    for text in contexts:
        names.update(re.findall(_NAME_IN_CONTEXT, text))
    names.difference_update(map(str.capitalize, common))
    entity_keys = entities(reference, language, common, names)
    if not entity_keys:
        return None
    is_in_contexts = _search(response, language)
    present = sum(is_in_contexts(keys, "") for keys in entity_keys)
    return present / len(entity_keys)


def _search(response: Response, language: Language) -> Callable[[_Keys, str], bool]:
    """A function of an entity's keys and text: whether one context has all the keys, or
    the text if there are no keys."""
    keys_by_context = [
        frozenset(read_passage(context.text, language).positions)
        for context in response.contexts
    ]
    texts = [normalise(context.text).casefold() for context in response.contexts]

    def is_in_contexts(keys: _Keys, text: str) -> bool:
        if not keys:
            folded = normalise(text).casefold()
            return any(folded in context for context in texts)
        return any(context_keys.issuperset(keys) for context_keys in keys_by_context)

    return is_in_contexts
