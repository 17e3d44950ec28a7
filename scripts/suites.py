"""Which of the long suites a change needs: files of heavy tests, the browser, the container.

A suite runs if the change touches what it covers, and otherwise in turns, so that each file of heavy tests runs with
one commit in four whatever the change. Prints a line a suite, as a step of a workflow gives outputs: `heavy=` with the
files, `browser=` and `container=` with `yes` or nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TURNS = 4
"""Of how many commits one runs a suite that the change doesn't touch."""
EVERYTHING = (
    ".ci/",
    ".github/workflows/ci.yml",
    "Makefile",
    "pyproject.toml",
    "requirements/test.txt",
    "scripts/suites.py",
    "tests/conftest.py",
    "tests/levels.py",
    "tests/needs.py",
)
"""A change here can break any suite."""
HEAVY_COVERS = {
    "tests/bench/": (
        "bench/",
        "src/ragstone/gate/",
        "src/ragstone/history/",
        "src/ragstone/judge/",
        "src/ragstone/stats/",
    ),
    "tests/cli/": ("src/ragstone/",),
    "tests/scripts/": ("scripts/", "action.yml", "requirements/"),
}
"""What heavy tests cover beside the room that their folder mirrors."""
BROWSER_COVERS = (
    "README.md",
    "docs/",
    "scripts/docs_site.py",
    "src/ragstone/report/",
    "src/ragstone/tools/",
    "tests/report/",
    "tests/tools/",
    "zensical.toml",
)
CONTAINER_COVERS = (
    "Dockerfile",
    "action.yml",
    "requirements/image.txt",
    "scripts/build-image",
    "src/ragstone/action.py",
    "src/ragstone/files.py",
    "src/ragstone/github/",
    "src/ragstone/system/",
    "tests/container/",
    "tests/image/",
)


@dataclass(frozen=True, slots=True)
class Suites:
    """Files of heavy tests to run, and whether to run the tests in the browser and in the container."""

    heavy: tuple[str, ...]
    browser: bool
    container: bool


def suites_for(changed: Sequence[str] | None, commit: str, heavy_files: Sequence[str]) -> Suites:
    """What to run for a change of these files at `commit`; without a list of files, everything."""
    if changed is None or _touches(changed, EVERYTHING):
        return Suites(tuple(heavy_files), browser=True, container=True)
    return Suites(
        heavy=tuple(file for file in heavy_files if _touches(changed, _covered(file)) or _has_its_turn(file, commit)),
        browser=_touches(changed, BROWSER_COVERS) or _has_its_turn("browser", commit),
        container=_touches(changed, CONTAINER_COVERS) or _has_its_turn("container", commit),
    )


def _covered(test_file: str) -> tuple[str, ...]:
    room = test_file.split("/")[1]
    folder = f"tests/{room}/"
    return (folder, f"src/ragstone/{room}/", *HEAVY_COVERS.get(folder, ()))


def _touches(changed: Iterable[str], covered: tuple[str, ...]) -> bool:
    return any(path.startswith(covered) for path in changed)


def _has_its_turn(suite: str, commit: str) -> bool:
    return int(hashlib.sha256(f"{commit} {suite}".encode()).hexdigest(), 16) % TURNS == 0


def heavy_test_files() -> list[str]:
    """The test files in which a test is marked as heavy."""
    return _git("grep", "-lE", r"pytest\.mark\.heavy", "--", "tests/").splitlines()


def changed_files(base: str | None) -> list[str] | None:
    """The files changed since `base`, else since where the branch left `origin/main`, else in the last commit.

    None if git knows none of these, as in a checkout of one commit.
    """
    for start in (base, _merge_base(), "HEAD^"):
        if start and _is_commit(start):
            return _git("diff", "--name-only", start, "HEAD").splitlines()
    return None


def _merge_base() -> str | None:
    if not _is_commit("origin/main"):
        return None
    base = _git("merge-base", "HEAD", "origin/main").strip()
    return None if base == _git("rev-parse", "HEAD").strip() else base


def _is_commit(name: str) -> bool:
    command = ["git", "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S607


def main() -> None:
    """Print what to run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="everything, whatever the change")
    parser.add_argument("--base", help="the commit before the change")
    options = parser.parse_args()
    changed = None if options.all else changed_files(options.base)
    suites = suites_for(changed, _git("rev-parse", "HEAD").strip(), heavy_test_files())
    print(f"heavy={' '.join(suites.heavy)}")
    print(f"browser={'yes' if suites.browser else ''}")
    print(f"container={'yes' if suites.container else ''}")


if __name__ == "__main__":
    main()
