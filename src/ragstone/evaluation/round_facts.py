"""What the rounds of a run add to it: each writes one small file beside the manifest,
and none writes another's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from pydantic import NonNegativeInt

from ragstone.errors import RunDirectoryError, disk_errors, parse_errors
from ragstone.evaluation.files import replace_text, writing_to
from ragstone.evaluation.manifest import Part, Summed
from ragstone.files import read_regular

FACTS_FILES = ("judge.json", "confirm.json", "oracle.json")
MAX_FACTS_BYTES = 4 * 1024 * 1024


class Observed(Summed):
    """The reported models and request modes in a judge's replies of a run, each once,
    sorted.

    `models` come from the provider; `ways` are the modes in which replies were
    constrained to a schema. Judgements reused from a baseline count with
    its observations.
    """

    models: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()


class Canaries(Part):
    """Repeated judgements of the baseline: how many succeeded, and how many verdicts
    differ.

    `models` are the models reported by the provider.
    """

    asked: NonNegativeInt
    differing: NonNegativeInt
    unanswered: NonNegativeInt = 0
    supported_then: NonNegativeInt = 0
    supported_now: NonNegativeInt = 0
    models: tuple[str, ...] = ()


class Planted(Part):
    """Planted wrong answers: how many were judged, how many of these passed, and how
    many the judge failed on.

    Those `passed_anywhere` pass with a passage of ours, too. `steered` are samples
    whose contexts make the judge support anything, which it does not otherwise.
    """

    asked: NonNegativeInt
    passed: NonNegativeInt
    passed_anywhere: NonNegativeInt = 0
    steered: tuple[str, ...] = ()
    unanswered: NonNegativeInt = 0


class JudgeFacts(Part):
    """What was seen of the judge while it judged the run. None: nothing, or it was not
    looked at."""

    observed: Observed | None = None
    canaries: Canaries | None = None
    planted: Planted | None = None


class ConfirmFacts(Part):
    """`asked_again`: whether the system was asked again because of a doubt. `steady`:
    whether it then said the same."""

    asked_again: bool = False
    steady: bool = False


class OracleFacts(Part):
    """The oracle half of a run, whose records are in its folder `oracle/`: `asked`
    samples were to be asked again.

    Not asked again were the samples `without` reference contexts, and those that the
    system had not answered before (`unanswered`). `strangers` are the answers that came
    with other contexts than they were given. `incomplete` is why the half has not
    reached its end.
    """

    asked: NonNegativeInt
    without: NonNegativeInt
    unanswered: NonNegativeInt
    strangers: NonNegativeInt = 0
    incomplete: str | None = None


class RoundFacts(Struct, frozen=True):
    """The facts of all rounds of a run. `oracle` is None if it has no oracle half."""

    judge: JudgeFacts = field(default_factory=JudgeFacts)
    confirm: ConfirmFacts = field(default_factory=ConfirmFacts)
    oracle: OracleFacts | None = None


_KINDS: dict[str, type[Part]] = {
    "judge": JudgeFacts,
    "confirm": ConfirmFacts,
    "oracle": OracleFacts,
}


def read_facts(run: Path) -> RoundFacts:
    """The facts in the run directory `run`; a round that wrote none has none. Raises
    RunDirectoryError."""
    facts: dict[str, Any] = {}
    hint = "Run the evaluation again with this version of Ragstone."
    for name, kind in _KINDS.items():
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
                facts[name] = kind.model_validate_json(body)
    return RoundFacts(**facts)


def write_facts(run: Path, facts: RoundFacts) -> None:
    """Write `facts` in place of those in the run directory `run`. Raises
    RunDirectoryError."""
    nothing = RoundFacts()
    for name in _KINDS:
        file = run / f"{name}.json"
        own = getattr(facts, name)
        if own == getattr(nothing, name):
            with writing_to(file):
                file.unlink(missing_ok=True)
        else:
            replace_text(file, own.model_dump_json(indent=2) + "\n")
