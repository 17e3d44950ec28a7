"""The rounds that can follow an evaluation, in the order in which they are run."""

from __future__ import annotations

from ragstone.rounds.oracle import Oracle
from ragstone.rounds.perturb import Perturb
from ragstone.rounds.session import ExtraRound

EXTRA_ROUNDS: tuple[type[ExtraRound], ...] = (Perturb, Oracle)
"""Each is a line here, a setting, and what `ragstone.project.plan` makes of that setting."""
