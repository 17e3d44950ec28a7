"""Restricts what the config file of a pull request can set: where the judge's key is
sent, and how much may be spent, is for the workflow and the base branch to decide.

The author of a pull request controls the config file in it, just like the code. So

- settings that could redirect a key or the answers, or raise the cost of a call, such
  as `base_url` and `prices`, are accepted only from inputs, from the environment, or
  with their value in the base's config, which the checkout can neither change nor leave
  out;
- a key that doesn't come from the variable of one provider can't be sent to another
  provider than the base's;
- what fails the job (`fail_on`), how many samples are evaluated (`limit`) and the
  budget follow the base's config.
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
"""Settings whose values come from a reviewed branch, the workflow or the environment,
where it matters.

Only this module and its callers make them of plain Settings. A function that must not
act on what the author of a pull request wrote takes these.
"""

DIGESTS = "judge.model_digests"
_JUDGE_NAME = "judge.name"
_PARAMETERS = "judge.parameters"
GUARDED: Mapping[str, str] = {
    "judge.base_url": "the judge's key would be sent there",
    "judge.embeddings_base_url": "the embeddings' key would be sent there",
    "judge.prices": "the cost limit is calculated with them",
    _PARAMETERS: "they can change the price of a call",
    DIGESTS: "they decide which judges can be loaded",
    "run.dask": "golden set and answers would be sent there, and what comes back could run code here",
}
"""The settings that must be as in the base's config, each with the reason."""

# Model parameters that neither redirect requests nor change the price of a token.
_FREE_PARAMETERS = frozenset(
    {"temperature", "top_p", "top_k", "seed", "reasoning_effort", "effort", "verbosity"}
    | {"frequency_penalty", "presence_penalty"}
)

_BUDGET = "judge.max_cost_usd"
# Settings that are always as in the base's config, or not set if that can't be read.
# Otherwise the config file of a pull request could say that a failing gate passes, or
# leave out samples, so that slices and must-pass samples would not be checked.
_VERDICT_KEYS = ("gate.fail_on", "golden.limit")

_ENV = "system.env"

# How the workflow sets each setting: by an input, or else a variable. For hints.
_WAYS_TO_SET: Mapping[str | None, str] = {
    **{
        option.key: f"Set {option.env} under `env:` in the workflow"
        for option in OPTIONS
    },
    **{spec.key: f"Set the input '{spec.name}' in the workflow" for spec in INPUTS},
}


def restrict_to_base(
    job: Job, base_files: BaseFiles, notes: list[str]
) -> TrustedSettings:
    """Make the job's settings trusted. Adds to `notes` which values in the checkout's
    config don't count.

    Raises ConfigError for a value in the checkout's config that must be the base's and
    isn't, and GitHubError if there is such a setting and the base can't be read.
    """
    settings = job.settings
    try:
        base = base_files.commit
        if base is None:  # the checkout is the base itself
            return TrustedSettings(settings)
        base_settings = base.settings
    except (GitHubApiError, ConfigError) as unreadable:
        _refuse_exposed_credentials(job)
        _refuse_unpinned(settings.judge)
        return _without_base(job, unreadable, notes)
    _refuse_exposed_credentials(job)
    _refuse_unpinned(settings.judge)
    _refuse_changes(settings, base)
    _refuse_other_provider(settings, base)
    _refuse_secrets(job, base)
    values: dict[str, object] = {}
    for key in _VERDICT_KEYS:
        if not _is_set_by_workflow(settings, key):
            values[key] = _value(base_settings, key)
    base_limit = base_settings.judge.max_cost_usd
    if base_limit is not None and not _is_set_by_workflow(settings, _BUDGET):
        # A pull request can lower the base's limit, but not raise it.
        values[_BUDGET] = min(base_limit, settings.judge.max_cost_usd or base_limit)
    return _as_in_base(settings, values, "as in the base branch", notes)


def _without_base(job: Job, unreadable: Exception, notes: list[str]) -> TrustedSettings:
    """Make the settings trusted although the base can't be read. Raises GitHubError if
    the checkout's config sets anything that must be as in the base."""
    settings = job.settings
    needed = [key for key in GUARDED if key in settings.from_file]
    if _passed_secrets(job):
        needed.append(_ENV)
    if needed:
        raise GitHubError(
            f"can't compare {', '.join(needed)} with the base branch: {unreadable}.",
            where=_place(settings),
            hint="Give the job `permissions: contents: read`, or set these by inputs or variables of the workflow.",
        )
    unset = {key: None for key in _VERDICT_KEYS if key in settings.from_file}
    reason = f"the base branch can't be read: {unreadable}"
    return _as_in_base(settings, unset, reason, notes)


def _is_set_by_workflow(settings: Settings, key: str) -> bool:
    """Whether an input or the environment sets `key`."""
    return key not in settings.from_file and bool(_value(settings, key))


def _value(settings: Settings, key: str) -> object:
    """The value of a setting; of the model's parameters, those that must be as in the
    base."""
    table, _, name = key.partition(".")
    value: object = getattr(getattr(settings, table), name)
    if key == _PARAMETERS:
        parameters = settings.judge.parameters
        return {name: parameters[name] for name in parameters.keys() - _FREE_PARAMETERS}
    return value


def _refuse_changes(settings: Settings, base: CommitFiles) -> None:
    """Raise ConfigError if the checkout's config changes or leaves out a setting that
    must be as in the base."""
    for key, reason in GUARDED.items():
        is_same = _value(settings, key) == _value(base.settings, key)
        if not is_same and not _is_set_by_workflow(settings, key):
            raise _refusal(key, reason, settings, base)


def _refuse_unpinned(judge: JudgeSettings) -> None:
    """Raise ConfigError for a fitted judge whose digest is set nowhere."""
    if judge.name.strip().startswith(FITTED_PREFIX) and not judge.model_digests:
        raise ConfigError(
            f"'{judge.name}' is a file in the workspace, which the author of a change could replace by another judge.",
            where=DIGESTS,
            hint="Set RAGSTONE_MODEL_DIGESTS under `env:` in the workflow to the digest that `ragstone check` shows, "
            "or merge judge.model_digests into the config file first.",
        )


def _refuse_other_provider(settings: Settings, base: CommitFiles) -> None:
    """Raise ConfigError if the checkout's config names another provider than the base's,
    and a key in the settings, which may be of any provider, would be sent there."""
    base_name = _provider_of(base.settings)
    base_provider = find_provider(base_name)
    is_other = _provider_of(settings) != base_name
    has_base_api = base_provider is not None and base_provider.api is not None
    is_from_file = _JUDGE_NAME in settings.from_file
    if is_from_file and is_other and has_base_api and settings.judge.secrets():
        reason = "the judge's key would be sent to another provider"
        raise _refusal(_JUDGE_NAME, reason, settings, base)


def _refuse_secrets(job: Job, base: CommitFiles) -> None:
    """Raise ConfigError if the checkout's config passes a secret to the system that the
    base's does not."""
    passed_by_base = passed_variables(base.settings.system.env, job.environ)
    # Only the first one is named.
    for name in sorted(_passed_secrets(job) - passed_by_base):
        raise ConfigError(
            f"'{_ENV}' passes the secret {name} to the system under test, but the base branch "
            f"(commit {base.sha[:12]}) does not.",
            where=_place(job.settings),
            hint=_workflow_hint(_ENV),
        )


def _passed_secrets(job: Job) -> set[str]:
    """The variables that hold a key of a judge, or have a name like a secret's, and
    that the checkout's config passes to the system."""
    settings = job.settings
    environ = job.environ
    names: set[str] = set()
    if _ENV not in settings.from_file:
        return names
    credentials = {variable(name, environ) for name in credential_variables()}
    judge_keys = {*credentials, *settings.judge.secrets()} - {""}
    for name in passed_variables(settings.system.env, environ):
        if environ[name].strip() in judge_keys or SECRET_NAME.search(name):
            names.add(name)
    return names


def _refuse_exposed_credentials(job: Job) -> None:
    """Raise ConfigError if the judge's credentials, or the certificates that its server
    is checked by, are files in the workspace, which code of the checkout can change."""
    workspace = job.places.workspace
    names = [*CERTIFICATE_VARIABLES]
    provider = find_provider(_provider_of(job.settings))
    if provider is not None:
        if provider.free:  # the judge needs no server
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
                f"it names a file in the workspace, '{path.name}', which code of an unreviewed checkout can change.",
                where=name,
                hint="Put the file elsewhere in a step before this one, or give the judge a short-lived access token.",
            )


def _provider_of(settings: Settings) -> str:
    return settings.judge.name.partition(":")[0].strip()


def _refusal(
    key: str, reason: str, settings: Settings, base: CommitFiles
) -> ConfigError:
    return ConfigError(
        f"'{key}' differs from the base branch (commit {base.sha[:12]}), and {reason}: "
        "it is not accepted from an unreviewed checkout.",
        where=_place(settings),
        hint=_workflow_hint(key),
    )


def _workflow_hint(key: str) -> str:
    way = _WAYS_TO_SET.get(key, "Don't change it")
    return f"{way}, or merge the config change separately first."


def _place(settings: Settings) -> str:
    return str(settings.config or CONFIG_FILE)


def _as_in_base(
    settings: Settings, base_values: Mapping[str, object], reason: str, notes: list[str]
) -> TrustedSettings:
    """Replace the values of the checkout by `base_values`. Adds to `notes` which ones
    differ, and the `reason`."""
    for key, base_value in base_values.items():
        value = _value(settings, key)
        if value != base_value:
            notes.append(
                f"'{key}' is {_shown(base_value)} ({reason}): the value in {_place(settings)} of this checkout, "
                f"{_shown(value)}, does not count."
            )
            settings = settings.with_value(key, base_value)
    return TrustedSettings(settings)


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)
