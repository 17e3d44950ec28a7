"""thresholds.toml: what it may say, what an error in it says, and the policy in force."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstone.errors import ConfigError
from ragstone.gate.checks.registry import key_of_check
from ragstone.gate.policy import Policy, default_policy, load_policy, policy_from_mapping, policy_hash
from ragstone.gate.policy_table import PolicyTable
from ragstone.gate.sensitivity import expected_rules
from ragstone.gate.verdict import Action, Check, CheckKind, Status
from ragstone.settings.toml_lines import key_lines
from scripts.schemas import policy_schema

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "thresholds.example.toml"
SCHEMA_FILE = ROOT / "src" / "ragstone" / "gate" / "policy.schema.json"


def written(folder: Path, text: str) -> Path:
    path = folder / "thresholds.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "line", "says", "hints"),
    [
        ("[metrics.faithfulness]\nmin = 85\n", 2, "at most 1, found 85", "0.85"),
        ("[metrics.mrr]\nmin = 0.8\nmax_dorp = 0.1\n", 3, "unknown key 'metrics.mrr.max_dorp'", "'max_drop'"),
        ("\n[gaet]\nmin_coverage = 1\n", 2, "unknown key 'gaet'", "'gate'"),
        ("[gate]\ninconclusive = 'guess'\n", 2, "'pass', 'warn' or 'fail', found \"guess\"", ""),
        ("[gate]\nmin_coverage = '1'\n", 2, "must be a number", ""),
        ("[gate]\nmin_coverage = true\n", 2, "must be a number", ""),
        ("[gate]\nmin_coverage = nan\n", 2, "not NaN", ""),
        ("[gate]\nmin_coverage = \n", None, "line 2", ""),
        ("[gate]\nmin_coverage = 1" + "0" * 400, 2, "", ""),
        ("[gate]\nmin_coverage = 1" + "0" * 5000, None, "", ""),
        ("x = " + "[" * 5000, None, "", ""),
        ("a." * 4000, None, "", ""),
        ("[metrics.faithfulnes]\nmin = 0.8\n", 1, "unknown metric 'faithfulnes'", "'faithfulness'"),
        ("[metrics.context_relevance]\naction = 'warn'\n", 1, "none of 'min', 'max_drop'", ""),
        ("[metrics.pairwise_preference]\nmax_drop = 0.1\n", 2, "with its baseline, so it has no drop", "0.45"),
        ("[system]\nlatency_p95_s = 0\n", 2, "greater than 0", ""),
        ("[metrics]\nfaithfulness = 0.8\n", 2, "must be a table", ""),
        ("[slices.a.metrics.mrr]\nmax_drift = 0.1\n", 2, "not by slice", "[metrics.mrr]"),
        ("must_pass = 'q1'\n", 1, "must be a list", ""),
    ],
)
def test_a_wrong_key_is_named_with_its_line(tmp_path: Path, text: str, line: int | None, says: str, hints: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_policy(path)
    assert caught.value.exit_code == 2
    assert (caught.value.where or "").startswith(str(path))
    assert line is None or caught.value.where == f"{path}:{line}"
    assert says in caught.value.message
    assert hints in (caught.value.hint or "")


def test_a_file_that_is_missing_and_metrics_that_only_the_scores_know(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ragstone init"):
        load_policy(tmp_path / "none.toml")
    path = written(tmp_path, "[metrics.politeness]\nmin = 0.5\n")
    for known in (["politeness"], None):
        assert load_policy(path, known_metrics=known).rules_in_force["politeness"].min == 0.5
    policy_from_mapping({"metrics": {"ndcg@17": {"min": 0.5}}}).require_known_metrics()


@pytest.mark.parametrize(("form", "key"), [("all", "every"), ({"samples": "baseline"}, "baseline")])
def test_what_must_pass_in_one_word(form: object, key: str) -> None:
    policy = policy_from_mapping({"must_pass": form})
    assert (getattr(policy.must_pass, key), policy.must_pass.samples) == (True, ())
    assert policy_hash(policy) != policy_hash(default_policy())
    assert policy_from_mapping({"must_pass": ["a", "b"]}).must_pass.samples == ("a", "b")


def test_a_headline_metric_named_without_a_number_takes_the_fields_defaults() -> None:
    rule = policy_from_mapping({"metrics": {"faithfulness": {"action": "warn"}}}).rules_in_force["faithfulness"]
    assert (rule.min, rule.max_drop, rule.action) == (0.85, 0.02, Action.WARN)


def test_the_hash_follows_the_rules_and_not_the_layout(tmp_path: Path) -> None:
    texts = (
        "[gate]\nconfidence = 0.9\ninconclusive = 'fail'\n",
        "# the same\n[gate]\ninconclusive = 'fail'\n\nconfidence = 0.90\n[monitor]\nsample = 7\n",
        "[gate]\nconfidence = 0.9\n",
        "[gate]\nconfidence = 0.9\n[metrics.mrr]\nmin = 0.5\n",
    )
    hashes = [policy_hash(load_policy(written(tmp_path, text))) for text in texts]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


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
def test_any_mutation_of_a_policy_gives_a_policy_or_one_of_our_errors(tmp_path: Path, cuts: Any) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("#~ ", "")
    for at, length, new in cuts:
        text = text[:at] + new + text[at + length :]
    try:
        policy = load_policy(written(tmp_path, text), calibration=False)
    except ConfigError:
        return
    assert policy.alpha < 0.5


# -- lines -------------------------------------------------------------------------------------------------------------

KEYS = """\
must_pass = [
  "a ] b",
  'c',
]
[slices."how.to".metrics]
faithfulness.min = 0.5
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
        ("must_pass", 1),
        ("slices/how.to/metrics/faithfulness/max_drop", 7),
        ("metrics/context_recall/min", 9),
        ("metrics/ndcg@10/action", 11),
        ("metrics/ndcg@10/min", 13),
    ],
)
def test_lines_are_found_for_every_way_of_writing_a_key(path: str, line: int) -> None:
    assert key_lines(KEYS)[tuple(path.split("/"))] == line


names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=5)


@given(st.dictionaries(names, st.dictionaries(names, st.floats(0, 1), max_size=3), max_size=4))
def test_every_key_of_any_document_has_a_line(tables: dict[str, dict[str, float]]) -> None:
    lines = [
        line
        for table, keys in tables.items()
        for line in (f"[{table}]", *(f"{key} = {value:f}" for key, value in keys.items()))
    ]
    found = key_lines("\n".join(lines))
    assert found.keys() == {(t,) for t in tables} | {(t, k) for t, keys in tables.items() for k in keys}
    assert all(path[-1] in lines[line - 1] for path, line in found.items())


TEXT = """\
must_pass = ["q1"]

[gate]
min_coverage = 0.9
on_no_baseline = "warn"

[metrics.faithfulness]
min = 0.8
max_drop = 0.1

[system]
max_error_rate = 0.1
latency_p95_s = 3.0

[slices.billing.metrics.faithfulness]
min = 0.9
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return load_policy(written(tmp_path, TEXT))


def check(kind: CheckKind, metric: str | None = None, tag: str | None = None) -> Check:
    return Check("system.latency_p95", kind, Status.FAIL, Action.BLOCK, "reason", metric=metric, slice=tag)


@pytest.mark.parametrize(
    ("kind", "metric", "tag", "text"),
    [
        (CheckKind.FLOOR, "faithfulness", None, "min = 0.8"),
        (CheckKind.DROP, "faithfulness", None, "max_drop = 0.1"),
        (CheckKind.DRIFT, "faithfulness", None, "[metrics.faithfulness]"),
        (CheckKind.FLOOR, "faithfulness", "billing", "min = 0.9"),
        (CheckKind.DROP, "faithfulness", "billing", "[slices.billing.metrics.faithfulness]"),
        (CheckKind.COVERAGE, "faithfulness", None, "min_coverage = 0.9"),
        (CheckKind.MUST_PASS, None, None, 'must_pass = ["q1"]'),
        (CheckKind.ERROR_RATE, None, None, "max_error_rate = 0.1"),
        (CheckKind.LATENCY, None, None, "latency_p95_s = 3.0"),
        (CheckKind.BASELINE, None, None, 'on_no_baseline = "warn"'),
        (CheckKind.AGREEMENT, None, None, None),
        (CheckKind.DRIFT, None, None, None),
        (CheckKind.DROP, None, None, None),
    ],
)
def test_each_check_points_at_its_line(
    policy: Policy, kind: CheckKind, metric: str | None, tag: str | None, text: str | None
) -> None:
    line = policy.source.line_of(key_of_check(check(kind, metric, tag)))
    assert (None if line is None else TEXT.splitlines()[line - 1]) == text
    assert default_policy().source.line_of(key_of_check(check(kind, metric, tag))) is None


# -- in force ----------------------------------------------------------------------------------------------------------


def test_the_answer_to_inconclusive_checks_can_be_overridden(policy: Policy) -> None:
    other = policy.with_inconclusive("fail")
    assert (policy.gate.inconclusive, other.gate.inconclusive) == ("warn", "fail")
    assert (other.gate.min_coverage, other.source.line_of(("gate", "min_coverage"))) == (0.9, 4)


def test_a_part_of_the_samples_has_the_rules_of_its_own(policy: Policy) -> None:
    assert policy.for_part(["q1"], ["billing"]) == policy
    part = policy.for_part(["q2"], ["x"])
    assert (part.must_pass.samples, dict(part.slices)) == ((), {})
    pinned = policy_from_mapping({"must_pass": {"questions": {"a": "Why?", "b": "When?"}}})
    assert pinned.for_part(["a"], []).must_pass.questions == {"a": "Why?"}


@pytest.mark.parametrize(
    ("rule", "metric", "kind", "offline", "action"),
    [
        (None, "faithfulness", CheckKind.DROP, True, Action.BLOCK),
        (None, "answer_relevancy", CheckKind.DROP, True, Action.WARN),
        (None, "answer_relevancy", CheckKind.DROP, False, Action.BLOCK),
        (None, "faithfulness", CheckKind.FLOOR, True, Action.WARN),
        (None, "faithfulness", CheckKind.FLOOR, False, Action.BLOCK),
        ({"min": 0.5}, "faithfulness", CheckKind.FLOOR, True, Action.BLOCK),
        ({"min": 0.5, "action": "warn"}, "faithfulness", CheckKind.FLOOR, False, Action.WARN),
    ],
)
def test_which_action_a_check_has(rule: Any, metric: str, kind: CheckKind, offline: bool, action: Action) -> None:
    policy = policy_from_mapping({} if rule is None else {"metrics": {metric: rule}})
    (found,) = (rule for rule in expected_rules(policy, None, offline=offline) if rule.metric == metric)
    actions = {CheckKind.FLOOR: found.floor_action, CheckKind.DROP: found.drop_action}
    assert actions[kind] is action


# -- what documents it -------------------------------------------------------------------------------------------------


def test_the_example_documents_every_key_and_sets_limits_to_their_defaults(tmp_path: Path) -> None:
    text, policy = EXAMPLE.read_text(encoding="utf-8"), load_policy(EXAMPLE)
    tables = {"PolicyTable": PolicyTable.model_json_schema(), **PolicyTable.model_json_schema()["$defs"]}
    keys = {name: list(table["properties"]) for name, table in tables.items() if "properties" in table}
    assert [key for each in keys.values() for key in each if f"{key} =" not in text and f"[{key}" not in text] == []
    for name in ("gate", "drift", "system", "labels", "monitor"):
        table = getattr(policy, name)
        assert table == type(table)(), name
    uncommented = load_policy(written(tmp_path, text.replace("#~ ", "")), calibration=False)
    assert uncommented.slices["billing"].metrics["faithfulness"].min == 0.9
    described = tomllib.loads((SCHEMA_FILE.parent / "policy_keys.toml").read_text(encoding="utf-8"))
    assert {name: list(each) for name, each in described.items()} == keys


def test_the_shipped_schema_is_that_of_the_models_and_refuses_a_misspelt_key() -> None:
    import jsonschema

    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert schema == policy_schema()
    document = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    for accepted in (document, {"must_pass": ["a"]}, {"must_pass": "all"}):
        jsonschema.validate(accepted, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "gaet": {}}, schema)
