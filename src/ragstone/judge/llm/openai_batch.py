"""OpenAI's batch API: a file of requests in, a file of replies out."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from ragstone.errors import JudgeError
from ragstone.judge.llm import transport
from ragstone.judge.llm.account import Account
from ragstone.judge.llm.batch import BatchState
from ragstone.judge.llm.openai import OpenAIProvider, outcome
from ragstone.judge.llm.provider import Broken, ChatReply, ChatRequest, Fault

_T = TypeVar("_T")
_ENDED = ("completed", "expired", "cancelled")


class OpenAIBatches:
    """Batches of chat completions, in the dialect that the live provider has found."""

    def __init__(self, live: OpenAIProvider, account: Account) -> None:
        self._live = live
        self._account = account
        self._client = live.client

    async def submit(self, requests: Mapping[str, ChatRequest]) -> str:
        lines = (
            transport.encoded(
                {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": self._live.body(request)}
            )
            for name, request in requests.items()
        )
        content = b"\n".join(lines)
        file = await self._done(self._client.files.create(file=("ragstone.jsonl", content), purpose="batch"))
        batch = await self._done(
            self._client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"made_by": "ragstone"},
            )
        )
        return batch.id

    async def progress(self, batch_id: str) -> BatchState:
        batch = await self._done(self._client.batches.retrieve(batch_id))
        if batch.status == "failed":
            errors = batch.errors.data if batch.errors and batch.errors.data else []
            reason = self._account.scrubbed("; ".join(str(error.message) for error in errors[:3]) or "no reason given")
            raise JudgeError(
                f"the batch {batch_id} was not accepted: {reason}",
                where="judge.batch",
                hint="Fix the problem, or remove --batch.",
            )
        return "ended" if batch.status in _ENDED else "running"

    async def results(self, batch_id: str) -> Mapping[str, ChatReply | Exception]:
        batch = await self._done(self._client.batches.retrieve(batch_id))
        found: dict[str, ChatReply | Exception] = {}
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id:
                content = await self._done(self._client.files.content(file_id))
                for line in content.content.splitlines():
                    if line.strip():
                        self._read(line, found)
        return found

    def _read(self, line: bytes, found: dict[str, ChatReply | Exception]) -> None:
        try:
            entry = transport.parsed(line)
        except Broken:
            return
        name, response = entry.get("custom_id"), entry.get("response")
        if not isinstance(name, str):
            return
        if not isinstance(response, dict) or not isinstance(response.get("body"), dict):
            found[name] = Broken(f"the batch gave no reply: {self._account.scrubbed(entry.get('error'))}")
            return
        status = transport.count(response.get("status_code"))
        body: dict[str, Any] = response["body"]
        if status != 200:
            found[name] = transport.status_error(self._account, status, {}, body, None)
            return
        try:
            found[name] = self._live.read(body, batched=True)
        except Fault as fault:
            found[name] = fault

    async def _done(self, call: Awaitable[_T]) -> _T:
        value, error = await outcome(self._account, call)
        if value is None:
            raise error or Broken("no reply")
        return value
