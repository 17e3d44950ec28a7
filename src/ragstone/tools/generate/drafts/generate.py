"""Drafts of golden samples from a team's own documents: written by a model, checked, and refused with a reason."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragstone._version import __version__
from ragstone.errors import ConfigError, JudgeError, first_in
from ragstone.evaluation.engine import Progress, Quiet
from ragstone.formatting import counted
from ragstone.golden.sample import Review, Sample
from ragstone.judge.llm.judge import LlmJudge
from ragstone.judge.protocol import Call, Judge, JudgementFailed
from ragstone.tools.generate.drafts.drafter import Drafted, Drafter, Kind, Match
from ragstone.tools.generate.drafts.plan import GENERAL_KNOWLEDGE, KINDS, PAIRED, SEARCHED, Generated, Material, Wanted
from ragstone.tools.generate.drafts.rules import Refused, check_wording, invalid_sample, located
from ragstone.tools.generate.near_duplicates import repeats, similar_pairs
from ragstone.tools.generate.passages import Coverage, Passage, Related, find_quote

_MAX_ASKED = 20
_DILUTION = 3


@dataclass(slots=True)
class _Slot:
    order: int
    kind: Kind
    tries: int


@dataclass(slots=True)
class _Draft:
    """One try: its slot, the passages it is about (the first is the seed), or the sample that it rewords."""

    slot: _Slot
    places: tuple[int, ...]
    source: _Accepted | None = None
    found: Drafted | None = None
    evidence: tuple[tuple[int, str], ...] = ()
    general: bool = False
    sample: Sample | None = None
    reason: str | None = None
    finished: bool = False


@dataclass(frozen=True, slots=True)
class _Accepted:
    slot: _Slot
    sample: Sample
    places: tuple[int, ...]
    evidence: tuple[tuple[int, str], ...]
    difficulty: str | None


def drafter_of(judge: Judge) -> Drafter:
    """What writes questions. Raises ConfigError if `judge` can't."""
    if not isinstance(judge, LlmJudge):
        raise ConfigError(
            f"the judge '{judge.identity.label()}' can't write questions: that takes a language model.",
            where="judge.name",
            hint="For example: --judge openai:gpt-5.4-mini",
        )
    return Drafter(judge.core)


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
    drafter = drafter_of(judge)
    found = Generated(material, wanted)
    await _Generation(found, drafter, judge.identity.label(), existing, progress or Quiet(), redact).run()
    return found


@dataclass(slots=True)
class _Generation:
    _found: Generated
    _drafter: Drafter
    _label: str
    _existing: Sequence[Sample]
    _progress: Progress
    _redact: Callable[[str], str]
    _barren: set[tuple[Kind, int]] = field(default_factory=set)
    _matched: set[tuple[int, int]] = field(default_factory=set)
    _asked: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    _accepted: list[_Accepted] = field(default_factory=list)
    _reworded: set[str] = field(default_factory=set)
    _shown: set[int] = field(default_factory=set)
    _passages: Sequence[Passage] = field(init=False)
    _ids: set[str] = field(init=False)
    _related: Related = field(init=False)
    _coverage: Coverage = field(init=False)

    def __post_init__(self) -> None:
        self._passages = self._found.material.passages
        self._ids = {sample.id for sample in self._existing}
        self._related = Related(self._passages)
        self._coverage = Coverage(self._passages, self._found.wanted.seed)

    async def run(self) -> None:
        found, wanted = self._found, self._found.wanted
        kinds = [kind for kind, number in wanted.counts().items() for _ in range(number)]
        slots = [_Slot(order, kind, wanted.tries) for order, kind in enumerate(kinds)]
        self._progress.start(len(slots))
        try:
            await self._write([slot for slot in slots if slot.kind is not Kind.PARAPHRASE])
            await self._write([slot for slot in slots if slot.kind is Kind.PARAPHRASE])
            await self._write(self._without_repeats())
            for slot in self._without_repeats():
                self._give_up(slot, "still a near-duplicate")
            await self._pairs()
        finally:
            self._progress.finish()
        found.samples = tuple(one.sample for one in self._accepted)
        found.asked = {self._passages[place] for one in self._accepted for place in one.places}

    async def _write(self, slots: Sequence[_Slot]) -> None:
        """Fill `slots` in rounds: all drafts of a round, their checks by rule in order, then the model's checks."""
        pending = list(slots)
        while pending and self._found.stopped is None:
            drafts, later = self._round(pending)
            self._found.drafts += len(drafts)
            await self._each(drafts, self._draft)
            drafted = [draft for draft in drafts if draft.finished and draft.reason is None]
            self._screen(drafted)
            await self._each([draft for draft in drafted if draft.reason is None], self._verify)
            for draft in drafts:
                if self._settle(draft):
                    later.append(draft.slot)
            pending = sorted(later, key=lambda slot: slot.order)
        for slot in pending:
            self._give_up(slot, "not reached")

    def _without_repeats(self) -> list[_Slot]:
        """Refuse near-duplicates that show only now, since the weight of words depends on all questions.

        The slots that have tries left.
        """
        self._accepted.sort(key=lambda one: one.slot.order)
        repeats = {pair.second for pair in similar_pairs([one.sample.question for one in self._accepted])}
        dropped = [one.slot for at, one in enumerate(self._accepted) if at in repeats]
        self._accepted = [one for at, one in enumerate(self._accepted) if at not in repeats]
        for slot in dropped:
            self._found.refused[slot.kind, _REPEATS] += 1
            slot.tries -= 1
            if slot.tries <= 0:
                self._give_up(slot, f"{counted(self._found.wanted.tries, 'draft')} refused")
        return [slot for slot in dropped if slot.tries > 0]

    def _round(self, pending: Sequence[_Slot]) -> tuple[list[_Draft], list[_Slot]]:
        """One draft for each slot that has something to ask about; a passage is the seed of one draft in a round."""
        busy: set[int] = set()
        drafts: list[_Draft] = []
        later: list[_Slot] = []
        for slot in pending:
            draft = self._reword(slot) if slot.kind is Kind.PARAPHRASE else self._start(slot, busy)
            if draft is not None:
                drafts.append(draft)
                busy.update(draft.places[:1])
            elif slot.kind is not Kind.PARAPHRASE and any((slot.kind, place) not in self._barren for place in busy):
                later.append(slot)
            else:
                self._give_up(slot, KINDS[slot.kind]["nothing_left"])
        return drafts, later

    def _start(self, slot: _Slot, busy: set[int]) -> _Draft | None:
        kind = slot.kind
        while True:
            seed = self._coverage.take(lambda at: at not in busy and (kind, at) not in self._barren)
            if seed is None:
                return None
            if kind not in PAIRED:
                return _Draft(slot, (seed,))
            partner = self._partner(kind, seed)
            if partner is not None:
                self._matched.update({(seed, partner), (partner, seed)})
                return _Draft(slot, (seed, partner))
            self._barren.add((kind, seed))

    def _partner(self, kind: Kind, seed: int) -> int | None:
        """The closest passage to go with `seed`: of the same document, or of another."""
        own = self._passages[seed].document

        def fits(at: int) -> bool:
            if at == seed or (seed, at) in self._matched:
                return False
            same = self._passages[at].document == own
            return kind is Kind.COMPARISON or same is (kind is Kind.MULTI_PASSAGE)

        found = self._related.to(self._passages[seed].text, most=1, least=2, among=fits)
        if not found and kind is Kind.MULTI_PASSAGE:  # passages of one document have a subject in common
            near = sorted(range(max(0, seed - 2), min(len(self._passages), seed + 3)), key=lambda at: abs(at - seed))
            found = [at for at in near if fits(at)][:1]
        return found[0] if found else None

    def _reword(self, slot: _Slot) -> _Draft | None:
        """A draft that rewords a question, each of them once."""
        for source in self._accepted:
            if source.slot.kind not in (Kind.PARAPHRASE, Kind.UNANSWERABLE) and source.sample.id not in self._reworded:
                self._reworded.add(source.sample.id)
                return _Draft(slot, source.places, source)
        return None

    async def _each(self, drafts: Sequence[_Draft], work: Callable[[_Draft], Coroutine[object, object, None]]) -> None:
        """Do `work` for all `drafts` at once; the judge limits its calls. A JudgeError stops everything."""

        async def one(draft: _Draft) -> None:
            try:
                await work(draft)
            except (Refused, JudgementFailed) as refusal:
                draft.reason = _plain(str(refusal))
            draft.finished = True

        for draft in drafts:
            draft.finished = False
        if self._found.stopped is not None:
            return
        try:
            async with asyncio.TaskGroup() as group:
                for draft in drafts:
                    group.create_task(one(draft))
        except BaseExceptionGroup as errors:
            first = first_in(errors)
            if not isinstance(first, JudgeError):
                raise first from None
            self._found.stopped = first

    def _call(self, draft: _Draft) -> Call:
        return Call(f"draft {draft.slot.order + 1}", ledger=self._found.ledger)

    async def _draft(self, draft: _Draft) -> None:
        call = self._call(draft)
        if draft.source is not None:
            source = draft.source.sample
            question = await self._drafter.reworded(source.question, source.reference or "", call=call)
            if question is not None:
                draft.found = Drafted(question, source.reference or "", (), draft.source.difficulty)
                draft.evidence = draft.source.evidence
        else:
            texts = [self._passages[place].text for place in draft.places]
            asked = [question for place in draft.places for question in self._asked[place]]
            asked = list(dict.fromkeys(asked))[-_MAX_ASKED:]
            draft.found = await self._drafter.question(draft.slot.kind, texts, asked, call=call)
        if draft.found is None:
            raise Refused("the model finds nothing to ask of this kind")

    def _screen(self, drafts: Sequence[_Draft]) -> None:
        """Check by rule, in order: an earlier draft of the round has precedence over a near-duplicate of it."""
        for draft in drafts:
            if draft.found is not None:
                try:
                    self._check(draft, draft.found)
                except Refused as refusal:
                    draft.reason = str(refusal)
        left = [(draft, draft.found.question) for draft in drafts if draft.reason is None and draft.found is not None]
        known = [sample.question for sample in (*self._existing, *(one.sample for one in self._accepted))]
        for at, (first, exact) in repeats([question for _, question in left], known).items():
            whose = "the golden set" if first < len(self._existing) else "this run"
            left[at][0].reason = f"{'' if exact else 'nearly '}the same question is in {whose}"

    def _check(self, draft: _Draft, found: Drafted) -> None:
        check_wording(found)
        if draft.source is None and draft.slot.kind is not Kind.UNANSWERABLE:
            texts = [self._passages[place].text for place in draft.places]
            draft.evidence = tuple((draft.places[at], words) for at, words in located(found, texts))
        written = (found.question, found.answer, *(text for _, text in draft.evidence))
        if any(self._redact(text) != text for text in written):
            raise Refused("it contains a secret of the environment")

    async def _verify(self, draft: _Draft) -> None:
        """Check by the model: answered by its evidence alone, not without it, standing alone."""
        found = draft.found
        if found is None:
            return
        call, question = self._call(draft), found.question
        if draft.slot.kind is Kind.UNANSWERABLE:
            near = [place for place in self._related.to(question, most=SEARCHED) if place not in draft.places]
            texts = [self._passages[place].text for place in (*draft.places, *near)]
            if await self._drafter.attempt(question, texts, call=call) is not None:
                raise Refused("the documents answer it, and it was to be unanswerable")
            answers: list[str] = []
        else:
            answer = await self._drafter.attempt(question, [text for _, text in draft.evidence], call=call)
            if answer is None:
                raise Refused("its evidence alone doesn't answer it")
            known = await self._drafter.attempt(question, None, call=call)
            answers = [answer] if known is None else [answer, known]
        seen = await self._drafter.inspect(question, found.answer, answers, call=call)
        if not seen.standalone:
            raise Refused("the question doesn't stand alone (by the model)")
        if not seen.sensible:
            raise Refused("no user would ask it (by the model)")
        if seen.trivial:
            raise Refused("it is trivial (by the model)")
        if answers and seen.matches[0] is not Match.SAME:
            raise Refused("another reading of its evidence gives another answer")
        draft.general = len(answers) > 1 and seen.matches[1] is Match.SAME
        draft.sample = self._sample(draft, found)
        if (problem := invalid_sample(draft.sample)) is not None:
            raise Refused(problem)
        self._show(draft.slot, "written")

    def _settle(self, draft: _Draft) -> bool:
        """Accept or refuse `draft`; whether its slot is to be tried again."""
        slot = draft.slot
        if draft.reason is None and draft.finished and draft.sample is not None:
            self._accept(draft, draft.sample)
            return False
        if draft.reason is None:
            self._found.unfinished += 1
            self._give_up(slot, "not reached")
            return False
        self._found.refused[slot.kind, draft.reason] += 1
        if draft.source is None:
            self._barren.add((slot.kind, draft.places[0]))
        slot.tries -= 1
        if slot.tries <= 0:
            self._give_up(slot, f"{counted(self._found.wanted.tries, 'draft')} refused")
            return False
        return True

    def _accept(self, draft: _Draft, sample: Sample) -> None:
        difficulty = draft.found.difficulty if draft.found is not None else None
        self._accepted.append(_Accepted(draft.slot, sample, draft.places, draft.evidence, difficulty))
        self._ids.add(sample.id)
        for place in draft.places:
            self._asked[place].append(sample.question)

    def _give_up(self, slot: _Slot, reason: str) -> None:
        self._found.given_up[slot.kind, reason] += 1
        self._show(slot, "given up")

    def _show(self, slot: _Slot, state: str) -> None:
        if slot.order not in self._shown:
            self._shown.add(slot.order)
            self._progress.advance(state)

    def _sample(self, draft: _Draft, found: Drafted) -> Sample:
        kind, seed = draft.slot.kind, self._passages[draft.places[0]]
        named = dict.fromkeys(self._passages[place].document for place in draft.places)
        texts = {document.id: document.text for document in self._found.material.documents.read if document.id in named}
        digests = [f"{name} sha256:{_digest(texts[name])[:12]}" for name in named]
        tags = [str(kind), *([found.difficulty] if found.difficulty else [])]
        return Sample(
            id=self._new_id(seed.document, found.question),
            question=found.question,
            reference=found.answer or None,
            reference_contexts=tuple(text for _, text in draft.evidence),
            relevant_ids={self._passages[place].document: 1.0 for place, _ in draft.evidence},
            answerable=kind is not Kind.UNANSWERABLE,
            tags=(*tags, *([GENERAL_KNOWLEDGE] if draft.general else [])),
            group=seed.name,
            review=Review("draft"),
            provenance=f"ragstone generate {__version__}, {self._label}; {', '.join(digests)}",
        )

    def _new_id(self, document: str, question: str) -> str:
        stem = re.sub(r"[^a-z0-9]+", "-", Path(document).stem.casefold()).strip("-")[:40].strip("-") or "q"
        digest = _digest(question)
        return next(name for length in range(8, len(digest)) if (name := f"{stem}-{digest[:length]}") not in self._ids)

    async def _pairs(self) -> None:
        """A row in WikiEval's layout for each answerable question: with two worse answers, and a diluted context."""
        rows: dict[int, Mapping[str, object]] = {}
        unpaired = self._found.unpaired
        wanted = [one for one in self._accepted if one.sample.answerable] if self._found.wanted.pairs else []

        async def make(draft: _Draft) -> None:
            source = draft.source
            if source is None:
                return
            sample, texts = source.sample, [self._passages[place].text for place in source.places]
            reference, call = sample.reference or "", self._call(draft)
            worse = await self._drafter.worsen(sample.question, reference, texts, call=call)
            answers = [worse.ungrounded, worse.poor]
            seen = await self._drafter.inspect(sample.question, reference, answers, call=call)
            if Match.SAME in seen.matches:
                raise Refused("an answer that was to be worse says what the reference says")
            if any(self._redact(text) != text for text in answers):
                raise Refused("it contains a secret of the environment")
            rows[source.slot.order] = self._pair_row(source, texts, worse.ungrounded, worse.poor)

        drafts = [_Draft(one.slot, one.places, one) for one in wanted]
        await self._each(drafts, make)
        for draft in drafts:
            row = rows.get(draft.slot.order)
            if row is None:
                unpaired[draft.reason or "not reached"] += 1
            elif "context_v2" not in row:
                unpaired["there is no related passage to dilute the context with"] += 1
        self._found.pairs = tuple(rows[order] for order in sorted(rows))

    def _pair_row(self, source: _Accepted, texts: Sequence[str], ungrounded: str, poor: str) -> Mapping[str, object]:
        sample = source.sample
        quotes = [text for _, text in source.evidence]
        close = self._related.to(
            " ".join((sample.question, *texts)), most=4 * _DILUTION, among=lambda at: at not in source.places
        )
        near = [at for at in close if not any(find_quote(quote, [self._passages[at].text]) for quote in quotes)]
        row: dict[str, object] = {
            "id": sample.id,
            "question": sample.question,
            "answer": sample.reference,
            "ungrounded_answer": ungrounded,
            "poor_answer": poor,
            "context_v1": list(texts),
        }
        if near:
            row["context_v2"] = [*texts, *(self._passages[at].text for at in near[:_DILUTION])]
        return row


_REPEATS = "nearly the same question is in this run"


def pair_lines(rows: Iterable[Mapping[str, object]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False, allow_nan=False)}\n" for row in rows)


def continued(error: JudgeError) -> JudgeError:
    """The error that ended the work, with what to do next."""
    hint = "The replies are cached: run the same command again with --force to continue."
    keep = error.hint if error.hint and "--resume" not in error.hint else None
    return JudgeError(error.message, where=error.where, hint=f"{keep} {hint}" if keep else hint)


def _plain(reason: str) -> str:
    """A reason without the names of fields, so that equal ones are counted together."""
    return re.sub(r" \([^()]*asked twice\)", " (asked twice)", reason)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
