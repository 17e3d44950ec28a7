"""Drafts of golden samples from a team's own documents: written by a model, checked,
and refused with a reason."""

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
    invalid_sample,
    located,
)
from ragstone.tools.generate.drafter import Drafted, Drafter, Kind
from ragstone.tools.generate.near_duplicates import find_repeats
from ragstone.tools.generate.passages import Passage, Related, find_quote, spread_order
from ragstone.tools.generate.plan import SEARCHED, TRIES, Generated, Material, Wanted

_MAX_EXISTING = 20
"""Questions on a passage that the model is shown, so that it asks another."""
_DILUTION = 3
"""Related passages that dilute a context."""

Pairs = Mapping[str, object]


class _Draft(Struct):
    """One try for a question: for the one with this `number` in the order in which they
    are wanted."""

    number: int
    kind: Kind
    passages: tuple[Passage, ...]
    """What it is about; the first is the seed."""
    drafted: Drafted | None = None
    evidence: Sequence[tuple[Passage, str]] = ()
    """Words of the passages, as they stand there."""
    sample: Sample | None = None
    refusal: str = ""

    @property
    def texts(self) -> list[str]:
        return [passage.text for passage in self.passages]


async def generate(
    judge: Judge,
    material: Material,
    wanted: Wanted,
    *,
    progress: Progress,
    existing: Sequence[Sample] = (),
    redact: Callable[[str], str] = str,
) -> Generated:
    """Write and check questions on `material`, none of them nearly one of `existing`.

    The same documents, settings and replies give the same drafts, whatever order the
    replies arrive in, so a run that was interrupted is continued from the judge's
    cache. A JudgeError ends the work; what is finished is returned with it. Raises
    ConfigError if the judge can't write.
    """
    drafter = Drafter(judge)
    label = judge.identity.label()
    result = Generated(material, wanted)
    questions = [sample.question for sample in existing]
    related = Related(material.passages)
    seeds = cycle(spread_order(material.passages, wanted.seed))
    generation = _Generation(
        drafter,
        label,
        result,
        questions,
        redact,
        related,
        seeds,
    )
    progress.start(wanted.count)
    try:
        return await generation.run(progress)
    finally:
        progress.finish()


class _Generation(Struct):
    drafter: Drafter
    label: str
    """The judge's, for the provenance."""
    result: Generated
    existing: Sequence[str]
    redact: Callable[[str], str]
    related: Related
    seeds: Iterator[Passage]
    paired: set[frozenset[Passage]] = set()
    accepted: list[tuple[_Draft, Sample]] = []

    async def run(self, progress: Progress) -> Generated:
        """Fill what is wanted in rounds: all drafts of a round, their checks by rule in
        order, then the model's."""
        result = self.result
        kinds = result.wanted.counts().elements()
        missing = list(enumerate(kinds))
        for _ in range(TRIES):
            drafts = [self._start(number, kind) for number, kind in missing]
            await self._for_each(drafts, self._draft)
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
        if result.wanted.pairs:
            await self._make_pairs()
        return result

    def _start(self, number: int, kind: Kind) -> _Draft:
        """A draft on the next passage, and on the one that is closest to it if its kind
        takes two."""
        seed = next(self.seeds)
        draft = _Draft(number, kind, (seed,))
        if kind is Kind.TWO_PASSAGES:

            def is_new(passage: Passage) -> bool:
                pair = frozenset((seed, passage))
                return passage != seed and pair not in self.paired

            closest = self.related.to(seed.text, most=1, among=is_new)
            draft.passages += tuple(closest)
            if len(draft.passages) < 2:
                draft.refusal = "no other passage is related to it"
            self.paired.add(frozenset(draft.passages))
        return draft

    async def _for_each(
        self, drafts: Sequence[_Draft], work: Callable[[_Draft], Awaitable[None]]
    ) -> None:
        """Do `work` for all `drafts` that are not refused, at once, unless the judge
        has ended the work."""

        async def checked(draft: _Draft) -> None:
            try:
                await work(draft)
            except (Refused, JudgementFailed) as refusal:
                # Without the names of fields, so that equal reasons are counted
                # together.
                draft.refusal = re.sub(
                    r" \([^()]*asked twice\)", " (asked twice)", str(refusal)
                )

        try:
            async with asyncio.TaskGroup() as group:
                for draft in drafts:
                    if not draft.refusal and self.result.stopped is None:
                        group.create_task(checked(draft))
        except BaseExceptionGroup as errors:
            error = first_in(errors)
            if not isinstance(error, JudgeError):
                raise error from None
            self.result.stopped = error

    def _call(self, draft: _Draft) -> Call:
        number = draft.number + 1
        return Call(f"draft {number}", ledger=self.result.ledger)

    async def _draft(self, draft: _Draft) -> None:
        passages = set(draft.passages)
        existing = [
            sample.question
            for earlier_draft, sample in self.accepted
            if passages.intersection(earlier_draft.passages)
        ]
        call = self._call(draft)
        drafted = await self.drafter.question(
            draft.kind, draft.texts, existing[-_MAX_EXISTING:], call=call
        )
        if drafted is None:
            raise Refused("the model finds nothing to ask of this kind")
        check_wording(drafted)
        if draft.kind is not Kind.UNANSWERABLE:
            draft.evidence = located(drafted, draft.passages)
        self._refuse_secrets(
            drafted.question, drafted.answer, *(words for _, words in draft.evidence)
        )
        draft.drafted = drafted

    def _refuse_repeats(self, drafts: Sequence[_Draft]) -> None:
        """An earlier draft of the round has precedence over a near-duplicate of it."""
        accepted = [sample.question for _, sample in self.accepted]
        earlier = [*self.existing, *accepted]
        drafts_to_check = []
        questions = []
        for draft in drafts:
            if draft.drafted is not None:
                drafts_to_check.append(draft)
                questions.append(draft.drafted.question)
        for place, pair in find_repeats(questions, earlier).items():
            is_existing = pair.first < len(self.existing)
            whose = "the golden set" if is_existing else "this run"
            drafts_to_check[place].refusal = f"nearly the same question is in {whose}"

    def _refuse_secrets(self, *texts: str) -> None:
        if any(self.redact(text) != text for text in texts):
            raise Refused("it contains a secret of the environment")

    async def _verify(self, draft: _Draft) -> None:
        """Check by the model: answered by its evidence alone, or by nothing in the
        documents; standing alone."""
        drafted = draft.drafted
        assert drafted is not None  # noqa: S101 - neither refused nor stopped
        call = self._call(draft)
        answers = []
        if draft.kind is Kind.UNANSWERABLE:
            near = self.related.to(
                drafted.question,
                most=SEARCHED,
                among=lambda passage_near: passage_near not in draft.passages,
            )
            near_texts = [passage.text for passage in near]
            texts = [*draft.texts, *near_texts]
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
        problem = invalid_sample(sample)
        if problem:
            raise Refused(problem)
        draft.sample = sample

    def _sample(self, draft: _Draft, drafted: Drafted) -> Sample:
        seed = draft.passages[0]
        name = Path(seed.document).stem.casefold()
        slug = re.sub(r"[^a-z0-9]+", "-", name)
        stem = slug.strip("-")[:40]
        texts = self.result.material.documents.texts
        documents = dict.fromkeys(passage.document for passage in draft.passages)
        sources = [f"{name} sha256:{_digest(texts[name])}" for name in documents]
        source_list = ", ".join(sources)
        quotes = tuple(words for _, words in draft.evidence)
        relevant_ids = {passage.document: 1.0 for passage, _ in draft.evidence}
        tags = (str(draft.kind), drafted.difficulty)
        digest = _digest(drafted.question)
        return Sample(
            id=f"{stem or 'q'}-{digest}",
            question=drafted.question,
            reference=drafted.answer or None,
            reference_contexts=quotes,
            relevant_ids=relevant_ids,
            answerable=draft.kind is not Kind.UNANSWERABLE,
            tags=tuple(filter(None, tags)),
            group=seed.name,
            review=Review("draft"),
            provenance=f"ragstone generate {__version__}, {self.label}; {source_list}",
        )

    async def _make_pairs(self) -> None:
        """A row in WikiEval's layout for each answerable question: with two worse
        answers, and a diluted context."""
        rows: dict[int, Pairs] = {}

        async def make(draft: _Draft) -> None:
            sample = draft.sample
            assert sample is not None  # noqa: S101 - accepted
            reference = sample.reference or ""
            call = self._call(draft)
            answers = await self.drafter.worsen(
                sample.question, reference, draft.texts, call=call
            )
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

            about = " ".join((sample.question, *draft.texts))
            near = self.related.to(about, most=_DILUTION, among=lacks_the_evidence)
            row: dict[str, object] = {
                "id": sample.id,
                "question": sample.question,
                "answer": sample.reference,
                "ungrounded_answer": answers[0],
                "poor_answer": answers[1],
                "context_v1": draft.texts,
            }
            if near:
                near_texts = [passage.text for passage in near]
                row["context_v2"] = [*draft.texts, *near_texts]
            rows[draft.number] = row

        # Copies, which can be refused without the question.
        drafts = [
            replace(draft) for draft, sample in self.accepted if sample.answerable
        ]
        await self._for_each(drafts, make)
        for draft in drafts:
            if draft.number not in rows:
                reason = draft.refusal or "not reached"
                self.result.unpaired[reason] += 1
        self.result.pairs = tuple(rows[number] for number in sorted(rows))


def pair_lines(rows: Iterable[Pairs]) -> str:
    return "".join(
        f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in rows
    )


def continued(error: JudgeError) -> JudgeError:
    """The error that ended the work, with what to do next."""
    hint = (
        "The replies are cached: run the same command again with --force to continue."
    )
    if error.hint and "--resume" not in error.hint:
        hint = f"{error.hint} {hint}"
    return JudgeError(error.message, where=error.where, hint=hint)


def _digest(text: str) -> str:
    """The start of a hash, for ids and provenance."""
    body = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(body).hexdigest()[:12]
