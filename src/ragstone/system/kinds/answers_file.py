"""file: entrypoints: answers that were recorded before."""

from __future__ import annotations

from ragstone.config import SystemSettings
from ragstone.golden.rows import SourceFile
from ragstone.system.kind import EntrypointKind, Surroundings
from ragstone.system.recorded import RecordedAnswers
from ragstone.system.response import System


class AnswersFile(EntrypointKind):
    schemes = ("file",)
    form = "file:outputs.jsonl"
    can_be_asked_again = RecordedAnswers.can_be_asked_again
    runs_users_code = False

    def build(self, rest: str, settings: SystemSettings, around: Surroundings) -> System:
        return RecordedAnswers(SourceFile(around.root / rest, rest, around.within), settings)
