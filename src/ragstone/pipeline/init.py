"""Write starter files that fit the folder they are written to, without overwriting existing ones."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragstone.errors import ConfigError, disk_errors
from ragstone.files import read_regular, refuse_link
from ragstone.formatting import figure
from ragstone.gate.policy import policy_from_mapping
from ragstone.gate.policy_table import POLICY_FILE
from ragstone.pipeline.init_floors import MeasuredFloors, measured_floors
from ragstone.pipeline.init_workflow import find_place, read_text, workflow_text
from ragstone.pipeline.plan import plan, usual_drops
from ragstone.pipeline.survey.look import FoundGolden, Survey
from ragstone.pipeline.survey.proposal import Proposal
from ragstone.report.templates import read_template, render_text_template
from ragstone.system.entrypoint import parse_entrypoint

GOLDEN = "golden/golden.jsonl"
PLACEHOLDER = "python:my_package.rag:answer"
"""The entrypoint that is written if none is known."""

IGNORED = "ragstone-run/"
"""The line of .gitignore that keeps run directories out of git."""

NO_FLOORS = """\
# Floors: after a first `ragstone gate`, run `ragstone init` again. It writes floors here that your system clears by
# more than its noise, and says how it chose them.
"""
"""What a starter policy has in place of floors, until there is a run."""

RUN = IGNORED.rstrip("/")
"""The run directory that floors are measured on."""

_IGNORE_FILE = ".gitignore"
_ANYWHERE = frozenset(f"{before}ragstone-run{after}" for before in ("", "**/") for after in ("", "/"))
_HERE = _ANYWHERE | {f"/{line}" for line in ("ragstone-run", "ragstone-run/")}
"""The lines that ignore run directories: in a folder above, and in the folder itself."""

_MAX_IGNORE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Written:
    """Paths that were written, and those that were kept because they existed, relative to the folder.

    `ignores`: run directories were added to .gitignore. `floors` were written to thresholds.toml.
    """

    written: tuple[str, ...]
    kept: tuple[str, ...]
    ignores: bool = False
    floors: MeasuredFloors | None = None


def write_starter(directory: Path, *, proposal: Proposal, found: Survey) -> Written:
    """Write the starter files to `directory`, and the workflow to the root of its git repository, if it is in one.

    A starter golden set is written if none was found. Raises ConfigError if a file can't be written.
    """
    parse_entrypoint(proposal.entrypoint)
    home = directory.resolve()
    repository = git_root(home)
    root, golden = repository or home, found.golden
    config = _config(proposal, found)  # refuses what can't be written, before anything is
    target = find_place(root, home.relative_to(root).as_posix())
    texts = {
        "ragstone.toml": config,
        POLICY_FILE: _policy(golden),
        **({} if golden is not None else {GOLDEN: _shipped("golden.jsonl")}),
        os.path.relpath(root / target.workflow, home): workflow_text(target, root, home, proposal.entrypoint, found),
    }
    for place in texts:
        _refuse_links(root, Path(os.path.normpath(home / place)))
    written: list[str] = []
    kept: list[str] = []
    for place, text in texts.items():
        (written if _write_new(home / place, text) else kept).append(place)
    floors = _write_floors(home / POLICY_FILE, measured_floors(home, RUN))
    kept = [place for place in kept if floors is None or place != POLICY_FILE]
    return Written(tuple(written), tuple(kept), _ignore_runs(home, repository), floors)


def _write_floors(path: Path, floors: MeasuredFloors | None) -> MeasuredFloors | None:
    """Put `floors` in the place that a starter policy keeps for them; None if there are none, or no such place."""
    if floors is None:
        return None
    with disk_errors(path, "can't be changed"):
        text = read_text(path, "")
        if NO_FLOORS not in text:
            return None
        path.write_text(text.replace(NO_FLOORS, floors.toml()), "utf-8", "surrogateescape", "\n")
    return floors


def is_starter(path: Path) -> bool:
    try:
        return read_regular(path, limit=_MAX_IGNORE_BYTES) == _shipped("golden.jsonl").encode()
    except OSError:
        return False


def git_root(directory: Path) -> Path | None:
    """The work tree that `directory` is in, if any. Git is not run."""
    start = directory.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def _refuse_links(root: Path, path: Path) -> None:
    """Raise ConfigError if `path`, which would be written below `root`, leads through a link. A file that is there is
    not written."""
    if path.exists():
        return
    folders = path.parents[: path.parents.index(root)]
    with disk_errors(path, "can't be written"):
        for part in (path, *folders):
            refuse_link(part)


def _write_new(path: Path, text: str) -> bool:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigError(f"can't be written: {error.strerror}.", where=str(path)) from None
    return True


def _ignore_runs(directory: Path, repository: Path | None) -> bool:
    """Add run directories to .gitignore, unless a file of the repository has them already. Whether it was changed."""
    path = directory / _IGNORE_FILE
    if repository is None and not path.exists():
        return False
    folders = [folder for folder in (directory, *directory.parents) if folder.is_relative_to(repository or directory)]
    with disk_errors(path, "can't be changed"):
        texts = [read_text(folder / _IGNORE_FILE, f"; add the line {IGNORED} to it yourself") for folder in folders]
        for text, lines in zip(texts, (_HERE, *[_ANYWHERE] * len(texts)), strict=False):
            if any(line.strip() in lines for line in text.splitlines()):
                return False
        text = texts[0]
        newline = "\r\n" if "\r\n" in text else "\n"
        with path.open("a", encoding="utf-8", newline="") as stream:
            stream.write(("" if not text or text.endswith("\n") else newline) + IGNORED + newline)
    return True


def _config(proposal: Proposal, found: Survey) -> str:
    http = {"question_field": proposal.question_field, **proposal.http}
    if http["question_field"] in (None, "question"):
        del http["question_field"]
    text = render_text_template(
        "starter/ragstone.toml.j2",
        __package__,
        value=_value,
        golden="golden/*.jsonl" if found.golden is None else found.golden.path,
        entrypoint=proposal.entrypoint,
        placeholder=proposal.entrypoint == PLACEHOLDER,
        uses_interpreter=parse_entrypoint(proposal.entrypoint).kind.uses_interpreter,
        settings=proposal.settings,
        python=found.python,
        variables=found.variables,
        http=http,
    )
    return f"{text}\n"


def _policy(golden: FoundGolden | None) -> str:
    """The starter policy, with what a golden set can show under it."""
    policy = policy_from_mapping({})
    size = golden.samples if golden is not None else len(_shipped("golden.jsonl").splitlines())
    sample_plan = plan(policy, drops=usual_drops(policy), offline=True, samples=size)
    pairs = zip(sample_plan.needed, sample_plan.drops, strict=True)
    needed = ", ".join(f"{samples:,} for {drop:g}" for samples, drop in pairs if samples is not None)
    drops = [row.detectable for row in sample_plan.metrics if row.blocks]
    each = [drop for drop in drops if drop is not None]
    shows = (
        f"can show a drop of {figure(max(each))}"
        if each and len(each) == len(drops)
        else "are too few to show any drop"
    )
    return (
        _shipped("thresholds.toml")
        .replace(
            "# PLAN\n",
            "# Samples needed to see a drop in 4 of 5 runs, by `ragstone plan`:\n"
            f"# {needed}. Today's golden set has {size:,}, which {shows}.\n",
        )
        .replace("# FLOORS\n", NO_FLOORS)
    )


def _shipped(name: str) -> str:
    return read_template(f"starter/{name}", __package__)


def _value(value: object) -> str:
    """`value` in TOML, tables inline. Basic strings of TOML are JSON's. Raises ConfigError."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_value(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str) and not value.isprintable():
        raise ConfigError(f"this can't be written to ragstone.toml: {value!r}")
    return json.dumps(value, ensure_ascii=False)
