"""Every setting that can be set outside the config file, with its environment variable and flag."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ragstone.config.settings import Settings


def default_text(field: FieldInfo) -> str:
    """The default of a setting in Markdown: its value, or what happens without one; empty for nothing."""
    value = field.get_default(call_default_factory=True)
    if value is None or value is False or value in ((), {}):
        extra = field.json_schema_extra
        return str(extra.get("unset", "")) if isinstance(extra, dict) else ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


@dataclass(frozen=True, slots=True)
class Option:
    """A setting and its names: table and key in the file, environment variable, and flag (without dashes), if any.

    `metavar` stands for the value of the flag in help. `is_path`: relative values set outside the file are relative to
    the current directory, not to the file's folder.
    `path_after` is the scheme after which a value is a path: ``file`` in ``file:answers.jsonl``.
    `of_gate`: the decision needs it, not the evaluation. `secret`: it is never shown, and never in a file.
    """

    key: str
    env: str
    flag: str | None = None
    metavar: str | None = None
    in_file: bool = True
    secret: bool = False
    is_path: bool = False
    path_after: str | None = None
    of_gate: bool = False

    def path_in(self, value: str) -> str | None:
        """The path in a `value` with the scheme `path_after`, None if it has none."""
        scheme, _, path = value.strip().partition(":")
        return path.strip() or None if scheme == self.path_after else None

    @property
    def table(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        return self.key.partition(".")[2]

    @property
    def field(self) -> FieldInfo:
        """The setting itself: its type, its default, and the one description that help and documentation show."""
        table = Settings.model_fields[self.table].annotation
        assert isinstance(table, type)  # noqa: S101 - for the type checker
        assert issubclass(table, BaseModel)  # noqa: S101
        return table.model_fields[self.name]

    @property
    def sentence(self) -> str:
        """The description with a capital, without a full stop, in Markdown."""
        text = self.field.description or ""
        return text[:1].upper() + text[1:]


OPTIONS: tuple[Option, ...] = (
    Option("golden.paths", "RAGSTONE_GOLDEN", "golden", "FILE", is_path=True),
    Option("golden.limit", "RAGSTONE_LIMIT", "limit", "N"),
    Option("system.entrypoint", "RAGSTONE_ENTRYPOINT", "entrypoint", "WHERE", path_after="file"),
    Option("system.version", "RAGSTONE_SYSTEM_VERSION"),
    Option("system.python", "RAGSTONE_PYTHON", "python", "EXE", is_path=True),
    Option("system.working_directory", "RAGSTONE_WORKING_DIRECTORY", is_path=True),
    Option("system.timeout_s", "RAGSTONE_TIMEOUT", "timeout", "SECONDS"),
    Option("system.startup_timeout_s", "RAGSTONE_STARTUP_TIMEOUT"),
    Option("system.setup_timeout_s", "RAGSTONE_SETUP_TIMEOUT"),
    Option("system.concurrency", "RAGSTONE_CONCURRENCY", "concurrency", "N"),
    Option("system.retries", "RAGSTONE_SYSTEM_RETRIES"),
    Option("system.memory_limit_mb", "RAGSTONE_SYSTEM_MEMORY_LIMIT"),
    Option("system.env", "RAGSTONE_SYSTEM_ENV", "system-env", "NAMES"),
    Option("judge.name", "RAGSTONE_JUDGE", "judge", "NAME", path_after="local"),
    Option("judge.base_url", "RAGSTONE_JUDGE_BASE_URL", "judge-base-url", "URL"),
    Option("judge.api_key", "RAGSTONE_JUDGE_API_KEY", in_file=False, secret=True),
    Option("judge.auth", "RAGSTONE_JUDGE_AUTH"),
    Option("judge.headers", "RAGSTONE_JUDGE_HEADERS", in_file=False, secret=True),
    Option("judge.model_digests", "RAGSTONE_MODEL_DIGESTS"),
    Option("judge.embeddings", "RAGSTONE_EMBEDDINGS", "embeddings", "MODEL", path_after="local"),
    Option("judge.embeddings_base_url", "RAGSTONE_EMBEDDINGS_BASE_URL"),
    Option("judge.embeddings_api_key", "RAGSTONE_EMBEDDINGS_API_KEY", in_file=False, secret=True),
    Option("judge.concurrency", "RAGSTONE_JUDGE_CONCURRENCY"),
    Option("judge.timeout_s", "RAGSTONE_JUDGE_TIMEOUT"),
    Option("judge.requests_per_minute", "RAGSTONE_REQUESTS_PER_MINUTE"),
    Option("judge.tokens_per_minute", "RAGSTONE_TOKENS_PER_MINUTE"),
    Option("judge.max_cost_usd", "RAGSTONE_MAX_COST_USD", "max-cost-usd", "USD"),
    Option("judge.ca_bundle", "RAGSTONE_CA_BUNDLE", is_path=True),
    Option("judge.canaries", "RAGSTONE_CANARIES"),
    Option("judge.refresh", "RAGSTONE_REFRESH", "refresh"),
    Option("judge.batch", "RAGSTONE_BATCH", "batch"),
    Option("run.out", "RAGSTONE_OUT", "out", "DIR", is_path=True),
    Option("run.metrics", "RAGSTONE_METRICS", "metrics", "NAMES"),
    Option("run.repeats", "RAGSTONE_REPEATS", "repeats", "K"),
    Option("run.answers", "RAGSTONE_ANSWERS", "answers", "K"),
    Option("run.oracle", "RAGSTONE_ORACLE", "oracle"),
    Option("run.resume", "RAGSTONE_RESUME", "resume"),
    Option("run.time_limit_s", "RAGSTONE_TIME_LIMIT", "time-limit", "SECONDS"),
    Option("run.workers", "RAGSTONE_WORKERS", "workers", "N"),
    Option("run.dask", "RAGSTONE_DASK", "dask", "ADDRESS"),
    Option("run.stop_early", "RAGSTONE_STOP_EARLY", "stop-early", of_gate=True),
    Option("run.shard", "RAGSTONE_SHARD", "shard", "K/N", in_file=False),
    Option("run.perturb", "RAGSTONE_PERTURB", "perturb", "KINDS"),
    Option("run.perturb_samples", "RAGSTONE_PERTURB_SAMPLES", "perturb-samples", "N"),
    Option("run.perturb_language", "RAGSTONE_PERTURB_LANGUAGE"),
    Option("run.seed", "RAGSTONE_SEED", "seed", "N", of_gate=True),
    Option("run.history", "RAGSTONE_HISTORY", "history", "FILE", is_path=True, of_gate=True),
    Option("gate.thresholds", "RAGSTONE_THRESHOLDS", "thresholds", "FILE", is_path=True, of_gate=True),
    Option("gate.baseline", "RAGSTONE_BASELINE", "baseline", "RUN_DIR", is_path=True, of_gate=True),
    Option("gate.baseline_any", "RAGSTONE_BASELINE_ANY", "baseline-any", of_gate=True),
    Option("gate.baseline_commit", "RAGSTONE_BASELINE_COMMIT", "baseline-commit", "REF", of_gate=True),
    Option("gate.baseline_entrypoint", "RAGSTONE_BASELINE_ENTRYPOINT", "baseline-entrypoint", "WHERE", of_gate=True),
    Option("gate.baseline_python", "RAGSTONE_BASELINE_PYTHON", "baseline-python", "EXE", is_path=True, of_gate=True),
    Option("gate.baseline_store", "RAGSTONE_BASELINE_STORE", "baseline-store", "STORE", of_gate=True),
    Option("gate.baseline_branch", "RAGSTONE_BASELINE_BRANCH", "baseline-branch", "NAME", of_gate=True, in_file=False),
    Option("gate.save_baseline", "RAGSTONE_SAVE_BASELINE", "save-baseline", of_gate=True),
    Option("gate.fail_on", "RAGSTONE_FAIL_ON", "fail-on", of_gate=True),
    Option("gate.gates", "RAGSTONE_GATES", "gates", "N", of_gate=True),
)

SECRET_VARIABLES = tuple(option.env for option in OPTIONS if option.secret)
"""Variables of settings that are secret, and so come from nowhere else."""


def option_of(key: str) -> Option:
    """The option of the setting `key`, such as ``judge.api_key``."""
    return next(option for option in OPTIONS if option.key == key)


def variable_of(key: str) -> str:
    """The environment variable of the setting `key`."""
    return option_of(key).env
