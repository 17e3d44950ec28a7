"""ONNX Runtime and the tokenizers library: the extra `ragstone[local]`, imported here and nowhere else."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import re
import sys
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragstone.config.settings import Device
from ragstone.errors import ConfigError
from ragstone.judge.local.files import ModelFiles, ModelFolder, missing_extra
from ragstone.judge.untrusted_text import cleaned

_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
_TYPES = {"tensor(int64)": "<i8", "tensor(int32)": "<i4"}
_MAX_THREADS = 4
_MAX_TOKEN_ID = 2**31 - 1
MAX_MEMORY_BYTES = 8 * 1024**3
"""Limit for what all models of this process need at once."""
MAX_RUN_S = 600.0
"""Limit for one run of a model, between two of its operators; a loop can be endless."""
MAX_GROWTH = 1000
"""How many times longer a tokenizer may make a text, and how many tokens it may add to one."""

_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"
_CUDA_OPTIONS = {"cudnn_conv_algo_search": "DEFAULT", "use_tf32": "0"}
"""So that scores repeat: no algorithm is chosen by timing, and products of fp32 are not rounded to TF32."""

_CUDA_FAILURE = re.compile(r"(?:CUDA|CUDNN|CUBLAS) failure \d+: [^;]+")


def load_tokenizer(folder: ModelFolder, files: ModelFiles) -> Any:
    """A `tokenizers.Tokenizer` that neither pads nor truncates. Raises ConfigError."""
    library = _extra("tokenizers", folder.where)
    try:
        tokenizer = library.Tokenizer.from_buffer(files.tokenizer)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        growth = _growth(tokenizer)
        if growth <= MAX_GROWTH:
            growth = max(len(tokenizer.encode(*texts).ids) for texts in (("a",), ("a", "a")))
    except BaseException as error:  # the library raises bare Exception, and panics that are not even that
        _let_through(error)
        raise _unusable(str(folder.path / "tokenizer.json"), "it is no tokenizer of the tokenizers library") from None
    if growth > MAX_GROWTH:
        raise _unusable(str(folder.path / "tokenizer.json"), "it makes texts more than 1,000 times longer")
    return tokenizer


def _growth(tokenizer: Any) -> int:
    """How many times longer a text may get by what the normaliser of `tokenizer` inserts."""
    state = json.loads(tokenizer.normalizer.__getstate__()) if tokenizer.normalizer is not None else {}
    steps = [state]
    for step in steps:
        steps += step.get("normalizers", ())
    return math.prod(1 + len(step["content"]) for step in steps if len(step.get("content", "")) > 1)


def encode(tokenizer: Any, text: str, second: str | None = None, *, special: bool = True) -> Any:
    """The encoding of a text or a pair. Raises ValueError for a text that the tokenizer can't take."""
    try:
        found = tokenizer.encode(text, second, add_special_tokens=special)
    except BaseException as error:
        _let_through(error)
        raise ValueError(short(error)) from None
    if max(found.ids, default=0) > _MAX_TOKEN_ID:
        raise ValueError(f"the tokenizer has a token with the id {max(found.ids)}")
    return found


def load_session(folder: ModelFolder, files: ModelFiles, *, threads: int = 1, device: Device = "cpu") -> Any:
    """An `onnxruntime.InferenceSession` on `device`, made only from the files in memory. Raises ConfigError."""
    runtime = _extra("onnxruntime", folder.where)
    # On Windows the runtime sends telemetry to its maker unless disabled.
    runtime.disable_telemetry_events()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.load_model_format", "ONNX")
    _bound_memory()
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if files.weights:
        if not hasattr(options, "add_external_initializers_from_files_in_memory"):
            raise ConfigError(
                "its weights are in files of their own, which this version of onnxruntime can't take.",
                where=str(files.file),
                hint="Update onnxruntime, or take a model in one file.",
            )
        sizes = [len(body) for body in files.weights.values()]
        options.add_external_initializers_from_files_in_memory(list(files.weights), list(files.weights.values()), sizes)
    if device == "cuda":
        return _cuda_session(runtime, options, files)
    return _cpu_session(runtime, options, files)


@cache
def _bound_memory() -> None:
    runtime = importlib.import_module("onnxruntime")
    kinds = runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, runtime.OrtMemType.DEFAULT
    limits = runtime.OrtArenaCfg({"max_mem": MAX_MEMORY_BYTES})
    runtime.create_and_register_allocator(runtime.OrtMemoryInfo("Cpu", *kinds), limits)


def run(session: Any, output: str, feed: Mapping[str, Any]) -> NDArray[np.float64]:
    """The model's `output` for `feed`. Raises ValueError if it fails, or takes more than MAX_RUN_S."""
    options = importlib.import_module("onnxruntime").RunOptions()
    timer = threading.Timer(MAX_RUN_S, setattr, (options, "terminate", True))
    timer.daemon = True
    timer.start()
    try:
        return np.asarray(session.run([output], feed, options)[0], dtype=np.float64)
    except Exception as error:  # the runtime's own exceptions share no base
        late = f"it took more than {MAX_RUN_S:g} s"
        raise ValueError(late if options.terminate else short(error)) from None
    finally:
        timer.cancel()


def _cpu_session(runtime: Any, options: Any, files: ModelFiles) -> Any:
    try:
        return runtime.InferenceSession(files.model, sess_options=options, providers=[_CPU])
    except Exception as error:  # the runtime's own exceptions share no base
        raise _unusable(str(files.file), short(error)) from None


def _cuda_session(runtime: Any, options: Any, files: ModelFiles) -> Any:
    """A session on the GPU. The runtime by itself would take the CPU without a word wherever there is none."""
    available = runtime.get_available_providers()
    if _CUDA not in available:
        raise _no_gpu(
            f"this onnxruntime has only {', '.join(available)}",
            "Install onnxruntime-gpu in place of onnxruntime (both can't be installed together)",
        )
    if hasattr(runtime, "preload_dlls"):
        # CUDA's libraries, if they are installed as Python packages. It prints those that it does not find.
        with contextlib.redirect_stdout(sys.stderr):
            runtime.preload_dlls()
    options.use_deterministic_compute = True
    try:
        # The CPU takes what the GPU has no kernel for. Without `enable_fallback=0`, it would take over after errors.
        session = runtime.InferenceSession(
            files.model, sess_options=options, providers=[(_CUDA, _CUDA_OPTIONS), _CPU], enable_fallback=0
        )
    except Exception as error:  # the runtime's own exceptions share no base
        _cpu_session(runtime, options, files)  # raises if the model is at fault
        raise _no_gpu(short(error), _CHECK_GPU) from None
    if _CUDA not in session.get_providers():
        raise _no_gpu(f"onnxruntime could not load its {_CUDA}", _CHECK_GPU)
    return session


def input_types(session: Any, files: ModelFiles) -> dict[str, str]:
    """The model's inputs and their numpy types. Raises ConfigError for an input that no tokenizer provides."""
    found = {}
    for wanted in session.get_inputs():
        if wanted.name not in _INPUTS or wanted.type not in _TYPES:
            raise ConfigError(
                f"the model requires the input '{wanted.name}' ({wanted.type}), which tokenizers don't provide.",
                where=str(files.file),
                hint=f"Take an ONNX export of a text encoder; known inputs: {', '.join(sorted(_INPUTS))}.",
            )
        found[wanted.name] = _TYPES[wanted.type]
    return found


def usable_threads() -> int:
    """The cores that this process may use, at most 4: more help little with models of this size."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return min(_MAX_THREADS, cores)


def short(error: BaseException) -> str:
    """The message of `error` as one line of at most 300 characters; of a failure of CUDA, only what failed."""
    text = " ".join(cleaned(str(error)).split())
    failure = _CUDA_FAILURE.search(text)
    return (text if failure is None else failure.group().strip())[:300]


def _extra(name: str, where: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise missing_extra(name, where) from None


_CHECK_GPU = (
    "Check that there is an NVIDIA GPU with its driver (nvidia-smi), and CUDA and cuDNN in the versions that "
    'onnxruntime needs (pip install "onnxruntime-gpu[cuda,cudnn]")'
)


def _no_gpu(reason: str, hint: str) -> ConfigError:
    return ConfigError(
        f"no GPU can be used: {reason}.", where="judge.local.device", hint=f'{hint}, or set device = "cpu".'
    )


def _let_through(error: BaseException) -> None:
    """Re-raise `error` if it is an interruption and not the library's own panic."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error


def _unusable(file: str, reason: str) -> ConfigError:
    return ConfigError(f"can't be loaded: {reason}", where=file, hint="Check that the file is whole.")
