"""Fixtures of the tools: runs that are written without a system, the command line, and the fake GitHub."""

from __future__ import annotations

from tests.github.api.conftest import contract, github
from tests.pipeline.conftest import ragstone, write_run

__all__ = ["contract", "github", "ragstone", "write_run"]
