"""Column aliases: the names that other tools use for the fields that Ragstone reads.
The table is `aliases.toml`.

Names are compared in normal form (`normal`): ``Ground Truth``, ``groundTruth`` and
``ground_truth`` are the same name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from ragstone.golden.sample import Role, Texts


@dataclass(frozen=True, slots=True)
class Aliases:
    """Names of one field. A strong name always means the field; a weak one only if
    there is no strong one."""

    strong: Texts
    weak: Texts = ()


def _by_field(table: dict[str, dict[str, list[str]]]) -> MappingProxyType[str, Aliases]:
    return MappingProxyType(
        {
            name: Aliases(tuple(names["strong"]), tuple(names.get("weak", ())))
            for name, names in table.items()
        }
    )


_TABLE: Any = tomllib.loads(
    files("ragstone.golden").joinpath("aliases.toml").read_text("utf-8")
)

FIELDS: Final = _by_field(_TABLE["fields"])
"""Names of each field."""

RECORDED: Final = _by_field(_TABLE["recorded"])
"""Output of a system under test, stored in the same file by tools that evaluate
recorded answers."""

SYSTEM_NAMES: Final[Mapping[str, Texts]] = MappingProxyType(
    {part: tuple(names) for part, names in _TABLE["system"].items()}
)
"""Names of what a system under test takes and returns, best first."""

CONTAINERS: Final = frozenset[str](_TABLE["containers"])
OUTPUTS: Final = frozenset[str](_TABLE["outputs"])
PATHS: Final = frozenset[str](_TABLE["paths"])
ROLES: Final[Mapping[str, Role]] = MappingProxyType(_TABLE["roles"])
"""What other tools call who speaks in a conversation."""
LABELS: Final = MappingProxyType[str, str](_TABLE["labels"])
SCORES: Final = frozenset[str](_TABLE["scores"])
NO_SCORES: Final = frozenset[str](_TABLE["no_scores"])
NO_REFERENCE: Final = frozenset[str](_TABLE["no_reference"])
NO_QUESTION: Final = NO_REFERENCE | frozenset[str](_TABLE["no_question"])
INSTEAD: Final = MappingProxyType[str, str](_TABLE["instead"])
TEXT_KEYS: Final = Texts(_TABLE["text_keys"])
ID_KEYS: Final = Texts(_TABLE["id_keys"])
GRADE_KEYS: Final = Texts(_TABLE["grade_keys"])


@lru_cache(maxsize=4096)
def normal(name: str) -> str:
    """`name` in lower-case words joined by underscores."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[^0-9a-z]+", "_", split.lower()).strip("_")
