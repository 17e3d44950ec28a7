"""What `ragstone generate` is to write and from which documents, an estimate of the
cost, and the result."""

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
from ragstone.judge.untrusted_text import remove_hidden
from ragstone.printable import shown_name
from ragstone.report.templates import render_text_template
from ragstone.settings.settings import JudgeSettings
from ragstone.tools.generate.documents import Documents, read_documents
from ragstone.tools.generate.drafter import Kind, cannot_write
from ragstone.tools.generate.passages import Passage, passages_of

MAX_DRAFTS = 3
"""So many drafts are written for one question, at most."""

NEAR_PASSAGES = 6
"""So many passages near an unanswerable question are searched for an answer."""

_SHARES = {Kind.ONE_PASSAGE: 0.6, Kind.TWO_PASSAGES: 0.25, Kind.UNANSWERABLE: 0.15}

# The usual lengths of texts in characters, for the estimate.
_EVIDENCE = 400
_QUESTION = 100
_ANSWER = 200


class WantedQuestions(Struct, frozen=True):
    """What to write."""

    count: int
    """How many questions."""
    seed: int = 0
    with_pairs: bool = False
    """Whether to write worse answers and contexts, too."""
    shares: Mapping[Kind, float] = field(default_factory=lambda: _SHARES)
    """The share of each kind of question, the largest first; together 1."""

    def counts(self) -> Counter[Kind]:
        """How many questions of each kind, without kinds that have none. The first kind
        gets what rounding down leaves over."""
        counts = Counter(
            {kind: int(share * self.count) for kind, share in self.shares.items()}
        )
        first_kind = next(iter(self.shares))
        counts[first_kind] += self.count - counts.total()
        return +counts


class Material(Struct, frozen=True):
    """The documents that questions are written on."""

    documents: Documents
    passages: Sequence[Passage]

    @property
    def usable_documents(self) -> int:
        """How many documents have a passage to ask about."""
        return len({passage.document for passage in self.passages})


def read_material(paths: Sequence[Path]) -> Material:
    """Read the documents in `paths`, without invisible characters and in Unicode's
    form NFC, and divide them into passages.

    Raises the ConfigErrors of `read_documents`, and one if there is no passage to ask
    about.
    """
    documents = read_documents(paths)
    for name, text in documents.texts.items():
        normalized = unicodedata.normalize("NFC", text)
        documents.texts[name] = remove_hidden(normalized)
    passages = passages_of(documents.texts)
    if not passages:
        count = counted(len(documents.texts), "document")
        raise ConfigError(
            f"{count}, but no passage that is long enough to ask about.",
            where=", ".join(map(str, paths)),
            hint="Name documents with whole sentences.",
        )
    return Material(documents, passages)


def require_writer(settings: JudgeSettings) -> None:
    """Raise ConfigError if the judge in `settings` can't write questions, before
    anything is read or sent."""
    provider, _ = split_name(settings.name)
    if provider_of(provider).free:
        raise cannot_write(settings.name)


def estimate_cost(
    settings: JudgeSettings, material: Material, wanted: WantedQuestions
) -> CostEstimate:
    """Estimate the cost if no draft is refused."""
    passage = mean(len(passage.text) for passage in material.passages)
    searched = (1 + NEAR_PASSAGES) * passage
    counts = wanted.counts()
    on_two = counts[Kind.TWO_PASSAGES]
    unanswerable = counts[Kind.UNANSWERABLE]
    answerable = wanted.count - unanswerable
    pairs = answerable if wanted.with_pairs else 0
    # Prompt, number of calls, characters that each sends, and tokens that it receives.
    planned = [
        (prompts.DRAFT_QUESTION, answerable - on_two, passage, 200),
        (prompts.DRAFT_QUESTION, on_two, 2 * passage, 250),
        (prompts.DRAFT_UNANSWERABLE, unanswerable, passage, 50),
        (prompts.DRAFT_ATTEMPT, answerable, _QUESTION + _EVIDENCE, 60),
        (prompts.DRAFT_ATTEMPT, unanswerable, _QUESTION + searched, 30),
        (prompts.DRAFT_INSPECTION, answerable, _QUESTION + 2 * _ANSWER, 75),
        (prompts.DRAFT_INSPECTION, unanswerable, _QUESTION, 60),
        (prompts.DRAFT_WORSE, pairs, _QUESTION + _ANSWER + 1.5 * passage, 150),
        (prompts.DRAFT_INSPECTION, pairs, _QUESTION + 3 * _ANSWER, 90),
    ]
    tally = CallTally(settings)
    for prompt, calls, characters, received in planned:
        tally.add(prompt, characters, received, calls=calls, cached_calls=calls)
    return tally.estimate("nothing in the cache")


def plan_text(
    material: Material, wanted: WantedQuestions, settings: JudgeSettings
) -> str:
    """What would be written, and what it would cost, for a terminal."""
    return _render(
        "plan.txt.j2",
        material,
        wanted=wanted,
        max_drafts=MAX_DRAFTS,
        judge=settings.name,
        cost=estimate_cost(settings, material, wanted),
    )


def _render(template: str, material: Material, **values: object) -> str:
    """The text by a template of this package, which begins or ends with `material`."""
    unreadable = [
        f"{shown_name(file)} ({reason})"
        for file, reason in material.documents.unreadable.items()
    ]
    return render_text_template(
        template, __package__, material=material, unreadable=unreadable, **values
    )


class GenerationResult(Struct):
    """What `generate` has written."""

    material: Material
    wanted: WantedQuestions
    samples: tuple[Sample, ...] = ()
    drafts: int = 0
    """How many drafts were begun: those of `samples`, the refused and the
    unfinished."""
    refused: Counter[str] = field(default_factory=Counter)
    """How many drafts were refused for each reason."""
    unfinished: int = 0
    """How many drafts were given up because the judge failed."""
    pairs: tuple[Mapping[str, object], ...] = ()
    """Rows for `ragstone calibrate --method`."""
    unpaired: Counter[str] = field(default_factory=Counter)
    """How many answerable questions have no row, for each reason."""
    ledger: Ledger = field(default_factory=Ledger)
    stopped: JudgeError | None = None
    """The error that ended the work early."""

    def text(self) -> str:
        """The summary for a terminal: what was wanted, written and refused, and why."""
        written = Counter(sample.tags[0] for sample in self.samples)
        return _render("summary.txt.j2", self.material, generated=self, written=written)
