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
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.evaluation.step_facts import StepFacts, value_key, value_kind
from ragstone.files import read_table
from ragstone.formatting import counted
from ragstone.gate.evidence import Evidence
from ragstone.gate.findings import STEPS, Finding, Level
from ragstone.gate.question_changes import MIN_BROKEN
from ragstone.gate.regressions import CLEAR_LOSS, worse_samples
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
    turn: ConversationTurn | None
    facts: StepFacts
    baseline: StepFacts | None
    """None without a baseline."""


def step_findings(evidence: Evidence) -> Iterator[Finding]:
    """The problems of turns, hops and tools: alerts if they explain why the run does
    not pass, else notes."""
    run = evidence.current
    baseline = None if evidence.compared is None else evidence.compared.baseline
    answers = _answers(run, baseline)
    problems = step_problems(run, baseline)

    def rank(problem: Problem) -> tuple[int, Problem]:
        caused = problems[problem].caused
        return -len(caused), problem

    ranked = sorted(problems, key=rank)
    ranked = ranked[:MAX_SENTENCES]
    worse = _worse(evidence)
    causes: list[Problem] = []
    for problem in ranked:
        caused = problems[problem].caused
        caused_and_worse = worse & caused
        enough = max(1, MIN_SHARE * len(caused))
        if len(caused_and_worse) >= enough:
            causes.append(problem)
    causes = causes[:MAX_ALERTS]
    look_at = None
    if causes:
        main_cause = causes[0]
        caused_and_worse = worse & problems[main_cause].caused
        enough = MIN_SHARE * len(worse)
        if len(caused_and_worse) >= enough:
            look_at = main_cause
    turn = _first_turn(run, worse)
    if turn is not None:
        kinds = [cause.kind for cause in causes]
        if turn.level is Level.NOTE or ProblemKind.FORGOTTEN in kinds:
            turn = replace(turn, level=Level.NOTE, where=None)
        else:
            causes = causes[: MAX_ALERTS - 1]
            turn = turn if look_at is None else replace(turn, where=None)
        yield turn
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
    if not evidence.ended:
        return set()
    worse = set(worse_samples(evidence))
    regressions = evidence.explanation.regressions
    for regression in regressions:
        now = regression.current
        before = regression.baseline
        if before is None or abs(now - before) > CLEAR_LOSS:
            worse.add(regression.sample_id)
    return worse


def _first_turn(run: RunScores, worse: Set[str]) -> Finding | None:
    """The turn that got worse first in most conversations that did: an alert if it is
    clearly most, and not turn 1."""
    first: dict[str, int] = {}
    for sample_id in worse:
        turn = run.samples[sample_id].turn
        if turn is not None:
            number = turn.number
            first[turn.id] = min(number, first.get(turn.id, number))
    if not first:
        return None
    numbers = sorted(first.values())
    by_frequency = Counter(numbers).most_common(1)
    number, count = by_frequency[0]
    enough = max(MIN_BROKEN, CLEAR_SHARE * len(first))
    is_clear = number > 1 and count >= enough
    level = Level.ALERT if is_clear else Level.NOTE
    conversations = counted(len(first), "conversation")
    return Finding(
        STEPS,
        level,
        f"In {count:,} of {conversations} with a worse turn, turn {number} is the first.",
        f"turn {number}",
    )


def _places(answer: _Answer) -> set[str]:
    """The turn, the hops and the tools of an answer: where it could have a problem, and
    none of them."""
    facts = answer.facts
    calls = facts.calls
    if answer.baseline is not None:
        calls += answer.baseline.calls
    called_tools = (call.tool for call in calls)
    tools = {*facts.expected, *called_tools}
    quoted_tools = (f"`{tool}`" for tool in tools)
    places = {"", *quoted_tools}
    places |= {f"hop {hop.hop}" for hop in facts.hops}
    if answer.turn is not None:
        places.add(f"turn {answer.turn.number}")
    return places


def step_problems(
    run: RunScores, baseline: RunScores | None
) -> Mapping[Problem, ProblemSamples]:
    """The problems that answers have now and did not have in the baseline; without one,
    all that labels show."""
    by_problem: dict[Problem, ProblemSamples] = {}
    forgotten: dict[str, Problem] = {}
    # What the kinds of values are called that were an argument of a tool.
    names: dict[str, str] = {}
    for facts_of_run in (run, baseline):
        if facts_of_run is not None:
            for facts in facts_of_run.system.steps.values():
                names.update(facts.argument_names)
    for answer in _answers(run, baseline):
        facts = answer.facts
        turn = answer.turn
        problems = set(_problems(answer))
        if _is_earlier_answer(answer, run, baseline):
            problems.add(Problem(ProblemKind.EARLIER_ANSWER))
        # What it should have taken over from earlier turns, and did in the baseline.
        kinds = []
        for value in facts.needed:
            key = value_key(value)
            is_new = answer.baseline is None or key in answer.baseline.value_keys
            if is_new and key not in facts.value_keys:
                kinds.append(value_kind(value))
        if turn is not None and kinds:
            # Later turns that lack it are consequences.
            named_values = [f"the {names[kind]}" for kind in kinds if kind in names]
            detail = min(named_values, default="what was said before")
            place = f"turn {turn.number}"
            problem = Problem(ProblemKind.FORGOTTEN, place, detail)
            first_problem = forgotten.setdefault(turn.id, problem)
            problems.add(first_problem)
        for problem in problems:
            is_forgotten = problem.kind is ProblemKind.FORGOTTEN
            unit = turn.id if is_forgotten and turn else answer.sample_id
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
        before = None
        if baseline is not None:
            before = baseline.system.steps.get(sample_id)
            if before is None or (before.steps and not facts.are_steps_known):
                continue
        turn = run.samples[sample_id].turn
        answers.append(_Answer(sample_id, turn, facts, before))
    return sorted(answers, key=lambda answer: answer.turn.number if answer.turn else 0)


def _is_earlier_answer(
    answer: _Answer, run: RunScores, baseline: RunScores | None
) -> bool:
    """Whether a turn has the answer that the turn before it had in the baseline, and
    should have another."""
    turn = answer.turn
    if turn is None or baseline is None:
        return False
    answers = baseline.system.answers
    earlier_id = turn_id(turn.id, turn.number - 1)
    earlier = answers.get(earlier_id)
    if earlier is None:
        return False
    before = answers.get(answer.sample_id, earlier)
    now = run.system.answers.get(answer.sample_id)
    return before != earlier and now == earlier


def _problems(answer: _Answer) -> Iterator[Problem]:
    """The problems of an answer by itself."""
    facts = answer.facts
    baseline = answer.baseline or StepFacts()
    is_alone = answer.baseline is None
    if facts.asks_back is False and (is_alone or baseline.asks_back):
        yield Problem(ProblemKind.NO_CLARIFICATION)
    lost = [hop for hop in facts.hops if not hop.found]
    hops = facts.hops if is_alone else baseline.hops
    for hop in hops:
        is_expected = is_alone or hop.found
        if lost and is_expected and hop.hop == lost[0].hop:
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
    calls = [(call.tool, call.arguments) for call in facts.calls]
    baseline_calls = [(call.tool, call.arguments) for call in baseline.calls]
    times = Counter(calls)
    times_before = Counter(baseline_calls)
    for call, count in times.items():
        max_times = max(1, times_before[call])
        if count > max_times:
            tool = call[0]
            yield Problem(ProblemKind.REPEATED, f"`{tool}`")
    results = {(call.tool, call.arguments): call.result for call in baseline.calls}
    for made in facts.calls:
        result = results.get((made.tool, made.arguments))
        if result and made.result and result != made.result:
            yield Problem(ProblemKind.OTHER_RESULT, f"`{made.tool}`")
    tools = {call.tool for call in facts.calls}
    for made in baseline.calls:
        if made.tool not in tools:
            yield Problem(ProblemKind.NOT_CALLED, f"`{made.tool}`")
