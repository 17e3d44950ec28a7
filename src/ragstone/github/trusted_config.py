"""The workflow and the base branch decide where the judge's key is sent, and how much
may be spent.

The author of a pull request controls the config file in it, just like the code. So
`base_url`, `prices` and other settings that could redirect a key or the answers, or
raise the cost of a call, are accepted only from inputs, from the environment, or with
their value in the base's config: the checkout can neither change nor leave out that
value, nor send a key that is not in one provider's own variable to another provider.
What fails the job (`fail_on`), how many samples are evaluated (`limit`) and the budget
follow the base's config too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NewType

from ragstone.errors import ConfigError, GitHubError
from ragstone.github.api.client import GitHubApiError
from ragstone.github.commit_files import BaseFiles, CommitFiles
from ragstone.github.inputs import INPUTS
from ragstone.github.job import Job
from ragstone.judge.llm.transport import CERTIFICATE_VARIABLES
from ragstone.judge.names import FITTED_PREFIX
from ragstone.judge.providers import credential_variables, find_provider, variable
from ragstone.settings.load import CONFIG_FILE, OPTIONS
from ragstone.settings.settings import JudgeSettings, Settings
from ragstone.settings.variables import SECRET_NAME
from ragstone.system.environment import passed_variables

TrustedSettings = NewType("TrustedSettings", Settings)
"""Settings that were read from a reviewed branch, or that the workflow or the platform
gave.

Make one only where such values are read. A function that must not act on what a pull
request says takes these; what comes from the checkout of a pull request is plain.
"""

DIGESTS = "judge.model_digests"
_NAME = "judge.name"
_PARAMETERS = "judge.parameters"
GUARDED: Mapping[str, str] = {
    "judge.base_url": "the judge's key would be sent there",
    "judge.embeddings_base_url": "the embeddings' key would be sent there",
    "judge.prices": "the cost limit is calculated with them",
    _PARAMETERS: "they can change the price of a call",
    DIGESTS: "they decide which judges can be loaded",
    "run.dask": "golden set and answers would be sent there, and what comes back could run code here",
}
"""Settings of the checkout's config that must be those of the base, and why."""

_FREE_PARAMETERS = frozenset(
    {"temperature", "top_p", "top_k", "seed", "reasoning_effort", "effort", "verbosity"}
    | {"frequency_penalty", "presence_penalty"}
)
"""Model parameters that neither redirect requests nor change the price of a token."""

_BUDGET = "judge.max_cost_usd"
_OF_VERDICT = ("gate.fail_on", "golden.limit")
"""Settings that decide what fails the job and what is checked; not set if the base
can't be read.

A pull request's config file can't say that a failing gate passes, or leave out samples
(slices and must-pass samples would not be checked).
"""

_ENV = "system.env"

_WAYS: Mapping[str | None, str] = {
    **{
        option.key: f"Set {option.env} under `env:` in the workflow"
        for option in OPTIONS
    },
    **{spec.key: f"Set the input '{spec.name}' in the workflow" for spec in INPUTS},
}
"""How the workflow sets a setting: by an input, if there is one."""


def restrict_to_base(
    job: Job, base_files: BaseFiles, notes: list[str]
) -> TrustedSettings:
    """The job's settings in which nothing can redirect the judge's key or the answers,
    or add a model. Adds to `notes` which values in the checkout's config don't count.

    Raises ConfigError for a value in the checkout's config that differs from the
    base's, and GitHubError if the base is needed and can't be read.
    """
    settings = job.settings
    try:
        base = base_files.commit
        if base is None:  # the checkout is the base itself
            return TrustedSettings(settings)
        base_settings = base.settings
    except (GitHubApiError, ConfigError) as unreadable:
        _refuse_exposed(job)
        _refuse_unpinned(settings.judge)
        return _without_base(job, unreadable, notes)
    _refuse_exposed(job)
    _refuse_unpinned(settings.judge)
    _refuse_changes(settings, base)
    _refuse_other_provider(settings, base)
    _refuse_secrets(job, base)
    values: dict[str, object] = {}
    for key in _OF_VERDICT:
        if not _is_by_workflow(settings, key):
            values[key] = _value(base_settings, key)
    base_limit = base_settings.judge.max_cost_usd
    if base_limit is not None and not _is_by_workflow(settings, _BUDGET):
        # A pull request can lower the base's limit, but not raise it.
        values[_BUDGET] = min(base_limit, settings.judge.max_cost_usd or base_limit)
    return _as_in_base(settings, values, "as in the base branch", notes)


def _without_base(job: Job, unreadable: Exception, notes: list[str]) -> TrustedSettings:
    """The settings if the base can't be read. Raises GitHubError if the checkout's
    config sets what must be the base's."""
    settings = job.settings
    needed = [key for key in GUARDED if key in settings.from_file]
    if _passed_secrets(job):
        needed.append(_ENV)
    if needed:
        raise GitHubError(
            f"can't compare {', '.join(needed)} with the base branch: {unreadable}.",
            where=_place(settings),
            hint="Give the job `permissions: contents: read`, or set it by input or environment.",
        )
    unset = {key: None for key in _OF_VERDICT if key in settings.from_file}
    why = f"the base branch can't be read: {unreadable}"
    return _as_in_base(settings, unset, why, notes)


def _is_by_workflow(settings: Settings, key: str) -> bool:
    """Whether an input or the environment sets `key`."""
    return key not in settings.from_file and bool(_value(settings, key))


def _value(settings: Settings, key: str) -> object:
    table, _, name = key.partition(".")
    value: object = getattr(getattr(settings, table), name)
    if key == _PARAMETERS:
        parameters = settings.judge.parameters
        return {name: parameters[name] for name in parameters.keys() - _FREE_PARAMETERS}
    return value


def _refuse_changes(settings: Settings, base: CommitFiles) -> None:
    """Raise ConfigError if the checkout's config changes or leaves out what must be the
    base's."""
    for key in GUARDED:
        is_same = _value(settings, key) == _value(base.settings, key)
        if not is_same and not _is_by_workflow(settings, key):
            raise _refused(key, GUARDED[key], settings, base)


def _refuse_unpinned(judge: JudgeSettings) -> None:
    """Raise ConfigError for a fitted judge whose digest nobody gives."""
    if judge.name.strip().startswith(FITTED_PREFIX) and not judge.model_digests:
        raise ConfigError(
            f"'{judge.name}' is a file in the workspace, and nothing that this run's author can't write says which one.",
            where=DIGESTS,
            hint="Set RAGSTONE_MODEL_DIGESTS under `env:` in the workflow to the digest that `ragstone check` shows, "
            "or merge judge.model_digests into the config file first.",
        )


def _refuse_other_provider(settings: Settings, base: CommitFiles) -> None:
    """Raise ConfigError if the checkout's config has a key that is not one provider's
    sent to another one than the base's."""
    name = _provider_of(base.settings)
    provider = find_provider(name)
    is_other = _provider_of(settings) != name
    has_api = provider is not None and provider.api is not None
    is_changed = _NAME in settings.from_file
    if is_changed and is_other and has_api and settings.judge.secrets():
        why = "the judge's key would be sent to another provider"
        raise _refused(_NAME, why, settings, base)


def _refuse_secrets(job: Job, base: CommitFiles) -> None:
    """Raise ConfigError if the checkout's config passes a secret to the system that the
    base's does not."""
    passed_by_base = passed_variables(base.settings.system.env, job.environ)
    for name in sorted(_passed_secrets(job) - passed_by_base):
        raise ConfigError(
            f"'{_ENV}' passes the secret {name} to the system under test, but the base branch "
            f"(commit {base.sha[:12]}) does not.",
            where=_place(job.settings),
            hint=_by_workflow(_ENV),
        )


def _passed_secrets(job: Job) -> set[str]:
    """The variables with secrets that the checkout's config passes to the system."""
    settings, environ = job.settings, job.environ
    secrets: set[str] = set()
    if _ENV not in settings.from_file:
        return secrets
    keys = {variable(name, environ) for name in credential_variables()}
    keys = {*keys, *settings.judge.secrets()} - {""}
    for name in passed_variables(settings.system.env, environ):
        if environ[name].strip() in keys or SECRET_NAME.search(name):
            secrets.add(name)
    return secrets


def _refuse_exposed(job: Job) -> None:
    """Raise ConfigError if what signs the judge in, or what its server is known by,
    lies among the code that this run's author wrote."""
    workspace = job.places.workspace
    names = [*CERTIFICATE_VARIABLES]
    provider = find_provider(_provider_of(job.settings))
    if provider is not None:
        if provider.free:  # nothing is asked of a server
            return
        names += filter(None, [provider.credentials_variable])
    root = os.path.realpath(workspace)
    for name in names:
        value = variable(name, job.environ)
        if not value:
            continue
        path = workspace / value
        link = Path(os.path.realpath(path.parent)) / path.name
        file = Path(os.path.realpath(path))
        if link.is_relative_to(root) or file.is_relative_to(root):
            raise ConfigError(
                f"it names a place in the workspace, '{path.name}', which code of an unreviewed checkout can change.",
                where=name,
                hint="Put the file elsewhere in a step before this one, or give the judge a short-lived access token.",
            )


def _provider_of(settings: Settings) -> str:
    return settings.judge.name.partition(":")[0].strip()


def _refused(key: str, why: str, settings: Settings, base: CommitFiles) -> ConfigError:
    return ConfigError(
        f"'{key}' differs from the base branch (commit {base.sha[:12]}), and {why}: "
        "it is not accepted from an unreviewed checkout.",
        where=_place(settings),
        hint=_by_workflow(key),
    )


def _by_workflow(key: str) -> str:
    way = _WAYS.get(key, "Don't change it")
    return f"{way}, or merge the config change separately first."


def _place(settings: Settings) -> str:
    return str(settings.config or CONFIG_FILE)


def _as_in_base(
    settings: Settings, base_values: Mapping[str, object], why: str, notes: list[str]
) -> TrustedSettings:
    """`settings` with `base_values` in place of those of the checkout, which do not
    count."""
    for key, base_value in base_values.items():
        value = _value(settings, key)
        if value != base_value:
            notes.append(
                f"'{key}' is {_shown(base_value)} ({why}): the value in {_place(settings)} of this checkout, "
                f"{_shown(value)}, does not count."
            )
            settings = settings.with_value(key, base_value)
    return TrustedSettings(settings)


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)
