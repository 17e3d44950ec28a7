"""All settings, as the tables of a config file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    SecretStr,
    field_validator,
    model_validator,
)

MIN_SECRET_CHARACTERS = 6
"""Characters. What is shorter is no secret, and redacting it would garble ordinary text."""

MAX_SHARDS = 256
MAX_GATES = 500
"""As many as a matrix of GitHub has jobs."""

_METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MAX_METRICS = 50
_DIGEST = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
_DASK = re.compile(r"(?:tcp|tls|ws|wss)://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}")
_SHARD = re.compile(r"\s*(\d{1,4})\s*/\s*(\d{1,4})\s*")


Device = Literal["cpu", "cuda"]
Perturbing = Literal["typos", "case", "paraphrase", "empty", "injection", "long", "language"]
"""A kind of perturbed question (golden/perturb.py), in the order in which they are reported."""


def _words(value: object) -> object:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def _distinct_words(value: object) -> object:
    found = _words(value)
    texts = isinstance(found, (list, tuple)) and all(isinstance(one, str) for one in found)
    return tuple(dict.fromkeys(found)) if texts else found  # type: ignore[call-overload]


def _checked_digests(values: tuple[str, ...]) -> tuple[str, ...]:
    if not all(map(_DIGEST.fullmatch, values)):
        raise ValueError("must be SHA-256 digests as `ragstone check` prints them")
    return values


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
"""A list, or one text with spaces or commas between its words."""


def _optional(description: str, unset: str = "", **limits: Any) -> Any:
    """A setting without a default value; `unset` says what happens where it is not given."""
    return Field(default=None, description=description, json_schema_extra={"unset": unset}, **limits)


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GoldenSettings(_Table):
    """[golden]"""

    paths: tuple[str, ...] = Field(default=(), description="golden set files and globs")
    columns: dict[str, str] = Field(default_factory=dict, description="field to column, dotted paths allowed")
    limit: int | None = _optional("evaluate only the first N samples", ge=1)

    @field_validator("paths", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


class SystemPrice(_Table):
    """[system.price]: US dollars per million tokens of the model that the system under test uses."""

    input: float = Field(ge=0, allow_inf_nan=False, description="US dollars per million input tokens")
    output: float = Field(ge=0, allow_inf_nan=False, description="US dollars per million output tokens")


class HttpSettings(_Table):
    """[system.http]: request and reply of an HTTP entrypoint."""

    method: Literal["POST", "GET"] = Field(
        default="POST", description="`GET` sends no body: the question is `{question}` in the URL"
    )
    question_field: str = Field(
        default="question",
        description="request field for the question; a list in `body` by position: `messages.-1.content`",
    )
    id_field: str = Field(default="id", description="request field for the sample's id; empty: it is not sent")
    history_field: str = Field(default="history", description="request field for the earlier turns of a conversation")
    given_contexts_field: str = Field(
        default="contexts", description="request field for contexts that the system is given, in place of its own"
    )
    headers: dict[str, str] = Field(
        default_factory=dict,
        description="request headers; ${NAME} is replaced by the environment variable if listed in system.env",
    )
    body: dict[str, Any] = Field(default_factory=dict, description="constant request fields")


class SystemSettings(_Table):
    """[system]"""

    entrypoint: str | None = _optional(
        "entrypoint of the system under test: `python:package.module:attribute`, `command:…`, `http(s)://…` or `file:…`"
    )
    part: Literal["retrieval", "generation"] | None = _optional(
        "the half that is evaluated: `retrieval` returns contexts without an answer, `generation` is given the "
        "`reference_contexts` of the golden set",
        "the whole system",
    )
    takes_contexts: bool | None = _optional(
        "whether the entrypoint takes contexts that it is given", "as its signature says"
    )
    version: str | None = _optional("version of the system, for the history", max_length=200)
    python: str | None = _optional("interpreter for a python entrypoint")
    working_directory: str | None = _optional("working directory of the system", "the config file's folder")
    timeout_s: Seconds = Field(default=60.0, description="timeout per question, in seconds")
    startup_timeout_s: Seconds = Field(default=120.0, description="seconds until a worker must be ready")
    setup_timeout_s: Seconds = Field(
        default=1800.0, description="timeout for each of the action's `setup` and `requirements`, in seconds"
    )
    concurrency: int = Field(default=4, ge=1, le=256, description="number of concurrent questions")
    retries: int = Field(default=1, ge=0, le=10, description="retries for a failed question")
    memory_limit_mb: int | None = _optional("memory limit in MB per worker of a python entrypoint", ge=16)
    env: Words = Field(default=(), description="names of environment variables passed to the system under test")
    answer_field: str | None = _optional("dotted path to the answer", "the known names")
    contexts_field: str | None = _optional("dotted path to the contexts", "the known names")
    context_text_field: str | None = _optional("dotted path to the text, in each context", "the known names")
    context_id_field: str | None = _optional("dotted path to the id, in each context", "the known names")
    context_score_field: str | None = _optional(
        "dotted path to the retriever's score, in each context", "the known names"
    )
    price: SystemPrice | None = _optional(
        "price of the system's tokens, `input` and `output`, in US dollars per million; without it, no cost is reported"
    )
    http: HttpSettings = HttpSettings()
    _functions: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @property
    def functions(self) -> Mapping[str, str]:
        """Metric to function, if these settings are for a worker that calls functions of custom metrics."""
        return self._functions

    def calling(self, functions: Mapping[str, str], *, timeout_s: float) -> SystemSettings:
        """The settings of a worker that calls `functions` in the system's interpreter and environment."""
        found = self.model_copy(update={"entrypoint": None, "timeout_s": timeout_s, "retries": 0, "part": None})
        found._functions = dict(functions)
        return found


class Price(SystemPrice):
    """US dollars per million tokens."""

    cached_input: float | None = Field(default=None, ge=0)


class LocalWeights(_Table):
    """[judge.local.weights]: log-odds = bias + words · log-odds by words + model · log-odds by the model."""

    bias: float = Field(default=0.0, allow_inf_nan=False, description="added to the log-odds")
    words: float = Field(ge=0, allow_inf_nan=False, description="weight of the lexical evidence")
    model: float = Field(ge=0, allow_inf_nan=False, description="weight of the model")


class LocalJudgeSettings(_Table):
    """[judge.local]: how the model of ``local:FOLDER`` is read."""

    device: Device = Field(
        default="cpu", description="where local models run, also for embeddings: `cpu`, or `cuda` for an NVIDIA GPU"
    )
    labels: tuple[str, ...] = Field(
        default=(), description="meaning of each output of the model, where its config.json does not say"
    )
    template: str | None = _optional("text with {context} and {statement}, for models that are not asked by pairs")
    max_tokens: int | None = _optional(
        "maximum number of tokens for the model at once", "as its config says, at most 512", ge=32, le=8192
    )
    language: Literal["en", "de", "fr", "es"] = Field(
        default="en", description="language of the pairs that the model must tell apart before it judges"
    )
    threads: int | None = _optional("threads for the model", "one per core, at most 4", ge=1, le=64)
    alone: bool = Field(default=False, description="the model decides without the lexical evidence")
    weights: LocalWeights | None = _optional("weights of the model and the lexical evidence", "the shipped ones")

    @field_validator("template")
    @classmethod
    def _both(cls, value: str | None) -> str | None:
        if value is not None and not (value.count("{context}") == 1 and "{statement}" in value):
            raise ValueError("must contain {context} once, and {statement}")
        return value


class JudgeSettings(_Table):
    """[judge]. `name` is ``offline``, ``local:FOLDER``, or a provider and its model: ``openai:MODEL``."""

    name: str = Field(
        default="offline",
        description="the judge: `offline`, `fitted:FILE`, `local:FOLDER`, `openai:MODEL`, `anthropic:MODEL` or "
        "`openai-compatible:MODEL`",
    )
    local: LocalJudgeSettings = LocalJudgeSettings()
    model_digests: Annotated[Words, AfterValidator(_checked_digests)] = Field(
        default=(), description="digests of the local models and fitted judges that may be loaded; none named: any"
    )
    base_url: str | None = _optional("address of an OpenAI-compatible server or a gateway", "the provider's")
    api_key: SecretStr | None = _optional("API key of the judge; the system under test never sees it")
    auth: Literal["key", "oidc"] | None = _optional(
        "`key`, or `oidc` for the CI job's identity", "a key if there is one, else the identity"
    )
    headers: SecretStr | None = _optional("`Name: value` lines sent to the judge")
    embeddings: str | None = _optional("embedding model for answer relevancy, or `local:FOLDER`", "the judge's")
    embeddings_base_url: str | None = _optional("address of the embeddings", "the judge's")
    embeddings_api_key: SecretStr | None = _optional("API key for that address")
    concurrency: int = Field(default=64, ge=1, le=1024, description="maximum number of concurrent calls")
    timeout_s: Seconds = Field(default=120.0, description="timeout per call, in seconds")
    max_attempts: int = Field(default=5, ge=1, le=20, description="attempts per call")
    breaker_failures: int = Field(default=20, ge=1, description="consecutive failures that stop the run")
    requests_per_minute: int | None = _optional(
        "requests per minute that your account may use", "as the provider reports", ge=1
    )
    tokens_per_minute: int | None = _optional(
        "tokens per minute that your account may use", "as the provider reports", ge=1
    )
    context_window: int | None = _optional(
        "maximum number of tokens that the model reads", "as known, else 128,000", ge=1024
    )
    parameters: dict[str, JsonValue] = Field(
        default_factory=dict, description="passed to the model, such as temperature; can be nested"
    )
    max_cost_usd: float | None = _optional(
        "maximum judge cost in US dollars; before it is exceeded, the run stops and is saved", gt=0
    )
    prices: dict[str, Price] = Field(default_factory=dict, description="prices by model; override the shipped ones")
    ca_bundle: str | None = _optional("additional certificates to trust")
    refresh: bool = Field(default=False, description="ignore cached judgements")
    canaries: int | None = _optional(
        "number of baseline judgements to repeat, to detect a change of the judge",
        "20 for push, scheduled and manual runs on GitHub, else 0",
        ge=0,
        le=500,
    )
    batch: bool = Field(default=False, description="use the provider's batch API (cheaper, slower)")

    @field_validator("api_key", "headers", "embeddings_api_key", mode="after")
    @classmethod
    def _blank_is_absent(cls, value: SecretStr | None) -> SecretStr | None:
        found = value.get_secret_value().strip() if value is not None else ""
        return SecretStr(found) if found else None

    def secrets(self) -> tuple[str, ...]:
        """Keys and header values, which must never be shown."""
        values = [value.get_secret_value() for value in (self.api_key, self.embeddings_api_key) if value is not None]
        if self.headers is not None:
            values += [line.partition(":")[2] for line in self.headers.get_secret_value().splitlines()]
        return tuple(value.strip() for value in values if value.strip())


class RunSettings(_Table):
    """[run]"""

    out: str = Field(default="ragstone-run", description="run directory to write")
    metrics: Words | None = _optional("metrics to compute", "the headline metrics")
    repeats: int = Field(default=1, ge=1, le=20, description="independent judgements of each answer")
    answers: int = Field(default=1, ge=1, le=20, description="how often to ask the system each question")
    resume: bool = Field(default=False, description="resume the unfinished run in the directory")
    time_limit_s: Seconds | None = _optional(
        "time limit for the whole run in seconds, `setup` included; then the run is saved and exits with code 124"
    )
    oracle: bool = Field(
        default=False,
        description="ask again with the reference contexts given, to divide what is missing into retrieval and "
        "generation",
    )
    stop_early: bool = Field(default=False, description="stop when every blocking check is decided")
    seed: int = Field(default=0, ge=0, description="seed for all randomness")
    history: str | None = _optional("file with one line per run, to compare with; on GitHub it is kept automatically")
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = Field(
        default="auto",
        description="processes that judge with the offline judge or a local model; `auto`: one for each core, if there "
        "is enough to judge",
    )
    dask: str | None = _optional(
        "scheduler of a Dask cluster that judges with the offline judge or a local model, such as "
        "`tcp://scheduler:8786`; instead of `workers`"
    )
    shard: str | None = _optional("part of the golden set to evaluate, such as `3/8`; merge the parts afterwards")
    perturb: Annotated[tuple[Perturbing, ...], BeforeValidator(_distinct_words)] = Field(
        default=(),
        description="ask some questions again in these ways: `typos`, `case`, `paraphrase`, `empty`, `injection`, "
        "`long`, `language`",
    )
    perturb_samples: int = Field(default=20, ge=1, le=10_000, description="number of questions to ask again")
    perturb_language: str = Field(
        default="German",
        pattern=r"^[^\W\d_][\w ()'-]{1,40}$",
        description="language that the kind `language` translates questions into",
    )

    @field_validator("dask", mode="after")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is None or not value.strip():
            return None
        if not _DASK.fullmatch(value.strip()):
            raise ValueError("must be the address of a scheduler, such as tcp://scheduler:8786 or tls://scheduler:8786")
        return value.strip()

    @field_validator("shard", mode="after")
    @classmethod
    def _part(cls, value: str | None) -> str | None:
        if value is None:
            return None
        found = _SHARD.fullmatch(value)
        number, of = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= number <= of <= MAX_SHARDS:
            raise ValueError(f"must be K/N, such as 3/8, with K from 1 to N, and N at most {MAX_SHARDS}")
        return f"{number}/{of}"


class GateSettings(_Table):
    """[gate]"""

    thresholds: str | None = _optional("policy file", "`thresholds.toml` if it exists")
    baseline: str | None = _optional("run directory to compare with")
    baseline_any: bool = Field(default=False, description="compare with the named baseline even if its run failed")
    baseline_commit: str | None = _optional(
        "commit, branch or tag to compare with: its system is asked the same questions in the same job"
    )
    baseline_entrypoint: str | None = _optional(
        "entrypoint of the system at that commit, such as the address of a second service", "the commit's own"
    )
    baseline_python: str | None = _optional("interpreter of the system at that commit", "that of the current system")
    baseline_store: str | None = _optional(
        "store to find the baseline in: `folder:PATH`, `s3://BUCKET/PREFIX`, `git-notes` or `gitlab`"
    )
    baseline_branch: str | None = _optional(
        "branch whose runs are kept in the store", "the default branch, else `main`", max_length=200
    )
    save_baseline: bool = Field(
        default=False, description="keep the run in the store, if it is one of that branch and can be a baseline"
    )
    fail_on: Literal["fail", "inconclusive", "never"] | None = _optional(
        "verdicts that fail the job: `fail`, `inconclusive` (and `fail`), or `never`", "as the policy says"
    )
    gates: int = Field(
        default=1,
        ge=1,
        le=MAX_GATES,
        description="number of gates that share the policy's error rate, this one included: each gets an equal part",
    )
    without_key: Literal["skip", "offline"] = Field(
        default="skip",
        description="for a pull request without secrets (from a fork), if the judge needs a key: skip the metrics that "
        "need the judge, or use the offline judge",
    )


class CustomMetric(_Table):
    """[metrics.NAME]: a metric of the user's own, either a rubric for the judge or a Python function."""

    rubric: str | None = _optional(
        "what the judge is asked about each answer: a yes-or-no question, or what `levels` describe", max_length=4000
    )
    levels: tuple[str, ...] = Field(
        default=(), max_length=10, description="descriptions of the possible grades, worst first; none: no and yes"
    )
    sees: tuple[Literal["question", "answer", "contexts", "reference"], ...] = Field(
        default=("question", "answer"), min_length=1, description="what the judge sees"
    )
    python: str | None = _optional("the function, as `package.module:function` or `file.py:function`")
    timeout_s: Seconds = Field(default=10.0, le=3600, description="timeout of the function per answer, in seconds")
    _function: Callable[..., object] | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.rubric is None) is (self.python is None):
            raise ValueError("needs either 'rubric' or 'python'")
        if self.rubric is not None and not self.rubric.strip():
            raise ValueError("the rubric is empty")
        if self.python is not None and {"levels", "sees"} & self.model_fields_set:
            raise ValueError("'levels' and 'sees' are for rubrics; a function's parameters say what it sees")
        if self.rubric is not None and "timeout_s" in self.model_fields_set:
            raise ValueError("'timeout_s' is for functions; the judge has judge.timeout_s")
        if len(self.levels) == 1 or any(not level.strip() for level in self.levels):
            raise ValueError("'levels' needs 2 to 10 descriptions, worst first")
        if len(set(self.levels)) < len(self.levels) or len(set(self.sees)) < len(self.sees):
            raise ValueError("lists a value twice")
        return self

    @property
    def function(self) -> Callable[..., object] | None:
        """The function itself, where it was passed to the Python API."""
        return self._function

    @classmethod
    def calling(cls, function: Callable[..., object], *, timeout_s: float = 10.0) -> CustomMetric:
        """A metric that calls `function` in this process."""
        name = getattr(function, "__qualname__", type(function).__qualname__)
        found = cls(python=f"{getattr(function, '__module__', None) or 'callable'}:{name}", timeout_s=timeout_s)
        found._function = function
        return found


class Settings(_Table):
    """All settings, frozen. Relative paths start from `root`.

    `within` is the folder that every named file must be in, None for anywhere. `config` is the config file that was
    named explicitly, None for the one in `root`, if any; `file` is the one that was read, None if there is none.
    `from_file` contains the keys (``judge.base_url``) whose value comes from the file and is not overridden. `of_file`
    are the settings of the file alone, without environment and flags; None if there is no file, or if it is not valid
    by itself.
    """

    root: Path = Path()
    within: Path | None = None
    config: Path | None = None
    file: Path | None = None
    from_file: frozenset[str] = frozenset()
    of_file: Settings | None = Field(default=None, repr=False)
    golden: GoldenSettings = GoldenSettings()
    system: SystemSettings = SystemSettings()
    judge: JudgeSettings = JudgeSettings()
    run: RunSettings = RunSettings()
    gate: GateSettings = GateSettings()
    metrics: dict[str, CustomMetric] = Field(default_factory=dict)

    @field_validator("metrics")
    @classmethod
    def _names(cls, value: dict[str, CustomMetric]) -> dict[str, CustomMetric]:
        for name in value:
            if not _METRIC_NAME.fullmatch(name):
                raise ValueError(f"'{name}' is not a metric's name: use letters, digits and _, starting with a letter")
        if len(value) > _MAX_METRICS:
            raise ValueError(f"defines {len(value)} metrics; at most {_MAX_METRICS}")
        return value

    def path(self, value: str) -> Path:
        """`value` as a path, relative to `root`."""
        return self.root / value


TABLES = ("golden", "system", "judge", "run", "gate", "metrics")
"""The tables of a config file."""

METRICS = "metrics"
"""The table of custom metrics: its keys are names, not settings."""
