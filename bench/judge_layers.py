"""Where the CPU of a call to an LLM goes: ``python bench/judge_layers.py [CALLS]``.

Sends the same request of some 5 kB, 64 at a time, to `bench/fake_judge.py` in three ways: through the OpenAI SDK as the
judge does, through the SDK's HTTP client alone, and through aiohttp, which that client sends by. Prints the CPU
milliseconds of each per call, the least of three rounds. What `ragstone run` (`bench/judge_engine.py`) takes beyond the
first of them is Ragstone's own work, and its start.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp
import httpx2
import openai
from judge_engine import start_server

from ragstone.judge.llm import transport

PORT = 8796
IN_FLIGHT = 64
ROUNDS = 3
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
CONTENT = transport.encoded(
    {
        "model": "gpt-4o-mini",
        "messages": [{"role": "system", "content": "word " * 300}, {"role": "user", "content": "text " * 700}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}},
    }
)
HEADERS = {"authorization": "Bearer sk-bench", "content-type": "application/json"}


async def cpu_ms(send: Callable[[], Awaitable[object]], calls: int) -> float:
    """CPU milliseconds per call."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await send()

    began = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(work())
    return (time.process_time() - began) / calls * 1000


async def main(calls: int) -> None:
    base = f"http://127.0.0.1:{PORT}/v1"
    limits = httpx2.Limits(max_connections=IN_FLIGHT + 8, max_keepalive_connections=IN_FLIGHT + 8)
    http = openai.DefaultAioHttpClient(limits=limits, event_hooks={"response": [transport.bound]})
    sdk = openai.AsyncOpenAI(api_key="sk-bench", base_url=base, max_retries=0, http_client=http)

    async def by_sdk() -> object:
        return (await sdk.post("/chat/completions", content=CONTENT, cast_to=httpx2.Response)).content

    async def by_http() -> object:
        return (await http.post(f"{base}/chat/completions", content=CONTENT, headers=HEADERS)).content

    async with sdk, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT + 8)) as session:

        async def by_aiohttp() -> object:
            async with session.post(f"{base}/chat/completions", data=CONTENT, headers=HEADERS) as reply:
                return await reply.read()

        ways = {"the OpenAI SDK": by_sdk, "its HTTP client alone": by_http, "aiohttp": by_aiohttp}
        least = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for name, send in ways.items():
                least[name] = min(least[name], await cpu_ms(send, calls))
    for name, spent in least.items():
        print(f"{name}: {spent:.2f} ms of CPU per call")


if __name__ == "__main__":
    fake = start_server(PORT, 100.0)
    try:
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000))
    finally:
        fake.terminate()
        fake.wait()
