"""Where a judge's key goes and what it may cost is not for a pull request to say: whole jobs, and a listener."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ragstone.action import action_settings
from ragstone.errors import ConfigError
from ragstone.github.api.client import GitHubApi
from ragstone.github.api.event import build_event
from ragstone.github.api.reviewed import reviewed_base
from ragstone.github.commit_files import BaseFiles
from ragstone.github.inputs import read_inputs
from ragstone.github.trusted_config import CLUSTER, DIGESTS, GUARDED, restrict_to_base
from ragstone.judge.fitted import FEATURES, FittedFile, FittedModel, Graded
from ragstone.judge.offline.model import load_weights
from ragstone.settings.load import OPTIONS
from ragstone.settings.settings import TABLES, JudgeSettings, Settings
from tests.github.api.fake import ALL_RIGHTS, BASE_SHA, FakeGitHub
from tests.github.api.payloads import pull_request, runner
from tests.github.builders import FACTS, Checkout, Outcome
from tests.loopback import answering

KEY = "sk-the-judges-own-key-0123456789"


@contextmanager
def connecting_at_most(limit: str) -> Iterator[None]:
    """Dask gives up so soon, in this process."""
    import dask
    import distributed  # noqa: F401 - its defaults: the end of the block would take those away that were read inside

    with dask.config.set({"distributed.comm.timeouts.connect": limit}):
        yield


GOLDEN = '[golden]\npaths = "golden.jsonl"\n[system]\nentrypoint = "file:outputs.jsonl"\n'
METRICS = '[run]\nmetrics = ["faithfulness"]\n'


@dataclass
class Listener:
    """A server that takes down who calls with which credentials, and refuses everybody."""

    url: str = ""
    heard: list[str] = field(default_factory=list)


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            found.heard.append(f"{self.headers.get('authorization', '')}{self.headers.get('x-api-key', '')}")
            self.send_response(401)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/v1"
        yield found


def config(judge: str, system: str = "") -> str:
    return f"{GOLDEN}{system}{METRICS}[judge]\n{judge}"


def gate(checkout: Checkout, judge: str, *, system: str = "", **environ: str) -> Outcome:
    checkout.write("ragstone.toml", config(judge, system))
    return checkout.gate("pull_request", pull_request(), **environ)


def refused(found: Outcome, *words: str) -> None:
    assert found.code == 2, found.log
    assert found.outputs["verdict"] == "error"
    for word in words:
        assert word in found.log


WAYS_TO_THE_KEY = (
    ('name = "openai:gpt-5.4-mini"\nbase_url = "{url}"\n', "RAGSTONE_JUDGE_API_KEY"),
    ('name = "openai:gpt-5.4-mini"\nbase_url = "{url}"\n', "OPENAI_API_KEY"),
    ('name = "anthropic:claude-haiku-4-5"\nbase_url = "{url}"\n', "ANTHROPIC_API_KEY"),
    ('name = "openai-compatible:m"\nbase_url = "{url}"\n', "RAGSTONE_JUDGE_API_KEY"),
    ('name = "offline"\nembeddings = "openai-compatible:m"\nbase_url = "{url}"\n', "RAGSTONE_JUDGE_API_KEY"),
    ('name = "openai:gpt-5.4-mini"\nbase_url = "{url}"\n', "RAGSTONE_JUDGE_HEADERS"),
    ('name = "bedrock:m"\nbase_url = "{url}"\n', "AWS_BEARER_TOKEN_BEDROCK"),
)


CLOUDS = {
    **{"AWS_REGION": "eu-west-1", "AWS_BEARER_TOKEN_BEDROCK": KEY, "CLOUD_ML_REGION": "eu"},
    **{"ANTHROPIC_VERTEX_PROJECT_ID": "p", "RAGSTONE_JUDGE_API_KEY": KEY, "OPENAI_API_KEY": KEY},
    **{"ANTHROPIC_BASE_URL": "{url}", "OPENAI_BASE_URL": "{url}/openai/deployments/theirs?api-version=1"},
}
TO_LISTENER = {
    "OPENAI_API_KEY": KEY,
    "ANTHROPIC_API_KEY": KEY,
    "OPENAI_BASE_URL": "{url}",
    "ANTHROPIC_BASE_URL": "{url}",
}
JOB_IDENTITY = {"ACTIONS_ID_TOKEN_REQUEST_URL": "{url}/token", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": KEY}
OPENAI = 'name = "openai:gpt-5.4-mini"\n'
FREE = '[judge.prices."gpt-5.4-mini"]\ninput = 0.0\noutput = 0.0\n'
CA = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


@dataclass(frozen=True)
class Attempt:
    """What a pull request's [judge] says, and the setting that is refused. {url} is where a listener is."""

    judge: str
    setting: str
    environ: Mapping[str, str]
    base: str | None = None
    """The base's [judge]."""
    hint: str = ""


def another_address(judge: str, variable: str) -> Attempt:
    key = f"X-Gateway: {KEY}" if variable.endswith("HEADERS") else KEY
    return Attempt(judge, "judge.base_url", {"AWS_REGION": "eu-west-1", variable: key}, hint="judge-base-url")


def job_identity(service: str, **identity: str) -> Attempt:
    return Attempt(f'name = "{service}:m"\nbase_url = "{{url}}"\n', "judge.base_url", {**JOB_IDENTITY, **identity})


def taken_away(setting: str, theirs: str) -> Attempt:
    return Attempt(OPENAI, setting, TO_LISTENER, base=OPENAI + theirs)


def another_provider(variable: str) -> Attempt:
    key = f"X-Gateway: {KEY}" if variable.endswith("HEADERS") else KEY
    environ = {**TO_LISTENER, variable: key}
    return Attempt('name = "anthropic:claude-haiku-4-5"\n', "judge.name", environ, base=OPENAI, hint="input 'judge'")


def cloud(provider: str, judge: str, setting: str) -> Attempt:
    name = f'name = "{provider}:m"\n'
    return Attempt(name + judge, setting, CLOUDS, base=name)


ATTEMPTS = {
    **{f"{variable} to {judge.split()[2]}": another_address(judge, variable) for judge, variable in WAYS_TO_THE_KEY},
    "where the base has another address": replace(
        another_address(*WAYS_TO_THE_KEY[0]), base=f'{OPENAI}base_url = "https://judge.example/v1"\n'
    ),
    "the key of the embeddings": Attempt(
        'name = "offline"\nembeddings = "openai-compatible:m"\nembeddings_base_url = "{url}"\n',
        "judge.embeddings_base_url",
        {"RAGSTONE_EMBEDDINGS_API_KEY": KEY},
        hint="RAGSTONE_EMBEDDINGS_BASE_URL",
    ),
    "the job's identity at OpenAI": job_identity(
        "openai", OPENAI_IDENTITY_PROVIDER_ID="idp", OPENAI_SERVICE_ACCOUNT_ID="sa"
    ),
    "the job's identity at Anthropic": job_identity(
        "anthropic", ANTHROPIC_FEDERATION_RULE_ID="rule", ANTHROPIC_ORGANIZATION_ID="org"
    ),
    # The key of a gateway is not one that the provider should see.
    "without the gateway": taken_away("judge.base_url", 'base_url = "https://gateway.example/v1"\n'),
    "without the embeddings' gateway": taken_away(
        "judge.embeddings_base_url", 'embeddings_base_url = "https://gateway.example/v1"\n'
    ),
    "without the certificates": taken_away("judge.ca_bundle", 'ca_bundle = "ca.pem"\n'),
    "without the prices": taken_away("judge.prices", FREE.replace("0.0", "99.0")),
    "another provider for the judge's key": another_provider("RAGSTONE_JUDGE_API_KEY"),
    "another provider for the headers": another_provider("RAGSTONE_JUDGE_HEADERS"),
    "another provider for the key of the embeddings": another_provider("RAGSTONE_EMBEDDINGS_API_KEY"),
    "Bedrock": cloud("bedrock", 'base_url = "{url}"\n', "judge.base_url"),
    "Vertex": cloud("vertex", 'base_url = "{url}"\n', "judge.base_url"),
    "Vertex with the job's identity": cloud("vertex", 'auth = "oidc"\nbase_url = "{url}"\n', "judge.base_url"),
    "Bedrock with embeddings": cloud(
        "bedrock", 'embeddings = "openai:m"\nembeddings_base_url = "{url}"\n', "judge.embeddings_base_url"
    ),
    "another deployment of Azure": cloud(
        "openai", 'base_url = "{url}/openai/deployments/evil?api-version=1"\n', "judge.base_url"
    ),
    "another deployment of Azure for embeddings": cloud(
        "openai",
        'embeddings = "m"\nembeddings_base_url = "{url}/openai/deployments/evil?api-version=1"\n',
        "judge.embeddings_base_url",
    ),
    "headers among the parameters": cloud(
        "openai", '[judge.parameters]\nextra_headers = {Host = "evil.example"}\n', "judge.parameters"
    ),
    "a query among the parameters": cloud(
        "openai", '[judge.parameters]\nextra_query = {api-version = "1"}\n', "judge.parameters"
    ),
    "certificates of its own": cloud("bedrock", 'ca_bundle = "ca.pem"\n', "judge.ca_bundle"),
    "a judge that is free of charge": Attempt(
        OPENAI + FREE, "judge.prices", {**TO_LISTENER, "RAGSTONE_MAX_COST_USD": "0.000001"}
    ),
    "a dearer tier": Attempt(
        f'{OPENAI}[judge.parameters]\nservice_tier = "priority"\n', "judge.parameters", TO_LISTENER
    ),
    "a dearer speed": Attempt(f'{OPENAI}[judge.parameters]\nspeed = "fast"\n', "judge.parameters", TO_LISTENER),
}


@pytest.mark.attack(
    by="pull request",
    tries=(
        "send the key or the identity elsewhere, by setting or removing an address, a provider or a bundle in "
        "the config"
    ),
    stopped_by="these count only from workflow or base branch",
)
@pytest.mark.attack(
    by="pull request",
    tries="raise the budget: prices of 0, a dearer tier, `max_cost_usd`",
    stopped_by="the same rule; the base's limit applies",
)
@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_pull_request_says_neither_where_the_key_goes_nor_what_it_costs(
    github: FakeGitHub, checkout: Checkout, listener: Listener, name: str
) -> None:
    attempt = ATTEMPTS[name]
    if attempt.base is not None:
        github.files[BASE_SHA] |= {"ragstone.toml": config(attempt.base).encode(), "ca.pem": CA.format("good").encode()}
    checkout.write("ca.pem", CA.format("forged"))
    environ = {variable: value.replace("{url}", listener.url) for variable, value in attempt.environ.items()}
    found = gate(checkout, attempt.judge.replace("{url}", listener.url), **environ)
    assert listener.heard == []
    refused(found, f"'{attempt.setting}' differs from the base branch", attempt.hint)


def test_a_base_whose_config_is_in_pyproject_is_read(
    github: FakeGitHub, checkout: Checkout, listener: Listener
) -> None:
    judge = f'{OPENAI}base_url = "{listener.url}"\n'
    github.files[BASE_SHA]["pyproject.toml"] = f'[tool.ragstone.judge]\nbase_url = "{listener.url}"\n'.encode()
    assert gate(checkout, judge, OPENAI_API_KEY=KEY).code == 5
    assert listener.heard


@pytest.mark.parametrize(("judge", "variable"), WAYS_TO_THE_KEY[:4:2])
def test_it_goes_where_the_base_branch_says(
    github: FakeGitHub, checkout: Checkout, listener: Listener, judge: str, variable: str
) -> None:
    github.files[BASE_SHA]["ragstone.toml"] = config(judge.format(url=listener.url)).encode()
    found = gate(checkout, judge.format(url=listener.url), **{variable: KEY})
    assert found.code == 5  # the listener refuses everybody
    assert all(heard.endswith(KEY) for heard in listener.heard)
    assert listener.heard


def test_it_goes_where_the_workflow_says(checkout: Checkout, listener: Listener) -> None:
    judge = 'name = "openai:gpt-5.4-mini"\nbase_url = "http://127.0.0.1:9/elsewhere"\n'
    found = gate(checkout, judge, OPENAI_API_KEY=KEY, RAGSTONE_JUDGE_BASE_URL=listener.url)
    assert found.code == 5
    assert listener.heard


def test_on_the_default_branch_the_config_is_the_base_itself(checkout: Checkout, listener: Listener) -> None:
    checkout.write("ragstone.toml", config(f'name = "openai:gpt-5.4-mini"\nbase_url = "{listener.url}"\n'))
    assert checkout.gate("push", OPENAI_API_KEY=KEY).code == 5
    assert listener.heard


@pytest.mark.parametrize("ref", ["refs/tags/main"])
def test_a_push_to_another_branch_or_of_a_tag_is_held_against_the_default_branch(
    checkout: Checkout, listener: Listener, ref: str
) -> None:
    checkout.write("ragstone.toml", config(f'name = "openai:gpt-5.4-mini"\nbase_url = "{listener.url}"\n'))
    refused(checkout.gate("push", OPENAI_API_KEY=KEY, GITHUB_REF=ref), "judge.base_url")
    assert listener.heard == []


def test_without_a_key_an_address_may_come_from_anybody(checkout: Checkout, listener: Listener) -> None:
    found = gate(checkout, f'name = "openai-compatible:m"\nbase_url = "{listener.url}"\n')
    assert found.code == 5, found.log
    assert listener.heard
    assert KEY not in "".join(listener.heard)


def test_a_base_that_can_not_be_read_gives_no_key_away(
    github: FakeGitHub, checkout: Checkout, listener: Listener
) -> None:
    for actor in github.actors.values():
        actor.reads = ALL_RIGHTS - {"contents"}
    judge = f'name = "openai:gpt-5.4-mini"\nbase_url = "{listener.url}"\n'
    github.files[BASE_SHA]["ragstone.toml"] = config(judge).encode()
    found = gate(checkout, judge, OPENAI_API_KEY=KEY)
    assert found.code == 7
    assert "contents: read" in found.log
    found = gate(checkout, judge, OPENAI_API_KEY=KEY, GITHUB_TOKEN="", RAGSTONE_GITHUB_TOKEN="")
    assert found.code == 7
    assert "no GitHub token" in found.log
    assert listener.heard == []


def test_a_config_that_the_workflow_names_is_held_against_the_same_file(
    github: FakeGitHub, checkout: Checkout, listener: Listener, api: GitHubApi
) -> None:
    inputs = read_inputs({"INPUT_CONFIG": "conf/gate.toml"})
    github.files[BASE_SHA]["conf/gate.toml"] = f'[judge]\nbase_url = "{listener.url}"\n'.encode()
    github.files[BASE_SHA]["conf/ragstone.toml"] = b'[judge]\nbase_url = "https://other.example"\n'
    checkout.write("conf/gate.toml", f'[judge]\nname = "openai:gpt-5.4-mini"\nbase_url = "{listener.url}"\n')
    settings = action_settings(inputs, {"OPENAI_API_KEY": KEY}, checkout.root)
    reviewed = reviewed_base(api, build_event(runner("pull_request"), pull_request()))
    base_files = BaseFiles(api, reviewed, settings, checkout.root, checkout.files)
    held = restrict_to_base(settings, base_files, environ={"OPENAI_API_KEY": KEY}, workspace=checkout.root)
    assert held.settings.value.judge.base_url == listener.url


def test_the_workflow_may_name_another_provider_and_a_pull_request_another_model(
    github: FakeGitHub, checkout: Checkout, listener: Listener
) -> None:
    environ = {"RAGSTONE_JUDGE_API_KEY": KEY, "ANTHROPIC_BASE_URL": listener.url, "OPENAI_BASE_URL": listener.url}
    theirs = 'name = "openai:gpt-5.4-mini"\n'
    github.files[BASE_SHA]["ragstone.toml"] = config(theirs).encode()
    assert gate(checkout, theirs, RAGSTONE_JUDGE="anthropic:claude-haiku-4-5", **environ).code == 5
    assert gate(checkout, 'name = "openai:gpt-5.4"\n', **environ).code == 5
    assert len(listener.heard) >= 2


@pytest.mark.parametrize(("place", "readable"), [("file", True), ("link", True), ("relative", True), ("file", False)])
def test_a_file_of_credentials_that_the_code_of_a_pull_request_can_read_is_not_used(
    github: FakeGitHub, checkout: Checkout, tmp_path: Path, place: str, readable: bool
) -> None:
    """As a step that signs in to Google writes it by default: it holds a token that stands for the job."""
    if not readable:
        for actor in github.actors.values():
            actor.reads = ALL_RIGHTS - {"contents"}
    checkout.write("gha-creds-0123.json", '{"type": "external_account"}')
    name = str(checkout.root / "gha-creds-0123.json")
    if place == "link":
        (tmp_path / "elsewhere.json").symlink_to(name)
        name = str(tmp_path / "elsewhere.json")
    elif place == "relative":
        name = "gha-creds-0123.json"
    environ = {"CLOUD_ML_REGION": "eu", "ANTHROPIC_VERTEX_PROJECT_ID": "p", "GOOGLE_APPLICATION_CREDENTIALS": name}
    found = gate(checkout, 'name = "vertex:m"\n', **environ)
    refused(found, "names a file in the workspace, 'gha-creds-0123.json'", "short-lived access token")


SENT_TO = {"base_url", "embeddings_base_url", "ca_bundle", "parameters"}
"""Settings of [judge] that decide who gets a request, or what is in it."""

SPENT = {"prices", "max_cost_usd"}
OF_FITTED_JUDGES = {"model_digests"}
NEVER_IN_A_FILE = {"api_key", "headers", "embeddings_api_key"}
PROVIDER = {"name", "auth", "embeddings"}
"""They choose among addresses that Ragstone knows. A provider's own key goes to that provider only; see
`test_a_pull_request_says_neither_where_the_key_goes_nor_what_it_costs`."""

HARMLESS = {
    *("concurrency", "patience_s", "timeout_s"),
    *("context_window", "refresh", "canaries", "planted", "graded", "earlier_contexts"),
}
"""How often and how fast the same address is asked, within the budget."""


def test_every_setting_of_the_judge_has_a_decision_on_pull_requests() -> None:
    """A new setting belongs to one of these sets, and to `github/trusted_config.py` if it can move a key."""
    decided = [SENT_TO, SPENT, OF_FITTED_JUDGES, NEVER_IN_A_FILE, PROVIDER, HARMLESS]
    assert sorted(name for names in decided for name in names) == sorted(JudgeSettings.model_fields)
    assert {f"judge.{name}" for name in SENT_TO | SPENT - {"max_cost_usd"}} == set(GUARDED)
    assert {f"judge.{name}" for name in OF_FITTED_JUDGES} == {DIGESTS}
    secret = {option.name for option in OPTIONS if option.table == "judge" and option.secret and not option.in_file}
    assert secret == NEVER_IN_A_FILE
    in_tables = {f"{table}.{name}" for table in TABLES[:-1] for name in type(getattr(Settings(), table)).model_fields}
    addresses = {key for key in in_tables if key.endswith(("url", "folder", "dask", "entrypoint", "http"))}
    assert addresses == {
        *("judge.base_url", "judge.embeddings_base_url", CLUSTER),
        *("gate.baseline_folder", "gate.baseline_entrypoint"),  # refused in a job: see test_base_commit.py
        *("system.entrypoint", "system.http"),  # the system under test, which never gets a judge's key
    }


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("region", '"evil"'),
        ("project", '"evil"'),
        ("deployment", '"evil"'),
        ("credentials_file", '"creds.json"'),
        ("api_key", f'"{KEY}"'),
        ("embeddings_api_key", f'"{KEY}"'),
        ("headers", '"Host: evil.example"'),
    ],
)
def test_a_config_file_has_no_region_project_key_or_header(
    checkout: Checkout, listener: Listener, setting: str, value: str
) -> None:
    with pytest.raises(ConfigError, match=f"'judge.{setting}'"):
        gate(
            checkout,
            f'name = "bedrock:m"\n{setting} = {value}\n',
            OPENAI_BASE_URL=listener.url,
            OPENAI_API_KEY=KEY,
        )
    assert listener.heard == []


@pytest.mark.parametrize("mine", ["", "max_cost_usd = 1000.0\n", "max_cost_usd = 0.0000001\n"])
def test_a_pull_request_can_lower_the_budget_and_not_lift_it(
    github: FakeGitHub, checkout: Checkout, listener: Listener, mine: str
) -> None:
    judge = 'name = "openai:gpt-5.4-mini"\n'
    github.files[BASE_SHA]["ragstone.toml"] = config(f"{judge}max_cost_usd = 0.000001\n").encode()
    found = gate(checkout, judge + mine, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=listener.url)
    assert found.code == 5
    assert "the budget of under $0.01 is used up" in found.log
    is_lifted = mine != "max_cost_usd = 0.0000001\n"
    assert any("does not count" in line for line in found.annotations) == is_lifted
    assert listener.heard == []


def test_an_ordinary_parameter_does(checkout: Checkout, listener: Listener) -> None:
    judge = 'name = "openai:gpt-5.4-mini"\n[judge.parameters]\ntemperature = 0.2\n'
    assert gate(checkout, judge, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=listener.url).code == 5
    assert listener.heard


@pytest.mark.heavy
@pytest.mark.attack(
    by="pull request",
    tries="send the answers to a Dask cluster of its own",
    stopped_by=(
        "the same rule, with or without a key. **Not prevented**: its code can use a scheduler without TLS "
        "that the job reaches"
    ),
)
@pytest.mark.parametrize("base", [None, "tcp://scheduler.example:8786"])
def test_a_pull_request_can_not_send_the_answers_to_its_own_cluster(
    github: FakeGitHub, checkout: Checkout, base: str | None
) -> None:
    if base is not None:
        github.files[BASE_SHA]["ragstone.toml"] = f'[run]\ndask = "{base}"\n'.encode()
    with socket.create_server(("127.0.0.1", 0)) as scheduler:
        scheduler.setblocking(False)
        address = f"tcp://127.0.0.1:{scheduler.getsockname()[1]}"
        checkout.write("ragstone.toml", config('name = "offline"\n').replace("[run]", f'[run]\ndask = "{address}"'))
        with connecting_at_most("0.1s"):
            found = checkout.gate("pull_request", pull_request())
        with pytest.raises(BlockingIOError):
            scheduler.accept()
    refused(found, "'run.dask' differs from the base branch", "what comes back could run code here", "RAGSTONE_DASK")


def test_the_cluster_of_the_base_branch_is_used(github: FakeGitHub, checkout: Checkout) -> None:
    toml = config('name = "offline"\n').replace("[run]", '[run]\ndask = "tcp://127.0.0.1:1"')
    github.files[BASE_SHA]["ragstone.toml"] = toml.encode()
    checkout.write("ragstone.toml", toml)
    with connecting_at_most("0.1s"):
        found = checkout.gate("pull_request", pull_request())
    assert found.code == 5
    assert "no connection with the Dask scheduler" in found.log


@pytest.mark.parametrize("by", ["config", "workflow"])
def test_certificates_of_the_checkout_are_the_base_branchs(
    github: FakeGitHub, checkout: Checkout, listener: Listener, by: str
) -> None:
    bundle = 'ca_bundle = "ca.pem"\n' if by == "config" else ""
    environ = {"RAGSTONE_CA_BUNDLE": str(checkout.root / "ca.pem")} if by == "workflow" else {}
    judge = f'name = "openai:gpt-5.4-mini"\n{bundle}'
    github.files[BASE_SHA] |= {"ragstone.toml": config(judge).encode(), "ca.pem": CA.format("good").encode()}
    checkout.write("ca.pem", CA.format("forged"))
    found = gate(checkout, judge, OPENAI_API_KEY=KEY, OPENAI_BASE_URL=listener.url, **environ)
    refused(found, "'judge.ca_bundle' differs from the base branch")
    assert listener.heard == []


@pytest.mark.attack(
    by="pull request",
    tries="get the key passed to the system through `[system] env`",
    stopped_by="the same rule for names of secrets",
)
@pytest.mark.parametrize("names", ['["OPENAI_API_KEY"]', '["OPENAI_*"]', '["SEARCH_*", "A_COPY"]'])
def test_a_pull_request_can_not_have_the_key_passed_to_the_system(checkout: Checkout, names: str) -> None:
    checkout.write("rag.sh", '#!/bin/sh\nenv > seen\nwhile read -r line; do echo \'{"answer": "So."}\'; done\n')
    (checkout.root / "rag.sh").chmod(0o755)
    system = f"env = {names}\n"
    checkout.write(
        "ragstone.toml", config('name = "offline"\n', system).replace("file:outputs.jsonl", "command:./rag.sh")
    )
    found = checkout.gate(OPENAI_API_KEY=KEY, A_COPY=KEY, SEARCH_TOKEN="t-123456789")
    refused(found, "'system.env' passes the secret", "system-env")
    assert not (checkout.root / "seen").exists()


def test_the_base_branch_and_the_workflow_can(github: FakeGitHub, checkout: Checkout) -> None:
    system = 'env = ["SEARCH_TOKEN", "PLAIN"]\n'
    github.files[BASE_SHA]["ragstone.toml"] = config('name = "offline"\n', 'env = ["SEARCH_*"]\n').encode()
    assert gate(checkout, 'name = "offline"\n', system=system, SEARCH_TOKEN="t-123456789", PLAIN="x").code == 0
    github.files[BASE_SHA].clear()
    environ = {"SEARCH_TOKEN": "t-123456789", "RAGSTONE_SYSTEM_ENV": "SEARCH_TOKEN"}
    assert gate(checkout, 'name = "offline"\n', system=system, **environ).code == 0
    assert len(FACTS) == 4


FITTED = 'name = "fitted:judge.json"\n'


def judge_in(checkout: Checkout, *, indent: int | None = None) -> str:
    """The digest of a fitted judge that lies in the checkout, put there by the base branch or the pull request."""
    graded = Graded(brier=0.1, auroc=0.9, low=0.8, high=1.0)
    weights = dict.fromkeys(FEATURES, 0.1)
    model = FittedModel(
        bias=0.0, weights=weights, labels=40, passes=20, groups=40, cross_validated=graded, offline=graded
    )
    file = FittedFile(offline=load_weights().version, faithfulness=model)
    checkout.write("judge.json", file.model_dump_json(indent=indent))
    return hashlib.sha256((checkout.root / "judge.json").read_bytes()).hexdigest()


@pytest.mark.attack(
    by="pull request",
    tries="bring a fitted judge that passes everything",
    stopped_by="workflow or base branch must name its digest; it is data",
)
def test_a_pull_request_does_not_bring_a_fitted_judge_along(github: FakeGitHub, checkout: Checkout) -> None:
    digest = judge_in(checkout)
    github.files[BASE_SHA]["ragstone.toml"] = config(FITTED).encode()
    refused(gate(checkout, FITTED), "is a file in the workspace", "RAGSTONE_MODEL_DIGESTS")
    pinned = f'{FITTED}model_digests = ["{digest}"]\n'
    refused(gate(checkout, pinned), "'judge.model_digests' differs from the base branch")


def test_a_fitted_judge_that_the_workflow_or_the_base_branch_names_judges_a_pull_request(
    github: FakeGitHub, checkout: Checkout
) -> None:
    digest = judge_in(checkout)
    assert gate(checkout, FITTED, RAGSTONE_MODEL_DIGESTS=f"sha256:{digest}").code == 0
    pinned = f'{FITTED}model_digests = ["{digest}"]\n'
    github.files[BASE_SHA]["ragstone.toml"] = config(pinned).encode()
    assert gate(checkout, pinned).code == 0


def test_another_judge_than_the_one_that_is_named_is_not_loaded(github: FakeGitHub, checkout: Checkout) -> None:
    pinned = f'{FITTED}model_digests = ["{judge_in(checkout)}"]\n'
    github.files[BASE_SHA]["ragstone.toml"] = config(pinned).encode()
    judge_in(checkout, indent=1)  # as a pull request could
    refused(gate(checkout, pinned), "which judge.model_digests does not name")


def test_on_the_default_branch_a_fitted_judge_needs_no_digest(checkout: Checkout) -> None:
    judge_in(checkout)
    checkout.write("ragstone.toml", config(FITTED))
    assert checkout.gate("push").code == 0


@pytest.mark.heavy
@pytest.mark.attack(
    by="pull request",
    tries='`fail_on = "never"`, or a limit that leaves must-pass samples out, in the config',
    stopped_by="the base's value counts, and the report says so",
)
@pytest.mark.parametrize(
    ("theirs", "code"), [("", 1), ('[gate]\nfail_on = "fail"\n', 1), ('[gate]\nfail_on = "never"\n', 0)]
)
def test_a_pull_request_can_not_say_that_a_failing_gate_passes(
    github: FakeGitHub, checkout: Checkout, theirs: str, code: int
) -> None:
    checkout.answer_badly()
    github.files[BASE_SHA]["ragstone.toml"] = f"{GOLDEN}{METRICS}{theirs}".encode()
    checkout.write("ragstone.toml", f'{GOLDEN}{METRICS}[gate]\nfail_on = "never"\n')
    found = checkout.gate("pull_request", pull_request())
    assert found.code == code, found.log
    assert any("'gate.fail_on' is" in line for line in found.annotations) == bool(code)
    # The workflow may say so, and so may the branch itself.
    assert checkout.gate("pull_request", pull_request(), RAGSTONE_FAIL_ON="never").code == 0
    assert checkout.gate("push").code == 0


def test_what_fails_the_job_is_not_left_to_a_pull_request_where_the_base_can_not_be_read(checkout: Checkout) -> None:
    checkout.answer_badly()
    checkout.write("ragstone.toml", f'{GOLDEN}{METRICS}[gate]\nfail_on = "never"\n')
    found = checkout.gate("pull_request", pull_request(), GITHUB_TOKEN="")
    assert found.code == 1, found.log
    assert any("'gate.fail_on' is" in line for line in found.annotations)


LIMITED = GOLDEN.replace('jsonl"\n[system]', 'jsonl"\nlimit = 2\n[system]') + METRICS
MUST_PASS = '[metrics.faithfulness]\nmin = 0.1\n[must_pass]\nsamples = ["earth"]\nmin = 0.9\n'
"""The fourth of four samples."""


def with_one_bad_answer(checkout: Checkout) -> None:
    checkout.answer({name: fact if name != "earth" else "Bananas are purple." for name, _, fact in FACTS})
    checkout.write("thresholds.toml", MUST_PASS)


@pytest.mark.parametrize(("theirs", "code"), [(GOLDEN + METRICS, 1), (LIMITED.replace("2", "3"), 0), (LIMITED, 0)])
def test_a_pull_request_can_not_leave_out_a_must_pass_sample(
    github: FakeGitHub, checkout: Checkout, theirs: str, code: int
) -> None:
    with_one_bad_answer(checkout)
    github.files[BASE_SHA]["ragstone.toml"] = theirs.encode()
    checkout.write("ragstone.toml", LIMITED)
    found = checkout.gate("pull_request", pull_request())
    assert found.code == code, found.log
    assert ("Not checked: must-pass sample earth." in found.log) == (code == 0)
    assert any("'golden.limit' is" in line for line in found.annotations) == (theirs != LIMITED)
    # The workflow may say so, and so may the branch itself.
    limited = checkout.gate("pull_request", pull_request(), RAGSTONE_LIMIT="2")
    assert limited.code == 0, limited.log
    assert checkout.gate("push").code == 0


def test_a_pull_request_can_not_choose_the_seed(github: FakeGitHub, checkout: Checkout) -> None:
    github.files[BASE_SHA]["ragstone.toml"] = (GOLDEN + METRICS + "seed = 3\n").encode()
    checkout.write("ragstone.toml", GOLDEN + METRICS + "seed = 4\n")
    found = checkout.gate("pull_request", pull_request())
    assert any("'run.seed' is 3 (as in the base branch)" in line for line in found.annotations)


def test_a_limit_of_a_pull_request_does_not_count_where_the_base_can_not_be_read(checkout: Checkout) -> None:
    with_one_bad_answer(checkout)
    checkout.write("ragstone.toml", LIMITED)
    found = checkout.gate("pull_request", pull_request(), GITHUB_TOKEN="")
    assert found.code == 1, found.log
    assert any("'golden.limit' is not set" in line for line in found.annotations)
