"""The evaluation of a change and its base commit: one judge, one budget, one cache; each failure on its own side."""

# ruff: noqa: F811 - fixtures are imported and then named as arguments
from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragstone.errors import JudgeError, SystemUnderTestError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.lock import run_lock
from ragstone.evaluation.rounds.base_commit import BaseSystem, base_run
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.session import Session
from ragstone.golden.sample import Sample
from ragstone.pipeline.run_plan import run_plan
from ragstone.settings.settings import JudgeSettings, RunSettings, Settings, SystemSettings
from ragstone.system.response import Context, Response, SystemFailure, SystemFailureKind
from tests.evaluation.builders import Answering, samples
from tests.judge.conftest import event_loop_thread, world  # noqa: F401 - fixtures
from tests.pipeline.asked import evaluate_golden_set

GOLDEN = samples(6)


def answering(words: Callable[[Sample], str]) -> Answering:
    return Answering(lambda sample: Response(sample.id, words(sample), (Context("It is so."),), 0.1))


def same(sample: Sample) -> str:
    return f"The answer to {sample.question}"


def other(sample: Sample) -> str:
    return f"Another answer to {sample.question}"


def settings(folder: Path, **run: Any) -> Settings:
    given = RunSettings(out="run", metrics=("faithfulness", "answer_relevancy"), **run)
    return Settings(root=folder, run=given, judge=JudgeSettings(planted=0))


def both(
    world: Any, folder: Path, head: Answering, base: Answering, judge: Any = None, **run: Any
) -> tuple[RunDirectory, RunDirectory]:
    judge = judge or world.judge(cache=folder / "run" / "judgements.sqlite")
    asked = BaseSystem("c" * 40, SystemSettings(), lambda: base)

    async def evaluated() -> RunDirectory:
        context = RunContext(environ={}, system_factory=lambda _settings: head)
        plan = run_plan(settings(folder, **run), context, golden=GOLDEN, command=None)
        session = Session(replace(plan, judge=replace(plan.judge, caller_judge=judge)), context)
        try:
            with run_lock(plan.out):
                return await session.evaluate(base=asked)
        finally:
            await session.close()

    try:
        found = world.run(evaluated())
    finally:
        world.run(judge.close())
    return found, base_run(found)


def alone(world: Any, folder: Path, system: Answering) -> RunDirectory:
    judge = world.judge(cache=folder / "run" / "judgements.sqlite")
    found: RunDirectory = world.run(
        evaluate_golden_set(GOLDEN, system, judge, settings(folder), RunContext(environ={}))
    )
    world.run(judge.close())
    return found


def test_answers_that_did_not_change_cost_no_call(world: Any, tmp_path: Path) -> None:
    one = alone(world, tmp_path / "alone", answering(same))
    asked = len(world.fake.chats)
    world.fake.seen.clear()
    head, base = both(world, tmp_path / "both", answering(same), answering(same))
    assert len(world.fake.chats) == asked
    assert head.scores().metrics == base.scores().metrics == one.scores().metrics
    assert head.manifest.cost.usd == pytest.approx(one.manifest.cost.usd)
    assert head.manifest.cost.cached_calls > 0


def test_both_keep_to_one_budget(world: Any, tmp_path: Path) -> None:
    one = alone(world, tmp_path / "alone", answering(same))
    budget = 1.5 * (one.manifest.cost.usd or 0.0)
    judge = world.judge(cache=tmp_path / "both" / "run" / "judgements.sqlite", max_cost_usd=budget)
    with pytest.raises(JudgeError, match="the budget"):
        both(world, tmp_path / "both", answering(other), answering(same), judge)
    spent, by_base = [
        RunDirectory.open(tmp_path / "both" / folder).manifest.cost.usd or 0.0 for folder in ("run", "run/base-commit")
    ]
    assert by_base <= spent <= budget
    assert spent > 0.75 * budget  # judging the change alone takes two thirds: what the base costs is counted too
    assert RunDirectory.open(tmp_path / "both" / "run").manifest.state == "stopped"


def test_a_base_that_answers_nothing_is_named(world: Any, tmp_path: Path) -> None:
    down = SystemFailure(SystemFailureKind.RAISED, "down")
    silent = Answering(lambda sample: Response(sample.id, failure=down))
    with pytest.raises(SystemUnderTestError, match="the base, commit cccccccccccc: it gave no answer at all"):
        both(world, tmp_path, answering(same), silent)


class Breaking(Answering):
    """Breaks down as a whole at one question, when something of both runs has been saved."""

    def __init__(self, folder: Path) -> None:
        super().__init__(lambda sample: Response(sample.id, same(sample), (Context("It is so."),), 0.1))
        self.saved = [folder / "run" / "samples.jsonl", folder / "run" / "base-commit" / "samples.jsonl"]

    async def ask(self, sample: Sample) -> Response:
        if sample.id == "q4":
            while not all(file.is_file() and file.stat().st_size for file in self.saved):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            raise SystemUnderTestError("the system has died 25 times in a row.")
        return await super().ask(sample)


def test_when_one_breaks_down_both_are_saved_and_resumed(world: Any, tmp_path: Path) -> None:
    for head, base in ((answering(other), Breaking(tmp_path)), (Breaking(tmp_path), answering(same))):
        with pytest.raises(SystemUnderTestError, match="has died 25 times"):
            both(world, tmp_path, head, base)
        manifests = [RunDirectory.open(tmp_path / folder).manifest for folder in ("run", "run/base-commit")]
        assert [one.state for one in manifests] == ["stopped", "stopped"]
        assert any("has died 25 times" in (one.stop_reason or "") for one in manifests)
        assert not any(one.standing.eligible for one in manifests)
    run, before = both(world, tmp_path, again := answering(other), answering(same), resume=True)
    assert len(again.asked) < len(GOLDEN)
    assert run.manifest.state == before.manifest.state == "finished"
    everything = {sample.id for sample in GOLDEN}
    assert all(one.scores().metrics["faithfulness"].values.keys() == everything for one in (run, before))
