"""The cases of one module by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.corpus.outcome import Outcome
from tests.corpus.workbench import Workbench

Steps = Mapping[str, Outcome]
"""The outcome of each step of a case, by its name, in order."""
Case = Callable[[Workbench], Steps]


class Registry(dict[str, Case]):
    """Cases by name."""

    def add(self, name: str, function: Case) -> None:
        assert name not in self, f"two cases are called {name!r}"
        self[name] = function

    def case(self, name: str) -> Callable[[Case], Case]:
        """Register a function that makes one case."""

        def register(function: Case) -> Case:
            self.add(name, function)
            return function

        return register
