"""Builds a `System` from the `[system]` settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragstone.config import SystemSettings
from ragstone.system.entrypoint import parse_entrypoint
from ragstone.system.environment import RunAs, child_environment
from ragstone.system.given import GivenContexts
from ragstone.system.kind import Surroundings
from ragstone.system.python_worker import check_function, python_pool
from ragstone.system.response import GENERATION, System


def build_system(
    settings: SystemSettings,
    *,
    root: Path,
    environ: Mapping[str, str],
    log: Path | None = None,
    run_as: RunAs | None = None,
    within: Path | None = None,
    not_from: Path | None = None,
) -> System:
    """The system under test in `settings.entrypoint`, not yet started.

    Relative paths start from `root`. `environ` is the whole environment; children get the allow-list and the names in
    `settings.env`. Output of user code goes to `log`. `run_as` is the user that children run as. Recorded answers must
    be inside `within`. A python entrypoint must not import anything from the folder `not_from` (the checkout of another
    version), except what is installed in its environment. Settings with `functions` give a worker for these. A system
    of which only generation is evaluated is given the reference contexts. Raises ConfigError.
    """
    entrypoint = None if settings.functions else parse_entrypoint(settings.entrypoint)
    child_environ = child_environment(settings.env, environ, run_as)
    around = Surroundings(root, environ, child_environ, log, run_as, within, not_from)
    if entrypoint is not None:
        return of_part(entrypoint.kind.build(entrypoint.rest, settings, around), settings)
    for metric, spec in settings.functions.items():
        check_function(spec, where=f"metrics.{metric}.python")
    return python_pool(", ".join(f"metrics.{name}" for name in settings.functions), settings, around)


def of_part(system: System, settings: SystemSettings) -> System:
    """`system`, as the half of it that is evaluated."""
    return GivenContexts(system, settings.takes_contexts) if settings.part == GENERATION else system
