"""The judge `local:FOLDER`: what its models say, what it makes of that and of the words, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from ragstone.cli import cli
from ragstone.config.load import load_settings
from ragstone.config.settings import JudgeSettings, LocalJudgeSettings
from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet, Sample
from ragstone.judge.collect import collect_judgements
from ragstone.judge.factory import build_judge
from ragstone.judge.judgements import ContextUse, JudgementKind, Judgements, Statement, SupportTable, Verdict
from ragstone.judge.local import checker as checkers
from ragstone.judge.local.checker import Checker
from ragstone.judge.local.files import read_facts
from ragstone.judge.local.judge import LocalJudge, combined, shipped_weights
from ragstone.judge.offline.support import even_odds
from ragstone.judge.protocol import Call, JudgementFailed
from ragstone.system.response import Context, Response
from tests.commands.project import make_project, ragstone
from tests.judge.local.entailment import LABELS, TEXTS

GOLDEN = GoldenSet((Sample("q1", "When do boats leave?", reference="Boats leave at nine."),))
KINDS = tuple(LABELS)


def load(folder: Path, **settings: Any) -> Checker:
    return Checker(folder, LocalJudgeSettings(**settings), within=None, digests=())


def build(folder: Path, *, digests: tuple[str, ...] = (), within: Path | None = None, **local: Any) -> LocalJudge:
    settings = JudgeSettings(name=f"local:{folder}", local=LocalJudgeSettings(**local), model_digests=digests)
    judge = build_judge(settings, golden_set=GOLDEN, cache=None, environ={}, within=within)
    assert isinstance(judge, LocalJudge)
    return judge


def ask(judge: LocalJudge, answer: str, contexts: tuple[str, ...], reference: str | None = None) -> Judgements:
    async def asked() -> Judgements:
        sample = Sample("q1", "When do boats leave?", reference=reference)
        response = Response("q1", answer, tuple(Context(text) for text in contexts))
        needs = frozenset({JudgementKind.STATEMENTS, JudgementKind.SUPPORT, JudgementKind.CONTEXT_USE})
        try:
            return await collect_judgements(judge, sample, response, needs, Call("q1"))
        finally:
            await judge.close()

    return asyncio.run(asked())


def supports(judge: LocalJudge, statement: str, *contexts: str) -> SupportTable:
    async def asked() -> SupportTable:
        try:
            return await judge.support(
                [Context(text) for text in contexts], [Statement("s1", statement)], call=Call("q1")
            )
        finally:
            await judge.close()

    return asyncio.run(asked())


# -- models of each kind -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_each_kind_says_what_is_supported(make_entailment: Any, kind: str) -> None:
    checker = load(make_entailment(kind))
    assert checker.rate(TEXTS[0], "Boats leave the north pier at nine.").supported > 0.9
    assert checker.rate(TEXTS[0], "Boats leave the south pier at nine.").supported < 0.1


def test_a_model_with_such_a_label_says_what_is_contradicted(make_entailment: Any) -> None:
    checker = load(make_entailment("nli"))
    assert checker.rate(TEXTS[0], "Boats never leave the north pier.").contradicted > 0.9
    assert checker.rate(TEXTS[0], "Boats leave at noon.").contradicted < 0.1
    assert load(make_entailment("consistency", "two")).rate(TEXTS[0], "Boats never leave.").contradicted == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_statement_is_found_wherever_it_is_in_a_long_text(make_entailment: Any, kind: str) -> None:
    checker = load(make_entailment(kind), max_tokens=48)
    filler = "The café sells rye bread and honey. " * 40
    text = f"{filler}Boats leave the north pier at nine. {filler}"
    assert checker.rate(text, "Boats leave the north pier at nine.").supported > 0.9
    assert checker.rate(filler, "Boats leave the north pier at nine.").supported < 0.1


def test_of_very_many_windows_those_that_share_rare_words_are_asked(
    make_entailment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker = load(make_entailment(), max_tokens=32)
    monkeypatch.setattr(checkers, "MAX_WINDOWS", 3)
    asked: list[int] = []
    run = checker._run

    def counted(found: Any) -> Any:
        asked.append(len(found))
        return run(found)

    monkeypatch.setattr(checker, "_run", counted)
    filler = "The café sells rye bread and honey. " * 200
    text = f"{filler}Boats leave the north pier at nine. {filler}"
    assert checker.rate(text, "Boats leave the north pier at nine.").supported > 0.9
    assert asked == [3]


def test_a_sentence_longer_than_a_window_is_split_and_a_statement_too_long_is_refused(make_entailment: Any) -> None:
    checker = load(make_entailment(), max_tokens=48)
    text = "boats " * 300 + "leave the north pier at nine"
    assert checker.rate(text, "Leave the north pier at nine").supported > 0.9
    with pytest.raises(JudgementFailed, match="a statement of 100 tokens is too long for a model that takes 48"):
        checker.rate(text, "boats " * 100)


def test_texts_of_nothing_and_of_strange_characters_are_rated(make_entailment: Any) -> None:
    checker = load(make_entailment())
    for text in ("", "   ", "\x00\ud800", "日本語" * 900, "a" * 5000):
        assert 0.0 <= checker.rate(text, "Boats leave.").supported < 0.1
        assert 0.0 <= checker.rate(TEXTS[0], text[:60]).supported <= 1.0


def test_a_rating_does_not_depend_on_what_else_is_asked(make_entailment: Any) -> None:
    alone = load(make_entailment()).rate(TEXTS[0], "Boats leave the pier.")
    busy = load(make_entailment(name="again"))
    for text in (TEXTS[1], TEXTS[0] * 90, "Boats."):
        busy.rate(text, "Boats leave the pier.")
    assert busy.rate(TEXTS[0], "Boats leave the pier.") == alone


def test_a_model_of_a_fixed_shape_is_filled_up(make_entailment: Any) -> None:
    checker = load(make_entailment(tokens=64, batch=1))
    assert checker.max_tokens == 64
    assert checker.rate(TEXTS[0] * 9, "Boats leave the north pier at nine.").supported > 0.9
    with pytest.raises(ConfigError, match="takes 64 tokens"):
        load(checker.path, max_tokens=65)
    with pytest.raises(ConfigError, match="fixed shapes"):
        load(make_entailment(name="batches", batch=4))


def test_weights_in_a_file_beside_the_model_are_read_and_are_part_of_its_digest(make_entailment: Any) -> None:
    folder = make_entailment(external=True)
    assert read_facts((folder / "model.onnx").read_bytes()).external == ("model.onnx_data",)
    checker = load(folder)
    assert checker.rate(TEXTS[0], "Boats leave the north pier at nine.").supported > 0.9
    data = bytearray((folder / "model.onnx_data").read_bytes())
    data[-1] ^= 1
    (folder / "model.onnx_data").write_bytes(data)
    assert load(folder).digest != checker.digest


def test_a_quantised_model_is_asked_pair_by_pair_and_says_the_same(make_entailment: Any, tmp_path: Path) -> None:
    plain = make_entailment("consistency")
    model = onnx.load(str(plain / "model.onnx"))
    head = model.graph.output[0].name
    model.graph.node.append(helper.make_node("MatMul", [head, "eye"], ["logits"]))
    eye = helper.make_tensor("eye", TensorProto.FLOAT, [2, 2], [1.0, 0.0, 0.0, 1.0])
    model.graph.initializer.append(eye)
    model.graph.output[0].name = "logits"
    onnx.save(model, str(tmp_path / "float.onnx"))
    quantize_dynamic(tmp_path / "float.onnx", plain / "model.onnx", weight_type=QuantType.QInt8)
    assert read_facts((plain / "model.onnx").read_bytes()).quantised
    checker = load(plain)
    assert checker._batch == 1
    assert checker.rate(TEXTS[0], "Boats leave the north pier at nine.").supported > 0.9
    assert checker.rate(TEXTS[0], "Boats leave the south pier at nine.").supported < 0.1


def test_a_model_that_reads_one_text_is_given_it_by_a_template(make_entailment: Any) -> None:
    folder = make_entailment("consistency", pairs_joined=False)
    checker = load(folder, template="premise {context} hypothesis {statement}")
    encoding = checker._encoding("Boats {statement} leave.", "At nine.")
    assert encoding.tokens == ["[UNK]", "boats", "[UNK]", "[UNK]", "[UNK]", "leave", ".", "[UNK]", "at", "nine", "."]
    for template in ("{context}", "{statement}", "{context} {context} {statement}"):
        with pytest.raises(ValueError, match="must contain"):
            LocalJudgeSettings(template=template)
    with pytest.raises(ConfigError, match="takes no template"):
        load(make_entailment("tokens", "tokens"), template="{context} {statement}")


# -- the judge ---------------------------------------------------------------------------------------------------------


def test_alone_it_judges_by_the_model_and_nothing_else(make_entailment: Any) -> None:
    judge = build(make_entailment(), alone=True)
    found = ask(judge, "Boats leave the pier. Boats do not leave. Nobody sells apples.", (TEXTS[1], TEXTS[0]))
    assert isinstance(found.support, SupportTable)
    rows = [(one.verdict, one.supported_by) for one in found.support.supports]
    assert rows == [
        (Verdict.SUPPORTED, ("c2",)),
        (Verdict.CONTRADICTED, ()),
        (Verdict.UNSUPPORTED, ()),
    ]
    assert found.support.all_supported == pytest.approx(min(even_odds(one.chance) for one in found.support.supports))


def test_a_statement_that_two_contexts_hold_together_is_supported(make_entailment: Any) -> None:
    table = supports(build(make_entailment(), alone=True), "The café sells boats.", *TEXTS[0].split(". "))
    assert table.supports[0].verdict is Verdict.SUPPORTED
    assert len(table.supports[0].supported_by) == 1


def test_combined_more_by_either_is_never_less(make_entailment: Any) -> None:
    for weights in (shipped_weights().statement, shipped_weights().whole, shipped_weights().use):
        steps = [0.0, 0.01, 0.2, 0.5, 0.8, 0.99, 1.0]
        for fixed in steps:
            by_words = [combined(weights, step, fixed) for step in steps]
            by_model = [combined(weights, fixed, step) for step in steps]
            assert by_words == sorted(by_words)
            assert by_model == sorted(by_model)
            assert all(0.0 < one < 1.0 for one in (*by_words, *by_model))


def test_by_default_words_have_a_say(make_entailment: Any) -> None:
    folder = make_entailment()
    statement = "The ferry log is kept by the harbour master, who sells bread."
    alone = supports(build(folder, alone=True), statement, TEXTS[0]).supports[0].probability
    both = supports(build(folder), statement, TEXTS[0]).supports[0].probability
    only_words = supports(build(folder, weights={"words": 1, "model": 0}), statement, TEXTS[0]).supports[0].probability
    only_model = supports(build(folder, weights={"words": 0, "model": 1}), statement, TEXTS[0]).supports[0].probability
    assert alone is not None
    assert only_model == pytest.approx(alone, abs=0.003)
    assert len({round(one or 0.0, 4) for one in (alone, both, only_words)}) == 3


@pytest.mark.parametrize("alone", [True, False])
def test_contexts_are_of_use_by_what_they_hold_of_the_reference(make_entailment: Any, alone: bool) -> None:
    judge = build(make_entailment(), alone=alone)
    found = ask(judge, "At nine.", TEXTS, reference="Boats leave the north pier at nine.")
    use = found.context_use
    assert isinstance(use, ContextUse)
    assert [one.useful for one in use.contexts] == [True, False]
    assert use.attributions[0].verdict is Verdict.SUPPORTED
    assert use.attributions[0].supported_by == ("c1",)
    assert use.attributions[0].chance > 0.5


def test_without_a_reference_contexts_are_of_use_for_the_answer(make_entailment: Any) -> None:
    found = ask(build(make_entailment(), alone=True), "Boats leave the north pier at nine.", TEXTS).context_use
    assert isinstance(found, ContextUse)
    assert [one.useful for one in found.contexts] == [True, False]


def test_logits_that_are_no_numbers_fail_the_judgement(make_entailment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    checker = load(make_entailment(strength=float("nan")))
    with pytest.raises(JudgementFailed, match="logits that are not numbers"):
        checker.rate("Boats leave.", "Boats leave.")


def test_its_identity_changes_with_all_that_bears_on_scores(make_entailment: Any) -> None:
    folder, other = make_entailment(), make_entailment("consistency", "b/nli")
    identities = [
        build(folder).identity,
        build(other).identity,
        build(folder, alone=True).identity,
        build(folder, max_tokens=64).identity,
        build(folder, weights={"words": 1, "model": 2}).identity,
        build(folder, weights={"words": 1, "model": 3}).identity,
    ]
    assert len(set(identities)) == len(identities)
    assert build(folder, threads=1).identity == identities[0]
    assert dict(identities[0].parameters)["sha256"] == load(folder).digest
    assert identities[0].label() == "local model nli"
    assert identities[0].provider == "local"


def test_the_offline_judge_never_imports_what_local_models_need(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom ragstone.config.settings import JudgeSettings\nfrom ragstone.golden.sample import GoldenSet\n"
        "from ragstone.judge.factory import build_judge\n"
        "build_judge(JudgeSettings(), golden_set=GoldenSet(()), cache=None, environ={})\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('onnxruntime', 'tokenizers') "
        "or name.startswith('ragstone.judge.local')])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_means_the_opposite_is_refused_with_what_it_said(make_entailment: Any, kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(make_entailment(kind, swapped=True))
    assert "does not tell obvious pairs apart" in str(caught.value)
    assert "(supported), and of " in str(caught.value)
    assert "Check the order of judge.local.labels" in str(caught.value)


def test_labels_in_the_wrong_order_are_found_out(make_entailment: Any) -> None:
    folder = make_entailment("consistency", config={})
    assert build(folder, labels=("unsupported", "supported"))
    with pytest.raises(ConfigError, match="does not tell obvious pairs apart"):
        build(folder, labels=("supported", "unsupported"))
    three = make_entailment("nli", "three", config={})
    assert build(three, labels=("entailment", "neutral", "contradiction"))
    with pytest.raises(ConfigError, match="a mean contradiction of "):
        build(three, labels=("entailment", "contradiction", "neutral"))


def test_a_model_without_an_opinion_is_refused(make_entailment: Any) -> None:
    with pytest.raises(ConfigError, match=r"a mean support of 0\.\d\d for what is supported"):
        build(make_entailment(strength=0.1))
    with pytest.raises(ConfigError, match="logits that are not numbers"):
        build(make_entailment(name="nan", strength=float("nan")))


@pytest.mark.parametrize(
    ("config", "labels", "says"),
    [
        ({}, (), "the model has no label map"),
        ({"id2label": ["a"]}, (), "must map 0, 1, … to names"),
        ({"id2label": {"0": "entailment", "2": "neutral"}}, (), "must map 0, 1, … to names"),
        ({"id2label": {"0": "entailment", "1": 2}}, (), "must map 0, 1, … to names"),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, (), "labels 'LABEL_0', 'LABEL_1' of the model say nothing"),
        ({"id2label": {"0": "neutral", "1": "contradiction"}}, (), "means that a statement is supported"),
        ({"id2label": {"0": "supported", "1": "consistent"}}, (), "mean the same"),
        ({}, ("good", "bad"), "labels 'good', 'bad' of the model say nothing"),
        ({}, ("supported", "neutral", "contradicted"), "has 3 labels, and none of its outputs"),
    ],
)
def test_a_label_map_that_says_too_little_is_refused(
    make_entailment: Any, config: dict[str, Any], labels: tuple[str, ...], says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(make_entailment("consistency", config=config), labels=labels)
    assert says in str(caught.value)


def name_weights(folder: Path, location: str) -> Path:
    """`folder` with a model whose weights are in `location`."""
    model = onnx.load(str(folder / "model.onnx"), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder


@pytest.mark.parametrize(
    "location", ["/etc/passwd", "../secret", "deeper/../../secret", "", "..\\secret", "C:secret", "/proc/self/environ"]
)
def test_weights_from_outside_of_the_folder_are_never_read(make_entailment: Any, tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 4096)
    folder = name_weights(make_entailment(external=True), location)
    with pytest.raises(ConfigError, match="outside of its folder"):
        load(folder)


def test_weights_that_a_subgraph_or_an_attribute_names_are_found(make_entailment: Any) -> None:
    tensor = helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0])
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    constant = helper.make_node("Constant", [], ["k"], value=tensor)
    inner = helper.make_graph([constant], "inner", [], [helper.make_tensor_value_info("k", TensorProto.FLOAT, [1])])
    condition = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    nodes = [
        helper.make_node("Constant", [], ["yes"], value=condition),
        helper.make_node("If", ["yes"], ["unused"], then_branch=inner, else_branch=inner),
    ]
    with pytest.raises(ConfigError, match="'/etc/passwd', which is outside of its folder"):
        load(make_entailment(extra=nodes))


def test_a_link_that_leads_out_of_the_workspace_is_not_followed(make_entailment: Any, tmp_path: Path) -> None:
    folder = make_entailment(name="workspace/nli", external=True)
    (folder / "model.onnx_data").rename(tmp_path / "elsewhere")
    (folder / "model.onnx_data").symlink_to(tmp_path / "elsewhere")
    assert build(folder)
    with pytest.raises(ConfigError, match="outside the workspace"):
        build(folder, within=tmp_path / "workspace")


def test_files_that_are_too_large_or_no_files_are_not_read(make_entailment: Any) -> None:
    folder = make_entailment()
    for name, size in (("tokenizer.json", 64 * 1024**2), ("config.json", 1_000_000), ("model.onnx", 3 * 1024**3)):
        content = (folder / name).read_bytes()
        with (folder / name).open("r+b") as file:
            file.truncate(size + 1)
        with pytest.raises(ConfigError, match="larger than"):
            load(folder)
        (folder / name).write_bytes(content)
    assert load(folder)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("config.json", b"{", "config.json: not valid JSON"),
        ("config.json", b"[]", "must hold a JSON object"),
        ("config.json", b"[" * 90_000, "not valid JSON"),
        ("config.json", b'{"id2label": "\xff"}', "not valid JSON"),
        ("tokenizer.json", b"{}", "tokenizer.json: can't be loaded"),
        ("model.onnx", b"", "model.onnx: can't be loaded: it contains no graph"),
        ("model.onnx", b"\x3a\xff\xff\xff\xff\x0f", "model.onnx: can't be loaded: it is truncated"),
        ("model.onnx", b"\x3a\x02\x0a\x00", "model.onnx: can't be loaded"),
        ("model.onnx", b"\x18\x00\x00\x00ORTM" + b"\x00" * 64, "model.onnx: can't be loaded"),
    ],
)
def test_a_broken_file_is_named(make_entailment: Any, name: str, content: bytes, says: str) -> None:
    folder = make_entailment()
    (folder / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        build(folder)
    assert says in str(caught.value)


def test_each_half_of_a_model_is_refused_and_none_crashes(make_entailment: Any) -> None:
    folder = make_entailment()
    whole = (folder / "model.onnx").read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 60)):
        (folder / "model.onnx").write_bytes(whole[:size])
        with pytest.raises(ConfigError):
            build(folder)


def test_a_digest_that_is_named_is_asked_for_before_the_model_is_loaded(
    make_entailment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_entailment()
    digest = load(folder).digest
    assert build(folder, digests=(f"sha256:{digest}",))
    assert build(folder, digests=("0" * 64, digest))
    monkeypatch.setattr(checkers, "load_session", lambda *_args, **_named: pytest.fail("it was loaded"))
    with pytest.raises(ConfigError) as caught:
        build(folder, digests=("0" * 64,))
    assert f"has the digest sha256:{digest}, which judge.model_digests does not name" in str(caught.value)


# -- the front doors ---------------------------------------------------------------------------------------------------


def test_a_folder_in_the_file_starts_there(tmp_path: Path) -> None:
    config = tmp_path / "ci" / "ragstone.toml"
    config.parent.mkdir()
    config.write_text('[judge]\nname = "local:models/nli"\n', encoding="utf-8")
    assert (
        load_settings(directory=tmp_path, environ={}, config=config).judge.name
        == f"local:{config.parent / 'models/nli'}"
    )
    given = load_settings(directory=tmp_path, environ={}, config=config, overrides={"judge.name": "local:nli"})
    assert given.judge.name == f"local:{tmp_path / 'nli'}"


def calibrate(tmp_path: Path, judge: str) -> Any:
    row = {
        "question": "When?",
        "answer": "Boats leave the north pier at nine.",
        "ungrounded_answer": "Boats leave the north pier at noon.",
        "context_v1": TEXTS[0],
    }
    data = tmp_path / "pairs.jsonl"
    data.write_text(json.dumps(row), encoding="utf-8")
    return CliRunner().invoke(
        cli, ["calibrate", str(data), "--method", "statements", "--judge", judge, "--format", "json"]
    )


def test_calibrate_measures_a_local_judge_on_pairs(make_entailment: Any, tmp_path: Path) -> None:
    done = calibrate(tmp_path, f"local:{make_entailment()}")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["judge"]["provider"] == "local"
    assert found["results"][0]["accuracy"]["value"] == 1.0


def test_a_model_that_is_refused_ends_a_command_with_the_code_of_the_configuration(
    make_entailment: Any, tmp_path: Path
) -> None:
    done = calibrate(tmp_path, f"local:{make_entailment(swapped=True)}")
    assert isinstance(done.exception, ConfigError)
    assert done.exception.exit_code == 2
    assert "does not tell obvious pairs apart" in str(done.exception)


def test_a_run_and_a_gate_are_judged_by_a_local_model(make_entailment: Any, tmp_path: Path) -> None:
    texts = [f"What is the colour of house number {at}? It is painted {c}." for at, c in enumerate(("red", "green"))]
    more = (*texts, "yellow blue white it has a door", *map(str, range(12)))
    folder = make_entailment(name="project/models/nli", more=more)
    project = make_project(tmp_path / "project", n=12)
    (project / "ragstone.toml").write_text(
        '[golden]\npaths = "golden.jsonl"\n[system]\nentrypoint = "python:houses:answer"\n'
        '[judge]\nname = "local:models/nli"\n[judge.local]\nalone = true\n'
        '[run]\nmetrics = ["faithfulness", "context_recall"]\n',
        encoding="utf-8",
    )
    checked = ragstone(["check"], project)
    assert checked.returncode == 0, checked.stderr
    assert f"model        nli sha256:{load(folder).digest}" in checked.stdout
    done = ragstone(["gate", "--verbose"], project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "local model nli" in done.stdout
    manifest = json.loads((project / "ragstone-run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["judge"]["provider"] == "local"
