"""Column aliases: the names that other tools use for the fields that Ragstone reads.
The table is `aliases.toml`.

Names are compared in normal form (`normalise_name`): ``Ground Truth``, ``groundTruth`` and
``ground_truth`` are the same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from ragstone.files import read_table
from ragstone.golden.sample import Role, Texts


class Aliases(Struct, frozen=True):
    """The names of one field, each in normal form."""

    strong: Texts
    """Names that always mean the field."""
    weak: Texts = ()
    """Names that mean the field if no column has a strong name."""

    @property
    def names(self) -> Texts:
        """All names, strong ones first."""
        return self.strong + self.weak


_TABLE: Mapping[str, Any] = read_table("aliases.toml", __package__)


def _aliases_by_field(table: str) -> Mapping[str, Aliases]:
    return {
        field: Aliases(tuple(names["strong"]), tuple(names.get("weak", ())))
        for field, names in _TABLE[table].items()
    }


def _name_set(list_name: str) -> frozenset[str]:
    return frozenset(_TABLE[list_name])


FIELDS = _aliases_by_field("fields")
"""The names of each field of a golden set."""

RECORDED = _aliases_by_field("recorded")
"""The names of a system's answer and contexts, which some tools store in the file of
their questions."""

FIELD_NAMES = frozenset[str]().union(
    *(aliases.names for aliases in (*FIELDS.values(), *RECORDED.values()))
)
"""All names in FIELDS and RECORDED."""

SYSTEM_NAMES: Mapping[str, Texts] = {
    part: tuple(names) for part, names in _TABLE["system"].items()
}
"""The names of each part of what a system under test takes and returns, best first."""

CONTAINERS = _name_set("containers")
"""Columns of objects whose keys are read like columns, such as ``inputs``."""

OUTPUTS = _name_set("outputs")
"""Other columns that may have an object as JSON in a cell."""

PATHS = _name_set("paths")
"""Other names that dotted columns may begin with, such as ``reference.answer``."""

ROLES: Mapping[str, Role] = _TABLE["roles"]
"""The role that other tools' names for the author of a message mean."""

LABELS: Mapping[str, str] = _TABLE["labels"]
"""The field whose values a column rates, by the column's name."""

SCORES = _name_set("scores")
"""Columns of scores in the results of other tools."""

NO_SCORES = _name_set("no_scores")
"""Columns of numbers that are no scores, such as ``latency``."""

NO_REFERENCE = _name_set("no_reference")
"""Words in the name of a column that holds no reference answer."""

NO_QUESTION = NO_REFERENCE | _name_set("no_question")
"""Words in the name of a column that holds no question."""

INSTEAD: Mapping[str, str] = _TABLE["instead"]
"""What to use instead of a type of assertion that is not supported."""

TEXT_KEYS = Texts(_TABLE["text_keys"])
"""Keys for the text of an object, best first."""

ID_KEYS = Texts(_TABLE["id_keys"])
"""Keys for the id of a document, best first."""

GRADE_KEYS = Texts(_TABLE["grade_keys"])
"""Keys for the grade of a document, best first."""


@lru_cache(maxsize=4096)
def normalise_name(name: str) -> str:
    """Return `name` in normal form: lower-case words, joined by underscores."""
    separated = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    words = re.sub(r"[^0-9a-z]+", "_", separated.lower())
    return words.strip("_")


def last_name(path: str) -> str:
    """Return the last name of a dotted path, in normal form."""
    return normalise_name(path.rpartition(".")[2])


def has_weak_name(path: str, field_name: str) -> bool:
    """Whether the column has one of the weak names of the field (see `Aliases`)."""
    return last_name(path) in FIELDS[field_name].weak
