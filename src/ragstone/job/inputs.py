"""The action's inputs: one table for action.yml, the documentation and parsing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import SecretStr

from ragstone.ci.github.platform import GITHUB, TOKENS
from ragstone.ci.platform import Variables
from ragstone.config import default_text, option_of, variable_of
from ragstone.errors import ConfigError, suggestion

DEFAULT_ARTIFACT = "ragstone-run"
TOKEN_INPUT = "github-token"  # noqa: S105 - the name of an input


class CommentMode(StrEnum):
    """When a pull request gets a comment."""

    ALWAYS = "always"
    CHANGES = "changes"
    FAILURES = "failures"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Input:
    """One input. `text` describes it; of the input for a setting (`key` in OPTIONS), the setting's description does.

    Without a `key`, it is about GitHub or the container.
    """

    name: str
    text: str = ""
    default: str = ""
    key: str | None = None
    choices: tuple[str, ...] = ()
    container_only: bool = False

    @property
    def description(self) -> str:
        """What the input is, in Markdown, and what counts without it."""
        if self.key is None:
            return self.text
        option = option_of(self.key)
        default = default_text(option.field)
        return " ".join(
            filter(None, (f"{option.sentence}.", self.text, default and f"Default: from the config, else {default}."))
        )

    @property
    def is_secret(self) -> bool:
        return self.name == TOKEN_INPUT or (self.key is not None and option_of(self.key).secret)

    @property
    def input_variable(self) -> str:
        """The runner's variable for it: spaces become underscores, letters upper case, dashes stay."""
        return f"INPUT_{self.name.upper()}"

    @property
    def variable(self) -> str:
        """The corresponding environment variable for `ragstone gate --github`."""
        return variable_of(self.key) if self.key is not None else f"RAGSTONE_{self.name.upper().replace('-', '_')}"


_SEPARATED = "Separated by spaces, commas or newlines."

INPUTS: tuple[Input, ...] = (
    Input(
        "config",
        "Config file (`ragstone.toml` or `pyproject.toml`). Default: the one in `working-directory`, if any.",
    ),
    Input("golden-set", "One per line.", key="golden.paths"),
    Input("entrypoint", key="system.entrypoint"),
    Input(
        "setup",
        "Shell commands that install your system. They run as the workspace's owner, in your system's environment.",
        container_only=True,
    ),
    Input(
        "requirements",
        "Requirements files (`requirements.txt`, `pyproject.toml`, `pylock.toml`) to install with `uv`, one per line.",
        container_only=True,
    ),
    Input(
        "python-version",
        "Python version for your system, such as `3.11`. Default: the container's.",
        container_only=True,
    ),
    Input("working-directory", "Folder in the workspace that paths and commands are relative to.", default="."),
    Input("system-env", _SEPARATED, key="system.env"),
    Input("judge", key="judge.name"),
    Input("judge-api-key", key="judge.api_key"),
    Input("judge-base-url", key="judge.base_url"),
    Input("metrics", _SEPARATED, key="run.metrics"),
    Input("thresholds", key="gate.thresholds"),
    Input(
        "baseline",
        "`artifact`: the newest good run on the baseline branch. `commit`: the base commit, asked in the same job. "
        "`none`: no comparison. Otherwise: a run directory.",
        default="artifact",
    ),
    Input("baseline-entrypoint", "With `baseline: commit`.", key="gate.baseline_entrypoint"),
    Input("baseline-branch", "Branch of the baseline. Default: the pull request's base, else the default branch."),
    Input(
        "artifact-name",
        "Name of the artifact to which `actions/upload-artifact` uploads the run directory.",
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
        "Identifies the gate if a repository has several: each has its own comment and issue.",
        default="default",
    ),
    Input(
        "gates-file",
        "File that lists all gates of the repository, with the paths that affect each: they share one comment and one "
        "error rate, and a gate that a change does not affect passes without being run.",
    ),
    Input("annotations", "Whether to add annotations to the golden set and the policy.", default="true"),
    Input("workers", key="run.workers"),
    Input("shard", "Nothing is decided then: another job does that, with `merge`.", key="run.shard"),
    Input(
        "merge",
        "Artifacts of this workflow run with shards, such as `ragstone-shard-*`: they are merged and decided on, and "
        "nothing is evaluated.",
    ),
    Input(
        "allow-missing",
        "With `merge`: whether the samples of missing and damaged shards count as failed, instead of an error.",
        default="false",
    ),
    Input("fail-on", key="gate.fail_on", choices=("fail", "inconclusive", "never")),
    Input("report-issue", "Whether failing scheduled runs open an issue, and passing ones close it.", default="false"),
    Input("time-limit", key="run.time_limit_s"),
    Input("max-cost-usd", key="judge.max_cost_usd"),
    Input(
        TOKEN_INPUT,
        "Token for the baseline (`actions: read`), the comment (`pull-requests: write`), the issue (`issues: write`), "
        "and with `gates-file` the check runs (`checks: write`).",
        default="${{ github.token }}",
    ),
)

COMMENT_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""What identifies a gate, as a regular expression."""

_ID = re.compile(COMMENT_ID)
_PYTHON = re.compile(r"(?:(?:cpython|pypy)[@-]?)?3\.\d{1,2}(?:\.\d{1,3})?t?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARTIFACT_FORBIDDEN = re.compile(r'["\x00-\x1f:<>|*?\\/]')
_NEVER_PASSED = ("INPUT_", "ACTIONS_", "GITHUB_", "RUNNER_", "RAGSTONE_")
_LISTS = {"golden.paths", "system.env", "run.metrics"}


@dataclass(frozen=True, slots=True)
class ActionInputs:
    """The validated inputs. `overrides` maps keys of config.OPTIONS to values; secrets are kept out of every repr."""

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
    gates_file: str | None = None
    annotations: bool = True
    report_issue: bool = False
    merge: str | None = None
    allow_missing: bool = False
    github_token: SecretStr = field(default_factory=lambda: SecretStr(""))
    overrides: Mapping[str, object] = field(default_factory=dict, repr=False)


def read_inputs(environ: Mapping[str, str]) -> ActionInputs:
    """The inputs of the action, from ``INPUT_*``. Raises ConfigError that names the input."""
    variables = GITHUB.variables(environ)
    return _read(lambda spec: _value(variables, spec, spec.input_variable), "input '{0.name}'")


def read_variables(environ: Mapping[str, str]) -> ActionInputs:
    """What `ragstone gate --github` reads from ``RAGSTONE_*``; config/ reads its own settings.

    The token is RAGSTONE_GITHUB_TOKEN, else GITHUB_TOKEN.
    """

    def value(spec: Input) -> str | None:
        if spec.key is not None or spec.container_only or spec.name in ("config", "working-directory"):
            return None
        if spec.name == TOKEN_INPUT:
            return next(filter(None, (_value(variables, spec, name) for name in TOKENS)), None)
        return _value(variables, spec, spec.variable)

    variables = GITHUB.variables(environ)
    return _read(value, "environment variable {0.variable}")


def _value(variables: Variables, spec: Input, name: str) -> str:
    """The value of an input in the variable `name`."""
    if not spec.is_secret:
        return variables.get(name)
    found = variables.secret(name)
    return found.get_secret_value() if found is not None else ""


def _read(lookup: Callable[[Input], str | None], place: str) -> ActionInputs:
    values: dict[str, str] = {}
    for spec in INPUTS:
        found = (lookup(spec) or "").strip()
        # The runner fills in `${{ github.token }}`.
        values[spec.name] = found or ("" if spec.is_secret else spec.default)
        if "\0" in found:
            raise _error(spec, place, "contains a NUL character.")
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
        gates_file=values["gates-file"] or None,
        annotations=check.boolean("annotations"),
        report_issue=check.boolean("report-issue"),
        merge=check.artifact("merge", pattern=True) or None,
        allow_missing=check.boolean("allow-missing"),
        github_token=SecretStr(values[TOKEN_INPUT]),
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

    def artifact(self, name: str, *, pattern: bool = False) -> str:
        """The name of an artifact, or a `pattern` with ``*`` for any characters."""
        value = self._values[name]
        if len(value) > 200 or _ARTIFACT_FORBIDDEN.search(value.replace("*", "") if pattern else value):
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
                    spec, self._place, f"'{name[:80]}' is not a variable name.", "List names only, never name=value."
                )
            if name.upper().startswith(_NEVER_PASSED):
                raise _error(
                    spec,
                    self._place,
                    f"'{name}' is never passed to the system under test.",
                    "Copy the value to a variable with another name, under `env:` of the step.",
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
