"""Runs one job on GitHub, from its event to its exit code, for the action and for
`ragstone gate --github`."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from msgspec.structs import replace

from ragstone.errors import EXIT_BUG, ConfigError, RagstoneError, RunDirectoryError
from ragstone.evaluation.directory import RunDirectory
from ragstone.evaluation.redact import Redactor
from ragstone.github.annotations import Places, error_annotation
from ragstone.github.api.checkout_token import warn_of_token
from ragstone.github.api.client import DEFAULT_RETRY_POLICY, GitHubApi, RetryPolicy
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
from ragstone.github.comparison import check_baseline_branch
from ragstone.github.container.container import Container
from ragstone.github.evaluate import evaluate
from ragstone.github.forks import fork_report
from ragstone.github.inputs import ActionInputs, read_variables
from ragstone.github.job import Job
from ragstone.github.job_plan import BaselineSource, JobTask, make_plan
from ragstone.github.job_report import Report
from ragstone.github.publish import publish
from ragstone.pipeline.known_secrets import known_secrets
from ragstone.report.render import render
from ragstone.settings.settings import MIN_SECRET_CHARACTERS, Settings
from ragstone.settings.variables import Environ

_WITHOUT_SECRETS = "This pull request comes from a fork or from Dependabot: no secrets, and a read-only token."


def workspace_of(environ: Environ) -> Path:
    """The folder of the checkout, which all files that it names must be in."""
    return Path(environ.get("GITHUB_WORKSPACE") or Path.cwd())


def end_job(work: Callable[[], int], environ: Environ, out: TextIO) -> int:
    """Do `work`, one job, and return its exit code. Any error becomes an annotation,
    outputs and an exit code; only KeyboardInterrupt and SystemExit are raised."""
    redact = Redactor(known_secrets(environ, Settings()))
    try:
        return work()
    except RagstoneError as error:
        workspace = workspace_of(environ)
        annotation = error_annotation(error, Places(workspace, workspace))
        code = error.exit_code
    except Exception:
        with commands_stopped(out) as write:
            write(redact(traceback.format_exc()))
        message = "Ragstone itself failed, so there is no verdict. Please report the traceback from the log."
        annotation = Annotation(Level.ERROR, message, "Ragstone")
        code = EXIT_BUG
    print_annotations([replace(annotation, message=redact(annotation.message))], out)
    try:
        write_outputs(output_path(environ), {"verdict": "error", "passed": "false"})
    except OSError as error:
        print(f"Can't write the outputs: {error.strerror}", file=sys.stderr)  # noqa: T201
    return code


async def run_on_github(
    settings: Settings,
    *,
    environ: Environ,
    out: TextIO,
    inputs: ActionInputs | None = None,
    container: Container | None = None,
    retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> int:
    """Handle the event, publish the result on GitHub, and return the exit code.

    Without `inputs` (`ragstone gate --github`), they come from the variables
    ``RAGSTONE_*``, and ``settings.gate.baseline`` can also be ``artifact``, ``commit``
    or ``none``. Neither the verdict nor the exit code depends on whether GitHub accepts
    what is published. A RagstoneError of the gate itself is published too; one from
    before it or from a job that only reports is raised, like all other errors.
    """
    inputs, settings = _baseline_input(inputs or read_variables(environ), settings)
    event = load_event(environ)
    plan = make_plan(event, inputs)
    workspace = workspace_of(environ)
    settings = settings.model_copy(update={"within": workspace})
    token = inputs.github_token.get_secret_value()
    replacements = {}
    if container is not None:
        # Users know the run directory by the path to which it is copied in the end.
        replacements[str(container.staging)] = settings.run.out
    redact = Redactor((*known_secrets(environ, settings), token), replacements)
    for secret in settings.judge.secrets():
        if len(secret) >= MIN_SECRET_CHARACTERS:
            mask(secret, out)
    api: GitHubApi | None = None
    if token:
        api = GitHubApi(
            inputs.github_token,
            repository=event.repository,
            api_url=event.api_url,
            retry_policy=retry_policy,
        )
    try:
        with tempfile.TemporaryDirectory(
            prefix="ragstone-", ignore_cleanup_errors=True
        ) as temporary:
            job = Job(
                settings=settings,
                environ=environ,
                inputs=inputs,
                out=out,
                container=container,
                event=event,
                base=reviewed_base(api, event),
                plan=plan,
                redact=redact,
                places=Places(settings.root, workspace),
                api=api,
                temporary=Path(temporary),
                now=now,
            )
            if plan.task is JobTask.REPORT:
                report = await _report_pull_request(job)
            else:
                report = await _gate(job)
            publish(job, report)
            return report.exit_code
    finally:
        if api is not None:
            api.close()


def _baseline_input(
    inputs: ActionInputs, settings: Settings
) -> tuple[ActionInputs, Settings]:
    """Put the baseline of the settings, if there is one, in the place of the input's.
    In the settings, only the path of a run directory is left."""
    baseline = settings.gate.baseline or inputs.baseline
    path = None if baseline in tuple(BaselineSource) else baseline
    inputs = replace(inputs, baseline=baseline)
    return inputs, settings.with_value("gate.baseline", path)


async def _gate(job: Job) -> Report:
    """Evaluate and decide, and move the run directory to where the user expects it."""
    # Manifests have times without fractions of a second.
    started = job.now().replace(microsecond=0)
    container = job.container
    # Looked for before any code of the checkout runs, which could hide the token.
    warnings = warn_of_token(job.places.workspace, job.environ.get("RUNNER_TEMP"))
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
        if container is not None:
            container.seal()
    notes = report.notes
    if job.event.without_secrets:
        notes = (_WITHOUT_SECRETS, *notes)
    report = replace(report, notes=notes, warnings=warnings)
    target = job.settings.path(job.settings.run.out)
    run = report.run
    if report.document is None:
        run = _stopped_run(target if container is None else container.staging, started)
    if run is None:
        return report
    if container is not None:
        try:
            container.publish(run.path, target)
        except ConfigError as error:
            return replace(report, notes=(*report.notes, str(error)))
    directory = job.places.within(str(target.absolute())) or str(target)
    return replace(report, directory=directory)


def _stopped_run(folder: Path, started: datetime) -> RunDirectory | None:
    """The run in `folder` if it began at or after `started` and was stopped; None for
    any other one. It can't be a baseline, but its answers are kept."""
    try:
        run = RunDirectory.open(folder)
        created = datetime.fromisoformat(run.manifest.created_at)
    except (RunDirectoryError, ValueError):
        return None
    return run if run.manifest.state == "stopped" and created >= started else None


async def _report_pull_request(job: Job) -> Report:
    """Decide on the run that a pull request had without secrets. The exit code is 0,
    because that run had its own."""
    if job.api is None:
        raise ConfigError(
            "reporting for a pull request needs a GitHub token.",
            where="input 'github-token'",
        )
    check_baseline_branch(job)
    with commands_stopped(job.out) as write:
        report = await fork_report(job, job.api, write)
        if report.document is not None:
            write(render(report.document, "text"))
    return report
