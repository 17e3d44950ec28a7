"""Parses the action's inputs, by the table in inputs.toml, from which action.yml and
the documentation are made too."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct
from pydantic import SecretStr

from ragstone.errors import ConfigError
from ragstone.files import read_table
from ragstone.golden.sample import Texts
from ragstone.pipeline.notify import checked_address
from ragstone.settings.load import option_of
from ragstone.settings.variables import TOKENS, Environ, Variables

TOKEN_INPUT = "github-token"  # noqa: S105 - the name of an input


class CommentMode(StrEnum):
    """When a pull request gets a comment."""

    ALWAYS = "always"
    FAILURES = "failures"
    OFF = "off"


# Inputs whose environment variables `settings/` reads.
_READ_WITH_SETTINGS = ("config", "working-directory")


def _lines(value: str) -> Texts:
    return tuple(line.strip() for line in value.splitlines() if line.strip())


class Input(Struct, frozen=True):
    """One input of the action."""

    name: str
    text: str = ""
    """The description; for an input with a `key`, what follows the setting's own."""
    default: str = ""
    key: str | None = None
    """The key in OPTIONS of the setting that the input overrides; None if it is about
    GitHub or the container."""
    container_only: bool = False
    read: Callable[[str], object] = str
    """Turns a text that isn't empty into the value. The value of a setting is validated
    with the other settings."""
    pattern: str = ""
    """A regular expression that the whole text must match, if there is one."""
    invalid: str = ""
    """What an error message says of a text that doesn't match, after quoting it."""
    secret: bool = False

    @property
    def description(self) -> str:
        """The description for the documentation, in Markdown, with the default."""
        if self.key is None:
            return self.text
        option = option_of(self.key)
        default = ""
        if option.default:
            default = f"Default: the config's, else {option.default}."
        return " ".join(filter(None, (f"{option.sentence}.", self.text, default)))

    def value_of(self, text: str) -> object:
        """Parse `text`. Raises ConfigError, which does not name the input."""
        if self.pattern and not re.fullmatch(self.pattern, text):
            raise ConfigError(f"'{text[:80]}' {self.invalid}")
        return self.read(text)

    @property
    def runner_variable(self) -> str:
        """The environment variable in which the runner passes the input: letters become
        upper case, dashes stay."""
        return f"INPUT_{self.name.upper()}"

    @property
    def gate_variable(self) -> str:
        """The environment variable for the same with `ragstone gate --github`, if the
        input is not for a setting."""
        return f"RAGSTONE_{self.name.upper().replace('-', '_')}"


_READERS: Mapping[str, Callable[[str], object]] = {
    "text": str,
    "lines": _lines,
    "boolean": lambda text: text.lower() == "true",
    "comment": CommentMode,
    "secret": SecretStr,
    "webhook": lambda text: SecretStr(checked_address(text)),
    "workflow": lambda text: text.removeprefix(".github/workflows/"),
    "branch": lambda text: text.removeprefix("refs/heads/"),
}
_TABLES: dict[str, dict[str, Any]] = read_table("inputs.toml", __package__)


def _input_of(name: str, row: Mapping[str, Any]) -> Input:
    read = _READERS[row.get("read", "text")]
    return Input(name, **{**row, "read": read})


INPUTS = tuple(_input_of(name, row) for name, row in _TABLES.items())


_NO_SECRET = SecretStr("")


class ActionInputs(Struct, frozen=True):
    """The validated inputs."""

    working_directory: str
    baseline: str
    artifact_name: str
    comment: CommentMode
    comment_id: str
    annotations: bool
    config: str | None = None
    setup: str = ""
    requirements: Texts = ()
    python_version: str | None = None
    baseline_branch: str | None = None
    baseline_workflow: str | None = None
    github_token: SecretStr = _NO_SECRET
    notify: SecretStr | None = None
    overrides: Mapping[str, object] = {}
    """The values of settings, by their keys in OPTIONS."""

    def __repr__(self) -> str:  # without secrets
        return f"{type(self).__name__}(…)"


def read_inputs(environ: Environ) -> ActionInputs:
    """Read the inputs of the action from the variables ``INPUT_*``. Raises ConfigError
    that names the input."""
    return _read(
        environ, lambda spec: (spec.runner_variable,), where="input '{0.name}'"
    )


def read_variables(environ: Environ) -> ActionInputs:
    """What `ragstone gate --github` reads from ``RAGSTONE_*``; settings/ reads its own.

    The token is RAGSTONE_GITHUB_TOKEN, else GITHUB_TOKEN.
    """

    def names_of(spec: Input) -> Texts:
        is_read_elsewhere = spec.container_only or spec.name in _READ_WITH_SETTINGS
        if spec.key is not None or is_read_elsewhere:
            return ()
        return TOKENS if spec.name == TOKEN_INPUT else (spec.gate_variable,)

    return _read(environ, names_of, where="environment variable {0.gate_variable}")


def _read(
    environ: Environ, names_of: Callable[[Input], Sequence[str]], *, where: str
) -> ActionInputs:
    """Read each input from the first of its variables, `names_of` it, that is not
    empty. `where` is a format string that names an Input in error messages."""
    variables = Variables(environ)
    fields: dict[str, Any] = {}
    overrides: dict[str, object] = {}
    for spec in INPUTS:
        # The default of a secret is an expression that only the runner evaluates.
        text = "" if spec.secret else spec.default
        # From the last to the first, so that the first replaces the others.
        for name in reversed(names_of(spec)):
            if spec.secret:
                secret = variables.secret(name)
                variable_text = "" if secret is None else secret.get_secret_value()
            else:
                variable_text = variables.get(name).strip()
            text = variable_text or text
        if not text:
            continue
        try:
            value = spec.value_of(text)
        except ConfigError as error:
            raise ConfigError(
                error.message, where=where.format(spec), hint=error.hint
            ) from None
        if spec.key is None:
            fields[spec.name.replace("-", "_")] = value
        else:
            overrides[spec.key] = value
    return ActionInputs(**fields, overrides=overrides)
