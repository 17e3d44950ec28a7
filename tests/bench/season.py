"""A season of merges: main runs and their pull requests, through the real job, over a fake GitHub.

Each merge is a pull request's job and then main's own job, as the action runs them: baseline from the artifacts, judged
answers, verdict, comment, artifact. What is simulated: the system (recorded answers that hold their own truth; 40 % are
generated anew in every run), the judge (reads that truth, each verdict wrong with chance 0.03 and never cached), the
clock (20 merges a week), and GitHub. What happens when is in `episodes`, and how much is lost in `LOSSES`; answers are
recorded, so the system is not asked again before a run fails.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import ragstone.evaluation.rounds.sources as sources
from ragstone.github.api.client import RetryPolicy
from ragstone.github.run_job import run_on_github
from ragstone.judge.judgements import (
    ContextUse,
    ContextUsefulness,
    ReverseQuestions,
    Statement,
    StatementList,
    Support,
    SupportTable,
    Verdict,
    context_id,
)
from ragstone.judge.protocol import JudgeIdentity
from ragstone.settings.load import load_settings
from tests.github.api.fake import TOKEN, FakeGitHub
from tests.github.api.payloads import pull_request, runner, with_payload
from tests.github.api.test_text_channels import parse_outputs

METRICS = ("faithfulness", "answer_relevancy", "context_recall", "context_precision")
MEANS = {"faithfulness": 0.9, "answer_relevancy": 0.85, "context_recall": 0.85, "context_precision": 0.75}
POLICY = """
[gate]
only_named = true
[metrics.faithfulness]
min = 0.77
max_drop = 0.02
[metrics.answer_relevancy]
min = 0.74
max_drop = 0.02
[metrics.context_recall]
min = 0.58
max_drop = 0.02
[metrics.context_precision]
min = 0.70
max_drop = 0.02
"""
RENEWED = 0.4
JUDGE_ERROR = 0.03
MERGE_EVERY = timedelta(hours=8.4)
EXPIRY = timedelta(days=90)
QUICK = RetryPolicy(timeout_s=5, first_pause_s=0.0, max_pause_s=0.01, total_pause_s=1.0, settle_s=0.0)


# -- the simulated system and judge ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """The true quality of one answer: its statements, what its contexts support, which are useful, how near it is."""

    statements: tuple[bool, ...]
    held: tuple[bool, ...]
    useful: tuple[bool, ...]
    near: float

    def row(self, sample_id: str) -> dict[str, object]:
        def bits(flags: Sequence[bool]) -> str:
            return "".join("1" if flag else "0" for flag in flags)

        contexts = [f"{bits(self.held)} {int(flag)} passage {rank}" for rank, flag in enumerate(self.useful)]
        return {"id": sample_id, "answer": f"{bits(self.statements)} {self.near:.3f}", "contexts": contexts}


class System:
    """The answers of one version of the system; `loss` is what each metric has lost, as a share of 1."""

    def __init__(self, rng: np.random.Generator, samples: int) -> None:
        self._rng = rng
        self._skill: list[dict[str, float]] = []
        self.loss = dict.fromkeys(METRICS, 0.0)
        self.answers: list[Answer] = []
        self.grow(samples)

    def grow(self, by: int) -> None:
        for _ in range(by):
            self._skill.append({m: float(np.clip(MEANS[m] + self._rng.normal(0, 0.08), 0.3, 0.98)) for m in METRICS})
            self.answers.append(self._answer(self._skill[-1]))

    def again(self, share: float = RENEWED) -> None:
        """Answer every question again; `share` of the answers are new."""
        for index, skill in enumerate(self._skill):
            if self._rng.random() < share:
                self.answers[index] = self._answer(skill)

    def _answer(self, skill: dict[str, float]) -> Answer:
        p = {metric: max(0.0, skill[metric] - self.loss[metric]) for metric in METRICS}
        rng = self._rng
        return Answer(
            tuple(bool(x) for x in rng.random(4) < p["faithfulness"]),
            tuple(bool(x) for x in rng.random(3) < p["context_recall"]),
            tuple(bool(x) for x in rng.random(5) < p["context_precision"]),
            float(np.clip(rng.normal(p["answer_relevancy"], 0.07), 0.0, 1.0)),
        )

    def rows(self) -> list[dict[str, object]]:
        return [answer.row(f"q{index}") for index, answer in enumerate(self.answers)]


class FlakyJudge:
    """Reads the truth off the texts, and gets each verdict wrong with chance JUDGE_ERROR."""

    concurrency = 1

    def __init__(self, rng: np.random.Generator, model: str) -> None:
        self._rng = rng
        self.identity = JudgeIdentity(provider="openai", model=model, version="1")

    def _seen(self, bit: str) -> bool:
        return (bit == "1") != bool(self._rng.random() < JUDGE_ERROR)

    def _support(self, prefix: str, bits: str) -> tuple[Support, ...]:
        verdicts = [Verdict.SUPPORTED if self._seen(bit) else Verdict.UNSUPPORTED for bit in bits]
        return tuple(
            Support(f"{prefix}{number}", verdict, ("c1",) if verdict is Verdict.SUPPORTED else ())
            for number, verdict in enumerate(verdicts, 1)
        )

    async def statements(self, question: str, answer: str, **_: object) -> StatementList:
        bits = answer.split()[0]
        return StatementList(tuple(Statement(f"s{n}", f"{n} {bit}") for n, bit in enumerate(bits, 1)), abstains=False)

    async def support(self, contexts: object, statements: Sequence[Statement], **_: object) -> SupportTable:
        return SupportTable(self._support("s", "".join(statement.text.split()[1] for statement in statements)))

    async def context_use(
        self, question: str, reference: str | None, answer: str, contexts: Sequence[Any], **_: object
    ) -> ContextUse:
        held = contexts[0].text.split()[0]
        return ContextUse(
            tuple(
                ContextUsefulness(context_id(rank), self._seen(context.text.split()[1]))
                for rank, context in enumerate(contexts)
            ),
            against_reference=True,
            reference_statements=tuple(Statement(f"r{n}", f"fact {n}") for n in range(1, len(held) + 1)),
            attributions=self._support("r", held),
        )

    async def reverse_questions(self, question: str, answer: str, **_: object) -> ReverseQuestions:
        near = float(np.clip(float(answer.split()[1]) + self._rng.normal(0, 0.02), 0.0, 1.0))
        return ReverseQuestions(("q",), (near,))

    async def close(self) -> None:
        return None


# -- the repository, its GitHub, and the jobs --------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """The result of one job.

    `baseline` is the index of the merge whose run it was compared with.
    """

    merge: int
    kind: str  # "main" or "pull request"
    healthy: bool
    code: int
    verdict: str
    guarded: bool
    warned: bool
    baseline: int | None
    text: str = field(repr=False, default="")


class Repository:
    """A workspace, the fake GitHub over it, and the clock."""

    def __init__(self, folder: Path, github: FakeGitHub, *, samples: int) -> None:
        self.rng = np.random.Generator(np.random.PCG64(1))
        self.root, self.files, self.github = folder / "workspace", folder / "runner", github
        self.root.mkdir()
        self.files.mkdir()
        self.system = System(self.rng, samples)
        self.judge_model = "judge-1"
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self._merge_of: dict[int, int] = {}
        self._uploaded: list[tuple[datetime, dict[str, Any]]] = []
        (self.root / "thresholds.toml").write_text(POLICY)
        (self.root / "ragstone.toml").write_text(
            '[golden]\npaths = ["golden.jsonl"]\n[system]\nentrypoint = "file:outputs.jsonl"\n'
            f"[run]\nmetrics = {json.dumps(METRICS)}\n"
        )
        self.write_golden()

    def write_golden(self) -> None:
        rows = [
            {"id": f"q{index}", "question": f"What is the answer to question {index}?", "reference": "Three facts."}
            for index in range(len(self.system.answers))
        ]
        (self.root / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def pass_time(self, by: timedelta) -> None:
        """Let the clock run; artifacts over 90 days old are gone."""
        self.now += by
        while self._uploaded and self._uploaded[0][0] < self.now - EXPIRY:
            _, artifact = self._uploaded.pop(0)
            artifact["expired"] = True
            self.github.artifacts[artifact["id"]] = (artifact, b"")

    def pull_request(self, merge: int, *, healthy: bool) -> Job:
        sha = f"{merge:08x}{'a' * 32}"
        payload = pull_request(number=merge + 1)
        payload["pull_request"]["head"]["sha"] = sha
        payload["pull_request"]["base"]["sha"] = f"{merge - 1:08x}{'b' * 32}" if merge else "c" * 40
        run_id = 2 * merge + 1_000_001
        self.github.add_run(
            run_id,
            event="pull_request",
            branch=f"topic-{merge}",
            sha=sha,
            status="in_progress",
            created_at=self._stamp(),
        )
        job = self._job(merge, "pull request", "pull_request", payload, run_id, sha, healthy)
        self._complete(run_id, sha, job)
        return job

    def main(self, merge: int, *, healthy: bool, cancelled: bool) -> Job | None:
        """The job of the merge on main. A cancelled one leaves a run without an artifact, and None."""
        sha, run_id = f"{merge:08x}{'b' * 32}", 2 * merge + 1_000_000
        self.github.merged.add(sha)
        self.github.files = {sha: {path.name: path.read_bytes() for path in self.root.iterdir() if path.is_file()}}
        status = "completed" if cancelled else "in_progress"
        self.github.add_run(run_id, sha=sha, status=status, conclusion="cancelled", created_at=self._stamp())
        if cancelled:
            return None
        self._merge_of[run_id] = merge
        payload = {"repository": pull_request()["repository"], "ref": "refs/heads/main"}
        job = self._job(merge, "main", "push", payload, run_id, sha, healthy)
        self._complete(run_id, sha, job)
        return job

    def _job(self, merge: int, kind: str, event: str, payload: object, run_id: int, sha: str, healthy: bool) -> Job:
        (self.root / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.system.rows()))
        for name in ("output", "summary"):
            (self.files / name).write_text("")
        environ = runner(
            event,
            GITHUB_API_URL=self.github.api_url,
            GITHUB_WORKSPACE=str(self.root),
            GITHUB_OUTPUT=str(self.files / "output"),
            GITHUB_STEP_SUMMARY=str(self.files / "summary"),
            GITHUB_RUN_ID=str(run_id),
            GITHUB_SHA=sha,
            GITHUB_TOKEN=TOKEN,
            PATH="/usr/bin:/bin",
        )
        environ = with_payload(environ, payload, self.files)
        settings = load_settings(directory=self.root, environ=environ, overrides={})
        log = io.StringIO()
        judge = FlakyJudge(self.rng, self.judge_model)
        with patch.object(sources, "build_judge", lambda *_, **__: judge):
            job = run_on_github(settings, environ=environ, out=log, retry_policy=QUICK, now=lambda: self.now)
            code = asyncio.run(job)
        outputs = parse_outputs((self.files / "output").read_text())
        report_file = self.root / "ragstone-run" / "report.json"
        report = json.loads(report_file.read_text()) if report_file.is_file() else {}
        dropped = {check["metric"] for check in report.get("checks", ()) if check["kind"] == "drop"}
        baseline = outputs.get("baseline-run-id") or ""
        return Job(
            merge,
            kind,
            healthy,
            code,
            outputs.get("verdict", ""),
            guarded=dropped >= set(METRICS),
            warned=any(finding["level"] in ("warning", "aside") for finding in report.get("findings", ())),
            baseline=self._merge_of.get(int(baseline)) if baseline else None,
            text=(self.files / "summary").read_text() or log.getvalue(),
        )

    def _complete(self, run_id: int, sha: str, job: Job) -> None:
        run = next(run for run in reversed(self.github.runs) if run["id"] == run_id)
        run.update(status="completed", conclusion="success" if job.code == 0 else "failure")
        out = self.root / "ragstone-run"
        if out.is_dir():
            mine = job.kind == "main"
            found = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file() and mine}
            artifact = self.github.add_artifact(run_id, found)
            artifact["workflow_run"].update(head_sha=sha)
            artifact["created_at"] = self._stamp()
            self._uploaded.append((self.now, artifact))

    def _stamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")


# -- what happens when -------------------------------------------------------------------------------------------------


def episodes(merges: int) -> dict[str, range]:
    """The merges of the season's events, at the same shares of it whatever its length."""

    def at(share: float, length: int) -> range:
        start = round(share * merges)
        return range(start, start + max(1, round(length * min(1.0, merges / 400))))

    return {
        "broken week": at(0.10, 20),
        "revert": at(0.20, 3),
        "smaller loss": at(0.24, 3),
        "trade-off": at(0.28, 1),
        "small loss": at(0.32, 3),
        "runs cancelled": at(0.36, 60),
        "golden set grows": at(0.48, 1),
        "slow loss": at(0.55, 40),
        "judge changes": at(0.72, 1),
        "nobody merges for 100 days": at(0.84, 1),
    }


CANCELLED = 0.1
TRADE_OFF = 0.16
TRADED = "context_recall"
SLOW = 0.005
LOSSES = {
    "broken week": dict.fromkeys(("faithfulness", "context_recall"), 0.15),
    "revert": dict.fromkeys(("faithfulness", "context_recall"), 0.15),
    "smaller loss": {"faithfulness": 0.10},
    "small loss": {"faithfulness": 0.05},
}
"""What each metric loses in an episode."""


@dataclass
class Season:
    """All jobs of a season, and what happened besides."""

    jobs: list[Job] = field(default_factory=list)
    rerun: list[Job] = field(default_factory=list)  # pull requests again, after an acceptance was added
    accepted_at: int | None = None
    removable_at: int | None = None

    def of(self, kind: str, *, healthy: bool | None = None) -> list[Job]:
        return [job for job in self.jobs if job.kind == kind and (healthy is None or job.healthy is healthy)]

    def age(self, job: Job) -> int | None:
        """How many finished main runs of a healthy system are newer than the baseline of `job`."""
        if job.baseline is None:
            return None
        return sum(job.baseline < main.merge < job.merge for main in self.of("main", healthy=True))


def simulate(folder: Path, github: FakeGitHub, *, merges: int, samples: int) -> Season:
    repository = Repository(folder, github, samples=samples)
    season, when, rng = Season(), episodes(merges), repository.rng
    system = repository.system
    lost, alarmed = 0.0, False
    for merge in range(merges):
        repository.pass_time(MERGE_EVERY)
        before = dict(system.loss)
        healthy = True
        episode = next((name for name in LOSSES if merge in when[name]), None)
        system.loss.update(dict.fromkeys(METRICS, 0.0))
        if episode is not None:
            system.loss.update(LOSSES[episode])
            healthy = False
        elif merge in when["slow loss"] and not alarmed:
            lost += SLOW
            system.loss.update(dict.fromkeys(METRICS, lost))
            healthy = False
        else:
            lost = 0.0
        if merge >= when["trade-off"].start:
            system.loss[TRADED] += TRADE_OFF
        if merge == when["golden set grows"].start:
            system.grow(max(2, samples // 4))
            repository.write_golden()
        if merge == when["judge changes"].start:
            repository.judge_model = "judge-2"
        if merge == when["nobody merges for 100 days"].start:
            repository.pass_time(timedelta(days=100))
        slowly = merge in when["slow loss"]
        system.again(RENEWED if system.loss == before or slowly else 1.0)

        trading = merge == when["trade-off"].start
        job = repository.pull_request(merge, healthy=healthy and not trading)
        season.jobs.append(job)
        if trading and job.code == 1:
            accept_by_command(repository.root, TRADED)
            season.accepted_at = merge
            season.rerun.append(repository.pull_request(merge, healthy=True))
        system.again()
        streak = merge in when["runs cancelled"]
        cancelled = streak or (bool(rng.random() < CANCELLED) and not trading)
        main = repository.main(merge, healthy=healthy, cancelled=cancelled)
        if main is not None:
            season.jobs.append(main)
            alarmed = alarmed or (slowly and main.verdict == "fail")
        if season.accepted_at is not None and season.removable_at is None and "is spent" in job.text:
            season.removable_at = merge
            (repository.root / "accepted.toml").unlink(missing_ok=True)
    return season


def accept_by_command(workspace: Path, metric: str) -> None:
    """Run the command that the failing comment suggests."""
    from click.testing import CliRunner

    from ragstone.cli.main import cli

    here = Path.cwd()
    os.chdir(workspace)
    try:
        result = CliRunner().invoke(cli, ["accept", "ragstone-run", "--metric", metric, "--reason", "Half the price."])
    finally:
        os.chdir(here)
    if result.exit_code != 0:
        raise RuntimeError(f"ragstone accept: {result.output}")
