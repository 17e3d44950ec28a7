"""A finished run as a run of Weights & Biases. Needs the extra `wandb`.

Server, key, entity and mode come from the environment or the tool's own login (WANDB_*), never from files of the
current folder, which may be a checkout of somebody else's: they could have the key sent elsewhere. The id of the run
there is made from the fingerprint, so that a second export resumes the same run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import ExitStack, chdir
from itertools import islice
from pathlib import Path
from typing import Any

from ragstone.config.settings import Settings
from ragstone.errors import ConfigError
from ragstone.files import read_table
from ragstone.tools.export.facts import FinishedRun
from ragstone.tools.export.rows import Cell, columns, table
from ragstone.tools.export.tracker import Exported, captured_log, digest, refusing, shown_address, write_files

PROJECT = "ragstone"
KIND = "ragstone-run"
SAMPLES = "samples.table.json"
MISSING = "left_out.table.json"
DIGEST = "ragstone_export"
"""In the config: what was exported, set when the artifact has arrived."""

PANEL_ROWS = 10_000
PANEL_CHARS = 50_000_000
"""The table on the page of the run has at most so many samples, and so much text; the artifact has all."""

DEFAULTS = {"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}
"""Set unless they are set: nothing is reported to anybody else."""

_SETTINGS = read_table("wandb.toml", __package__)


def export_wandb(
    found: FinishedRun,
    settings: Settings,
    environ: MutableMapping[str, str],
    *,
    project: str | None,
    entity: str | None,
) -> Exported:
    """Write `found` as a run of Weights & Biases, or bring the one that it has up to date.

    The project is `project`, else the one in WANDB_PROJECT, else "ragstone". With WANDB_MODE=offline, the run is
    written to a folder for `wandb sync`. Raises ConfigError if the package or a key is missing, or if the mode is
    "disabled"; ExportError if the server can't be reached, or does not take everything in five minutes.
    """
    mode = environ.get("WANDB_MODE", "").strip() or "online"
    if mode == "disabled":
        raise ConfigError("it is 'disabled', so nothing would be sent.", where="WANDB_MODE", hint="Unset it.")
    offline = mode in ("offline", "dryrun")
    for name, value in DEFAULTS.items():
        environ.setdefault(name, value)
    try:
        import wandb
    except ImportError:
        raise ConfigError(
            "exporting to Weights & Biases needs its SDK, which is not installed.",
            hint="pip install 'ragstone[wandb]'",
        ) from None
    where = "Weights & Biases" if offline else shown_address(environ.get("WANDB_BASE_URL") or "https://api.wandb.ai")
    with ExitStack() as stack:
        private = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ragstone-")))
        if not offline:
            environ.setdefault("WANDB_DATA_DIR", str(private))
        stack.enter_context(captured_log("wandb"))
        sent = write_files(found, private, settings, SAMPLES, MISSING, typed=True)
        hint = "Set WANDB_API_KEY, or WANDB_MODE=offline to write a folder."
        stack.enter_context(refusing(found, "Weights & Biases", where, (wandb.errors.UsageError,), hint))
        stack.callback(wandb.teardown)
        here = Path.cwd()
        with chdir(private):  # it looks for settings in ./wandb and ./.wandb
            wandb.setup(wandb.Settings(**_SETTINGS))
        run = wandb.init(
            id=f"ragstone-{found.run.fingerprint}",
            name=found.name,
            project=project or environ.get("WANDB_PROJECT") or PROJECT,
            entity=entity,
            job_type="evaluation",
            config=nested(found.parameters),
            allow_val_change=True,
            resume="allow",
            dir=str(here / Path(environ.get("WANDB_DIR", "")).expanduser() if offline else private),
            settings=wandb.Settings(**_SETTINGS),
        )
        known = bool(run.resumed)
        if known and run.config.get(DIGEST) == digest(found):
            run.finish()
            return Exported(str(run.url), str(run.id), "same")
        try:
            _write(wandb, run, found, sent, offline=offline)
        except BaseException:
            run.finish(exit_code=1)
            raise
        run.finish()
        if offline:
            return Exported(str(Path(run.dir).parent), str(run.id), "waiting")
        return Exported(str(run.url), str(run.id), "updated" if known else "new")


def _write(wandb: Any, run: Any, found: FinishedRun, sent: list[Path], *, offline: bool) -> None:
    panel = wandb.Table(columns=list(columns(found)), data=list(_panel(found)), allow_mixed_types=True)
    run.log({**found.figures, "samples": panel})
    run.summary.update({"verdict": found.verdict or "none", "reason": found.reason or ""})
    artifact = wandb.Artifact(f"{KIND}-{found.run.fingerprint}", KIND, metadata={"verdict": found.verdict or "none"})
    for file in sent:
        artifact.add_file(str(file), name=file.name)
    logged = run.log_artifact(artifact)
    if not offline:
        logged.wait(timeout=int(_SETTINGS["finish_timeout"]))
    run.config.update({DIGEST: digest(found)}, allow_val_change=True)


def _panel(found: FinishedRun) -> Iterator[list[Cell]]:
    size = 0
    for row in islice(table(found), PANEL_ROWS):
        size += sum(len(cell) for cell in row if isinstance(cell, str))
        if size > PANEL_CHARS:
            return
        yield list(row)


def nested(parameters: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Parameters as a config: ``judge.model`` in the table ``judge``; what has no table, in ``ragstone``."""
    config: dict[str, dict[str, str]] = {"ragstone": {}}
    for name, value in parameters.items():
        head, _, rest = name.partition(".")
        if rest:
            config.setdefault(head, {})[rest] = value
        elif name == "judge":
            config.setdefault(name, {})["label"] = value
        else:
            config["ragstone"][name] = value
    return config
