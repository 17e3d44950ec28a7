"""What the rounds of a run add to it: each kind of round writes a small file of its own
beside the manifest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from pydantic import NonNegativeInt

from ragstone.errors import RunDirectoryError, disk_errors, parse_errors
from ragstone.evaluation.manifest import Part, Summed
from ragstone.evaluation.run_files import replace_text, writing_to
from ragstone.files import read_regular

FACTS_FILES = ("judge.json", "confirm.json", "oracle.json")
MAX_FACTS_BYTES = 4 * 1024 * 1024


class Observed(Summed):
    """What the replies of a judge show of it, sorted and without duplicates.

    If judgements of a baseline were reused, this includes what was observed there.

    - `models`: the models that the provider names.
    - `ways`: the modes in which replies were constrained to a schema.
    """

    models: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()


class CanaryCounts(Part):
    """The result of repeating judgements of the baseline.

    - `asked`: how many were repeated and did not fail.
    - `differing`: how many of these have another verdict.
    - `unanswered`: how many failed.
    - `supported_then`, `supported_now`: how many statements were supported in the
      baseline, and are now.
    - `models`: the models that the provider names.
    """

    asked: NonNegativeInt
    differing: NonNegativeInt
    unanswered: NonNegativeInt = 0
    supported_then: NonNegativeInt = 0
    supported_now: NonNegativeInt = 0
    models: tuple[str, ...] = ()


class Planted(Part):
    """The result of judging planted wrong answers.

    - `asked`: how many were judged and did not fail.
    - `passed`: how many the judge let pass; steered ones don't count.
    - `passed_anywhere`: how many of these pass with unrelated contexts, too.
    - `steered`: the ids of samples whose contexts make the judge support anything.
    - `unanswered`: how many the judge failed on.
    """

    asked: NonNegativeInt
    passed: NonNegativeInt
    passed_anywhere: NonNegativeInt = 0
    steered: tuple[str, ...] = ()
    unanswered: NonNegativeInt = 0


class JudgeFacts(Part):
    """What was observed of the judge while it judged the run; None for what was not
    observed or not tried."""

    observed: Observed | None = None
    canaries: CanaryCounts | None = None
    planted: Planted | None = None


class ConfirmFacts(Part):
    """Whether the system was asked again because of a doubt, and whether it was
    `steady`: gave the same answers."""

    asked_again: bool = False
    steady: bool = False


class OracleFacts(Part):
    """The oracle half of a run, whose records are in its folder `oracle/`.

    - `asked`: how many samples were to be asked again.
    - `without`: how many were not, because they have no reference contexts.
    - `unanswered`: how many were not, because the system had failed on them.
    - `strangers`: how many answers came with other contexts than the given ones.
    - `incomplete`: why the half was not finished; None if it was.
    """

    asked: NonNegativeInt
    without: NonNegativeInt
    unanswered: NonNegativeInt
    strangers: NonNegativeInt = 0
    incomplete: str | None = None


class RoundFacts(Struct, frozen=True):
    """The facts of all rounds of a run; `oracle` is None without an oracle half."""

    judge: JudgeFacts = field(default_factory=JudgeFacts)
    confirm: ConfirmFacts = field(default_factory=ConfirmFacts)
    oracle: OracleFacts | None = None


_FACTS_BY_ROUND: dict[str, type[Part]] = {
    "judge": JudgeFacts,
    "confirm": ConfirmFacts,
    "oracle": OracleFacts,
}


def read_facts(run: Path) -> RoundFacts:
    """The facts in the run directory `run`; the default ones for a round that wrote
    none. Raises RunDirectoryError."""
    facts: dict[str, Any] = {}
    hint = "Run the evaluation again with this version of Ragstone."
    for name, facts_type in _FACTS_BY_ROUND.items():
        file = run / f"{name}.json"
        if os.path.lexists(file):
            with (
                disk_errors(file, kind=RunDirectoryError),
                parse_errors(
                    file,
                    "not a file of this version",
                    kind=RunDirectoryError,
                    hint=hint,
                ),
            ):
                body = read_regular(file, limit=MAX_FACTS_BYTES)
                facts[name] = facts_type.model_validate_json(body)
    return RoundFacts(**facts)


def write_facts(run: Path, facts: RoundFacts) -> None:
    """Replace the facts in the run directory `run`; there is no file for default ones.
    Raises RunDirectoryError."""
    defaults = RoundFacts()
    for name in _FACTS_BY_ROUND:
        file = run / f"{name}.json"
        round_facts = getattr(facts, name)
        if round_facts == getattr(defaults, name):
            with writing_to(file):
                file.unlink(missing_ok=True)
        else:
            replace_text(file, round_facts.model_dump_json(indent=2) + "\n")
