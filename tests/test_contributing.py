"""What a contributor finds: issue forms that GitHub takes, hooks that run, and worked examples that work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")


def program(name: str) -> str:
    found = shutil.which(name, path=sysconfig.get_path("scripts"))
    return found or pytest.fail(f"{name} belongs to the lint group: pip install --group lint")


def test_issue_forms_fit_githubs_schemas() -> None:
    assert len(FORMS) >= 3
    for schema, files in (("issue-forms", FORMS), ("issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"])):
        command = [program("check-jsonschema"), "--builtin-schema", f"vendor.github-{schema}", *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with our hooks, run by the tools that these tests run with."""
    for name in (".pre-commit-config.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for folder in ("src", "tests", "bench", "scripts"):  # what mypy checks
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"any_of_{folder}.py").touch()
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(sysconfig.get_path("scripts"))
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return tmp_path


def run_hook(repository: Path, hook: str) -> subprocess.CompletedProcess[str]:
    subprocess.run(["git", "add", "--all"], cwd=repository, check=True)
    environ = {**os.environ, "PRE_COMMIT_HOME": str(repository / ".git" / "pre-commit")}
    command = [program("pre-commit"), "run", hook, "--all-files"]
    return subprocess.run(command, cwd=repository, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("hook", "source", "said"),
    [
        ("ruff", "import undefined_name\nprint(other)\n", "F821"),
        ("ruff-format", "x = [ 1,2 ]\n", "files were modified by this hook"),
        ("mypy", "x: int = 'text'\n", "Incompatible types in assignment"),
    ],
)
def test_a_hook_stops_what_it_is_for_and_passes_what_is_clean(
    hook: str, source: str, said: str, repository: Path
) -> None:
    file = repository / "src" / "new.py"
    file.write_text(source, encoding="utf-8")
    refused = run_hook(repository, hook)
    assert (refused.returncode, said in refused.stdout) == (1, True), refused.stdout + refused.stderr
    file.write_text("x = 1\n", encoding="utf-8")
    passed = run_hook(repository, hook)
    assert passed.returncode == 0, passed.stdout + passed.stderr


def test_the_hook_for_generated_files_runs_where_their_sources_change() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    (hook,) = [hook for hook in hooks if hook["id"] == "generated"]
    target = hook["entry"].removeprefix("make ")
    done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "scripts/action_file.py" in done.stdout
    assert "docs/configuration.md" in done.stdout


# The worked examples: each is applied to a copy of the code, and its tests run there.

EXAMPLES = sorted((ROOT / "examples" / "extending").glob("*.patch"))


def run_in(copy: Path, *command: str) -> None:
    environ = {**os.environ, "PYTHONPATH": str(copy / "src")}
    done = subprocess.run(command, cwd=copy, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("patch", EXAMPLES, ids=lambda path: path.stem)
def test_a_worked_example_works(patch: Path, tmp_path: Path) -> None:
    for folder in ("src", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "action.yml", "docs/github-action.md", "docs/configuration.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    run_in(tmp_path, "git", "apply", "--verbose", str(patch))
    names = re.findall(r"^\+\+\+ b/(\S+\.py)$", patch.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for command in (("check",), ("format", "--check")):
        run_in(tmp_path, program("ruff"), *command, "--no-cache", *names, "src")
    tests = [name for name in names if name.startswith("tests/")]
    assert tests
    run_in(tmp_path, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    if patch.stem == "input":
        run_in(tmp_path, sys.executable, "scripts/action_file.py")
        assert "  repeats:\n" in (tmp_path / "action.yml").read_text(encoding="utf-8")
