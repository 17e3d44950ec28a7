"""`--no-skips`, with which CI runs: what is skipped for a reason that nobody allowed fails the run, and is named."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.needs import DATA_SETS, ROOT

REPOSITORY = Path(__file__).parents[1]


def run_pytest(folder: Path, sources: Mapping[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    for name, source in {**sources, "passes": "def test_passes(): pass"}.items():
        (folder / f"test_{name}.py").write_text(f"import pytest\n{source}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(REPOSITORY / "pyproject.toml"), "-p", "tests.conftest"]
    command += ["-p", "no:cacheprovider", *options, str(folder)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("processes")
def test_a_skip_fails_the_run_and_is_named(tmp_path: Path) -> None:
    sources = {
        "marked": "@pytest.mark.skipif(True, reason='there is no npm')\ndef test_skipped(): pass",
        "called": "def test_skipped(): pytest.skip('there is no npm')",
        "module": "pytest.skip('there is no npm', allow_module_level=True)",
    }
    done = run_pytest(tmp_path, sources, "--no-skips", "-n", "2")
    assert done.returncode == 1, done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("ERROR --no-skips")]
    assert len(lines) == len(sources)
    for name in sources:
        (line,) = [line for line in lines if f"test_{name}.py" in line]
        assert line.endswith("was skipped: there is no npm")


@pytest.mark.usefixtures("processes")
def test_a_reason_that_is_allowed_does_not(tmp_path: Path) -> None:
    reasons = [ROOT, f"{DATA_SETS}: begin.jsonl.gz"]
    sources = {f"skips_{n}": f"def test_skipped(): pytest.skip({reason!r})" for n, reason in enumerate(reasons)}
    done = run_pytest(tmp_path, sources, "--no-skips", "-n", "0")
    assert done.returncode == 0, done.stdout
    assert all(reason in done.stdout for reason in reasons)


@pytest.mark.parametrize("name", [".ci/run", ".github/workflows/ci.yml"])
def test_ci_runs_with_the_option(name: str) -> None:
    assert re.search(r"PYTEST_ARGS(=\"|: )--no-skips", (REPOSITORY / name).read_text(encoding="utf-8"))
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    runs = re.findall(r"^.*-m pytest .*$", makefile, re.MULTILINE)
    assert len(runs) >= 7
    assert all(line.endswith("$(PYTEST_ARGS)") for line in runs)


def test_every_file_of_tests_that_need_root_is_run_as_root() -> None:
    users = {
        path.relative_to(REPOSITORY).as_posix()
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        if re.search("^from tests.needs import needs_root$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    (target,) = re.findall(r"^test-as-root:(?:.*\n\t)+.*", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.M)
    assert users == set(re.findall(r"tests/\S+\.py", target))
