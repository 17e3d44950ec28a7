"""CI systems other than GitHub: their jobs, stores for baselines, comments on merge requests; webhooks."""
