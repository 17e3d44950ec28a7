"""A sample and a golden set, as all other rooms use them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, get_args, overload

from msgspec import Struct
from msgspec.structs import replace

from ragstone.formatting import counted, join_first

Texts = tuple[str, ...]

MAX_SAMPLES = 100_000
"""Maximum number of samples of a golden set, of a file of recorded answers, or of a
run."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a sample was read from."""

    file: str
    """The path, relative to the project."""
    line: int | None = None
    """The line, from 1; None if the format has no lines."""

    def __str__(self) -> str:
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Assertion:
    """An assertion in promptfoo's words (see golden/promptfoo_assertions.py)."""

    type: str
    """Such as ``not-contains-any``."""
    values: Texts = ()


@dataclass(frozen=True, slots=True)
class Assertions:
    """What an answer must and must not say."""

    must_contain: Texts = ()
    must_not_contain: Texts = ()
    regex: Texts = ()
    """RE2 patterns, each of which must be found in the answer."""
    max_words: int | None = None
    typed: tuple[Assertion, ...] = ()
    """The assertions that have a type of promptfoo."""


ReviewStatus = Literal["draft", "reviewed"]


@dataclass(frozen=True, slots=True)
class Review:
    """Whether a person has reviewed a sample."""

    status: ReviewStatus
    """A ``draft`` is evaluated and shown, but counts in no check."""
    reviewer: str | None = None
    date: str | None = None
    """ISO 8601."""


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
"""The parts of a sample that say what is right, in the order of `Sample.part_hashes`."""


BoundKey = Literal["min", "max"]
Bound = tuple[BoundKey, str, float]
"""A floor (``min``) or ceiling (``max``) of one sample: the key, the metric and the
value."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """The place of a sample in its conversation, whose turns are asked in order, in one
    session."""

    id: str
    """The id of the conversation."""
    number: int
    """The number of the turn, from 1."""
    turns: int
    """The number of turns in the conversation. Stored records have this name."""
    own_history: bool = True
    """Whether the system gets its own earlier answers; else it gets the references.

    `Sample.history` has the earlier questions alone, or the references too.
    """
    session: str | None = None
    """The name of the session while the turn is asked; not stored."""

    @property
    def hashed_fields(self) -> tuple[str, int, bool]:
        """The fields that a score depends on."""
        return self.id, self.number, self.own_history


def turn_id(conversation_id: str, number: int) -> str:
    """Return the id of the sample that is the turn `number` of a conversation."""
    return f"{conversation_id}/turn-{number}"


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A tool call that an answer needs."""

    names: Texts
    """The names of the tools, any of which may be called."""
    arguments: Mapping[str, Any] | None = None
    """The arguments as JSON; None if they don't matter."""
    match: Literal["subset", "exact"] = "subset"
    """``subset`` allows other arguments too, also in nested objects."""
    tolerance: float = 0.0
    """The share of an expected number by which an argument may differ from it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One question of a golden set, with what is known about right answers."""

    id: str
    question: str
    reference: str | None = None
    """A right answer."""
    reference_contexts: Texts = ()
    """Passages that the answer is found in."""
    relevant_ids: Mapping[str, float] = field(default_factory=dict)
    """Document id to grade: above 0 is relevant, 0 is judged not relevant."""
    answerable: bool = True
    """If False, the right answer is to abstain."""
    tags: Texts = ()
    group: str | None = None
    """The name of related samples, such as questions on one document, whose scores are
    not independent."""
    origin: Origin | None = None
    assertions: Assertions | None = None
    other_references: Texts = ()
    """Answers that are as right as `reference`: the one that scores best counts."""
    review: Review | None = None
    """None if the golden set says nothing about a review: such a sample counts."""
    provenance: str | None = None
    """The data set, and its version, that the sample was imported from."""
    history: tuple[Message, ...] = ()
    """The messages of the conversation before `question`."""
    min: Mapping[str, float] = field(default_factory=dict)
    """The floors of this sample's scores, by metric."""
    max: Mapping[str, float] = field(default_factory=dict)
    """The ceilings of this sample's scores, by metric."""
    turn: ConversationTurn | None = None
    """The place in its conversation of a sample that is asked in one session with
    others."""
    expects_clarification: bool = False
    """Whether the right answer asks back."""
    hops: tuple[int, ...] = ()
    """For each of `reference_contexts`, the number of the retrieval, from 1, that must
    find it; 0 if any may. Empty if no passage has a number."""
    tools: tuple[ExpectedCall, ...] = ()
    """The tool calls that an answer needs."""
    tools_in_order: bool = False
    """Whether the calls must be made in the order of `tools`."""

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The floors, then the ceilings, each sorted by metric."""
        floors: list[Bound] = [("min", *item) for item in sorted(self.min.items())]
        ceilings: list[Bound] = [("max", *item) for item in sorted(self.max.items())]
        return (*floors, *ceilings)

    @property
    def is_draft(self) -> bool:
        """Whether the sample counts in no check yet."""
        return self.review is not None and self.review.status == "draft"

    @property
    def references(self) -> Texts:
        """All reference answers, `reference` first; empty if there is none."""
        if self.reference is None:
            return ()
        return (self.reference, *self.other_references)

    def content_hash(self) -> str:
        """Return the SHA-256 (hex) of everything that affects scores: all fields except
        id, tags, origin, review, provenance, min and max."""
        content: list[object] = [
            self.question,
            self.reference,
            list(self.reference_contexts),
            self._grades(),
            self.answerable,
            self.group,
            self._assertion_content(),
            list(self.other_references),
            self._history_content(),
        ]
        # Fields that came later, only if they are set: the hashes of older samples must
        # not change.
        if self.turn is not None:
            content.append(["turn", *self.turn.hashed_fields])
        if self.expects_clarification:
            content.append("clarification")
        if self.hops:
            content.append(["hops", self.hops])
        if self.tools:
            content.append(["tools", self._tool_content()])
        return _digest(content)

    def _history_content(self) -> list[list[str]]:
        return [[message.role, message.text] for message in self.history]

    def _grades(self) -> list[tuple[str, float]]:
        return sorted(self.relevant_ids.items())

    def _assertion_content(self) -> dict[str, object] | None:
        return None if self.assertions is None else asdict(self.assertions)

    def _tool_content(self) -> list[object]:
        return [self.tools_in_order, *map(asdict, self.tools)]

    def part_hashes(self) -> Texts:
        """Return a hash of what the system is asked, and then of each of LABELS, "" for
        an empty one. Each metric depends on only some of these parts."""
        question: list[object] = [self.question, self._history_content()]
        if self.turn is not None:
            question.append(self.turn.hashed_fields)
        contexts: object = self.reference_contexts
        if self.hops:
            contexts = [contexts, self.hops]
        answerable: object = self.answerable
        if self.expects_clarification:
            answerable = "clarification"
        labels: dict[Label, object] = {
            "reference": self.references,
            "reference_contexts": contexts,
            "relevant_ids": self._grades(),
            "answerable": answerable,
            "assertions": self._assertion_content(),
            "tools": self._tool_content() if self.tools else None,
        }
        parts = [question, *map(labels.__getitem__, LABELS)]
        return tuple(_digest(part)[:16] if part else "" for part in parts)


def _digest(content: object) -> str:
    """Return the SHA-256 (hex) of `content` as JSON."""
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    encoded = body.encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()


class ColumnMapping(Struct, frozen=True):
    """How a file was read, for `ragstone golden` and for messages."""

    file: str
    format: str
    columns: Mapping[str, str]
    """The column (dotted path) that each field of Sample was read from."""
    ignored: Texts = ()
    """The columns that were not used."""
    recorded: Mapping[str, str] = {}
    """The column of a system's ``answer`` and ``contexts``, if the file has them."""
    notes: Texts = ()
    """Sentences about how the file was read."""


class GoldenSize(Struct, frozen=True):
    """The size of the part of a golden set that counts in checks."""

    sample_count: int
    group_count: int
    """The number of groups; a sample without a group is a group of its own."""


class GoldenSet(Struct, frozen=True):
    """The samples of one evaluation, with unique ids, in file order."""

    samples: Sequence[Sample]
    mappings: tuple[ColumnMapping, ...] = ()
    is_limited: bool = False
    """Whether a limit or a selection left samples out."""
    is_selection: bool = False
    """Whether the samples were selected by id or tag."""

    def counted_samples(self) -> Iterator[Sample]:
        """Yield the samples that count in checks: all but drafts."""
        return (sample for sample in self.samples if not sample.is_draft)

    def size(self) -> GoldenSize:
        samples = list(self.counted_samples())
        groups = {sample.group or sample.id for sample in samples}
        return GoldenSize(len(samples), len(groups))

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Sample | Self:
        """Return one sample, or for a slice such as ``golden[:5]`` a golden set."""
        if isinstance(index, int):
            return self.samples[index]
        return replace(self, samples=self.samples[index])

    def select(self, is_wanted: Callable[[Sample], bool]) -> Self:
        """Return a golden set of the samples for which `is_wanted` is true."""
        samples = tuple(filter(is_wanted, self.samples))
        return replace(self, samples=samples)

    @property
    def sources(self) -> Texts:
        """The names of the files, or of other sources, each once."""
        files = (mapping.file for mapping in self.mappings)
        return tuple(dict.fromkeys(files))

    def __repr__(self) -> str:
        origin = ""
        if self.sources:
            files = list(map(repr, self.sources))
            origin = f" from {join_first(files, 3)}"
        size = counted(len(self), "sample")
        return f"{type(self).__name__}({size}{origin})"

    def content_hash(self) -> str:
        """Return the SHA-256 (hex) of ids and contents, independent of order and file
        layout."""
        return hash_of_samples(
            (sample.id, sample.content_hash()) for sample in self.samples
        )


def hash_of_samples(hashes: Iterable[tuple[str, str]]) -> str:
    """Return the content hash of the golden set with these samples, each given by its id
    and content hash."""
    digest = hashlib.sha256()
    lines = [f"{sample_id}\0{content_hash}\n" for sample_id, content_hash in hashes]
    for line in sorted(lines):
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
