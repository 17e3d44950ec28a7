"""Model folders that somebody else made: what they can't do to the process that loads them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from google.protobuf.internal.encoder import _VarintBytes
from onnx import TensorProto, helper

from ragstone.config.settings import LocalJudgeSettings
from ragstone.errors import ConfigError
from ragstone.judge.local import runtime
from ragstone.judge.local.checker import Checker
from ragstone.judge.local.files import MAX_FIELDS
from ragstone.judge.local.selftest import require_sense
from ragstone.judge.local.similarity import LocalSimilarity
from ragstone.judge.protocol import Call, JudgementFailed

node = helper.make_node


def use(folder: Path, **local: Any) -> Checker:
    checker = Checker(folder, LocalJudgeSettings(**local), within=folder.parent, digests=())
    require_sense(checker)
    return checker


def changed(folder: Path, change: Callable[[onnx.ModelProto], None]) -> Path:
    model = onnx.load(str(folder / "model.onnx"), load_external_data=False)
    change(model)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder


def with_output(model: onnx.ModelProto, *nodes: onnx.NodeProto, kind: int = TensorProto.FLOAT) -> None:
    """Add `nodes` to `model`. The last one's output is asked for, so that no optimisation removes them."""
    model.graph.node.extend(nodes)
    model.graph.output.append(helper.make_tensor_value_info(nodes[-1].output[0], kind, None))


def external(tensor: onnx.TensorProto, **entries: str) -> onnx.TensorProto:
    for name in ("raw_data", "float_data"):
        tensor.ClearField(name)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def four(name: str = "extra") -> onnx.TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, [4], [1.0] * 4)


def calling(model: onnx.ModelProto, bodies: list[list[onnx.NodeProto]]) -> None:
    """Add functions F0, F1… with these bodies, from x to y, and a call of F0."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    for number, body in enumerate(bodies):
        model.functions.append(helper.make_function("own", f"F{number}", ["x"], ["y"], body, opsets))
    model.opset_import.append(opsets[1])
    with_output(model, node("F0", ["input_ids"], ["called"], domain="own"), kind=TensorProto.INT64)


def twice(number: int) -> list[onnx.NodeProto]:
    name = f"F{number}"
    return [node(name, ["x"], ["half"], domain="own"), node(name, ["half"], ["y"], domain="own")]


# -- weights in other files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "weights", "offset": "999999999999", "length": "16"},
        {"location": "weights", "offset": "-4096", "length": "16"},
        {"location": "weights", "offset": "4090", "length": "16"},
        {"location": "weights", "offset": "0", "length": "99999999"},
        {"location": "weights", "offset": "zero"},
        {"location": "weights\0/../../secret"},
        {"location": "w" * 5000},
        {"location": "."},
        # What onnxruntime itself writes for an address in the memory of its process.
        {"location": "*/_ORT_MEM_ADDR_/*", "offset": "4096", "length": "16"},
    ],
)
def test_weights_that_are_not_in_their_file_are_refused(make_entailment: Any, entries: dict[str, str]) -> None:
    folder = make_entailment()
    (folder / "weights").write_bytes(b"\0" * 4096)
    (folder / "*/_ORT_MEM_ADDR_").mkdir(parents=True)
    (folder / "*/_ORT_MEM_ADDR_/*").write_bytes(b"\0" * 8192)

    def change(model: onnx.ModelProto) -> None:
        model.graph.initializer.append(external(four(), **entries))
        with_output(model, node("Identity", ["extra"], ["shown"]))

    with pytest.raises(ConfigError) as caught:
        use(changed(folder, change))
    assert len(str(caught.value)) < 6000
    if "*" in entries["location"]:  # not left to the runtime
        assert "outside of its folder" in str(caught.value)


@pytest.mark.parametrize("place", ["body", "default", "training", "sparse", "sparse in a graph"])
def test_weights_outside_are_refused_wherever_they_are_named(make_entailment: Any, tmp_path: Path, place: str) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 4096)
    tensor = external(four(), location="../secret", length="16")
    indices = helper.make_tensor("at", TensorProto.INT64, [4], [0, 1, 2, 3])

    def change(model: onnx.ModelProto) -> None:
        if place == "training":
            model.training_info.add().initialization.initializer.append(tensor)
        elif place == "sparse in a graph":
            model.graph.sparse_initializer.add(values=tensor, indices=indices, dims=[4])
        elif place == "sparse":
            sparse = onnx.SparseTensorProto(values=tensor, indices=indices, dims=[4])
            with_output(model, node("Constant", [], ["shown"], sparse_value=sparse))
        elif place == "body":
            calling(model, [[node("Constant", [], ["c"], value=tensor), node("Identity", ["x"], ["y"])]])
        else:
            calling(model, [[node("Identity", ["x"], ["y"])]])
            model.functions[0].attribute_proto.append(helper.make_attribute("value", tensor))

    with pytest.raises(ConfigError, match=r"'\.\./secret', which is outside of its folder"):
        use(changed(make_entailment(), change))


def test_a_link_beside_the_model_leads_to_no_weights_outside(make_entailment: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 4096)
    folder = make_entailment(name="workspace/nli")
    (folder / "weights").symlink_to(tmp_path / "secret")

    def change(model: onnx.ModelProto) -> None:
        model.graph.initializer.append(external(four(), location="weights", length="16"))

    with pytest.raises(ConfigError, match="outside the workspace"):
        use(changed(folder, change))


# -- graphs ------------------------------------------------------------------------------------------------------------


def huge_dimensions(model: onnx.ModelProto) -> None:
    tensor = four()
    del tensor.dims[:]
    tensor.dims.extend([2**31, 2**31])
    model.graph.initializer.append(tensor)
    with_output(model, node("Identity", ["extra"], ["shown"]))


def circle(model: onnx.ModelProto) -> None:
    with_output(model, node("Identity", ["b"], ["a"]), node("Identity", ["a"], ["b"]))


def own_operator(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("evil", 1))
    with_output(model, node("Run", ["input_ids"], ["out"], domain="evil", library="./evil.so"))


def python_operator(model: onnx.ModelProto) -> None:
    with_output(model, node("PyOp", ["input_ids"], ["out"], domain="com.microsoft", module="os", compute="system"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (huge_dimensions, "can't be loaded"),
        (circle, "not acyclic"),
        (own_operator, "evil"),
        (python_operator, "PyOp"),
        (lambda model: calling(model, [twice(1), twice(0)]), "call each other in a circle"),
        (
            lambda model: calling(model, [twice(n + 1) for n in range(40)] + [twice(40)[:0]]),
            "more than 50,000 operators",
        ),
    ],
)
def test_a_graph_that_can_not_be_run_is_refused(
    make_entailment: Any, change: Callable[[onnx.ModelProto], None], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        use(changed(make_entailment(), change))


def test_functions_that_call_functions_are_run(make_entailment: Any) -> None:
    bodies = [twice(1), twice(2), [node("Identity", ["x"], ["y"])]]
    assert use(changed(make_entailment(), lambda model: calling(model, bodies)))


def field(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _VarintBytes(len(body)) + body


def nested(depth: int) -> bytes:
    """A graph with a node with an attribute with a graph with…"""
    graph = b""
    for _ in range(depth):
        graph = field(1, field(5, field(6, graph)))
    return field(7, graph)


@pytest.mark.parametrize("message", [b"\x0a\x00", b"\x12\x00", b"\x2a\x00"])
def test_a_file_of_endless_empty_messages_is_refused_before_it_is_unpacked(
    make_entailment: Any, message: bytes
) -> None:
    folder = make_entailment()
    inner = message * (MAX_FIELDS + 1)
    with (folder / "model.onnx").open("ab") as file:
        file.write(field(7, inner))
    with pytest.raises(ConfigError, match="more than 1,000,000 fields"):
        use(folder)


@pytest.mark.parametrize(
    "tail",
    [nested(10_000), b"\x3b", b"\x3c", b"\x3a" + b"\xff" * 11, b"\x3a\x05\x0a", b"\x09\x00", b"\x80" * 11, b"\x3f"],
)
def test_what_is_no_message_is_refused(make_entailment: Any, tail: bytes) -> None:
    folder = make_entailment()
    with (folder / "model.onnx").open("ab") as file:
        file.write(tail)
    with pytest.raises(ConfigError, match="truncated, or not an ONNX model"):
        use(folder)


def test_a_loop_without_end_is_given_up(make_entailment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    flag, number = (helper.make_tensor_value_info(name, kind, []) for name, kind in (("c", 9), ("i", 7)))
    body = helper.make_graph([node("Identity", ["c"], ["d"])], "body", [number, flag], [flag.__class__(name="d")])

    def change(model: onnx.ModelProto) -> None:
        model.graph.initializer.append(helper.make_tensor("times", TensorProto.INT64, [], [2**60]))
        model.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [True]))
        body.node.append(node("Add", ["v", "v"], ["w"]))
        body.input.append(helper.make_tensor_value_info("v", TensorProto.INT64, None))
        body.output.append(helper.make_tensor_value_info("w", TensorProto.INT64, None))
        with_output(model, node("Loop", ["times", "yes", "times"], ["shown"], body=body), kind=TensorProto.INT64)

    monkeypatch.setattr(runtime, "MAX_RUN_S", 0.5)
    with pytest.raises(ConfigError, match=r"the model failed: it took more than 0\.5 s"):
        use(changed(make_entailment(), change))


def test_the_memory_of_models_is_bounded(make_entailment: Any) -> None:
    def change(model: onnx.ModelProto) -> None:
        model.graph.initializer.append(helper.make_tensor("values", TensorProto.INT64, [1], [2**27]))
        shape = [
            node("Shape", ["input_ids"], ["dims"]),
            node("ReduceMax", ["dims"], ["tokens"], keepdims=1),
        ]  # known when it runs
        shape += [node("Max", ["tokens", "values"], ["shape"])]
        big = [node("ConstantOfShape", ["shape"], ["big"]), node("ReduceSum", ["big"], ["sum"], keepdims=0)]
        with_output(model, *shape, *big)

    folder = changed(make_entailment(), change)
    program = (
        "import sys; from pathlib import Path; from ragstone.errors import ConfigError\n"
        "from ragstone.judge.local import runtime; from tests.judge.local.test_hostile_models import use\n"
        "runtime.MAX_MEMORY_BYTES = int(sys.argv[2])\n"
        "try:\n    use(Path(sys.argv[1]))\nexcept ConfigError as error:\n    sys.exit(error.exit_code)\n"
    )
    for limit, code in ((2**28, 2), (2**31, 0)):
        done = subprocess.run([sys.executable, "-c", program, folder, str(limit)], capture_output=True, text=True)
        assert done.returncode == code, done.stderr


# -- tokenizers --------------------------------------------------------------------------------------------------------


def with_tokenizer(folder: Path, **parts: Any) -> Path:
    file = folder / "tokenizer.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **parts}), encoding="utf-8")
    return folder


def with_word(folder: Path, word: str, number: int) -> Path:
    model = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]
    return with_tokenizer(folder, model={**model, "vocab": {**model["vocab"], word: number}})


DOUBLING = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
HALF = {"type": "Sequence", "normalizers": [DOUBLING] * 20}
ONE = {"Sequence": {"id": "A", "type_id": 0}}
TWO = {"Sequence": {"id": "B", "type_id": 1}}


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": {"type": "Sequence", "normalizers": [HALF, HALF]}},
        {"normalizer": {**DOUBLING, "content": "b" * 5000}},
        {"post_processor": {"type": "TemplateProcessing", "single": [ONE] * 2000, "pair": [ONE, TWO]}},
        {"post_processor": {"type": "TemplateProcessing", "single": [ONE], "pair": [ONE] * 2000 + [TWO]}},
    ],
)
def test_a_tokenizer_that_makes_texts_endless_is_refused(make_entailment: Any, parts: dict[str, Any]) -> None:
    if "post_processor" in parts:
        parts = {"post_processor": {**parts["post_processor"], "special_tokens": {}}}
    with pytest.raises(ConfigError, match=r"tokenizer\.json: can't be loaded: it makes texts more than 1,000 times"):
        use(with_tokenizer(make_entailment(), **parts))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(.*a){20}x", "(a+a+)+y"])
def test_a_regular_expression_that_never_ends_fails_the_judgement(make_entailment: Any, pattern: str) -> None:
    split = {"type": "Split", "pattern": {"Regex": f"{pattern}|\\w+"}, "behavior": "Isolated", "invert": False}
    words = {"type": "Sequence", "pretokenizers": [split, {"type": "Whitespace"}]}
    folder = with_tokenizer(make_entailment(), pre_tokenizer=words)
    checker = use(folder)
    with pytest.raises(JudgementFailed, match="the model can't read the text: Onig: Regex search error: retry-limit"):
        checker.rate("a" * 3000 + "!", "The harbour.")
    with pytest.raises(ConfigError, match=r"judge\.local\.template: the model can't read it: Onig"):
        use(folder, template="a" * 3000 + "! {context} {statement}")


@pytest.mark.parametrize("number", [-5, 2**32, 1.5])
def test_a_token_without_a_number_is_no_tokenizer(make_entailment: Any, number: float) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.json: can't be loaded: it is no tokenizer"):
        use(with_word(make_entailment(), "harbour", number))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [TensorProto.INT32, TensorProto.INT64])
@pytest.mark.parametrize("number", [1000, 2**31, 2**32 - 1])
def test_a_token_that_the_model_does_not_know_fails_the_judgement(make_model: Any, kind: int, number: int) -> None:
    similarity = LocalSimilarity(with_word(make_model(kind=kind), "bread", number))
    assert asyncio.run(similarity.similarities("boat", ["ship"], call=Call("x")))
    with pytest.raises(JudgementFailed, match=r"the embedding model (failed|can't read the text)"):
        asyncio.run(similarity.similarities("boat", ["bread"], call=Call("x")))


def test_special_tokens_that_leave_no_room_for_a_text_are_refused(make_entailment: Any) -> None:
    special = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    template = {
        "type": "TemplateProcessing",
        "single": [special, ONE],
        "pair": [*[special] * 600, ONE, TWO],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}},
    }
    with pytest.raises(ConfigError, match="too long for a model that takes 512"):
        use(with_tokenizer(make_entailment(), post_processor=template))
