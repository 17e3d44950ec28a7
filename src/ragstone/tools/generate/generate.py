"""Drafts of golden samples from a team's own documents: written by a model, checked, and refused with a reason."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone._version import __version__
from ragstone.errors import JudgeError, first_in
from ragstone.evaluation.engine import Progress, Quiet
from ragstone.golden.sample import Review, Sample
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.tools.generate.checks import Refused, check_wording, invalid_sample, located
from ragstone.tools.generate.drafter import Drafted, Drafter, Kind
from ragstone.tools.generate.near_duplicates import repeats
from ragstone.tools.generate.passages import Passage, Related, find_quote, spread_order
from ragstone.tools.generate.plan import SEARCHED, TRIES, Generated, Material, Wanted

_MAX_EXISTING = 20
"""Questions on a passage that the model is shown, so that it asks another."""
_DILUTION = 3
"""Related passages that dilute a context."""

Pairs = Mapping[str, object]


@dataclass(slots=True)
class _Draft:
    """One try for a question."""

    number: int
    """The place of the question in the order in which they are wanted."""
    kind: Kind
    places: tuple[int, ...]
    """The passages that it is about; the first is the seed."""
    drafted: Drafted | None = None
    evidence: tuple[tuple[int, str], ...] = ()
    """Words of the passages, as they stand there."""
    sample: Sample | None = None
    refusal: str = ""


async def generate(
    judge: Judge,
    material: Material,
    wanted: Wanted,
    *,
    existing: Sequence[Sample] = (),
    progress: Progress | None = None,
    redact: Callable[[str], str] = str,
) -> Generated:
    """Write and check questions on `material`, none of them nearly one of `existing`.

    The same documents, settings and replies give the same drafts, whatever order the replies arrive in, so a run that
    was interrupted is continued from the judge's cache. A JudgeError ends the work; what is finished is returned with
    it. Raises ConfigError if the judge can't write.
    """
    generation = _Generation(Drafter(judge), judge.identity.label(), material, wanted, existing, redact)
    shown = progress or Quiet()
    shown.start(wanted.count)
    try:
        return await generation.run(shown)
    finally:
        shown.finish()


class _Generation:
    def __init__(
        self,
        drafter: Drafter,
        label: str,
        material: Material,
        wanted: Wanted,
        existing: Sequence[Sample],
        redact: Callable[[str], str],
    ) -> None:
        self._drafter, self._label, self._redact = drafter, label, redact
        self._existing = existing
        self._result = Generated(material, wanted)
        self._passages: Sequence[Passage] = material.passages
        self._related = Related(material.passages)
        self._seeds = spread_order(material.passages, wanted.seed)
        self._turn = 0
        self._paired: set[frozenset[int]] = set()
        self._questions: dict[int, list[str]] = defaultdict(list)
        self._accepted: list[_Draft] = []

    async def run(self, progress: Progress) -> Generated:
        """Fill what is wanted in rounds: all drafts of a round, their checks by rule in order, then the model's."""
        result = self._result
        kinds = [kind for kind, number in result.wanted.counts().items() for _ in range(number)]
        missing = list(enumerate(kinds))
        for _ in range(TRIES):
            if not missing or result.stopped is not None:
                break
            drafts = [self._start(number, kind) for number, kind in missing]
            await self._round(drafts)
            missing = [(draft.number, draft.kind) for draft in drafts if draft.sample is None]
            for _ in range(len(drafts) - len(missing)):
                progress.advance("written")
        for _ in range(result.wanted.count - len(self._accepted)):
            progress.advance("given up")
        result.samples = tuple(draft.sample for draft in self._accepted if draft.sample is not None)
        result.covered = {self._passages[place] for draft in self._accepted for place in draft.places}
        if result.wanted.pairs:
            await self._make_pairs()
        return result

    def _start(self, number: int, kind: Kind) -> _Draft:
        """A draft on the next passage, and on the one that is closest to it if its kind takes two."""
        seed = self._seeds[self._turn % len(self._seeds)]
        self._turn += 1
        if kind is not Kind.TWO_PASSAGES:
            return _Draft(number, kind, (seed,))
        partners = self._related.to(
            self._passages[seed].text,
            most=1,
            least=2,
            among=lambda place: place != seed and frozenset((seed, place)) not in self._paired,
        )
        if not partners:
            return _Draft(number, kind, (seed,), refusal="no other passage is related to it")
        self._paired.add(frozenset((seed, partners[0])))
        return _Draft(number, kind, (seed, partners[0]))

    async def _round(self, drafts: Sequence[_Draft]) -> None:
        result = self._result
        result.drafts += len(drafts)
        await self._for_each(drafts, self._draft)
        if result.stopped is None:
            self._screen(drafts)
            await self._for_each(drafts, self._verify)
        for draft in drafts:
            if draft.refusal:
                result.refused[draft.refusal] += 1
            elif draft.sample is not None:
                self._accepted.append(draft)
                for place in draft.places:
                    self._questions[place].append(draft.sample.question)
            else:
                result.unfinished += 1
        self._accepted.sort(key=lambda draft: draft.number)

    async def _for_each(self, drafts: Sequence[_Draft], work: Callable[[_Draft], Awaitable[None]]) -> None:
        """Do `work` for all `drafts` that are not refused, at once; the judge limits its calls."""

        async def checked(draft: _Draft) -> None:
            try:
                await work(draft)
            except (Refused, JudgementFailed) as refusal:
                draft.refusal = _without_fields(str(refusal))

        try:
            async with asyncio.TaskGroup() as group:
                for draft in drafts:
                    if not draft.refusal:
                        group.create_task(checked(draft))
        except BaseExceptionGroup as errors:
            error = first_in(errors)
            if not isinstance(error, JudgeError):
                raise error from None
            self._result.stopped = error

    def _call(self, draft: _Draft) -> Call:
        return Call(f"draft {draft.number + 1}", ledger=self._result.ledger)

    async def _draft(self, draft: _Draft) -> None:
        texts = [self._passages[place].text for place in draft.places]
        existing = [question for place in draft.places for question in self._questions[place]]
        shown = list(dict.fromkeys(existing))[-_MAX_EXISTING:]
        draft.drafted = await self._drafter.question(draft.kind, texts, shown, call=self._call(draft))
        if draft.drafted is None:
            raise Refused("the model finds nothing to ask of this kind")

    def _screen(self, drafts: Sequence[_Draft]) -> None:
        """Check by rule, in order: an earlier draft of the round has precedence over a near-duplicate of it."""
        sound: list[_Draft] = []
        questions: list[str] = []
        for draft in drafts:
            if draft.refusal or draft.drafted is None:
                continue
            try:
                self._check(draft, draft.drafted)
            except Refused as refusal:
                draft.refusal = str(refusal)
                continue
            sound.append(draft)
            questions.append(draft.drafted.question)
        earlier = [sample.question for sample in self._existing]
        earlier += [draft.sample.question for draft in self._accepted if draft.sample is not None]
        for place, (original, is_exact) in repeats(questions, earlier).items():
            whose = "the golden set" if original < len(self._existing) else "this run"
            sound[place].refusal = f"{'' if is_exact else 'nearly '}the same question is in {whose}"

    def _check(self, draft: _Draft, drafted: Drafted) -> None:
        check_wording(drafted)
        if draft.kind is not Kind.UNANSWERABLE:
            texts = [self._passages[place].text for place in draft.places]
            draft.evidence = tuple((draft.places[number], words) for number, words in located(drafted, texts))
        self._refuse_secrets(drafted.question, drafted.answer, *(words for _, words in draft.evidence))

    def _refuse_secrets(self, *texts: str) -> None:
        if any(self._redact(text) != text for text in texts):
            raise Refused("it contains a secret of the environment")

    async def _verify(self, draft: _Draft) -> None:
        """Check by the model: answered by its evidence alone, or by nothing in the documents; standing alone."""
        drafted = draft.drafted
        if drafted is None:
            return
        call, answers = self._call(draft), []
        if draft.kind is Kind.UNANSWERABLE:
            near = self._related.to(drafted.question, most=SEARCHED, among=lambda place: place not in draft.places)
            texts = [self._passages[place].text for place in (*draft.places, *near)]
            if await self._drafter.attempt(drafted.question, texts, call=call) is not None:
                raise Refused("the documents answer it, and it was to be unanswerable")
        else:
            texts = [words for _, words in draft.evidence]
            answer = await self._drafter.attempt(drafted.question, texts, call=call)
            if answer is None:
                raise Refused("its evidence alone doesn't answer it")
            answers = [answer]
        inspection = await self._drafter.inspect(drafted.question, drafted.answer, answers, call=call)
        if not inspection.standalone:
            raise Refused("the question doesn't stand alone (by the model)")
        if not inspection.sensible:
            raise Refused("no user would ask it (by the model)")
        if inspection.trivial:
            raise Refused("it is trivial (by the model)")
        if not all(inspection.matches):
            raise Refused("another reading of its evidence gives another answer")
        sample = self._sample(draft, drafted)
        problem = invalid_sample(sample)
        if problem is not None:
            raise Refused(problem)
        draft.sample = sample

    def _sample(self, draft: _Draft, drafted: Drafted) -> Sample:
        seed = self._passages[draft.places[0]]
        documents = {document.id: document.text for document in self._result.material.documents.read}
        named = dict.fromkeys(self._passages[place].document for place in draft.places)
        sources = [f"{name} sha256:{_digest(documents[name])[:12]}" for name in named]
        return Sample(
            id=f"{_stem(seed.document)}-{_digest(drafted.question)[:12]}",
            question=drafted.question,
            reference=drafted.answer or None,
            reference_contexts=tuple(words for _, words in draft.evidence),
            relevant_ids={self._passages[place].document: 1.0 for place, _ in draft.evidence},
            answerable=draft.kind is not Kind.UNANSWERABLE,
            tags=(str(draft.kind), *([drafted.difficulty] if drafted.difficulty else [])),
            group=seed.name,
            review=Review("draft"),
            provenance=f"ragstone generate {__version__}, {self._label}; {', '.join(sources)}",
        )

    async def _make_pairs(self) -> None:
        """A row in WikiEval's layout for each answerable question: with two worse answers, and a diluted context."""
        rows: dict[int, Pairs] = {}

        async def make(draft: _Draft) -> None:
            sample, texts = draft.sample, [self._passages[place].text for place in draft.places]
            if sample is None:
                return
            reference, call = sample.reference or "", self._call(draft)
            answers = await self._drafter.worsen(sample.question, reference, texts, call=call)
            inspection = await self._drafter.inspect(sample.question, reference, answers, call=call)
            if any(inspection.matches):
                raise Refused("an answer that was to be worse says what the reference says")
            self._refuse_secrets(*answers)
            rows[draft.number] = self._pair_row(draft, sample, texts, *answers)

        # Copies, which can be refused without the question.
        drafts = [replace(draft) for draft in self._accepted if draft.kind is not Kind.UNANSWERABLE]
        await self._for_each(drafts, make)
        for draft in drafts:
            if draft.number not in rows:
                self._result.unpaired[draft.refusal or "not reached"] += 1
        self._result.pairs = tuple(rows[number] for number in sorted(rows))

    def _pair_row(
        self, draft: _Draft, sample: Sample, texts: Sequence[str], without_context: str, incomplete: str
    ) -> Pairs:
        def lacks_the_evidence(place: int) -> bool:
            text = self._passages[place].text
            return place not in draft.places and not any(find_quote(words, [text]) for _, words in draft.evidence)

        near = self._related.to(" ".join((sample.question, *texts)), most=_DILUTION, among=lacks_the_evidence)
        row: dict[str, object] = {
            "id": sample.id,
            "question": sample.question,
            "answer": sample.reference,
            "ungrounded_answer": without_context,
            "poor_answer": incomplete,
            "context_v1": list(texts),
        }
        if near:
            row["context_v2"] = [*texts, *(self._passages[place].text for place in near)]
        return row


def pair_lines(rows: Iterable[Pairs]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in rows)


def continued(error: JudgeError) -> JudgeError:
    """The error that ended the work, with what to do next."""
    hint = "The replies are cached: run the same command again with --force to continue."
    keep = error.hint if error.hint and "--resume" not in error.hint else None
    return JudgeError(error.message, where=error.where, hint=f"{keep} {hint}" if keep else hint)


def _without_fields(reason: str) -> str:
    """A reason without the names of fields, so that equal ones are counted together."""
    return re.sub(r" \([^()]*asked twice\)", " (asked twice)", reason)


def _stem(document: str) -> str:
    """The name of a document for an id: letters and digits, without folder and extension."""
    return re.sub(r"[^a-z0-9]+", "-", Path(document).stem.casefold()).strip("-")[:40].strip("-") or "q"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
