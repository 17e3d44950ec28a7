"""One job on GitHub, from its event to its exit code."""
