"""`judge.local.device`: what is asked of the runtime for a GPU, and what is said where there is none.

No test here needs a GPU. Where the runtime has to have one, the real one is asked with its CPU instead.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from ragstone.commands.check import _models
from ragstone.config.settings import JudgeSettings
from ragstone.errors import ConfigError
from ragstone.golden.sample import GoldenSet
from ragstone.judge.factory import build_judge
from ragstone.judge.offline import OfflineJudge
from ragstone.judge.protocol import Call, Judge
from tests.commands.project import make_project, ragstone

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
ON_CPU = pytest.mark.skipif(CUDA in onnxruntime.get_available_providers(), reason="onnxruntime has CUDA here")
NO_DRIVER = (
    "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_call.cc:154 std::conditional_t<THRW, void, "
    + "onnxruntime::common::Status> onnxruntime::CudaCall(ERRTYPE, const char*, const char*, SUCCTYPE) " * 4
    + "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=-1 ; hostname=host1 ; "
    "file=/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider.cc ; line=355 ; expr=cudaSetDevice"
)


class Runtime:
    """The package onnxruntime, as with a GPU. Keeps what sessions are made with, and makes them on the CPU."""

    def __init__(self, *, loads: bool = True, fails: str | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self._loads = loads
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        return getattr(onnxruntime, name)

    def get_available_providers(self) -> list[str]:
        return ["TensorrtExecutionProvider", CUDA, CPU]

    def preload_dlls(self) -> None:
        print("Failed to load libcublas.so.13")

    def InferenceSession(self, model: bytes, *, sess_options: Any, providers: Sequence[Any], **more: Any) -> Any:
        deterministic = sess_options.use_deterministic_compute
        self.asked.append({"providers": providers, "deterministic": deterministic, **more})
        if self._fails is not None and providers != [CPU]:
            raise RuntimeError(self._fails)
        made = onnxruntime.InferenceSession(model, sess_options=sess_options, providers=[CPU])
        named = [one if isinstance(one, str) else one[0] for one in providers]
        made.get_providers = lambda: named if self._loads else [CPU]
        return made


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Runtime], Runtime]:
    def installed(runtime: Runtime) -> Runtime:
        monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
        return runtime

    return installed


def build(device: str | None, **judge: Any) -> Judge:
    settings = JudgeSettings.model_validate({**judge, "local": {} if device is None else {"device": device}})
    return build_judge(settings, golden_set=GoldenSet(()), cache=None, environ={"OPENAI_API_KEY": "sk-x"})


def test_on_a_gpu_the_settings_are_those_by_which_scores_repeat(
    make_entailment: Any, make_model: Any, install: Any
) -> None:
    runtime = install(Runtime())
    build("cuda", name=f"local:{make_entailment()}", embeddings=f"local:{make_model()}")
    gpu = {
        "providers": [(CUDA, {"cudnn_conv_algo_search": "DEFAULT", "use_tf32": "0"}), CPU],
        "deterministic": True,
        "enable_fallback": 0,
    }
    assert runtime.asked == [gpu, gpu]


def test_on_the_cpu_nothing_is_asked_of_the_gpu(make_entailment: Any, install: Any) -> None:
    runtime = install(Runtime())
    build(None, name=f"local:{make_entailment()}")
    assert runtime.asked == [{"providers": [CPU], "deterministic": False}]


def test_what_the_runtime_prints_is_not_printed_among_results(
    make_entailment: Any, install: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    install(Runtime())
    build("cuda", name=f"local:{make_entailment()}")
    assert capsys.readouterr() == ("", "Failed to load libcublas.so.13\n")


def test_the_device_is_part_of_the_identity_of_a_judge_on_a_gpu_only(make_entailment: Any, install: Any) -> None:
    install(Runtime())
    name = f"local:{make_entailment()}"
    unset, cpu, cuda = (build(device, name=name).identity for device in (None, "cpu", "cuda"))
    assert unset == cpu
    assert [key for key, _ in cpu.parameters] == ["combined", "labels", "max_tokens", "sha256"], "as it always was"
    assert cuda != cpu
    assert dict(cuda.parameters) == {**dict(cpu.parameters), "device": "cuda"}


@pytest.mark.parametrize("name", ["offline", "openai:gpt-4o-mini"])
def test_so_is_that_of_its_embeddings(make_model: Any, install: Any, name: str) -> None:
    install(Runtime())
    embeddings = f"local:{make_model()}"
    cpu, cuda = (build(device, name=name, embeddings=embeddings).identity for device in ("cpu", "cuda"))
    assert cpu.embeddings is not None
    assert cpu.embeddings.startswith("local words sha256:")
    assert len(cpu.embeddings.split()) == 3, "as it always was"
    assert cuda.embeddings == f"{cpu.embeddings} on cuda"


def test_check_shows_where_models_run(make_entailment: Any, make_model: Any, install: Any) -> None:
    install(Runtime())
    models = {"name": f"local:{make_entailment()}", "embeddings": f"local:{make_model()}"}
    cpu, cuda = (_models(build(device, **models).identity) for device in ("cpu", "cuda"))
    assert [one.split()[0] for one in cpu] == ["nli", "words"]
    assert cuda == [f"{one} on cuda" for one in cpu]


def test_a_model_that_says_something_else_on_the_gpu_is_refused(make_entailment: Any, install: Any) -> None:
    install(Runtime())
    with pytest.raises(ConfigError, match="does not tell obvious pairs apart on cuda, with its labels"):
        build("cuda", name=f"local:{make_entailment(swapped=True)}")


# -- no GPU ------------------------------------------------------------------------------------------------------------


def test_a_runtime_that_falls_back_to_the_cpu_is_not_believed(make_entailment: Any, install: Any) -> None:
    install(Runtime(loads=False))
    with pytest.raises(ConfigError) as caught:
        build("cuda", name=f"local:{make_entailment()}")
    assert caught.value.where == "judge.local.device"
    assert caught.value.message == f"no GPU can be used: onnxruntime could not load its {CUDA}."
    assert caught.value.hint is not None
    assert "driver (nvidia-smi)" in caught.value.hint
    assert caught.value.hint.endswith('or set device = "cpu".')


def test_of_a_failure_of_cuda_only_the_reason_is_shown(make_entailment: Any, install: Any) -> None:
    install(Runtime(fails=NO_DRIVER))
    with pytest.raises(ConfigError) as caught:
        build("cuda", name=f"local:{make_entailment()}")
    assert caught.value.where == "judge.local.device"
    assert caught.value.message == (
        "no GPU can be used: CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version."
    )


def test_a_broken_model_is_not_blamed_on_the_gpu(make_entailment: Any, install: Any) -> None:
    folder = make_entailment()
    install(Runtime(fails="[ONNXRuntimeError] : 10 : INVALID_GRAPH"))
    model = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(model.replace(b"ReduceSum", b"ReduceXXX"))
    with pytest.raises(ConfigError, match="can't be loaded") as caught:
        build("cuda", name=f"local:{folder}")
    assert caught.value.where == str(folder / "model.onnx")


@ON_CPU
@pytest.mark.parametrize("name", ["offline", "openai:gpt-4o-mini"])
def test_without_a_gpu_embeddings_are_refused(make_model: Any, name: str) -> None:
    with pytest.raises(ConfigError, match=r"no GPU can be used: this onnxruntime has only .*CPUExecutionProvider"):
        build("cuda", name=name, embeddings=f"local:{make_model()}")


@ON_CPU
@pytest.mark.parametrize(
    "command",
    [
        ["check"],
        ["run"],
        ["gate"],
        ["run", "--workers", "2"],
        ["run", "--dask", "tcp://127.0.0.1:1"],
        ["rescore", "recorded", "--out", "again"],
    ],
    ids=" ".join,
)
def test_without_a_gpu_a_command_ends_with_the_code_of_the_configuration(
    tmp_path: Path, make_entailment: Any, command: list[str]
) -> None:
    project = make_project(tmp_path / "repo", n=3)
    if command[0] == "rescore":
        assert ragstone(["run", "--out", "recorded"], project).returncode == 0
    with (project / "ragstone.toml").open("a", encoding="utf-8") as file:
        file.write("[judge]\nname = " + json.dumps(f"local:{make_entailment()}") + '\n[judge.local]\ndevice = "cuda"\n')
    done = ragstone(command, project)
    assert done.returncode == 2, done.stdout + done.stderr
    has = ", ".join(onnxruntime.get_available_providers())
    assert f"judge.local.device: no GPU can be used: this onnxruntime has only {has}." in done.stderr
    assert "Install onnxruntime-gpu in place of onnxruntime" in done.stderr
    assert not (project / "again").exists()
    assert not (project / "ragstone-run" / "samples.jsonl").exists()


def test_other_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="'cpu' or 'cuda'"):
        JudgeSettings.model_validate({"local": {"device": "gpu"}})


def test_without_a_local_model_no_gpu_is_needed() -> None:
    judge = build("cuda", name="offline")
    assert isinstance(judge, OfflineJudge)
    assert judge.identity == build(None, name="offline").identity
    asyncio.run(judge.statements("When?", "At nine.", call=Call("q1")))
