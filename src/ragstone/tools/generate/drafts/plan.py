"""What `ragstone generate` is to write and from what, what that would cost, and what came of it."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

from ragstone.errors import ConfigError, JudgeError
from ragstone.files import read_table
from ragstone.formatting import counted, dollars
from ragstone.golden.sample import Sample
from ragstone.judge.llm import prompts
from ragstone.judge.llm.estimate import CostEstimate, PlannedCalls, estimate_calls
from ragstone.judge.names import provider_of, split_name
from ragstone.judge.protocol import Ledger
from ragstone.judge.untrusted_text import cleaned
from ragstone.printable import shown_name
from ragstone.report.templates import render_text_template
from ragstone.settings.settings import JudgeSettings
from ragstone.tools.generate.documents import Document, Documents, read_documents
from ragstone.tools.generate.drafts.drafter import Kind
from ragstone.tools.generate.passages import Passage, passages_of

KINDS = read_table("kinds.toml", __package__)
DEFAULT_SHARES: Mapping[Kind, float] = {kind: KINDS[kind]["share"] for kind in Kind}
TRIES = 3
"""Drafts for one question, at most."""

PAIRED = (Kind.MULTI_PASSAGE, Kind.MULTI_DOCUMENT, Kind.COMPARISON)
"""Kinds of questions that are about two passages."""

SEARCHED = 6
"""Passages near an unanswerable question, in which an answer is looked for."""

GENERAL_KNOWLEDGE = "general knowledge"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to make: `count` questions, in `shares` by kind (together 1), each in at most `tries` drafts.

    With `pairs`, also answers made worse on purpose and diluted contexts.
    """

    count: int
    shares: Mapping[Kind, float] = field(default_factory=lambda: DEFAULT_SHARES)
    tries: int = TRIES
    seed: int = 0
    pairs: bool = False

    def counts(self) -> dict[Kind, int]:
        """How many questions of each kind: shares of `count`, rounded by the largest remainder."""
        exact = {kind: self.shares.get(kind, 0.0) * self.count for kind in Kind}
        whole = {kind: int(value + 1e-9) for kind, value in exact.items()}
        missing = self.count - sum(whole.values())
        for kind in sorted(exact, key=lambda one: (whole[one] - exact[one], list(Kind).index(one)))[:missing]:
            whole[kind] += 1
        return {kind: number for kind, number in whole.items() if number}


@dataclass(frozen=True, slots=True)
class Material:
    documents: Documents
    passages: Sequence[Passage]

    @property
    def asked_about(self) -> int:
        return len({passage.document for passage in self.passages})


def read_material(places: Sequence[Path]) -> Material:
    """The documents in `places`, in Unicode's form NFC and without invisible characters, divided into passages.

    Raises ConfigError as `read_documents`, and if there is no passage to ask about.
    """
    found = read_documents(places)
    documents = tuple(Document(one.id, cleaned(unicodedata.normalize("NFC", one.text))) for one in found.read)
    passages = passages_of(documents)
    if not passages:
        raise ConfigError(
            f"{counted(len(documents), 'document')}, but no passage of some length.",
            where=", ".join(map(str, places)),
            hint="Documents need whole sentences to be asked about.",
        )
    return Material(replace(found, read=documents), passages)


def require_writer(settings: JudgeSettings) -> None:
    """Raise ConfigError if the judge can't write questions. Nothing is read or sent for it."""
    provider, _ = split_name(settings.name)
    if provider_of(provider).free:
        raise ConfigError(
            f"the judge '{settings.name}' can't write questions: that takes a language model.",
            where="judge.name",
            hint="For example: --judge openai:gpt-5.4-mini, with OPENAI_API_KEY set.",
        )


def estimates(settings: JudgeSettings, material: Material, wanted: Wanted) -> tuple[CostEstimate, CostEstimate]:
    """The cost if no draft is refused, and if every question takes all its tries."""
    passage = mean(len(one.text) for one in material.passages)
    counts = Counter(wanted.counts())
    paired = sum(counts[kind] for kind in PAIRED)
    unanswerable, paraphrases = counts[Kind.UNANSWERABLE], counts[Kind.PARAPHRASE]
    written = counts[Kind.SINGLE] + paired
    answerable = written + paraphrases
    evidence, question, answer = 400, 100, 200
    once = [
        PlannedCalls(prompts.DRAFT_QUESTION, counts[Kind.SINGLE], passage, 200),
        PlannedCalls(prompts.DRAFT_QUESTION, paired, 2 * passage, 250),
        PlannedCalls(prompts.DRAFT_UNANSWERABLE, unanswerable, passage, 50),
        PlannedCalls(prompts.DRAFT_PARAPHRASE, paraphrases, question + answer, 50),
        PlannedCalls(prompts.DRAFT_ATTEMPT, answerable, question + evidence, 60),
        PlannedCalls(prompts.DRAFT_ATTEMPT, unanswerable, question + (1 + SEARCHED) * passage, 30),
        PlannedCalls(prompts.DRAFT_RECALL, answerable, question, 40),
        PlannedCalls(prompts.DRAFT_INSPECTION, answerable, question + 3 * answer, 90),
        PlannedCalls(prompts.DRAFT_INSPECTION, unanswerable, question, 60),
    ]
    pairs = [
        PlannedCalls(prompts.DRAFT_WORSE, answerable, question + answer + 1.5 * passage, 150),
        PlannedCalls(prompts.DRAFT_INSPECTION, answerable, question + 3 * answer, 90),
    ]
    own = pairs if wanted.pairs else []
    all_tries = [replace(one, calls=one.calls * wanted.tries) for one in once]
    return estimate_calls(settings, [*once, *own]), estimate_calls(settings, [*all_tries, *own])


def paraphrase_cost(settings: JudgeSettings, samples: Sequence[Sample]) -> CostEstimate:
    """The cost of one paraphrase of each of `samples` that has a reference."""
    texts = [len(sample.question) + len(sample.reference) for sample in samples if sample.reference is not None]
    average = mean(texts) if texts else 0.0
    return estimate_calls(settings, [PlannedCalls(prompts.DRAFT_PARAPHRASE, len(texts), average, 50)])


def plan_text(material: Material, wanted: Wanted, settings: JudgeSettings) -> str:
    """What would be made, and what it would cost, for a terminal."""
    once, most = estimates(settings, material, wanted)
    values = {"wanted": wanted, "judge": settings.name, "once": once, "most": most, "cost": cost_text}
    return _text("plan", material, **values)


def cost_text(found: CostEstimate) -> str:
    """An estimate in words."""
    cost = "price unknown" if found.usd is None else f"about {dollars(max(found.usd, 0.01))}"
    tokens = f"{found.input_tokens:,} tokens in, {found.output_tokens:,} out"
    return f"{counted(found.calls, 'judge call')}, {tokens}, {cost}"


def _text(name: str, material: Material, **values: object) -> str:
    unreadable = [f"{shown_name(file)} ({reason})" for file, reason in material.documents.unreadable]
    return render_text_template(f"{name}.txt.j2", __package__, material=material, unreadable=unreadable, **values)


@dataclass(slots=True)
class Generated:
    """What was made. `drafts` = written + refused + `unfinished`; each refused one counts once, by its reason.

    `given_up` are questions that no draft was accepted for, by kind and reason. `asked` are the passages of `samples`.
    `stopped` is the error that ended the work early. `pairs` are rows for `ragstone calibrate --method`;
    `unpaired` are questions without, or without a diluted context, by reason.
    """

    material: Material
    wanted: Wanted
    samples: tuple[Sample, ...] = ()
    drafts: int = 0
    refused: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    given_up: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    unfinished: int = 0
    asked: Collection[Passage] = ()
    pairs: tuple[Mapping[str, object], ...] = ()
    unpaired: Counter[str] = field(default_factory=Counter)
    ledger: Ledger = field(default_factory=Ledger)
    stopped: JudgeError | None = None

    def text(self) -> str:
        """The summary for a terminal: what was asked for, written and refused, and why."""
        reasons = Counter[str]()
        for (_, reason), number in self.refused.items():
            reasons[reason] += number
        return _text(
            "summary",
            self.material,
            found=self,
            made=Counter(sample.tags[0] for sample in self.samples),
            general=sum(GENERAL_KNOWLEDGE in sample.tags for sample in self.samples),
            reasons=reasons,
            documents_asked=len({one.document for one in self.asked}),
            most_first=_most_first,
        )


def _most_first(counts: Mapping[object, int]) -> list[tuple[object, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], str(one[0])))
