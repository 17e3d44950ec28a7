"""One job on GitHub, from event to exit code: what the action and `ragstone gate
--github` both do."""

from __future__ import annotations

import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from ragstone.errors import EXIT_BUG, ConfigError, RagstoneError, RunDirectoryError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.redact import Redactor
from ragstone.github.annotations import Places, error_annotation
from ragstone.github.api.checkout_token import warn_of_token
from ragstone.github.api.client import GitHubApi, RetryPolicy
from ragstone.github.api.commands import (
    Annotation,
    Level,
    commands_stopped,
    mask,
    output_path,
    print_annotations,
    write_outputs,
)
from ragstone.github.api.event import load_event
from ragstone.github.api.reviewed import reviewed_base
from ragstone.github.comparison import check_baseline_inputs
from ragstone.github.container.container import Container
from ragstone.github.credentials import without_credentials
from ragstone.github.evaluate import evaluate
from ragstone.github.forks import fork_report
from ragstone.github.inputs import ActionInputs, read_variables
from ragstone.github.job import Job
from ragstone.github.job_report import Report
from ragstone.github.plan import BaselineSource, JobTask, make_plan
from ragstone.github.publish import finish, publish
from ragstone.pipeline.gate import REPORT_FILES
from ragstone.pipeline.known_secrets import known_secrets
from ragstone.report.render import render
from ragstone.settings.settings import MIN_SECRET_CHARACTERS, Settings


def workspace_of(environ: Mapping[str, str]) -> Path:
    """The checkout: the folder that all files it names must be in."""
    return Path(environ.get("GITHUB_WORKSPACE") or Path.cwd())


def end_job(work: Callable[[], int], environ: Mapping[str, str], out: TextIO) -> int:
    """The exit code of `work`, one job. An error becomes an annotation and outputs on
    GitHub.

    Raises only for signals.
    """
    redact = Redactor(known_secrets(environ, Settings()))
    try:
        return work()
    except RagstoneError as error:
        workspace = workspace_of(environ)
        annotation, code = (
            error_annotation(error, Places(workspace, workspace)),
            error.exit_code,
        )
    except Exception:
        with commands_stopped(out) as write:
            write(redact(traceback.format_exc()))
        fault = "Ragstone itself failed, so there is no verdict. Please report the traceback from the log."
        annotation, code = Annotation(Level.ERROR, fault, "Ragstone"), EXIT_BUG
    print_annotations([replace(annotation, message=redact(annotation.message))], out)
    try:
        write_outputs(output_path(environ), {"verdict": "error", "passed": "false"})
    except OSError as error:
        print(f"Can't write the outputs: {error.strerror}", file=sys.stderr)  # noqa: T201
    return code


async def run_on_github(
    settings: Settings,
    *,
    environ: Mapping[str, str],
    out: TextIO,
    inputs: ActionInputs | None = None,
    container: Container | None = None,
    patience: RetryPolicy | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> int:
    """Handle the event, publish the result on GitHub, and return the exit code.

    `inputs` None: they come from ``RAGSTONE_*`` (`ragstone gate --github`), and
    ``settings.gate.baseline`` can be ``artifact`` or ``none`` as well as a path. If
    GitHub refuses a request, that becomes a notice: neither the verdict nor the exit
    code depends on it. A RagstoneError is published (annotation, summary, comment,
    outputs) and becomes its exit code; other errors propagate.
    """
    inputs, settings = _baseline_input(inputs or read_variables(environ), settings)
    event = load_event(environ)
    plan = make_plan(event, inputs)
    workspace = workspace_of(environ)
    settings = settings.model_copy(update={"within": workspace})
    secrets = (
        *known_secrets(environ, settings),
        inputs.github_token.get_secret_value(),
    )
    redact = Redactor(
        secrets, {} if container is None else {str(container.staging): settings.run.out}
    )
    for secret in settings.judge.secrets():
        if len(secret) >= MIN_SECRET_CHARACTERS:
            mask(secret, out)
    api: GitHubApi | None = None
    if inputs.github_token.get_secret_value():
        api = GitHubApi(
            inputs.github_token,
            repository=event.repository,
            api_url=event.api_url,
            patience=patience or RetryPolicy(),
        )
    base = reviewed_base(api, event)
    if plan.task is JobTask.GATE:
        plan = replace(plan, baseline_branch=plan.baseline_branch or base.branch)
    if base.unreviewed is not None:
        settings, environ = without_credentials(settings, environ)
        container = None if container is None else replace(container, environ=environ)
    temporary = Path(tempfile.mkdtemp(prefix="ragstone-"))
    job = Job(
        settings=settings,
        environ=environ,
        inputs=inputs,
        out=out,
        container=container,
        event=event,
        base=base,
        plan=plan,
        redact=redact,
        places=Places(settings.root, workspace),
        api=api,
        temporary=temporary,
        now=now,
    )
    try:
        report = await (
            _report_of_pull(job) if plan.task is JobTask.REPORT else _gate(job)
        )
        finish(job, report, publish(job, report))
        return report.exit_code
    finally:
        if api is not None:
            api.close()
        shutil.rmtree(temporary, ignore_errors=True)


def _baseline_input(
    inputs: ActionInputs, settings: Settings
) -> tuple[ActionInputs, Settings]:
    """A baseline set by flag overrides the default; a path stays in the settings."""
    configured = settings.gate.baseline
    chosen = (
        inputs.baseline
        if configured is None or inputs.baseline == "none"
        else configured
    )
    path = None if chosen in tuple(BaselineSource) else chosen
    from_file = settings.from_file - (
        {"gate.baseline"} if inputs.baseline == "none" else frozenset()
    )
    settings = settings.having("gate.baseline", path).model_copy(
        update={"from_file": from_file}
    )
    return replace(inputs, baseline=chosen), settings


# -- evaluating
# --------------------------------------------------------------------------------------------------------


async def _gate(job: Job) -> Report:
    started = job.now()
    # Before any code of the checkout runs, which could hide it.
    warning = (
        warn_of_token(job.places.workspace, job.environ.get("RUNNER_TEMP"))
        if job.runs_users_code
        else None
    )
    try:
        with commands_stopped(job.out) as write:
            job.redact.on_add = write.mask
            report = await evaluate(job, lambda text: write(job.redact(text)))
            write(
                f"error: {report.error_text}\n"
                if report.document is None
                else render(report.document, "text")
            )
    finally:
        job.redact.on_add = None
        if job.container is not None:
            job.container.seal()
    notices = (
        job.plan.notices
        if job.container is None
        else (*job.plan.notices, *job.container.confinement.notices)
    )
    report = replace(
        report,
        notes=notices + report.notes,
        warnings=() if warning is None else (warning,),
    )
    if report.document is None:
        report = replace(report, run=_stopped_run(job, started))
    return report if report.run is None else _place_run(job, report, report.run)


def _place_run(job: Job, report: Report, run: RunDirectory) -> Report:
    """Put the run directory where it belongs. `report`, with its place and those of the
    reports in it."""
    target = job.settings.path(job.settings.run.out)
    if job.container is not None:
        try:
            job.container.publish(run.path, target)
        except ConfigError as error:
            return replace(report, notes=(*report.notes, str(error)))
    directory = job.places.within(str(target.absolute())) or str(target)
    present = {path.name for path in report.reports}
    files: dict[str, str] = {
        form: f"{directory}/{name}"
        for form, name in REPORT_FILES.items()
        if name in present
    }
    return replace(report, directory=directory, files=files)


def _stopped_run(job: Job, started: datetime) -> RunDirectory | None:
    """The run that was started since `started` and could not be finished. It can't be a
    baseline, but is kept."""
    place = (
        job.container.staging
        if job.container is not None
        else job.settings.path(job.settings.run.out)
    )
    try:
        run = RunDirectory.open(place)
        created = datetime.fromisoformat(run.manifest.created_at)
    except (RunDirectoryError, ValueError):
        return None
    return (
        run
        if run.manifest.state == "stopped" and created >= started.replace(microsecond=0)
        else None
    )


# -- reporting for a fork
# ----------------------------------------------------------------------------------------------


async def _report_of_pull(job: Job) -> Report:
    """The result of a pull request's own run. The exit code is 0: that run already has
    its own."""
    if job.api is None:
        raise ConfigError(
            "reporting for a pull request needs a GitHub token.",
            where="input 'github-token'",
        )
    check_baseline_inputs(job)
    with commands_stopped(job.out) as write:
        report = await fork_report(job, job.api)
        if report.document is not None:
            write(render(report.document, "text"))
    return report
