"""Settings: defaults, then ragstone.toml (or [tool.ragstone] of pyproject.toml), the
environment, and flags."""
