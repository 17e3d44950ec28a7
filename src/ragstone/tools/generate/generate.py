"""Writes drafts of golden samples from a team's own documents: by a language model, and
checked by rule and by a second reading."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragstone._version import __version__
from ragstone.errors import JudgeError, first_in
from ragstone.evaluation.engine import Progress
from ragstone.golden.sample import Review, Sample
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.tools.generate.checks import (
    Refused,
    check_wording,
    locate_quotes,
    why_invalid,
)
from ragstone.tools.generate.drafter import DraftedQuestion, Drafter, Kind
from ragstone.tools.generate.generation_plan import (
    MAX_DRAFTS,
    NEAR_PASSAGES,
    GenerationResult,
    Material,
    WantedQuestions,
)
from ragstone.tools.generate.near_duplicates import find_repeats
from ragstone.tools.generate.passages import (
    Passage,
    RelatedPassages,
    find_quote,
    spread_order,
)

_MAX_EXISTING = 20
"""The model is shown so many earlier questions on a passage, so that it asks another."""

_DILUTING_PASSAGES = 3
"""So many related passages are added to a context to make it worse."""

_MAX_STEM_CHARACTERS = 40
_DIGEST_DIGITS = 12

PairRow = Mapping[str, object]
"""A row in WikiEval's layout, from which `ragstone calibrate --method` makes pairs."""


class _Draft(Struct):
    """One try to write a wanted question."""

    number: int
    """The number of the wanted question, from 0; all its drafts have the same."""
    kind: Kind
    passages: tuple[Passage, ...]
    """The one or two passages that it asks about."""
    drafted: DraftedQuestion | None = None
    evidence: Sequence[tuple[Passage, str]] = ()
    """The passages of its quotes, with the words as they are written there."""
    sample: Sample | None = None
    """The finished sample; None until all checks are passed."""
    refusal: str = ""
    """Why the draft is refused; empty if it isn't."""

    @property
    def texts(self) -> list[str]:
        """The texts of its passages."""
        return [passage.text for passage in self.passages]


async def generate(
    judge: Judge,
    material: Material,
    wanted: WantedQuestions,
    *,
    progress: Progress,
    existing: Sequence[Sample] = (),
    redact: Callable[[str], str] = str,
) -> GenerationResult:
    """Write and check questions on `material` that don't nearly repeat one of
    `existing`, and contain nothing that `redact` would change.

    The same documents, settings and replies give the same drafts, in whatever order the
    replies arrive, so that an interrupted run can be continued from the judge's cache.
    If the judge fails as a whole, the finished samples are returned with its error.
    Raises ConfigError if the judge can't write.
    """
    generation = _Generation(
        drafter=Drafter(judge),
        judge_label=judge.identity.label(),
        result=GenerationResult(material, wanted),
        existing=[sample.question for sample in existing],
        redact=redact,
        related=RelatedPassages(material.passages),
        next_passages=cycle(spread_order(material.passages, wanted.seed)),
    )
    progress.start(wanted.count)
    try:
        return await generation.run(progress)
    finally:
        progress.finish()


class _Generation(Struct):
    """The work of one call of `generate`."""

    drafter: Drafter
    judge_label: str
    result: GenerationResult
    existing: Sequence[str]
    """The questions that must not be repeated."""
    redact: Callable[[str], str]
    related: RelatedPassages
    next_passages: Iterator[Passage]
    """The passages to ask about, over and over."""
    used_pairs: set[frozenset[Passage]] = set()
    """The pairs of passages that were asked about."""
    accepted: list[tuple[_Draft, Sample]] = []
    """The drafts that passed all checks, with their samples."""

    async def run(self, progress: Progress) -> GenerationResult:
        """Write the wanted questions in rounds. Each round writes a draft for each
        missing question, refuses repeats, and has the model check the others."""
        result = self.result
        kinds = result.wanted.counts().elements()
        missing = list(enumerate(kinds))
        for _ in range(MAX_DRAFTS):
            drafts = [self._start_draft(number, kind) for number, kind in missing]
            await self._for_each(drafts, self._write_question)
            self._refuse_repeats(drafts)
            await self._for_each(drafts, self._verify)
            missing = []
            for draft in drafts:
                result.drafts += 1
                if draft.sample is not None:
                    self.accepted.append((draft, draft.sample))
                    progress.advance("written")
                    continue
                missing.append((draft.number, draft.kind))
                if draft.refusal:
                    result.refused[draft.refusal] += 1
                else:
                    result.unfinished += 1
            if result.stopped is not None:
                break
        for _ in missing:
            progress.advance("given up")
        self.accepted.sort(key=lambda accepted: accepted[0].number)
        result.samples = tuple(sample for _, sample in self.accepted)
        if result.wanted.with_pairs:
            await self._make_pairs()
        return result

    def _start_draft(self, number: int, kind: Kind) -> _Draft:
        """Start a draft on the next passage, and if its kind takes two, also on the
        passage that is closest to it."""
        passage = next(self.next_passages)
        draft = _Draft(number, kind, (passage,))
        if kind is Kind.TWO_PASSAGES:

            def is_new(candidate: Passage) -> bool:
                pair = frozenset((passage, candidate))
                return candidate != passage and pair not in self.used_pairs

            closest = self.related.find(passage.text, limit=1, is_candidate=is_new)
            draft.passages = (passage, *closest)
            if not closest:
                draft.refusal = "no other passage is related to it"
            self.used_pairs.add(frozenset(draft.passages))
        return draft

    async def _for_each(
        self, drafts: Sequence[_Draft], work: Callable[[_Draft], Awaitable[None]]
    ) -> None:
        """Do `work` at once for all `drafts` that are not refused. If the judge fails
        as a whole, the result has its error, and nothing more is done."""

        async def work_or_refuse(draft: _Draft) -> None:
            try:
                await work(draft)
            except (Refused, JudgementFailed) as refusal:
                # The names of missing fields are removed, so that equal reasons are
                # counted together.
                draft.refusal = re.sub(
                    r" \([^()]*asked twice\)", " (asked twice)", str(refusal)
                )

        try:
            async with asyncio.TaskGroup() as group:
                for draft in drafts:
                    if not draft.refusal and self.result.stopped is None:
                        group.create_task(work_or_refuse(draft))
        except BaseExceptionGroup as errors:
            error = first_in(errors)
            if not isinstance(error, JudgeError):
                raise error from None
            self.result.stopped = error

    def _call(self, draft: _Draft) -> Call:
        """What the judge is told of a call for `draft`."""
        return Call(f"draft {draft.number + 1}", ledger=self.result.ledger)

    async def _write_question(self, draft: _Draft) -> None:
        """Have the model write the question, and check it by rule. Raises Refused."""
        passages = set(draft.passages)
        existing = [
            sample.question
            for earlier_draft, sample in self.accepted
            if passages.intersection(earlier_draft.passages)
        ]
        drafted = await self.drafter.question(
            draft.kind,
            draft.texts,
            existing[-_MAX_EXISTING:],
            call=self._call(draft),
        )
        if drafted is None:
            raise Refused("the model finds nothing to ask of this kind")
        check_wording(drafted)
        if draft.kind is not Kind.UNANSWERABLE:
            draft.evidence = locate_quotes(drafted, draft.passages)
        self._refuse_secrets(
            drafted.question, drafted.answer, *(words for _, words in draft.evidence)
        )
        draft.drafted = drafted

    def _refuse_repeats(self, drafts: Sequence[_Draft]) -> None:
        """Refuse each of `drafts` whose question is nearly the same as an earlier one:
        of the golden set, of an accepted draft, or of a draft before it."""
        accepted = [sample.question for _, sample in self.accepted]
        earlier = [*self.existing, *accepted]
        drafts_with_question = []
        questions = []
        for draft in drafts:
            if draft.drafted is not None:
                drafts_with_question.append(draft)
                questions.append(draft.drafted.question)
        for index, pair in find_repeats(questions, earlier).items():
            is_existing = pair.first < len(self.existing)
            source = "the golden set" if is_existing else "this run"
            refusal = f"nearly the same question is in {source}"
            drafts_with_question[index].refusal = refusal

    def _refuse_secrets(self, *texts: str) -> None:
        """Raise Refused if one of `texts` has a secret."""
        if any(self.redact(text) != text for text in texts):
            raise Refused("it contains a secret of the environment")

    async def _verify(self, draft: _Draft) -> None:
        """Have the model check that the evidence alone answers the question, or that
        the documents don't, and that users would ask it. Raises Refused."""
        drafted = draft.drafted
        assert drafted is not None  # noqa: S101 - neither refused nor stopped
        call = self._call(draft)
        answers = []
        if draft.kind is Kind.UNANSWERABLE:
            near = self.related.find(
                drafted.question,
                limit=NEAR_PASSAGES,
                is_candidate=lambda passage: passage not in draft.passages,
            )
            texts = [*draft.texts, *(passage.text for passage in near)]
            answer = await self.drafter.attempt(drafted.question, texts, call=call)
            if answer is not None:
                raise Refused("the documents answer it, and it was to be unanswerable")
        else:
            texts = [words for _, words in draft.evidence]
            answer = await self.drafter.attempt(drafted.question, texts, call=call)
            if answer is None:
                raise Refused("its evidence alone doesn't answer it")
            answers = [answer]
        inspection = await self.drafter.inspect(
            drafted.question, drafted.answer, answers, call=call
        )
        sample = self._sample(draft, drafted)
        if not inspection.standalone:
            raise Refused("the question doesn't stand alone (by the model)")
        if not inspection.sensible:
            raise Refused("no user would ask it (by the model)")
        if inspection.trivial:
            raise Refused("it is trivial (by the model)")
        if not all(inspection.matches):
            raise Refused("another reading of its evidence gives another answer")
        problem = why_invalid(sample)
        if problem:
            raise Refused(problem)
        draft.sample = sample

    def _sample(self, draft: _Draft, drafted: DraftedQuestion) -> Sample:
        """The sample of a draft, to be reviewed."""
        first_passage = draft.passages[0]
        file_stem = Path(first_passage.document).stem.casefold()
        slug = re.sub(r"[^a-z0-9]+", "-", file_stem)
        id_stem = slug.strip("-")[:_MAX_STEM_CHARACTERS]
        texts = self.result.material.documents.texts
        documents = dict.fromkeys(passage.document for passage in draft.passages)
        sources = ", ".join(
            f"{document} sha256:{_digest(texts[document])}" for document in documents
        )
        tags = (str(draft.kind), drafted.difficulty)
        return Sample(
            id=f"{id_stem or 'q'}-{_digest(drafted.question)}",
            question=drafted.question,
            reference=drafted.answer or None,
            reference_contexts=tuple(words for _, words in draft.evidence),
            relevant_ids={passage.document: 1.0 for passage, _ in draft.evidence},
            answerable=draft.kind is not Kind.UNANSWERABLE,
            tags=tuple(filter(None, tags)),
            group=first_passage.name,
            review=Review("draft"),
            provenance=f"ragstone generate {__version__}, {self.judge_label}; {sources}",
        )

    async def _make_pairs(self) -> None:
        """Make a row for each answerable question, with two worse answers and a worse
        context: the passages among others that don't have the evidence."""
        rows: dict[int, PairRow] = {}

        async def make_row(draft: _Draft) -> None:
            sample = draft.sample
            assert sample is not None  # noqa: S101 - accepted
            reference = sample.reference or ""
            call = self._call(draft)
            worse = await self.drafter.worsen(
                sample.question, reference, draft.texts, call=call
            )
            answers = (worse.ungrounded, worse.poor)
            inspection = await self.drafter.inspect(
                sample.question, reference, answers, call=call
            )
            if any(inspection.matches):
                raise Refused(
                    "an answer that was to be worse says what the reference says"
                )
            self._refuse_secrets(*answers)

            def lacks_the_evidence(passage: Passage) -> bool:
                quotes = [
                    find_quote(words, passage.text) for _, words in draft.evidence
                ]
                return not any(quotes)

            near = self.related.find(
                " ".join((sample.question, *draft.texts)),
                limit=_DILUTING_PASSAGES,
                is_candidate=lacks_the_evidence,
            )
            row: dict[str, object] = {
                "id": sample.id,
                "question": sample.question,
                "answer": sample.reference,
                "ungrounded_answer": worse.ungrounded,
                "poor_answer": worse.poor,
                "context_v1": draft.texts,
            }
            if near:
                row["context_v2"] = [*draft.texts, *(passage.text for passage in near)]
            rows[draft.number] = row

        # Copies, so that a row can be refused, and its question stays accepted.
        drafts = [
            replace(draft) for draft, sample in self.accepted if sample.answerable
        ]
        await self._for_each(drafts, make_row)
        for draft in drafts:
            if draft.number not in rows:
                reason = draft.refusal or "not reached"
                self.result.unpaired[reason] += 1
        self.result.pairs = tuple(rows[number] for number in sorted(rows))


def pair_lines(rows: Iterable[PairRow]) -> str:
    """The content of a JSON Lines file of `rows`."""
    return "".join(
        f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in rows
    )


def hint_to_continue(error: JudgeError) -> JudgeError:
    """The error that ended the work, with how to continue it."""
    hint = (
        "The replies are cached: run the same command again with --force to continue."
    )
    if error.hint and "--resume" not in error.hint:
        hint = f"{error.hint} {hint}"
    return JudgeError(error.message, where=error.where, hint=hint)


def _digest(text: str) -> str:
    """The start of a hash, for ids and provenance."""
    body = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(body).hexdigest()[:_DIGEST_DIGITS]
