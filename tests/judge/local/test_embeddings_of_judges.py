"""What `judge.embeddings` does to each judge: its scores, its identity, its cost, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from ragstone.config.load import load_settings
from ragstone.config.settings import JudgeSettings, Price
from ragstone.errors import ConfigError, JudgeError
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.factory import build_judge
from ragstone.judge.judgements import ContextGrades, ContextUse, ReverseQuestions
from ragstone.judge.llm.estimate import estimate_cost
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.offline.meaning import MeaningJudge
from ragstone.judge.offline.topic import UNRELATED, Topic
from ragstone.judge.protocol import Call, JudgementFailed, Ledger
from ragstone.metrics.registry import select_metrics
from ragstone.system.response import Context

GOLDEN = GoldenSet((Sample("q1", "Which boat was first?", reference="The Ada, launched in 1931."),))


def offline(embeddings: str | None, **settings: Any) -> OfflineJudge:
    named = JudgeSettings(name="offline", embeddings=embeddings, **settings)
    judge = build_judge(named, golden_set=GOLDEN, cache=None, environ={})
    assert isinstance(judge, OfflineJudge)
    return judge


def by_letters(seen: Any) -> web.Response:
    """Embeddings that count letters, as many tokens as characters."""
    texts = [text.lower() for text in seen.body["input"]]
    rows = [[float(text.count(chr(letter))) - 1.5 for letter in range(97, 123)] for text in texts]
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
    return web.json_response({"data": data, "usage": {"prompt_tokens": sum(map(len, texts))}})


@pytest.fixture
def online(world: Any) -> Iterator[Callable[..., OfflineJudge]]:
    """Makes offline judges that ask the fake server for embeddings, and closes them."""
    made: list[OfflineJudge] = []
    world.fake.always = by_letters

    def make(**settings: Any) -> OfflineJudge:
        made.append(offline("openai-compatible:bge", base_url=f"{world.fake.url}/v1", **settings))
        return made[-1]

    yield make
    for judge in made:
        world.run(judge.close())


def relevancy(world: Any, judge: OfflineJudge, answer: str, ledger: Ledger | None = None) -> float:
    call = Call("q1", ledger=ledger or Ledger())
    found = world.run(judge.reverse_questions("Which boat was first?", answer, n=3, call=call))
    assert isinstance(found, ReverseQuestions)
    return found.similarities[0]


class Told:
    """A similarity that gives one cosine to unrelated questions and another to everything else."""

    def __init__(self, zero: float, cosine: float) -> None:
        self._zero, self._cosine = zero, cosine
        self.asked: list[str] = []

    @property
    def label(self) -> str:
        return "told"

    async def similarities(self, question: str, others: Any, *, call: Call) -> tuple[float, ...]:
        self.asked.append(question)
        return tuple(self._zero if question in UNRELATED else self._cosine for _ in others)


@pytest.mark.parametrize(
    ("zero", "cosine", "nearness"),
    [(0.0, 0.3, 0.3), (0.7, 0.7, 0.0), (0.7, 0.85, 0.5), (0.7, 1.0, 1.0), (0.2, -0.5, 0.0), (-0.1, 1.0, 1.0)],
)
def test_nearness_is_counted_from_what_the_model_gives_to_unrelated_texts(
    world: Any, zero: float, cosine: float, nearness: float
) -> None:
    published = Told(zero, cosine)
    topic = Topic(published)
    for _ in range(2):
        assert world.run(topic.nearnesses("q", ("a",), call=Call("q1"))) == (pytest.approx(nearness),)
    assert sum(question in UNRELATED for question in published.asked) == len(UNRELATED) - 1, "the zero is found once"


def test_a_model_to_which_all_texts_are_alike_judges_nothing(world: Any) -> None:
    with pytest.raises(JudgementFailed, match="does not tell unrelated texts apart"):
        world.run(Topic(Told(1.0, 1.0)).nearnesses("q", ("a",), call=Call("q1")))


def test_without_embeddings_the_offline_judge_is_as_it_was(world: Any) -> None:
    judge = offline(None)
    assert (judge.identity.embeddings, judge.identity.endpoint) == (None, None)
    assert judge.identity == OfflineJudge().identity


def test_a_nearer_answer_never_scores_less_and_evasion_still_costs(world: Any) -> None:
    answer = "Nobody had built a ship of steel before 1931, when Mary Reed launched one in Leeds."
    scores = [relevancy(world, OfflineJudge(topic=Topic(Told(0.1, c))), answer) for c in (0.0, 0.2, 0.3, 0.5, 0.9)]
    assert scores == sorted(scores)
    assert scores[0] < scores[-1]
    near = Topic(Told(0.1, 1.0))
    vague = "It could perhaps be a boat of some kind, which might have been the first boat, possibly."
    assert relevancy(world, OfflineJudge(topic=near), vague) < scores[-1]


def test_a_local_model_finds_the_topic_where_no_word_is_shared(world: Any, make_model: Any) -> None:
    folder = make_model()
    judge = offline(f"local:{folder}")
    assert judge.identity.embeddings is not None
    assert judge.identity.embeddings.startswith("local words sha256:")
    assert judge.identity != offline(None).identity
    ledger = Ledger()
    near = relevancy(world, judge, "Ship launched near Leeds, ship built by Mary Reed.", ledger)
    far = relevancy(world, judge, "Bread baked near Leeds, bread sold by Mary Reed.", ledger)
    assert near > far
    assert ledger == Ledger()


def test_the_offline_judge_asks_a_compatible_server_and_books_what_it_used(world: Any, online: Any) -> None:
    judge = online(prices={"bge": {"input": 1, "output": 0}})
    assert judge.identity.embeddings == "openai-compatible bge"
    assert judge.identity.endpoint == f"{world.fake.url}/v1"
    assert judge.identity.offline
    ledger = Ledger()
    assert 0.0 < relevancy(world, judge, "The Ada, launched in 1931.", ledger) < 1.0
    assert {seen.body["model"] for seen in world.fake.embeddings} == {"bge"}
    assert world.fake.chats == []
    assert ledger.calls == len(world.fake.embeddings) == 2, "one for the zero, one for the sample"
    assert ledger.input_tokens > 0
    assert ledger.cost_usd == pytest.approx(ledger.input_tokens / 1e6)


def test_a_server_that_refuses_ends_the_run(world: Any, online: Any, refuse: Any) -> None:
    judge = online()
    world.fake.always = refuse(401, "no such key")
    with pytest.raises(JudgeError, match="refused the API key"):
        relevancy(world, judge, "The Ada, launched in 1931.")


@pytest.mark.parametrize(
    ("embeddings", "settings", "says"),
    [
        ("bge", {}, "names no embeddings that the offline judge can use"),
        ("openai-compatible:", {}, "names no embeddings that the offline judge can use"),
        ("openai-compatible:bge", {}, "Set judge.base_url"),
        ("openai-compatible:bge", {"base_url": "http://127.0.0.1:1", "max_cost_usd": 1}, "price of"),
        ("local:", {}, "names no folder"),
        ("local:no/such/folder", {}, "is not there"),
    ],
)
def test_embeddings_that_the_offline_judge_can_not_use_are_refused(
    embeddings: str, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        offline(embeddings, **settings)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5", "openai-compatible:llama"])
def test_an_llm_judge_compares_its_questions_by_the_local_model(world: Any, make_model: Any, name: str) -> None:
    judge = world.judge(name, embeddings=f"local:{make_model()}")
    assert judge.identity.embeddings.startswith("local words sha256:")
    found = world.run(judge.reverse_questions("A boat?", "In 1931.", n=3, call=Call("q1")))
    assert all(-1.0 <= value <= 1.0 for value in found.similarities)
    assert world.fake.embeddings == []


def test_the_estimate_counts_embeddings_that_are_paid_for_and_no_others(make_model: Any) -> None:
    metrics = select_metrics(("answer_relevancy",))
    price = {"bge": Price(input=1, output=0)}

    def usd(**settings: Any) -> float | None:
        return estimate_cost(JudgeSettings(prices=price, **settings), GOLDEN, metrics).usd

    assert usd() == 0.0
    assert usd(embeddings=f"local:{make_model()}") == 0.0
    assert (usd(embeddings="openai-compatible:bge") or 0.0) > 0.0
    assert usd(embeddings="openai-compatible:unknown") is None
    hosted = {"name": "openai:gpt-5.4-mini"}
    assert (usd(**hosted, embeddings="local:x") or 0.0) < (usd(**hosted) or 0.0)


def test_a_folder_in_the_file_starts_there_and_one_on_the_command_line_starts_here(tmp_path: Path) -> None:
    config = tmp_path / "ci" / "ragstone.toml"
    config.parent.mkdir()
    config.write_text('[judge]\nembeddings = "local:models/m"\n', encoding="utf-8")

    def place(**given: Any) -> str | None:
        return load_settings(directory=tmp_path, environ={}, config=config, **given).judge.embeddings

    assert place() == f"local:{tmp_path / 'ci' / 'models' / 'm'}"
    assert place(overrides={"judge.embeddings": "local:m"}) == f"local:{tmp_path / 'm'}"
    assert place(overrides={"judge.embeddings": "local:"}) == "local:"
    assert place(overrides={"judge.embeddings": "bge"}) == "bge"


def test_a_server_of_embeddings_that_breaks_fails_samples_not_the_judge(world: Any, online: Any) -> None:
    judge = online(max_attempts=1)
    world.fake.always = lambda _seen: web.json_response({"data": [], "usage": {}})
    with pytest.raises(JudgementFailed):
        relevancy(world, judge, "The Ada, launched in 1931.")
    world.fake.always = by_letters
    assert relevancy(world, judge, "The Ada, launched in 1931.") > 0.0


NEAR, FAR = "Ship launched near Leeds. It was large.", "Bread baked near Leeds. It was large."


def test_a_local_model_finds_the_context_that_bears_on_a_question_where_no_word_is_shared(
    world: Any, make_model: Any
) -> None:
    judge = offline(f"local:{make_model()}")
    contexts = [Context(NEAR), Context(FAR)]
    found = world.run(judge.context_relevance("Boat?", contexts, call=Call("q1")))
    assert isinstance(found, ContextGrades)
    near, far = (one.probability or 0.0 for one in found.contexts)
    assert near > 2 * far
    assert found.probability is not None
    assert found.contexts[0].share is not None
    assert found.probability <= near
    by_words = world.run(offline(None).context_relevance("Boat?", contexts, call=Call("q1")))
    assert by_words.contexts[0].probability == by_words.contexts[1].probability


def test_a_local_model_finds_the_context_that_is_of_use_for_a_reference(world: Any, make_model: Any) -> None:
    judge = offline(f"local:{make_model()}")
    for reference, answer in (("A boat.", ""), (None, "A boat.")):
        found = world.run(
            judge.context_use("Which?", reference, answer, [Context(FAR), Context(NEAR), Context("")], call=Call("q1"))
        )
        assert isinstance(found, ContextUse)
        far, near, empty = (one.probability or 0.0 for one in found.contexts)
        assert near > max(far, empty)
        assert [one.useful for one in found.contexts] == [(one.probability or 0.0) >= 0.5 for one in found.contexts]


def test_embeddings_of_an_endpoint_are_asked_about_answers_only(world: Any, online: Any) -> None:
    judge = online()
    assert not isinstance(judge, MeaningJudge)
    world.run(judge.context_relevance("Which boat was first?", [Context(NEAR)], call=Call("q1")))
    world.run(judge.context_use("Which boat was first?", "The Ada.", "", [Context(NEAR)], call=Call("q1")))
    assert world.fake.embeddings == []


def test_the_identity_says_which_weights_join_words_and_meaning(make_model: Any) -> None:
    assert dict(offline(f"local:{make_model()}").identity.parameters) == {"meaning": "1"}
    assert offline(None).identity.parameters == ()
