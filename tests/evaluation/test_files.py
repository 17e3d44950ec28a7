"""A run directory that came from elsewhere can neither hang a reader nor send a writer to another place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragstone.errors import RunDirectoryError
from ragstone.evaluation.directory import MANIFEST, SAMPLES, RunDirectory
from ragstone.evaluation.files import replace_text
from ragstone.evaluation.record import record_line
from ragstone.evaluation.writer import RunWriter
from tests.evaluation.builders import finished_run, manifest, record, samples, unfinished_run

GOLDEN = samples(3)


@pytest.mark.parametrize("name", [MANIFEST, SAMPLES])
def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    run = finished_run(tmp_path / "run", GOLDEN)
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    with pytest.raises(RunDirectoryError, match="not a regular file") as caught:
        RunDirectory.open(run.path).scores()
    assert (caught.value.where or "").endswith(name)


def test_a_new_run_replaces_links_and_writes_through_none(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    run = finished_run(tmp_path / "run", GOLDEN)
    for name in (SAMPLES, f".{MANIFEST}.tmp", f".{SAMPLES}.tmp"):
        (run.path / name).unlink(missing_ok=True)
        (run.path / name).symlink_to(victim)
    again = RunWriter.create(run.path, manifest(GOLDEN))
    for sample in reversed(GOLDEN.samples):  # so that finish has to sort
        again.append(record_line(record(sample)))
    again.finish((s.id for s in GOLDEN), wall_s=1.0)
    assert victim.read_text() == "mine"
    assert not (run.path / SAMPLES).is_symlink()
    assert len(list(RunDirectory.open(run.path).records())) == 3


def test_resuming_never_cuts_or_extends_what_a_link_points_at(tmp_path: Path) -> None:
    unfinished_run(tmp_path / "run", GOLDEN, upto=1).close()
    victim = tmp_path / "victim"
    (tmp_path / "run" / SAMPLES).replace(victim)
    (tmp_path / "run" / SAMPLES).symlink_to(victim)
    before = victim.read_bytes()
    with pytest.raises(RunDirectoryError, match="link"):
        RunWriter.resume(tmp_path / "run", manifest(GOLDEN))
    assert victim.read_bytes() == before


def test_text_is_replaced_in_one_step(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "report.md"
    victim.write_text("mine")
    link.symlink_to(victim)
    replace_text(link, "ü\n")
    assert (victim.read_text(), link.read_bytes()) == ("mine", "ü\n".encode())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.md", "victim"]
