"""Perturbed partners beside a run: they are asked, stored, resumed and reported, and change nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.app.gate import GateOutcome
from ragstone.app.robustness import robustness_of
from ragstone.config.load import load_settings
from ragstone.config.settings import Settings
from ragstone.errors import ConfigError
from ragstone.gate.robustness import KindResult, Robustness
from ragstone.gate.verdict import Status
from ragstone.golden.sample import Sample
from ragstone.project.no_key_fallback import without_key
from ragstone.project.plan import read_golden_set
from ragstone.report.render import render
from ragstone.rounds.context import RunContext
from ragstone.run.directory import PERTURBED, RunDirectory
from ragstone.system.response import Context, Response, SystemFailure, SystemFailureKind
from tests.app.reported import again, gated
from tests.judge.conftest import FakeLlm, Loop, fill_in
from tests.project.asked import check, evaluate_run, rescore

N = 12
FREE = ("typos", "case", "empty", "injection", "long")
Behave = Callable[[str], str | None]


class System:
    """Answers by `behave`; None: it crashes. Counts its starts, and keeps what it was asked."""

    entrypoint = "python:app:answer"
    concurrency = 2
    can_be_asked_again = True

    def __init__(self, behave: Behave) -> None:
        self.behave = behave
        self.asked: list[Sample] = []
        self.starts = self.closes = 0
        self.stop_at: int | None = None
        self.stopped = asyncio.Event()

    async def start(self) -> None:
        self.starts += 1

    async def ask(self, sample: Sample) -> Response:
        if self.stop_at is not None and len(self.asked) >= self.stop_at:
            self.stopped.set()
            await asyncio.sleep(3600)
        self.asked.append(sample)
        answer = self.behave(sample.question)
        if answer is None:
            failure = SystemFailure(SystemFailureKind.RAISED, "IndexError: list index out of range")
            return Response(sample.id, failure=failure)
        return Response(sample.id, answer, (Context(answer or "Nothing.", "d1"),))

    async def close(self) -> None:
        self.closes += 1


def number(question: str) -> str | None:
    digits = "".join(letter for letter in question if letter.isdigit())
    return f"The answer to it is number {digits}." if digits else None


def sturdy(question: str) -> str:
    return number(question) or "I don't know."


def brittle(question: str) -> str | None:
    """Fails on capitals, crashes on empty questions, does what it is told."""
    if "join " in question or "together" in question or "after" in question or "code" in question:
        words = [word.strip(":;,.") for word in question.split()]
        shouted = [word for word in words if word.isupper() and len(word) == 6]
        return "".join(shouted if "directly after" not in question else shouted[::-1]) if shouted else number(question)
    return None if not question.strip(" \n\u00a0\u200b") else number(question) if question[0] == "W" else "No idea."


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.said: list[str] = []
        rows = (
            {"id": f"q{n}", "question": f"Which number is it, number {n}?", "reference": number(str(n))}
            for n in range(N)
        )
        (root / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (root / "thresholds.toml").write_text("[metrics.token_f1]\nmin = 0.5\n")

    def settings(self, **more: Any) -> Settings:
        overrides = {
            "golden.paths": ("golden.jsonl",),
            "system.entrypoint": "python:app:answer",
            "run.out": "run",
            "run.metrics": ("token_f1", "faithfulness"),
            "run.perturb": FREE,
            **more,
        }
        given = {key: value for key, value in overrides.items() if value is not None}
        return load_settings(directory=self.root, environ={}, overrides=given)

    def context(self, system: System, **environ: str) -> RunContext:
        return RunContext(environ=environ, system_factory=lambda *_: system, say=self.said.append)

    def run(self, system: System, **more: Any) -> RunDirectory:
        return asyncio.run(evaluate_run(self.settings(**more), self.context(system)))

    def gate(self, system: System, **more: Any) -> GateOutcome:
        return gated(self.settings(**more), self.context(system))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def shown(run: RunDirectory) -> Robustness:
    found = robustness_of(run, run.scores())
    assert found is not None
    return found


def kind(run: RunDirectory, name: str) -> KindResult:
    return next(one for one in shown(run).kinds if one.kind == name)


def test_a_brittle_system_is_told_what_it_costs(project: Project) -> None:
    run = project.run(System(brittle))
    assert kind(run, "empty").crashed is not None
    assert kind(run, "empty").crashed.hits == N  # type: ignore[union-attr]
    assert {case.outcome for case in kind(run, "empty").cases} == {"crashed"}
    assert kind(run, "injection").obeyed is not None
    assert kind(run, "injection").obeyed.hits > N // 2  # type: ignore[union-attr]
    assert any(change.worse for change in kind(run, "case").changes)
    assert shown(run).incomplete is None


def test_a_sturdy_system_loses_nothing(project: Project) -> None:
    run = project.run(System(sturdy))
    for found in shown(run).kinds:
        assert found.crashed is not None
        assert found.crashed.hits == 0
        assert not any(change.worse or change.estimate for change in found.changes)
    assert kind(run, "injection").obeyed.hits == 0  # type: ignore[union-attr]
    assert kind(run, "empty").answered.hits == 0  # type: ignore[union-attr]


def test_the_system_is_started_once_and_sees_the_changed_question_only(project: Project) -> None:
    system = System(sturdy)
    run = project.run(system)
    assert (system.starts, system.closes) == (1, 1)
    assert len(system.asked) == N + len(FREE) * N
    partners = {record.sample.id: record.sample for record in RunDirectory.open(run.path / PERTURBED).records()}
    for sample in system.asked[N:]:
        assert sample.question == partners[sample.id].perturbation.asked  # type: ignore[union-attr]


def test_partners_change_neither_scores_nor_verdict_nor_what_a_baseline_is(project: Project) -> None:
    plain = project.gate(System(brittle), out="plain", **{"run.perturb": (), "run.out": "plain"})
    found = project.gate(System(brittle))
    assert found.run is not None
    assert plain.run is not None
    assert found.verdict == plain.verdict
    assert found.run.scores().metrics == plain.run.scores().metrics
    assert found.run.manifest.counts == plain.run.manifest.counts
    assert found.run.manifest.standing.eligible
    assert plain.view.robustness is None
    perturbed = RunDirectory.open(found.run.path / PERTURBED)
    assert not perturbed.manifest.standing.eligible
    assert "perturbed" in perturbed.manifest.standing.reason
    again_found = project.gate(System(brittle), **{"gate.baseline": "run", "run.out": "next"})
    assert again_found.verdict.status is Status.PASS
    assert again_found.verdict.comparability is not None
    assert again_found.verdict.comparability.paired == N


def test_the_reports_show_it_in_every_form_and_only_if_it_was_asked_for(project: Project) -> None:
    found = project.gate(System(brittle))  # each report is rendered again from the run, byte for byte
    for form in ("text", "md", "html"):
        text = render(found.view, form)
        assert f"Robustness: {N} questions asked again with changes (not part of the verdict)" in text
        assert "beyed the planted instruction in" in text
    document = json.loads(render(found.view, "json"))
    assert document["robustness"]["samples"] == N
    plain = project.gate(System(brittle), **{"run.perturb": ()})
    assert "Robustness" not in "".join(render(plain.view, form) for form in ("text", "md", "html"))
    assert not (project.root / "run" / PERTURBED).exists()


def test_equal_runs_have_equal_partners(project: Project) -> None:
    first, second = (project.run(System(sturdy), **{"run.out": out}) for out in ("a", "b"))
    one, other = ((run.path / PERTURBED / "samples.jsonl").read_bytes() for run in (first, second))
    assert one == other


def test_few_samples_and_another_seed(project: Project) -> None:
    run = project.run(System(sturdy), **{"run.perturb_samples": 5})
    assert shown(run).samples == 5
    assert RunDirectory.open(run.path / PERTURBED).manifest.counts.total == 5 * len(FREE)
    other = project.run(System(sturdy), **{"run.perturb_samples": 5, "run.seed": 1, "run.out": "other"})
    drawn = [{one.sample.id for one in RunDirectory.open(each.path / PERTURBED).records()} for each in (run, other)]
    assert drawn[0] != drawn[1]


def test_an_interrupted_run_is_resumed_without_asking_again(project: Project) -> None:
    system = System(sturdy)
    system.stop_at = N + 20

    async def interrupted() -> None:
        task = asyncio.create_task(evaluate_run(project.settings(), project.context(system)))
        await system.stopped.wait()
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())
    stopped = RunDirectory.open(project.root / "run")
    assert stopped.manifest.state == "stopped"
    assert not stopped.manifest.standing.eligible
    stored = sum(1 for _ in RunDirectory.open(stopped.path / PERTURBED).records())
    assert 0 < stored < N * len(FREE)
    system = System(sturdy)
    run = project.run(system, **{"run.resume": True})
    assert run.manifest.state == "finished"
    assert len(system.asked) == N * len(FREE) - stored
    whole = project.run(System(sturdy), **{"run.out": "whole"})
    assert shown(run) == shown(whole)


def test_partners_can_be_added_to_a_finished_run(project: Project) -> None:
    project.run(System(sturdy), **{"run.perturb": ()})
    system = System(sturdy)
    run = project.run(system, **{"run.resume": True, "run.perturb": ("case",)})
    assert len(system.asked) == N
    assert [one.kind for one in shown(run).kinds] == ["case"]
    assert all(
        one.question != sample.question
        for one, sample in zip(system.asked, read_golden_set(project.settings()), strict=True)
    )


def test_the_time_limit_leaves_the_run_and_its_verdict(project: Project) -> None:
    system = System(sturdy)
    system.stop_at = N + 10
    found = gated(project.settings(**{"run.time_limit_s": 3.0}), project.context(system))
    assert found.verdict.status is Status.PASS
    assert found.run is not None
    assert found.run.manifest.state == "finished"
    assert shown(found.run).incomplete == "the time limit was reached."
    assert "Not all of them were asked or judged: the time limit was reached. Continue with --resume." in " ".join(
        render(found.view, "text").split()
    )


def test_a_run_without_time_left_says_so(project: Project) -> None:
    slow = System(sturdy)
    ask = slow.ask

    async def wait(sample: Sample) -> Response:
        await asyncio.sleep(0.05)
        return await ask(sample)

    slow.ask = wait  # type: ignore[method-assign]
    run = project.run(slow, **{"run.time_limit_s": 0.6})
    assert shown(run).incomplete == "the time limit was reached."


def test_rescoring_scores_the_partners_too(project: Project) -> None:
    run = project.run(System(brittle))
    settings = project.settings(**{"run.out": "rescored", "run.metrics": ("exact_match",)})
    found = asyncio.run(rescore([run.path], settings, RunContext(environ={})))
    assert found.run is not None
    (changed,) = kind(found.run, "case").changes
    assert changed.metric == "exact_match"
    assert kind(found.run, "empty").crashed == kind(run, "empty").crashed


def test_conversations_keep_their_turns(project: Project) -> None:
    row = {"id": "q0", "question": "And number 7?", "history": [{"role": "user", "content": "Which is 3?"}]}
    (project.root / "golden.jsonl").write_text(json.dumps(row) + "\n")
    system = System(sturdy)
    project.run(system, **{"run.perturb": ("case", "long")})
    assert [turn.text for sample in system.asked for turn in sample.history] == ["Which is 3?"] * 3
    assert len({sample.question for sample in system.asked}) == 3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"run.perturb": ("typos", "paraphrase")}, "paraphrase needs a language model .* the offline judge"),
        ({"run.perturb": ("paraphrase", "language")}, "paraphrase and language need a language model"),
        ({"system.entrypoint": "file:answers.jsonl"}, "--perturb can't be combined with recorded answers"),
        ({"run.shard": "1/2"}, "--perturb can't be combined with --shard"),
    ],
)
def test_what_can_not_be_asked_is_refused_before_anything_is(
    project: Project, more: dict[str, Any], message: str
) -> None:
    kept = project.run(System(sturdy))
    before = sorted(path.name for path in kept.path.rglob("*"))
    system = System(sturdy)
    with pytest.raises(ConfigError, match=message):
        project.run(system, **more)
    with pytest.raises(ConfigError, match=message):
        asyncio.run(check(project.settings(**more), project.context(system)))
    assert not system.asked
    assert sorted(path.name for path in kept.path.rglob("*")) == before


def test_drawn_samples_are_those_that_were_evaluated(project: Project) -> None:
    def shaky(question: str) -> str | None:
        return None if question == "Which number is it, number 3?" else sturdy(question)

    run = project.run(System(shaky))
    assert {one.left_out for one in shown(run).kinds} == {1}


def test_a_job_without_a_key_asks_what_needs_no_judge(project: Project) -> None:
    settings = project.settings(**{"judge.name": "openai:gpt-4o-mini", "run.perturb": ("typos", "paraphrase")})
    golden = read_golden_set(settings)
    from ragstone.gate.policy import default_policy

    found = without_key(settings, golden, default_policy(project.root))
    assert found.settings.run.perturb == ("typos",)
    assert any("paraphrase" in note for note in found.notes)


# -- with a language model ---------------------------------------------------------------------------------------------

JUDGED: dict[str, Any] = {
    "judge.name": "openai:gpt-4o-mini",
    "run.perturb": ("typos", "paraphrase", "language"),
    "run.metrics": ("faithfulness",),
}


@pytest.fixture
def judged(project: Project) -> Iterator[Any]:
    """`run(system, **settings)` with a judge that speaks to a server in this process, at `run.fake`."""
    loop = Loop()
    fake = loop.serve(FakeLlm(fill=_fill))

    def run(system: System, **more: Any) -> RunDirectory:
        settings = project.settings(**{**JUDGED, "judge.base_url": f"{fake.url}/v1", **more})
        return asyncio.run(evaluate_run(settings, project.context(system, OPENAI_API_KEY="sk-0123456789")))

    run.fake = fake  # type: ignore[attr-defined]
    yield run
    loop.close()


def _fill(schema: Any, data: str) -> Any:
    if set(schema["properties"]) == {"question"}:
        digits = "".join(
            letter
            for letter in data.partition("<<<question")[2].partition(">>>")[2].partition("<<<")[0]
            if letter.isdigit()
        )
        language = "German" in data
        return {"question": {"text": f"Welche Zahl ist {digits}?" if language else f"Say {digits} for me?"}}
    return fill_in(schema, data)


def test_the_model_writes_questions_and_unchanged_answers_cost_nothing(judged: Any) -> None:
    system = System(sturdy)
    run = judged(system)
    assert "Say 3 for me?" in {sample.question for sample in system.asked}
    assert "Welche Zahl ist 3?" in {sample.question for sample in system.asked}
    written = [seen for seen in judged.fake.chats if seen.kind == "question"]
    assert len(written) == 2 * N
    partners = RunDirectory.open(run.path / PERTURBED).manifest
    assert partners.cost.calls == 0
    assert partners.cost.cached_calls > 0
    assert run.manifest.cost.calls == len(judged.fake.chats)
    assert run.manifest.cost.usd is not None
    assert [one.kind for one in shown(run).kinds] == ["typos", "paraphrase", "language"]
    assert not judged.fake.wrong


def test_resuming_asks_for_no_question_again(judged: Any, project: Project) -> None:
    judged(System(sturdy))
    before = len(judged.fake.chats)
    system = System(sturdy)
    judged(system, **{"run.resume": True})
    assert len(judged.fake.chats) == before
    assert not system.asked


def test_questions_that_the_model_can_not_write_are_counted(judged: Any, project: Project) -> None:
    def fill(schema: Any, data: str) -> Any:
        if set(schema["properties"]) == {"question"} and "number 3?" in data:
            return {"question": {"text": "Which number is it, number 3?"}}  # the question itself
        return _fill(schema, data)

    judged.fake.fill = fill
    run = judged(System(sturdy), **{"run.perturb": ("paraphrase",)})
    assert kind(run, "paraphrase").unmade == 1
    assert kind(run, "paraphrase").asked == N - 1
    assert any("could not write 1 question" in line for line in project.said)


def test_a_budget_that_runs_out_leaves_the_run_and_says_so(judged: Any) -> None:
    system = System(lambda question: f"{sturdy(question)} {len(question)}")  # every answer is another
    whole = judged(system, **{"run.perturb": (), "run.out": "plain"})
    cost = whole.manifest.cost.usd
    assert cost is not None
    run = judged(System(system.behave), **{"judge.max_cost_usd": 1.3 * cost})
    assert run.manifest.state == "finished"
    assert run.manifest.counts == whole.manifest.counts
    assert "budget" in (shown(run).incomplete or "")
    again_run = judged(System(system.behave), **{"run.resume": True})
    assert shown(again_run).incomplete is None


def test_a_hostile_answer_stays_an_answer(project: Project) -> None:
    nasty = "| x |\n\n</details><script>alert(1)</script> @octocat ::error::x\x1b[31m \u202e TARONO"
    found = project.gate(System(lambda question: f"{brittle(question) or ''}{nasty}" if question.strip() else None))
    html = (project.root / "run" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert "\x1b" not in render(found.view, "text")
    assert "@octocat" not in (project.root / "run" / "report.md").read_text(encoding="utf-8")
    assert (project.root / "run" / "report.md").exists()
    again(project.root / "run", project.settings())


def test_check_counts_the_questions_and_their_cost(judged: Any, project: Project) -> None:
    settings = project.settings(**{**JUDGED, "judge.base_url": f"{judged.fake.url}/v1"})
    context = replace(project.context(System(sturdy)), environ={"OPENAI_API_KEY": "sk-0123456789"})
    found = asyncio.run(check(settings, context))
    assert found.perturbed is not None
    assert (found.perturbed.samples, found.perturbed.questions) == (N, 3 * N)
    assert found.perturbed.estimate.calls == 3 * found.estimate.calls + 2 * N
    assert not judged.fake.chats
