"""A judge fitted to a team's own labels: learnt, graded on labels it has not seen, refused, and used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.directory import RunDirectory
from ragstone.judge.fitted import read_fitted
from ragstone.tools.judging import fit
from ragstone.tools.judging.fit import cross_validate, fit_model
from tests.cli.project import ragstone, read_json, write_rows

N = 48


def write_project(root: Path) -> None:
    """Answers that the offline judge finds alike; people fail those that are short."""
    golden, recorded, labels = [], [], []
    for i in range(N):
        short = f"Lamp {i} is from {1900 + i}."
        complete = f"{short} Lamp {i} weighs {i + 3} kilograms. The keeper of lamp {i} lives nearby."
        golden.append({"id": f"q{i}", "question": f"When was lamp {i} made?"})
        recorded.append({"id": f"q{i}", "answer": short if i % 2 else complete, "contexts": [complete]})
        labels.append({"id": f"q{i}", "faithfulness": "fail" if i % 2 else "pass"})
    for name, rows in (("golden", golden), ("answers", recorded), ("labels", labels)):
        write_rows(root / f"{name}.jsonl", rows)


RUN = (
    *("run", "--golden", "golden.jsonl", "--entrypoint", "file:answers.jsonl"),
    *("--metrics", "faithfulness hallucination"),
)


FIT = ("calibrate", "--run", "before")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with its run, and a judge that is fitted to its labels; for copying."""
    path = tmp_path_factory.mktemp("evaluated")
    write_project(path)
    ragstone([*RUN, "--out", "before"], path, exit_code=0)
    ragstone([*FIT, "labels.jsonl", "--fit", "judge.json"], path, exit_code=0)
    return path


@pytest.fixture
def labelled(evaluated: Path, tmp_path: Path) -> Path:
    return shutil.copytree(evaluated, tmp_path, dirs_exist_ok=True)


def test_a_judge_of_ones_own_is_one_command(labelled: Path) -> None:
    out = ragstone([*FIT, "labels.jsonl", "--fit", "judge.json"], labelled, exit_code=0).stdout
    assert f"faithfulness: fitted to {N} labels (24 pass, 24 fail)" in out
    fitted, digest = read_fitted(labelled / "judge.json")
    model = fitted.faithfulness
    assert model.cross_validated.auroc > 0.95 > model.offline.auroc
    assert model.cross_validated.brier < 0.1 < model.offline.brier
    assert f"before, by the plain offline judge     Brier score {model.offline.brier:.3f}, AUROC" in out
    assert f"after, on labels it was not fitted to  Brier score {model.cross_validated.brier:.3f}, AUROC" in out
    assert model.cross_validated.low is not None
    ragstone([*RUN, "--judge", "fitted:judge.json", "--out", "after"], labelled, exit_code=0)
    run = RunDirectory.open(labelled / "after")
    identity = run.manifest.judge
    assert identity is not None
    assert (identity.provider, identity.model, dict(identity.parameters)["sha256"]) == ("fitted", "judge.json", digest)
    values = run.scores().metrics["faithfulness"].values
    assert min(values[f"q{i}"] for i in range(0, N, 2)) > max(values[f"q{i}"] for i in range(1, N, 2))
    other = run.scores().metrics["hallucination"].values
    assert all(other[name] == pytest.approx(1.0 - value, abs=1e-6) for name, value in values.items())


def test_another_file_is_another_judge(labelled: Path) -> None:
    first = read_fitted(labelled / "judge.json")[1]
    checked = ragstone(["check", *RUN[1:5], "--judge", "fitted:judge.json"], labelled)
    assert f"judge.json sha256:{first}" in checked.stdout
    text = (labelled / "judge.json").read_text(encoding="utf-8")
    (labelled / "judge.json").write_text(text + "\n", encoding="utf-8")
    assert read_fitted(labelled / "judge.json")[1] != first
    with pytest.raises(ConfigError, match=r"is not in judge\.model_digests"):
        read_fitted(labelled / "judge.json", digests=[f"sha256:{first}"])


def test_too_few_labels_are_refused(labelled: Path) -> None:
    lines = (labelled / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    passes, fails = ([line for line in lines if word in line] for word in ("pass", "fail"))
    for few, says in (
        (lines[:29], "only 29 labelled answers can be used, and a judge is fitted to 30 or more"),
        ([*passes, *fails[:4]], "only 28 labelled answers can be used"),
    ):
        (labelled / "few.jsonl").write_text("\n".join(few), encoding="utf-8")
        assert says in ragstone([*FIT, "few.jsonl", "--fit", "none.json"], labelled, exit_code=2).stderr
    assert not (labelled / "none.json").exists()
    (labelled / "few.jsonl").write_text("\n".join(lines).replace("faithfulness", "hallucination"), encoding="utf-8")
    refused = ragstone([*FIT, "few.jsonl", "--fit", "none.json"], labelled, exit_code=2)
    assert "fitted to labels of faithfulness, but these are of hallucination" in refused.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"faithfulness": {}}, "faithfulness"),
        ({"code": "import os"}, "code"),
        ({"offline": "1"}, "fitted to the offline judge 1"),
        (lambda found: found["faithfulness"]["weights"].pop("least"), "weights of features that"),
    ],
)
def test_a_file_that_is_none_is_refused(labelled: Path, change: Any, says: str) -> None:
    document = read_json(labelled / "judge.json")
    if callable(change):
        change(document)
        change = {}
    (labelled / "judge.json").write_text(json.dumps({**document, **change}), encoding="utf-8")
    assert says in ragstone([*RUN, "--judge", "fitted:judge.json", "--out", "after"], labelled, exit_code=2).stderr


@pytest.mark.parametrize("text", ["[]", '{"faithfulness": NaN}', "x" * 1_000_001])
def test_what_is_no_judge_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "judge.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"judge\.json"):
        read_fitted(tmp_path / "judge.json")


def test_a_judge_outside_the_workspace_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "judge.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError):
        read_fitted(tmp_path / "judge.json", within=tmp_path / "inside")


def test_labels_of_noise_are_not_called_a_gain(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = [{"own": float(first), "other": float(second)} for first, second in rng.normal(size=(200, 2))]
    labels = [float(value > 0.5) for value in rng.random(200)]
    model = fit_model(rows, labels, [str(i) for i in range(200)])
    assert abs(model.cross_validated.auroc - 0.5) < 0.12


def test_labels_of_one_kind_are_refused() -> None:
    rows = [{"own": float(i)} for i in range(40)]
    with pytest.raises(ConfigError, match="only 4 of the labelled answers that can be used are labelled fail"):
        fit_model(rows, [float(i >= 4) for i in range(40)], [str(i) for i in range(40)])


def test_labels_of_one_conversation_are_refused() -> None:
    rows = [{"own": float(i)} for i in range(30)]
    labels = [float(i % 2) for i in range(30)]
    with pytest.raises(ConfigError, match="are of one group"):
        fit_model(rows, labels, ["the only conversation"] * 30)
    assert fit_model(rows, labels, ["one", "another"] * 15).groups == 2


def test_a_group_is_never_in_two_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    folds: list[tuple[set[float], set[float]]] = []

    def spy(table: Any, labels: Any, held_out: Any) -> Any:
        folds.append((set(table[:, 0]), set(held_out[:, 0])))
        return np.zeros(len(held_out))

    monkeypatch.setattr(fit, "predict", spy)
    groups = np.repeat(np.arange(30), 3)
    cross_validate(groups[:, None].astype(float), np.zeros(90), groups.astype(str))
    assert len(folds) == 10
    assert all(not training & held_out for training, held_out in folds)
    assert set().union(*(held_out for _, held_out in folds)) == set(range(30))
