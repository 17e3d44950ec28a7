"""The policy in force: thresholds.toml, defaults, and the rules derived from both."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ragstone.errors import ConfigError, suggestion
from ragstone.gate.accepted import (
    ACCEPTED_FILE,
    AcceptedEntry,
    InForce,
    Target,
    read_accepted,
)
from ragstone.gate.calibration import Calibration, read_calibration
from ragstone.gate.policy_file import validated
from ragstone.gate.policy_table import PolicyTable
from ragstone.metrics.registry import METRICS, is_known, lower_is_better
from ragstone.printable import shown_name
from ragstone.settings.load import parse_toml, read_text
from ragstone.settings.source import MAX_RULES_BYTES, Source
from ragstone.settings.toml_lines import key_lines


class Policy(PolicyTable):
    """A policy in force: the content of thresholds.toml, and what belongs to it."""

    source: Source = Field(default_factory=Source, exclude=True)
    """Where it was read; empty if not from a file."""
    calibration: Calibration | None = Field(default=None, exclude=True)
    """How the judge compares with human labels, if the policy names such a file."""
    accepted: tuple[AcceptedEntry, ...] = Field(default=(), exclude=True)
    """The entries of accepted.toml next to it."""
    widened: Mapping[Target, AcceptedEntry] = Field(default_factory=dict, exclude=True)
    """The entries that are in force."""

    @classmethod
    def of(
        cls,
        table: PolicyTable,
        source: Source | None = None,
        accepted: tuple[AcceptedEntry, ...] = (),
    ) -> Policy:
        """The policy of a valid document."""
        return cls.model_construct(
            table.model_fields_set,
            **dict(table),
            source=source or Source(),
            accepted=accepted,
        )

    @property
    def alpha(self) -> float:
        """The share of unchanged runs that may fail by chance, in (0, 0.5]."""
        return 1.0 - self.gate.confidence

    def lower_is_better(self, metric: str) -> bool:
        """Whether less of `metric` is better. Of a metric that is not built in, the
        policy's own rules decide."""
        is_lower = lower_is_better(metric)
        if is_lower is not None:
            return is_lower
        return any(
            name == metric and rule.less_is_better for _, name, rule in self.rules()
        )

    @property
    def named_metrics(self) -> tuple[str, ...]:
        """The metrics, and families of metrics, that the policy has rules for."""
        names = [name for _, name, _ in self.rules()]
        return tuple(dict.fromkeys(names))

    def require_known_metrics(self, scored: Collection[str] = ()) -> None:
        """Raise ConfigError if the policy names a metric that is neither built in nor
        in `scored`."""
        for path, name, _ in self.rules():
            if name not in scored and not is_known(name):
                table = ".".join(path[:-1])
                raise ConfigError(
                    f"unknown metric '{name}' in [{table}].",
                    where=self.source.where(path),
                    hint=suggestion(name, {*METRICS, *scored}),
                )

    @property
    def file(self) -> str | None:
        """The file that it was read from."""
        return self.source.file

    def with_accepted(self, accepted: InForce) -> Policy:
        """This policy with accepted drops allowed."""
        return self.model_copy(update={"widened": accepted.widest})

    def for_part(self, ids: Collection[str], tags: Collection[str]) -> Policy:
        """This policy for some of the samples: without must-pass samples and slices
        that are not among them."""
        named = self.must_pass
        questions = {id: text for id, text in named.questions.items() if id in ids}
        samples = tuple(id for id in named.samples if id in ids)
        of_samples = {"samples": samples, "questions": questions}
        must_pass = named.model_copy(update=of_samples)
        slices = {tag: rules for tag, rules in self.slices.items() if tag in tags}
        of_part = {"must_pass": must_pass, "slices": slices}
        return self.model_copy(update=of_part)

    def with_inconclusive(self, what: Literal["pass", "warn", "fail"]) -> Policy:
        """This policy with another action for inconclusive checks (the ``fail-on``
        setting)."""
        gate = self.gate.model_copy(update={"inconclusive": what})
        return self.model_copy(update={"gate": gate})


def default_policy(folder: Path | None = None, *, within: Path | None = None) -> Policy:
    """The policy of a project without thresholds.toml, with the accepted.toml in
    `folder`."""
    if folder is None:
        return Policy.of(PolicyTable())
    accepted = read_accepted(folder / ACCEPTED_FILE, within=within)
    return Policy.of(PolicyTable(), accepted=accepted)


def load_policy(
    path: str | Path,
    *,
    known_metrics: Collection[str] | None = (),
    calibration: bool = True,
    within: Path | None = None,
) -> Policy:
    """The policy in `path`, with its calibration (unless `calibration` is False), both
    inside `within`.

    A metric must be built in or in `known_metrics`; None postpones that check until the
    scores are known (to `decide_gate`). Raises ConfigError with file, line, key, what
    was found and what is expected.
    """
    path = Path(path)
    if not os.path.lexists(path):
        raise ConfigError(
            f"policy file not found: {shown_name(str(path))}",
            hint="Run `ragstone init` to write one.",
        )
    text = read_text(path, within=within, limit=MAX_RULES_BYTES)
    document = parse_toml(text, path)
    source = Source(str(path), key_lines(text))
    table = validated(document, source)
    accepted = read_accepted(path.with_name(ACCEPTED_FILE), within=within)
    policy = Policy.of(table, source, accepted)
    if known_metrics is not None:
        policy.require_known_metrics(known_metrics)
    if calibration:
        return _with_calibration(policy, path.parent, within)
    return policy


def policy_from_mapping(mapping: Mapping[str, Any]) -> Policy:
    """The policy in `mapping`, which is structured like thresholds.toml.

    Its calibration is read relative to the current directory. `decide_gate` checks
    metric names once the scores are known. Raises ConfigError.
    """
    document = dict(mapping)
    table = validated(document, Source())
    policy = Policy.of(table)
    return _with_calibration(policy, Path())


def _with_calibration(
    policy: Policy, folder: Path, within: Path | None = None
) -> Policy:
    labels = policy.labels
    if labels.file is not None:
        file = folder / labels.file
        where = policy.source.where(("labels", "file"))
        calibration = read_calibration(file, where=where, within=within)
        return policy.model_copy(update={"calibration": calibration})
    if labels.min_agreement is not None or labels.estimate == "corrected":
        raise ConfigError(
            "[labels] needs a calibration file.",
            where=policy.source.where(("labels",)),
            hint='Run `ragstone calibrate LABELS -o calibration.json`, and set file = "calibration.json".',
        )
    return policy


def policy_hash(policy: Policy) -> str:
    """SHA-256 (hex) of the gate's rules, the default ones if the policy names none,
    whatever the layout of its file."""
    in_force = policy.in_force
    tables = {name: getattr(policy, name) for name in PolicyTable.model_fields}
    tables["metrics"] = {name: in_force[name] for name in policy.metrics or in_force}
    table = PolicyTable.model_construct(**tables)
    rules = table.model_dump(mode="json", exclude={"monitor"})
    body = json.dumps(rules, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(body.encode()).hexdigest()
