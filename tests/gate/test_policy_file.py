"""thresholds.toml: what it may say, and what an error in it says."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstone.errors import ConfigError
from ragstone.gate.policy import load_policy, policy_from_mapping, policy_hash
from ragstone.gate.policy_file import policy_schema
from ragstone.gate.policy_table import PolicyTable
from ragstone.gate.verdict import Action
from ragstone.settings.toml_lines import key_lines

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "thresholds.example.toml"
SCHEMA_FILE = ROOT / "src" / "ragstone" / "gate" / "policy.schema.json"


def refused(tmp_path: Path, text: str) -> ConfigError:
    path = tmp_path / "thresholds.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_policy(path)
    assert caught.value.exit_code == 2
    assert caught.value.where is not None
    assert caught.value.where.startswith(str(path))
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "says", "hints"),
    [
        ("[metrics.faithfulness]\nmin = 85\n", 2, "at most 1, found 85", "0.85"),
        (
            "[metrics.faithfulness]\nmin = 0.8\nmax_dorp = 0.1\n",
            3,
            "unknown key 'metrics.faithfulness.max_dorp'",
            "'max_drop'",
        ),
        ("\n[gaet]\nmin_coverage = 1\n", 2, "unknown key 'gaet'", "'gate'"),
        ("[gate]\nmin_covrage = 0.9\n", 2, "unknown key 'gate.min_covrage'", "'min_coverage'"),
        ("[gate]\ndecision = 'guess'\n", 2, "'evidence', 'assured' or 'point', found \"guess\"", ""),
        ("[gate]\nmin_coverage = '1'\n", 2, "must be a number", ""),
        ("[gate]\nmin_coverage = true\n", 2, "must be a number", ""),
        ("[gate]\nmin_coverage = nan\n", 2, "not NaN", ""),
        ("[metrics.faithfulnes]\nmin = 0.8\n", 1, "unknown metric 'faithfulnes'", "'faithfulness'"),
        ("[slices.a.metrics.recal]\nmin = 0.8\n", 1, "unknown metric 'recal'", ""),
        ("[metrics.context_relevance]\naction = 'warn'\n", 1, "none of 'min', 'max_drop'", ""),
        ("[system]\nlatency_p95_s = 0\n", 2, "greater than 0", ""),
        ("[metrics]\nfaithfulness = 0.8\n", 2, "must be a table", ""),
        ("[slices.a.metrics.mrr]\nmax_drift = 0.1\n", 2, "not by slice", "[metrics.mrr]"),
        ("must_pass = 'q1'\n", 1, "must be a list", ""),
        ("[must_pass]\nsamples = ['a']\nmetrics = ['answer_correctness']\n", 3, "has no floor", "[must_pass]"),
    ],
)
def test_a_wrong_key_is_named_with_its_line_and_the_way_out(
    tmp_path: Path, text: str, line: int, says: str, hints: str
) -> None:
    error = refused(tmp_path, text)
    assert error.where is not None
    assert error.where.endswith(f":{line}")
    assert says in error.message
    assert hints in (error.hint or "")


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ragstone init"):
        load_policy(tmp_path / "none.toml")


def test_metrics_of_another_evaluator_are_fine_when_the_scores_have_them(tmp_path: Path) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text("[metrics.politeness]\nmin = 0.5\n")
    assert load_policy(path, known_metrics=["politeness"]).metrics["politeness"].min == 0.5


@pytest.mark.parametrize("written", ["all", {"samples": "all"}, {"every": True}])
def test_every_sample_must_pass_in_one_word(written: object) -> None:
    policy = policy_from_mapping({"must_pass": written})
    assert policy.must_pass.every
    assert policy.must_pass.samples == ()
    assert policy_hash(policy) != policy_hash(policy_from_mapping({}))
    assert policy_from_mapping({"must_pass": ["a", "b"]}).must_pass.samples == ("a", "b")


def test_a_headline_metric_named_without_a_number_takes_the_fields_defaults() -> None:
    policy = policy_from_mapping({"metrics": {"faithfulness": {"action": "warn"}}})
    rule = policy.metrics["faithfulness"]
    assert (rule.min, rule.max_drop, rule.action) == (0.85, 0.02, Action.WARN)


WRITTEN = """\
must_pass = [
  "a ] b",
]
# a comment
[slices."how.to".metrics]
faithfulness.min = 0.8
faithfulness.max_drop = 0.1
[metrics]
context_recall = { min = 0.7 }
[metrics."ndcg@10"]
action = \'\'\'
warn\'\'\'
min = 0.2
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("must_pass",), 1),
        (("slices", "how.to", "metrics", "faithfulness", "min"), 6),
        (("slices", "how.to", "metrics", "faithfulness", "max_drop"), 7),
        (("metrics", "context_recall", "min"), 9),
        (("metrics", "ndcg@10"), 10),
        (("metrics", "ndcg@10", "action"), 11),
        (("metrics", "ndcg@10", "min"), 13),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
)
def test_lines_are_found_for_every_way_of_writing_a_key(path: tuple[str, ...], line: int) -> None:
    assert key_lines(WRITTEN)[path] == line


def test_the_line_of_a_key_that_is_not_written_is_that_of_its_table(tmp_path: Path) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text("[gate]\nconfidence = 0.9\n[metrics.faithfulness]\nmin = 0.8\n")
    policy = load_policy(path)
    assert policy.line_of("metrics", "faithfulness", "max_drop") == 3
    assert policy.line_of("system", "latency_p95_s") is None
    assert policy.where("gate", "confidence") == f"{path}:2"


names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=5)


@given(st.dictionaries(names, st.dictionaries(names, st.floats(0, 1), max_size=3), max_size=4))
def test_every_key_of_any_document_has_a_line(tables: dict[str, dict[str, float]]) -> None:
    written = [
        line
        for table, keys in tables.items()
        for line in (f"[{table}]", *(f"{key} = {value:f}" for key, value in keys.items()))
    ]
    found = key_lines("\n".join(written))
    assert found.keys() == {(t,) for t in tables} | {(t, k) for t, keys in tables.items() for k in keys}
    for path, line in found.items():
        assert path[-1] in written[line - 1]


@pytest.mark.heavy
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4000), st.integers(0, 12), st.text("[]{}=.,'\"\\\n #~019eE-+tnaif\ud7ff\x00", max_size=8)
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_mutation_of_a_policy_gives_a_policy_or_one_of_our_errors(
    tmp_path: Path, cuts: list[tuple[int, int, str]]
) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("#~ ", "")
    for at, length, new in cuts:
        text = text[:at] + new + text[at + length :]
    path = tmp_path / "thresholds.toml"
    path.write_text(text, encoding="utf-8")
    try:
        policy = load_policy(path, calibration=False)
    except ConfigError:
        return
    assert policy.alpha < 0.5


@pytest.mark.parametrize(
    "text",
    [
        "[gate]\nmin_coverage = \n",
        "x = " + "[" * 5000,
        "[gate]\nmin_coverage = 1" + "0" * 400,
        "[gate]\nmin_coverage = 1" + "0" * 5000,
        "a." * 4000,
    ],
    ids=["syntax", "deep", "infinite", "long", "dotted"],
)
def test_what_is_no_policy_is_refused(tmp_path: Path, text: str) -> None:
    refused(tmp_path, text)
    assert "line 2" in refused(tmp_path, "[gate]\nmin_coverage = \n").message


def test_the_hash_follows_the_rules_and_not_the_layout(tmp_path: Path) -> None:
    one, two, other = tmp_path / "one.toml", tmp_path / "two.toml", tmp_path / "other.toml"
    one.write_text("[gate]\nconfidence = 0.9\ninconclusive = 'fail'\n")
    two.write_text("# the same\n[gate]\ninconclusive = 'fail'\n\nconfidence = 0.90\n")
    other.write_text("[gate]\nconfidence = 0.9\n")
    assert policy_hash(load_policy(one)) == policy_hash(load_policy(two)) != policy_hash(load_policy(other))


def test_the_example_documents_every_key_and_sets_limits_to_their_defaults() -> None:
    text, policy = EXAMPLE.read_text(encoding="utf-8"), load_policy(EXAMPLE)
    assert [key for key in documented_keys() if f"{key} =" not in text and f"[{key}" not in text] == []
    for name in ("gate", "drift", "system", "labels", "monitor"):
        table = getattr(policy.table, name)
        assert table == type(table)(), name


def test_every_key_that_the_example_has_commented_out_is_valid_too(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    path = tmp_path / "thresholds.toml"
    path.write_text(text.replace("#~ ", ""), encoding="utf-8")
    policy = load_policy(path, calibration=False)
    assert policy.labels.file == "calibration.json"
    assert policy.slices["billing"].metrics["faithfulness"].min == 0.9


def documented_keys() -> list[str]:
    schema = PolicyTable.model_json_schema()
    keys = list(schema["properties"])
    for table in schema["$defs"].values():
        keys += list(table.get("properties", {}))
    return keys


def test_every_key_is_described_and_every_description_is_of_a_key() -> None:
    texts = tomllib.loads((SCHEMA_FILE.parent / "policy_keys.toml").read_text(encoding="utf-8"))
    schema = PolicyTable.model_json_schema()
    tables = {"PolicyTable": schema, **schema["$defs"]}
    described = {name: list(table["properties"]) for name, table in tables.items() if "properties" in table}
    assert {name: list(keys) for name, keys in texts.items()} == described


def test_the_shipped_schema_is_that_of_the_models_and_refuses_a_misspelt_key() -> None:
    import jsonschema

    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert schema == policy_schema()
    document = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    for accepted in (document, {"must_pass": ["a"]}, {"must_pass": "all"}):
        jsonschema.validate(accepted, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "gaet": {}}, schema)
