"""What a platform reads as a secret is declared, and what is declared is redacted and kept from the system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from ragstone.ci.comments import post_comment
from ragstone.ci.platform import Platform, UndeclaredSecretError, Variables
from ragstone.ci.platforms import PLATFORMS
from ragstone.config.settings import Settings
from ragstone.errors import ConfigError
from ragstone.project.known_secrets import known_secrets
from ragstone.run.redact import Redactor
from ragstone.system.environment import child_environment
from tests.ci.fakes import Fake, Handler, Reply, azure, gitlab, serving

SECRETS = [(platform, name) for platform in PLATFORMS for name in (*platform.secrets, *platform.user_secrets)]
IDS = [name for _, name in SECRETS]
ADDRESSES = {
    "GitLab CI": {"CI_API_V4_URL": "/api/v4", "CI_PROJECT_ID": "7", "CI_PROJECT_DIR": "/", "GITLAB_CI": "true"},
    "Azure Pipelines": {"SYSTEM_COLLECTIONURI": "/org", "TF_BUILD": "true"},
}
FAKES: dict[str, Handler] = {"GitLab CI": gitlab, "Azure Pipelines": azure}
ON_THE_WEB = [platform for platform in PLATFORMS if platform.comments is not None or platform.store is not None]


class Canaries(Mapping[str, str]):
    """An environment in which every variable is set, each to a value of its own, but for those in `given`."""

    def __init__(self, given: Mapping[str, str], without: tuple[str, ...] = ()) -> None:
        self.given = given
        self.without = without
        self.read: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name in self.without:
            raise KeyError(name)
        return self.given[name] if name in self.given else self.read.setdefault(f"canary-of-{name}", name) and _of(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)


def _of(name: str) -> str:
    return f"canary-of-{name}"


@pytest.mark.parametrize(("platform", "name"), SECRETS, ids=IDS)
def test_a_declared_secret_is_redacted(platform: Platform, name: str) -> None:
    redact = Redactor(known_secrets({name: _of(name)}, Settings()))
    assert _of(name) not in redact(f"It said {_of(name)}.")


@pytest.mark.parametrize(("platform", "name"), SECRETS, ids=IDS)
def test_the_system_gets_no_declared_secret_by_a_pattern(platform: Platform, name: str) -> None:
    assert child_environment([f"*{name[1:]}"], {name: "x"}) == {}


@pytest.mark.parametrize(("platform", "name"), SECRETS, ids=IDS)
def test_the_system_gets_only_a_secret_of_the_user_by_name(platform: Platform, name: str) -> None:
    if name in platform.user_secrets:
        assert child_environment([name], {name: "x"}) == {name: "x"}
    else:
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


@pytest.mark.parametrize("without", [(), ("GITLAB_TOKEN",)], ids=["all set", "no token of the user"])
@pytest.mark.parametrize("platform", ON_THE_WEB, ids=lambda platform: platform.name)
def test_all_that_a_platform_sends_as_a_credential_is_redacted(
    platform: Platform, without: tuple[str, ...], tmp_path: Path
) -> None:
    sent: list[str] = []
    answer: Callable[..., Reply] = FAKES[platform.name]
    fake = Fake(token=_of("GITLAB_TOKEN") if platform.name == "GitLab CI" else _of("SYSTEM_ACCESSTOKEN"))
    fake.job_token = _of("CI_JOB_TOKEN")

    def recording(fake: Fake, method: str, url: str, headers: dict[str, str], body: bytes) -> Reply:
        sent.extend(headers.values())
        return answer(fake, method, url, headers, body)

    with serving(fake, recording) as url:
        given = {
            name: f"{url}{value}" if name.endswith(("URL", "URI")) else value
            for name, value in ADDRESSES[platform.name].items()
        }
        environ = Canaries(given, without)
        variables = platform.variables(environ)
        assert platform.read_job(variables) is not None
        if platform.comments is not None:
            with suppress(Exception):  # such as a refusal: what was sent counts
                post_comment(platform.comments(variables, "5"), "<!-- mark -->", "text")
        if platform.store is not None:
            with suppress(Exception):
                list(platform.store.open(variables, "gate", tmp_path).newest(()))
    credentials = {name for canary, name in environ.read.items() if any(canary in value for value in sent)}
    assert credentials, "the fake was asked with a credential"
    redacted = known_secrets({name: _of(name) for name in credentials}, Settings())
    assert credentials == {name for name in credentials if _of(name) in redacted}
