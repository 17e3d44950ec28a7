"""Which turn, hop or tool broke: what answers did step by step, compared with the
baseline, or else with the labels.

The cause of a sample is the first problem that shows from the question to the answer:
what was forgotten can't be looked up, and what was not found can't be used. Each
sentence counts answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.step_facts import StepFacts, value_key, value_kind
from ragstone.formatting import counted
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import STEPS, Finding, Level
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.regressions import CLEAR_LOSS, worse_samples
from ragstone.gate.verdict import Status
from ragstone.golden.sample import ConversationTurn, turn_id
from ragstone.metrics.tool_calls import MistakeKind

MAX_ALERTS = 2
"""So many sentences stand at the top of a report; the rest are notes."""
MIN_SHARE = 0.5
"""A problem explains what fails the run if at least this share of the samples that it
is the cause of got worse; and it is where to look if these are at least this share of
all that did."""
CLEAR_SHARE = 0.8
"""The share of the conversations with a worse turn whose first is the same, from which
on that stands at the top."""
MAX_SENTENCES = 10
"""Problems that a report names, the most frequent causes first."""


class ProblemKind(IntEnum):
    """What can be wrong, in the order in which one is the cause of another."""

    NO_CLARIFICATION = 1
    EARLIER_ANSWER = 2
    FORGOTTEN = 3
    WRONG_ARGUMENT = 4
    TOOL_FAILS = 5
    LOST_HOP = 6
    NOT_CALLED = 7
    OTHER_RESULT = 8
    REPEATED = 9
    UNEXPECTED = 10


_SENTENCES = {
    ProblemKind.NO_CLARIFICATION: "The system answers instead of asking back",
    ProblemKind.EARLIER_ANSWER: "A turn gets the answer that belongs to the turn before it",
    ProblemKind.FORGOTTEN: "Turn {place} no longer carries {detail}",
    ProblemKind.WRONG_ARGUMENT: "`{place}` is called with the wrong {detail}",
    ProblemKind.TOOL_FAILS: "`{place}` fails",
    ProblemKind.LOST_HOP: "Hop {place} no longer finds {detail}",
    ProblemKind.NOT_CALLED: "`{place}` is no longer called",
    ProblemKind.OTHER_RESULT: "`{place}` gives another result for the same arguments",
    ProblemKind.REPEATED: "`{place}` is called repeatedly with the same arguments",
    ProblemKind.UNEXPECTED: "`{place}` is called where no label expects it",
}
_WITHOUT_BASELINE = {
    ProblemKind.FORGOTTEN: "Turn {place} doesn't carry {detail}",
    ProblemKind.LOST_HOP: "Hop {place} doesn't find {detail}",
    ProblemKind.NOT_CALLED: "`{place}` is not called",
}
_OF_MISTAKE = {
    MistakeKind.WRONG_ARGUMENT: ProblemKind.WRONG_ARGUMENT,
    MistakeKind.ERROR: ProblemKind.TOOL_FAILS,
    MistakeKind.UNEXPECTED: ProblemKind.UNEXPECTED,
    MistakeKind.NOT_CALLED: ProblemKind.NOT_CALLED,
}


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem of a turn, a hop or a tool."""

    kind: ProblemKind
    place: str = ""
    """The number of the turn or hop, or the tool."""
    detail: str = ""
    """What was forgotten or is not found, or the argument that is wrong."""

    @property
    def where(self) -> str | None:
        """What to look at: the turn, hop or tool, if it is of one."""
        if not self.place:
            return None
        if self.kind is ProblemKind.FORGOTTEN:
            return f"turn {self.place}"
        if self.kind is ProblemKind.LOST_HOP:
            return f"hop {self.place}"
        return f"`{self.place}`"


@dataclass(frozen=True, slots=True)
class ProblemSamples:
    """Who has a problem: conversations, if something was forgotten, else samples."""

    present: set[str] = field(default_factory=set)
    caused: set[str] = field(default_factory=set)
    """The samples whose cause it is."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer, and the baseline's to the same sample."""

    sample_id: str
    turn: ConversationTurn | None
    facts: StepFacts
    baseline: StepFacts | None
    """None without a baseline."""


def step_findings(evidence: Evidence) -> Iterator[Finding]:
    """The problems of turns, hops and tools: alerts if they explain why the run does
    not pass, else notes."""
    run = evidence.current
    baseline = None if evidence.compared is None else evidence.compared.baseline
    problems = step_problems(run, baseline)
    ranked = sorted(
        problems, key=lambda problem: (-len(problems[problem].caused), problem)
    )[:MAX_SENTENCES]
    worse = _worse(evidence)
    explaining: dict[ProblemKind, Problem] = {}
    for problem in ranked:
        if _explains(problems[problem], worse):
            explaining.setdefault(problem.kind, problem)
    causes = list(explaining.values())[:MAX_ALERTS]
    explained = 0.0
    if causes:
        explained = len(worse & problems[causes[0]].caused) / len(worse)
    turn = _first_turn(run, worse)
    is_forgotten = ProblemKind.FORGOTTEN in [cause.kind for cause in causes]
    if turn is not None and turn.is_clear and not is_forgotten:
        where = f"turn {turn.number}" if explained < MIN_SHARE else None
        yield Finding(STEPS, Level.ALERT, str(turn), where)
        causes = causes[: MAX_ALERTS - 1]
    elif turn is not None:
        yield Finding(STEPS, Level.NOTE, str(turn))
    answers = _answers(run, baseline)
    for problem in ranked:
        samples = problems[problem]
        possible = sum(_could_have(problem, answer) for answer in answers)
        text = _sentence(problem, samples, possible, compared=baseline is not None)
        if problem in causes:
            is_place = problem is causes[0] and explained >= MIN_SHARE
            yield Finding(STEPS, Level.ALERT, text, problem.where if is_place else None)
        elif len(samples.present) >= MIN_BROKEN:
            yield Finding(STEPS, Level.NOTE, text)


def _explains(samples: ProblemSamples, worse: Collection[str]) -> bool:
    """Whether a problem is the cause of enough samples that got worse."""
    explained = samples.caused.intersection(worse)
    return len(explained) >= max(1, MIN_SHARE * len(samples.caused))


def _worse(evidence: Evidence) -> set[str]:
    """The samples with a clear loss in any metric, if the run does not pass."""
    if not any(
        check.blocks and check.status in (Status.FAIL, Status.INCONCLUSIVE)
        for check in evidence.decided
    ):
        return set()
    worse = set(worse_samples(evidence))
    for regression in evidence.explanation.regressions:
        if (
            regression.baseline is None
            or abs(regression.current - regression.baseline) > CLEAR_LOSS
        ):
            worse.add(regression.sample_id)
    return worse


@dataclass(frozen=True, slots=True)
class _FirstTurn:
    """The turn that got worse first in most conversations that did."""

    number: int
    count: int
    conversations: int

    @property
    def is_clear(self) -> bool:
        """Whether most conversations broke at this turn, which is not turn 1."""
        needed = max(MIN_BROKEN, CLEAR_SHARE * self.conversations)
        return self.number > 1 and self.count >= needed

    def __str__(self) -> str:
        conversations = counted(self.conversations, "conversation")
        return f"In {self.count:,} of {conversations} with a worse turn, turn {self.number} is the first."


def _first_turn(run: RunScores, worse: Collection[str]) -> _FirstTurn | None:
    first: dict[str, int] = {}
    for sample_id in worse:
        turn = run.samples[sample_id].turn
        if turn is not None:
            first[turn.id] = min(turn.number, first.get(turn.id, turn.number))
    if not first:
        return None
    number, count = Counter(sorted(first.values())).most_common(1)[0]
    return _FirstTurn(number, count, len(first))


def _sentence(
    problem: Problem, samples: ProblemSamples, possible: int, *, compared: bool
) -> str:
    text = _SENTENCES[problem.kind]
    if not compared:
        text = _WITHOUT_BASELINE.get(problem.kind, text)
    text = text.format(place=problem.place, detail=problem.detail)
    example = min(samples.caused or samples.present)
    unit = "conversation" if problem.kind is ProblemKind.FORGOTTEN else "answer"
    total = counted(possible, unit)
    return f"{text} ({len(samples.present):,} of {total}, such as {example})."


def _could_have(problem: Problem, answer: _Answer) -> bool:
    """Whether an answer could have a problem."""
    turn = 0 if answer.turn is None else answer.turn.number
    match problem.kind:
        case ProblemKind.NO_CLARIFICATION:
            return answer.facts.asks_back is not None
        case ProblemKind.EARLIER_ANSWER:
            return turn > 1
        case ProblemKind.FORGOTTEN:
            return problem.place == str(turn)
        case ProblemKind.LOST_HOP:
            return any(problem.place == str(hop.hop) for hop in answer.facts.hops)
    tools = {*answer.facts.expected, *(call.tool for call in answer.facts.calls)}
    if answer.baseline is not None:
        tools |= {call.tool for call in answer.baseline.calls}
    return problem.place in tools


def step_problems(
    run: RunScores, baseline: RunScores | None
) -> Mapping[Problem, ProblemSamples]:
    """The problems that answers have now and did not have in the baseline; without one,
    all that labels show."""
    found: dict[Problem, ProblemSamples] = {}
    forgotten: dict[str, Problem] = {}
    names = _argument_names(run, baseline)
    for answer in _answers(run, baseline):
        problems = set(_problems(answer))
        if _is_earlier_answer(answer, run, baseline):
            problems.add(Problem(ProblemKind.EARLIER_ANSWER))
        lost = _lost_values(answer)
        if answer.turn is not None and lost:
            # Later turns that lack it are consequences.
            what = _name_of(lost, names)
            problem = Problem(ProblemKind.FORGOTTEN, str(answer.turn.number), what)
            problems.add(forgotten.setdefault(answer.turn.id, problem))
        for problem in problems:
            samples = found.setdefault(problem, ProblemSamples())
            is_forgotten = problem.kind is ProblemKind.FORGOTTEN
            unit = answer.turn.id if is_forgotten and answer.turn else answer.sample_id
            samples.present.add(unit)
        if problems:
            found[min(problems)].caused.add(answer.sample_id)
    return found


def _answers(run: RunScores, baseline: RunScores | None) -> Sequence[_Answer]:
    """The answers whose steps are known, and known in the baseline too; the turns of a
    conversation in their order."""
    answers = []
    for sample_id, facts in run.system.steps.items():
        before = None
        if baseline is not None:
            before = baseline.system.steps.get(sample_id)
            if before is None or (before.steps and not facts.are_steps_known):
                continue
        turn = run.samples[sample_id].turn
        answers.append(_Answer(sample_id, turn, facts, before))
    return sorted(answers, key=lambda answer: answer.turn.number if answer.turn else 0)


def _argument_names(*runs: RunScores | None) -> Mapping[str, str]:
    """What the kinds of values are called that were an argument of a tool in one of the
    runs."""
    names: dict[str, str] = {}
    for run in runs:
        if run is not None:
            for facts in run.system.steps.values():
                names.update(facts.argument_names)
    return names


def _is_earlier_answer(
    answer: _Answer, run: RunScores, baseline: RunScores | None
) -> bool:
    """Whether a turn has the answer that the turn before it had in the baseline, and
    should have another."""
    if answer.turn is None or baseline is None:
        return False
    answers = baseline.system.answers
    earlier = answers.get(turn_id(answer.turn.id, answer.turn.number - 1))
    if earlier is None or earlier == answers.get(answer.sample_id, earlier):
        return False
    return run.system.answers.get(answer.sample_id) == earlier


def _lost_values(answer: _Answer) -> list[str]:
    """What an answer should have taken over from earlier turns, and did not."""
    wanted = answer.facts.needed
    if answer.baseline is not None:
        wanted = answer.baseline.recalled
    keys = answer.facts.value_keys
    return [value for value in wanted if value_key(value) not in keys]


def _name_of(values: Collection[str], names: Mapping[str, str]) -> str:
    known = [names[value_kind(value)] for value in values if value_kind(value) in names]
    if known:
        return f"the {min(known)}"
    return "what was said before"


def _problems(answer: _Answer) -> Iterator[Problem]:
    """The problems of an answer by itself."""
    facts = answer.facts
    baseline = answer.baseline
    if facts.asks_back is False and (baseline is None or baseline.asks_back):
        yield Problem(ProblemKind.NO_CLARIFICATION)
    yield from _lost_hop(facts, baseline)
    mistakes = facts.mistakes
    if baseline is not None:
        mistakes -= baseline.mistakes
        yield from _call_problems(facts, baseline)
    else:
        yield from _call_problems(facts, StepFacts())
    for mistake in mistakes:
        if mistake.kind in _OF_MISTAKE:
            yield Problem(_OF_MISTAKE[mistake.kind], mistake.tool, mistake.argument)


def _lost_hop(facts: StepFacts, baseline: StepFacts | None) -> Iterator[Problem]:
    """The first hop that doesn't find its evidence, if it did in the baseline."""
    lost = [hop.hop for hop in facts.hops if not hop.found][:1]
    if baseline is None:
        for hop in lost:
            yield Problem(ProblemKind.LOST_HOP, str(hop), "its evidence")
        return
    for before in baseline.hops:
        if before.hop in lost and before.found:
            source = f"the evidence from `{before.source}`"
            what = source if before.source else "its evidence"
            yield Problem(ProblemKind.LOST_HOP, str(before.hop), what)


def _call_problems(facts: StepFacts, baseline: StepFacts) -> Iterator[Problem]:
    """Calls that are repeated, give other results than in the baseline, or are no
    longer made."""
    times = Counter((call.tool, call.arguments) for call in facts.calls)
    before = Counter((call.tool, call.arguments) for call in baseline.calls)
    for call, count in times.items():
        if count > max(1, before[call]):
            yield Problem(ProblemKind.REPEATED, call[0])
    results = {(call.tool, call.arguments): call.result for call in baseline.calls}
    for made in facts.calls:
        result = results.get((made.tool, made.arguments))
        if result and made.result and result != made.result:
            yield Problem(ProblemKind.OTHER_RESULT, made.tool)
    tools = {call.tool for call in facts.calls}
    for made in baseline.calls:
        if made.tool not in tools:
            yield Problem(ProblemKind.NOT_CALLED, made.tool)
