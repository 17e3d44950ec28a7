"""Entities that an LLM lists: only those that are there, in blocks, cached, and no part of the judge's identity."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.abilities import ENTITIES_PROMPT_VERSION
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import EntityList, JudgementKind
from ragstone.judge.llm.estimate import estimate_cost
from ragstone.judge.llm.prompts import layout_of
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.metrics.registry import select_metrics
from ragstone.settings.settings import JudgeSettings
from ragstone.system.response import Context, Response

TEXT = "The Flynas flight to Riyadh leaves at\n10:00."
SAMPLE = Sample("q1", "When?", reference="Ask Ada.", other_references=(TEXT,))
RESPONSE = Response("q1", "At ten.", (Context("Flights to Riyadh leave at 10:00."),))
ENTITIES = frozenset({JudgementKind.ENTITIES})


def replies(*names: object) -> Any:
    return lambda _schema, _data: {"entities": {"names": list(names)}}


@pytest.mark.parametrize("name", ["openai:gpt-5.4-mini", "anthropic:claude-haiku-4-5"])
def test_the_entities_of_a_text_are_listed_once_each(world: Any, name: str) -> None:
    world.fake.fill = replies("Flynas", "Riyadh", "10:00", "Flynas", "leaves at 10:00")
    found = world.run(world.judge(name).entities(TEXT, call=Call("q1")))
    assert found == EntityList(("Flynas", "Riyadh", "10:00", "leaves at 10:00"))


@pytest.mark.parametrize("name", ["Lufthansa", "", 7, None, ["Flynas"]])
def test_an_entity_that_is_not_there_is_asked_again_and_never_counted(world: Any, name: object) -> None:
    world.fake.fill = replies("Flynas", name)
    with pytest.raises(JudgementFailed, match="asked twice"):
        world.run(world.judge().entities(TEXT, call=Call("q1")))
    assert len(world.fake.chats) == 2


def test_a_reference_is_read_once_however_often_its_answer_changes(world: Any, tmp_path: Path) -> None:
    world.fake.fill = replies("Riyadh")
    judge = world.judge(cache=tmp_path / "cache.sqlite")
    ledger = Ledger()
    for answer in ("At ten.", "At noon."):
        call = Call("q1", ledger=ledger)
        found = world.run(collect_judgements(judge, SAMPLE, replace(RESPONSE, answer=answer), ENTITIES, call))
        assert found.entities == EntityList(("Riyadh",))
    assert (len(world.fake.chats), ledger.cached_calls) == (1, 1)
    assert "Flynas" in world.fake.chats[0].data  # of two references, the one that the contexts hold most of


def test_a_judge_that_lists_none_leaves_it_to_the_writing(world: Any) -> None:
    found = world.run(collect_judgements(OfflineJudge(), SAMPLE, RESPONSE, ENTITIES, Call("q1")))
    assert found.entities is None


def test_entities_are_estimated_and_do_not_change_the_judges_identity() -> None:
    metrics = select_metrics(["context_entity_recall"])
    cost = estimate_cost(JudgeSettings(name="openai:gpt-5.4-mini"), GoldenSet((SAMPLE,)), metrics)
    assert cost.calls == 1
    layout = layout_of("openai", "gpt-5.4-mini")
    changed = {**layout.prompts, "entities": replace(layout.prompts["entities"], digest="another")}
    assert replace(layout, prompts=changed).digest() == layout.digest()


def test_the_version_of_the_metric_names_that_of_the_prompt() -> None:
    text = files("ragstone.judge.llm").joinpath("prompts", "entities.toml").read_text("utf-8")
    assert tomllib.loads(text)["version"] == ENTITIES_PROMPT_VERSION
    (metric,) = select_metrics(["context_entity_recall"])
    assert metric.info.version.startswith(f"4.{ENTITIES_PROMPT_VERSION}-")
