"""Context entity recall: the names, places, dates and numbers of the reference that
occur in the contexts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from ragstone.formatting import counted, some
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

_NAME = r"[^\W\d_a-z][\w'’-]*"
_LINK = r"(?:of|the|de|du|von|van|der|la|le|di|da)"
_NUMBERED = r"(?:\s+\d[\w-]*(?![.:,]?\d))?"
_CAPITALISED = rf"{_NAME}(?:\s+(?:{_LINK}\s+)?{_NAME})*{_NUMBERED}"
_SIDE_BY_SIDE = rf"{_NAME}(?:\s+{_NAME})*{_NUMBERED}"
_NAMED_AT_START = (
    r"(?!\w+(?:ing|ly|tion|ment|ness|ity)\b)\w+(?:'s|, (?:and |or )?[A-Z]| \(| (?:is|was|has|[a-z]{2,}s)\b)"
    r"|(?!\w+(?:s|ing|ly|tion|ment|ness|ity)\b)\w+ (?:had|will|can|became|[a-z]+ed)\b"
)
"""A first word before what follows a name: "Ada's", "Ada, Ben and", "Ada was"."""

_CONTEXT_NAME = r"(?:^|(?<=[a-z0-9,;] ))[^\W\d_a-z][\w'’-]*"
"""A word with a capital inside a sentence, or at the beginning of a context."""

_Keys = tuple[str, ...]


def entities(
    text: str,
    language: Language,
    common: Collection[str] = (),
    names: Collection[str] = (),
) -> frozenset[_Keys]:
    """Names, places, dates and numbers in `text`, each as its keys: runs of capitalised
    words, times, and every number.

    The first word of a sentence counts only if it is capitalised elsewhere, if more
    capitalised words or a number follow it, or if it stands as a name does: "Ada was".
    `common` are words that are common nouns, known because they are written small
    elsewhere: they are no part of a name of several words. `names` are words that have
    capitals in other texts. In languages that capitalise all nouns, only names of
    several words and abbreviations count.
    """
    entity_keys: set[_Keys] = set()
    sentences = split_sentences(normalise(text), language.code)
    capitalised = set(names)
    for sentence in sentences:  # by more than opening it
        words = re.findall(r"\w+", sentence)
        capitalised.update(word for word in words[1:] if word[:1].isupper())
    for sentence in sentences:
        names_here = set(_names_in(sentence, language, common, capitalised))
        in_names = set[str]().union(*names_here)
        entity_keys.update(names_here)
        for key in Sentence(sentence, language).keys:
            if _is_number(key) and key not in in_names:
                entity_keys.add((key,))
    return frozenset(entity_keys)


def _names_in(
    sentence: str,
    language: Language,
    common: Collection[str],
    capitalised: Collection[str],
) -> Iterator[_Keys]:
    """The names in a sentence, each as its keys."""
    nouns = language.nouns_capitalised
    pattern = _SIDE_BY_SIDE if nouns else _CAPITALISED
    for run in re.finditer(pattern, sentence):
        words = run.group().split()
        first = words[0]
        if not first[:1].isupper():
            continue
        opens = run.start() == 0
        if opens and len(words) == 1 and first not in capitalised:
            is_common = nouns or first.casefold() in common
            if is_common or not re.match(_NAMED_AT_START, sentence):
                continue
        name = [word for word in words if word.casefold() not in common]
        keys = Sentence(" ".join(name or words), language).keys
        is_noun = nouns and len(keys) < 2
        if is_noun and not any(map(_is_abbreviation, words)):
            continue
        if not all(map(_is_number, keys)):
            yield keys


def _is_abbreviation(word: str) -> bool:
    return sum(map(str.isupper, word)) > 1


def _is_number(key: str) -> bool:
    """Whether a key is that of a number, and not of a month."""
    return key.startswith(NUMBER) and not key[1:].startswith("m")


class ContextEntityRecall(BaseMetric):
    """Entities of the reference that occur in some context ÷ all entities of the
    reference.

    An LLM judge lists the entities of the reference; they are then looked for in the
    contexts with the offline judge's word lists. Its version, and that of the prompt,
    are part of the metric's version. Other judges list none: then
    entities are found by capitals and digits, which is coarser. Of several references,
    the judge reads the one that the contexts hold most of; by writing, the best counts.
    Not applicable if the reference names no entities.
    """

    info = MetricInfo(
        name="context_entity_recall",
        version=f"5.{ENTITIES_PROMPT_VERSION}-{judge_version()}",
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
        return _by_judge(sample, response, require(judgements.entities, "entities"))


_NONE = NotApplicable("the reference names no entities")


def _by_judge(sample: Sample, response: Response, entities: EntityList) -> Score:
    if not entities.names:
        return _NONE
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
    present = total - len(missing)
    note = f"{present} of {counted(total, 'entity', 'entities')}"
    if missing:
        note += f"; not: {some(missing)}"
    return Scored(present / total, note=note)


def _by_writing(references: Sequence[str], response: Response) -> Score:
    shares = [_share(reference, response) for reference in references]
    applicable = [share for share in shares if share is not None]
    if not applicable:
        return _NONE
    if response.contexts:
        return Scored(max(applicable))
    return NOTHING_RETURNED


def _share(reference: str, response: Response) -> float | None:
    """The share of the entities of `reference` that some context has; None if it has
    none."""
    language = guess_language(normalise(reference))
    contexts = [context.text for context in response.contexts]
    common: set[str] = set()
    for text in (reference, *contexts):
        words = re.findall(r"\w+", text)
        common.update(filter(str.islower, words))
    names: set[str] = set()
    for text in contexts:
        names.update(re.findall(_CONTEXT_NAME, text))
    names.difference_update(map(str.capitalize, common))
    entity_keys = entities(reference, language, common, names)
    if not entity_keys:
        return None
    is_in_contexts = _search(response, language)
    present = sum(is_in_contexts(keys, "") for keys in entity_keys)
    return present / len(entity_keys)


def _search(response: Response, language: Language) -> Callable[[_Keys, str], bool]:
    """Whether one context has all keys of an entity, or its text if it has no keys."""
    keys_by_context = [
        frozenset(read_passage(context.text, language).places)
        for context in response.contexts
    ]
    texts = [normalise(context.text).casefold() for context in response.contexts]

    def is_in_contexts(keys: _Keys, text: str) -> bool:
        if not keys:
            plain = normalise(text).casefold()
            return any(plain in context for context in texts)
        return any(keys_here.issuperset(keys) for keys_here in keys_by_context)

    return is_in_contexts
