"""GitHub's endpoint for ID tokens and both providers' token endpoints, on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

REQUEST_TOKEN = "request-token-of-the-runner-0123456789"
IDS = {
    "OPENAI_IDENTITY_PROVIDER_ID": "idp_1",
    "OPENAI_SERVICE_ACCOUNT_ID": "svc_1",
    "ANTHROPIC_FEDERATION_RULE_ID": "fdrl_1",
    "ANTHROPIC_ORGANIZATION_ID": "00000000-0000-0000-0000-000000000001",
    "ANTHROPIC_SERVICE_ACCOUNT_ID": "svac_1",
}


def jwt(number: int, audience: str) -> str:
    claims = json.dumps({"aud": audience, "jti": number, "padding": "x" * 600}).encode()
    return f"eyJhbGciOiJSUzI1NiJ9.{base64.urlsafe_b64encode(claims).decode()}.signature{number:04}"


@dataclass
class Issuer:
    """GitHub's endpoint for ID tokens, and both providers' token endpoints; `accepted` are the tokens judged with."""

    fake: Any
    lifetime_s: int = 3600
    delay_s: float = 0.0
    refuse: int | None = None
    refuse_job: int | None = None
    job_tokens: list[str] = field(default_factory=list)
    exchanges: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    published: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fake.extra |= {
            "GET /idtoken": self.job,
            "POST /oauth/token": self.exchange,
            "POST /v1/oauth/token": self.exchange,
        }
        self.fake.always = self.check

    @property
    def environ(self) -> dict[str, str]:
        return IDS | {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.fake.url}/idtoken?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
        }

    async def job(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {REQUEST_TOKEN}"
        assert request.query["api-version"] == "2.0"
        if self.refuse_job:
            return web.Response(status=self.refuse_job)
        self.job_tokens.append(jwt(len(self.job_tokens), request.query["audience"]))
        return web.json_response({"count": 1, "value": self.job_tokens[-1]})

    async def exchange(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.exchanges.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        await asyncio.sleep(self.delay_s)
        if self.refuse:
            message = f"no rule matches {body.get('assertion') or body.get('subject_token')}"
            return web.json_response({"error": "invalid_grant", "error_description": message}, status=self.refuse)
        self.tokens.append(f"access-{len(self.tokens):04}-of-nobody-else")
        self.accepted.add(self.tokens[-1])
        return web.json_response(
            {"access_token": self.tokens[-1], "token_type": "Bearer", "expires_in": self.lifetime_s}
        )

    def check(self, seen: Any) -> web.Response | None:
        if seen.headers.get("authorization", "").removeprefix("Bearer ") in self.accepted:
            return None
        words = f"invalid token {seen.headers.get('authorization')}"
        return web.json_response({"error": {"message": words, "type": "authentication_error"}}, status=401)
