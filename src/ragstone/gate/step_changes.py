"""Which turn, hop or tool broke. The steps of answers are compared with those of the
baseline, or, without one, with the labels.

The cause of a sample is the first problem that shows on the way from the question to
the answer: what was forgotten can't be looked up, and what was not found can't be used.
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
"""The most problems at the top of a report; the others are notes."""
MIN_EXPLAINED_SHARE = 0.5
"""A problem explains a failed run if at least this share of the samples that it is the
cause of got worse. It is where to look if these are at least this share of all samples
that got worse."""
CLEAR_TURN_SHARE = 0.8
"""A turn is named at the top of a report if it is the first worse one in at least this
share of the conversations that got worse."""
MAX_PROBLEMS = 10
"""The most problems that a report names, the most frequent causes first."""


class ProblemKind(IntEnum):
    """What can be wrong. Each kind can be the cause of those after it."""

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


_KIND_OF_MISTAKE = {
    MistakeKind.WRONG_ARGUMENT: ProblemKind.WRONG_ARGUMENT,
    MistakeKind.ERROR: ProblemKind.TOOL_FAILS,
    MistakeKind.UNEXPECTED: ProblemKind.UNEXPECTED,
    MistakeKind.NOT_CALLED: ProblemKind.NOT_CALLED,
}


class Problem(Struct, frozen=True, order=True):
    """A problem of a turn, a hop or a tool."""

    kind: ProblemKind
    place: str = ""
    """What to look at: ``turn 3``, ``hop 2``, or a tool in backticks; empty if the
    problem is of the whole answer."""
    detail: str = ""
    """What was forgotten or is not found, or the name of the wrong argument."""


class ProblemSamples(Struct, frozen=True):
    """The samples with a problem."""

    present: set[str] = set()
    """The ids of all that have it: of conversations, if something was forgotten, else
    of samples."""
    caused: set[str] = set()
    """The ids of the samples whose cause it is."""


class _Answer(Struct, frozen=True):
    """The steps of one answer, and of the baseline's answer to the same sample."""

    sample_id: str
    conversation: str
    """The id of the conversation; that of the sample if it is in none."""
    turn: int
    """The number of the turn in the conversation, from 1; 0 if it is in none."""
    facts: StepFacts
    baseline: StepFacts
    """Without a baseline, the steps of an answer that does all that the labels ask
    for."""


def step_findings(evidence: Evidence) -> Iterator[Finding]:
    """The problems of turns, hops and tools: alerts if they explain why the run does not
    pass, else notes."""
    run = evidence.current
    baseline = evidence.baseline if evidence.is_compared else None
    answers = _answers(run, baseline)
    problems = step_problems(run, baseline)

    def rank(problem: Problem) -> tuple[int, Problem]:
        caused = problems[problem].caused
        return -len(caused), problem

    ranked = sorted(problems, key=rank)
    ranked = ranked[:MAX_PROBLEMS]
    worse = _worse_ids(evidence)
    causes: list[Problem] = []
    look_at = None
    for problem in ranked:
        caused = problems[problem].caused
        caused_and_worse = len(worse & caused)
        enough = max(1, MIN_EXPLAINED_SHARE * len(caused))
        if caused_and_worse >= enough:
            if not causes and caused_and_worse >= MIN_EXPLAINED_SHARE * len(worse):
                look_at = problem
            causes.append(problem)
    causes = causes[:MAX_ALERTS]
    yield from _first_turn(run, worse, causes)
    answers_by_place: Counter[str] = Counter()
    for answer in answers:
        answers_by_place.update(_places(answer))
    for problem in ranked:
        samples = problems[problem]
        # A few samples are no reason, unless they explain why the run does not pass.
        if problem not in causes and len(samples.present) < MIN_BROKEN:
            continue
        form = "short" if baseline is None else "changed"
        template = _sentences()[problem.kind.name.lower()][form]
        clause = template.format(place=problem.place, detail=problem.detail)
        sentence = clause[0].upper() + clause[1:]
        unit = "answer"
        if problem.kind is ProblemKind.FORGOTTEN:
            unit = "conversation"
        count = len(samples.present)
        total = counted(answers_by_place[problem.place], unit)
        example = min(samples.caused or samples.present)
        level = Level.ALERT if problem in causes else Level.NOTE
        text = f"{sentence} ({count:,} of {total}, such as {example})."
        where = None
        if problem == look_at and problem.place:
            where = problem.place
        yield Finding(STEPS, level, text, where)


@cache
def _sentences() -> Mapping[str, Mapping[str, str]]:
    """The content of step_problems.toml."""
    sentences: Mapping[str, Mapping[str, str]] = read_table(
        "step_problems.toml", __package__
    )
    return sentences


def _worse_ids(evidence: Evidence) -> set[str]:
    """The ids of samples with a clear loss in any metric; none if the run passes."""
    if not evidence.has_blocker:
        return set()
    worse = set(worse_samples(evidence))
    for regression in evidence.explanation.regressions:
        baseline = regression.baseline
        if baseline is None or abs(regression.current - baseline) > CLEAR_LOSS:
            worse.add(regression.sample_id)
    return worse


def _first_turn(
    run: RunScores, worse: Set[str], causes: Sequence[Problem]
) -> Iterator[Finding]:
    """The turn that got worse first in most conversations with a worse one.

    It is an alert if it is the first in nearly all of them, is not turn 1, and no
    problem explains it; else a note.
    """
    first_turns: dict[str, int] = {}
    for sample_id in worse:
        turn = run.samples[sample_id].turn
        if turn is not None:
            number = turn.number
            first_turns[turn.id] = min(number, first_turns.get(turn.id, number))
    if not first_turns:
        return
    numbers = sorted(first_turns.values())
    [(number, count)] = Counter(numbers).most_common(1)
    enough = max(MIN_BROKEN, CLEAR_TURN_SHARE * len(first_turns))
    is_clear = number > 1 and count >= enough and not causes
    conversations = counted(len(first_turns), "conversation")
    yield Finding(
        STEPS,
        Level.ALERT if is_clear else Level.NOTE,
        f"In {count:,} of {conversations} with a worse turn, turn {number} is the first.",
        f"turn {number}" if is_clear else None,
    )


def _places(answer: _Answer) -> set[str]:
    """The places at which an answer can have a problem: its turn, hops and tools, and
    the empty name of the whole answer."""
    facts = answer.facts
    tools = facts.expected_tools | facts.called_tools | answer.baseline.called_tools
    places = {f"`{tool}`" for tool in tools}
    places |= {f"hop {hop.hop}" for hop in facts.hops}
    return {"", f"turn {answer.turn}", *places}


def step_problems(
    run: RunScores, baseline: RunScores | None
) -> Mapping[Problem, ProblemSamples]:
    """The problems that answers have and did not have in the baseline; without one, all
    that the labels show."""
    by_problem: dict[Problem, ProblemSamples] = {}
    first_forgotten: dict[str, Problem] = {}
    answers = _answers(run, baseline)
    # The name of each kind of value, if a value of this kind was the argument of a tool.
    names: dict[str, str] = {}
    for answer in answers:
        names.update(answer.facts.argument_names)
        names.update(answer.baseline.argument_names)
    for answer in answers:
        facts = answer.facts
        problems = set(_problems(answer))
        if baseline is not None and _is_earlier_answer(answer, run, baseline):
            problems.add(Problem(ProblemKind.EARLIER_ANSWER))
        # What the turn should take over from earlier ones, and did in the baseline.
        lost = answer.baseline.value_keys - facts.value_keys
        kinds = [
            value_kind(value)
            for value in facts.needed_values
            if value_key(value) in lost
        ]
        if kinds:
            # Later turns of the conversation lack it too, as a consequence.
            named_values = [f"the {names[kind]}" for kind in kinds if kind in names]
            detail = min(named_values, default="what was said before")
            problem = Problem(ProblemKind.FORGOTTEN, f"turn {answer.turn}", detail)
            first_problem = first_forgotten.setdefault(answer.conversation, problem)
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
    """The answers whose steps are known in the run, and in the baseline if there is
    one; the turns of a conversation in their order."""
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
    """The steps of an answer to the same sample that does all that its labels ask
    for."""
    hops = tuple(HopFacts(hop.hop, is_found=True) for hop in facts.hops)
    value_keys = frozenset(map(value_key, facts.needed_values))
    return StepFacts(hops=hops, value_keys=value_keys, asks_back=True)


def _is_earlier_answer(answer: _Answer, run: RunScores, baseline: RunScores) -> bool:
    """Whether a turn has the answer that the turn before it had in the baseline, where
    both turns had different ones."""
    answers = baseline.system.answers
    earlier_id = turn_id(answer.conversation, answer.turn - 1)
    earlier_turn = answers.get(earlier_id, ())
    this_turn = answers.get(answer.sample_id, earlier_turn)
    current = run.system.answers.get(answer.sample_id)
    return this_turn != earlier_turn and current == earlier_turn


def _problems(answer: _Answer) -> Iterator[Problem]:
    """The problems that show in one answer, whatever the other turns are."""
    facts = answer.facts
    baseline = answer.baseline
    if facts.asks_back is False and baseline.asks_back:
        yield Problem(ProblemKind.NO_CLARIFICATION)
    lost = [hop.hop for hop in facts.hops if not hop.is_found]
    first_lost = lost[:1]
    for hop in baseline.hops:
        if hop.is_found and hop.hop in first_lost:
            detail = "its evidence"
            if hop.source:
                detail = f"the evidence from `{hop.source}`"
            yield Problem(ProblemKind.LOST_HOP, f"hop {hop.hop}", detail)
    new_mistakes = facts.mistakes - baseline.mistakes
    for mistake in new_mistakes:
        if mistake.kind in _KIND_OF_MISTAKE:
            kind = _KIND_OF_MISTAKE[mistake.kind]
            place = f"`{mistake.tool}`"
            yield Problem(kind, place, mistake.argument)
    counts = Counter((call.tool, call.arguments) for call in facts.calls)
    baseline_counts = Counter((call.tool, call.arguments) for call in baseline.calls)
    for (tool, arguments), count in counts.items():
        if count > max(1, baseline_counts[tool, arguments]):
            yield Problem(ProblemKind.REPEATED, f"`{tool}`")
    results = {(call.tool, call.arguments): call.result for call in baseline.calls}
    for call in facts.calls:
        result = results.get((call.tool, call.arguments))
        if result and call.result and result != call.result:
            yield Problem(ProblemKind.OTHER_RESULT, f"`{call.tool}`")
    for call in baseline.calls:
        if call.tool not in facts.called_tools:
            yield Problem(ProblemKind.NOT_CALLED, f"`{call.tool}`")
