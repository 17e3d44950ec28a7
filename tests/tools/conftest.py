"""Fixtures of the tools: runs that are written without a system, the command line, and the fake GitHub."""

from __future__ import annotations

from tests.app.conftest import ragstone, write_run
from tests.ci.github.conftest import contract, github

__all__ = ["contract", "github", "ragstone", "write_run"]
