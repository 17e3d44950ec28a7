"""Policy, comparability, checks, verdict and attribution."""
