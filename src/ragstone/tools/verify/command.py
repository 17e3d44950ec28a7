"""`ragstone verify`."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from ragstone.commands.options import CONFIG, PATH, SCORING, SEED, option, settings_from, with_options
from ragstone.commands.output import say
from ragstone.errors import AttestationError, ConfigError, suggestion
from ragstone.tools.verify.verify import Deployment, Own, Part, State, verify

REQUIRED = ("attestation", "commit", "policy", "golden", "scores", "checks", "verdict")
FOR_DEPLOYMENT = ("attestation", "commit", "deployment")
OF_A_RUN = ("run", "files", "records", "scores")
"""Required for a deployment, too, if the run is there and not its attestation alone."""
_PARTS = (*REQUIRED, "run", "files", "records", "baseline", "history", "bar", "deployment")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_WIDTH = 80
_MAX_AGE_DAYS = 7


@click.command(name="verify")
@click.argument("run", type=PATH, metavar="RUN|ATTESTATION")
@option("--policy", value="FILE", help="The policy that should have decided, with the accepted.toml beside it.")
@option("--golden", value="FILE", type=str, multiple=True, help="The golden set that should have been asked.")
@option("--baseline", value="RUN", help="The run, or an artifact of it, that it should have been compared with.")
@option("--history", value="FILE", help="The history before the run  [default: in RUN, or in --baseline]")
@option("--commit", value="SHA", help="The commit, in full, that should have been evaluated.")
@option("--for-deployment", value="SHA", help="Require a pass of this commit that is not too old.")
@option("--max-age-days", value="N", type=click.IntRange(1, 3650), help="Its maximum age  [default: 7]")
@option("--attestation", value="FILE", help="The attestation  [default: in RUN]")
@option("--require", value="PARTS", help=f"Parts that must hold, separated by commas  [default: {', '.join(REQUIRED)}]")
@option("--rejudge", value="N", type=click.IntRange(1, 10_000), help="Judge N random samples again, with your judge.")
@option("--json", "as_json", is_flag=True, help="Print the parts as JSON.")
@with_options((SEED, CONFIG), SCORING)
def command(
    run: Path,
    policy: Path | None,
    golden: tuple[str, ...],
    baseline: Path | None,
    history: Path | None,
    commit: str | None,
    for_deployment: str | None,
    max_age_days: int | None,
    attestation: Path | None,
    require: str | None,
    rejudge: int | None,
    as_json: bool,
    seed: int,
    **flags: object,
) -> int:
    """Recompute the verdict of a gate from its run, and compare it with its attestation. Offline, without a key.

    Each part is recomputed, matches, differs, or is not available, with the option that supplies it. Exits with 0 if
    all required parts hold, with 9 if anything differs, with 2 if a required part is not available. Whether the
    verdict is a pass is another question: it is printed, and required for a deployment.

    \b
    Examples:
      ragstone verify ragstone-run --require scores,checks,verdict
      ragstone verify ragstone-run --policy thresholds.toml --golden golden.jsonl \\
        --baseline main-run --commit "$(git rev-parse HEAD)"
      ragstone verify ragstone-run --for-deployment "$(git rev-parse HEAD)"
    """
    from ragstone.gate.policy import load_policy
    from ragstone.project.plan import project_metrics, read_golden_set

    commit = _commit(for_deployment, commit, max_age_days)
    required = tuple(name.strip() for name in (require or "").split(",") if name.strip())
    if for_deployment is not None:
        required = tuple(dict.fromkeys((*FOR_DEPLOYMENT, *(OF_A_RUN if run.is_dir() else ()), *required)))
    required = required or REQUIRED
    if unknown := [name for name in required if name not in _PARTS]:
        raise ConfigError(f"there is no part '{unknown[0]}'.", where="--require", hint=suggestion(unknown[0], _PARTS))
    settings = settings_from(flags)
    own = Own(
        policy=None if policy is None else load_policy(policy, known_metrics=None),
        golden=read_golden_set(settings, golden) if golden else None,
        baseline=baseline,
        history=history,
        commit=commit,
        metrics=project_metrics(settings).own(),
        deployment=None if for_deployment is None else Deployment(datetime.now(UTC), max_age_days or _MAX_AGE_DAYS),
    )
    parts = verify(run, own, attestation)
    agreement: list[str] = []
    if rejudge is not None:
        from ragstone.tools.verify.rejudge import judged_again

        agreement = judged_again(run, settings, rejudge, seed=seed)
    differs = [part.name for part in parts if part.state is State.DIFFERS]
    held = {part.name for part in parts if part.holds}
    missing = [name for name in required if name not in held and name not in differs]
    if as_json:
        found = {"parts": [asdict(part) for part in parts], "differs": differs, "missing": missing}
        click.echo(json.dumps({**found, "rejudged": agreement}, indent=2))
    else:
        for part in parts:
            say(_line(part))
        for line in agreement:
            say(line)
    if for_deployment is not None and {"commit", "deployment"} & {*differs}:
        why = next(part.what for part in parts if part.name in ("commit", "deployment") and part.name in differs)
        raise AttestationError(f"{for_deployment[:12]} must not be deployed: {why}.", where=str(run))
    if differs:
        raise AttestationError(f"differs from the attestation: {', '.join(differs)}.", where=str(run))
    if missing:
        raise ConfigError(f"not verified: {', '.join(missing)}.", where=str(run), hint="Supply them, or use --require.")
    if not as_json:
        say(f"Verified: {', '.join(required)}.")
    return 0


def _commit(for_deployment: str | None, commit: str | None, max_age_days: int | None) -> str | None:
    """The commit that must have been evaluated. Raises ConfigError if the options don't fit."""
    if for_deployment is None and max_age_days is not None:
        raise ConfigError("it is for deployments.", where="--max-age-days", hint="Add --for-deployment SHA.")
    if for_deployment is not None and commit not in (None, for_deployment):
        raise ConfigError("--for-deployment names another commit.", where="--commit", hint="Leave --commit out.")
    for option_name, given in (("--for-deployment", for_deployment), ("--commit", commit)):
        if given is not None and not _COMMIT.fullmatch(given):
            raise ConfigError(
                f"'{given[:80]}' is no commit id.", where=option_name, hint='Give it in full: "$(git rev-parse HEAD)".'
            )
    return for_deployment or commit


def _line(part: Part) -> str:
    line = f"{part.name:<13}{part.state:<15}{part.what}".rstrip()
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
