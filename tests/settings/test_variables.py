"""What is read as a secret is declared, and what is declared is redacted and kept from the system."""

from __future__ import annotations

import pytest

from ragstone.errors import ConfigError
from ragstone.evaluation.redact import Redactor
from ragstone.pipeline.known_secrets import known_secrets
from ragstone.settings.settings import Settings
from ragstone.settings.variables import BY_NAME, SECRETS, WITHHELD, UndeclaredSecretError, Variables
from ragstone.system.environment import child_environment


def _of(name: str) -> str:
    return f"canary-of-{name}"


@pytest.mark.parametrize("name", SECRETS)
def test_a_declared_secret_is_redacted(name: str) -> None:
    redact = Redactor(known_secrets({name: _of(name)}, Settings()))
    assert _of(name) not in redact(f"It said {_of(name)}.")


@pytest.mark.parametrize("name", SECRETS)
def test_the_system_gets_no_declared_secret_by_a_pattern(name: str) -> None:
    assert child_environment([f"*{name[1:]}"], {name: "x"}) == {}


@pytest.mark.parametrize("name", SECRETS)
def test_the_system_gets_only_a_secret_of_the_user_by_name(name: str) -> None:
    if name in BY_NAME:
        assert child_environment([name], {name: "x"}) == {name: "x"}
    else:
        assert name in WITHHELD
        with pytest.raises(ConfigError, match="must not be passed to the system under test"):
            child_environment([name], {name: "x"})


def test_a_secret_that_is_not_declared_cannot_be_read() -> None:
    variables = Variables({"FORGE_TOKEN": "x", "FORGE_PASS": "x", "FORGE_URL": "https://x"}, ("FORGE_PASS",))
    assert variables.get("FORGE_URL") == "https://x"
    for read, name in (
        (variables.secret, "FORGE_TOKEN"),
        (variables.secret, "FORGE_URL"),
        (variables.get, "FORGE_TOKEN"),  # by its name
        (variables.get, "FORGE_PASS"),  # by its declaration
    ):
        with pytest.raises(UndeclaredSecretError):
            read(name)
