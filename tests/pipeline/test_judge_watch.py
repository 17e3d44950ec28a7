"""A gate that sees its judge move: real runs, the real SDK, and a loopback server that changes its mind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.cli.main import main
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import Planted
from ragstone.evaluation.rounds.context import RunContext
from ragstone.evaluation.rounds.judge_watch import CANARIES, choose_canaries
from ragstone.evaluation.rounds.planted import planted_statement
from ragstone.gate.verdict import CheckKind, Status
from ragstone.settings.load import load_settings
from tests.judge.conftest import PLANTED, FakeLlm, Loop, fill_in
from tests.pipeline.reported import gated

SAMPLES = 30


@pytest.fixture
def fake() -> Iterator[FakeLlm]:
    loop = Loop()
    yield loop.serve(FakeLlm(served="gpt-4o-mini-2024-07-18"))
    loop.close()


class Project:
    """A project whose system answers from a file, and whose judge is a loopback server."""

    def __init__(self, root: Path, fake: FakeLlm) -> None:
        self.root = root
        self.fake = fake
        self._write("golden.jsonl", [{"id": f"q{n}", "question": f"What is {n}?"} for n in range(SAMPLES)])
        self.answer("")
        (root / "thresholds.toml").write_text('[gate]\ndecision = "point"\n[metrics.faithfulness]\nmax_drop = 0.05\n')

    def answer(self, suffix: str, first: int = SAMPLES) -> None:
        lines = [
            {"id": f"q{n}", "answer": f"It is {n}{suffix if n < first else ''}.", "contexts": [f"{n} is a number."]}
            for n in range(SAMPLES)
        ]
        self._write("outputs.jsonl", lines)

    def _write(self, name: str, lines: list[dict[str, Any]]) -> None:
        (self.root / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def gate(self, out: str, baseline: str | None = None, **judge: Any) -> Any:
        settings = load_settings(
            directory=self.root,
            environ={"OPENAI_API_KEY": "sk-0123456789"},
            overrides={
                "golden.paths": ("golden.jsonl",),
                "system.entrypoint": "file:outputs.jsonl",
                "judge.name": judge.pop("name", "openai:gpt-4o-mini"),
                "judge.base_url": f"{self.fake.url}/v1",
                "run.metrics": ("faithfulness",),
                "run.out": out,
                "gate.baseline": baseline,
                **{f"judge.{name}": value for name, value in judge.items()},
            },
        )
        return gated(settings, RunContext(environ={"OPENAI_API_KEY": "sk-0123456789"}), formats=("md",))


@pytest.fixture
def project(tmp_path: Path, fake: FakeLlm) -> Project:
    return Project(tmp_path, fake)


def doubting(fake: FakeLlm, ids: set[str]) -> None:
    """From now on the judge does not find the statements of these samples in their contexts."""

    def fill(schema: Any, prompt: str) -> Any:
        filled = fill_in(schema, prompt)
        if "verdicts" in filled and any(f"\n{name.removeprefix('q')} is a number." in prompt for name in ids):
            for verdict in filled["verdicts"]:
                verdict |= {"verdict": "unsupported", "evidence": []}
        return filled

    fake.fill = fill


def support_calls(fake: FakeLlm) -> int:
    return sum(kind == "verdicts" for kind in fake.kinds())


def test_who_answered_and_how_it_was_asked_is_kept(project: Project) -> None:
    observed = project.gate("one").run.manifest.observed
    assert observed is not None
    assert observed.models == ("gpt-4o-mini-2024-07-18",)
    assert observed.fingerprints == ("fp_1",)
    assert observed.ways == ("json_schema",)


def test_a_run_that_is_taken_from_the_cache_is_by_who_judged_then(project: Project) -> None:
    project.gate("one")
    calls = len(project.fake.seen)
    second = project.gate("two", "one")
    assert len(project.fake.seen) == calls
    assert second.run.manifest.observed == RunDirectory.open(project.root / "one").manifest.observed


def test_a_name_that_was_moved_is_not_compared_as_the_same_judge(project: Project) -> None:
    project.gate("one")
    project.fake.served = "gpt-4o-mini-2026-11-01"
    project.answer(" or so", first=5)
    verdict = project.gate("two", "one").verdict
    assert any("gpt-4o-mini-2026-11-01" in warning for warning in verdict.warnings)
    assert "faithfulness" not in verdict.comparability.metrics


def test_a_judge_that_stays_is_asked_the_same_twenty_again_and_cleared(project: Project) -> None:
    project.gate("one")
    calls = support_calls(project.fake)
    found = project.gate("two", "one", canaries=CANARIES)
    assert support_calls(project.fake) - calls == CANARIES
    assert found.run.manifest.canaries.asked == CANARIES
    assert found.run.manifest.canaries.differing == 0
    assert any("no change in the judge's behaviour: 0 of 20" in note for note in found.verdict.notes)
    # What it cost is in the run's cost.
    assert found.run.manifest.cost.calls == CANARIES


def test_a_judge_that_moved_is_told_at_the_top_of_the_report(project: Project) -> None:
    baseline = project.gate("one").run
    chosen = [canary.record.sample.id for canary in choose_canaries(baseline.records(), CANARIES)]
    doubting(project.fake, set(chosen[:4]))
    found = project.gate("two", "one", canaries=CANARIES)
    assert found.run.manifest.canaries.differing == 4
    report = (project.root / "two" / "report.md").read_text(encoding="utf-8")
    assert "The judge's behaviour changed: 4 of 20 verdicts differ" in report
    # Scores are of judgements that were kept, and did not change; what was asked again is not kept.
    again = project.gate("three", "two")
    assert again.run.scores().metrics["faithfulness"].values == baseline.scores().metrics["faithfulness"].values


def test_the_same_judgements_are_chosen_each_time_and_each_counts_once(project: Project) -> None:
    records = list(project.gate("one").run.records())
    chosen = choose_canaries(records)
    assert chosen == choose_canaries(reversed(records))
    assert len({canary.record.sample.id for canary in chosen}) == CANARIES
    assert choose_canaries(records, 7) == chosen[:7]


def test_another_judge_is_not_asked_about_the_old_ones_verdicts(project: Project) -> None:
    project.gate("one")
    found = project.gate("two", "one", name="openai:gpt-4o", canaries=CANARIES)
    assert found.run.manifest.canaries is None


def test_a_judge_that_fails_when_asked_again_spoils_no_run(project: Project) -> None:
    project.gate("one")
    doubting(project.fake, set())
    project.fake.fill = lambda _schema, _prompt: {}
    found = project.gate("two", "one", canaries=CANARIES)
    assert found.run.manifest.state == "finished"
    assert found.run.manifest.canaries.unanswered == CANARIES
    assert any("of the repeated judgements failed" in note for note in found.verdict.notes)


def test_the_offline_judge_can_not_move(project: Project) -> None:
    project.gate("one", name="offline", base_url=None)
    found = project.gate("two", "one", name="offline", base_url=None, canaries=CANARIES)
    assert found.run.manifest.canaries is None
    assert found.run.manifest.observed is None


def credulous(fake: FakeLlm, *, until: int = 99) -> None:
    """From now on the judge finds the first words of a context a reason for `until` planted answers."""
    passed: list[str] = []

    def fill(schema: Any, prompt: str) -> Any:
        planted = PLANTED.search(prompt)
        if planted is None or len(passed) >= until:
            return fill_in(schema, prompt)
        passed.append(prompt)
        return fill_in(schema, PLANTED.sub("says so of", prompt))

    fake.fill = fill


def test_three_planted_wrong_answers_are_part_of_a_run_and_of_no_score(project: Project) -> None:
    found = project.gate("one")
    assert found.run.manifest.planted == Planted(asked=3, passed=0)
    assert support_calls(project.fake) == SAMPLES + 3
    assert found.run.manifest.cost.calls == len(project.fake.seen)
    assert len(found.run.scores().metrics["faithfulness"].values) == SAMPLES
    assert not any(check.kind is CheckKind.PLANTED for check in found.verdict.checks)
    stored = b"".join(path.read_bytes() for path in found.run.path.rglob("*") if path.is_file())
    assert not PLANTED.search(stored.decode("utf-8", "replace"))


def test_they_are_judged_anew_with_each_new_judgement_and_not_without_one(project: Project) -> None:
    project.gate("one")
    calls = len(project.fake.seen)
    assert project.gate("two", "one").run.manifest.planted is None
    assert len(project.fake.seen) == calls
    project.answer(" or so", first=1)
    assert project.gate("three", "two").run.manifest.planted == Planted(asked=3, passed=0)


def test_a_judge_that_supports_everything_is_an_error(project: Project) -> None:
    credulous(project.fake)
    found = project.gate("one")
    assert found.verdict.status is Status.ERROR
    assert found.exit_code == 5
    assert "let 3 of 3 planted wrong answers pass" in found.verdict.reason
    assert "let 3 of 3 planted wrong answers pass" in (project.root / "one" / "report.md").read_text(encoding="utf-8")
    assert project.gate("two", planted=0).verdict.status is Status.PASS


def test_a_judge_that_lets_one_pass_is_reported(project: Project) -> None:
    credulous(project.fake, until=1)
    found = project.gate("one")
    assert found.verdict.status is Status.PASS
    assert any("let 1 of 3 planted wrong answers pass" in warning for warning in found.verdict.warnings)


def test_a_judge_that_fails_on_them_has_let_none_pass(project: Project) -> None:
    project.fake.fill = lambda schema, prompt: {} if PLANTED.search(prompt) else fill_in(schema, prompt)
    found = project.gate("one")
    assert found.run.manifest.planted == Planted(asked=0, passed=0, unanswered=3)
    assert found.verdict.status is Status.PASS


@pytest.mark.parametrize("command", ["run", "rescore"])
def test_without_a_gate_it_is_an_error_too(
    project: Project, command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    credulous(project.fake)
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    monkeypatch.setenv("RAGSTONE_REFRESH", "true")
    (project.root / "ragstone.toml").write_text(
        f'[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "file:outputs.jsonl"\n'
        f'[judge]\nname = "openai:gpt-4o-mini"\nbase_url = "{project.fake.url}/v1"\n[run]\nmetrics = ["faithfulness"]\n'
    )
    if command == "rescore":
        project.gate("one", planted=0)
    with pytest.raises(SystemExit, match="5"):
        main([command, *(["one", "--out", "two"] if command == "rescore" else [])])
    assert "let 3 of 3 planted wrong answers pass" in capfd.readouterr().err


def test_a_planted_statement_is_new_for_each_sample_and_the_same_each_time() -> None:
    made = [planted_statement(f"q{number}") for number in range(200)]
    assert made == [planted_statement(f"q{number}") for number in range(200)]
    assert len(set(made)) == len(made)
    assert all(PLANTED.search(statement) for statement in made)
