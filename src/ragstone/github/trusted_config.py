"""The workflow and the base branch decide where the judge's key is sent, and how much
may be spent.

The author of a pull request controls the config file in it, just like the code. If
there is a key, then `base_url`, `ca_bundle`, `prices` and other settings that could
redirect the key or raise its budget are accepted only from inputs, from the
environment, or with their value in the base's config; nor can the checkout leave out
the base's value, or send a key that is not in one provider's own variable to another
provider. With or without a key, the same applies to the digests of fitted judges,
because their files are also in the checkout, and to the address of a Dask cluster. What
fails the job (`fail_on`) and how many samples are evaluated (`limit`) follow the base's
config too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NewType

from ragstone.errors import ConfigError, GitHubError
from ragstone.files import read_regular
from ragstone.github.api.client import GitHubApiError
from ragstone.github.commit_files import BaseFiles, CommitFiles
from ragstone.github.inputs import INPUTS
from ragstone.github.job import Job
from ragstone.judge.llm.account_settings import has_job_identity
from ragstone.judge.llm.transport import MAX_CA_BYTES
from ragstone.judge.names import FITTED
from ragstone.judge.providers import (
    all_providers,
    credential_variables,
    find_provider,
    variable,
)
from ragstone.settings.load import CONFIG_FILE, OPTIONS
from ragstone.settings.settings import JudgeSettings, Settings
from ragstone.settings.variables import SECRET_NAME, Environ
from ragstone.system.environment import passed_names

TrustedSettings = NewType("TrustedSettings", Settings)
"""Settings that were read from a reviewed branch, or that the workflow or the platform
gave.

Make one only where such values are read. A function that must not act on what a pull
request says takes these; what comes from the checkout of a pull request is plain.
"""

GUARDED = (
    "judge.base_url",
    "judge.embeddings_base_url",
    "judge.ca_bundle",
    "judge.prices",
    "judge.parameters",
)
"""Settings that decide who gets the judge's key, and the assumed cost of a call."""

DIGESTS = "judge.model_digests"
"""Which fitted judges may be loaded; no key needs to be given."""

CLUSTER = "run.dask"
"""Who gets questions and answers to judge, and could run code in this process; no key
needs to be given."""

_FREE_PARAMETERS = frozenset(
    {"temperature", "top_p", "top_k", "seed", "reasoning_effort", "effort", "verbosity"}
    | {"frequency_penalty", "presence_penalty"}
)
"""Model parameters that neither redirect requests nor change the price of a token."""

_BUDGET = "judge.max_cost_usd"
_BUNDLE = "judge.ca_bundle"
_OF_VERDICT: Mapping[str, object] = {
    "gate.fail_on": None,
    "golden.limit": None,
}
"""Settings that decide what fails the job and what is checked: their value if the base
can't be read.

A pull request's config file can't say that a failing gate passes, or leave out samples
(slices and must-pass samples would not be checked).
"""

_ENV = "system.env"
_WHY = {
    "judge.name": "the judge's key would be sent to another provider",
    "judge.base_url": "the judge's key would be sent there",
    "judge.embeddings_base_url": "the embeddings' key would be sent there",
    "judge.ca_bundle": "whoever controls its certificates could read the judge's key",
    "judge.prices": "the cost limit is calculated with them",
    "judge.parameters": "they can change the price of a call",
    DIGESTS: "they decide which judges can be loaded",
    CLUSTER: "golden set and answers would be sent there, and what comes back could run code here",
}


def restrict_to_base(
    job: Job, base_files: BaseFiles, notes: list[str]
) -> TrustedSettings:
    """The job's settings in which nothing can redirect the judge's key or the answers,
    or add a model. Adds to `notes` which values in the checkout's config don't count.

    Raises ConfigError for a value in the checkout's config that differs from the
    base's, and GitHubError if the base is needed and can't be read.
    """
    settings = job.settings
    environ = job.environ
    workspace = job.places.workspace
    keys = {variable(name, environ) for name in credential_variables()}
    keys = {*keys, *settings.judge.secrets()} - {""}
    entrusted = bool(keys) or _has_identity(settings, environ)
    bundle = _bundle_in(workspace, settings)
    compared = _compared(settings, entrusted, bundle)
    if not entrusted:
        bundle = None
    secrets = _passed_secrets(settings, environ, keys)
    needed = [*compared]
    if secrets:
        needed.append(_ENV)
    if bundle is not None:
        needed.append(_BUNDLE)
    of_verdict = [key for key in _OF_VERDICT if key in settings.from_file]
    limit = settings.judge.max_cost_usd
    budget_open = entrusted and (limit is None or _BUDGET in settings.from_file)
    if not (needed or entrusted or of_verdict):
        return TrustedSettings(settings)
    try:
        base = base_files.commit
        if base is None:  # the checkout is the base itself
            return TrustedSettings(settings)
        base_settings = base.settings
        copies = {} if bundle is None else base.read([bundle])
    except GitHubApiError as unreadable:
        _refuse_exposed(settings, environ, workspace)
        if needed:
            names = ", ".join(dict.fromkeys(needed))
            raise GitHubError(
                f"can't compare {names} with the base branch: {unreadable}.",
                where=_place(settings),
                hint="Give the job `permissions: contents: read`, or set it by input or environment.",
            ) from None
        why = f"the base branch can't be read: {unreadable}"
        defaults = {key: _OF_VERDICT[key] for key in of_verdict}
        settings = _as_in_base(settings, defaults, why, notes)
        if budget_open:
            notes.append(
                f"Can't read whether the base branch limits the cost of judging ({unreadable})."
            )
        return TrustedSettings(settings)
    _refuse_exposed(settings, environ, workspace)
    _refuse_unpinned(settings.judge)
    if entrusted:
        _refuse_other_provider(settings, base)
        for key in GUARDED:
            if key in base_settings.from_file and not _value(settings, key):
                compared.append(key)
    for key in compared:
        if _value(settings, key) != _value(base_settings, key):
            raise _refused(key, settings, base)
    passed_by_base = passed_names(base_settings.system.env, environ)
    for name in sorted(secrets - passed_by_base):
        raise ConfigError(
            f"'{_ENV}' passes the secret {name} to the system under test, but the base branch "
            f"(commit {base.sha[:12]}) does not.",
            where=_place(settings),
            hint=_by_workflow(_ENV),
        )
    if bundle is not None:
        # The checkout's may be changed, now or while user code runs.
        own = read_regular(workspace / bundle, within=workspace, limit=MAX_CA_BYTES)
        copy = copies.get(bundle)
        if copy is None or copy.read_bytes() != own:
            raise _refused(_BUNDLE, settings, base)
        settings = settings.having(_BUNDLE, str(copy))
    base_values = {key: _value(base_settings, key) for key in of_verdict}
    base_limit = base_settings.judge.max_cost_usd
    if budget_open and base_limit is not None:
        # A pull request can lower the base's limit, but not raise it.
        base_values[_BUDGET] = min(base_limit, limit or base_limit)
    why = "as in the base branch"
    return TrustedSettings(_as_in_base(settings, base_values, why, notes))


def _compared(settings: Settings, entrusted: bool, bundle: str | None) -> list[str]:
    """The settings of the checkout's config that must be those of the base; the CA
    bundle without a key only if it is outside of the checkout."""
    compared = []
    for key in GUARDED:
        is_outside = key == _BUNDLE and bundle is None
        is_set = key in settings.from_file and _value(settings, key)
        if is_set and (entrusted or is_outside):
            compared.append(key)
    needs_digests = DIGESTS in settings.from_file or not settings.judge.model_digests
    if _is_fitted(settings.judge) and needs_digests:
        compared.append(DIGESTS)
    if settings.run.dask is not None and CLUSTER in settings.from_file:
        compared.append(CLUSTER)
    return compared


def _is_fitted(judge: JudgeSettings) -> bool:
    return judge.name.strip().startswith(FITTED)


def _refuse_unpinned(judge: JudgeSettings) -> None:
    """Raise ConfigError for a fitted judge whose digest nobody gives."""
    if _is_fitted(judge) and not judge.model_digests:
        raise ConfigError(
            f"'{judge.name}' is a file in the workspace, and nothing that this run's author can't write says which one.",
            where=DIGESTS,
            hint="Set RAGSTONE_MODEL_DIGESTS under `env:` in the workflow to the digest that `ragstone check` shows, "
            "or merge judge.model_digests into the config file first.",
        )


def _passed_secrets(settings: Settings, environ: Environ, keys: set[str]) -> set[str]:
    """The variables with secrets that the checkout's config passes to the system."""
    secrets: set[str] = set()
    if _ENV not in settings.from_file:
        return secrets
    for name in passed_names(settings.system.env, environ):
        if environ[name].strip() in keys or SECRET_NAME.search(name):
            secrets.add(name)
    return secrets


def _has_identity(settings: Settings, environ: Environ) -> bool:
    """Whether the judge can use this job's identity, or that of the machine it runs
    on."""
    judge = _provider_of(settings)
    for provider in all_providers():
        if provider.cloud is None:
            if has_job_identity(provider, environ):
                return True
        elif provider.name == judge:
            return True
    return False


def _provider_of(settings: Settings) -> str:
    return settings.judge.name.strip().partition(":")[0]


def _value(settings: Settings, key: str) -> object:
    table, _, name = key.partition(".")
    value: object = getattr(getattr(settings, table), name)
    if key == _BUNDLE and value is not None:
        path = settings.root / str(value)
        if path.is_relative_to(settings.root):
            return path.relative_to(settings.root)
        return path
    if key == "judge.parameters":
        parameters = settings.judge.parameters
        return {name: parameters[name] for name in parameters.keys() - _FREE_PARAMETERS}
    return value


def _refuse_other_provider(settings: Settings, base: CommitFiles) -> None:
    """Raise ConfigError if the checkout's config has a key that is not one provider's
    sent to another one than the base's."""
    name = _provider_of(base.settings)
    provider = find_provider(name)
    is_other = "judge.name" in settings.from_file and _provider_of(settings) != name
    has_api = provider is not None and provider.api is not None
    if is_other and has_api and settings.judge.secrets():
        raise _refused("judge.name", settings, base)


def _refuse_exposed(settings: Settings, environ: Environ, workspace: Path) -> None:
    """Raise ConfigError for a judge's file of credentials that lies among the code that
    this run's author wrote."""
    provider = find_provider(_provider_of(settings))
    name = None if provider is None else provider.credentials_variable
    path = ""
    if name:
        path = variable(name, environ)
    file = Path(os.path.realpath(workspace / path))
    real_workspace = os.path.realpath(workspace)
    if file.is_file() and file.is_relative_to(real_workspace):
        raise ConfigError(
            f"it names a file in the workspace, '{file.name}', which code of an unreviewed checkout can read and change.",
            where=name,
            hint="Give the judge a short-lived access token instead, or put the file elsewhere in a step before this one.",
        )


def _refused(key: str, settings: Settings, base: CommitFiles) -> ConfigError:
    with_key = "with a key, "
    if key in (DIGESTS, CLUSTER):
        with_key = ""
    return ConfigError(
        f"'{key}' differs from the base branch (commit {base.sha[:12]}), and {_WHY[key]}: "
        f"{with_key}it is not accepted from an unreviewed checkout.",
        where=_place(settings),
        hint=_by_workflow(key),
    )


def _by_workflow(key: str) -> str:
    way = "Don't change it"
    for option in OPTIONS:
        if option.key == key:
            way = f"Set {option.env} under `env:` in the workflow"
    for spec in INPUTS:
        if spec.key == key:
            way = f"Set the input '{spec.name}' in the workflow"
    return f"{way}, or merge the config change separately first."


def _place(settings: Settings) -> str:
    return str(settings.config or CONFIG_FILE)


def _bundle_in(workspace: Path, settings: Settings) -> str | None:
    """The CA bundle's path within the checkout, None if there is none, or if it is
    outside."""
    if settings.judge.ca_bundle is None:
        return None
    path = Path(settings.judge.ca_bundle).absolute()
    for root in (workspace.absolute(), Path(os.path.realpath(workspace))):
        for place in (path, Path(os.path.realpath(path))):
            if place.is_relative_to(root):
                return place.relative_to(root).as_posix()
    return None


def _as_in_base(
    settings: Settings, base_values: Mapping[str, object], why: str, notes: list[str]
) -> Settings:
    """`settings` with `base_values` in place of those of the checkout, which do not
    count."""
    for key, base_value in base_values.items():
        value = _value(settings, key)
        if value != base_value:
            notes.append(
                f"'{key}' is {_shown(base_value)} ({why}): the value in {_place(settings)} of this checkout, "
                f"{_shown(value)}, does not count."
            )
            settings = settings.having(key, base_value)
    return settings


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)
