"""Run directories written without a system or a judge, and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ragstone.cli.main import main
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.manifest import GoldenManifest, Manifest, SystemManifest
from ragstone.evaluation.record import record_line
from ragstone.evaluation.writer import RunWriter
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.protocol import JudgeIdentity
from ragstone.metrics.score import Scored
from ragstone.system.response import Context, Response
from tests.evaluation.builders import one_answer
from tests.judge.conftest import FakeLlm, Loop
from tests.pipeline.project import Project

WriteRun = Callable[..., RunDirectory]
Ragstone = Callable[..., tuple[int, str, str]]
"""Exit code, output, errors of the command line."""


def write(path: Path, scores: Mapping[str, Mapping[str, float]], *, judge: str = "offline") -> RunDirectory:
    """A finished run whose `scores` are by metric and sample id."""
    ids = list(dict.fromkeys(sample_id for values in scores.values() for sample_id in values))
    golden = GoldenSet(tuple(Sample(id=i, question=f"Which is {i}?", reference=f"It is {i}.") for i in ids))
    manifest = Manifest(
        ragstone_version="1",
        state="running",
        created_at="2026-11-21T00:00:00+00:00",
        golden=GoldenManifest(files=("golden.jsonl",), content_hash=golden.content_hash(), samples=len(ids)),
        judge=JudgeIdentity(provider=judge, model="m", version="1"),
        system=SystemManifest(entrypoint="app:answer"),
        metrics=dict.fromkeys(scores, "1"),
    )
    writer = RunWriter.create(path, manifest)
    for sample in golden:
        response = Response(sample.id, answer=f"It is {sample.id}.", contexts=(Context(f"It is {sample.id}, we say."),))
        own = {metric: Scored(values[sample.id]) for metric, values in scores.items() if sample.id in values}
        writer.append(record_line(one_answer(sample, response, (), own)))
    return writer.finish(ids, wall_s=1.0)


@pytest.fixture
def write_run() -> WriteRun:
    return write


@pytest.fixture
def ragstone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ragstone:
    """The command line, run in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return call


@pytest.fixture
def fake() -> Iterator[FakeLlm]:
    loop = Loop()
    yield loop.serve(FakeLlm())
    loop.close()


@pytest.fixture
def project(tmp_path: Path, fake: FakeLlm) -> Project:
    return Project(tmp_path, fake)
