"""Holding a judge against people, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from ragstone.cli.calibrate import command
from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.gate.calibration import read_calibration

WriteRun = Callable[..., RunDirectory]
IDS = [f"q{i}" for i in range(40)]


@pytest.fixture
def run(tmp_path: Path, write_run: WriteRun) -> RunDirectory:
    return write_run(tmp_path / "run", {"faithfulness": {i: (k % 4) / 3 for k, i in enumerate(IDS)}})


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    rows = [f"{i},{'pass' if k % 4 >= 2 else 'fail'},{who}" for k, i in enumerate(IDS[:20]) for who in ("ann", "bob")]
    path.write_text("id,label,annotator\n" + "\n".join(rows))
    return path


def test_people_read_sentences_programs_json_and_the_gate_a_file(
    run: RunDirectory, labels: Path, tmp_path: Path
) -> None:
    out = tmp_path / "calibration.json"
    arguments = [str(labels), "--run", str(run.path), "--metric", "faithfulness"]
    done = CliRunner().invoke(command, [*arguments, "-o", str(out)], catch_exceptions=False)
    assert "faithfulness: 20 labelled samples" in done.stdout
    assert "agreement among 2 people" in done.stdout
    assert "equal on 100 %" in done.stdout
    written = read_calibration(out)
    assert written.judge == run.manifest.judge
    assert len(written.metrics["faithfulness"].pairs) == 20
    document = json.loads(CliRunner().invoke(command, [*arguments, "--format", "json"], catch_exceptions=False).stdout)
    assert document["metrics"]["faithfulness"]["kappa"]["estimate"] == 1.0


def test_labels_that_name_no_metric_are_refused_with_the_way_out(run: RunDirectory, labels: Path) -> None:
    with pytest.raises(ConfigError, match="--metric"):
        CliRunner().invoke(command, [str(labels), "--run", str(run.path)], catch_exceptions=False)


def test_the_judges_ranking_is_measured_where_people_passed_some_and_failed_some(
    run: RunDirectory, tmp_path: Path
) -> None:
    def ranking(labels: list[str]) -> object:
        path = tmp_path / "ranked.csv"
        path.write_text("id,label\n" + "".join(f"q{at},{label}\n" for at, label in enumerate(labels)), "utf-8")
        arguments = [str(path), "--run", str(run.path), "--metric", "faithfulness", "--format", "json"]
        document = json.loads(CliRunner().invoke(command, arguments, catch_exceptions=False).stdout)
        return document["metrics"]["faithfulness"]["auroc"]

    # The judge's scores are 0, 1/3, 2/3 and 1, again and again: three of the four pairs are in people's order.
    found = ranking(["fail", "pass", "fail", "pass"] * 5)
    assert isinstance(found, dict)
    assert found["estimate"] == 0.75
    assert found["low"] < 0.75 < found["high"]
    assert ranking(["pass"] * 8) is None
