"""`ragstone meta-eval`: from a file to a table and a JSON document, with any judge."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import ConfigError, GoldenSetError, RagstoneError
from ragstone.judge.abilities import Preference, Shown
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call
from ragstone.tools.judging.metaeval.command import command, evaluate_with, to_json
from ragstone.tools.judging.metaeval.load import EvalTask, Pairwise, Pointwise, load_items

PAGE = "The lighthouse on Grey Point was built in 1871 by Ada Brown. It is 34 metres tall."
POINTWISE = [
    {"answer": "The lighthouse was built in 1871.", "label": 1},
    {"answer": "Ada Brown built the lighthouse on Grey Point.", "label": 1},
    {"answer": "Penguins eat fish in the cold southern seas.", "label": 0},
    {"answer": "The ferry to Norway leaves twice a week.", "label": 0},
]


def write(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def pointwise(tmp_path: Path) -> Path:
    rows = [
        {
            "kind": "pointwise",
            "id": f"p{n}",
            "task": "faithfulness",
            "question": "What of it?",
            "contexts": [PAGE],
            **row,
        }
        for n, row in enumerate(POINTWISE)
    ]
    return write(tmp_path / "points.jsonl", rows)


def pairwise(tmp_path: Path) -> Path:
    rows = [
        {
            "kind": "pairwise",
            "id": f"q{n}",
            "task": "faithfulness",
            "question": "What of it?",
            "contexts": [PAGE],
            "first": {"answer": "The lighthouse was built in 1871."},
            "second": {"answer": "Penguins eat fish in the cold southern seas."},
            "preference": -1,
        }
        for n in range(3)
    ]
    return write(tmp_path / "pairs.jsonl", rows)


def test_the_command_prints_a_table_and_writes_a_machine_readable_file(tmp_path: Path) -> None:
    output = tmp_path / "found.json"
    result = CliRunner().invoke(command, [str(pointwise(tmp_path)), "--judge", "offline", "--output", str(output)])
    assert result.exit_code == 0, result.output
    assert "faithfulness (pointwise): 4 of 4 scored" in result.output
    assert "auroc" in result.output
    document = json.loads(output.read_text())
    assert document["judge"]["provider"] == "offline"
    (found,) = document["results"]
    assert found["measures"]["auroc"]["value"] == 1.0
    assert found["scored"] == found["items"] == 4


def test_the_same_run_gives_the_same_file(tmp_path: Path) -> None:
    path = pointwise(tmp_path)
    outputs = [CliRunner().invoke(command, [str(path), "--format", "json"]).output for _ in range(2)]
    assert outputs[0] == outputs[1]


def test_pairs_are_compared_by_sign(tmp_path: Path) -> None:
    items = load_items(pairwise(tmp_path))
    assert all(isinstance(item, Pairwise) for item in items)
    found = asyncio.run(evaluate_with(OfflineJudge(), items, "pairs"))
    assert found.results[0].measures["pairwise_accuracy"].value == 1.0


def test_the_papers_baselines_need_a_judge_that_offers_them(tmp_path: Path) -> None:
    items = load_items(pairwise(tmp_path))
    with pytest.raises(ConfigError, match="method 'score'"):
        asyncio.run(evaluate_with(OfflineJudge(), items, "pairs", method="score"))


class Blunt(OfflineJudge):
    """Also a direct judge: likes the lighthouse, wherever it is shown."""

    shown: list[str]

    async def direct_score(
        self, quality: str, question: str, answer: str, contexts: Sequence[str], *, call: Call
    ) -> float:
        return 0.9 if "lighthouse" in answer else 0.2

    async def direct_preference(
        self, quality: str, question: str, first: Shown, second: Shown, *, call: Call
    ) -> Preference:
        self.shown.append(first[0])
        return Preference.FIRST if "lighthouse" in first[0] else Preference.SECOND


@pytest.mark.parametrize("method", ["score", "ranking"])
def test_scores_and_rankings_are_measured_like_metrics(tmp_path: Path, method: str) -> None:
    judge = Blunt()
    judge.shown = []
    found = asyncio.run(evaluate_with(judge, load_items(pairwise(tmp_path)), "pairs", method=method))
    assert found.results[0].measures["pairwise_accuracy"].value == 1.0
    if method == "ranking":
        assert len(set(judge.shown)) == 2, "both orders are shown"
    assert json.loads(to_json(found))["method"] == method


def test_published_files_are_recognised_by_their_fields(tmp_path: Path) -> None:
    rows = {
        "wikieval": {
            "id": "w1", "question": "Q?", "context_v1": PAGE, "context_v2": PAGE + " More.", "answer": "A.",
            "ungrounded_answer": "B.", "poor_answer": "C.",
        },
        "begin": {
            "id": "b1", "split": "test", "source": "wow", "message": "Hi", "context": PAGE, "answer": "A.",
            "label_faithful": 1,
        },
        "wice": {
            "id": "c1", "split": "test", "claim": "A.", "evidence_sentences": [PAGE], "label_faithful": 0,
        },
        "halueval": {"id": "h1", "question": "Q?", "context": PAGE, "right_answer": "A", "hallucinated_answer": "B"},
        "clapnq": {"id": "n1", "question": "Q?", "title": "T", "context": PAGE, "answerable": 1},
        "ragchecker": {
            "id": "r1", "question": "Q?", "reference": "R.", "response1": "A.", "response2": "B.", "dataset": "d",
            "query_id": "1", "human": {"correctness": [1, 2], "completeness": [0, 0], "overall": [-1, 0]},
        },
    }  # fmt: skip
    tasks = {
        name: [item.task for item in load_items(write(tmp_path / f"{name}.jsonl", [row]))] for name, row in rows.items()
    }
    assert tasks["wikieval"] == [EvalTask.FAITHFULNESS, EvalTask.ANSWER_RELEVANCY, EvalTask.CONTEXT_RELEVANCE]
    assert tasks["begin"] == tasks["wice"] == tasks["halueval"] == [EvalTask.FAITHFULNESS]
    assert tasks["clapnq"] == [EvalTask.ANSWERABILITY]
    assert tasks["ragchecker"] == [EvalTask.CORRECTNESS, EvalTask.COMPLETENESS, EvalTask.OVERALL]


def test_a_compressed_file_is_read_and_its_test_split_is_the_default(tmp_path: Path) -> None:
    rows = [
        {"kind": "pointwise", "id": f"p{n}", "task": "faithfulness", "answer": "A.", "label": 1, "split": split}
        for n, split in enumerate(["dev", "test", "dev"])
    ]
    path = tmp_path / "points.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    assert [item.id for item in load_items(path)] == ["p1"]
    assert [item.id for item in load_items(path, split="dev")] == ["p0", "p2"]
    assert all(isinstance(item, Pointwise) for item in load_items(path))
    with pytest.raises(GoldenSetError, match="no items in split 'train'"):
        load_items(path, split="train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"{\n", "points.jsonl:1: not valid JSON"),
        (b"[1]\n", "expected a JSON object"),
        (b'{"kind": "pointwise", "id": "a", "task": "taste", "label": 1}\n', "points.jsonl:1"),
        (b'{"kind": "pointwise", "id": "a", "task": "overall", "label": NaN}\n', "NaN"),
        (b'{"question": "Q?"}\n', "points.jsonl:1"),
        (b'{"claim": "A", "evidence_sentences": 3, "label_faithful": 1}\n', "not a row of WiCE"),
        (b'{"kind": "pointwise", "id": "a", "task": "overall", "label": 1}\n' * 2, "duplicate id"),
    ],
)
def test_a_broken_data_set_is_refused_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "points.jsonl"
    path.write_bytes(content)
    with pytest.raises(GoldenSetError, match=message):
        load_items(path)


def test_a_truncated_compressed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 100)[:20])
    with pytest.raises(GoldenSetError, match="can't be read"):
        load_items(path)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80) | st.text(max_size=60).map(lambda text: f'{{"claim": "{text}"}}'.encode()))
def test_any_bytes_give_items_or_one_of_our_errors(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "any.jsonl"
    path.write_bytes(content)
    try:
        load_items(path)
    except RagstoneError:
        return


def test_statements_are_counted_and_an_abstention_counts_none(tmp_path: Path) -> None:
    rows = [
        {"answer": "The lighthouse was built in 1871.", "label": 1},
        {"answer": "The lighthouse was built in 1871. Penguins eat fish in the southern seas.", "label": 2},
        {"answer": "I'm sorry, I don't know.", "label": 0},
        {"answer": "The ferry to Norway leaves twice a week.", "label": 5},
    ]
    lines = [
        {"kind": "pointwise", "id": f"s{n}", "task": "statements", "question": "When was it built?", **row}
        for n, row in enumerate(rows)
    ]
    output = tmp_path / "found.json"
    done = CliRunner().invoke(
        command, [str(write(tmp_path / "counts.jsonl", lines)), "--judge", "offline", "--output", str(output)]
    )
    assert done.exit_code == 0, done.output
    [result] = json.loads(output.read_text(encoding="utf-8"))["results"]
    assert (result["task"], result["scored"]) == ("statements", 4)
    assert result["measures"]["exact"]["value"] == 0.75


LINE = {"kind": "pointwise", "id": "a", "task": "faithfulness", "label": 1, "question": "Q?", "contexts": ["c"]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": None}, "'kind' must be 'pointwise' or 'pairwise', found null."),
        ({"kind": "other"}, "'kind' must be 'pointwise' or 'pairwise', found \"other\"."),
        ({"question": 3}, "'question' must be a string, found 3."),
        ({"label": "good"}, "'label' must be a number, found \"good\"."),
        ({"contexts": "c"}, "'contexts' must be a list, found \"c\"."),
        ({"contexts": [1]}, "'contexts.0' must be a string, found 1."),
        ({"task": "beauty"}, "'task' must be 'faithfulness', "),
        ({"labels": 1}, "unknown key 'labels'."),
        ({"kind": "pairwise"}, "'preference' is missing."),
    ],
)
def test_a_wrong_line_is_described_in_the_words_of_the_format(
    tmp_path: Path, change: dict[str, object], says: str
) -> None:
    file = tmp_path / "items.jsonl"
    file.write_text(json.dumps({**LINE, **change}) + "\n", encoding="utf-8")
    with pytest.raises(GoldenSetError) as caught:
        load_items(file)
    assert says in caught.value.message
    assert caught.value.where == f"{file}:1"
    for wording in ("Input should", "discriminator", "Extra inputs", "Field required", "valid tuple"):
        assert wording not in caught.value.message


def test_a_line_without_a_kind_is_told_the_kinds(tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    file.write_text(json.dumps({name: value for name, value in LINE.items() if name != "kind"}), encoding="utf-8")
    with pytest.raises(GoldenSetError, match="'kind' is missing: 'pointwise' or 'pairwise'"):
        load_items(file)
