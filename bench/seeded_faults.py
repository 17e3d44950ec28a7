"""Whether line one and "where to look" name the right half and the right cause: 40 seeded faults, 48 harmless changes.

    python bench/seeded_faults.py            # the table of bench/seeded_faults.md (--write puts it there)
    python bench/seeded_faults.py --systems ferry --only "chunks are cut"

Twenty faults are seeded into the example (examples/docs-qa, in its own environment) and into a system of another field
(tests/corpus/ferry.json: vectors of words, and a generator that gives the known answer where its passage is among the
first contexts). The healthy system is the baseline, the policy is the one that `ragstone init` writes, and the offline
judge judges. A fault counts if line one or "where to look" names its half, and no other; judge, golden set and
time-outs have none. Its cause is that of line one; for the other three, line one or "what changed" must name it. What
stays green is missed. The harmless changes are nineteen of systems.py, and five of retriever and service; each half or
cause that is named is a false one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the faults are those of the tests' corpus

from broken_systems import EXAMPLE, ROOT, Bench, policy
from systems import HEALTHY, Item, System, Truth

from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.gather import Gathering
from ragstone.evaluation.manifest import Canaries
from ragstone.evaluation.record import Answer, SampleRecord
from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.scoring import sample_scores, scored_answer
from ragstone.evaluation.serialise import record_and_facts_from_line, record_to_line
from ragstone.gate.changes import Corpus, changes_line, changes_since
from ragstone.gate.decide import decide_gate
from ragstone.gate.facts import Facts, facts_of
from ragstone.gate.golden_set_change import golden_set_change
from ragstone.gate.headline import headline_of
from ragstone.gate.verdict import GateVerdict, Side, Status
from ragstone.golden.sample import Sample
from ragstone.judge.judgements import SupportTable, Verdict
from ragstone.metrics.score import Failed
from ragstone.system.response import Context, Response, SystemFailure, SystemFailureKind
from tests.corpus import ferry
from tests.corpus.changes import GENERATION_FAULTS, Change
from tests.corpus.changes import HARMLESS as CORPUS_HARMLESS
from tests.corpus.changes import Item as CorpusItem
from tests.corpus.ferry import Passage, Question, Reply

PAGE = ROOT / "bench" / "seeded_faults.md"
BEGIN, END = "<!-- seeded faults -->", "<!-- end of seeded faults -->"
SYSTEMS = ("docs", "ferry")
RIGHT_HALVES, RIGHT_CAUSES, FALSE_CAUSES = 36, 30, 1
"""Of the 40 faults, and of the 48 harmless changes."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`side` is None if neither half is to blame. `causes` are right, or, without a side, words of what is said."""

    name: str
    side: Side | None
    causes: tuple[str, ...]
    change: Callable[[Item], Item] | None = None
    """Of one healthy response; None: the system answers otherwise."""


def _changed(change: Change) -> Callable[[Item], Item]:
    """A change of the tests' corpus, for the items of this benchmark."""

    def change_item(item: Item) -> Item:
        assert item.other is not None
        reply = change(CorpusItem(_reply(item), _reply(item.other)))
        if reply.error is not None:
            failure = SystemFailure(SystemFailureKind.TIMEOUT, reply.error)
            return replace(item, response=Response(item.sample.id, failure=failure))
        latency_s = item.response.latency_s if reply.latency_s is None else reply.latency_s
        response = replace(item.response, answer=reply.answer, contexts=_contexts(reply), latency_s=latency_s)
        return replace(item, response=response)

    return change_item


def _reply(item: Item) -> Reply:
    sample, response = item.sample, item.response
    question = Question(sample.id, sample.question, sample.reference, passage_id="any" if sample.answerable else None)
    passages = tuple(Passage(context.id or "", context.text, context.score) for context in response.contexts)
    return Reply(question, response.answer, passages)


def _contexts(reply: Reply) -> tuple[Context, ...]:
    return tuple(Context(passage.text, passage.id, passage.score) for passage in reply.contexts)


def _edited(item: Item) -> Item:
    if item.other is None or item.other.sample.reference is None or item.rng.random() >= 0.4:
        return item
    return replace(item, sample=replace(item.sample, reference=item.other.sample.reference))


R, G = Side.RETRIEVAL, Side.GENERATION
LOST, LOW = ("not_retrieved",), ("ranked_low", "not_retrieved")
UNGROUNDED = ("ignored", "invented", "contradicted")


def _of_generator(name: str, *causes: str) -> Fault:
    return Fault(name, G, causes, _changed(GENERATION_FAULTS[name]))


FAULTS = (
    Fault("the index is half empty", R, LOST),
    Fault("documents were dropped", R, LOST),
    Fault("chunks are cut in half", R, LOST),
    Fault("the corpus is stale", R, LOST),
    Fault("embeddings are shuffled", R, LOST),
    Fault("top k is 1", R, LOST),
    Fault("the reranker is reversed", R, LOW),
    Fault("the query is cut", R, LOST),
    _of_generator("the prompt has no contexts", *UNGROUNDED),
    _of_generator('the prompt says "be brief"', "incomplete"),
    _of_generator("answers are cut at a length", "cut"),
    _of_generator("answers are in another language", "language"),
    _of_generator("the prompt says to abstain in doubt", "evasive"),
    _of_generator("the temperature is too high", *UNGROUNDED),
    _of_generator("replies are lost in parsing", "empty"),
    _of_generator("another question is answered", "wrong_question", "ignored"),
    _of_generator("numbers are wrong", *UNGROUNDED),
    Fault("the judge's model was replaced", None, ("judge",), lambda item: item),
    Fault("the golden set is another one", None, ("golden set",), _edited),
    Fault("questions time out", None, ("No answer within 20 s",), _changed(GENERATION_FAULTS["questions time out"])),
)
SEEDED = [fault.name for fault in FAULTS if fault.change is None]
ANOTHER_ANSWER = "a sentence of the contexts"
"""Of systems.py: it may be the wrong one, and who says so is right."""
OF_RETRIEVER_OR_SERVICE = (
    "one more context",
    "without a last context that no answer needs",
    "passages in one line",
    "scores of another retriever",
    "slower",
)
HARMLESS = (
    *(one for one in HEALTHY if one.name != ANOTHER_ANSWER),
    *(System(name, _changed(CORPUS_HARMLESS[name])) for name in OF_RETRIEVER_OR_SERVICE),
)


# -- the two systems ---------------------------------------------------------------------------------------------------


@cache
def answered(system: str) -> Mapping[str, tuple[Item, ...]]:
    """The responses of a system to its golden set, by fault; those of the healthy one under ""."""
    return _docs() if system == "docs" else _ferry()


def _docs() -> dict[str, tuple[Item, ...]]:
    samples = [replace(record.sample, origin=None) for record in RunDirectory.open(EXAMPLE).records()]
    python = EXAMPLE.parent / ".venv" / "bin" / "python"
    asked = {"questions": [one.question for one in samples], "faults": ["", *SEEDED]}
    script = Path(__file__).with_name("seeded_docs.py")
    done = subprocess.run([python, script], input=json.dumps(asked), capture_output=True, text=True, check=True)
    found: dict[str, list[Response]] = {}
    for fault, responses in json.loads(done.stdout).items():
        found[fault] = [
            Response(
                sample.id,
                one["answer"],
                tuple(Context(text["text"], text["id"], text["score"]) for text in one["contexts"]),
            )
            for sample, one in zip(samples, responses, strict=True)
        ]
    relevant = [frozenset(one.relevant_ids) for one in samples]
    return {fault: _paired(samples, responses, relevant) for fault, responses in found.items()}


def _paired(
    samples: Sequence[Sample], responses: Sequence[Response], relevant: Sequence[frozenset[str]]
) -> tuple[Item, ...]:
    """Each with the ids of the contexts that answer it, and a question elsewhere."""
    items = [Item(*one[:2], Truth(), frozenset(one[2])) for one in zip(samples, responses, relevant, strict=True)]
    able = [one for one in items if one.sample.answerable]
    far = len(able) // 2
    others = {one.sample.id: able[(at + far) % len(able)] for at, one in enumerate(able)}
    return tuple(replace(one, other=others.get(one.sample.id, able[0])) for one in items)


def _ferry() -> dict[str, tuple[Item, ...]]:
    questions = ferry.questions()
    samples = [Sample(one.id, one.text, one.reference, answerable=one.answerable) for one in questions]
    relevant = [frozenset({one.passage_id} if one.passage_id is not None else ()) for one in questions]
    return {fault: _paired(samples, list(_responses(fault)), relevant) for fault in ("", *SEEDED)}


def _responses(fault: str) -> Iterator[Response]:
    for reply in ferry.replies(fault):
        yield Response(reply.question.id, reply.answer, _contexts(reply))


# -- judged and decided ------------------------------------------------------------------------------------------------


class Judged(Bench):
    """The offline judge on one system; each response is judged once."""

    def __init__(self, system: str) -> None:
        super().__init__(system, "offline")
        self.items = answered(system)[""]
        self._records: dict[str, SampleRecord] = {}

    def record(self, item: Item) -> SampleRecord:
        key = (item.sample, item.response.answer, item.response.contexts, item.response.failure).__repr__()
        if key not in self._records:
            if item.response.failure is not None:
                scores = {one.info.name: Failed("system", item.response.failure.message) for one in self.metrics}
                self._records[key] = SampleRecord(item.sample, (Answer(item.response, (), scores),), scores)
            else:
                self._records[key] = asyncio.run(self._judged(item))
        return self._records[key]

    def strict(self, item: Item) -> SampleRecord:
        """As by a model that replaced the judge's behind its name, and supports fewer statements."""
        record = self.record(item)
        found = record.judgements[0].support
        if item.rng.random() >= 0.5 or not isinstance(found, SupportTable):
            return record
        none = (replace(one, verdict=Verdict.UNSUPPORTED, supported_by=(), probability=0.0) for one in found.supports)
        judged = replace(record.judgements[0], support=SupportTable(tuple(none)))
        answer = scored_answer(self.metrics, record.sample, record.response, [judged])
        return SampleRecord(record.sample, (answer,), sample_scores(self.metrics, record.sample, [answer]))

    def measured(self, items: Sequence[Item], *, strict: bool = False) -> tuple[RunScores, Records]:
        records = {item.sample.id: self.strict(item) if strict else self.record(item) for item in items}
        manifest = self._manifest(len(items))
        if strict:
            canaries = Canaries(asked=40, differing=15, supported_then=38, supported_now=23)
            manifest = manifest.model_copy(update={"canaries": canaries})
        gathering = Gathering(manifest)
        for one in records.values():
            _, facts = record_and_facts_from_line(record_to_line(one), "bench")
            gathering.add(facts, "bench")
        return gathering.scores(Path("bench")), records


Records = Mapping[str, SampleRecord]


@dataclass(frozen=True, slots=True)
class Said:
    """What a report says of one change: the half, the cause, and its first lines."""

    status: Status
    side: Side | None
    cause: str | None
    line: str
    since: str

    @property
    def green(self) -> bool:
        return self.status is Status.PASS


def said_of(verdict: GateVerdict, samples: int, since: str) -> Said:
    found = verdict.explanation.attribution if verdict.status is not Status.PASS else None
    cause = found.cause.cause if found is not None and found.cause is not None else None
    line = f"{headline_of(verdict, samples=samples)} {found.look if found is not None else ''}".strip()
    named = {side for side in (Side.RETRIEVAL, Side.GENERATION) if f"Look at {side} first" in line}
    named |= {R} if "retrieval broke" in line else set()
    named |= {G} if "answers got worse" in line and "retrieval and answers" not in line else set()
    return Said(verdict.status, named.pop() if len(named) == 1 else None, cause, line, since)


def compared(bench: Judged, items: Sequence[Item], *, strict: bool = False) -> Said:
    """What is said of a run with these responses, held against the healthy one."""
    now, records = bench.measured(items, strict=strict)
    then, before = bench.measured(bench.items)
    corpus = Corpus()

    def known(ids: Sequence[str], paired: Collection[str]) -> dict[str, Facts]:
        found = {}
        for name in ids:
            past = before.get(name) if name in paired else None
            corpus.add(records[name], past)
            found[name] = facts_of(records[name], past)
        return found

    verdict = decide_gate(now, then, policy(), facts_of=known)
    changes = changes_since(now, then, corpus, golden_set_change(now, then, renamed={}))
    since = changes_line(changes, worse=verdict.status is Status.FAIL)
    return said_of(verdict, len(now.samples), since)


@dataclass(frozen=True, slots=True)
class Result:
    fault: Fault
    system: str
    said: Said

    @property
    def half(self) -> bool:
        return not self.said.green and self.said.side is self.fault.side

    @property
    def cause(self) -> bool:
        if self.fault.side is None:
            words = f"{self.said.line} {self.said.since}"
            return self.half and any(word in words for word in self.fault.causes)
        return self.half and self.said.cause in self.fault.causes


def seeded(systems: Sequence[str], only: str = "") -> Iterator[Result]:
    """What is said of each fault in each system."""
    for system in systems:
        bench = Judged(system)
        for fault in FAULTS:
            if only not in fault.name:
                continue
            items = answered(system)[fault.name] if fault.change is None else tuple(map(fault.change, bench.items))
            yield Result(fault, system, compared(bench, items, strict=fault.causes == ("judge",)))


def harmless(systems: Sequence[str], only: str = "") -> Iterator[tuple[System, str, Said]]:
    """What is said of each harmless change in each system."""
    for system in systems:
        bench = Judged(system)
        for one in HARMLESS:
            if only in one.name:
                yield one, system, compared(bench, tuple(map(one.change, bench.items)))


def table(found: Sequence[Result]) -> Iterator[str]:
    """Markdown: a row for each fault."""
    yield "| fault | half | named in the example | in the ferry's system |"
    yield "|---|---|---|---|"
    for fault in FAULTS:
        cells = (_cell(fault, system, found) for system in SYSTEMS)
        yield f"| {fault.name} | {fault.side or 'neither'} | {' | '.join(cells)} |"


def _cell(fault: Fault, system: str, found: Sequence[Result]) -> str:
    one = next((one for one in found if one.fault == fault and one.system == system), None)
    if one is None:
        return ""
    wrong = "" if one.cause else " (right half)" if one.half else " (missed)"
    if one.said.green:
        return f"green{wrong}"
    what = fault.causes[0] if one.cause and fault.side is None else one.said.cause or "no cause"
    return f"{one.said.side or 'neither'}: {what}{wrong}".replace("_", " ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="*", default=SYSTEMS)
    parser.add_argument("--only", default="", help="faults and harmless changes with this in their names")
    parser.add_argument("--write", action="store_true", help="put the table into bench/seeded_faults.md")
    chosen = parser.parse_args()
    begin = time.perf_counter()
    found = []
    for one in seeded(chosen.systems, chosen.only):
        found.append(one)
        mark = "right" if one.cause else "half" if one.half else "MISSED"
        print(one.system, one.fault.name, mark, one.said.status, one.said.line, one.said.since, sep="\t", flush=True)
    false, total = [], 0
    for system, name, said in harmless(chosen.systems, chosen.only):
        total += 1
        if said.side is not None or said.cause is not None:
            false.append(f"{name}: {system.name}: {said.line}")
    n, fine = len(found), sum(one.half for one in found)
    right = sum(one.cause for one in found)
    lines = [
        *table(found),
        "",
        f"The right half is named for {fine} of {n} faults, the right cause for {right}; of {total} harmless changes, "
        f"{len(false) or 'none'} {'was' if len(false) == 1 else 'were'} given a cause.",
    ]
    print("\n".join(["", *lines, *false, f"{time.perf_counter() - begin:.0f} s"]))
    if chosen.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text("\n".join([f"{before}{BEGIN}\n", *lines, f"\n{END}{rest.partition(END)[2]}"]), encoding="utf-8")
    if not chosen.only and len(chosen.systems) == len(SYSTEMS):
        sys.exit(fine < RIGHT_HALVES or right < RIGHT_CAUSES or len(false) > FALSE_CAUSES)


if __name__ == "__main__":
    main()
