"""The front door: settings become what the use cases take (a golden set, a system, a judge, a policy, places)."""
