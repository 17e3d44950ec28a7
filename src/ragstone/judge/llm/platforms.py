"""Anthropic's models on Amazon Bedrock and Google's Vertex AI, through the SDK's own clients for them.

Both bill and authenticate through the cloud account. Credentials are the usual ones of AWS and Google, from the
environment that is passed in; a job's sign-in steps for the cloud set them.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.llm.account import AWS_VARIABLES, GOOGLE_FILE_VARIABLE, KEY_VARIABLE, Platform, given
from ragstone.judge.llm.provider import Broken

if TYPE_CHECKING:
    import httpx2

    from ragstone.judge.llm.account import Account
    from ragstone.judge.llm.aws_identity import AwsIdentity

PLATFORMS = ("bedrock", "vertex")
_REGIONS = {"bedrock": ("AWS_REGION", "AWS_DEFAULT_REGION"), "vertex": ("CLOUD_ML_REGION",)}
_PROJECTS = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_PACKAGES = {"bedrock": "boto3", "vertex": "google.auth"}
CREDENTIALS = {
    "bedrock": "{}, {} and {}".format(*AWS_VARIABLES),
    "vertex": f"{KEY_VARIABLE} (an access token) or {GOOGLE_FILE_VARIABLE}",
}
"""Names the credentials when the platform refuses the caller."""


def platform_of(service: str, environ: Mapping[str, str], *, has_token: bool) -> Platform:
    """The platform settings in `environ`. Raises ConfigError for what is missing, packages included."""
    region = _first(_REGIONS[service], environ)
    if region is None:
        raise ConfigError(
            f"judge '{service}' needs a region.", where="judge", hint=f"Set {_REGIONS[service][0]} in the environment."
        )
    project = _first(_PROJECTS, environ) if service == "vertex" else None
    if service == "vertex" and project is None:
        raise ConfigError("judge 'vertex' needs a project.", where="judge", hint=f"Set {_PROJECTS[0]}.")
    if not has_token and not _installed(_PACKAGES[service]):
        raise ConfigError(
            f"judge '{service}' needs the package {_PACKAGES[service].partition('.')[0]}, which is not installed.",
            where="judge.name",
            hint=f'Install it with: pip install "ragstone[{service}]".',
        )
    found = {name: given(name, environ) for name in AWS_VARIABLES} if service == "bedrock" and not has_token else {}
    if bool(found.get(AWS_VARIABLES[0])) != bool(found.get(AWS_VARIABLES[1])):
        raise ConfigError(
            f"only one of {AWS_VARIABLES[0]} and {AWS_VARIABLES[1]} is set.",
            where="judge",
            hint="Set both, or neither.",
        )
    aws = {name: SecretStr(value) for name, value in found.items() if value}
    return Platform(region, project, aws, given(GOOGLE_FILE_VARIABLE, environ) or None)


def address_of(service: str, platform: Platform) -> str:
    """The platform's own address for the region, as the SDK has it."""
    region = platform.region
    if service == "bedrock":
        return f"https://bedrock-runtime.{region}.amazonaws.com"
    if region == "global":
        return "https://aiplatform.googleapis.com/v1"
    if region in ("us", "eu"):
        return f"https://aiplatform.{region}.rep.googleapis.com/v1"
    return f"https://{region}-aiplatform.googleapis.com/v1"


def make_client(account: Account, platform: Platform, http_client: httpx2.AsyncClient, timeout: httpx2.Timeout) -> Any:
    """The SDK's client for the platform. No retries, as elsewhere: the scheduler retries."""
    token = account.key.get_secret_value() if account.key else None
    common: dict[str, Any] = {
        "base_url": account.address.base_url,
        "default_headers": {name: value.get_secret_value() for name, value in account.headers.items()} or None,
        "max_retries": 0,
        "timeout": timeout,
        "open_telemetry": False,
        "http_client": http_client,
    }
    if account.service == "bedrock":
        from anthropic import AsyncAnthropicBedrock

        secret = {name: value.get_secret_value() for name, value in platform.aws.items()}
        return AsyncAnthropicBedrock(
            aws_region=platform.region,
            api_key=token,
            aws_access_key=secret.get(AWS_VARIABLES[0]),
            aws_secret_key=secret.get(AWS_VARIABLES[1]),
            aws_session_token=secret.get(AWS_VARIABLES[2]),
            **common,
        )
    from anthropic import AsyncAnthropicVertex

    return AsyncAnthropicVertex(
        region=platform.region,
        project_id=platform.project or "",
        access_token=token,
        credentials=None if token else _google_credentials(platform),
        **common,
    )


def identity_of(account: Account) -> AwsIdentity | None:
    """Signs requests as the job's role; None if something else does."""
    if account.federation is None or account.platform is None:
        return None
    from ragstone.judge.llm.aws_identity import AwsIdentity

    return AwsIdentity(account.federation, account.platform.region)


def credentials_error(account: Account, error: Exception) -> Broken | JudgeError:
    """The error for a request that the cloud's SDK could not sign: signed out, or temporarily unreachable."""
    said = f"can't sign in to {account.service}: {account.scrubbed(error) or type(error).__name__}"
    if type(error).__name__ in ("TransportError", "ConnectTimeoutError", "EndpointConnectionError"):
        return Broken(said)
    return JudgeError(said, where="judge", hint=f"Set {CREDENTIALS[account.service]}.")


def _google_credentials(platform: Platform) -> Any:
    """Credentials from the file that the environment names; None for those that google-auth finds by itself.

    Workload identity, a service account or a user; files that name a program to run are not accepted.
    """
    if platform.google_file is None:
        return None
    from google.auth import exceptions, identity_pool
    from google.oauth2 import credentials, service_account

    load: Mapping[str, Callable[..., Any]] = {
        "external_account": identity_pool.Credentials.from_file,
        "service_account": service_account.Credentials.from_service_account_file,
        "authorized_user": credentials.Credentials.from_authorized_user_file,
    }
    try:
        kind = json.loads(Path(platform.google_file).read_text(encoding="utf-8"))["type"]
        return load[kind](platform.google_file, scopes=[_GOOGLE_SCOPE])
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


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    return next((found for name in names if (found := given(name, environ))), None)
