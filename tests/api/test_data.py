"""Golden sets from data in memory, and the errors of a Python user."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import ragstone
from ragstone.errors import ConfigError, GoldenSetError, RagstoneError
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import JudgeIdentity

ROWS: list[dict[str, Any]] = [
    {"id": "a", "question": "Why?", "reference": "So.", "tags": ["x", "y"], "reference_contexts": ["one", "two"]},
    {"id": "b", "question": "How?", "reference": None, "tags": [], "reference_contexts": []},
    {"id": "c", "question": "When?", "reference": "Then.", "tags": ["x"], "reference_contexts": ["three"]},
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}


@pytest.mark.parametrize(
    "data",
    [
        *(ROWS, iter(ROWS), COLUMNS, pandas.DataFrame(ROWS), pandas.DataFrame(ROWS).set_index("id")),
        *(polars.DataFrame(ROWS), pyarrow.Table.from_pylist(ROWS)),
    ],
    ids=["list", "iterator", "columns", "pandas", "pandas-index", "polars", "arrow"],
)
def test_the_same_data_in_any_form_is_the_same_golden_set(data: object) -> None:
    golden = ragstone.load_golden_set(data)
    assert [sample.id for sample in golden] == ["a", "b", "c"]
    assert [sample.reference for sample in golden] == ["So.", None, "Then."]
    assert [sample.tags for sample in golden] == [("x", "y"), (), ("x",)]
    assert golden[0].reference_contexts == ("one", "two")
    assert golden.content_hash() == ragstone.load_golden_set(ROWS).content_hash()


def test_what_data_frames_write_for_a_missing_value_is_missing() -> None:
    for missing in (float("nan"), None, pandas.NA, pandas.NaT):
        frame = pandas.DataFrame({"question": ["Q1?", "Q2?"], "reference": ["R", missing]})
        assert [sample.reference for sample in ragstone.load_golden_set(frame)] == ["R", None]


def test_values_of_numpy_and_of_the_calendar_are_read() -> None:
    dates = [date(2026, 1, 31), pandas.Timestamp("2026-02-01")]
    labels = {"answerable": np.array([True, False]), "relevant_ids": [np.array(["d1", "d2"]), {"d3": np.int64(2)}]}
    frame = pandas.DataFrame({"question": ["Q1?", "Q2?"], "reference": dates, **labels})
    first, second = ragstone.load_golden_set(frame)
    assert (first.reference, first.answerable, dict(first.relevant_ids)) == ("2026-01-31", True, {"d1": 1, "d2": 1})
    assert (second.reference or "").startswith("2026-02-01")
    assert (second.answerable, dict(second.relevant_ids)) == (False, {"d3": 2})


def test_columns_are_mapped_also_inside_of_objects() -> None:
    rows = [{"input": {"query": "Why?"}, "gold": "So."}]
    (sample,) = ragstone.load_golden_set(rows, columns={"question": "input.query", "reference": "gold"})
    assert (sample.question, sample.reference) == ("Why?", "So.")


def test_a_run_says_how_many_samples_have_no_answer() -> None:
    run = ragstone.evaluate(ragstone.load_golden_set(ROWS), lambda question: 1 / 0, progress=False)
    assert f": {len(ROWS)} samples, {len(ROWS)} without an answer, faithfulness –" in repr(run)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], r"data: contains no samples"),
        (None, r"^data: a golden set can't be read from NoneType"),
        ([{"question": "Q?"}, "Q?"], r"data:2: a row must be a mapping, found str"),
        ([{"question": "Q?"}, {"question": ""}], r"data:2: no question: column 'question' is missing or empty"),
        (pandas.DataFrame([["Q?", "P?"]], columns=["question", "question"]), r"duplicate column 'question'"),
        ([{"id": "a", "question": "Q?"}] * 2, r"duplicate id 'a' at data:1 and data:2"),
        ([{"question": "Q?", "tags": object()}], r"data:1: column 'tags'"),
        (
            {"question": ["Q?"], "reference": ["a", "b"]},
            r"column 'reference' has 2 values, but column 'question' has 1",
        ),
    ],
)
def test_wrong_data_is_a_golden_set_error_with_its_row(data: object, says: str) -> None:
    with pytest.raises(GoldenSetError, match=says):
        ragstone.load_golden_set(data)


@pytest.mark.parametrize(
    ("data", "hint"), [([{"prompt_text": "Q?"}], "prompt_text"), ([{"question": "Q?", "tags": object()}], "tags")]
)
def test_hints_name_the_argument_and_not_a_config_file(data: object, hint: str) -> None:
    with pytest.raises(GoldenSetError, match="columns") as caught:
        ragstone.load_golden_set(data)
    assert hint in str(caught.value)
    assert "toml" not in str(caught.value)
    assert "[golden" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"question": "nowhere"}, "columns: there is no column 'nowhere', which is mapped to the question"),
        ({"questoin": "q"}, "unknown field 'questoin'"),
        (["question"], "columns must map fields to columns, found list"),
    ],
)
def test_wrong_columns_are_errors_of_the_argument(columns: Any, says: str) -> None:
    with pytest.raises(RagstoneError, match=says) as caught:
        ragstone.load_golden_set([{"q": "Q?", "question": "Q?"}], columns=columns)
    assert "[golden" not in str(caught.value)


def answer(question: str) -> str:
    return question


class NoIdentity:
    concurrency = 1

    async def statements(self) -> None: ...


class Half(NoIdentity):
    identity = JudgeIdentity("own", "half", "1")


class Synchronous(Half):
    def statements(self) -> None: ...  # type: ignore[override]


class Unlimited(Half):
    concurrency = 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"golden_set": "golden.jsonl"}, "takes a golden set, found str"),
        ({"system": {"answer": "x"}}, "takes a system, found dict"),
        ({"system": object()}, "object"),
        ({"judge": None}, r"NoneType\.identity must be a JudgeIdentity"),
        ({"judge": OfflineJudge}, "the judge is the class OfflineJudge, not an object"),
        ({"judge": NoIdentity()}, r"NoIdentity\.identity must be a JudgeIdentity"),
        ({"judge": Half()}, "Half has no method 'support'"),
        ({"judge": Synchronous()}, r"Synchronous\.statements must be defined with `async def`"),
        ({"judge": Unlimited()}, r"Unlimited\.concurrency must be .* at least 1; found 0"),
        ({"metrics": ["faithfulness", 5]}, "a metric must be a name, a Rubric or a function, found int"),
        ({"out": 5}, "expected a path, found int"),
        ({"concurrency": "many"}, "must be a whole number, found 'many'"),
        ({"concurrency": 0}, "must be at least 1, found 0"),
        ({"metrics": "faithfulnes"}, "unknown metric 'faithfulnes'"),
        ({"judge": "nobody"}, "unknown judge"),
    ],
)
def test_a_wrong_argument_of_evaluate_is_an_error_at_the_door(given: dict[str, Any], says: str) -> None:
    arguments = {"golden_set": ragstone.load_golden_set(ROWS), "system": answer, **given}
    with pytest.raises(RagstoneError, match=says):
        ragstone.evaluate(**arguments)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"current": [0.5]}, "current must be a run, .* found list"),
        ({"baseline": 5}, "baseline must be a run, .* found int"),
        ({"policy": 5}, "a policy must be a path or a mapping .* found int"),
        ({"current": {"faithfulness": [0.5]}}, "'faithfulness' must map sample ids to values, found list"),
        ({"current": "nowhere"}, "no such file or directory: nowhere"),
    ],
)
def test_a_wrong_argument_of_compare_is_an_error_at_the_door(given: dict[str, Any], says: str) -> None:
    arguments = {"current": {"faithfulness": {"a": 0.5}}, **given}
    with pytest.raises(ConfigError, match=says):
        ragstone.compare(**arguments)


@pytest.mark.usefixtures("processes")
def test_data_frames_are_optional() -> None:
    code = (
        "import sys\n"
        "for name in ('pandas', 'polars', 'pyarrow', 'IPython'): sys.modules[name] = None\n"
        "import ragstone\n"
        "golden = ragstone.load_golden_set([{'id': 'a', 'question': 'Q?'}])\n"
        "run = ragstone.evaluate(golden, lambda question: 'A.', metrics='answer_relevancy')\n"
        "assert repr(run) and repr(golden)\n"
        "try:\n    run.to_pandas()\n"
        "except ragstone.RagstoneError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'ragstone[pandas]'" in done.stdout, done.stderr


def test_a_key_in_the_environment_is_in_no_report_and_in_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
    golden = ragstone.load_golden_set(ROWS)
    run = ragstone.evaluate(golden, lambda _: f"It is {os.environ['OPENAI_API_KEY']}.", out=tmp_path / "run")
    assert "very-secret" not in "".join(path.read_text(encoding="utf-8") for path in run.path.glob("*.json*"))
    policy = {"metrics": {"sk-very-secret-key": {"min": 0.4}}}
    verdict = ragstone.compare({"sk-very-secret-key": {"a": 0.5}}, policy=policy)
    assert "very-secret" not in verdict.to_markdown() + verdict.report("html") + verdict._repr_markdown_()
