"""One job on GitHub, from the event to the exit code."""
