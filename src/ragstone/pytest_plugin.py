"""The pytest plugin: the gate inside a test, or one test per sample and one verdict over all of them.

pytest loads this module wherever Ragstone is installed. So it imports nothing but pytest until a test uses it.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from ragstone.app.gate import GateOutcome
    from ragstone.config.settings import Settings, SystemSettings
    from ragstone.gate.verdict import GateVerdict
    from ragstone.golden.sample import Sample
    from ragstone.run.redact import Redactor
    from ragstone.system.response import Response, System

MARKER = "ragstone"
_PROPERTY = "ragstone"
_UPDATE = "--ragstone-update-baseline"
_SESSION = "ragstone-session"
_USAGE = 'rag_sample needs a golden set: @pytest.mark.ragstone(golden="golden.jsonl", policy="thresholds.toml")'

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class GateArguments:
    """The arguments of a gate. Paths are relative to pytest's root directory."""

    golden: str
    policy: str | None = None
    baseline: str | None = None
    judge: str | None = None
    metrics: str | None = None


class Ragstone:
    """What the fixture `ragstone` gives."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request

    def gate(
        self,
        system: str | Callable[..., object],
        golden: str | Path,
        *,
        policy: str | Path | None = None,
        baseline: str | Path | None = None,
        judge: str | None = None,
        metrics: str | Sequence[str] | None = None,
    ) -> GateVerdict:
        """Ask `system` (a callable or an entrypoint) every question, decide, and fail the test if the gate fails.

        Settings that are not given come from ragstone.toml in pytest's root directory, if there is one. An inconclusive
        verdict fails the test if the policy says so; the summary of the test session shows it in any case. Returns the
        verdict.
        """
        names = metrics if metrics is None or isinstance(metrics, str) else ",".join(metrics)
        arguments = GateArguments(str(golden), _text(policy), _text(baseline), judge, names)
        node = self._request.node
        found = _Found(node.nodeid)
        try:
            found = decide(self._request.config, node.nodeid, arguments, system)
        finally:
            node.user_properties.append((_PROPERTY, json.dumps({"found": asdict(found.line)})))
        if found.line.failed or found.outcome is None:
            pytest.fail(_printed(self._request.config, found.line.report), pytrace=False)
        return found.outcome.verdict


class RagSample:
    """One sample of the golden set, as the fixture `rag_sample` gives it. `record` the system's answer to it."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.response: Response | None = None

    @property
    def id(self) -> str:
        return self.sample.id

    @property
    def question(self) -> str:
        return self.sample.question

    def record(self, answer: object) -> None:
        """Take the answer, in any form that a python entrypoint may return. The test fails if it is none of them."""
        from ragstone.report.escape import terminal
        from ragstone.system import worker
        from ragstone.system.payload import read

        whole = worker.finish(answer)
        if isinstance(whole, Coroutine):
            whole.close()
            pytest.fail("record() takes an answer, found a coroutine: await it first.", pytrace=False)
        self.response = read(self.id, whole, None)
        if self.response.failure is not None:
            pytest.fail(terminal(self.response.failure.message), pytrace=False)


@pytest.fixture
def ragstone(request: pytest.FixtureRequest) -> Ragstone:
    """Ragstone's gate: `ragstone.gate(answer, golden="golden.jsonl", policy="thresholds.toml")`."""
    return Ragstone(request)


@pytest.fixture
def rag_sample(request: pytest.FixtureRequest) -> Iterator[RagSample]:
    """One sample of the golden set in `@pytest.mark.ragstone`; all answers are decided together at the end."""
    arguments, sample = request.param
    asked = RagSample(sample)
    yield asked
    from pydantic import TypeAdapter

    from ragstone.system.payload import failed
    from ragstone.system.response import Response, SystemFailureKind

    response = asked.response or failed(sample.id, SystemFailureKind.MISSING, "the test ended without an answer")
    given = {
        "group": f"{request.node.parent.nodeid}::{request.node.originalname}",
        "arguments": asdict(arguments),
        "response": TypeAdapter(Response).dump_python(response, mode="json"),
    }
    request.node.user_properties.append((_PROPERTY, json.dumps({"given": given})))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ragstone", "quality gate for RAG systems")
    group.addoption(
        _UPDATE,
        action="store_true",
        help="Write each Ragstone run to its baseline instead of comparing it, unless it fails.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(golden, policy=None, baseline=None, judge=None, metrics=None): run the test once for each sample of "
        "a golden set (fixture rag_sample), and decide all answers together.",
    )
    if not hasattr(config, "workerinput"):  # not in a worker of pytest-xdist: its reports arrive here
        config.pluginmanager.register(_Session(config), _SESSION)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "rag_sample" not in metafunc.fixturenames:
        return
    from ragstone.errors import RagstoneError
    from ragstone.project.plan import read_golden_set
    from ragstone.report.escape import terminal

    arguments = _marked(metafunc)
    try:
        golden = read_golden_set(_settings(metafunc.config, arguments))
    except RagstoneError as error:
        raise pytest.Collector.CollectError(terminal(str(error))) from None
    metafunc.parametrize(
        "rag_sample",
        [(arguments, sample) for sample in golden],
        ids=[sample.id for sample in golden],
        indirect=True,
    )


def _marked(metafunc: pytest.Metafunc) -> GateArguments:
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {_USAGE}")
    known = [one.name for one in fields(GateArguments)]
    unknown = set(marker.kwargs) - set(known)
    if unknown or len(marker.args) > 1 or (not marker.args and "golden" not in marker.kwargs):
        what = f"unknown argument {sorted(unknown)[0]!r}. " if unknown else ""
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: {what}{_USAGE} (arguments: {', '.join(known)})"
        )
    given = {**dict(zip(known, marker.args, strict=False)), **marker.kwargs}
    return GateArguments(**{name: str(value) for name, value in given.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Line:
    """A verdict in the summary of the test session. `report` is the whole report, or the error."""

    name: str
    status: str = "error"
    reason: str = ""
    failed: bool = True
    report: str = ""
    html: str | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    name: str
    outcome: GateOutcome | None = None
    line: Line = field(default_factory=lambda: Line("", reason="interrupted"))


def decide(
    config: pytest.Config, name: str, arguments: GateArguments, system: str | Callable[..., object] | System
) -> _Found:
    """Run the gate for the test `name`. A RagstoneError is a failed line, not an exception."""
    import os

    from ragstone.app.gate import REPORT_FILES
    from ragstone.errors import RagstoneError
    from ragstone.project.known_secrets import known_secrets
    from ragstone.report.escape import terminal, terminal_line
    from ragstone.report.terminal import render_text
    from ragstone.report.wording import sentence
    from ragstone.run.redact import Redactor

    update = bool(config.getoption(_UPDATE))
    out = _folder(config, name)
    root = config.rootpath
    more = {
        "gate.baseline": None if arguments.baseline is None or update else str(root / arguments.baseline),
        "run.out": str(out),
        "system.entrypoint": system if isinstance(system, str) else None,
    }
    redact = Redactor(())
    try:
        settings = _settings(config, arguments, more)
        redact = Redactor(known_secrets(os.environ, settings))
        if update and arguments.baseline is None:
            raise pytest.UsageError(f"{name}: {_UPDATE} needs the gate to name its baseline.")
        outcome = _in_own_loop(_gate(settings, system, f"pytest:{name}", redact))
        width = min(120, shutil.get_terminal_size((120, 40)).columns)
        reason = terminal_line(sentence(outcome.view.reason))  # the view's is free of secrets
        report = f"{reason}\n\n{render_text(outcome.view, width=width)}"
        failed = outcome.exit_code != 0
        if update and arguments.baseline is not None:
            failed = not _update(outcome, root / arguments.baseline)
    except RagstoneError as error:
        hint = ""
        if arguments.baseline is not None and not (root / arguments.baseline).exists():
            hint = f"\n  The baseline does not exist yet: pytest {_UPDATE} writes it."
        reason, report = terminal_line(redact(error.message)), terminal(redact(str(error)))
        return _Found(name, None, Line(name, reason=reason, report=f"{report}{hint}"))
    html = out / REPORT_FILES["html"]
    return _Found(name, outcome, Line(name, str(outcome.verdict.status), reason, failed, report, str(html)))


def _settings(config: pytest.Config, arguments: GateArguments, more: Mapping[str, object] | None = None) -> Settings:
    import os

    from ragstone.config.load import load_settings

    root = config.rootpath
    overrides: dict[str, object] = {
        "golden.paths": (str(root / arguments.golden),),
        "gate.thresholds": None if arguments.policy is None else str(root / arguments.policy),
        "judge.name": arguments.judge,
        "run.metrics": arguments.metrics,
        **(more or {}),
    }
    return load_settings(directory=root, environ=os.environ, overrides=overrides)


async def _gate(
    settings: Settings, system: str | Callable[..., object] | System, entrypoint: str, redact: Redactor
) -> GateOutcome:
    import os

    from ragstone.app.gate import gate
    from ragstone.project.gate import gate_request
    from ragstone.rounds.context import RunContext
    from ragstone.rounds.needs import recorded, refuse_conflicts
    from ragstone.system.entrypoint import build_system, of_part
    from ragstone.system.in_process import CallableSystem

    def made(limits: SystemSettings) -> System:
        if limits.functions:
            return build_system(limits, root=settings.root, environ=os.environ, within=settings.within)
        if isinstance(system, _Given):
            return system
        return of_part(CallableSystem(system, limits, entrypoint=entrypoint), limits)

    context = RunContext(
        environ=os.environ,
        redact=redact,
        system_factory=None if isinstance(system, str) else made,
    )
    request = gate_request(settings, context)
    if isinstance(system, _Given):
        refuse_conflicts((*request.parts(), recorded(entrypoint)))
    return await gate(request, context)


def _in_own_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` in a thread with a loop of its own, since the test may run in one."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _update(outcome: GateOutcome, baseline: Path) -> bool:
    from ragstone.run.directory import CACHE, MANIFEST, SAMPLES

    run = outcome.run
    if run is None or not run.manifest.standing.eligible:
        return False
    baseline.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{baseline.name}.", dir=baseline.parent) as folder:
        fresh, old = Path(folder) / "fresh", Path(folder) / "old"
        fresh.mkdir()
        for name in (MANIFEST, SAMPLES, CACHE):
            if (run.path / name).is_file():
                shutil.copyfile(run.path / name, fresh / name)
        if baseline.exists():
            baseline.replace(old)
        fresh.replace(baseline)
    return True


def _folder(config: pytest.Config, name: str) -> Path:
    """Where the run of the test `name` is kept, with its judgements: in pytest's cache, if there is one."""
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-")[-100:]
    cache = getattr(config, "cache", None)
    if cache is None:
        return Path(tempfile.mkdtemp(prefix="ragstone-")) / "ragstone-run"
    return Path(cache.mkdir("ragstone")) / readable


class _Given:
    """A `System` that has the answers that tests recorded."""

    concurrency = 16
    can_be_asked_again = False

    def __init__(self, entrypoint: str, responses: Mapping[str, Response]) -> None:
        self.entrypoint = entrypoint
        self._responses = responses

    async def start(self) -> None: ...

    async def ask(self, sample: Sample) -> Response:
        return self._responses[sample.id]

    async def close(self) -> None: ...


class _Session:
    """Collects answers and verdicts from the reports of tests, and decides at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._lines: list[Line] = []
        self._arguments: dict[str, GateArguments] = {}
        self._responses: dict[str, dict[str, Response]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what is ours out of the report: a JUnit file must not repeat every answer."""
        ours = [json.loads(str(value)) for name, value in report.user_properties if name == _PROPERTY]
        report.user_properties = [one for one in report.user_properties if one[0] != _PROPERTY]
        if report.when != "teardown":
            return
        for one in ours:
            if "found" in one:
                self._lines.append(Line(**one["found"]))
            else:
                self._take(one["given"])

    def _take(self, given: dict[str, Any]) -> None:
        from pydantic import TypeAdapter

        from ragstone.system.response import Response

        response = TypeAdapter(Response).validate_python(given["response"])
        self._arguments[given["group"]] = GateArguments(**given["arguments"])
        self._responses.setdefault(given["group"], {})[response.sample_id] = response

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for group, arguments in self._arguments.items():
            self._lines.append(self._decided(group, arguments, self._responses[group]))
        if any(line.failed for line in self._lines) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _decided(self, group: str, arguments: GateArguments, responses: Mapping[str, Response]) -> Line:
        from ragstone.errors import RagstoneError
        from ragstone.project.plan import read_golden_set
        from ragstone.report.escape import terminal, terminal_line

        try:
            golden = read_golden_set(_settings(self._config, arguments))
        except RagstoneError as error:
            return Line(group, reason=terminal_line(error.message), report=terminal(str(error)))
        ran = sum(sample.id in responses for sample in golden)
        if ran < len(golden):
            reason = f"{ran} of {len(golden)} samples ran, so nothing was decided."
            return Line(group, "not decided", reason, failed=False)
        return decide(self._config, group, arguments, _Given(f"pytest:{group}", responses)).line

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._lines:
            return
        terminalreporter.section("ragstone")
        for line in self._lines:
            markup = {"red": True} if line.failed else {"green": line.status == "pass", "yellow": line.status != "pass"}
            said = _printed(self._config, f"{line.status.upper()} {line.name}: {line.reason}")
            terminalreporter.write_line(said, **markup)
            if line.failed and line.name in self._arguments:
                terminalreporter.write_line(_printed(self._config, line.report))
            if line.html is not None:
                terminalreporter.write_line(f"  report: {_shown(line.html, self._config.invocation_params.dir)}")


def _shown(path: str, folder: Path) -> str:
    return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path


def _printed(config: pytest.Config, text: str) -> str:
    """`text` without what is only for logs, if it goes to a terminal."""
    from ragstone.printable import ZERO_WIDTH_SPACE

    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return text.replace(ZERO_WIDTH_SPACE, "") if reporter is not None and reporter.isatty else text


def _text(value: object) -> str | None:
    return None if value is None else str(value)
