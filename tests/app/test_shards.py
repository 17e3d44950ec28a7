"""Shards evaluated apart and merged: the same run, to the last byte, as one machine writes."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ragstone.app.decide import ComparedRun
from ragstone.app.gate import GateOutcome
from ragstone.app.merge import Shards
from ragstone.app.second_opinion import doubts_of
from ragstone.config.load import load_settings
from ragstone.config.settings import JudgeSettings, Settings
from ragstone.errors import ConfigError, RunDirectoryError
from ragstone.gate.verdict import Status
from ragstone.judge.cache import JudgementCache
from ragstone.judge.factory import build_judge
from ragstone.judge.judgements import Verdict
from ragstone.judge.protocol import Judge
from ragstone.rounds import round as round_module
from ragstone.rounds import sources
from ragstone.rounds.context import RunContext
from ragstone.run.directory import CACHE, RunDirectory
from ragstone.run.manifest import Manifest
from ragstone.run.merge import ALIKE, find_runs, merge_runs
from ragstone.run.writer import samples_digest, write_manifest
from tests.judge.conftest import PLANTED, FakeLlm, Loop, Seen
from tests.project.asked import evaluate_run, evaluate_shard, gate, merge

N = 30
INVENTED = "The Eiffel tower was painted green by forty volunteers in 1923."
OF = 3
POLICY = """
[gate]
min_coverage = 0.9

[metrics.faithfulness]
min = 0.5
max_drop = 0.05

[slices.even.metrics.faithfulness]
min = 0.1
"""
FILES = ("samples.jsonl", "manifest.json", "report.md", "report.json", "report.html", "junit.xml", "history.jsonl")


class Project:
    """A repository with recorded answers, whose clock stands still."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(round_module, "monotonic", lambda: 0.0)
        monkeypatch.chdir(root)
        self.root = root
        self.more: dict[str, Any] = {}
        self.environ: dict[str, str] = {}
        self.golden([{} for _ in range(N)])
        self.answer()
        (root / "thresholds.toml").write_text(POLICY, encoding="utf-8")

    def golden(self, more: list[dict[str, Any]]) -> None:
        rows = [
            {
                "id": f"q{n}",
                "question": f"How tall is tower {n}?",
                "reference": f"Tower {n} is {n + 10} metres tall.",
                "tags": ["even"] if n % 2 == 0 else [],
                **one,
            }
            for n, one in enumerate(more)
        ]
        (self.root / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def answer(self, *wrong: int) -> None:
        rows = [
            {
                "id": f"q{n}",
                "answer": "It was painted by nobody." if n in wrong else f"Tower {n} is {n + 10} metres tall.",
                "contexts": [f"Tower {n} is {n + 10} metres tall.", "Towers are buildings."],
                "latency_s": 0.01 * (1 + n * 7 % 11),
                "usage": {"input_tokens": 100 + n, "output_tokens": n % 4},
            }
            for n in range(N)
        ]
        (self.root / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def settings(self, **more: Any) -> Settings:
        overrides = {
            "golden.paths": ("golden.jsonl",),
            "system.entrypoint": "file:outputs.jsonl",
            "run.out": "run",
            **self.more,
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        return load_settings(directory=Path(), environ=self.environ, overrides=overrides)

    def context(self, **more: Any) -> RunContext:
        return RunContext(environ=self.environ, now=lambda: datetime(2026, 11, 22, tzinfo=UTC), **more)

    def gate(self, **more: Any) -> GateOutcome:
        return asyncio.run(gate(self.settings(**more), self.context()))

    def shard(self, number: int, of: int = OF, **more: Any) -> RunDirectory:
        settings = self.settings(run__shard=f"{number}/{of}", run__out=f"shards/{number}", **more)
        return asyncio.run(evaluate_shard(settings, self.context()))

    def shards(self, of: int = OF, **more: Any) -> None:
        for number in range(1, of + 1):
            self.shard(number, of, **more)

    def gate_merged(self, *, allow_missing: bool = False, **more: Any) -> GateOutcome:
        shards = Shards((self.root / "shards",), allow_missing)
        return asyncio.run(gate(self.settings(**more), self.context(), shards=shards))

    def files(self, run: str = "run") -> dict[str, bytes]:
        return {name: (self.root / run / name).read_bytes() for name in FILES if (self.root / run / name).exists()}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, monkeypatch)


@pytest.fixture
def fake() -> Iterator[FakeLlm]:
    loop = Loop()
    yield loop.serve(FakeLlm())
    loop.close()


def same(project: Project, **more: Any) -> tuple[GateOutcome, GateOutcome]:
    """The outcome on one machine and of merged shards, which must have written the same files."""
    history = more.get("run__history")
    before = (project.root / history).read_bytes() if history and (project.root / history).exists() else None
    one = project.gate(**more)
    expected = project.files()
    after = (project.root / history).read_bytes() if history else None
    shutil.rmtree(project.root / "run")
    if history:
        (project.root / history).unlink()
        if before is not None:
            (project.root / history).write_bytes(before)
    project.shards(**more)
    merged = project.gate_merged(**more)
    assert project.files() == expected
    assert {"samples.jsonl", "manifest.json", "report.html", "report.json"} <= expected.keys()
    if history:
        assert (project.root / history).read_bytes() == after
    assert merged.exit_code == one.exit_code
    return one, merged


# -- the same to the last byte -----------------------------------------------------------------------------------------


def test_merged_shards_are_the_run_of_one_machine(project: Project) -> None:
    one, _ = same(project)
    assert one.verdict.status is Status.PASS


def test_a_regression_is_found_by_name_and_costs_the_same_verdict(project: Project) -> None:
    project.gate(run__out="main")
    project.answer(*range(12))
    one, merged = same(project, gate__baseline="main")
    assert one.verdict.status is merged.verdict.status is Status.FAIL


@pytest.mark.parametrize(
    "more",
    [
        {"run__repeats": 2},
        {"golden__limit": 17},
        {"run__history": "history.jsonl"},
        {"run__metrics": ("exact_match", "token_f1")},
    ],
    ids=["repeats", "limit", "history", "metrics"],
)
def test_with_other_settings_too(project: Project, more: dict[str, Any]) -> None:
    same(project, **more)


def test_groups_are_clustered_as_on_one_machine(project: Project) -> None:
    project.golden([{"group": f"g{n // 5}"} for n in range(N)])
    same(project)


def test_more_shards_than_samples_leave_some_empty(project: Project) -> None:
    project.golden([{} for _ in range(4)])
    expected = project.gate().run
    assert expected is not None
    records = (project.root / "run" / "samples.jsonl").read_bytes()
    shutil.rmtree(project.root / "run")
    project.shards(16)
    counts = [RunDirectory.open(path).manifest.counts.total for path in (project.root / "shards").iterdir()]
    assert 0 in counts
    project.gate_merged()
    assert (project.root / "run" / "samples.jsonl").read_bytes() == records


def test_a_shard_that_is_evaluated_again_alone_gives_the_same_bytes(project: Project) -> None:
    project.shards()
    first = project.gate_merged()
    expected = project.files()
    shutil.rmtree(project.root / "shards" / "2")
    with pytest.raises(RunDirectoryError, match="shard 2 of 3 is missing"):
        project.gate_merged()
    project.shard(2)
    assert project.gate_merged().verdict == first.verdict
    assert project.files() == expected


def test_shards_of_a_run_can_be_merged_without_a_decision_and_without_the_golden_set(project: Project) -> None:
    for number in (1, 2):
        settings = project.settings(run__shard=f"{number}/2", run__out=f"shards/{number}")
        asyncio.run(evaluate_run(settings, project.context()))
    asyncio.run(evaluate_run(project.settings(run__out="one"), project.context()))
    (project.root / "golden.jsonl").unlink()
    merged = merge(Shards((Path("shards/2"), Path("shards/1"))), project.settings(), project.context())
    assert merged.shards == 2
    expected = RunDirectory.open(project.root / "one")
    assert merged.run.fingerprint == expected.fingerprint
    told = expected.manifest.invocation
    assert told is not None
    told = told.model_copy(update={"options": {**told.options, "run.out": "run"}})
    manifest = merged.run.manifest
    assert manifest.model_copy(update={"invocation": None}) == expected.manifest.model_copy(update={"invocation": None})
    assert manifest.invocation is not None
    assert "run.shard" not in manifest.invocation.options


COMBINED = {
    "state",
    "created_at",
    "observed",
    "canaries",
    "planted",
    "confirmed",
    "counts",
    "cost",
    "usage",
    "wall_s",
    "verdict",
    "stop_reason",
    "baseline",
    "retrieval",
    "shard",
    "same_job",
    "invocation",
}
"""What a merged manifest does not take over from its shards as it is."""


def test_every_field_of_a_manifest_is_either_common_to_all_shards_or_combined() -> None:
    # A new field needs a decision: in ALIKE if shards of one run can't differ in it, else combined in merge.py.
    assert set(Manifest.model_fields) == ALIKE.keys() | COMBINED


def test_a_merge_holds_one_record_at_a_time(project: Project) -> None:
    rows = [json.loads(line) for line in (project.root / "outputs.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["contexts"] = [f"{row['answer']} {'x' * 500_000}"]
    (project.root / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    project.shards(run__metrics=("token_f1",))
    paths = find_runs([project.root / "shards"])
    size = sum((path / "samples.jsonl").stat().st_size for path in paths)
    tracemalloc.start()
    merge_runs(paths, project.root / "run")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size / 3


# -- the judge ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def judged(project: Project, fake: FakeLlm) -> Project:
    project.environ = {"OPENAI_API_KEY": "sk-0123456789"}
    project.more = {
        "judge.name": "openai:gpt-4o-mini",
        "judge.base_url": f"{fake.url}/v1",
        "run.metrics": ("faithfulness",),
    }
    return project


def entries(path: Path) -> int:
    cache = JudgementCache(path / CACHE)
    try:
        return len(cache)
    finally:
        cache.close()


def test_judgements_are_merged_so_that_a_later_run_reuses_them(judged: Project, fake: FakeLlm) -> None:
    one = judged.gate(run__out="one").run
    assert one is not None
    judged.shards()
    merged = judged.gate_merged().run
    assert merged is not None
    assert merged.manifest.observed == one.manifest.observed
    assert merged.manifest.cost.calls == one.manifest.cost.calls > 0
    assert entries(judged.root / "run") == entries(judged.root / "one") > 0
    calls = len(fake.seen)
    judged.shards(gate__baseline="run")
    assert len(fake.seen) == calls


def test_probabilities_and_second_opinions_survive_shards_the_cache_and_a_resumed_run(
    judged: Project, fake: FakeLlm
) -> None:
    def unsure(seen: Seen) -> web.Response | None:
        if seen.kind == "answer":
            answer = {"kind": "answers", "statements": [INVENTED, "Towers are buildings.", "It is tall."]}
            return web.json_response(fake.completion(seen, json.dumps({"answer": answer})))
        if PLANTED.search(seen.data):
            return None
        start, word, end = fake.text(seen).partition('"supported"')
        chance = (1 + zlib.crc32(seen.data.encode()) % 97) / 99
        written = [(start + '"', 1.0), (word[1:-1], chance), ('"' + end, 1.0)]
        tokens = [{"token": text, "logprob": math.log(p), "top_logprobs": []} for text, p in written]
        tokens[1]["top_logprobs"] = [{"token": "un", "logprob": math.log(1 - chance)}]
        document = fake.completion(seen, start + word + end)
        document["choices"][0]["logprobs"] = {"content": tokens}
        return web.json_response(document)

    def facts(run: RunDirectory | None) -> tuple[Any, Any, Any]:
        assert run is not None
        found = {one.sample.id: one for one in run.records()}
        supports = {name: one.judgements[0].support for name, one in found.items()}
        return supports, run.scores().metrics["faithfulness"].values, sorted(doubts_of(run), key=str)

    fake.always = unsure
    one = judged.gate(run__out="one").run
    expected = supports, scores, doubts = facts(one)
    assert len({support.supports[0].probability for support in supports.values()} - {None}) > N / 2
    assert len(set(scores.values())) > N / 2
    assert {(one.statement, one.verdict) for one in doubts} >= {(INVENTED, Verdict.SUPPORTED)}

    judged.shards()
    assert facts(judged.gate_merged().run) == expected

    calls = len(fake.seen)
    assert facts(judged.gate(run__out="two", gate__baseline="one").run) == expected
    path = judged.root / "three"
    shutil.copytree(judged.root / "one", path)
    lines = (path / "samples.jsonl").read_text("utf-8").splitlines(keepends=True)
    (path / "samples.jsonl").write_text("".join(lines[: N // 2]), "utf-8")
    write_manifest(path, RunDirectory.open(path).manifest.model_copy(update={"state": "running"}))
    assert facts(judged.gate(run__out="three", run__resume=True).run) == expected
    assert len(fake.seen) == calls


def test_each_canary_is_repeated_by_one_shard(judged: Project, fake: FakeLlm) -> None:
    judged.gate(run__out="main")
    calls = len(fake.seen)
    judged.shards(gate__baseline="main", judge__canaries=10)
    assert len(fake.seen) - calls == 10
    merged = judged.gate_merged(gate__baseline="main", judge__canaries=10)
    assert len(fake.seen) - calls == 10
    assert merged.run is not None
    assert merged.run.manifest.canaries is not None
    assert (merged.run.manifest.canaries.asked, merged.run.manifest.canaries.differing) == (10, 0)
    assert any("no change in the judge's behaviour: 0 of 10" in note for note in merged.verdict.notes)


def test_a_shard_has_its_share_of_the_budget(judged: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[JudgeSettings] = []

    def spy(settings: JudgeSettings, **more: Any) -> Judge:
        seen.append(settings)
        return build_judge(settings, **more)

    monkeypatch.setattr(sources, "build_judge", spy)
    run = judged.shard(1, judge__max_cost_usd=6.0, judge__requests_per_minute=3000)
    assert [(one.max_cost_usd, one.requests_per_minute) for one in seen] == [(2.0, 1000)]
    # What it takes to reproduce the run is the whole.
    assert run.manifest.invocation is not None
    assert run.manifest.invocation.options["judge.max_cost_usd"] == "6"


def test_merging_asks_no_judge_and_needs_no_key(judged: Project, fake: FakeLlm) -> None:
    judged.shards()
    calls = len(fake.seen)
    judged.environ = {}
    assert judged.gate_merged().verdict.status is Status.PASS
    assert len(fake.seen) == calls


def test_a_baseline_by_another_judge_is_judged_again_where_the_judge_is_offline(
    judged: Project, project: Project
) -> None:
    judged.gate(run__out="main")
    project.more = {"run.metrics": ("faithfulness",)}
    one, _ = same(project, gate__baseline="main")
    assert any("were judged again" in warning for warning in one.verdict.warnings)


@pytest.fixture
def changed(judged: Project) -> Project:
    """A project whose baseline was judged by another model, and whose system was changed since."""
    judged.gate(run__out="main")
    judged.more["judge.name"] = "openai:gpt-5.4-mini"
    judged.answer(*range(4))
    return judged


def test_shards_judge_the_baseline_again_each_its_part(changed: Project, fake: FakeLlm) -> None:
    one = changed.gate(gate__baseline="main")
    assert one.run is not None
    calls = len(fake.seen)
    changed.shards(gate__baseline="main")
    in_shards = len(fake.seen) - calls
    key, changed.environ = changed.environ, {}
    merged = changed.gate_merged(gate__baseline="main")
    assert len(fake.seen) - calls == in_shards
    assert any("were judged again by openai gpt-5.4-mini" in warning for warning in merged.verdict.warnings)
    assert merged.verdict == one.verdict
    assert merged.run is not None
    assert merged.run.manifest.cost.calls == one.run.manifest.cost.calls == in_shards
    # Nothing of it is left in the run.
    assert not (changed.root / "run" / "rejudged").exists()
    changed.environ = key


def test_a_shard_that_was_killed_while_it_judged_the_baseline_starts_that_over(changed: Project) -> None:
    changed.shard(1, gate__baseline="main")
    folder = changed.root / "shards" / "1" / "rejudged"
    expected = (folder / "samples.jsonl").read_bytes()
    for name in (".lock", ".manifest.json.tmp", ".samples.jsonl.tmp", "samples.jsonl"):
        (folder / name).write_bytes(b"{")
    changed.shard(1, gate__baseline="main", run__resume=True)
    ids = [json.loads(line)["sample"]["id"] for line in (folder / "samples.jsonl").read_bytes().splitlines()]
    assert ids == [json.loads(line)["sample"]["id"] for line in expected.splitlines()]
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "samples.jsonl"]


def test_if_a_shard_could_not_the_report_says_what_is_unguarded(changed: Project) -> None:
    changed.shards(gate__baseline="main")
    changed.environ = {}
    shutil.rmtree(changed.root / "shards" / "2" / "rejudged")
    (said,) = (one for one in changed.gate_merged(gate__baseline="main").verdict.warnings if "Unguarded" in one)
    assert "the baseline's answers were not judged again (1 shard of 3 can't be merged. shard 2 of 3 is missing" in said


def test_answers_that_are_not_the_baselines_are_not_compared_with(changed: Project) -> None:
    changed.shards(gate__baseline="main")
    path = changed.root / "shards" / "2" / "rejudged"
    rows = [json.loads(line) for line in (path / "samples.jsonl").read_bytes().splitlines()]
    rows[0]["response"]["answer"] = "It was as bad before."
    (path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    manifest = RunDirectory.open(path).manifest
    assert manifest.shard is not None
    shard = manifest.shard.model_copy(update={"digest": samples_digest(path)})
    write_manifest(path, manifest.model_copy(update={"shard": shard}))
    (said,) = (one for one in changed.gate_merged(gate__baseline="main").verdict.warnings if "Unguarded" in one)
    assert "the shards have another answer to" in said


def test_shards_that_knew_no_baseline_leave_it_to_the_merge(changed: Project) -> None:
    changed.shards()
    key, changed.environ = changed.environ, {}
    (said,) = (one for one in changed.gate_merged(gate__baseline="main").verdict.warnings if "Unguarded" in one)
    assert "the shards did not do it, and the judge can't be asked here" in said
    changed.environ = key
    warnings = changed.gate_merged(gate__baseline="main").verdict.warnings
    assert any("were judged again" in one for one in warnings)


# -- what needs the whole ----------------------------------------------------------------------------------------------


def test_a_shard_can_not_stop_early(project: Project) -> None:
    for attempt in (lambda: project.shard(1, run__stop_early=True), lambda: project.gate_merged(run__stop_early=True)):
        with pytest.raises(ConfigError, match=r"--stop-early can't be combined with --(shard|merge): it needs"):
            attempt()
    assert not (project.root / "shards").exists()


def test_a_shard_can_not_be_compared_with_a_base_commit(project: Project) -> None:
    with pytest.raises(ConfigError, match="--baseline-commit can't be combined with --shard"):
        project.shard(1, gate__baseline_commit="main")


def test_a_policy_that_confirms_says_that_merged_shards_were_not_confirmed(project: Project) -> None:
    project.gate(run__out="main")
    (project.root / "thresholds.toml").write_text(POLICY.replace("[gate]", "[gate]\nconfirm = true"), encoding="utf-8")
    project.answer(*range(5))
    project.shards(gate__baseline="main")
    found = project.gate_merged(gate__baseline="main")
    assert found.verdict.status is not Status.PASS
    assert "merged shards can't be asked again" in found.verdict.notes[0]


def test_a_shard_is_no_run_to_decide_on_and_no_baseline(project: Project) -> None:
    with pytest.raises(ConfigError, match="a verdict needs all shards"):
        project.gate(run__shard="1/3")
    shard = project.shard(1)
    with pytest.raises(RunDirectoryError, match="shard 1 of 3, a part of a run"):
        ComparedRun.of(shard)
    assert shard.manifest.standing.reason == "it is shard 1 of 3, a part of a run"


def test_a_shard_resumes_only_as_itself(project: Project) -> None:
    project.shard(1)
    settings = project.settings(run__shard="2/3", run__out="shards/1", run__resume=True)
    with pytest.raises(RunDirectoryError, match="shard differ"):
        asyncio.run(evaluate_shard(settings, project.context()))
    before = (project.root / "shards" / "1" / "manifest.json").read_bytes()
    project.shard(1, run__resume=True)
    assert (project.root / "shards" / "1" / "manifest.json").read_bytes() == before


# -- shards that are missing, damaged, or of another run ---------------------------------------------------------------


def records(project: Project, number: int) -> Path:
    return project.root / "shards" / str(number) / "samples.jsonl"


def cut(project: Project) -> None:
    lines = records(project, 2).read_bytes().splitlines(keepends=True)
    records(project, 2).write_bytes(b"".join(lines[:-1]))


def spoil(project: Project) -> None:
    records(project, 2).write_bytes(records(project, 2).read_bytes().replace(b"metres", b"meters", 1))


def garble(project: Project) -> None:
    records(project, 2).write_bytes(b"\xff\x00{" + records(project, 2).read_bytes())


def unfinished(project: Project) -> None:
    run = RunDirectory.open(project.root / "shards" / "2")
    write_manifest(run.path, run.manifest.model_copy(update={"state": "stopped"}))


def without_records(project: Project) -> None:
    records(project, 2).unlink()


def linked_away(project: Project) -> None:
    records(project, 2).unlink()
    records(project, 2).symlink_to("/dev/zero")


DAMAGE = [cut, spoil, garble, unfinished, without_records, linked_away]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_shard_is_named_and_nothing_is_written(project: Project, damage: Callable[[Project], None]) -> None:
    project.shards()
    damage(project)
    with pytest.raises(RunDirectoryError, match=r"shard 2 of 3 can't be used.*(samples.jsonl|shards/2)") as found:
        project.gate_merged()
    assert "--shard 2/3" in str(found.value.hint)
    assert not (project.root / "run").exists()


@pytest.mark.parametrize("damage", DAMAGE)
def test_or_its_samples_count_as_failures(project: Project, damage: Callable[[Project], None]) -> None:
    project.shards()
    lost = RunDirectory.open(project.root / "shards" / "2").manifest.counts.total
    damage(project)
    found = project.gate_merged(allow_missing=True)
    assert found.run is not None
    assert found.run.manifest.counts.total == N
    assert found.run.manifest.counts.system_failed == lost
    scores = found.run.scores()
    assert list(scores.samples) == [f"q{n}" for n in range(N)]
    assert len(scores.metrics["faithfulness"].failed) == lost
    # Never a smaller denominator: coverage is that of the whole golden set.
    assert found.verdict.status is Status.ERROR
    assert any("Shard 2 of 3" in one and f"Its {lost} samples count as failed" in one for one in found.verdict.warnings)


def test_a_missing_shard_counts_as_failures_too(project: Project) -> None:
    project.shards()
    shutil.rmtree(project.root / "shards" / "3")
    found = project.gate_merged(allow_missing=True)
    assert found.run is not None
    assert found.run.manifest.counts.total == N
    assert found.verdict.status is Status.ERROR
    failures = found.run.scores().system.failures.values()
    assert set(failures) == {"missing: shard 3 of 3 is missing or damaged"}
    assert found.verdict.diagnosis is None  # nothing crashed: the system was not asked


def test_a_manifest_that_can_not_be_read_is_shown_beside_what_is_missing(project: Project) -> None:
    project.shards()
    (project.root / "shards" / "2" / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunDirectoryError, match=r"(?s)shard 2 of 3 is missing.*a shard can't be read: .*shards/2"):
        project.gate_merged()


def test_a_shard_that_is_there_twice_is_named(project: Project) -> None:
    project.shards()
    shutil.copytree(project.root / "shards" / "2", project.root / "shards" / "again")
    with pytest.raises(RunDirectoryError, match="shard 2 of 3 is given twice"):
        project.gate_merged()


def test_the_same_folder_given_twice_is_one_shard(project: Project) -> None:
    project.shards()
    paths = (project.root / "shards", project.root / "shards" / "1")
    assert merge(Shards(paths), project.settings(), project.context()).shards == OF


def test_a_run_that_is_no_shard_is_refused(project: Project) -> None:
    project.shards()
    project.gate(run__out="shards/whole")
    with pytest.raises(RunDirectoryError, match="whole golden set, not a shard"):
        project.gate_merged()


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"run__metrics": ("token_f1",)}, "differs in the metrics"),
        ({"run__repeats": 2}, "differs in repeats"),
        ({"golden__limit": 20}, "differs in the golden set"),
        ({"system__entrypoint": "file:./outputs.jsonl"}, "the entrypoint"),
    ],
)
def test_a_shard_of_another_run_is_named_with_what_differs(project: Project, more: dict[str, Any], what: str) -> None:
    project.shards()
    project.shard(3, **more)
    with pytest.raises(RunDirectoryError, match=f"shard 3 of 3 does not belong to shard 1 of 3.*{what}"):
        project.gate_merged()


def test_a_shard_of_another_commit_is_named(project: Project) -> None:
    project.environ = {"GITHUB_SHA": "a" * 40}
    project.shards()
    project.environ = {"GITHUB_SHA": "b" * 40}
    project.shard(2)
    with pytest.raises(RunDirectoryError, match=r"shard 2 of 3 does not belong.*the commit"):
        project.gate_merged()


def test_shards_of_different_divisions_do_not_mix(project: Project) -> None:
    project.shards()
    project.shard(3, of=4)
    with pytest.raises(RunDirectoryError, match="the number of shards"):
        project.gate_merged()


def test_a_policy_that_was_changed_since_is_refused(project: Project) -> None:
    project.shards()
    (project.root / "thresholds.toml").write_text(POLICY.replace("0.05", "0.5"), encoding="utf-8")
    with pytest.raises(ConfigError, match="the policy here is not the one"):
        project.gate_merged()


def test_a_golden_set_that_was_changed_since_is_refused(project: Project) -> None:
    project.shards()
    project.golden([{"question": "Why?"} if n == 3 else {} for n in range(N)])
    with pytest.raises(RunDirectoryError, match="the golden set here is not the one"):
        project.gate_merged()


def test_a_golden_set_in_another_order_is_refused(project: Project) -> None:
    project.shards()
    lines = (project.root / "golden.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (project.root / "golden.jsonl").write_text("".join(reversed(lines)), encoding="utf-8")
    with pytest.raises(RunDirectoryError, match="other samples, or another order"):
        project.gate_merged()


def test_the_run_directory_must_not_be_a_shard(project: Project) -> None:
    project.shards()
    for out in ("shards/1", "shards/1/run"):
        with pytest.raises(ConfigError, match="must not contain each other"):
            project.gate_merged(run__out=out)
    assert (project.root / "shards" / "1" / "samples.jsonl").stat().st_size


def test_allow_missing_needs_the_golden_set(project: Project) -> None:
    project.shards()
    shutil.rmtree(project.root / "shards" / "1")
    settings = load_settings(directory=Path(), environ={}, overrides={"run.out": "run"})
    with pytest.raises(ConfigError, match="no golden set"):
        merge(Shards((Path("shards"),), allow_missing=True), settings, project.context())


# -- forged shards -----------------------------------------------------------------------------------------------------


def forge(project: Project, number: int, change: Callable[[list[Any]], None], *, places: str | None = None) -> None:
    """Write the shard with other records, and a manifest that fits them."""
    path = project.root / "shards" / str(number)
    rows = [json.loads(line) for line in records(project, number).read_bytes().splitlines()]
    change(rows)
    records(project, number).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    manifest = RunDirectory.open(path).manifest
    assert manifest.shard is not None
    shard = manifest.shard.model_copy(update={"digest": samples_digest(path)})
    if places is not None:
        shard = shard.model_copy(update={"places": places})
    counts = manifest.counts.model_copy(update={"scored": len(rows)})
    write_manifest(path, manifest.model_copy(update={"shard": shard, "counts": counts}))


def better_score(rows: list[Any]) -> None:
    rows[0]["scores"]["faithfulness"]["value"] = 0.123


def other_tags(rows: list[Any]) -> None:
    rows[0]["sample"]["tags"] = ["odd"]


def other_question(rows: list[Any]) -> None:
    rows[0]["sample"]["question"] = "How easy is this?"


def same_sample_twice(rows: list[Any]) -> None:
    rows[1] = rows[0]


def dropped(rows: list[Any]) -> None:
    rows.pop()


@pytest.mark.parametrize("change", [better_score, other_tags, other_question, same_sample_twice, dropped])
def test_a_forged_shard_is_found_out(project: Project, change: Callable[[list[Any]], None]) -> None:
    project.shards()
    forge(project, 2, change)
    with pytest.raises(RunDirectoryError, match="shard 2 of 3 can't be used"):
        project.gate_merged()


@pytest.mark.parametrize("change", [other_question, same_sample_twice, dropped])
def test_also_where_the_golden_set_is_not_at_hand(project: Project, change: Callable[[list[Any]], None]) -> None:
    project.shards()
    forge(project, 2, change)
    with pytest.raises(RunDirectoryError):
        merge(Shards((Path("shards"),)), project.settings(), project.context())


def test_places_that_overlap_are_found_out(project: Project) -> None:
    project.shards()
    shard = RunDirectory.open(project.root / "shards" / "2").manifest.shard
    assert shard is not None
    first, *gaps = shard.places.split()
    forge(project, 2, lambda rows: None, places=" ".join(["0" if first != "0" else "1", *gaps]))
    with pytest.raises(RunDirectoryError, match="together are not the golden set"):
        merge(Shards((Path("shards"),)), project.settings(), project.context())
    forge(project, 2, lambda rows: None, places="0 0")
    with pytest.raises(RunDirectoryError, match="the places do not ascend"):
        merge(Shards((Path("shards"),)), project.settings(), project.context())


def test_what_a_shard_claims_for_the_whole_run_is_not_taken_over(project: Project) -> None:
    project.shards()
    run = RunDirectory.open(project.root / "shards" / "1")
    claims = {"verdict": "pass", "confirmed": True, "same_job": True, "stop_reason": "::error::x"}
    write_manifest(run.path, run.manifest.model_copy(update=claims))
    merged = merge(Shards((Path("shards"),)), project.settings(), project.context()).run.manifest
    assert (merged.verdict, merged.confirmed, merged.same_job, merged.stop_reason) == (None, False, False, None)


def test_the_output_of_the_system_is_kept_by_shard(project: Project) -> None:
    project.shards()
    (project.root / "shards" / "2" / "system.log").write_text("hello from 2, sk-secret-key\n", encoding="utf-8")
    context = replace(project.context(), redact=lambda text: text.replace("sk-secret-key", "***"))  # type: ignore[arg-type]
    merge(Shards((Path("shards"),)), project.settings(), context)
    log = (project.root / "run" / "system.log").read_text(encoding="utf-8")
    assert log == "-- shard 2 of 3 --\nhello from 2, ***\n"
