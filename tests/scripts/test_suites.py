"""Which of the long suites `.ci/run` runs for a change."""

from __future__ import annotations

import pytest

from scripts.suites import TURNS, suites_for

FILES = ["tests/bench/test_season.py", "tests/judge/llm/test_hostile_server.py", "tests/stats/test_oracles.py"]
COMMITS = [f"{number:040x}" for number in range(200)]


def always_run(changed: list[str]) -> set[str]:
    """What runs at each of many commits, and so not by turns."""
    return set.intersection(*[set(suites_for(changed, commit, FILES).heavy) for commit in COMMITS])


@pytest.mark.parametrize(
    ("changed", "files"),
    [
        ("src/ragstone/judge/llm/openai.py", ["tests/bench/test_season.py", "tests/judge/llm/test_hostile_server.py"]),
        ("src/ragstone/stats/family.py", ["tests/bench/test_season.py", "tests/stats/test_oracles.py"]),
        ("tests/stats/test_oracles.py", ["tests/stats/test_oracles.py"]),
        ("docs/quickstart.md", []),
    ],
)
def test_heavy_tests_run_where_the_change_touches_what_they_cover(changed: str, files: list[str]) -> None:
    assert always_run([changed]) == set(files)


@pytest.mark.parametrize("changed", ["pyproject.toml", ".ci/run", "tests/conftest.py"])
def test_a_change_that_can_break_anything_runs_everything(changed: str) -> None:
    suites = suites_for([changed], COMMITS[0], FILES)
    assert (list(suites.heavy), suites.browser, suites.container) == (FILES, True, True)


def test_what_a_change_does_not_touch_runs_in_turns() -> None:
    runs = [suites_for(["CODE_OF_CONDUCT.md"], commit, FILES) for commit in COMMITS]
    for file in FILES:
        assert 0 < sum(file in suites.heavy for suites in runs) < 2 * len(COMMITS) / TURNS
    assert 0 < sum(suites.browser for suites in runs) < 2 * len(COMMITS) / TURNS
    assert 0 < sum(suites.container for suites in runs) < 2 * len(COMMITS) / TURNS


def test_reports_run_the_browser_and_the_sandbox_runs_the_container() -> None:
    assert all(suites_for(["src/ragstone/report/html.py"], commit, FILES).browser for commit in COMMITS)
    assert all(suites_for(["src/ragstone/github/container/strays.py"], commit, FILES).container for commit in COMMITS)
