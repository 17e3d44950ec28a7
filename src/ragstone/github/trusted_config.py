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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from ragstone.errors import ConfigError, GitHubError
from ragstone.files import read_regular
from ragstone.github.api.client import GitHubApiError
from ragstone.github.commit_files import BaseFiles, BaseUnreadable, CommitFiles
from ragstone.github.inputs import INPUTS
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
from ragstone.settings.settings import Settings
from ragstone.settings.variables import SECRET_NAME
from ragstone.system.environment import passed_names

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
_OF_VERDICT: Mapping[str, object] = {
    "gate.fail_on": None,
    "golden.limit": None,
    "run.seed": 0,
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


@dataclass(frozen=True, slots=True)
class Restricted:
    """`settings` that a pull request may have, and `notes` on values in the checkout's
    config that do not count."""

    settings: Trusted[Settings]
    notes: tuple[str, ...] = ()


def restrict_to_base(
    settings: Settings,
    base_files: BaseFiles,
    *,
    environ: Mapping[str, str],
    workspace: Path,
) -> Restricted:
    """`settings` in which nothing can redirect the judge's key or the answers, or add a
    model.

    Raises ConfigError for a value in the checkout's config that differs from the
    base's, and GitHubError if the base is needed and can't be read.
    """
    keys = _keys(settings, environ)
    inside = _bundle_in(workspace, settings)
    entrusted = bool(keys) or _has_identity(settings, environ)
    bundle = inside if entrusted else None
    wanted = [
        key
        for key in GUARDED
        if entrusted and key in settings.from_file and _matters(key, settings)
    ]
    if (
        settings.judge.ca_bundle is not None
        and inside is None
        and "judge.ca_bundle" in settings.from_file
    ):
        wanted = [*dict.fromkeys((*wanted, "judge.ca_bundle"))]
    fitted = settings.judge.name.strip().startswith(FITTED)
    unpinned = fitted and not settings.judge.model_digests
    if fitted and DIGESTS in settings.from_file:
        wanted.append(DIGESTS)
    if settings.run.dask is not None and CLUSTER in settings.from_file:
        wanted.append(CLUSTER)
    secrets = (
        _secrets_passed(settings, environ, keys)
        if _ENV in settings.from_file
        else frozenset()
    )
    budget_open = entrusted and (
        _BUDGET in settings.from_file or settings.judge.max_cost_usd is None
    )
    verdict_open = any(key in settings.from_file for key in _OF_VERDICT)
    exposed = _exposed(settings, environ, workspace)
    if not (wanted or bundle or secrets or entrusted or fitted or verdict_open):
        return Restricted(Trusted(settings))
    needed = bool(wanted or bundle or secrets or unpinned)
    try:
        base = base_files.commit
        base_settings = None if base is None else base.settings
        copy = (
            base.read([bundle]).get(bundle)
            if base is not None and bundle is not None
            else None
        )
    except (BaseUnreadable, GitHubApiError) as unreadable:
        if exposed is not None:
            raise exposed from None
        if not needed:
            why = f"the base branch can't be read: {unreadable}"
            allowed = _as_in_base(settings, _OF_VERDICT, why)
            unread = (f"{_NO_BUDGET} ({unreadable}).",) if budget_open else ()
            return replace(allowed, notes=(*allowed.notes, *unread))
        if secrets:
            wanted.append(_ENV)
        if unpinned:
            wanted.append(DIGESTS)
        named = ", ".join(dict.fromkeys(wanted)) or "judge.ca_bundle"
        raise GitHubError(
            f"can't compare {named} with the base branch: {unreadable}.",
            where=_place(settings),
            hint="Give the job `permissions: contents: read`, or set it by input or environment.",
        ) from None
    if base is None or base_settings is None:  # the checkout is the base itself
        return Restricted(Trusted(settings))
    if exposed is not None:
        raise exposed
    if unpinned:
        raise _unpinned(settings.judge.name)
    if entrusted:
        wanted += [
            key
            for key in GUARDED
            if key in base_settings.from_file and not _value(settings, key)
        ]
        if _other_provider(settings, base_settings):
            raise _refused("judge.name", settings, base)
    for key in wanted:
        if _value(settings, key) != _value(base_settings, key):
            raise _refused(key, settings, base)
    _check_secrets(secrets, settings, base, environ)
    if bundle is not None:
        settings = _with_bundle(settings, bundle, base, copy)
    notes: tuple[str, ...] = ()
    if budget_open:
        settings, notes = _within_budget(settings, base_settings)
    base_values = {key: _value(base_settings, key) for key in _OF_VERDICT}
    allowed = _as_in_base(settings, base_values, "as in the base branch")
    return replace(allowed, notes=(*notes, *allowed.notes))


_NO_BUDGET = "Can't read whether the base branch limits the cost of judging"


def _keys(settings: Settings, environ: Mapping[str, str]) -> frozenset[str]:
    credentials = (variable(name, environ) for name in credential_variables())
    return frozenset(
        (*settings.judge.secrets(), *(value for value in credentials if value))
    )


def _has_identity(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether the judge can use this job's identity, or that of the machine it runs
    on."""
    judge = settings.judge.name.strip().partition(":")[0]
    return any(
        provider.name == judge
        if provider.cloud is not None
        else has_job_identity(provider, environ)
        for provider in all_providers()
    )


def _matters(key: str, settings: Settings) -> bool:
    if key == "judge.parameters":
        return not settings.judge.parameters.keys() <= _FREE_PARAMETERS
    return True


def _value(settings: Settings, key: str) -> object:
    table, _, name = key.partition(".")
    value: object = getattr(getattr(settings, table), name)
    if key == "judge.ca_bundle" and isinstance(value, str):
        return (
            Path(value).relative_to(settings.root)
            if Path(value).is_relative_to(settings.root)
            else Path(value)
        )
    if key == "judge.parameters":
        return {
            name: value
            for name, value in settings.judge.parameters.items()
            if name not in _FREE_PARAMETERS
        }
    return value


def _other_provider(settings: Settings, base: Settings) -> bool:
    """Whether the checkout's config has a key that is not one provider's sent to
    another one than the base's."""
    name = settings.judge.name.strip().partition(":")[0]
    base_name = base.judge.name.strip().partition(":")[0]
    if "judge.name" not in settings.from_file or name == base_name:
        return False
    provider = find_provider(base_name)
    return (
        provider is not None
        and provider.api is not None
        and bool(settings.judge.secrets())
    )


def _exposed(
    settings: Settings, environ: Mapping[str, str], workspace: Path
) -> ConfigError | None:
    """The error for a judge's file of credentials that lies among the code that this
    run's author wrote."""
    provider = find_provider(settings.judge.name.strip().partition(":")[0])
    name = provider.credentials_variable if provider is not None else None
    file = (
        Path(os.path.realpath(workspace / variable(name, environ)))
        if name and variable(name, environ)
        else None
    )
    if (
        file is None
        or not file.is_file()
        or not file.is_relative_to(os.path.realpath(workspace))
    ):
        return None
    return ConfigError(
        f"it names a file in the workspace, '{file.name}', which code of an unreviewed checkout can read and change.",
        where=name,
        hint="Give the judge a short-lived access token instead, or put the file elsewhere in a step before this one.",
    )


def _unpinned(name: str) -> ConfigError:
    return ConfigError(
        f"'{name}' is a file in the workspace, and nothing that this run's author can't write says which one.",
        where=DIGESTS,
        hint="Set RAGSTONE_MODEL_DIGESTS under `env:` in the workflow to the digest that `ragstone check` shows, or "
        "merge judge.model_digests into the config file first.",
    )


def _refused(key: str, settings: Settings, base: CommitFiles) -> ConfigError:
    with_key = "" if key in (DIGESTS, CLUSTER) else "with a key, "
    return ConfigError(
        f"'{key}' differs from the base branch (commit {base.sha[:12]}), and {_WHY[key]}: "
        f"{with_key}it is not accepted from an unreviewed checkout.",
        where=_place(settings),
        hint=f"{_by_workflow(key)}merge the config change separately first.",
    )


def _by_workflow(key: str) -> str:
    for spec in INPUTS:
        if spec.key == key:
            return f"Set the input '{spec.name}' in the workflow, or "
    for option in OPTIONS:
        if option.key == key:
            return f"Set {option.env} under `env:` in the workflow, or "
    return "Don't change it, or "


def _place(settings: Settings) -> str:
    return str(settings.config) if settings.config is not None else CONFIG_FILE


# -- what the system under test may see
# --------------------------------------------------------------------------------


def _secrets_passed(
    settings: Settings, environ: Mapping[str, str], keys: frozenset[str]
) -> frozenset[str]:
    """The variables passed by `system.env` that contain a judge's key, or whose name
    suggests a secret."""
    passed = passed_names(settings.system.env, environ)
    return frozenset(
        name
        for name in passed
        if environ[name].strip() in keys or SECRET_NAME.search(name)
    )


def _check_secrets(
    secrets: frozenset[str],
    settings: Settings,
    base: CommitFiles,
    environ: Mapping[str, str],
) -> None:
    for name in sorted(secrets - passed_names(base.settings.system.env, environ)):
        raise ConfigError(
            f"'{_ENV}' passes the secret {name} to the system under test, but the base branch "
            f"(commit {base.sha[:12]}) does not.",
            where=_place(settings),
            hint=f"{_by_workflow(_ENV)}merge the config change separately first.",
        )


# -- certificates
# ------------------------------------------------------------------------------------------------------


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


def _with_bundle(
    settings: Settings, bundle: str, base: CommitFiles, copy: Path | None
) -> Settings:
    """The base's `copy` of the certificates: the checkout's may be changed, now or
    while user code runs."""
    if copy is None:
        raise _refused("judge.ca_bundle", settings, base)
    own = read_regular(
        base.workspace / bundle, within=base.workspace, limit=MAX_CA_BYTES
    )
    if copy.read_bytes() != own:
        raise _refused("judge.ca_bundle", settings, base)
    return settings.having("judge.ca_bundle", str(copy))


# -- the budget
# --------------------------------------------------------------------------------------------------------


def _within_budget(
    settings: Settings, base: Settings
) -> tuple[Settings, tuple[str, ...]]:
    """A pull request can lower the base's limit, but not raise it."""
    limit, base_limit = settings.judge.max_cost_usd, base.judge.max_cost_usd
    if base_limit is None or (limit is not None and limit <= base_limit):
        return settings, ()
    says = "does not set it" if limit is None else f"has {limit:g}"
    note = (
        f"'{_BUDGET}' is {base_limit:g}, as in the base branch: {_place(settings)} in this checkout {says}, which does "
        "not count."
    )
    return settings.having(_BUDGET, base_limit), (note,)


def _as_in_base(
    settings: Settings, base_values: Mapping[str, object], why: str
) -> Restricted:
    """`settings` with `base_values` in place of those in the checkout's config file,
    which do not count."""
    notes = []
    for key in _OF_VERDICT:
        if key in settings.from_file and _value(settings, key) != base_values[key]:
            notes.append(
                f"'{key}' is {_shown(base_values[key])} ({why}): the value in {_place(settings)} of this checkout, "
                f"{_shown(_value(settings, key))}, does not count."
            )
            settings = settings.having(key, base_values[key])
    return Restricted(Trusted(settings), tuple(notes))


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)


Value_co = TypeVar("Value_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Trusted(Generic[Value_co]):
    """A value that was read from a reviewed branch, or that the workflow or the
    platform gave.

    Build one only where such a value is read. A function that must not act on what a
    pull request says takes ``Trusted[X]``; what comes from the checkout of a pull
    request is a plain ``X``.
    """

    value: Value_co
