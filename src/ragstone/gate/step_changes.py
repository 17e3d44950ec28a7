"""Which turn, hop or tool broke: what answers did step by step, compared with the
baseline, or else with the labels.

The cause of a sample is the first problem that shows from the question to the answer:
what was forgotten can't be looked up, and what was not found can't be used. Each
sentence counts facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
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
MORE_STEPS = 1.5
"""So many times as many steps are worth a note."""


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


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem of a turn, a hop or a tool. `detail` names an argument, or the source
    of what a hop should find."""

    kind: ProblemKind
    place: str = ""
    detail: str = ""

    @property
    def is_hop(self) -> bool:
        return self.kind is ProblemKind.LOST_HOP

    @property
    def where(self) -> str:
        """What to look at: the turn, hop or tool, if it is of one."""
        return _WHERE.get(self.kind, "`{}`").format(self.place)

    @property
    def scope(self) -> Problem:
        """The problem without its detail, unless that is a source: so is it counted how
        many could have it."""
        return self if self.is_hop else replace(self, detail="")


@dataclass(frozen=True, slots=True)
class ProblemCounts:
    """Who could have a problem and who has it: conversations, if something was
    forgotten, else samples."""

    possible: set[str] = field(default_factory=set)
    present: set[str] = field(default_factory=set)
    caused: set[str] = field(default_factory=set)
    """The samples whose cause it is."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer, and the baseline's to the same sample; None without a baseline."""

    sample_id: str
    turn: ConversationTurn | None
    facts: StepFacts
    baseline: StepFacts | None

    @property
    def conversation(self) -> str:
        return self.sample_id if self.turn is None else self.turn.id


Outcomes = Iterator[tuple[Problem, bool]]
"""The problems that an answer could have, and whether it has them."""


def step_findings(evidence: Evidence) -> Iterator[Finding]:
    """The problems of turns, hops and tools: alerts if they explain why the run does
    not pass, else notes."""
    run = evidence.current
    baseline = None if evidence.compared is None else evidence.compared.baseline
    if not run.system.steps:
        return
    problems = step_problems(run, baseline)
    ranked = sorted(
        problems, key=lambda problem: (-len(problems[problem].caused), problem)
    )[:MAX_SENTENCES]
    worse = _worse(evidence)
    causes = _causes(ranked, problems, worse)
    turn = _first_turn(run, worse)
    explained = len(worse & problems[causes[0]].caused) / len(worse) if causes else 0.0
    if turn.is_clear and all(
        cause.kind is not ProblemKind.FORGOTTEN for cause in causes
    ):
        causes = causes[: MAX_ALERTS - 1]
        where = f"turn {turn.number}" if turn.share > explained else None
        yield Finding(STEPS, Level.ALERT, str(turn), where)
    elif turn.conversations:
        yield Finding(STEPS, Level.NOTE, str(turn))
    for problem in ranked:
        counts = problems[problem]
        sentence = _sentence(problem, counts, compared=baseline is not None)
        if problem in causes:
            where = (
                problem.where
                if problem is causes[0] and explained >= MIN_SHARE
                else None
            )
            yield Finding(STEPS, Level.ALERT, sentence, where)
        elif len(counts.present) >= MIN_BROKEN:
            yield Finding(STEPS, Level.NOTE, sentence)
    for sentence in _more_steps(run, baseline):
        yield Finding(STEPS, Level.NOTE, sentence)


def _causes(
    ranked: Sequence[Problem],
    problems: Mapping[Problem, ProblemCounts],
    worse: Set[str],
) -> Sequence[Problem]:
    """The problems that explain what fails the run, at most MAX_ALERTS and one of a
    kind."""
    causes: dict[ProblemKind, Problem] = {}
    for problem in ranked:
        caused = problems[problem].caused
        is_frequent = not causes or len(caused) >= MIN_BROKEN
        if is_frequent and len(worse & caused) >= max(1, MIN_SHARE * len(caused)):
            causes.setdefault(problem.kind, problem)
    return list(causes.values())[:MAX_ALERTS]


def _worse(evidence: Evidence) -> Set[str]:
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


def step_problems(
    run: RunScores, baseline: RunScores | None
) -> Mapping[Problem, ProblemCounts]:
    """The problems that answers have now and did not have in the baseline; without one,
    all that labels show."""
    problems: dict[Problem, ProblemCounts] = {}
    forgotten: dict[str, Problem] = {}
    names = _argument_names(run, baseline)
    for answer in _answers(run, baseline):
        outcomes = [
            *_earlier_answer(answer, run, baseline),
            *_forgotten(answer, names, forgotten),
            *_outcomes(answer),
        ]
        cause = min(
            (problem for problem, is_present in outcomes if is_present), default=None
        )
        for problem, is_present in outcomes:
            unit = (
                answer.conversation
                if problem.kind is ProblemKind.FORGOTTEN
                else answer.sample_id
            )
            problems.setdefault(problem.scope, ProblemCounts()).possible.add(unit)
            if is_present:
                problems.setdefault(problem, ProblemCounts()).present.add(unit)
        if cause is not None:
            problems[cause].caused.add(answer.sample_id)
    for problem in problems:
        problems[problem].possible.update(problems[problem.scope].possible)
    return {
        problem: counts
        for problem, counts in _of_one_source(problems).items()
        if counts.present
    }


def _of_one_source(
    problems: Mapping[Problem, ProblemCounts],
) -> Mapping[Problem, ProblemCounts]:
    """`problems` with one for each hop: that of its one source, or of all if evidence
    from several is lost."""
    sources = Counter(
        problem.place
        for problem, counts in problems.items()
        if counts.present and problem.is_hop
    )
    merged: dict[Problem, ProblemCounts] = {}
    for problem, counts in problems.items():
        key = (
            replace(problem, detail="")
            if problem.is_hop and sources[problem.place] > 1
            else problem
        )
        total = merged.setdefault(key, ProblemCounts())
        total.possible.update(counts.possible)
        total.present.update(counts.present)
        total.caused.update(counts.caused)
    return merged


def _answers(run: RunScores, baseline: RunScores | None) -> Iterator[_Answer]:
    """The answers whose steps are known, and known in the baseline too; the turns of a
    conversation in their order."""
    answers = []
    for sample_id, facts in run.system.steps.items():
        baseline_facts = (
            None if baseline is None else baseline.system.steps.get(sample_id)
        )
        if (
            baseline_facts is not None
            and baseline_facts.steps
            and not facts.are_steps_known
        ):
            continue
        if baseline is None or baseline_facts is not None:
            answers.append(
                _Answer(sample_id, run.samples[sample_id].turn, facts, baseline_facts)
            )
    yield from sorted(
        answers, key=lambda answer: 0 if answer.turn is None else answer.turn.number
    )


def _argument_names(*runs: RunScores | None) -> Mapping[str, str]:
    """What the kinds of values are called that were an argument of a tool in one of the
    runs."""
    names: dict[str, str] = {}
    for run in runs:
        if run is not None:
            for facts in run.system.steps.values():
                names.update(facts.argument_names)
    return names


def _earlier_answer(
    answer: _Answer, run: RunScores, baseline: RunScores | None
) -> Outcomes:
    """Whether a turn has the answer that the turn before it had in the baseline, and
    should have another."""
    if answer.turn is None or baseline is None:
        return
    earlier = baseline.system.answers.get(
        turn_id(answer.turn.id, answer.turn.number - 1)
    )
    own = baseline.system.answers.get(answer.sample_id)
    if earlier is not None and own is not None and earlier != own:
        yield (
            Problem(ProblemKind.EARLIER_ANSWER),
            run.system.answers.get(answer.sample_id) == earlier,
        )


def _forgotten(
    answer: _Answer, names: Mapping[str, str], forgotten: dict[str, Problem]
) -> Outcomes:
    """Whether a turn lacks what was given in an earlier one; the first such turn counts
    for its conversation."""
    wanted = (
        answer.facts.needed if answer.baseline is None else answer.baseline.recalled
    )
    if answer.turn is None or not wanted:
        return
    lost = [
        value
        for value in sorted(wanted)
        if value_key(value) not in answer.facts.value_keys
    ]
    first = forgotten.get(answer.conversation)
    if first is not None:
        if lost:
            yield first, True
        return
    problem = Problem(ProblemKind.FORGOTTEN, str(answer.turn.number))
    yield problem, False
    if lost:
        known_names = [
            names[value_kind(value)] for value in lost if value_kind(value) in names
        ]
        forgotten[answer.conversation] = replace(
            problem, detail=min(known_names, default="")
        )
        yield forgotten[answer.conversation], True


def _outcomes(answer: _Answer) -> Outcomes:
    """The problems of an answer by itself."""
    facts, baseline = answer.facts, answer.baseline
    if facts.asks_back is not None and (baseline is None or baseline.asks_back):
        yield Problem(ProblemKind.NO_CLARIFICATION), not facts.asks_back
    yield from _hop_outcomes(facts, baseline)
    yield from _call_outcomes(facts, baseline or StepFacts())
    yield from _mistake_outcomes(facts, baseline)


def _hop_outcomes(facts: StepFacts, baseline: StepFacts | None) -> Outcomes:
    """Whether each hop finds its evidence, up to the first that doesn't, of those that
    did in the baseline."""
    baseline_hops = (
        {} if baseline is None else {hop.hop: hop for hop in baseline.hops if hop.found}
    )
    for hop in facts.hops:
        if baseline is None or hop.hop in baseline_hops:
            source = "" if baseline is None else baseline_hops[hop.hop].source
            yield Problem(ProblemKind.LOST_HOP, str(hop.hop), source), not hop.found
        if not hop.found:
            return


def _call_outcomes(facts: StepFacts, baseline: StepFacts) -> Outcomes:
    """Whether calls are repeated, give other results than in the baseline, or are no
    longer made."""
    times = Counter((call.tool, call.arguments) for call in facts.calls)
    baseline_times = Counter((call.tool, call.arguments) for call in baseline.calls)
    tools = {tool for tool, _ in times}
    results = {(call.tool, call.arguments): call.result for call in facts.calls}
    baseline_results = {
        (call.tool, call.arguments): call.result for call in baseline.calls
    }
    for tool in tools:
        calls = [call for call in times if call[0] == tool]
        is_repeated = any(times[call] > max(1, baseline_times[call]) for call in calls)
        yield Problem(ProblemKind.REPEATED, tool), is_repeated
        pairs = [
            (results[call], baseline_results[call])
            for call in calls
            if call in baseline_results
        ]
        if pairs:
            yield (
                Problem(ProblemKind.OTHER_RESULT, tool),
                any(now != before for now, before in pairs if now and before),
            )
    for tool in {tool for tool, _ in baseline_times}:
        yield Problem(ProblemKind.NOT_CALLED, tool), tool not in tools


def _mistake_outcomes(facts: StepFacts, baseline: StepFacts | None) -> Outcomes:
    """Whether the calls have mistakes that they did not have in the baseline."""
    mistakes = (
        facts.mistakes if baseline is None else facts.mistakes - baseline.mistakes
    )
    for tool in facts.expected | {call.tool for call in facts.calls}:
        for kind in (
            ProblemKind.WRONG_ARGUMENT,
            ProblemKind.TOOL_FAILS,
            ProblemKind.UNEXPECTED,
        ):
            yield Problem(kind, tool), False
    for tool in facts.expected:
        yield Problem(ProblemKind.NOT_CALLED, tool), False
    for mistake in mistakes:
        if mistake.kind in _OF_MISTAKE:
            yield (
                Problem(_OF_MISTAKE[mistake.kind], mistake.tool, mistake.argument),
                True,
            )


@dataclass(frozen=True, slots=True)
class _FirstTurn:
    """The turn that got worse first in most conversations that did."""

    number: int = 0
    count: int = 0
    conversations: int = 0

    @property
    def share(self) -> float:
        """Its share of the conversations with a worse turn."""
        return self.count / max(1, self.conversations)

    @property
    def is_clear(self) -> bool:
        """Whether most conversations broke at this turn, which is not their first."""
        return (
            self.number > 1 and self.count >= MIN_BROKEN and self.share >= CLEAR_SHARE
        )

    def __str__(self) -> str:
        conversations = counted(self.conversations, "conversation")
        return f"In {self.count:,} of {conversations} with a worse turn, turn {self.number} is the first."


def _first_turn(run: RunScores, worse: Collection[str]) -> _FirstTurn:
    first: dict[str, int] = {}
    for sample_id in worse:
        turn = run.samples[sample_id].turn
        if turn is not None:
            first[turn.id] = min(turn.number, first.get(turn.id, turn.number))
    if not first:
        return _FirstTurn()
    number, count = Counter(sorted(first.values())).most_common(1)[0]
    return _FirstTurn(number, count, len(first))


def _more_steps(run: RunScores, baseline: RunScores | None) -> Iterator[str]:
    """How many steps an answer takes, if these are many more than in the baseline."""
    steps = (
        {}
        if baseline is None
        else {name: facts.steps for name, facts in baseline.system.steps.items()}
    )
    pairs = [
        (facts.steps, steps[name])
        for name, facts in run.system.steps.items()
        if name in steps
    ]
    now, before = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    if before and now >= MORE_STEPS * before:
        yield f"An answer takes {now / len(pairs):.1f} steps, and {before / len(pairs):.1f} in the baseline."


def _sentence(problem: Problem, counts: ProblemCounts, *, compared: bool) -> str:
    text = (
        _NEW[problem.kind]
        if compared
        else _PRESENT.get(problem.kind, _NEW[problem.kind])
    )
    detail = problem.detail
    if problem.is_hop:
        detail = f"the evidence from `{detail}`" if detail else "its evidence"
    elif problem.kind is ProblemKind.FORGOTTEN:
        detail = f"the {detail}" if detail else "what was said before"
    unit = "conversation" if problem.kind is ProblemKind.FORGOTTEN else "answer"
    example = min(counts.caused or counts.present)
    total = counted(len(counts.possible), unit)
    return f"{text.format(place=problem.place, detail=detail)} ({len(counts.present):,} of {total}, such as {example})."


_OF_MISTAKE = {
    MistakeKind.WRONG_ARGUMENT: ProblemKind.WRONG_ARGUMENT,
    MistakeKind.ERROR: ProblemKind.TOOL_FAILS,
    MistakeKind.UNEXPECTED: ProblemKind.UNEXPECTED,
    MistakeKind.NOT_CALLED: ProblemKind.NOT_CALLED,
}
_WHERE = {
    ProblemKind.NO_CLARIFICATION: "the questions back",
    ProblemKind.EARLIER_ANSWER: "the order of turns",
    ProblemKind.FORGOTTEN: "turn {}",
    ProblemKind.LOST_HOP: "hop {}",
}
_NEW = {
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
_PRESENT = {
    ProblemKind.FORGOTTEN: "Turn {place} doesn't carry {detail}",
    ProblemKind.LOST_HOP: "Hop {place} doesn't find {detail}",
    ProblemKind.NOT_CALLED: "`{place}` is not called",
}
"""Without a baseline."""
