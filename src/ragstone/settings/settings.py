"""All settings, as the tables of a config file. options.toml says what each of them
means."""

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
"""Shorter values are not masked, because that would garble ordinary text."""

_METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MAX_CUSTOM_METRICS = 50
_DIGEST = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
_DASK_ADDRESS = re.compile(
    r"(?:tcp|tls|ws|wss)://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}"
)


def _split_words(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(value.replace(",", " ").split())


def _split_at_commas(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(filter(None, map(str.strip, value.split(","))))


def _check_digests(values: tuple[str, ...]) -> tuple[str, ...]:
    if not all(map(_DIGEST.fullmatch, values)):
        raise ValueError("must be SHA-256 digests as `ragstone check` prints them")
    return values


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Words = Annotated[tuple[str, ...], BeforeValidator(_split_words)]
"""A list, or one text with spaces or commas between its words."""

Ids = Annotated[tuple[str, ...], BeforeValidator(_split_at_commas)]
"""A list, or one text with commas between its ids, which can contain spaces."""


class _Table(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class GoldenSettings(_Table):
    """[golden]"""

    paths: tuple[str, ...] = ()
    columns: dict[str, str] = Field(default_factory=dict)
    history: Literal["own", "reference"] = "own"
    limit: int | None = Field(default=None, ge=1)
    only: Ids = ()
    tags: Ids = ()

    @field_validator("paths", mode="before")
    @classmethod
    def _accept_one_path(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


class SystemPrice(_Table):
    """[system.price]: US dollars per million tokens of the model that the system under
    test uses."""

    input: float = Field(
        ge=0, allow_inf_nan=False, description="US dollars per million input tokens"
    )
    output: float = Field(
        ge=0, allow_inf_nan=False, description="US dollars per million output tokens"
    )


class HttpSettings(_Table):
    """[system.http]: request and reply of an HTTP entrypoint."""

    question_field: str = "question"
    history_field: str = "history"
    session_field: str = "session_id"
    headers: dict[str, str] = Field(default_factory=dict)
    body: dict[str, Any] = Field(default_factory=dict)


class SystemSettings(_Table):
    """[system]"""

    entrypoint: str | None = None
    part: Literal["retrieval", "generation"] | None = None
    version: str | None = Field(default=None, max_length=200)
    python: str | None = None
    working_directory: str | None = None
    timeout_s: Seconds = 60.0
    startup_timeout_s: Seconds = 120.0
    concurrency: int = Field(default=4, ge=1, le=256)
    retries: int = Field(default=1, ge=0, le=10)
    env: Words = ()
    answer_field: str | None = None
    contexts_field: str | None = None
    context_text_field: str | None = None
    context_id_field: str | None = None
    steps_field: str | None = None
    price: SystemPrice | None = None
    http: HttpSettings = Field(default_factory=HttpSettings)
    _functions: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @property
    def functions(self) -> Mapping[str, str]:
        """The functions of custom metrics, by metric, if these settings are for a
        worker that calls them."""
        return self._functions

    def for_functions(
        self, functions: Mapping[str, str], *, timeout_s: float
    ) -> SystemSettings:
        """The settings of a worker that calls `functions`, in the interpreter and the
        environment of the system."""
        settings = self.model_copy(
            update={
                "entrypoint": None,
                "timeout_s": timeout_s,
                "retries": 0,
                "part": None,
            }
        )
        settings._functions = dict(functions)
        return settings


class Price(SystemPrice):
    """US dollars per million tokens."""

    cached_input: float | None = Field(default=None, ge=0)


class JudgeSettings(_Table):
    """[judge]"""

    name: str = "offline"
    """``offline``, ``fitted:FILE``, or a provider and its model: ``openai:MODEL``."""
    model_digests: Annotated[Words, AfterValidator(_check_digests)] = ()
    base_url: str | None = None
    api_key: SecretStr | None = None
    headers: SecretStr | None = None
    embeddings: str | None = None
    embeddings_base_url: str | None = None
    embeddings_api_key: SecretStr | None = None
    concurrency: int = Field(default=64, ge=1, le=1024)
    timeout_s: Seconds = 120.0
    patience_s: Seconds = 600.0
    context_window: int | None = Field(default=None, ge=1024)
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    max_cost_usd: float | None = Field(default=None, gt=0)
    prices: dict[str, Price] = Field(default_factory=dict)
    canaries: int | None = Field(default=None, ge=0, le=500)
    planted: int = Field(default=3, ge=0, le=20)
    earlier_contexts: bool = True

    @field_validator("api_key", "headers", "embeddings_api_key", mode="after")
    @classmethod
    def _unset_blank_secret(cls, value: SecretStr | None) -> SecretStr | None:
        secret = value.get_secret_value().strip() if value is not None else ""
        return SecretStr(secret) if secret else None

    def secrets(self) -> tuple[str, ...]:
        """The keys and header values, which must never be shown."""
        values = [
            value.get_secret_value()
            for value in (self.api_key, self.embeddings_api_key)
            if value is not None
        ]
        if self.headers is not None:
            values += [
                line.partition(":")[2]
                for line in self.headers.get_secret_value().splitlines()
            ]
        return tuple(value.strip() for value in values if value.strip())


class RunSettings(_Table):
    """[run]"""

    out: str = "ragstone-run"
    metrics: Words | None = None
    repeats: int = Field(default=1, ge=1, le=20)
    answers: int = Field(default=1, ge=1, le=20)
    resume: bool = False
    time_limit_s: Seconds | None = None
    oracle: bool = False
    history: str | None = None
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = "auto"
    dask: str | None = None

    @field_validator("dask", mode="after")
    @classmethod
    def _check_dask_address(cls, value: str | None) -> str | None:
        if value is None or not value.strip():
            return None
        if not _DASK_ADDRESS.fullmatch(value.strip()):
            raise ValueError(
                "must be the address of a scheduler, such as tcp://scheduler:8786 or tls://scheduler:8786"
            )
        return value.strip()


class GateSettings(_Table):
    """[gate]"""

    thresholds: str | None = None
    baseline: str | None = None
    baseline_commit: str | None = None
    baseline_entrypoint: str | None = None
    baseline_folder: str | None = None
    baseline_branch: str | None = Field(default=None, max_length=200)
    save_baseline: bool = False
    fail_on: Literal["fail", "inconclusive", "never"] | None = None
    without_key: Literal["skip", "offline"] = "skip"


class CustomMetric(_Table):
    """[metrics.NAME]: a metric of the user's own, either a rubric for the judge or a
    Python function."""

    rubric: str | None = Field(default=None, max_length=4000)
    levels: tuple[str, ...] = Field(default=(), max_length=10)
    sees: tuple[Literal["question", "answer", "contexts", "reference"], ...] = Field(
        default=("question", "answer"), min_length=1
    )
    python: str | None = None
    timeout_s: Seconds = Field(default=10.0, le=3600)
    _function: Callable[..., object] | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        is_rubric = self.rubric is not None
        is_function = self.python is not None
        if is_rubric == is_function:
            raise ValueError("needs either 'rubric' or 'python'")
        if self.rubric is None:
            self._refuse_options_of_rubrics()
        else:
            self._check_rubric(self.rubric)
        return self

    def _refuse_options_of_rubrics(self) -> None:
        if {"levels", "sees"} & self.model_fields_set:
            raise ValueError(
                "'levels' and 'sees' are for rubrics; the parameters of a function say what it sees"
            )

    def _check_rubric(self, rubric: str) -> None:
        if not rubric.strip():
            raise ValueError("the rubric is empty")
        if "timeout_s" in self.model_fields_set:
            raise ValueError(
                "'timeout_s' is for functions; set judge.timeout_s for the judge"
            )
        if len(self.levels) == 1 or not all(map(str.strip, self.levels)):
            raise ValueError("'levels' needs 2 to 10 descriptions, worst first")
        for values in (self.levels, self.sees):
            if len(set(values)) < len(values):
                raise ValueError("must not list a value twice")

    @property
    def function(self) -> Callable[..., object] | None:
        """The function itself, if it was passed to the Python API."""
        return self._function

    @classmethod
    def of_function(
        cls, function: Callable[..., object], *, timeout_s: float = 10.0
    ) -> CustomMetric:
        """A metric that calls `function` in this process."""
        name = getattr(function, "__qualname__", type(function).__qualname__)
        module = getattr(function, "__module__", None) or "callable"
        metric = cls(python=f"{module}:{name}", timeout_s=timeout_s)
        metric._function = function
        return metric


class Settings(_Table):
    """All settings, frozen."""

    root: Path = Path()
    """The folder from which relative paths start."""
    within: Path | None = None
    """The folder that every named file must be in; None for anywhere."""
    config: Path | None = None
    """The config file that was named explicitly; None for the one that was found."""
    file: Path | None = None
    """The config file that was read; None if there is none."""
    from_file: frozenset[str] = frozenset()
    """The keys, such as ``judge.base_url``, whose values are those of the file."""
    file_settings: Settings | None = Field(default=None, repr=False)
    """The settings of the file alone, without environment and flags; None if there is
    no file, or if it is not valid by itself."""
    golden: GoldenSettings = Field(default_factory=GoldenSettings)
    system: SystemSettings = Field(default_factory=SystemSettings)
    judge: JudgeSettings = Field(default_factory=JudgeSettings)
    run: RunSettings = Field(default_factory=RunSettings)
    gate: GateSettings = Field(default_factory=GateSettings)
    metrics: dict[str, CustomMetric] = Field(default_factory=dict)

    @field_validator("metrics")
    @classmethod
    def _check_metric_names(
        cls, metrics: dict[str, CustomMetric]
    ) -> dict[str, CustomMetric]:
        for name in metrics:
            if not _METRIC_NAME.fullmatch(name):
                raise ValueError(
                    f"'{name}' is not a name for a metric: use letters, digits and _, starting with a letter"
                )
        if len(metrics) > _MAX_CUSTOM_METRICS:
            raise ValueError(
                f"defines {len(metrics)} metrics, but at most {_MAX_CUSTOM_METRICS} are allowed"
            )
        return metrics

    def with_value(self, key: str, value: object) -> Settings:
        """These settings with another `value` of `key`, such as ``judge.base_url``."""
        table, _, name = key.partition(".")
        changed_table = getattr(self, table).model_copy(update={name: value})
        return self.model_copy(update={table: changed_table})

    def path(self, value: str) -> Path:
        """`value` as a path, relative to `root`."""
        return self.root / value

    def path_or_none(self, value: str | None) -> Path | None:
        """`value` as a path, relative to `root`; None for None."""
        return None if value is None else self.root / value


TABLES = ("golden", "system", "judge", "run", "gate", "metrics")
"""The tables of a config file."""

METRICS = "metrics"
"""The table of custom metrics: its keys are names, not settings."""
