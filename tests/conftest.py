from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.levels import Levels, ProcessorTime, processes
from tests.needs import ALLOWED_SKIPS

__all__ = ["processes"]

# The same examples in each run: a change is blamed for what it does. `--hypothesis-profile=default` draws others.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu", action="store_true", help="show the processor time of the tests by folder")
    parser.addoption("--no-skips", action="store_true", help="fail on any skip that tests/needs.py does not allow")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Levels())
    if config.getoption("--cpu"):
        config.pluginmanager.register(ProcessorTime())


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and forbidden_skips(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in forbidden_skips(config):
        terminalreporter.write_line(f"ERROR --no-skips: {line}", red=True)


def forbidden_skips(config: pytest.Config) -> list[str]:
    """The tests and modules that were skipped although `--no-skips` is given, each with its reason."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not config.getoption("--no-skips") or reporter is None:  # a process of pytest-xdist has no reporter
        return []
    lines = []
    for report in reporter.stats.get("skipped", []):
        _, _, message = report.longrepr
        reason = message.removeprefix("Skipped: ")
        if not reason.startswith(ALLOWED_SKIPS):
            lines.append(f"{report.nodeid} was skipped: {reason}")
    return lines


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users get through to, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
