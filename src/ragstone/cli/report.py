"""`ragstone report`: render a stored run in any format, or decide on it again."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from ragstone.cli.options import (
    CONFIG,
    PATH,
    REPORT,
    option,
    setting,
    settings_from,
    with_options,
)
from ragstone.cli.output import say, show_report
from ragstone.errors import ConfigError, suggestion

if TYPE_CHECKING:
    from ragstone.evaluation.directory import RunDirectory
    from ragstone.evaluation.redact import Redactor

_FULL_COMMIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

_DECIDE_OPTIONS = {
    "thresholds": "--policy",
    "golden": "--golden",
    "baseline": "--baseline",
    "judge": "--judge",
    "commit": "--commit",
}
"""The options that say what to decide by, by the names of their parameters."""


@click.command(name="report")
@click.argument("run", type=PATH, required=False)
@with_options(REPORT, (CONFIG,))
@option(
    "--sample",
    value="ID",
    help="Show only this sample: question, answers, contexts, scores.",
)
@option(
    "--decide",
    is_flag=True,
    help="Decide on the run again, by what you name, and exit with the verdict's exit code.",
)
@option(
    "--policy",
    "thresholds",
    value="FILE",
    type=str,
    help="Policy to decide by  [default: as in the config]",
)
@setting(
    "golden", help="Golden set that must have been asked  [default: as in the config]"
)
@setting("baseline", help="Run to compare with  [default: as in the config]")
@setting("judge", help="Judge that the run must have had  [default: as in the config]")
@option(
    "--commit",
    value="SHA",
    help="Commit id, in full, that must have been evaluated, without changed files.",
)
def command(
    run: Path | None,
    format_name: str,
    output: Path | None,
    verbose: bool,
    sample: str | None,
    decide: bool,
    commit: str | None,
    **flags: object,
) -> int:
    """Show the run in RUN, a directory written by `ragstone run` or `ragstone gate`  [default: as in the config]

    Evaluates nothing. Shows the verdict that the gate stored, and exits with 0 whatever that is.

    With --decide, the run is trusted only for its answers and judgements: scores must follow from the judgements, the
    questions must be exactly those of the golden set, and the policy, the baseline and the commit are those that you
    name. Exits with 0 pass · 1 fail · 2 another commit, or changed files · 3 other questions · 5 unfinished, or
    another judge · 6 no baseline for the policy's drops · 8 inconclusive.

    \b
    Examples:
      ragstone report ragstone-run
      ragstone report ragstone-run --format md -o report.md
      ragstone report ragstone-run --sample refund-window
      ragstone report ragstone-run --decide --policy thresholds.toml --golden golden.jsonl \\
        --baseline main-run --commit "$(git rev-parse HEAD)"
    """
    from ragstone.evaluation.directory import RunDirectory
    from ragstone.evaluation.redact import Redactor
    from ragstone.pipeline.known_secrets import known_secrets
    from ragstone.pipeline.stored_report import require_report
    from ragstone.report.render import Format
    from ragstone.report.templates import own_templates

    settings = settings_from(flags)
    stored_run = RunDirectory.open(
        run if run is not None else settings.path(settings.run.out)
    )
    redact = Redactor(known_secrets(os.environ, settings))
    if sample is not None:
        baseline = settings.gate.baseline
        path = None if baseline is None else settings.path(baseline)
        say(_sample_text(stored_run, sample, path, redact))
        return 0
    show = partial(
        show_report,
        format_name=cast(Format, format_name),
        output=output,
        verbose=verbose,
        templates=own_templates(settings.root),
    )
    if not decide:
        _refuse_without_decide(commit, flags)
        show(require_report(stored_run))
        return 0

    from datetime import UTC, datetime

    from ragstone.pipeline.decide_again import decide_again
    from ragstone.pipeline.gate_request import decision_terms

    terms = decision_terms(settings, _full_commit(commit), datetime.now(UTC).date())
    decision = decide_again(stored_run, terms, redact)
    say(redact(decision.summary), err=output is None and format_name != "text")
    show(decision.document)
    return decision.verdict.exit_code


def _sample_text(
    run: RunDirectory, sample_id: str, baseline: Path | None, redact: Redactor
) -> str:
    """One sample of `run`, with its answers in `baseline`, as text. Raises
    ConfigError."""
    from ragstone.evaluation.directory import RunDirectory
    from ragstone.report.templates import PACKAGE, render_text_template
    from ragstone.report.texts import sample_texts

    record = run.find([sample_id]).get(sample_id)
    if record is None:
        hint = suggestion(sample_id, run.scores().samples)
        raise ConfigError(
            f"there is no sample '{sample_id[:80]}' in this run.",
            where=str(run.path),
            hint=hint,
        )
    before = None
    if baseline is not None and baseline.is_dir():
        before = RunDirectory.open(baseline).find([sample_id]).get(sample_id)
    text = render_text_template(
        "sample.txt.j2",
        PACKAGE,
        id=sample_id,
        place=record.sample.origin,
        texts=sample_texts(record, before, redact),
    )
    return redact(text)


def _refuse_without_decide(commit: str | None, flags: dict[str, object]) -> None:
    """Raise ConfigError for an option that has an effect only with --decide."""
    flags = {**flags, "commit": commit}
    for parameter, option_name in _DECIDE_OPTIONS.items():
        if flags.get(parameter):
            raise ConfigError(
                "has an effect only with --decide.",
                where=option_name,
                hint="Add --decide.",
            )


def _full_commit(commit: str | None) -> str:
    """`commit`, if it is a whole commit id. Raises ConfigError."""
    hint = 'Name it in full: --commit "$(git rev-parse HEAD)".'
    if commit is None:
        raise ConfigError("--decide needs --commit.", hint=hint)
    if _FULL_COMMIT_ID.fullmatch(commit) is None:
        raise ConfigError(
            f"'{commit[:80]}' is not a whole commit id.", where="--commit", hint=hint
        )
    return commit
