"""A local embedding model: what it gives, what it is called, and what is said about a folder that holds none."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

from ragstone.errors import ConfigError
from ragstone.judge.local.similarity import LocalSimilarity
from ragstone.judge.protocol import Call, JudgementFailed, Ledger

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


def pooling(**modes: bool) -> dict[str, bool]:
    return {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False, **modes}


def cosines(folder: Path, question: str, *others: str) -> tuple[float, ...]:
    return asyncio.run(LocalSimilarity(folder).similarities(question, others, call=Call("q1")))


def test_the_model_finds_the_nearer_text(make_model: Any) -> None:
    same, near, far = cosines(make_model(), "Boat", "boat", "ship", "bread")
    assert same == pytest.approx(1.0)
    assert near == pytest.approx(0.9 / 0.82**0.5, abs=1e-6)
    assert far == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("mode", "expected"), [("mean_tokens", 0.5**0.5), ("cls_token", 1.0), ("max_tokens", 0.5**0.5)]
)
def test_tokens_are_pooled_as_the_config_says(make_model: Any, mode: str, expected: float) -> None:
    config = pooling(**{f"pooling_mode_{mode}": True})
    folder = make_model(modules=MODULES, **{"1_Pooling__config": config})
    assert cosines(folder, "boat", "boat bread") == pytest.approx((expected,))


def test_mean_and_max_differ_where_a_word_comes_twice(make_model: Any) -> None:
    twice = [
        cosines(make_model(mode, **{"1_Pooling__config": {"pooling_mode": mode}}), "boat", "boat boat bread")[0]
        for mode in ("mean", "max")
    ]
    assert twice == pytest.approx([2 / 5**0.5, 0.5**0.5])


def test_a_model_that_pools_by_itself_is_taken_at_its_word(make_model: Any) -> None:
    assert cosines(make_model(pooled=True), "boat", "boat boat bread") == pytest.approx((0.5**0.5,))


def test_models_with_32_bit_inputs_and_token_types_are_fed(make_model: Any) -> None:
    folder = make_model(inputs=("input_ids", "attention_mask", "token_type_ids"), kind=TensorProto.INT32)
    assert cosines(folder, "boat", "boat") == pytest.approx((1.0,))


def test_the_model_may_lie_in_the_folder_onnx(make_model: Any) -> None:
    folder = make_model()
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    assert cosines(folder, "boat", "boat") == pytest.approx((1.0,))


def test_texts_are_cut_where_the_config_says(make_model: Any) -> None:
    folder = make_model(sentence_bert_config={"max_seq_length": 2, "do_lower_case": True})
    assert cosines(folder, "boat", "BOAT boat bread bread") == pytest.approx((1.0,))


def test_an_empty_text_is_compared_and_a_vector_of_zeros_is_not(make_model: Any) -> None:
    folder = make_model()
    assert cosines(folder, "boat", "") == pytest.approx((0.0,))
    with pytest.raises(JudgementFailed, match="empty vector"):
        cosines(folder, "boat", "nothing")


def test_a_vector_that_is_no_number_fails_its_sample(make_model: Any) -> None:
    folder = make_model(vectors={"[UNK]": (1.0, 0.0), "boat": (float("nan"), 0.0)})
    with pytest.raises(JudgementFailed, match="no vector of numbers"):
        cosines(folder, "boat", "bread")


def test_a_vector_does_not_depend_on_what_it_is_compared_with(make_model: Any) -> None:
    folder = make_model()
    alone = cosines(folder, "boat ship", "bread boat")
    assert cosines(folder, "boat ship", "bread boat", "ship " * 100, "boat")[0] == pytest.approx(alone[0], abs=1e-12)


def test_local_embeddings_cost_nothing(make_model: Any) -> None:
    ledger = Ledger()
    asyncio.run(LocalSimilarity(make_model()).similarities("boat", ["ship"], call=Call("q1", ledger=ledger)))
    assert ledger == Ledger()


def test_the_label_holds_the_folder_and_changes_with_all_that_bears_on_vectors(make_model: Any) -> None:
    other = {"[UNK]": (0.0, 0.1), "boat": (1.0, 0.0), "ship": (0.0, 1.0), "bread": (0.0, 1.0), "nothing": (0.0, 0.0)}
    folders = [
        make_model("a/m"),
        make_model("b/m", vectors=other),
        make_model("c/m", sentence_bert_config={"max_seq_length": 9}),
        make_model("d/m", **{"1_Pooling__config": {"pooling_mode": "cls"}}),
        make_model("e/m"),
    ]
    (folders[4] / "tokenizer.json").write_text((folders[4] / "tokenizer.json").read_text() + " ")
    (folders[1] / "model.onnx_data").write_bytes(b"a file that the model does not name")
    labels = {LocalSimilarity(folder).label for folder in folders}
    assert len(labels) == len(folders)
    assert all(label.startswith("local m sha256:") for label in labels)
    assert LocalSimilarity(make_model("g/m")).label in labels, "the same files elsewhere are the same model"


def broken(folder: Path, name: str, content: bytes | None) -> Path:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("model.onnx", None, "has no model.onnx"),
        ("tokenizer.json", None, "has no tokenizer.json"),
        ("model.onnx", b"not a model", "model.onnx: can't be loaded"),
        ("model.onnx", b"", "model.onnx: can't be loaded"),
        ("tokenizer.json", b'{"secret": 1}', "tokenizer.json: can't be loaded"),
        ("modules.json", b"{}", "must hold a list of modules"),
        ("modules.json", b"[" * 100_000, "not valid JSON"),
        ("modules.json", b'[{"type": "sentence_transformers.models.Dense", "path": "3_Dense"}]', "a 'Dense' step"),
        ("sentence_bert_config.json", b"[]", "must hold a JSON object"),
        ("sentence_bert_config.json", b" " * 1_000_001, "larger than"),
        ("1_Pooling/config.json", b'{"pooling_mode_lasttoken": true}', "pooling lasttoken is not supported"),
        ("1_Pooling/config.json", b'{"pooling_mode": "weightedmean"}', "pooling weightedmean is not supported"),
        (
            "1_Pooling/config.json",
            b'{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}',
            "pooling cls, mean is not supported",
        ),
        ("config_sentence_transformers.json", b'{"default_prompt_name": "query"}', "puts a prompt before"),
    ],
)
def test_a_folder_that_can_not_be_used_is_refused_with_the_reason(
    make_model: Any, name: str, content: bytes | None, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        LocalSimilarity(broken(make_model(), name, content))
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_model_that_wants_more_than_text_is_refused(make_model: Any) -> None:
    with pytest.raises(ConfigError, match="requires the input 'pixels'"):
        LocalSimilarity(make_model(inputs=("input_ids", "pixels")))


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not there"):
        LocalSimilarity(tmp_path / "none")
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(ConfigError, match="is a file"):
        LocalSimilarity(tmp_path / "model.onnx")


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_without_the_extra_the_error_names_it(make_model: Any, tmp_path: Path, package: str) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / f"{package}.py").write_text(f"raise ModuleNotFoundError('No module named {package}')")
    command = [sys.executable, "-m", "ragstone", "rescore", "x.jsonl", "--embeddings", f"local:{make_model()}"]
    (tmp_path / "x.jsonl").write_text('{"id": "a", "question": "q", "answer": "a", "contexts": []}')
    environ = {**os.environ, "PYTHONPATH": str(blocked)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"'{package}', which is not installed" in done.stderr
    assert "ragstone[local]" in done.stderr
