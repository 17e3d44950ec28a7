"""The policy: the content of thresholds.toml, with the calibration and the accepted
drops that belong to it."""

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
    EntriesInForce,
    Target,
    read_accepted,
)
from ragstone.gate.calibration import Calibration, read_calibration
from ragstone.gate.policy_file import validate_policy
from ragstone.gate.policy_table import PolicyTable
from ragstone.metrics.registry import METRICS, is_known, lower_is_better
from ragstone.printable import shown_name
from ragstone.settings.load import parse_toml, read_text
from ragstone.settings.source import MAX_RULES_BYTES, Source
from ragstone.settings.toml_lines import key_lines


class Policy(PolicyTable):
    """The content of thresholds.toml, and what belongs to it."""

    source: Source = Field(default_factory=Source, exclude=True)
    """The file that it was read from; empty if it was not read from a file."""
    calibration: Calibration | None = Field(default=None, exclude=True)
    """How the judge compares with human labels, if the policy names such a file."""
    accepted: tuple[AcceptedEntry, ...] = Field(default=(), exclude=True)
    """The entries of accepted.toml next to the file."""
    accepted_in_force: Mapping[Target, AcceptedEntry] = Field(
        default_factory=dict, exclude=True
    )
    """The largest entry in force, for each metric and slice."""

    @classmethod
    def of(
        cls,
        table: PolicyTable,
        source: Source | None = None,
        accepted: tuple[AcceptedEntry, ...] = (),
    ) -> Policy:
        """The policy with the keys of a valid `table`."""
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
        """Whether less of `metric` is better. For a metric that is not built in, the
        rules of the policy say so."""
        is_lower_better = lower_is_better(metric)
        if is_lower_better is not None:
            return is_lower_better
        return any(
            name == metric and rule.says_lower_is_better
            for _, name, rule in self.rules()
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
        """The file that the policy was read from; None if it is not from a file."""
        return self.source.file

    def with_accepted(self, accepted: EntriesInForce) -> Policy:
        """This policy with the drops allowed that are accepted."""
        return self.model_copy(update={"accepted_in_force": accepted.largest})

    def for_part(self, ids: Collection[str], tags: Collection[str]) -> Policy:
        """This policy for the samples `ids` with `tags`, without its must-pass samples
        and slices that are not among them."""
        must_pass = self.must_pass
        questions = {
            sample_id: text
            for sample_id, text in must_pass.questions.items()
            if sample_id in ids
        }
        samples = tuple(
            sample_id for sample_id in must_pass.samples if sample_id in ids
        )
        must_pass = must_pass.model_copy(
            update={"samples": samples, "questions": questions}
        )
        slices = {tag: rules for tag, rules in self.slices.items() if tag in tags}
        return self.model_copy(update={"must_pass": must_pass, "slices": slices})

    def with_inconclusive(self, action: Literal["pass", "warn", "fail"]) -> Policy:
        """This policy with another action for inconclusive checks, as the setting
        ``fail_on`` demands."""
        gate = self.gate.model_copy(update={"inconclusive": action})
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
    """Read the policy in `path`, and its calibration unless `calibration` is False. Both
    files must be inside the folder `within`.

    A metric must be built in or in `known_metrics`. None postpones that check to
    `decide_gate`, when the scores are known. Raises ConfigError with file, line, key,
    what was found and what is expected.
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
    table = validate_policy(document, source)
    accepted = read_accepted(path.with_name(ACCEPTED_FILE), within=within)
    policy = Policy.of(table, source, accepted)
    if known_metrics is not None:
        policy.require_known_metrics(known_metrics)
    if calibration:
        return _with_calibration(policy, path.parent, within)
    return policy


def policy_from_mapping(mapping: Mapping[str, Any]) -> Policy:
    """The policy in `mapping`, which is structured like thresholds.toml.

    The path of its calibration is relative to the current directory. `decide_gate`
    checks the names of metrics, when the scores are known. Raises ConfigError.
    """
    table = validate_policy(dict(mapping), Source())
    policy = Policy.of(table)
    return _with_calibration(policy, Path())


def _with_calibration(
    policy: Policy, folder: Path, within: Path | None = None
) -> Policy:
    """`policy` with the calibration that it names, if any. Raises ConfigError if it
    needs one and names none."""
    labels = policy.labels
    if labels.file is not None:
        file = folder / labels.file
        where = policy.source.where(("labels", "file"))
        calibration = read_calibration(file, where=where, within=within)
        return policy.model_copy(update={"calibration": calibration})
    if labels.min_agreement is not None or labels.estimate == "corrected":
        raise ConfigError(
            "min_agreement and estimate under [labels] need a calibration file.",
            where=policy.source.where(("labels",)),
            hint='Run `ragstone calibrate LABELS -o calibration.json`, and set file = "calibration.json".',
        )
    return policy


def policy_hash(policy: Policy) -> str:
    """The SHA-256 (hex) of the rules of the gate, whatever the layout of the file. The
    default rules of metrics count only if the policy names no metric."""
    rules_in_force = policy.rules_in_force
    tables = {name: getattr(policy, name) for name in PolicyTable.model_fields}
    tables["metrics"] = {
        name: rules_in_force[name] for name in policy.metrics or rules_in_force
    }
    table = PolicyTable.model_construct(**tables)
    rules = table.model_dump(mode="json", exclude={"monitor"})
    body = json.dumps(rules, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(body.encode()).hexdigest()
