"""A sample and a golden set, as used by all other packages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, get_args, overload

from msgspec import Struct
from msgspec.structs import replace

from ragstone.formatting import counted, some

Texts = tuple[str, ...]

MAX_SAMPLES = 100_000
"""Samples of one golden set, one file of recorded answers, one run."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a sample: the path as the user gave it, and the line from 1 (None if
    the format has no lines)."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Assertion:
    """An assertion of a type of promptfoo, such as ``not-contains-any`` (see
    golden/asserted.py), and its values."""

    type: str
    values: Texts = ()


@dataclass(frozen=True, slots=True)
class Assertions:
    """What an answer must and must not say. `regex` are RE2 patterns to be found in it;
    it has at most `max_words`."""

    must_contain: Texts = ()
    must_not_contain: Texts = ()
    regex: Texts = ()
    max_words: int | None = None
    typed: tuple[Assertion, ...] = ()


ReviewStatus = Literal["draft", "reviewed"]


@dataclass(frozen=True, slots=True)
class Review:
    """Whether a person has reviewed a sample. A ``draft`` is evaluated and shown, but
    counts in no check.

    `reviewer` and `date` (ISO 8601) are who did, and when.
    """

    status: ReviewStatus
    reviewer: str | None = None
    date: str | None = None


Role = Literal["system", "user", "assistant"]

Label = Literal[
    "reference",
    "reference_contexts",
    "relevant_ids",
    "answerable",
    "assertions",
    "tools",
]
LABELS: tuple[Label, ...] = get_args(Label)
"""What a sample says about right answers, in the order of `Sample.part_hashes`."""


BoundKey = Literal["min", "max"]
Bound = tuple[BoundKey, str, float]
"""A floor or ceiling of one sample: the key, the metric and the value."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """Where a sample stands in its conversation, which is asked in order, over one
    session.

    `id` is that of the conversation, `number` the turn, from 1, of so many `turns`.
    With `own_history` the system gets its own earlier answers, and the sample's
    `history` has the earlier questions alone; else it gets the references, which stand
    in the sample's `history`. `session` names the session while a turn is asked; it is
    not stored.
    """

    id: str
    number: int
    turns: int
    own_history: bool = True
    session: str | None = None

    @property
    def place(self) -> tuple[str, int, bool]:
        """What a score depends on of it."""
        return self.id, self.number, self.own_history


def turn_id(conversation: str, number: int) -> str:
    """The id of the sample that is the turn `number` of a conversation."""
    return f"{conversation}/turn-{number}"


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A tool call that an answer needs: one of the tools `names`, with these arguments.

    `arguments` are JSON; None if they don't matter. ``subset``: other arguments may be
    there too, in nested objects as well. Numbers may differ by `tolerance`, relative to
    what is expected.
    """

    names: Texts
    arguments: Mapping[str, Any] | None = None
    match: Literal["subset", "exact"] = "subset"
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One golden question.

    `relevant_ids` maps a document id to its grade (> 0 is relevant; 0 is judged not
    relevant). If `answerable` is False, the right answer is to abstain. `group` names
    related samples (several questions on one document), for clustered errors.
    `other_references` are answers that are as right as `reference`: the best one
    counts. `review` is None if nothing is said of a review: such a sample counts.
    `provenance` says which version of which data set it was imported from. `history`
    are the earlier turns of a conversation, whose last message is `question`. `min` and
    `max` are the floors and ceilings of its own scores, by metric: the sample must hold
    them. `turn` is the place in its conversation of a sample that is asked after
    others. `expects_clarification`: the right answer asks back. `hops` says which
    retrieval of several each of `reference_contexts` is needed from, counted from 1 (0:
    any); it is empty if nothing is said of that. `tools` are the calls that an answer
    needs, in their order if `tools_in_order`.
    """

    id: str
    question: str
    reference: str | None = None
    reference_contexts: Texts = ()
    relevant_ids: Mapping[str, float] = field(default_factory=dict)
    answerable: bool = True
    tags: Texts = ()
    group: str | None = None
    origin: Origin | None = None
    assertions: Assertions | None = None
    other_references: Texts = ()
    review: Review | None = None
    provenance: str | None = None
    history: tuple[Message, ...] = ()
    min: Mapping[str, float] = field(default_factory=dict)
    max: Mapping[str, float] = field(default_factory=dict)
    turn: ConversationTurn | None = None
    expects_clarification: bool = False
    hops: tuple[int, ...] = ()
    tools: tuple[ExpectedCall, ...] = ()
    tools_in_order: bool = False

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Its floors and ceilings, sorted."""
        floors: list[Bound] = [("min", *floor) for floor in sorted(self.min.items())]
        ceilings: list[Bound] = [("max", *bound) for bound in sorted(self.max.items())]
        return (*floors, *ceilings)

    @property
    def draft(self) -> bool:
        """Whether the sample must not count in any check yet."""
        return self.review is not None and self.review.status == "draft"

    @property
    def generated(self) -> bool:
        """Whether a model wrote the question, by its provenance or ragas' tag, and no
        review of it is known."""
        if self.review is not None and not self.draft:
            return False
        if (self.provenance or "").startswith("ragstone generate"):
            return True
        return any("synthesizer" in tag for tag in self.tags)

    @property
    def references(self) -> Texts:
        """All reference answers, `reference` first; empty if there is none."""
        if self.reference is None:
            return ()
        return (self.reference, *self.other_references)

    def content_hash(self) -> str:
        """SHA-256 (hex) of everything that affects scoring: all fields except id, tags,
        origin, review, provenance, min and max."""
        content: list[object] = [
            self.question,
            self.reference,
            list(self.reference_contexts),
            self._grades(),
            self.answerable,
            self.group,
            self._asserted(),
            list(self.other_references),
            self._messages(),
        ]
        if self.turn is not None:
            content.append(["turn", *self.turn.place])
        if self.expects_clarification:
            content.append("clarification")
        if self.hops:
            content.append(["hops", self.hops])
        if self.tools:
            content.append(["tools", self._tools()])
        return _digest(content)

    def _messages(self) -> list[list[str]]:
        return [[message.role, message.text] for message in self.history]

    def _grades(self) -> list[tuple[str, float]]:
        return sorted(self.relevant_ids.items())

    def _asserted(self) -> dict[str, object] | None:
        return None if self.assertions is None else asdict(self.assertions)

    def _tools(self) -> list[object]:
        return [self.tools_in_order, *map(asdict, self.tools)]

    def part_hashes(self) -> Texts:
        """A hash of what the system is asked, and of each of LABELS: a score depends on
        some of these alone."""
        question: list[object] = [self.question, self._messages()]
        if self.turn is not None:
            question.append(self.turn.place)
        evidence: object = self.reference_contexts
        if self.hops:
            evidence = [evidence, self.hops]
        answerable: object = self.answerable
        if self.expects_clarification:
            answerable = "clarification"
        labels: dict[Label, object] = {
            "reference": self.references,
            "reference_contexts": evidence,
            "relevant_ids": self._grades(),
            "answerable": answerable,
            "assertions": self._asserted(),
            "tools": self._tools() if self.tools else None,
        }
        parts = [question, *map(labels.__getitem__, LABELS)]
        return tuple(_digest(part)[:16] if part else "" for part in parts)


def _digest(content: object) -> str:
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    encoded = body.encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()


class ColumnMapping(Struct, frozen=True):
    """The column mapping of a file, for `ragstone golden` and for messages.

    `columns` maps a field of Sample to the column (dotted path) it was read from;
    `ignored` are columns that were not used; `recorded` maps response fields (answer,
    contexts) that are also in the file; `notes` are sentences about how the file was
    read.
    """

    file: str
    format: str
    columns: Mapping[str, str]
    ignored: Texts = ()
    recorded: Mapping[str, str] = {}
    notes: Texts = ()


class GoldenSize(Struct, frozen=True):
    """How many samples of a golden set count in checks. Those of one group count as one
    of `groups`."""

    samples: int
    groups: int


class GoldenSet(Struct, frozen=True):
    """The samples of one evaluation, with unique ids, in file order.

    `limited`: a limit or a selection left samples out. `selected`: it was a selection.
    """

    samples: Sequence[Sample]
    mappings: tuple[ColumnMapping, ...] = ()
    limited: bool = False
    selected: bool = False

    def counting(self) -> Iterator[Sample]:
        """The samples that count in checks."""
        return (sample for sample in self.samples if not sample.draft)

    def size(self) -> GoldenSize:
        """How many samples count in checks, and how many groups: one without a group is
        a group of its own."""
        counting = list(self.counting())
        groups = {sample.group or sample.id for sample in counting}
        return GoldenSize(len(counting), len(groups))

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)

    @overload
    def __getitem__(self, place: int) -> Sample: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: int | slice) -> Sample | Self:
        """The sample at a place, or a golden set of some samples: ``golden[:5]``."""
        if isinstance(place, int):
            return self.samples[place]
        return replace(self, samples=self.samples[place])

    def only(self, wanted: Callable[[Sample], bool]) -> Self:
        samples = tuple(filter(wanted, self.samples))
        return replace(self, samples=samples)

    @property
    def sources(self) -> Texts:
        """The files, or other sources, of the samples, each once."""
        files = (mapping.file for mapping in self.mappings)
        return tuple(dict.fromkeys(files))

    def __repr__(self) -> str:
        origin = ""
        if self.sources:
            files = list(map(repr, self.sources))
            origin = f" from {some(files, 3)}"
        size = counted(len(self), "sample")
        return f"{type(self).__name__}({size}{origin})"

    def content_hash(self) -> str:
        """SHA-256 (hex) over ids and contents, independent of order and file layout."""
        return hash_of_contents(
            (sample.id, sample.content_hash()) for sample in self.samples
        )


def hash_of_contents(hashes: Iterable[tuple[str, str]]) -> str:
    """`GoldenSet.content_hash` of the samples with these ids and content hashes."""
    digest = hashlib.sha256()
    lines = [f"{name}\0{content_hash}\n" for name, content_hash in hashes]
    for line in sorted(lines):
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
