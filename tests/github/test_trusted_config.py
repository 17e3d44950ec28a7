"""Where a judge's key goes and what it may cost is not for a pull request to say: a table, whole jobs, a listener."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragstone.action import action_settings
from ragstone.errors import ConfigError, GitHubError
from ragstone.github.annotations import Places
from ragstone.github.api.client import ApiErrorKind, GitHubApi, GitHubApiError
from ragstone.github.api.event import build_event
from ragstone.github.api.reviewed import reviewed_base
from ragstone.github.commit_files import BaseFiles
from ragstone.github.inputs import read_inputs
from ragstone.github.trusted_config import DIGESTS, GUARDED, restrict_to_base
from ragstone.judge.fitted import FEATURES, FittedFile, FittedModel, PredictionQuality
from ragstone.judge.offline.model import judge_version
from ragstone.settings.load import OPTIONS, load_settings
from ragstone.settings.settings import TABLES, JudgeSettings, Settings
from tests.github.api.fake import ALL_RIGHTS, BASE_SHA, FakeGitHub
from tests.github.api.payloads import pull_request, runner
from tests.github.builders import Checkout, Outcome
from tests.loopback import answering

KEY = "sk-the-judges-own-key-0123456789"
GOLDEN = '[golden]\npaths = "golden.jsonl"\n[system]\nentrypoint = "file:outputs.jsonl"\n'
METRICS = '[run]\nmetrics = ["faithfulness"]\n'


@contextmanager
def connecting_at_most(limit: str) -> Iterator[None]:
    """Dask gives up so soon, in this process."""
    import dask
    import distributed  # noqa: F401 - its defaults: the end of the block would take those away that were read inside

    with dask.config.set({"distributed.comm.timeouts.connect": limit}):
        yield


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


WAYS_TO_THE_KEY = (
    ('name = "openai:gpt-5.4-mini"\nbase_url = "{url}"\n', "RAGSTONE_JUDGE_API_KEY"),
    ('name = "openai:gpt-5.4-mini"\nbase_url = "{url}"\n', "OPENAI_API_KEY"),
    ('name = "anthropic:claude-haiku-4-5"\nbase_url = "{url}"\n', "ANTHROPIC_API_KEY"),
    ('name = "openai-compatible:m"\nbase_url = "{url}"\n', "RAGSTONE_JUDGE_API_KEY"),
    ('name = "openai:gpt-5.4-mini"\nbase_url = "{url}"\n', "RAGSTONE_JUDGE_HEADERS"),
    ('name = "bedrock:m"\nbase_url = "{url}"\n', "AWS_BEARER_TOKEN_BEDROCK"),
)


# -- what a config may say, held against its base ----------------------------------------------------------------------


@dataclass
class Base:
    """The files of the base in `folder`, as if read from GitHub; None: they can't be read."""

    folder: Path | None
    workspace: Path
    sha: str = BASE_SHA

    @property
    def commit(self) -> Base:
        if self.folder is None:
            raise GitHubApiError(ApiErrorKind.UNREACHABLE, "GitHub is down")
        return self

    @property
    def settings(self) -> Settings:
        assert self.folder is not None
        return load_settings(directory=self.folder, environ={})


@dataclass(frozen=True)
class Change:
    """The config of a pull request, that of its base (None: it can't be read), and the variables of the job."""

    config: str
    base: str | None = ""
    environ: Mapping[str, str] = field(default_factory=dict)


def as_in_base(config: str, environ: Mapping[str, str] | None = None) -> Change:
    return Change(config, config, environ or {})


def held(folder: Path, change: Change) -> Any:
    """The settings that a pull request gets, and notes."""
    head, base = folder / "head", folder / "base"
    texts = {(head, "ragstone.toml"): change.config, (base, "ragstone.toml"): change.base or ""}
    for (place, name), text in (texts | {(head, "creds.json"): "{}", (folder, "creds.json"): "{}"}).items():
        place.mkdir(exist_ok=True)
        (place / name).write_text(text.replace("$HEAD", str(head)), encoding="utf-8")
    (folder / "link.json").symlink_to(head / "creds.json")
    (head / "out.json").symlink_to(folder / "creds.json")
    environ = {name: value.replace("$HEAD", str(head)) for name, value in change.environ.items()}
    settings = load_settings(directory=head, environ=environ, within=head)
    files: Any = Base(None if change.base is None else base, head)
    job: Any = SimpleNamespace(settings=settings, environ=environ, places=Places(head, head))
    notes: list[str] = []
    return SimpleNamespace(settings=restrict_to_base(job, files, notes), notes=notes)


ELSEWHERE = 'base_url = "https://evil.example/v1"\n'
OPENAI = '[judge]\nname = "openai:gpt-5.4-mini"\n'
CLAUDE = '[judge]\nname = "anthropic:claude-haiku-4-5"\n'
OFFLINE = '[judge]\nname = "offline"\n'
COMPATIBLE = '[judge]\nname = "openai-compatible:m"\n'
BEDROCK, VERTEX = '[judge]\nname = "bedrock:m"\n', '[judge]\nname = "vertex:m"\n'
FREE = '[judge.prices."gpt-5.4-mini"]\ninput = 0.0\noutput = 0.0\n'
EMBEDDINGS_ELSEWHERE = 'embeddings = "openai-compatible:m"\nembeddings_base_url = "https://evil.example"\n'
DEPLOYMENT = "https://evil.example/openai/deployments/evil?api-version=1"
GATEWAY = 'base_url = "https://gateway.example/v1"\n'
JUDGES_KEY, OPENAIS_KEY, HEADERS = (
    {"RAGSTONE_JUDGE_API_KEY": KEY},
    {"OPENAI_API_KEY": KEY},
    {"RAGSTONE_JUDGE_HEADERS": f"X-Gateway: {KEY}"},
)
EMBEDDINGS_KEY = {"RAGSTONE_EMBEDDINGS_API_KEY": KEY}
IDENTITY = {"ACTIONS_ID_TOKEN_REQUEST_URL": "https://github.example/token", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": KEY}
OPENAIS_IDENTITY = {"OPENAI_IDENTITY_PROVIDER_ID": "idp", "OPENAI_SERVICE_ACCOUNT_ID": "sa", **IDENTITY}
ANTHROPICS_IDENTITY = {"ANTHROPIC_FEDERATION_RULE_ID": "rule", "ANTHROPIC_ORGANIZATION_ID": "org", **IDENTITY}
SEARCH = {"SEARCH_TOKEN": "t-123456789"}
GOOGLES = "GOOGLE_APPLICATION_CREDENTIALS"
FITTED = '[judge]\nname = "fitted:judge.json"\n'
DIGEST = f'model_digests = ["{"0" * 64}"]\n'
CLUSTER_ELSEWHERE = '[run]\ndask = "tcp://evil.example:8786"\n'

REFUSED = {
    "judge.base_url": {
        "the judge's key elsewhere": Change(OPENAI + ELSEWHERE, "", JUDGES_KEY),
        "OpenAI's key elsewhere": Change(OPENAI + ELSEWHERE, "", OPENAIS_KEY),
        "where the base has another address": Change(OPENAI + ELSEWHERE, OPENAI + GATEWAY, OPENAIS_KEY),
        "Anthropic's key elsewhere": Change(CLAUDE + ELSEWHERE, "", {"ANTHROPIC_API_KEY": KEY}),
        "the key to another server": Change(COMPATIBLE + ELSEWHERE, "", JUDGES_KEY),
        "headers elsewhere": Change(OPENAI + ELSEWHERE, "", HEADERS),
        "the key for embeddings alone": Change(
            f'{OFFLINE}embeddings = "openai-compatible:m"\n{ELSEWHERE}', "", JUDGES_KEY
        ),
        "an address without a key": Change(COMPATIBLE + ELSEWHERE),
        "the job's identity at OpenAI": Change(OPENAI + ELSEWHERE, "", OPENAIS_IDENTITY),
        "the job's identity at Anthropic": Change(CLAUDE + ELSEWHERE, "", ANTHROPICS_IDENTITY),
        "without the gateway": Change(OPENAI, OPENAI + GATEWAY, OPENAIS_KEY),
        "the machine's identity at Bedrock": Change(BEDROCK + ELSEWHERE, BEDROCK),
        "a token of Bedrock": Change(BEDROCK + ELSEWHERE, "", {"AWS_BEARER_TOKEN_BEDROCK": KEY}),
        "the machine's identity at Vertex": Change(VERTEX + ELSEWHERE, VERTEX),
        "another deployment": Change(f'{OPENAI}base_url = "{DEPLOYMENT}"\n', OPENAI, OPENAIS_KEY),
    },
    "judge.embeddings_base_url": {
        "the embeddings' own key": Change(OFFLINE + EMBEDDINGS_ELSEWHERE, "", EMBEDDINGS_KEY),
        "without the embeddings' gateway": Change(OPENAI, f"{OPENAI}embeddings_{GATEWAY}", OPENAIS_KEY),
    },
    "judge.prices": {
        "without the prices": Change(OPENAI, OPENAI + FREE.replace("0.0", "99.0"), OPENAIS_KEY),
        "a judge that is free of charge": Change(OPENAI + FREE, "", OPENAIS_KEY),
    },
    "judge.name": {
        "another provider for the judge's key": Change(CLAUDE, OPENAI, JUDGES_KEY),
        "another provider for the headers": Change(CLAUDE, OPENAI, HEADERS),
        "another provider for the embeddings' key": Change(CLAUDE, OPENAI, EMBEDDINGS_KEY),
    },
    "judge.parameters": {
        "headers among parameters": Change(
            f'{OPENAI}[judge.parameters]\nextra_headers = {{Host = "evil.example"}}\n', OPENAI, OPENAIS_KEY
        ),
        "a dearer tier": Change(f'{OPENAI}[judge.parameters]\nseed = 1\nservice_tier = "priority"\n', "", OPENAIS_KEY),
    },
    "run.dask": {
        "another cluster": Change(CLUSTER_ELSEWHERE),
        "another cluster than the base's": Change(CLUSTER_ELSEWHERE, '[run]\ndask = "tcp://ours:1"\n'),
        "without the cluster": Change("", '[run]\ndask = "tcp://ours:1"\n'),
    },
    DIGESTS: {"a fitted judge of its own": Change(FITTED + DIGEST, FITTED)},
    "passes the secret OPENAI_API_KEY": {
        "the key by name": Change('[system]\nenv = ["OPENAI_API_KEY"]\n', "", OPENAIS_KEY),
        "the key by pattern": Change('[system]\nenv = ["OPENAI_*"]\n', "", OPENAIS_KEY),
    },
    "passes the secret A_COPY": {
        "a copy of the key": Change(
            '[system]\nenv = ["PLAIN", "A_COPY"]\n', "", {**OPENAIS_KEY, "A_COPY": f" {KEY}", "PLAIN": "x"}
        )
    },
    "passes the secret SEARCH_TOKEN": {"another secret": Change('[system]\nenv = ["SEARCH_*"]\n', "", SEARCH)},
    "in the workspace, 'creds.json'": {
        "credentials in the workspace": Change(VERTEX, VERTEX, {GOOGLES: "creds.json"}),
        "credentials, and an unreadable base": Change(VERTEX, None, {GOOGLES: "$HEAD/creds.json"}),
        "certificates of its own": Change(OPENAI, OPENAI, {**OPENAIS_KEY, "SSL_CERT_FILE": "$HEAD/creds.json"}),
    },
    "in the workspace, 'link.json'": {"a link to credentials": Change(VERTEX, VERTEX, {GOOGLES: "$HEAD/../link.json"})},
    "in the workspace, 'out.json'": {
        "a link out, which it could replace": Change(OPENAI, OPENAI, {"SSL_CERT_FILE": "out.json"})
    },
    "in the workspace, 'certs'": {"a folder of certificates": Change(COMPATIBLE, None, {"SSL_CERT_DIR": "certs"})},
    "is a file in the workspace": {
        "a fitted judge that nobody names": Change(FITTED, FITTED),
        "such a judge, and an unreadable base": Change(FITTED, None),
    },
}
ATTEMPTS = {name: (says, change) for says, changes in REFUSED.items() for name, change in changes.items()}


@pytest.mark.attack(
    by="pull request", tries="send the key elsewhere by the config", stopped_by="only the base's addresses count"
)
@pytest.mark.attack(
    by="pull request", tries="raise the budget by the config", stopped_by="only its prices and limits count"
)
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_pull_request_says_neither_where_the_key_goes_nor_what_it_costs(tmp_path: Path, attempt: str) -> None:
    says, change = ATTEMPTS[attempt]
    if says in (*GUARDED, "judge.name"):
        says = f"'{says}' differs from the base branch"
    with pytest.raises(ConfigError) as caught:
        held(tmp_path, change)
    assert says in caught.value.message
    assert KEY not in str(caught.value)


ACCEPTED = {
    "the base's address": Change(OPENAI + GATEWAY, OPENAI + GATEWAY, OPENAIS_KEY),
    "the workflow's address": Change(OPENAI + ELSEWHERE, "", {**OPENAIS_KEY, "RAGSTONE_JUDGE_BASE_URL": "https://a.b"}),
    "the workflow's in place of the base's": Change(
        OPENAI, OPENAI + GATEWAY, {**OPENAIS_KEY, "RAGSTONE_JUDGE_BASE_URL": "https://a.b"}
    ),
    "another model": Change(OPENAI.replace("-mini", ""), OPENAI, JUDGES_KEY),
    "the workflow's provider": Change(OPENAI, OPENAI, {**JUDGES_KEY, "RAGSTONE_JUDGE": "anthropic:claude-haiku-4-5"}),
    "another provider with a key of its own": Change(CLAUDE, OPENAI, {"ANTHROPIC_API_KEY": KEY}),
    "a provider where the base has none": Change(CLAUDE, OFFLINE, JUDGES_KEY),
    "ordinary parameters": Change(f"{OPENAI}[judge.parameters]\ntemperature = 0.2\nseed = 1\n", "", OPENAIS_KEY),
    "the workflow's certificates outside": Change(COMPATIBLE, None, {"SSL_CERT_FILE": "/etc/ca.pem"}),
    "certificates that no judge needs": Change("", "", {"SSL_CERT_FILE": "creds.json"}),
    "the workflow's cluster": Change("", "", {"RAGSTONE_DASK": "tcp://ours:1"}),
    "the base's cluster": as_in_base('[run]\ndask = "tcp://ours:1"\n'),
    "a secret that the base passes": Change(
        '[system]\nenv = ["SEARCH_TOKEN"]\n', '[system]\nenv = ["SEARCH_*"]\n', SEARCH
    ),
    "a secret that the workflow passes": Change("", "", {**SEARCH, "RAGSTONE_SYSTEM_ENV": "SEARCH_TOKEN"}),
    "a fitted judge of the base": Change(FITTED + DIGEST, FITTED + DIGEST),
    "a fitted judge of the workflow": Change(FITTED, "", {"RAGSTONE_MODEL_DIGESTS": f"sha256:{'0' * 64}"}),
    "credentials outside": Change(VERTEX, VERTEX, {GOOGLES: "$HEAD/../creds.json"}),
    "credentials of another provider": Change(OPENAI, OPENAI, {**OPENAIS_KEY, GOOGLES: "creds.json"}),
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=list(ACCEPTED))
def test_what_the_base_or_the_workflow_says_counts(tmp_path: Path, change: Change) -> None:
    assert held(tmp_path, change).notes == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (Change(OPENAI + ELSEWHERE, None, OPENAIS_KEY), "judge.base_url"),
        (Change('[system]\nenv = ["SEARCH_TOKEN"]\n', None, SEARCH), "system.env"),
        (Change(FITTED + DIGEST, None), "judge.model_digests"),
        (Change(CLUSTER_ELSEWHERE, None), "run.dask"),
    ],
)
def test_what_is_only_the_bases_to_say_needs_the_base(tmp_path: Path, change: Change, named: str) -> None:
    with pytest.raises(GitHubError, match="GitHub is down") as caught:
        held(tmp_path, change)
    assert f"can't compare {named} with the base branch" in caught.value.message


@pytest.mark.parametrize(
    ("mine", "theirs", "environ", "limit", "is_noted"),
    [
        ("", "max_cost_usd = 2\n", {}, 2.0, True),
        ("max_cost_usd = 3\n", "max_cost_usd = 2\n", {}, 2.0, True),
        ("max_cost_usd = 2\n", "max_cost_usd = 2\n", {}, 2.0, False),
        ("max_cost_usd = 1\n", "max_cost_usd = 2\n", {}, 1.0, False),
        ("max_cost_usd = 3\n", "", {}, 3.0, False),
        ("", "max_cost_usd = 2\n", {"RAGSTONE_MAX_COST_USD": "3"}, 3.0, False),
        ("max_cost_usd = 3\n", None, {}, 3.0, False),
        ("", None, {"RAGSTONE_MAX_COST_USD": "3"}, 3.0, False),
    ],
)
def test_a_pull_request_can_lower_the_budget_and_not_lift_it(
    tmp_path: Path, mine: str, theirs: str | None, environ: dict[str, str], limit: float, is_noted: bool
) -> None:
    base = None if theirs is None else OPENAI + theirs
    found = held(tmp_path, Change(OPENAI + mine, base, {**OPENAIS_KEY, **environ}))
    assert found.settings.judge.max_cost_usd == limit
    assert bool(found.notes) is is_noted


@pytest.mark.parametrize(
    ("mine", "theirs", "environ", "note"),
    [
        ('[gate]\nfail_on = "never"\n', "", {}, "'gate.fail_on' is not set (as in the base branch)"),
        ('[gate]\nfail_on = "never"\n', '[gate]\nfail_on = "fail"\n', {}, "'gate.fail_on' is 'fail'"),
        ('[gate]\nfail_on = "never"\n', '[gate]\nfail_on = "never"\n', {}, None),
        ("", '[gate]\nfail_on = "inconclusive"\n', {}, "'gate.fail_on' is 'inconclusive'"),
        ('[gate]\nfail_on = "never"\n', "", {"RAGSTONE_FAIL_ON": "never"}, None),
        ('[gate]\nfail_on = "never"\n', None, {}, "'gate.fail_on' is not set (the base branch can't"),
        ("[golden]\nlimit = 2\n", "[golden]\nlimit = 3\n", {}, "'golden.limit' is 3"),
        ("[golden]\nlimit = 2\n", None, {}, "'golden.limit' is not set"),
        ("", "[golden]\nlimit = 3\n", {"RAGSTONE_LIMIT": "2"}, None),
    ],
)
def test_what_fails_the_job_and_what_is_checked_is_as_in_the_base(
    tmp_path: Path, mine: str, theirs: str | None, environ: dict[str, str], note: str | None
) -> None:
    notes = held(tmp_path, Change(mine, theirs, environ)).notes
    assert [found.startswith(note or "?") for found in notes] == ([True] if note is not None else [])


# -- whole jobs --------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("judge", "variable"), WAYS_TO_THE_KEY[:4:2])
def test_the_key_goes_where_the_base_branch_says_and_nowhere_else(
    github: FakeGitHub, checkout: Checkout, listener: Listener, judge: str, variable: str
) -> None:
    judge = judge.format(url=listener.url)
    refused(gate(checkout, judge, **{variable: KEY}), "'judge.base_url' differs from the base branch", "judge-base-url")
    assert listener.heard == []
    github.files[BASE_SHA]["pyproject.toml"] = f'[tool.ragstone.judge]\nbase_url = "{listener.url}"\n'.encode()
    assert gate(checkout, judge, **{variable: KEY}).code == 5  # the listener refuses everybody
    assert listener.heard
    assert all(heard.endswith(KEY) for heard in listener.heard)


@pytest.mark.parametrize(("ref", "is_heard"), [("refs/heads/main", True), ("refs/tags/main", False)])
def test_on_the_default_branch_the_config_is_the_base_itself(
    checkout: Checkout, listener: Listener, ref: str, is_heard: bool
) -> None:
    checkout.write("ragstone.toml", config(f'name = "openai:gpt-5.4-mini"\nbase_url = "{listener.url}"\n'))
    assert checkout.gate("push", OPENAI_API_KEY=KEY, GITHUB_REF=ref).code == (5 if is_heard else 2)
    assert bool(listener.heard) is is_heard


def test_a_base_that_can_not_be_read_gives_no_key_away(
    github: FakeGitHub, checkout: Checkout, listener: Listener
) -> None:
    for actor in github.actors.values():
        actor.reads = ALL_RIGHTS - {"contents"}
    judge = f'name = "openai:gpt-5.4-mini"\nbase_url = "{listener.url}"\n'
    github.files[BASE_SHA]["ragstone.toml"] = config(judge).encode()
    for more, says in (({}, "contents: read"), ({"GITHUB_TOKEN": ""}, "no GitHub token")):
        found = gate(checkout, judge, OPENAI_API_KEY=KEY, **more)
        assert (found.code, says in found.log) == (7, True)
    assert listener.heard == []


def test_a_config_that_the_workflow_names_is_held_against_the_same_file(
    github: FakeGitHub, checkout: Checkout, listener: Listener, api: GitHubApi
) -> None:
    inputs = read_inputs({"INPUT_CONFIG": "conf/gate.toml"})
    github.files[BASE_SHA]["conf/gate.toml"] = f'[judge]\nbase_url = "{listener.url}"\n'.encode()
    github.files[BASE_SHA]["conf/ragstone.toml"] = b'[judge]\nbase_url = "https://other.example"\n'
    checkout.write("conf/gate.toml", f'[judge]\nname = "openai:gpt-5.4-mini"\nbase_url = "{listener.url}"\n')
    environ = {"OPENAI_API_KEY": KEY}
    job: Any = SimpleNamespace(
        api=api,
        base=reviewed_base(api, build_event(runner("pull_request"), pull_request())),
        settings=action_settings(inputs, environ, checkout.root),
        environ=environ,
        places=Places(checkout.root, checkout.root),
        temporary=checkout.files,
    )
    assert restrict_to_base(job, BaseFiles(job), []).judge.base_url == listener.url


PROVIDER = {"name", "embeddings"}
"""Settings of [judge] that choose among addresses that Ragstone knows. A provider's own key goes to it alone."""

HARMLESS = {*("concurrency", "patience_s", "timeout_s"), *("context_window", "canaries", "planted", "earlier_contexts")}
"""How often and how fast the same address is asked, within the budget."""


def test_every_setting_of_the_judge_has_a_decision_on_pull_requests() -> None:
    """A new setting is secret, or in one of these sets, or in `github/trusted_config.py` if it can move a key."""
    secret = [option.name for option in OPTIONS if option.table == "judge" and option.secret and not option.in_file]
    guarded = [key.removeprefix("judge.") for key in (*GUARDED, "judge.max_cost_usd") if key.startswith("judge.")]
    assert sorted([*secret, *guarded, *PROVIDER, *HARMLESS]) == sorted(JudgeSettings.model_fields)
    in_tables = {f"{table}.{name}" for table in TABLES[:-1] for name in type(getattr(Settings(), table)).model_fields}
    addresses = {key for key in in_tables if key.endswith(("url", "folder", "dask", "entrypoint", "http"))}
    assert addresses == {
        *("judge.base_url", "judge.embeddings_base_url", "run.dask"),
        *("gate.baseline_folder", "gate.baseline_entrypoint"),  # refused in a job: see test_base_commit.py
        *("system.entrypoint", "system.http"),  # the system under test, which never gets a judge's key
    }


NOT_IN_A_FILE = ("region", "project", "deployment", "credentials_file", "api_key", "embeddings_api_key", "headers")


@pytest.mark.parametrize("setting", NOT_IN_A_FILE)
def test_a_config_file_has_no_region_project_key_or_header(tmp_path: Path, setting: str) -> None:
    with pytest.raises(ConfigError, match=f"'judge.{setting}'"):
        held(tmp_path, Change(f'{BEDROCK}{setting} = "evil"\n', "", OPENAIS_KEY))


@pytest.mark.heavy
@pytest.mark.attack(
    by="pull request",
    tries="send the answers to its own Dask cluster",
    stopped_by="only the base's `dask` counts. **Not prevented**: its code can use a scheduler that the job reaches",
)
def test_a_pull_request_can_not_send_the_answers_to_its_own_cluster(checkout: Checkout) -> None:
    with socket.create_server(("127.0.0.1", 0)) as scheduler:
        scheduler.setblocking(False)
        address = f"tcp://127.0.0.1:{scheduler.getsockname()[1]}"
        checkout.write("ragstone.toml", config('name = "offline"\n').replace("[run]", f'[run]\ndask = "{address}"'))
        with connecting_at_most("0.1s"):
            found = checkout.gate("pull_request", pull_request())
        with pytest.raises(BlockingIOError):
            scheduler.accept()
    refused(found, "'run.dask' differs from the base branch", "what comes back could run code here", "RAGSTONE_DASK")


@pytest.mark.attack(
    by="pull request", tries="have the key passed to the system", stopped_by="only the base's `env` counts"
)
def test_a_pull_request_can_not_have_the_key_passed_to_the_system(checkout: Checkout) -> None:
    checkout.program("rag.sh", "#!/bin/sh\nenv > seen\n")
    text = config('name = "offline"\n', 'env = ["OPENAI_*"]\n')
    checkout.write("ragstone.toml", text.replace("file:outputs.jsonl", "command:./rag.sh"))
    refused(checkout.gate(OPENAI_API_KEY=KEY), "'system.env' passes the secret", "system-env")
    assert not (checkout.root / "seen").exists()


def judge_in(checkout: Checkout, *, indent: int | None = None) -> str:
    """The digest of a fitted judge that lies in the checkout, put there by the base branch or the pull request."""
    graded = PredictionQuality(brier=0.1, auroc=0.9, low=0.8, high=1.0)
    weights = dict.fromkeys(FEATURES, 0.1)
    model = FittedModel(
        bias=0.0, weights=weights, labels=40, passes=20, groups=40, cross_validated=graded, offline=graded
    )
    file = FittedFile(offline=judge_version(), faithfulness=model)
    checkout.write("judge.json", file.model_dump_json(indent=indent))
    return hashlib.sha256((checkout.root / "judge.json").read_bytes()).hexdigest()


@pytest.mark.attack(
    by="pull request", tries="bring a fitted judge that passes everything", stopped_by="the base must name its digest"
)
def test_a_pull_request_does_not_bring_a_fitted_judge_along(github: FakeGitHub, checkout: Checkout) -> None:
    digest = judge_in(checkout)
    fitted = 'name = "fitted:judge.json"\n'
    pinned = f'{fitted}model_digests = ["{digest}"]\n'
    refused(gate(checkout, fitted), "is a file in the workspace", "RAGSTONE_MODEL_DIGESTS")
    assert gate(checkout, fitted, RAGSTONE_MODEL_DIGESTS=f"sha256:{digest}").code == 0
    github.files[BASE_SHA]["ragstone.toml"] = config(pinned).encode()
    assert gate(checkout, pinned).code == 0
    judge_in(checkout, indent=1)  # as a pull request could
    refused(gate(checkout, pinned), "which is not in judge.model_digests")
    checkout.write("ragstone.toml", config(fitted))
    assert checkout.gate("push").code == 0, "the default branch needs no digest"


@pytest.mark.heavy
@pytest.mark.attack(by="pull request", tries='`fail_on = "never"` in the config', stopped_by="the base's value counts")
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
