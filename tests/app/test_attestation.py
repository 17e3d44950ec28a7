"""The attestation of a gate: complete, canonical, the same for the same run, without secrets and, in public, texts."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.app.attestation import (
    PREDICATE,
    STATEMENT,
    TEST_RESULT_PREDICATE,
    Attestation,
    attestation_schema,
    canonical,
    digests_schema,
)
from ragstone.run.directory import ATTESTATION, DIGESTS, TEST_RESULT
from tests.commands.project import make_project, ragstone

ROOT = Path(__file__).parents[2]
SECRET = "sk-planted-key-0123456789abcdef"


def text_of(value: object) -> str:
    return "".join(canonical(value))


def read(run: Path, name: str = ATTESTATION) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / name).read_text(encoding="utf-8"))
    return found


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def gated(project: Path, *given: str, **environ: str) -> Path:
    done = ragstone(["gate", *given], project, env=environ)
    assert done.returncode in (0, 1, 5), done.stdout + done.stderr
    return project / "ragstone-run"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = make_project(tmp_path_factory.mktemp("attested") / "repo", n=12)
    assert ragstone(["run", "--out", "baseline"], found).returncode == 0
    return found


@pytest.fixture(scope="module")
def run(project: Path) -> Path:
    return gated(project, "--baseline", "baseline", RAGSTONE_SYSTEM_IMAGE=f"sha256:{'ab' * 32}")


def test_a_gate_writes_a_statement_on_what_it_decided_and_on_what_it_was_decided(run: Path) -> None:
    found = read(run)
    assert (found["_type"], found["predicateType"]) == (STATEMENT, PREDICATE)
    assert found["subject"] == [{"name": "image", "digest": {"sha256": "ab" * 32}}]
    said, manifest = found["predicate"], read(run, "manifest.json")
    assert said["verdict"] == manifest["verdict"] == "pass"
    assert said["run"] == manifest
    floor = next(check for check in said["checks"] if check["name"] == "faithfulness.floor")
    assert (floor["threshold"], floor["n"], floor["status"]) == (0.8, 12, "pass")
    assert said["terms"]["policy"]["metrics"]["faithfulness"]["min"] == 0.8
    assert said["digests"]["policy"] == manifest["policy_hash"]
    assert said["digests"]["golden"] == manifest["golden"]["content_hash"]
    assert said["baseline"]["fingerprint"] == manifest["baseline"]["used"]["fingerprint"]
    assert set(said["scores"]) == set(manifest["metrics"])
    lines = (run / "samples.jsonl").read_bytes().splitlines(keepends=True)
    assert [one["record"] for one in said["samples"]] == [hashlib.sha256(line).hexdigest() for line in lines]


def test_every_file_of_the_run_is_attested_or_follows_from_what_is(run: Path) -> None:
    attested = read(run)["predicate"]["files"]
    there = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    assert there - attested.keys() == {"samples.jsonl", ATTESTATION, TEST_RESULT, DIGESTS}
    for name, digest in attested.items():
        assert sha256(run / name) == digest, name


def test_it_names_no_place_of_the_machine(run: Path, project: Path) -> None:
    assert str(project) not in (run / ATTESTATION).read_text(encoding="utf-8")


def test_policy_engines_read_the_result_of_each_test(run: Path) -> None:
    found = read(run, TEST_RESULT)
    assert found["predicateType"] == TEST_RESULT_PREDICATE
    tests = found["predicate"]
    checks = read(run)["predicate"]["checks"]
    assert tests["result"] == "PASSED"
    assert sorted(tests["passedTests"] + tests["warnedTests"] + tests["failedTests"]) == sorted(
        check["name"] for check in checks
    )
    assert {one["name"] for one in tests["configuration"]} >= {"policy", "golden", "judge"}


def test_public_logs_get_digests_counts_and_the_verdict_alone(run: Path) -> None:
    found = read(run, DIGESTS)
    assert found["attestation"]["sha256"] == sha256(run / ATTESTATION)

    def words(value: object) -> list[str]:
        if isinstance(value, Mapping):
            return [word for one in value.values() for word in words(one)]
        return [value] if isinstance(value, str) else []

    others = [word for word in words(found) if len(word) != 64]
    assert set(others) == {"pass", found["ragstone"]["version"]}


def test_a_gate_that_fails_says_so_in_each(tmp_path: Path) -> None:
    broken = make_project(tmp_path / "repo", n=12, policy="[metrics.faithfulness]\nmin = 1.0\n")
    (broken / "houses.py").write_text(
        'def answer(question):\n    return {"answer": "The mayor sold it in 1921.", "contexts": ["A door."]}\n'
    )
    run = gated(broken)
    assert read(run)["predicate"]["verdict"] == read(run, DIGESTS)["verdict"] == "fail"
    assert read(run)["subject"] == [{"name": "samples.jsonl", "digest": {"sha256": sha256(run / "samples.jsonl")}}]
    tests = read(run, TEST_RESULT)["predicate"]
    assert tests["result"] == "FAILED"
    assert "faithfulness.floor" in tests["failedTests"]


def test_the_same_run_gives_the_same_bytes_and_all_are_canonical(run: Path) -> None:
    for name in (ATTESTATION, TEST_RESULT, DIGESTS):
        body = (run / name).read_text(encoding="utf-8")
        assert text_of(json.loads(body)) == body, name


def test_an_attestation_is_what_the_schema_says(run: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(read(run), attestation_schema())
    jsonschema.validate(read(run, DIGESTS), digests_schema())
    assert Attestation.model_validate(read(run)).predicate.verdict == "pass"


def test_the_schemas_that_ship_are_those_of_the_models() -> None:
    for name, schema in (("attestation", attestation_schema), ("verdict-digests", digests_schema)):
        file = ROOT / "src" / "ragstone" / "app" / f"{name}.schema.json"
        assert json.loads(file.read_text(encoding="utf-8")) == schema(), "python scripts/schemas.py"


def test_planted_keys_are_in_none_of_them(tmp_path: Path) -> None:
    found = make_project(tmp_path / "repo", n=3, policy=f'[slices."{SECRET}".metrics.faithfulness]\nmin = 0.1\n')
    lines = [json.loads(line) for line in (found / "golden.jsonl").read_text().splitlines()]
    for line in lines:
        line["tags"] = [SECRET]
        line["reference"] += f" The key is {SECRET}."
    (found / "golden.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = gated(found, OPENAI_API_KEY=SECRET)
    for name in (ATTESTATION, TEST_RESULT, DIGESTS):
        assert SECRET not in (run / name).read_text(encoding="utf-8"), name
    assert "***" in (run / ATTESTATION).read_text(encoding="utf-8")


# -- canonical JSON ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("41b3de4355555555", "333333333.3333333"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
    ],
)
def test_numbers_are_written_as_in_appendix_b_of_rfc_8785(bits: str, text: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert text_of(value) == text


def test_keys_are_sorted_by_their_utf_16_code_units_as_in_rfc_8785() -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    assert list(json.loads(text_of(dict.fromkeys(keys, 0)))) == [
        "\r",
        "1",
        "\u0080",
        "\u00f6",
        "\u20ac",
        "\U0001f600",
        "\ufb33",
    ]


def test_nothing_that_json_has_no_word_for_is_written() -> None:
    assert text_of([math.nan, math.inf, (), {}, iter(())]) == "[null,null,[],{},[]]"


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(-1e15, 1e15)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda one: st.lists(one) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), one),
        max_leaves=20,
    )
)
def test_what_is_written_is_read_again(value: object) -> None:
    assert json.loads(text_of(value)) == value
    assert text_of(json.loads(text_of(value))) == text_of(value)
