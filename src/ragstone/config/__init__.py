"""Settings: defaults, then ragstone.toml (or [tool.ragstone] of pyproject.toml), the environment, and flags."""

from ragstone.config.load import CONFIG_FILE, PYPROJECT, load_settings
from ragstone.config.options import OPTIONS, SECRET_VARIABLES, Option, default_text, option_of, variable_of
from ragstone.config.settings import (
    MAX_GATES,
    MAX_SHARDS,
    METRICS,
    MIN_SECRET_CHARACTERS,
    CustomMetric,
    Device,
    GoldenSettings,
    JudgeSettings,
    LocalJudgeSettings,
    LocalWeights,
    Perturbing,
    Price,
    RunSettings,
    Settings,
    SystemSettings,
)
from ragstone.config.toml_file import parse_toml, read_text, read_toml

__all__ = [
    "CONFIG_FILE",
    "MAX_GATES",
    "MAX_SHARDS",
    "METRICS",
    "MIN_SECRET_CHARACTERS",
    "OPTIONS",
    "PYPROJECT",
    "SECRET_VARIABLES",
    "CustomMetric",
    "Device",
    "GoldenSettings",
    "JudgeSettings",
    "LocalJudgeSettings",
    "LocalWeights",
    "Option",
    "Perturbing",
    "Price",
    "RunSettings",
    "Settings",
    "SystemSettings",
    "default_text",
    "load_settings",
    "option_of",
    "parse_toml",
    "read_text",
    "read_toml",
    "variable_of",
]
