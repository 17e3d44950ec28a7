"""Entities that an LLM lists: only those that are there, in blocks, cached, and no part of the judge's identity."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.golden.sample import Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.judgements import EntityList, JudgementKind
from ragstone.judge.llm.provider import Stop
from ragstone.judge.llm.replies import read_reply
from ragstone.judge.llm.reply_schemas import entities_field
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.system.response import Context, Response

TEXT = "The Flynas flight to Riyadh leaves at\n10:00."
SAMPLE = Sample("q1", "When?", reference="Ask Ada.", other_references=(TEXT,))
RESPONSE = Response("q1", "At ten.", (Context("Flights to Riyadh leave at 10:00."),))
ENTITIES = frozenset({JudgementKind.ENTITIES})


def replies(*names: object) -> Any:
    return lambda _schema, _data: {"entities": {"names": list(names)}}


def test_the_entities_of_a_text_are_listed_once_each(world: Any) -> None:
    world.fake.fill = replies("Flynas", "Riyadh", "10:00", "Flynas", "leaves at 10:00")
    entity_list = world.run(world.judge().entities(TEXT, call=Call("q1")))
    assert entity_list == EntityList(("Flynas", "Riyadh", "10:00", "leaves at 10:00"))


@pytest.mark.parametrize("name", ["Lufthansa", "", 7, None, ["Flynas"]])
def test_an_entity_that_is_not_there_is_asked_again_and_never_counted(world: Any, name: object) -> None:
    world.fake.fill = replies("Flynas", name)
    with pytest.raises(JudgementFailed, match="asked twice"):
        world.run(world.judge().entities(TEXT, call=Call("q1")))
    assert len(world.fake.chats) == 2


@pytest.mark.parametrize(("count", "is_read"), [(400, True), (401, False)])
def test_four_hundred_entities_are_read_and_more_are_a_runaway_model(count: int, is_read: bool) -> None:
    reply = json.dumps({"entities": {"names": ["Flynas"] * count}})
    assert bool(read_reply(reply, Stop.COMPLETE, [entities_field(TEXT)])) is is_read


def test_a_reference_is_read_once_however_often_its_answer_changes(world: Any, tmp_path: Path) -> None:
    world.fake.fill = replies("Riyadh")
    judge = world.judge(cache=tmp_path / "cache.sqlite")
    ledger = Ledger()
    for answer in ("At ten.", "At noon."):
        call = Call("q1", ledger=ledger)
        judgements = world.run(collect_judgements(judge, SAMPLE, replace(RESPONSE, answer=answer), ENTITIES, call))
        assert judgements.entities == EntityList(("Riyadh",))
    assert (len(world.fake.chats), ledger.cached_calls) == (1, 1)
    assert "Flynas" in world.fake.chats[0].data  # of two references, the one that the contexts hold most of
