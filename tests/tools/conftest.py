"""Runs that are written without a system."""

from __future__ import annotations

from tests.pipeline.conftest import write_run

__all__ = ["write_run"]
