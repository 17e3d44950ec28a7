"""A fake GitHub."""

from __future__ import annotations

from tests.github.api.conftest import api, connect, contract, github, pauses

__all__ = ["api", "connect", "contract", "github", "pauses"]
