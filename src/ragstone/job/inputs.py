"""The action's inputs: one table, from which action.yml, the documentation and the parsing are held to agree."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import SecretStr

from ragstone.config import OPTIONS
from ragstone.errors import ConfigError, suggestion

DEFAULT_ARTIFACT = "ragstone-run"


class CommentMode(StrEnum):
    """When a pull request gets a comment."""

    ALWAYS = "always"
    CHANGES = "changes"
    FAILURES = "failures"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Input:
    """One input. `key` is the setting of config.py that it stands for; None: it is about GitHub or the container."""

    name: str
    description: str
    default: str = ""
    key: str | None = None
    choices: tuple[str, ...] = ()
    container_only: bool = False

    @property
    def input_variable(self) -> str:
        """The runner's name for it: spaces become underscores, letters upper case, dashes stay."""
        return f"INPUT_{self.name.upper()}"

    @property
    def variable(self) -> str:
        """The environment variable that stands for it under `ragstone gate --github`."""
        for option in OPTIONS:
            if option.key == self.key:
                return option.env
        return f"RAGSTONE_{self.name.upper().replace('-', '_')}"


INPUTS: tuple[Input, ...] = (
    Input(
        "config",
        "Config file (`ragstone.toml` or `pyproject.toml`). Empty: the one in `working-directory`, if there is one.",
    ),
    Input("golden-set", "Golden set files or globs, one a line.", key="golden.paths"),
    Input(
        "entrypoint",
        "How your system is asked: `python:package.module:attribute`, `command:…`, `http(s)://…` or `file:…`.",
        key="system.entrypoint",
    ),
    Input(
        "setup",
        "Shell lines that install your system. They run as the owner of the workspace, in your own environment.",
        container_only=True,
    ),
    Input(
        "requirements",
        "Requirements files (`requirements.txt`, `pyproject.toml`, `pylock.toml`), one a line, installed with `uv`.",
        container_only=True,
    ),
    Input("python-version", "Python for your system, such as `3.11`. Empty: the container's own.", container_only=True),
    Input("working-directory", "Folder, inside the workspace, that paths and commands start from.", default="."),
    Input(
        "system-env",
        "Names of environment variables that your system may see, separated by spaces, commas or lines.",
        key="system.env",
    ),
    Input(
        "judge",
        "`offline`, `local:FOLDER`, `openai:MODEL`, `anthropic:MODEL` or `openai-compatible:MODEL`. Empty: as "
        "configured, else `offline`.",
        key="judge.name",
    ),
    Input("judge-api-key", "Key of the judge. Your system never sees it.", key="judge.api_key"),
    Input("judge-base-url", "Endpoint of the judge, where it is not the provider's own.", key="judge.base_url"),
    Input(
        "metrics", "Metrics, separated by spaces, commas or lines. Empty: the four headline ones.", key="run.metrics"
    ),
    Input("thresholds", "Policy file. Empty: `thresholds.toml`, if it is there.", key="gate.thresholds"),
    Input(
        "baseline",
        "`artifact`: the newest good run on the baseline branch. `none`: compare with nothing. Else: a run directory.",
        default="artifact",
    ),
    Input("baseline-branch", "Branch of the baseline. Empty: the pull request's base, else the default branch."),
    Input(
        "artifact-name",
        "Name under which `actions/upload-artifact` keeps the run directory.",
        default=DEFAULT_ARTIFACT,
    ),
    Input(
        "comment",
        "When to comment on the pull request: `always`, `changes` (anything but an unchanged pass), `failures` or "
        "`off`.",
        default="always",
        choices=tuple(CommentMode),
    ),
    Input(
        "comment-id",
        "Tells several gates in one repository apart: each has its own comment and issue.",
        default="default",
    ),
    Input("annotations", "Whether to annotate the golden set and the policy.", default="true"),
    Input(
        "fail-on",
        "What fails the job: `fail`, `inconclusive` (and `fail`), or `never`. Empty: as the policy says.",
        key="gate.fail_on",
        choices=("fail", "inconclusive", "never"),
    ),
    Input(
        "report-issue", "Whether a failing scheduled run opens an issue, and a passing one closes it.", default="false"
    ),
    Input(
        "time-limit",
        "Seconds that `setup` and the evaluation may take together; then the job ends with code 124. Empty: no limit.",
        key="run.time_limit_s",
    ),
    Input("max-cost-usd", "Stop before the judge has cost more than this.", key="judge.max_cost_usd"),
    Input(
        "github-token",
        "Token for the baseline (`actions: read`), the comment (`pull-requests: write`) and the issue "
        "(`issues: write`).",
        default="${{ github.token }}",
    ),
)

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PYTHON = re.compile(r"(?:(?:cpython|pypy)[@-]?)?3\.\d{1,2}(?:\.\d{1,3})?t?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARTIFACT_FORBIDDEN = re.compile(r'["\x00-\x1f:<>|*?\\/]')
_NEVER_PASSED = ("INPUT_", "ACTIONS_", "GITHUB_", "RUNNER_", "RAGSTONE_")
_LISTS = {"golden.paths", "system.env", "run.metrics"}


@dataclass(frozen=True, slots=True)
class ActionInputs:
    """The inputs, checked. `overrides` maps keys of config.OPTIONS to values; secrets are kept out of every repr."""

    config: str | None = None
    setup: str = ""
    requirements: tuple[str, ...] = ()
    python_version: str | None = None
    working_directory: str = "."
    baseline: str = "artifact"
    baseline_branch: str | None = None
    artifact_name: str = DEFAULT_ARTIFACT
    comment: CommentMode = CommentMode.ALWAYS
    comment_id: str = "default"
    annotations: bool = True
    report_issue: bool = False
    github_token: SecretStr = field(default_factory=lambda: SecretStr(""))
    overrides: Mapping[str, object] = field(default_factory=dict, repr=False)


def read_inputs(environ: Mapping[str, str]) -> ActionInputs:
    """The inputs of the action, from ``INPUT_*``. Raises ConfigError that names the input."""
    return _read(lambda spec: environ.get(spec.input_variable), "input '{0.name}'")


def read_variables(environ: Mapping[str, str]) -> ActionInputs:
    """What `ragstone gate --github` takes from ``RAGSTONE_*``; settings of config.py come through its own cascade.

    The token is RAGSTONE_GITHUB_TOKEN, else GITHUB_TOKEN.
    """

    def value(spec: Input) -> str | None:
        if spec.key is not None or spec.container_only or spec.name in ("config", "working-directory"):
            return None
        found = environ.get(spec.variable)
        return found or environ.get("GITHUB_TOKEN") if spec.name == "github-token" else found

    return _read(value, "environment variable {0.variable}")


def _read(lookup: Callable[[Input], str | None], place: str) -> ActionInputs:
    values: dict[str, str] = {}
    for spec in INPUTS:
        found = (lookup(spec) or "").strip()
        # `${{ github.token }}` is for the runner to fill in.
        values[spec.name] = found or ("" if spec.name == "github-token" else spec.default)
        if "\0" in found:
            raise _error(spec, place, "holds a NUL character.")
        if found and spec.choices and found not in spec.choices:
            raise _error(spec, place, f"'{found}' is not one of its values.", suggestion(found, spec.choices))
    check = _Checks({spec.name: spec for spec in INPUTS}, place, values)
    return ActionInputs(
        config=values["config"] or None,
        setup=values["setup"],
        requirements=_lines(values["requirements"]),
        python_version=check.pattern("python-version", _PYTHON, "a version such as 3.11 or 3.12.4") or None,
        working_directory=values["working-directory"],
        baseline=values["baseline"],
        baseline_branch=values["baseline-branch"].removeprefix("refs/heads/") or None,
        artifact_name=check.artifact("artifact-name"),
        comment=CommentMode(values["comment"]),
        comment_id=check.pattern("comment-id", _ID, "letters, digits, dots, dashes and underscores, 64 at most"),
        annotations=check.boolean("annotations"),
        report_issue=check.boolean("report-issue"),
        github_token=SecretStr(values["github-token"]),
        overrides=check.overrides(),
    )


class _Checks:
    def __init__(self, specs: Mapping[str, Input], place: str, values: Mapping[str, str]) -> None:
        self._specs = specs
        self._place = place
        self._values = values

    def pattern(self, name: str, pattern: re.Pattern[str], expected: str) -> str:
        value = self._values[name]
        if value and not pattern.fullmatch(value):
            raise _error(self._specs[name], self._place, f"'{value[:80]}' is not {expected}.")
        return value

    def boolean(self, name: str) -> bool:
        value = self._values[name].lower()
        if value not in ("true", "false"):
            raise _error(self._specs[name], self._place, f"'{value[:80]}' is neither true nor false.")
        return value == "true"

    def artifact(self, name: str) -> str:
        value = self._values[name]
        if len(value) > 200 or _ARTIFACT_FORBIDDEN.search(value):
            raise _error(
                self._specs[name],
                self._place,
                f"'{value[:80]}' can't be an artifact's name.",
                'Leave out " : < > | * ? \\ / and control characters, and stay under 200 characters.',
            )
        return value

    def overrides(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for spec in self._specs.values():
            value = self._values[spec.name]
            if spec.key is None or not value:
                continue
            found[spec.key] = self._setting(spec, value)
        return found

    def _setting(self, spec: Input, value: str) -> object:
        if spec.key == "golden.paths":
            return _lines(value)
        if spec.key == "system.env":
            return self._variables(spec, value)
        if spec.key in _LISTS:
            return tuple(value.replace(",", " ").split())
        if spec.key in ("judge.max_cost_usd", "run.time_limit_s"):
            return self._amount(spec, value)
        return value

    def _variables(self, spec: Input, value: str) -> tuple[str, ...]:
        names = tuple(value.replace(",", " ").split())
        for name in names:
            if not _VARIABLE.fullmatch(name):
                raise _error(
                    spec, self._place, f"'{name[:80]}' is not a variable's name.", "List names only, never name=value."
                )
            if name.upper().startswith(_NEVER_PASSED):
                raise _error(
                    spec,
                    self._place,
                    f"'{name}' is never passed to the system under test.",
                    "Copy what your system needs into a variable of another name, under `env:` of the step.",
                )
        return names

    def _amount(self, spec: Input, value: str) -> float:
        try:
            amount = float(value)
        except ValueError:
            amount = math.nan
        if not math.isfinite(amount) or amount <= 0:
            raise _error(spec, self._place, f"'{value[:80]}' is not a number above 0, such as 2.50.")
        return amount


def _error(spec: Input, place: str, message: str, hint: str | None = None) -> ConfigError:
    return ConfigError(message, where=place.format(spec), hint=hint)


def _lines(value: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in value.splitlines() if line.strip())
