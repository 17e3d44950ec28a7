"""The batch APIs: collected, sent, waited for, found again after a stop, and never paid for twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from anthropic.types.messages.batch_create_params import BatchCreateParams

from ragstone.errors import ConfigError, JudgeError
from ragstone.judge.protocol import Call, JudgementFailed, Ledger

OPENAI = "openai:gpt-4o-mini"
ANTHROPIC = "anthropic:claude-haiku-4-5"


@dataclass
class Batches:
    """Both providers' batch endpoints, beside a FakeLlm whose replies they give."""

    fake: Any
    polls_needed: int = 1
    spoil: dict[int, dict[str, Any]] = field(default_factory=dict)
    failed: str | None = None
    sent: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    polls: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    room: int = 10**9  # the requests that may wait at once; a batch beyond is refused
    forgotten: set[str] = field(default_factory=set)
    lost_replies: int = 0  # how many submissions are taken but not answered
    listed: list[dict[str, Any]] = field(default_factory=list)

    def install(self) -> Batches:
        self.fake.extra.update(
            {
                "POST /v1/files": self.upload,
                "GET /v1/files/": self.download,
                "POST /v1/batches": self.create,
                "GET /v1/batches/": self.retrieve,
                "POST /v1/messages/batches": self.create_messages,
                "GET /v1/messages/batches/": self.retrieve_messages,
                "GET /v1/batches": self.list_all,
                "GET /v1/messages/batches": self.list_all,
            }
        )
        return self

    async def upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        assert form["purpose"] == "batch"
        file = form["file"]
        assert isinstance(file, web.FileField)
        content = file.file.read()
        name = f"file-in-{len(self.files)}"
        self.files[name] = content
        entries = [json.loads(line) for line in content.splitlines()]
        assert {(entry["method"], entry["url"]) for entry in entries} == {("POST", "/v1/chat/completions")}
        stored = {"id": name, "object": "file", "bytes": 1, "created_at": 1, "filename": "x", "purpose": "batch"}
        return web.json_response(stored | {"status": "processed"})

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert (body["endpoint"], body["completion_window"]) == ("/v1/chat/completions", "24h")
        batch_id = f"batch_{len(self.sent)}"
        self.sent[batch_id] = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        self.listed.append(self.batch(batch_id, "validating") | {"metadata": body["metadata"]})
        await self.answer_or_hang()
        return web.json_response(self.batch(batch_id, "validating"))

    async def answer_or_hang(self) -> None:
        if self.lost_replies:
            self.lost_replies -= 1
            await asyncio.sleep(5)

    async def list_all(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": self.listed, "has_more": False})

    def batch(self, batch_id: str, status: str) -> dict[str, Any]:
        errors = {"object": "list", "data": [{"code": "x", "message": self.failed}]} if self.failed else None
        return {
            "id": batch_id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "created_at": 1,
            "input_file_id": "file-in",
            "status": status,
            "errors": errors,
            "output_file_id": f"out-{batch_id}" if status == "completed" else None,
        }

    async def retrieve(self, request: web.Request) -> web.Response:
        self.polls += 1
        batch_id = request.path.rsplit("/", 1)[1]
        if batch_id in self.forgotten:
            return web.json_response({"error": {"message": f"No batch found with id '{batch_id}'"}}, status=404)
        status = "failed" if self.failed else "completed" if self.polls > self.polls_needed else "in_progress"
        found = self.batch(batch_id, status)
        if len(self.sent[batch_id]) > self.room:
            why = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for gpt-4o-mini"}
            found |= {"status": "failed", "errors": {"object": "list", "data": [why]}}
        return web.json_response(found)

    async def download(self, request: web.Request) -> web.Response:
        batch_id = request.path.split("/")[-2].removeprefix("out-")
        lines = []
        for at, entry in enumerate(self.sent[batch_id]):
            seen = type(self.fake.seen[0])("", {}, {}, entry["body"])
            response: dict[str, Any] = {"status_code": 200, "request_id": "r", "body": self.fake.completion(seen)}
            line = {"id": "x", "custom_id": entry["custom_id"], "response": response, "error": None}
            lines.append(json.dumps(line | self.spoil.get(at, {})))
        return web.Response(text="\n".join(reversed(lines)))

    async def create_messages(self, request: web.Request) -> web.Response:
        batch_id = f"msgbatch_{len(self.sent)}"
        body = await request.json()
        self.fake.check(BatchCreateParams, body)
        self.sent[batch_id] = body["requests"]
        counts = {"processing": len(body["requests"]), "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
        now = datetime.now(UTC).isoformat()
        self.listed.append({"id": batch_id, "type": "message_batch", "created_at": now, "request_counts": counts})
        await self.answer_or_hang()
        return web.json_response({"id": batch_id, "type": "message_batch", "processing_status": "in_progress"})

    async def retrieve_messages(self, request: web.Request) -> web.Response:
        if self.forgotten & set(request.path.split("/")):
            error = {"type": "not_found_error", "message": "no such batch"}
            return web.json_response({"type": "error", "error": error}, status=404)
        if not request.path.endswith("/results"):
            self.polls += 1
            status = "ended" if self.polls > self.polls_needed else "in_progress"
            return web.json_response({"id": request.path.rsplit("/", 1)[1], "processing_status": status})
        lines = []
        for at, entry in enumerate(self.sent[request.path.split("/")[-2]]):
            seen = type(self.fake.seen[0])("", {}, {}, entry["params"])
            result = {"type": "succeeded", "message": self.fake.message(seen)}
            lines.append(json.dumps({"custom_id": entry["custom_id"], "result": result} | self.spoil.get(at, {})))
        return web.Response(text="\n".join(lines))


@pytest.fixture
def batches(world: Any) -> Batches:
    return Batches(world.fake).install()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for happens on the other side of a socket
        await asyncio.sleep(0.002)


async def judge_all(judge: Any, n: int, ledger: Ledger | None = None) -> list[Any]:
    booked = ledger or Ledger()
    calls = [judge.statements("When?", f"In {year}.", call=Call(str(year), ledger=booked)) for year in range(n)]
    return await asyncio.gather(*calls, return_exceptions=True)


async def stopped(judge: Any, batches: Batches) -> None:
    """A run of six samples that ends while its batch is waited for."""
    task = asyncio.ensure_future(judge_all(judge, 6))
    await until(lambda: batches.polls > 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await judge.close()


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_all_calls_but_the_first_go_in_one_batch_at_half_the_price_and_score_the_same(
    world: Any, batches: Batches, name: str, tmp_path: Path
) -> None:
    ledger, live_ledger = Ledger(), Ledger()
    found = world.run(judge_all(world.judge(name, batch=True, cache=tmp_path / "j.sqlite"), 12, ledger))
    assert len(world.fake.chats) == 1
    assert [len(entries) for entries in batches.sent.values()] == [11]

    live = world.run(judge_all(world.judge(name), 12, live_ledger))
    assert found == live
    assert live_ledger.cost_usd is not None
    one = live_ledger.cost_usd / 12
    assert ledger.cost_usd == pytest.approx(one + 11 * one / 2)


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_a_run_that_was_stopped_finds_its_batch_again(world: Any, batches: Batches, name: str, tmp_path: Path) -> None:
    cache = tmp_path / "judgements.sqlite"
    batches.polls_needed = 10**9
    judge = world.judge(name, batch=True, cache=cache)

    world.run(stopped(judge, batches))
    state = json.loads((tmp_path / "batches.json").read_text())
    assert [len(batch["requests"]) for batch in state["batches"]] == [5]

    batches.polls_needed = 0
    again = world.judge(name, batch=True, cache=cache)
    found = world.run(judge_all(again, 6))
    assert all(not isinstance(each, Exception) for each in found)
    assert len(batches.sent) == 1
    assert len(world.fake.chats) == 1
    world.run(again.close())
    assert not (tmp_path / "batches.json").exists()


def test_a_batch_of_another_judge_is_left_alone(world: Any, batches: Batches, tmp_path: Path) -> None:
    other = {"id": "batch_x", "judge": "openai https://elsewhere gpt-4o", "requests": ["a" * 64]}
    (tmp_path / "batches.json").write_text(json.dumps({"version": 1, "batches": [other]}))
    judge = world.judge(batch=True, cache=tmp_path / "j.sqlite")
    world.run(judge_all(judge, 3))
    world.run(judge.close())
    assert json.loads((tmp_path / "batches.json").read_text())["batches"] == [other]


@pytest.mark.parametrize("content", ["{", "[]", '{"version":1,"batches":[{"id":"../../x","judge":"j","requests":[]}]}'])
def test_a_state_file_that_can_not_be_read_counts_as_none(
    world: Any, batches: Batches, tmp_path: Path, content: str
) -> None:
    (tmp_path / "batches.json").write_text(content)
    found = world.run(judge_all(world.judge(batch=True, cache=tmp_path / "j.sqlite"), 3))
    assert all(not isinstance(each, Exception) for each in found)


def test_a_request_that_a_batch_lost_is_sent_again(world: Any, batches: Batches) -> None:
    batches.spoil = {2: {"response": None, "error": {"code": "batch_expired", "message": "too late"}}}

    async def once() -> list[Any]:
        return await judge_all(world.judge(batch=True), 6)

    async def heal() -> None:
        await until(lambda: len(batches.sent) == 2)
        batches.spoil = {}

    async def both() -> list[Any]:
        found, _ = await asyncio.gather(once(), heal())
        return found

    found = world.run(both())
    assert all(not isinstance(each, Exception) for each in found)
    assert [len(entries) for entries in batches.sent.values()] == [5, 1]


def test_a_request_that_was_rejected_in_a_batch_fails_alone(world: Any, batches: Batches) -> None:
    body = {"error": {"message": "maximum context length is 10 tokens", "code": "context_length_exceeded"}}
    batches.spoil = {0: {"response": {"status_code": 400, "body": body}}}
    found = world.run(judge_all(world.judge(batch=True), 6))
    assert [type(each) for each in found if isinstance(each, Exception)] == [JudgementFailed]


def test_a_batch_beyond_what_may_wait_is_sent_again_in_parts(world: Any, batches: Batches) -> None:
    batches.room = 3
    found = world.run(judge_all(world.judge(batch=True), 12))
    assert not [each for each in found if isinstance(each, Exception)]
    sizes = [len(entries) for entries in batches.sent.values()]
    assert sizes[:2] == [11, 5]
    assert sum(size for size in sizes if size <= 3) == 11


def test_one_request_that_is_too_much_ends_the_run(world: Any, batches: Batches) -> None:
    batches.room = 0
    found = world.run(judge_all(world.judge(batch=True), 5))
    assert "Enqueued token limit reached" in str(next(each for each in found if isinstance(each, JudgeError)))
    assert len(batches.sent) <= 8


@pytest.mark.parametrize(("name", "fate"), [(OPENAI, "forgotten"), (OPENAI, "failed"), (ANTHROPIC, "forgotten")])
def test_a_dead_batch_of_an_earlier_run_is_dropped_and_sent_again(
    world: Any, batches: Batches, tmp_path: Path, name: str, fate: str
) -> None:
    cache, state = tmp_path / "judgements.sqlite", tmp_path / "batches.json"
    batches.polls_needed = 10**9
    judge = world.judge(name, batch=True, cache=cache)

    world.run(stopped(judge, batches))
    [dead] = json.loads(state.read_text())["batches"]
    batches.polls_needed = 0
    if fate == "forgotten":
        batches.forgotten.add(dead["id"])
    else:
        batches.sent[dead["id"]] *= 2  # more than there is room for
        batches.room = 9
    again = world.judge(name, batch=True, cache=cache)
    found = world.run(judge_all(again, 6))
    assert not [each for each in found if isinstance(each, Exception)]
    world.run(again.close())
    assert not state.exists()


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
def test_a_batch_that_was_taken_but_not_confirmed_is_found_and_not_paid_twice(
    world: Any, batches: Batches, name: str
) -> None:
    batches.lost_replies = 1
    found = world.run(judge_all(world.judge(name, batch=True, timeout_s=0.3), 6))
    assert not [each for each in found if isinstance(each, Exception)]
    assert len(batches.sent) == 1


def test_a_batch_that_is_not_accepted_ends_the_run_with_the_reason(world: Any, batches: Batches) -> None:
    batches.failed = "Enqueued token limit reached"
    found = world.run(judge_all(world.judge(batch=True), 4))
    errors = [each for each in found if isinstance(each, JudgeError)]
    assert errors
    assert "Enqueued token limit reached" in str(errors[0])


def test_batch_entries_are_what_the_live_path_sends(world: Any, batches: Batches) -> None:
    world.run(judge_all(world.judge(batch=True), 3))
    live = world.fake.chats[0].body
    for entry in batches.sent["batch_0"]:
        assert {**entry["body"], "messages": None} == {**live, "messages": None}
        assert len(entry["custom_id"]) == 64


def test_batches_of_a_compatible_server_use_its_openai_endpoints(world: Any, batches: Batches) -> None:
    found = world.run(judge_all(world.judge("openai-compatible:llama", batch=True), 4))
    assert all(not isinstance(each, ConfigError | Exception) for each in found)
