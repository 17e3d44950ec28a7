"""Column aliases: the names that other tools use for the fields that Ragstone reads.
The table is `aliases.toml`.

Names are compared in normal form (`normal`): ``Ground Truth``, ``groundTruth`` and
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
    """Names of one field. A strong name always means the field; a weak one only if
    there is no strong one."""

    strong: Texts
    weak: Texts = ()

    @property
    def names(self) -> Texts:
        """All of them, strong ones first."""
        return self.strong + self.weak


_TABLE: Mapping[str, Any] = read_table("aliases.toml", __package__)


def _by_field(table: str) -> Mapping[str, Aliases]:
    return {
        name: Aliases(tuple(names["strong"]), tuple(names.get("weak", ())))
        for name, names in _TABLE[table].items()
    }


def _names(list_name: str) -> frozenset[str]:
    return frozenset(_TABLE[list_name])


FIELDS = _by_field("fields")
"""Names of each field."""

RECORDED = _by_field("recorded")
"""Output of a system under test, stored in the same file by tools that evaluate
recorded answers."""

FIELD_NAMES = frozenset[str]().union(
    *(aliases.names for aliases in (*FIELDS.values(), *RECORDED.values()))
)
"""The names of all of these."""

SYSTEM_NAMES: Mapping[str, Texts] = {
    part: tuple(names) for part, names in _TABLE["system"].items()
}
"""Names of what a system under test takes and returns, best first."""

CONTAINERS = _names("containers")
OUTPUTS = _names("outputs")
PATHS = _names("paths")
ROLES: Mapping[str, Role] = _TABLE["roles"]
"""What other tools call who speaks in a conversation."""
LABELS: Mapping[str, str] = _TABLE["labels"]
SCORES = _names("scores")
NO_SCORES = _names("no_scores")
NO_REFERENCE = _names("no_reference")
NO_QUESTION = NO_REFERENCE | _names("no_question")
INSTEAD: Mapping[str, str] = _TABLE["instead"]
TEXT_KEYS = Texts(_TABLE["text_keys"])
ID_KEYS = Texts(_TABLE["id_keys"])
GRADE_KEYS = Texts(_TABLE["grade_keys"])


@lru_cache(maxsize=4096)
def normal(name: str) -> str:
    """`name` in lower-case words joined by underscores."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    words = re.sub(r"[^0-9a-z]+", "_", split.lower())
    return words.strip("_")


def last_name(path: str) -> str:
    return normal(path.rpartition(".")[2])


def has_weak_name(path: str, field_name: str) -> bool:
    """Whether the name of a column doesn't say by itself that it is this field."""
    return last_name(path) in FIELDS[field_name].weak
