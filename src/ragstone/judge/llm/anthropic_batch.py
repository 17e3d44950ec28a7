"""Anthropic's message batches."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2

from ragstone.judge.llm import transport
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.anthropic import AnthropicProvider, outcome
from ragstone.judge.llm.batch import BatchState
from ragstone.judge.llm.provider import Broken, ChatReply, ChatRequest, Fault

_BATCHES = "/v1/messages/batches"
_STATUS = {"invalid_request_error": 400, "rate_limit_error": 429, "overloaded_error": 529, "api_error": 500}


class AnthropicBatches:
    """Batches of messages, in the dialect that the live provider has found."""

    def __init__(self, live: AnthropicProvider, account: Account) -> None:
        self._live = live
        self._account = account
        self._client = live.client

    async def submit(self, requests: Mapping[str, ChatRequest]) -> str:
        entries = [{"custom_id": name, "params": self._live.body(request)} for name, request in requests.items()]
        content = transport.encoded({"requests": entries})
        response = await self._ask("post", _BATCHES, content)
        batch_id = transport.parsed(response.content).get("id")
        if not isinstance(batch_id, str) or not batch_id.replace("_", "").replace("-", "").isalnum():
            raise Broken("the batch has no id")
        return batch_id

    async def progress(self, batch_id: str) -> BatchState:
        response = await self._ask("get", f"{_BATCHES}/{batch_id}")
        return "ended" if transport.parsed(response.content).get("processing_status") == "ended" else "running"

    async def results(self, batch_id: str) -> Mapping[str, ChatReply | Exception]:
        response = await self._ask("get", f"{_BATCHES}/{batch_id}/results")
        found: dict[str, ChatReply | Exception] = {}
        for line in response.content.splitlines():
            if line.strip():
                self._read(line, found)
        return found

    def _read(self, line: bytes, found: dict[str, ChatReply | Exception]) -> None:
        try:
            entry = transport.parsed(line)
        except Broken:
            return
        name, result = entry.get("custom_id"), entry.get("result")
        if not isinstance(name, str) or not isinstance(result, dict):
            return
        if result.get("type") == "succeeded" and isinstance(result.get("message"), dict):
            try:
                found[name] = self._live.read(result["message"], batched=True)
            except Fault as fault:
                found[name] = fault
            return
        error = result.get("error")
        inner = error.get("error", error) if isinstance(error, dict) else {}
        kind = str(inner.get("type")) if isinstance(inner, dict) else ""
        if kind in _STATUS:
            found[name] = transport.status_error(self._account, _STATUS[kind], {}, error, None)
        else:
            found[name] = Broken(f"the batch gave no reply ({self._account.scrubbed(result.get('type'))})")

    async def _ask(self, method: str, path: str, content: bytes | None = None) -> httpx2.Response:
        client = self._client
        call = (
            client.get(path, cast_to=httpx2.Response)
            if method == "get"
            else client.post(path, content=content, cast_to=httpx2.Response)
        )
        response, error = await outcome(self._account, call)
        if response is None:
            raise error or Broken("no reply")
        return response
