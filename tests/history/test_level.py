"""The level over a season: what freezes it, what ends that, and which merge is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.evaluation.scores import RunScores
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.history.column import came_with
from ragstone.history.drift import Drift, find_cause, measure_drift
from ragstone.history.file import History, parse_history
from ragstone.history.level import LEVEL_RUNS, MetricPast, at_level, past_of, runs_before
from tests.history.seasons import HEADLINE, commit, compacted, line, scores
from tests.history.test_drift import POLICY, draw

ONE = {"gate": {"only_named": True}, "metrics": {"faithfulness": {"max_drop": 0.02}}}


@dataclass
class Branch:
    """A main branch whose lines carry what was found, as the gate writes them."""

    policy: dict[str, Any] = field(default_factory=lambda: POLICY)
    history: History = field(default_factory=History)
    merges: int = 0

    def merge(
        self, lost: float, *, decided: Sequence[Check] = (), run: RunScores | None = None, **fields: Any
    ) -> Drift:
        run = run or draw(self.merges, lost)
        one = line(self.merges, **fields)
        codes, policy = compacted(run), policy_from_mapping(self.policy)
        found = measure_drift(self.history, one, codes, run, policy, decided=decided)
        bad = any(check.status is not Status.PASS for check in (*found.checks, *decided))
        self.history = self.history.with_run(one.model_copy(update={"eligible": not bad, "below": found.below}), codes)
        self.merges += 1
        return found

    def merges_of(self, count: int, lost: float) -> list[Drift]:
        return [self.merge(lost) for _ in range(count)]

    def past(self, metric: str = "faithfulness") -> MetricPast:
        now = line(self.merges)
        return past_of(runs_before(self.history, now), now, metric)

    def level(self, *, main: bool = True) -> list[int]:
        return [int(past_run.line.run, 16) for past_run in self.past().reference_runs(is_main=main)]


def red(found: Drift) -> bool:
    return any(check.status is Status.FAIL for check in found.checks)


def drop(status: Status, metric: str = "faithfulness", estimate: float = -0.1) -> Check:
    return Check(
        f"{metric}.drop", CheckKind.DROP, status, Action.BLOCK, "It dropped.", metric=metric, estimate=estimate
    )


@cache
def healthy() -> Branch:
    found = Branch()
    found.merges_of(12, 0.0)
    return found


@pytest.fixture
def branch() -> Branch:
    return dataclasses.replace(healthy())


def test_the_level_is_the_newest_healthy_runs(branch: Branch) -> None:
    assert branch.level() == list(range(12 - LEVEL_RUNS, 12))
    assert branch.level(main=False) == branch.level()


@pytest.mark.heavy
def test_a_loss_freezes_the_level_and_main_stays_red_whatever_one_run_shows(branch: Branch) -> None:
    before = branch.level()
    first, *later = branch.merges_of(5, 0.1)
    assert {check.status for check in first.checks} == {Status.INCONCLUSIVE}
    assert all(map(red, later))
    assert branch.level() == before
    check = next(check for check in branch.merge(0.1).checks if check.metric == "faithfulness")
    assert "below its level since 000000c, 5 merges ago" in check.reason
    assert red(branch.merge(0.07))
    assert branch.level() == before
    again = parse_history(branch.history.text().encode(), "h")
    assert again.runs == branch.history.runs
    assert again.runs[-1].below


def test_a_pull_request_is_compared_with_main_as_it_is_and_says_so(branch: Branch) -> None:
    branch.merges_of(3, 0.1)
    assert branch.level(main=False) == [12, 13, 14]
    run = draw(15, 0.1)
    policy = policy_from_mapping(POLICY)
    found = measure_drift(branch.history, line(15), compacted(run), run, policy, is_main=False)
    assert found.checks == ()
    assert found.warnings[0].startswith("The main branch has been 0.1")
    assert "below its level of faithfulness since 000000c, 2 merges ago. This run is compared with" in found.warnings[0]


@pytest.mark.heavy
def test_a_recovery_is_shown_by_the_runs_since_and_they_enter_the_level(branch: Branch) -> None:
    branch.merges_of(4, 0.1)
    found = [branch.merge(0.0), branch.merge(0.0)]
    assert not red(found[-1])
    assert any("is back at it" in note for note in found[-1].notes) or not red(found[0])
    branch.merges_of(2, 0.0)
    assert branch.level() == [10, 11, 16, 17, 18, 19]


def test_a_drop_that_failed_or_is_not_settled_lasts(branch: Branch) -> None:
    branch.merge(0.012, decided=[drop(Status.INCONCLUSIVE, estimate=-0.03)])
    assert [part.shown for part in branch.past().open_losses] == [False]
    again = branch.merge(0.012)
    statuses = {check.metric: check.status for check in again.checks if check.status is not Status.PASS}
    assert statuses.get("faithfulness") in (Status.INCONCLUSIVE, Status.FAIL)
    assert 12 not in branch.level()
    shown = dataclasses.replace(healthy())
    shown.merge(0.1, decided=[drop(Status.FAIL)])
    assert all(part.shown for part in shown.past().open_losses)


@pytest.mark.heavy
def test_a_drop_that_fails_again_keeps_a_loss_open_though_the_runs_since_look_recovered(branch: Branch) -> None:
    branch.merges_of(3, 0.1)
    branch.merge(0.0, decided=[drop(Status.FAIL)])
    (part,) = branch.past().open_losses
    assert part.commit == commit(12)


def test_a_false_alarm_is_red_for_two_runs_at_most_and_over_soon(branch: Branch) -> None:
    branch.merge(0.0, decided=[drop(Status.FAIL, estimate=-0.06)])
    assert branch.past().open_losses
    after = [red(branch.merge(0.0)) for _ in range(4)]
    assert not any(after[1:])
    assert branch.past().open_losses == ()
    assert branch.level()[-2:] == [15, 16]


@pytest.mark.heavy
def test_an_accepted_loss_starts_the_level_anew(branch: Branch) -> None:
    branch.merges_of(3, 0.1)
    taken = [{"id": f"{name}-1", "metric": name, "drop": 0.12} for name in HEADLINE]
    assert not red(branch.merge(0.1, accepted=taken))
    assert branch.level() == [15]
    assert not red(branch.merge(0.1))
    assert branch.level() == [15, 16]
    assert all(map(red, branch.merges_of(3, 0.25)[1:]))


def test_a_slice_has_losses_of_its_own(branch: Branch) -> None:
    def tagged(number: int, lost: float) -> RunScores:
        run = draw(number, lost)
        facts = {
            name: type(one)(content_hash=one.content_hash, tags=("billing",) if index < 40 else ())
            for index, (name, one) in enumerate(run.samples.items())
        }
        return RunScores("run", run.metrics, facts)

    one = drop(Status.FAIL)
    sliced = Check(**{name: getattr(one, name) for name in one.__struct_fields__} | {"slice": "billing"})
    branch.merge(0.0, decided=[sliced], run=tagged(12, 0.0))
    assert [(part.metric, part.slice) for part in branch.past().open_losses] == [("faithfulness", "billing")]
    found = [branch.merge(0.0, run=tagged(branch.merges, 0.0)) for _ in range(3)]
    assert found[0].checks[0].name in ("billing/faithfulness.drift", "drift")
    assert branch.past().open_losses == ()


@pytest.mark.heavy
def test_another_run_of_a_commit_adds_nothing() -> None:
    branch = Branch()
    for number in range(12):
        branch.merge(0.0, github_run=number + 1)
    branch.merge(0.1, github_run=13)
    assert red(branch.merge(0.1, github_run=14))
    again = branch.past().open_losses
    for number in range(15, 19):
        assert red(branch.merge(0.0, github_run=number, commit=commit(13)))
    assert branch.past().open_losses == again
    assert branch.level() == [6, 7, 8, 9, 10, 11]


def test_a_loss_of_one_metric_does_not_hold_back_the_others() -> None:
    branch = Branch(ONE)
    branch.merges_of(12, 0.0)
    branch.merge(0.1)
    assert [part.metric for part in branch.past().open_losses] == ["faithfulness"]
    assert [int(past_run.line.run, 16) for past_run in branch.past("context_recall").reference_runs(is_main=True)][
        -1
    ] == 12


def test_another_judge_starts_the_level_anew(branch: Branch) -> None:
    branch.merges_of(2, 0.1)
    branch.merge(0.1, judge_key="b" * 16, judge="openai new")
    now = line(branch.merges, judge_key="b" * 16, judge="openai new")
    past = past_of(runs_before(branch.history, now), now, "faithfulness")
    assert (len(past.runs), past.open_losses) == (1, ())


@pytest.mark.heavy
def test_the_runs_of_the_level_keep_their_scores_longest(branch: Branch) -> None:
    branch.merges_of(32, 0.1)
    size = len(branch.history.text().encode())
    small = branch.history.trimmed(size - 4000)
    kept = {int(one.run, 16) for one in small.runs if one.scores}
    assert set(branch.level()) <= kept
    assert len(kept) < len(branch.history.runs)


@pytest.mark.heavy
def test_the_merge_that_did_it_is_named_from_the_history(branch: Branch) -> None:
    branch.merges_of(3, 0.0)
    branch.merges_of(4, 0.1)
    past, runs = find_cause(branch.history, "faithfulness", lower_is_better=False)
    assert past.open_losses[0].commit == commit(15)
    assert [one.commit for one in runs] == [commit(15)]
    assert came_with(runs) == "It came with the merge of 000000f."


def test_merges_that_may_have_brought_a_loss_are_each_named() -> None:
    runs = [line(number) for number in (3, 5, 9)]
    assert came_with(runs) == "It came with one of 3 merges: 0000003, 0000005, 0000009."


def test_there_is_no_cause_without_runs() -> None:
    assert find_cause(History(), "faithfulness", lower_is_better=False)[1] == ()
    one = History().with_run(line(0), compacted(scores({"faithfulness": [1.0]})))
    assert find_cause(one, "faithfulness", lower_is_better=False)[1] == ()


def test_the_baseline_gets_the_scores_of_the_level_sample_by_sample(branch: Branch) -> None:
    now, then = draw(12, 0.0), draw(11, 0.0)
    found = at_level(then, now, {"faithfulness": branch.past().reference_runs(is_main=True)})
    runs = [draw(number, 0.0)["faithfulness"].values for number in branch.level()]
    for name in list(now.samples)[:20]:
        each = [run[name] for run in runs]
        assert found["faithfulness"].values[name] == pytest.approx(sum(each) / len(each), abs=1e-3)
        assert found["faithfulness"].answers[name] == pytest.approx(tuple(each), abs=1e-3)
    assert found["context_recall"] is then["context_recall"]


def test_what_the_level_does_not_have_keeps_the_score_of_the_baseline(branch: Branch) -> None:
    then = draw(11, 0.0)
    one, new, *_ = then.samples
    facts = {**then.samples, new: replace(then.samples[new], content_hash="edited"), "late": then.samples[one]}
    values = {**then["faithfulness"].values, "late": 0.25}
    metrics = {"faithfulness": replace(then["faithfulness"], values=values)}
    both = RunScores("run", metrics, facts)
    found = at_level(both, both, {"faithfulness": branch.past().reference_runs(is_main=True)})["faithfulness"]
    assert (found.values["late"], found.values[new]) == (0.25, values[new])
    assert {"late", new}.isdisjoint(found.answers)
    assert len(found.answers[one]) == LEVEL_RUNS


def test_a_score_that_did_not_change_is_exactly_equal_though_it_is_stored_in_steps() -> None:
    odd = scores({"faithfulness": [1 / 11, 0.123456789, 1.0, 0.0]})
    history = History()
    for number in range(3):
        history = history.with_run(line(number, metrics=("faithfulness",)), compacted(odd))
    now = line(3, metrics=("faithfulness",))
    level = past_of(runs_before(history, now), now, "faithfulness").reference_runs(is_main=True)
    found = at_level(odd, odd, {"faithfulness": level})["faithfulness"]
    assert found.values == odd["faithfulness"].values
    assert set(found.answers["s0"]) == {1 / 11}
