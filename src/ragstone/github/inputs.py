"""The action's inputs: one table (inputs.toml) for action.yml, the documentation and
parsing."""

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


_OF_SETTINGS = ("config", "working-directory")


def _lines(value: str) -> Texts:
    return tuple(line.strip() for line in value.splitlines() if line.strip())


class Input(Struct, frozen=True):
    """One input. `text` describes it; of the input for a setting (`key` in OPTIONS),
    the setting's description does.

    Without a `key`, it is about GitHub or the container. `read` turns text that isn't
    empty into the value. Text that doesn't fit `pattern` as a whole is refused, with
    what `invalid` says of it; that for a setting is parsed with the other settings.
    """

    name: str
    text: str = ""
    default: str = ""
    key: str | None = None
    container_only: bool = False
    read: Callable[[str], object] = str
    pattern: str = ""
    invalid: str = ""
    secret: bool = False

    @property
    def description(self) -> str:
        """What the input is, in Markdown, and what counts without it."""
        if self.key is None:
            return self.text
        option, default = option_of(self.key), option_of(self.key).default
        default = default and f"Default: the config's, else {default}."
        return " ".join(filter(None, (f"{option.sentence}.", self.text, default)))

    def value_of(self, text: str) -> object:
        """The value of `text`. Raises ConfigError, which does not name the input."""
        if self.pattern and not re.fullmatch(self.pattern, text):
            raise ConfigError(f"'{text[:80]}' {self.invalid}")
        return self.read(text)

    @property
    def input_variable(self) -> str:
        """The runner's variable for it: spaces become underscores, letters upper case,
        dashes stay."""
        return f"INPUT_{self.name.upper()}"

    @property
    def variable(self) -> str:
        """The corresponding environment variable for `ragstone gate --github`, if it is
        not that of a setting."""
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

INPUTS = tuple(
    Input(name, **{**row, "read": _READERS[row.get("read", "text")]})
    for name, row in _TABLES.items()
)


_NO_SECRET = SecretStr("")


class ActionInputs(Struct, frozen=True):
    """The validated inputs. `overrides` maps keys of settings.OPTIONS to values;
    secrets are kept out of every repr."""

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


def read_inputs(environ: Environ) -> ActionInputs:
    """The inputs of the action, from ``INPUT_*``. Raises ConfigError that names the
    input."""
    return _read(environ, lambda spec: (spec.input_variable,), "input '{0.name}'")


def read_variables(environ: Environ) -> ActionInputs:
    """What `ragstone gate --github` reads from ``RAGSTONE_*``; settings/ reads its own.

    The token is RAGSTONE_GITHUB_TOKEN, else GITHUB_TOKEN.
    """

    def names_of(spec: Input) -> Texts:
        is_elsewhere = spec.container_only or spec.name in _OF_SETTINGS
        if spec.key is not None or is_elsewhere:
            return ()
        return TOKENS if spec.name == TOKEN_INPUT else (spec.variable,)

    return _read(environ, names_of, "environment variable {0.variable}")


def _read(
    environ: Environ, names_of: Callable[[Input], Sequence[str]], place: str
) -> ActionInputs:
    """The inputs, each from the first variable of its names that is not empty."""
    variables = Variables(environ)
    fields: dict[str, Any] = {}
    overrides: dict[str, object] = {}
    for spec in INPUTS:
        # The runner fills in `${{ github.token }}`.
        text = "" if spec.secret else spec.default
        for name in reversed(names_of(spec)):
            if spec.secret:
                secret = variables.secret(name)
                value = "" if secret is None else secret.get_secret_value()
            else:
                value = variables.get(name).strip()
            text = value or text
        if not text:
            continue
        try:
            read = spec.value_of(text)
        except ConfigError as error:
            where = place.format(spec)
            raise ConfigError(error.message, where=where, hint=error.hint) from None
        if spec.key is None:
            fields[spec.name.replace("-", "_")] = read
        else:
            overrides[spec.key] = read
    return ActionInputs(**fields, overrides=overrides)
