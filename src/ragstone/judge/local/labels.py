"""The meaning of each output of a model: read from its config or set by the user, never guessed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from ragstone.errors import ConfigError
from ragstone.judge.local.files import ModelFolder

SETTING = "judge.local.labels"


class Meaning(StrEnum):
    """`UNSUPPORTED` is for models that don't distinguish contradicted from merely missing."""

    SUPPORTED = "supported"
    NEUTRAL = "neutral"
    CONTRADICTED = "contradicted"
    UNSUPPORTED = "unsupported"


_WORDS = {
    Meaning.SUPPORTED: "supported support supports entailment entailed entail entails consistent factual faithful "
    "grounded not_hallucinated",
    Meaning.NEUTRAL: "neutral not_enough_info not_mentioned nei unverifiable",
    Meaning.CONTRADICTED: "contradicted contradiction contradict contradicts refuted refute refutes",
    Meaning.UNSUPPORTED: "unsupported not_supported inconsistent not_consistent hallucinated hallucination "
    "not_entailment non_entailment not_entailed unfaithful not_factual ungrounded",
}
_MEANINGS = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}
_MAX_LABELS = 16


def read_labels(folder: ModelFolder, given: Sequence[str]) -> tuple[Meaning, ...]:
    """The meaning of each output, in order: `given` (the setting) if set, else `id2label` of config.json.

    Raises ConfigError if there is neither, if a label is not understood, and if no label means supported.
    """
    if given:
        names, where = tuple(given), SETTING
    else:
        names, where = _of_config(folder), str(folder.path / "config.json")
    meanings = [_MEANINGS.get(re.sub(r"[\W_]+", "_", name.strip().lower()).strip("_")) for name in names]
    strange = [name for name, meaning in zip(names, meanings, strict=True) if meaning is None]
    if strange:
        raise ConfigError(
            f"the {'label' if len(strange) == 1 else 'labels'} {_listed(strange)} of the model "
            f"{'says' if len(strange) == 1 else 'say'} nothing about support.",
            where=where,
            hint=_hint(),
        )
    found = tuple(meaning for meaning in meanings if meaning is not None)
    if Meaning.SUPPORTED not in found:
        raise ConfigError(
            f"none of the model's labels ({_listed(names)}) means that a statement is supported.",
            where=where,
            hint="Take a model that tells what is supported: NLI with an entailment label, or a consistency model.",
        )
    if set(found) == {Meaning.SUPPORTED} and len(found) > 1:
        raise ConfigError(f"all of the model's labels ({_listed(names)}) mean the same.", where=where, hint=_hint())
    return found


def _of_config(folder: ModelFolder) -> tuple[str, ...]:
    found = folder.config("config.json").get("id2label")
    where = str(folder.path / "config.json")
    if found is None:
        raise ConfigError("the model has no label map (id2label).", where=where, hint=_hint())
    names = found if isinstance(found, dict) else {}
    numbers = [str(at) for at in range(len(names))]
    wrong = sorted(names) != sorted(numbers) or not 1 <= len(names) <= _MAX_LABELS
    if wrong or not all(isinstance(name, str) for name in names.values()):
        raise ConfigError("the label map (id2label) must map 0, 1, … to names.", where=where, hint=_hint())
    return tuple(names[number] for number in numbers)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name[:40]}'" for name in names)


def _hint() -> str:
    words = ", ".join(f'"{meaning}"' for meaning in Meaning)
    return f"Set {SETTING} to the meaning of each output in order: {words}."
