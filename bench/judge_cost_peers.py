"""Scores samples with another tool's four metrics; `bench/judge_cost.py` runs this in the tool's own environment.

    PYTHON bench/judge_cost_peers.py ragas http://127.0.0.1:PORT/v1 SAMPLES.json

Needs no Ragstone: only the tool, and the OpenAI SDK that comes with it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

MODEL, CHAT_MODEL = "gpt-5.4-mini", "gpt-4o-mini"  # autoevals asks the former through another API, in the same words
Scorer = Callable[[dict[str, Any]], Awaitable[Any]]


def ragas(url: str) -> list[Scorer]:
    metrics = import_module("ragas.metrics.collections")
    client = import_module("openai").AsyncOpenAI(base_url=url, api_key="none")
    llm = import_module("ragas.llms").llm_factory(MODEL, client=client)
    embeddings = import_module("ragas.embeddings").OpenAIEmbeddings(client=client, model="text-embedding-3-small")
    faithfulness, relevancy = metrics.Faithfulness(llm=llm), metrics.AnswerRelevancy(llm=llm, embeddings=embeddings)
    precision, recall = metrics.ContextPrecisionWithReference(llm=llm), metrics.ContextRecall(llm=llm)

    def asked(row: dict[str, Any], *names: str) -> dict[str, Any]:
        known = {"response": row["answer"], "reference": row["reference"], "retrieved_contexts": row["contexts"]}
        return {"user_input": row["question"], **{name: known[name] for name in names}}

    return [
        lambda row: faithfulness.ascore(**asked(row, "response", "retrieved_contexts")),
        lambda row: relevancy.ascore(**asked(row, "response")),
        lambda row: precision.ascore(**asked(row, "reference", "retrieved_contexts")),
        lambda row: recall.ascore(**asked(row, "reference", "retrieved_contexts")),
    ]


def autoevals(url: str) -> list[Scorer]:
    import_module("autoevals").init(client=import_module("openai").AsyncOpenAI(base_url=url, api_key="none"))
    found = import_module("autoevals.ragas")
    names = ("Faithfulness", "AnswerRelevancy", "ContextPrecision", "ContextRecall")

    def scorer(name: str) -> Scorer:
        metric = getattr(found, name)(model=CHAT_MODEL)
        return lambda row: metric.eval_async(
            row["answer"], expected=row["reference"], input=row["question"], context=row["contexts"]
        )

    return [scorer(name) for name in names]


async def run(scorers: list[Scorer], rows: list[dict[str, Any]]) -> None:
    for row in rows:
        for scorer in scorers:
            await scorer(row)


if __name__ == "__main__":
    tool, address, file = sys.argv[1:]
    asyncio.run(run({"ragas": ragas, "autoevals": autoevals}[tool](address), json.loads(Path(file).read_text())))
    print(f"{tool} {version(tool)}")
