"""Anthropic's models on Amazon Bedrock and Google's Vertex AI, through the SDK's own clients for them.

Both bill and authenticate through the cloud account. Credentials are the usual ones of AWS and Google, from the
environment that is passed in; a job's sign-in steps for the cloud set them.
"""

from __future__ import annotations

import importlib.util
import json
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.account import CloudAccount
from ragstone.judge.llm.provider import Broken
from ragstone.judge.providers import Cloud, Provider, first_given, given

if TYPE_CHECKING:
    from ragstone.judge.llm.account import Account

AWS_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
GOOGLE_FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def cloud_account(provider: Provider, cloud: Cloud, environ: Mapping[str, str], *, has_token: bool) -> CloudAccount:
    """The cloud's settings in `environ`. Raises ConfigError for what is missing, packages included."""
    region = first_given(cloud.region_variables, environ)
    if region is None:
        raise ConfigError(
            f"judge '{provider.name}' needs a region.",
            where="judge",
            hint=f"Set {cloud.region_variables[0]} in the environment.",
        )
    project = first_given(cloud.project_variables, environ)
    if cloud.project_variables and project is None:
        raise ConfigError(
            f"judge '{provider.name}' needs a project.", where="judge", hint=f"Set {cloud.project_variables[0]}."
        )
    if not has_token and not _installed(cloud.package):
        raise ConfigError(
            f"judge '{provider.name}' needs the package {cloud.package.partition('.')[0]}, which is not installed.",
            where="judge.name",
            hint=f'Install it with: pip install "ragstone[{provider.name}]".',
        )
    signs = AWS_VARIABLES[1] in provider.secret_variables and not has_token
    aws = {name: value for name in AWS_VARIABLES if (value := given(name, environ))} if signs else {}
    if (AWS_VARIABLES[0] in aws) != (AWS_VARIABLES[1] in aws):
        raise ConfigError(
            f"only one of {AWS_VARIABLES[0]} and {AWS_VARIABLES[1]} is set.",
            where="judge",
            hint="Set both, or neither.",
        )
    secrets = {name: SecretStr(value) for name, value in aws.items()}
    return CloudAccount(region, project, secrets, given(GOOGLE_FILE_VARIABLE, environ) or None)


def cloud_address(cloud: Cloud, region: str) -> str:
    """The cloud's own address for `region`, as the SDK has it."""
    return cloud.base_urls.get(region) or cloud.base_url.format(region=region)


def make_client(account: Account, cloud: CloudAccount, options: Mapping[str, Any]) -> Any:
    assert account.provider.cloud is not None  # noqa: S101 - else there would be no cloud account
    make = pkgutil.resolve_name(account.provider.cloud.client)
    return make(cloud, account.key.get_secret_value() if account.key else None, options)


def bedrock_client(cloud: CloudAccount, token: str | None, options: Mapping[str, Any]) -> Any:
    """The client for Amazon Bedrock, with a token of its own or signing with AWS credentials."""
    from anthropic import AsyncAnthropicBedrock

    secret = {name: value.get_secret_value() for name, value in cloud.aws.items()}
    return AsyncAnthropicBedrock(
        aws_region=cloud.region,
        api_key=token,
        aws_access_key=secret.get(AWS_VARIABLES[0]),
        aws_secret_key=secret.get(AWS_VARIABLES[1]),
        aws_session_token=secret.get(AWS_VARIABLES[2]),
        **options,
    )


def vertex_client(cloud: CloudAccount, token: str | None, options: Mapping[str, Any]) -> Any:
    """The client for Vertex AI, with an access token or Google's credentials."""
    from anthropic import AsyncAnthropicVertex

    return AsyncAnthropicVertex(
        region=cloud.region,
        project_id=cloud.project or "",
        access_token=token,
        credentials=None if token else _google_credentials(cloud),
        **options,
    )


def credentials_error(account: Account, error: Exception) -> Broken | JudgeError:
    """The error for a request that the cloud's SDK could not sign: signed out, or temporarily unreachable."""
    said = f"can't sign in to {account.service}: {account.scrubbed(error) or type(error).__name__}"
    if type(error).__name__ in ("TransportError", "ConnectTimeoutError", "EndpointConnectionError"):
        return Broken(said)
    return JudgeError(said, where="judge", hint=f"Set {account.key_variable}.")


def _google_credentials(cloud: CloudAccount) -> Any:
    """Credentials from the file that the environment names; None for those that google-auth finds by itself.

    Workload identity, a service account or a user; files that name a program to run are not accepted.
    """
    if cloud.google_file is None:
        return None
    from google.auth import exceptions, identity_pool
    from google.oauth2 import credentials, service_account

    load: Mapping[str, Callable[..., Any]] = {
        "external_account": identity_pool.Credentials.from_file,
        "service_account": service_account.Credentials.from_service_account_file,
        "authorized_user": credentials.Credentials.from_authorized_user_file,
    }
    try:
        kind = json.loads(Path(cloud.google_file).read_text(encoding="utf-8"))["type"]
        return load[kind](cloud.google_file, scopes=[_GOOGLE_SCOPE])
    except (exceptions.GoogleAuthError, OSError, ValueError, KeyError, TypeError) as error:
        reason = type(error).__name__
    raise ConfigError(
        f"Google's credentials can't be used ({reason}).",
        where=GOOGLE_FILE_VARIABLE,
        hint="Use a file for workload identity federation, a service account or a user.",
    )


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False
