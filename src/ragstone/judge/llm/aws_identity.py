"""A CI job's identity as an AWS role (AssumeRoleWithWebIdentity), for judging on Bedrock without a key."""

from __future__ import annotations

import asyncio
from typing import Any

from ragstone.errors import JudgeError
from ragstone.judge.llm.exchange import refused_identity
from ragstone.judge.llm.federation import Federation, job_token
from ragstone.judge.llm.provider import Broken, Fault

_TIMEOUT_S = 10
_SESSION = "ragstone"


class AwsIdentity:
    """The role's credentials from botocore, which renews them with a fresh ID token before they expire."""

    def __init__(self, federation: Federation, region: str) -> None:
        import botocore.session
        from botocore.config import Config
        from botocore.credentials import AssumeRoleWithWebIdentityCredentialFetcher, DeferredRefreshableCredentials

        session = botocore.session.Session()
        # One attempt: the scheduler retries.
        limits = Config(connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S, retries={"total_max_attempts": 1})

        def client(service: str, config: Any) -> Any:
            return session.create_client(service, region_name=region, config=config.merge(limits))

        fetcher = AssumeRoleWithWebIdentityCredentialFetcher(
            client,
            lambda: job_token(federation),
            federation.ids["AWS_ROLE_ARN"],
            extra_args={"RoleSessionName": _SESSION},
        )
        self._federation = federation
        self._credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role-with-web-identity")

    async def hand_to(self, client: Any) -> None:
        """Make `client` (the SDK's for Bedrock) sign with valid credentials. Raises JudgeError, Broken."""
        from botocore.exceptions import BotoCoreError, ClientError

        fault: JudgeError | Fault
        try:
            now = await asyncio.to_thread(self._credentials.get_frozen_credentials)
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            words = error.response.get("Error", {}).get("Message", "")
            if isinstance(status, int) and 400 <= status < 500 and status != 429:
                fault = refused_identity(self._federation, status, str(words))
            else:
                fault = Broken(f"AWS gave no credentials for the role (HTTP {status})")
        except BotoCoreError as error:
            fault = Broken(f"AWS gave no credentials for the role ({type(error).__name__})")
        else:
            tokens = self._federation.tokens
            client.aws_access_key = now.access_key
            client.aws_secret_key = tokens.add(now.secret_key)
            client.aws_session_token = tokens.add(now.token)
            return
        raise fault
