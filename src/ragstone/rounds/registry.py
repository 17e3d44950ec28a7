"""The rounds that can follow an evaluation, in the order in which they are run."""

from __future__ import annotations

from ragstone.rounds.oracle import Oracle
from ragstone.rounds.perturb import Perturb
from ragstone.rounds.session import ExtraRound

EXTRA_ROUNDS: tuple[type[ExtraRound], ...] = (Perturb, Oracle)
"""To add one: its module, its setting, and a line here."""
