"""Which turn, hop or tool broke: what answers did step by step, compared with the
baseline, or else with the labels.

The cause of a sample is the first problem that shows from the question to the answer:
what was forgotten can't be looked up, and what was not found can't be used. Each
sentence counts answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from enum import IntEnum
from functools import cache

from msgspec import Struct

from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.step_facts import HopFacts, StepFacts, value_key, value_kind
from ragstone.files import read_table
from ragstone.formatting import counted
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import STEPS, Finding, Level
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.regressions import CLEAR_LOSS, worse_samples
from ragstone.golden.sample import turn_id
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


_OF_MISTAKE = {
    MistakeKind.WRONG_ARGUMENT: ProblemKind.WRONG_ARGUMENT,
    MistakeKind.ERROR: ProblemKind.TOOL_FAILS,
    MistakeKind.UNEXPECTED: ProblemKind.UNEXPECTED,
    MistakeKind.NOT_CALLED: ProblemKind.NOT_CALLED,
}


class Problem(Struct, frozen=True, order=True):
    """A problem of a turn, a hop or a tool."""

    kind: ProblemKind
    place: str = ""
    """What to look at, if it is of one: ``turn 3``, ``hop 2``, or a tool in
    backticks."""
    detail: str = ""
    """What was forgotten or is not found, or the argument that is wrong."""


class ProblemSamples(Struct, frozen=True):
    """Who has a problem: conversations, if something was forgotten, else samples."""

    present: set[str] = set()
    caused: set[str] = set()
    """The samples whose cause it is."""


class _Answer(Struct, frozen=True):
    """One answer, and the baseline's to the same sample."""

    sample_id: str
    conversation: str
    """The id of its conversation; outside of one, that of the sample."""
    turn: int
    """Its number in the conversation, from 1; 0 outside of one."""
    facts: StepFacts
    baseline: StepFacts
    """Without a baseline, those of an answer that does all that the labels ask for."""


def step_findings(evidence: Evidence) -> Iterator[Finding]:
    """The problems of turns, hops and tools: alerts if they explain why the run does
    not pass, else notes."""
    run = evidence.current
    baseline = evidence.baseline if evidence.is_compared else None
    answers = _answers(run, baseline)
    problems = step_problems(run, baseline)

    def rank(problem: Problem) -> tuple[int, Problem]:
        caused = problems[problem].caused
        return -len(caused), problem

    ranked = sorted(problems, key=rank)
    ranked = ranked[:MAX_SENTENCES]
    worse = _worse(evidence)
    causes: list[Problem] = []
    look_at = None
    for problem in ranked:
        caused = problems[problem].caused
        caused_and_worse = len(worse & caused)
        enough = max(1, MIN_SHARE * len(caused))
        if caused_and_worse >= enough:
            if not causes and caused_and_worse >= MIN_SHARE * len(worse):
                look_at = problem
            causes.append(problem)
    causes = causes[:MAX_ALERTS]
    yield from _first_turn(run, worse, causes)
    possible: Counter[str] = Counter()
    for answer in answers:
        possible.update(_places(answer))
    for problem in ranked:
        samples = problems[problem]
        if problem not in causes and len(samples.present) < MIN_BROKEN:
            continue
        key = problem.kind.name.lower()
        texts = _sentences()[key]
        form = "short" if baseline is None else "changed"
        template = texts[form]
        text = template.format(place=problem.place, detail=problem.detail)
        initial = text[0].upper()
        sentence = initial + text[1:]
        unit = "answer"
        if problem.kind is ProblemKind.FORGOTTEN:
            unit = "conversation"
        count = len(samples.present)
        total = counted(possible[problem.place], unit)
        example = min(samples.caused or samples.present)
        level = Level.ALERT if problem in causes else Level.NOTE
        yield Finding(
            STEPS,
            level,
            f"{sentence} ({count:,} of {total}, such as {example}).",
            problem.place or None if problem == look_at else None,
        )


@cache
def _sentences() -> Mapping[str, Mapping[str, str]]:
    """The content of step_problems.toml."""
    sentences: Mapping[str, Mapping[str, str]] = read_table(
        "step_problems.toml", __package__
    )
    return sentences


def _worse(evidence: Evidence) -> set[str]:
    """The samples with a clear loss in any metric, if the run does not pass."""
    if not evidence.has_blocker:
        return set()
    worse = set(worse_samples(evidence))
    regressions = evidence.explanation.regressions
    for regression in regressions:
        now = regression.current
        before = regression.baseline
        if before is None or abs(now - before) > CLEAR_LOSS:
            worse.add(regression.sample_id)
    return worse


def _first_turn(
    run: RunScores, worse: Set[str], causes: Sequence[Problem]
) -> Iterator[Finding]:
    """The turn that got worse first in most conversations that did: an alert if it is
    clearly most, and not turn 1, and no problem explains it."""
    first: dict[str, int] = {}
    for sample_id in worse:
        turn = run.samples[sample_id].turn
        if turn is not None:
            number = turn.number
            first[turn.id] = min(number, first.get(turn.id, number))
    if not first:
        return
    numbers = sorted(first.values())
    by_frequency = Counter(numbers).most_common(1)
    number, count = by_frequency[0]
    enough = max(MIN_BROKEN, CLEAR_SHARE * len(first))
    is_clear = number > 1 and count >= enough and not causes
    conversations = counted(len(first), "conversation")
    yield Finding(
        STEPS,
        Level.ALERT if is_clear else Level.NOTE,
        f"In {count:,} of {conversations} with a worse turn, turn {number} is the first.",
        f"turn {number}" if is_clear else None,
    )


def _places(answer: _Answer) -> set[str]:
    """The turn, the hops and the tools of an answer: where it could have a problem, and
    none of them."""
    facts = answer.facts
    tools = facts.expected_tools | facts.called_tools | answer.baseline.called_tools
    places = {f"`{tool}`" for tool in tools}
    places |= {f"hop {hop.hop}" for hop in facts.hops}
    return {"", f"turn {answer.turn}", *places}


def step_problems(
    run: RunScores, baseline: RunScores | None
) -> Mapping[Problem, ProblemSamples]:
    """The problems that answers have now and did not have in the baseline; without one,
    all that labels show."""
    by_problem: dict[Problem, ProblemSamples] = {}
    forgotten: dict[str, Problem] = {}
    answers = _answers(run, baseline)
    # What the kinds of values are called that were an argument of a tool.
    names: dict[str, str] = {}
    for answer in answers:
        names.update(answer.facts.argument_names)
        names.update(answer.baseline.argument_names)
    for answer in answers:
        facts = answer.facts
        problems = set(_problems(answer))
        if baseline is not None and _is_earlier_answer(answer, run, baseline):
            problems.add(Problem(ProblemKind.EARLIER_ANSWER))
        # What it should have taken over from earlier turns, and did in the baseline.
        lost = answer.baseline.value_keys - facts.value_keys
        kinds = [
            value_kind(value)
            for value in facts.needed_values
            if value_key(value) in lost
        ]
        if kinds:
            # Later turns that lack it are consequences.
            named_values = [f"the {names[kind]}" for kind in kinds if kind in names]
            detail = min(named_values, default="what was said before")
            problem = Problem(ProblemKind.FORGOTTEN, f"turn {answer.turn}", detail)
            first_problem = forgotten.setdefault(answer.conversation, problem)
            problems.add(first_problem)
        for problem in problems:
            is_forgotten = problem.kind is ProblemKind.FORGOTTEN
            unit = answer.conversation if is_forgotten else answer.sample_id
            samples = by_problem.setdefault(problem, ProblemSamples())
            samples.present.add(unit)
        if problems:
            cause = min(problems)
            by_problem[cause].caused.add(answer.sample_id)
    return by_problem


def _answers(run: RunScores, baseline: RunScores | None) -> Sequence[_Answer]:
    """The answers whose steps are known, and known in the baseline too; the turns of a
    conversation in their order."""
    answers = []
    for sample_id, facts in run.system.steps.items():
        before: StepFacts | None = _faultless(facts)
        if baseline is not None:
            before = baseline.system.steps.get(sample_id)
        if before is None or (before.step_count and not facts.are_steps_known):
            continue
        conversation = sample_id
        number = 0
        turn = run.samples[sample_id].turn
        if turn is not None:
            conversation = turn.id
            number = turn.number
        answers.append(_Answer(sample_id, conversation, number, facts, before))
    return sorted(answers, key=lambda answer: answer.turn)


def _faultless(facts: StepFacts) -> StepFacts:
    """What an answer to the same sample does that does all that the labels ask for."""
    hops = tuple(HopFacts(hop.hop, found=True) for hop in facts.hops)
    value_keys = frozenset(map(value_key, facts.needed_values))
    return StepFacts(hops=hops, value_keys=value_keys, asks_back=True)


def _is_earlier_answer(answer: _Answer, run: RunScores, baseline: RunScores) -> bool:
    """Whether a turn has the answer that the turn before it had in the baseline, and
    should have another."""
    answers = baseline.system.answers
    earlier_id = turn_id(answer.conversation, answer.turn - 1)
    earlier = answers.get(earlier_id, ())
    before = answers.get(answer.sample_id, earlier)
    now = run.system.answers.get(answer.sample_id)
    return before != earlier and now == earlier


def _problems(answer: _Answer) -> Iterator[Problem]:
    """The problems of an answer by itself."""
    facts = answer.facts
    baseline = answer.baseline
    if facts.asks_back is False and baseline.asks_back:
        yield Problem(ProblemKind.NO_CLARIFICATION)
    lost = [hop.hop for hop in facts.hops if not hop.found]
    first_lost = lost[:1]
    for hop in baseline.hops:
        if hop.found and hop.hop in first_lost:
            detail = "its evidence"
            if hop.source:
                detail = f"the evidence from `{hop.source}`"
            yield Problem(ProblemKind.LOST_HOP, f"hop {hop.hop}", detail)
    new_mistakes = facts.mistakes - baseline.mistakes
    for mistake in new_mistakes:
        if mistake.kind in _OF_MISTAKE:
            kind = _OF_MISTAKE[mistake.kind]
            place = f"`{mistake.tool}`"
            yield Problem(kind, place, mistake.argument)
    times = Counter((call.tool, call.arguments) for call in facts.calls)
    times_before = Counter((call.tool, call.arguments) for call in baseline.calls)
    for (tool, arguments), count in times.items():
        max_times = max(1, times_before[tool, arguments])
        if count > max_times:
            yield Problem(ProblemKind.REPEATED, f"`{tool}`")
    results = {(call.tool, call.arguments): call.result for call in baseline.calls}
    for call in facts.calls:
        result = results.get((call.tool, call.arguments))
        if result and call.result and result != call.result:
            yield Problem(ProblemKind.OTHER_RESULT, f"`{call.tool}`")
    for call in baseline.calls:
        if call.tool not in facts.called_tools:
            yield Problem(ProblemKind.NOT_CALLED, f"`{call.tool}`")
