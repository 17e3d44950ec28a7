"""Whatever a file holds, loading gives samples or one of our errors."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstone.errors import RagstoneError
from ragstone.golden.cells import CellError, to_id, to_text, validate_text
from ragstone.golden.load import load_golden_set
from ragstone.golden.native_format import native_lines
from ragstone.golden.sample import GoldenSet, Sample

ROWS: list[dict[str, Any]] = [
    {
        "id": "travel-1",
        "question": "What is the daily allowance?\nIn euros, please.",
        "reference": 'It is "28" euros; see § 3.',
        "contexts": ["The allowance is 28 euros.", "It is paid | monthly."],
        "relevant_ids": {"travel.md#allowance": 2, "travel.md": 0},
        "answerable": True,
        "tags": ["travel", "money"],
    },
    {"id": "travel-2", "question": "Qui paie le café ?", "reference": None, "answerable": False, "tags": "café"},
    {"question": {"text": "Nested?"}, "reference": ["one", "two"], "relevant_ids": [{"id": "d", "grade": 1}]},
]


def as_csv(delimiter: str) -> bytes:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, ["id", "question", "reference", "contexts", "answerable"], delimiter=delimiter)
    writer.writeheader()
    for row in ROWS[:2]:
        writer.writerow({key: row.get(key) for key in writer.fieldnames})
    return stream.getvalue().encode()


FILES: dict[str, bytes] = {
    "a.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode(),
    "list.json": json.dumps(ROWS, indent=1).encode(),
    "columns.json": json.dumps({"question": ["A?", "B?"], "answer": ["a", "b"]}).encode(),
    "nested.json": json.dumps({"name": "set", "data": {"examples": ROWS}}).encode(),
    "a.yaml": yaml.safe_dump(ROWS, allow_unicode=True).encode(),
    "a.csv": as_csv(","),
    "b.csv": as_csv(";"),
    "a.tsv": as_csv("\t"),
}
SPLICES = [b"", b'"', b"'", b"[", b"{", b"}", b"]", b",", b"|", b"\t", b"\n", b"\r", b"\0", b"\xff", b"\xed\xa0\x80"]
SPLICES += [b"NaN", b"1e999", b"9" * 4400, b"\\ud800", b"&a", b"*a", b"<<", b"!!set", b": ", b"- ", b"\xef\xbb\xbf"]
SPLICES += [b"null", b"true", b'"question"', b'"expected_score": 0,', b"---\n", b"[" * 300, b"{" * 300]


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, bytes]:
    name = draw(st.sampled_from(sorted(FILES)))
    content = FILES[name]
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from([0, 0, 1, 2, 5, 40])))
        splice = draw(st.one_of(st.sampled_from(SPLICES), st.binary(max_size=4)))
        content = content[:start] + splice + content[end:]
    return name, content


def check_sound(golden: GoldenSet) -> None:
    assert len(golden) > 0
    assert len({sample.id for sample in golden}) == len(golden)
    for sample in golden:
        assert sample.id
        assert sample.question.strip()
        assert all(grade >= 0 for grade in sample.relevant_ids.values())
    for line in native_lines(golden):
        line.encode("utf-8")
    golden.content_hash()


@pytest.mark.heavy
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutations())
def test_a_thousand_mutations_give_samples_or_our_errors(mutation: tuple[str, bytes]) -> None:
    name, content = mutation
    where: str | None = None
    golden: GoldenSet | None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(content)
        try:
            golden = load_golden_set(name, root=Path(folder))
        except RagstoneError as error:
            where = error.where
            golden = None
    if golden is None:
        assert where
        assert where.startswith(name)
    else:
        check_sound(golden)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "id", "x", "grade"]), inner),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["id", "question", "query", "input", "answer", "contexts", "reference", "relevant_ids", "answerable", "tags", "x"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=4), st.sampled_from([".jsonl", ".json"]))
def test_any_value_in_any_column_gives_samples_or_our_errors(rows: list[dict[str, Any]], ending: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        content = json.dumps(rows) if ending == ".json" else "".join(json.dumps(row) + "\n" for row in rows)
        (Path(folder) / f"a{ending}").write_text(content, encoding="utf-8")
        try:
            golden = load_golden_set(f"a{ending}", root=Path(folder))
        except RagstoneError:
            return
    check_sound(golden)


def acceptable(convert: Any) -> Any:
    def test(value: str) -> bool:
        try:
            return bool(convert(value) == value and value)
        except CellError:
            return False

    return test


TEXTS = st.text(min_size=1, max_size=60).filter(acceptable(to_text))
NAMES = st.text(min_size=1, max_size=20).filter(acceptable(to_id))
PASSAGES = st.text(min_size=1, max_size=60).filter(acceptable(validate_text)).filter(str.strip)
SAMPLES = st.builds(
    Sample,
    id=NAMES,
    question=TEXTS,
    reference=st.none() | TEXTS,
    reference_contexts=st.lists(PASSAGES, max_size=3).map(tuple),
    relevant_ids=st.dictionaries(NAMES, st.floats(0, 1e300) | st.integers(0, 4).map(float), max_size=3),
    answerable=st.booleans(),
    tags=st.lists(TEXTS, max_size=3, unique=True).map(tuple),
    group=st.none() | TEXTS,
)


@pytest.mark.heavy
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SAMPLES, min_size=1, max_size=4, unique_by=lambda sample: sample.id))
def test_native_json_lines_are_read_back_exactly(samples: list[Sample]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        native = "".join(f"{line}\n" for line in native_lines(samples))
        (Path(folder) / "a.jsonl").write_text(native, encoding="utf-8", newline="\n")
        golden = load_golden_set("a.jsonl", root=Path(folder))
    assert len(golden) == len(samples)
    for index, (read, written) in enumerate(zip(golden, samples, strict=True)):
        assert read.origin is not None
        assert read.origin.line == index + 1
        assert (read.id, read.tags, read.content_hash()) == (written.id, written.tags, written.content_hash())
        assert read.relevant_ids == written.relevant_ids
    assert "".join(f"{line}\n" for line in native_lines(golden)) == native


@pytest.mark.heavy
def test_a_hundred_thousand_samples_stay_compact(tmp_path: Path) -> None:
    import tracemalloc

    with (tmp_path / "a.jsonl").open("w", encoding="utf-8") as stream:
        for index in range(100_000):
            row = {
                "id": f"sample-{index}",
                "question": f"What is the allowance number {index} for employees who travel by train?",
                "reference": f"The allowance number {index} is {index * 3} euros a day, paid with the next salary.",
                "relevant_ids": {f"doc-{index % 500}": 1},
                "tags": ["travel", "money"],
                "group": f"page-{index % 500}",
            }
            stream.write(json.dumps(row) + "\n")
    tracemalloc.start()
    golden = load_golden_set("a.jsonl", root=tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(golden) == 100_000
    assert peak < 120 * 1024 * 1024
