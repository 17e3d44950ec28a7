"""What `ragstone generate` is to write and from what, what that would cost, and what
came of it."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from msgspec import Struct, field

from ragstone.errors import ConfigError, JudgeError
from ragstone.formatting import counted
from ragstone.golden.sample import Sample
from ragstone.judge.llm import prompts
from ragstone.judge.llm.call_tally import CallTally
from ragstone.judge.llm.prices import CostEstimate
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.protocol import Ledger
from ragstone.judge.untrusted_text import cleaned
from ragstone.printable import shown_name
from ragstone.report.templates import render_text_template
from ragstone.settings.settings import JudgeSettings
from ragstone.tools.generate.documents import Documents, read_documents
from ragstone.tools.generate.drafter import Kind, no_writer
from ragstone.tools.generate.passages import Passage, passages_of

TRIES = 3
"""Drafts for one question, at most."""

SEARCHED = 6
"""Passages near an unanswerable question, in which an answer is looked for."""

_SHARES = {Kind.ONE_PASSAGE: 0.6, Kind.TWO_PASSAGES: 0.25, Kind.UNANSWERABLE: 0.15}
_EVIDENCE, _QUESTION, _ANSWER = 400, 100, 200
"""Characters of a usual one, for the estimate."""


class Wanted(Struct, frozen=True):
    """What to make: `count` questions; with `pairs`, also worse answers and diluted
    contexts."""

    count: int
    seed: int = 0
    pairs: bool = False
    shares: Mapping[Kind, float] = field(default_factory=lambda: _SHARES)
    """By kind, the largest first; together 1."""

    def counts(self) -> Counter[Kind]:
        """How many questions of each kind: what the other shares leave is the first
        kind's."""
        counts = Counter(
            {kind: int(share * self.count) for kind, share in self.shares.items()}
        )
        first_kind = next(iter(self.shares))
        counts[first_kind] += self.count - counts.total()
        return +counts


class Material(Struct, frozen=True):
    documents: Documents
    passages: Sequence[Passage]

    @property
    def with_passages(self) -> int:
        """Documents that can be asked about."""
        documents = {passage.document for passage in self.passages}
        return len(documents)


def read_material(places: Sequence[Path]) -> Material:
    """The documents in `places`, in Unicode's form NFC and without invisible
    characters, divided into passages.

    Raises ConfigError as `read_documents`, and if there is no passage to ask about.
    """
    documents = read_documents(places)
    for name, text in documents.texts.items():
        normalized = unicodedata.normalize("NFC", text)
        documents.texts[name] = cleaned(normalized)
    passages = passages_of(documents.texts)
    if not passages:
        count = counted(len(documents.texts), "document")
        raise ConfigError(
            f"{count}, but no passage of some length.",
            where=", ".join(map(str, places)),
            hint="Documents need whole sentences to be asked about.",
        )
    return Material(documents, passages)


def require_writer(settings: JudgeSettings) -> None:
    """Raise ConfigError if the judge can't write questions. Nothing is read or sent for
    it."""
    provider, _ = split_name(settings.name)
    if provider_of(provider).free:
        raise no_writer(settings.name)


def estimate(
    settings: JudgeSettings, material: Material, wanted: Wanted
) -> CostEstimate:
    """The cost if no draft is refused."""
    size = mean(len(passage.text) for passage in material.passages)
    counts = wanted.counts()
    paired = counts[Kind.TWO_PASSAGES]
    unanswerable = counts[Kind.UNANSWERABLE]
    answerable = wanted.count - unanswerable
    worse = answerable if wanted.pairs else 0
    planned = [
        (prompts.DRAFT_QUESTION, answerable - paired, size, 200),
        (prompts.DRAFT_QUESTION, paired, 2 * size, 250),
        (prompts.DRAFT_UNANSWERABLE, unanswerable, size, 50),
        (prompts.DRAFT_ATTEMPT, answerable, _QUESTION + _EVIDENCE, 60),
        (prompts.DRAFT_ATTEMPT, unanswerable, _QUESTION + (1 + SEARCHED) * size, 30),
        (prompts.DRAFT_INSPECTION, answerable, _QUESTION + 2 * _ANSWER, 75),
        (prompts.DRAFT_INSPECTION, unanswerable, _QUESTION, 60),
        (prompts.DRAFT_WORSE, worse, _QUESTION + _ANSWER + 1.5 * size, 150),
        (prompts.DRAFT_INSPECTION, worse, _QUESTION + 3 * _ANSWER, 90),
    ]
    tally = CallTally(settings)
    for prompt, calls, characters, output in planned:
        tally.add(prompt, characters, output, calls=calls, cached=calls)
    return tally.estimate("nothing in the cache")


def plan_text(material: Material, wanted: Wanted, settings: JudgeSettings) -> str:
    """What would be made, and what it would cost, for a terminal."""
    cost = estimate(settings, material, wanted)
    return _text(
        "plan", material, wanted=wanted, tries=TRIES, judge=settings.name, cost=cost
    )


def _text(name: str, material: Material, **values: object) -> str:
    unreadable = [
        f"{shown_name(file)} ({reason})"
        for file, reason in material.documents.unreadable.items()
    ]
    return render_text_template(
        f"{name}.txt.j2",
        __package__,
        material=material,
        unreadable=unreadable,
        **values,
    )


class Generated(Struct):
    """What was made. `drafts` = written + refused + `unfinished`; each refused one
    counts once, by its reason."""

    material: Material
    wanted: Wanted
    samples: tuple[Sample, ...] = ()
    drafts: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0
    pairs: tuple[Mapping[str, object], ...] = ()
    """Rows for `ragstone calibrate --method`."""
    unpaired: Counter[str] = field(default_factory=Counter)
    """Questions without a row, by reason."""
    ledger: Ledger = field(default_factory=Ledger)
    stopped: JudgeError | None = None
    """The error that ended the work early."""

    def text(self) -> str:
        """The summary for a terminal: what was wanted, written and refused, and why."""
        written = Counter(sample.tags[0] for sample in self.samples)
        return _text(
            "summary",
            self.material,
            generated=self,
            written=written,
        )
