"""Runs in other tools: OpenTelemetry, MLflow, Weights & Biases. Each is an extra, imported where it is used."""
