"""Context entity recall: the names, places, dates and numbers of the reference that occur in the contexts."""

from __future__ import annotations

import re

from ragstone.golden.sample import Sample
from ragstone.judge.judgements import JudgementKind, Judgements
from ragstone.judge.offline.lexicon import Language, guess_language
from ragstone.judge.offline.lookup import digest
from ragstone.judge.offline.normal import normalise
from ragstone.judge.offline.passage import read_passage, read_sentence
from ragstone.judge.offline.tokens import NUMBER
from ragstone.judge.sentences import split_sentences
from ragstone.metrics.metric import MetricInfo
from ragstone.metrics.score import NotApplicable, Score, Scored
from ragstone.system.response import Response

_NAME = r"[^\W\d_a-z][\w'’-]*"
_LINK = r"(?:of|the|de|du|von|van|der|la|le|di|da|and)"
_CAPITALISED = re.compile(rf"{_NAME}(?:\s+(?:{_LINK}\s+)?{_NAME})*")


def entities(text: str, language: Language) -> frozenset[tuple[str, ...]]:
    """Names, places, dates and numbers in `text`, each as its keys: runs of capitalised words, and every number.

    The first word of a sentence counts only if it is capitalised elsewhere in the text, or if more capitalised words
    follow it. In languages that capitalise all nouns, nouns count as names.
    """
    found: set[tuple[str, ...]] = set()
    sentences = split_sentences(normalise(text), language.code)
    inside = {word for sentence in sentences for word in re.findall(r"\w+", sentence)[1:] if word[:1].isupper()}
    for sentence in sentences:
        for run in _CAPITALISED.finditer(sentence):
            words = run.group().split()
            if not words[0][:1].isupper():
                continue
            if run.start() == 0 and len(words) == 1 and words[0] not in inside:
                continue
            keys = read_sentence(run.group(), language).keys
            if keys and not all(key.startswith(NUMBER) for key in keys):
                found.add(keys)
        found.update((key,) for key in read_sentence(sentence, language).keys if key.startswith(NUMBER))
    return frozenset(found)


class ContextEntityRecall:
    """Entities of the reference that occur in some context ÷ all entities of the reference.

    Entities are detected by capitals and digits, without a model or a judge. They are compared using the offline
    judge's word lists, whose digest is part of the version. Of several references, the best counts. Not applicable if
    the reference has none, as in scripts without capitals.
    """

    info = MetricInfo(
        name="context_entity_recall",
        version=f"2-{digest()}",
        title="Context entity recall",
        blames="retrieval",
        source="RAGAS documentation, context entities recall = |CE ∩ RE| / |RE|; entities by writing are Ragstone's",
    )

    def needs(self, sample: Sample) -> frozenset[JudgementKind]:  # noqa: ARG002 - the protocol's signature
        return frozenset()

    def excuse(self, sample: Sample) -> NotApplicable | None:
        if not sample.answerable:
            return NotApplicable("the sample is unanswerable")
        if not sample.reference:
            return NotApplicable("the sample has no reference")
        if not any(entities(reference, guess_language(normalise(reference))) for reference in sample.references):
            return NotApplicable("the reference names no entities")
        return None

    def score(self, sample: Sample, response: Response, judgements: Judgements) -> Score:  # noqa: ARG002
        if (excuse := self.excuse(sample)) is not None:
            return excuse
        if not response.contexts:
            return Scored(0.0, note="no contexts were returned")
        shares = [_share_held(reference, response) for reference in sample.references]
        return Scored(max(share for share in shares if share is not None))


def _share_held(reference: str, response: Response) -> float | None:
    """The share of the entities of `reference` that some context holds; None if it has none."""
    language = guess_language(normalise(reference))
    wanted = entities(reference, language)
    if not wanted:
        return None
    held = [read_passage(context.text, language).places for context in response.contexts]
    return sum(any(all(key in keys for key in entity) for keys in held) for entity in wanted) / len(wanted)
