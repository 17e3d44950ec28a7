"""The levels of the tests (see CONTRIBUTING.md): which test is of which, and what a run leaves out.

A test that starts processes of its own asks for the fixture `processes`, which makes it a test of that level. Any other
test may start git, and what the code that it calls starts.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from types import FrameType

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"
LEVELS = {
    "process": "make test-process",
    "heavy": "make test-heavy",
    "browser": "make test-browser",
    "container": "make test-container",
    "integrations": "make test-integrations",
}
"""The levels that `make test` leaves out, and what runs each."""
HELPERS = ("git",)
"""Programs that any test may start."""
DEAREST = 10
"""How many single tests `--cpu` shows."""
_CPU = "cpu_s"


class Levels:
    """Gives tests their level, refuses processes to tests of other levels, counts what is left out."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self.may_start_processes = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            if "processes" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.process)

    def pytest_collection_finish(self) -> None:
        sys.addaudithook(self._audit)  # not before: importing all tests gives many thousand events
        gc.freeze()  # what was collected stays to the end, so that no garbage collection has to visit it

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.left_out.update(level for item in items if (level := level_of(item)) is not None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.may_start_processes = level_of(item) is not None
        try:
            return (yield)
        finally:
            self.may_start_processes = True

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != "subprocess.Popen" or self.may_start_processes:
            return
        program = PurePath(os.fsdecode(str(arguments[0]))).name
        if program not in HELPERS and _caller(sys._getframe(1)) == TESTS:
            raise RuntimeError(f"this test starts {program}: it needs the fixture `processes` (see tests/levels.py)")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["left_out"] = dict(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Each worker collects all tests, so that one count is that of all."""
        output: Mapping[str, Mapping[str, int]] = getattr(node, "workeroutput", {})
        self.left_out = Counter(output.get("left_out", {})) or self.left_out

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left_out:
            parts = [
                f"{self.left_out[level]:,} {level} (`{how}`)" for level, how in LEVELS.items() if self.left_out[level]
            ]
            terminalreporter.write_line(f"Left out: {', '.join(parts)}. `make test-all` runs all.")


def level_of(item: pytest.Item) -> str | None:
    """The level of a test, None for those of `make test`; the most demanding one of several."""
    return next((level for level in reversed(LEVELS) if item.get_closest_marker(level) is not None), None)


def _caller(frame: FrameType | None) -> Path | None:
    """Whether tests or the source asked for what happens in `frame`: the nearest of the two folders."""
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        for folder in (TESTS, SOURCE):
            if file.is_relative_to(folder):
                return folder
        frame = frame.f_back
    return None


class ProcessorTime:
    """With `--cpu`, shows how much processor time the tests of each folder take, and the tests that take most.

    Ended child processes are included, and what a test is the first to import.
    """

    def __init__(self) -> None:
        self.by_folder: defaultdict[str, float] = defaultdict(float)
        self.by_test: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = _spent()
        item.user_properties.append((_CPU, before))
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            (started,) = [value for name, value in item.user_properties if name == _CPU]
            assert isinstance(started, float)
            item.user_properties[:] = [(_CPU, _spent() - started)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            # tests/gate/test_decide.py is of "gate", tests/test_action.py of "tests".
            folders = PurePath(report.nodeid.partition("::")[0]).parts[:-1]
            seconds = sum(float(str(value)) for name, value in report.user_properties if name == _CPU)
            self.by_folder["/".join(folders[1:2]) or "tests"] += seconds
            self.by_test[report.nodeid] = seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("processor time by folder")
        for folder, seconds in sorted(self.by_folder.items(), key=lambda pair: -pair[1]):
            terminalreporter.write_line(f"{seconds:8.1f} s  {folder}")
        terminalreporter.write_line(f"{sum(self.by_folder.values()):8.1f} s  in all")
        terminalreporter.section("processor time of the dearest tests")
        for test in sorted(self.by_test, key=self.by_test.__getitem__, reverse=True)[:DEAREST]:
            terminalreporter.write_line(f"{self.by_test[test]:8.1f} s  {test}")


def _spent() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.fixture(scope="session")
def processes() -> None:
    """Lets tests start processes of their own, and makes them those of the level `process`. For tests and fixtures."""
