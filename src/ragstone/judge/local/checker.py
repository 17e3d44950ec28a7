"""Does a text support a statement? An ONNX cross-encoder or token classifier, applied window by window."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragstone.config.settings import LocalJudgeSettings
from ragstone.errors import ConfigError
from ragstone.judge.local.files import ModelFiles, ModelFolder
from ragstone.judge.local.labels import Meaning, read_labels
from ragstone.judge.local.runtime import (
    encode,
    input_types,
    load_session,
    load_tokenizer,
    run,
    usable_threads,
)
from ragstone.judge.offline.lexicon import guess_language
from ragstone.judge.offline.normal import normalise
from ragstone.judge.protocol import JudgementFailed
from ragstone.judge.sentences import split_sentences
from ragstone.judge.untrusted_text import cleaned

WHERE = "judge.name"
MAX_WINDOWS = 32
"""The most windows that a statement is compared with: those that share most of its rare tokens."""

_MAX_TOKENS = 512
_MIN_PIECE = 8
_MARGIN = 4
_BATCH = 8
_MAX_RATINGS = 8192
_MAX_TEXTS = 128
_SAMPLE = 600

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PairRating:
    """Probabilities in [0, 1] that a text supports a statement, and that it contradicts it."""

    supported: float
    contradicted: float


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    tokens: tuple[int, ...]


class CheckerStopped(Exception):  # noqa: N818 - the judge is being closed
    """Raised out of `Checker.rate` after `Checker.stop`."""


class Checker:
    """A user's model of entailment or consistency, or of unsupported tokens.

    A text longer than the model's window is split at sentences, with an overlap of one sentence; the best window
    counts. Pairs are run in batches of one statement's windows, or one at a time if the model's quantisation depends on
    the whole batch, so that a rating depends on its texts alone. Raises ConfigError for a folder without such a model.
    """

    def __init__(
        self, path: Path, settings: LocalJudgeSettings, *, within: Path | None, digests: Sequence[str]
    ) -> None:
        folder = ModelFolder(path, where=WHERE, within=within)
        files = folder.model()
        self.labels = read_labels(folder, settings.labels)
        self.max_tokens = settings.max_tokens or _known_limit(folder)
        folder.require_digest(digests)
        self.name, self.digest, self.path = folder.name, folder.digest, path
        self._template = settings.template
        self._tokenizer = load_tokenizer(folder, files)
        self.device = settings.device
        threads = settings.threads or usable_threads()
        self._session = load_session(folder, files, threads=threads, device=self.device)
        self._inputs = input_types(self._session, files)
        self._shape(files, settings)
        self._output, self.by_token = _output(self._session.get_outputs(), len(self.labels), files)
        if self.by_token and self._template is not None:
            raise ConfigError("a model that labels tokens takes no template.", where="judge.local.template")
        self._batch = 1 if files.quantised or self._fixed_batch else _BATCH
        self._pad = next((at for at in map(self._tokenizer.token_to_id, ("[PAD]", "<pad>")) if at is not None), 0)
        self._overhead = self._tokens_around()
        self._piece = max(_MIN_PIECE, self.max_tokens // 4)
        self._pairs = load_tokenizer(folder, files)
        self._pairs.enable_truncation(self.max_tokens, strategy="only_first")
        self._ratings: OrderedDict[tuple[str, bytes], PairRating] = OrderedDict()
        self._texts: OrderedDict[bytes, tuple[_Sentence, ...]] = OrderedDict()
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Make a `rate` that runs in another thread end before its next batch."""
        self._stopping.set()

    def rate(self, text: str, statement: str) -> PairRating:
        """How well `text` supports `statement`. Raises JudgementFailed if the model gives no usable answer."""
        statement = cleaned(statement).strip()
        mark = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._ratings.get((statement, mark))
        if known is None:
            known = self._rate(mark, text, statement)
            self._ratings[statement, mark] = known
            if len(self._ratings) > _MAX_RATINGS:
                self._ratings.popitem(last=False)
        return known

    def fits_one_window(self, text: str, statement: str) -> bool:
        """Whether `text` and `statement` fit into the model together, without a split."""
        size = sum(len(one.tokens) for one in self._sentences(None, text))
        return size <= self._room(len(self._tokens(cleaned(statement).strip())))

    # -- windows -------------------------------------------------------------------------------------------------------

    def _rate(self, mark: bytes, text: str, statement: str) -> PairRating:
        asked = self._tokens(statement)
        room = self._room(len(asked))
        windows = _windows(self._sentences(mark, text), room)
        windows = _nearest(windows, frozenset(asked))
        encodings = [self._encoding(" ".join(one.text for one in window), statement) for window in windows]
        found = self._run(encodings)
        if self.by_token:
            return self._by_token(encodings, found)
        chances = np.stack([self._chances(row) for row in found])
        return PairRating(*(float(self._mass(chances, one).max()) for one in (Meaning.SUPPORTED, Meaning.CONTRADICTED)))

    def _room(self, tokens: int) -> int:
        """Tokens of text that fit together with a statement of `tokens`."""
        room = self.max_tokens - self._overhead - tokens - _MARGIN
        if room < self._piece:
            raise JudgementFailed(
                f"a statement of {tokens} tokens is too long for a model that takes {self.max_tokens}"
            )
        return room

    def _sentences(self, mark: bytes | None, text: str) -> tuple[_Sentence, ...]:
        mark = mark or hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if (known := self._texts.get(mark)) is not None:
            return known
        plain = normalise(cleaned(text))
        sentences = split_sentences(plain, guess_language(plain[:_SAMPLE]).code) or [plain]
        found = tuple(part for sentence in sentences for part in self._parts(sentence))
        self._texts[mark] = found
        if len(self._texts) > _MAX_TEXTS:
            self._texts.popitem(last=False)
        return found

    def _parts(self, sentence: str) -> list[_Sentence]:
        """`sentence`, split if it alone would fill more than a quarter of the model's window."""
        most = self._piece
        encoded = _encoded(self._tokenizer, sentence, special=False)
        ids = encoded.ids
        if len(ids) <= most:
            return [_Sentence(sentence, tuple(ids))]
        parts = []
        for start in range(0, len(ids), most):
            end = min(start + most, len(ids))
            first, last = encoded.offsets[start][0], encoded.offsets[end - 1][1]
            parts.append(_Sentence(sentence[first:last], tuple(ids[start:end])))
        return parts

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(_encoded(self._tokenizer, text, special=False).ids)

    # -- the model -----------------------------------------------------------------------------------------------------

    def _encoding(self, text: str, statement: str) -> Any:
        if self._template is None:
            found = _encoded(self._pairs, text, statement)
        else:
            # The statement first: a context may contain the text {statement}.
            before, _, after = self._template.partition("{context}")
            whole = f"{before.replace('{statement}', statement)}{text}{after.replace('{statement}', statement)}"
            found = _encoded(self._tokenizer, whole)
        if len(found.ids) > self.max_tokens:
            raise JudgementFailed(f"{len(found.ids)} tokens are more than the model takes ({self.max_tokens})")
        return found

    def _run(self, encodings: Sequence[Any]) -> list[Floats]:
        """The logits of each pair, in order: (labels) or (tokens, labels)."""
        order = sorted(range(len(encodings)), key=lambda at: (len(encodings[at].ids), at))
        found: dict[int, Floats] = {}
        for start in range(0, len(order), self._batch):
            if self._stopping.is_set():
                raise CheckerStopped
            batch = order[start : start + self._batch]
            rows = self._logits([encodings[at] for at in batch])
            found.update(zip(batch, rows, strict=True))
        return [found[at] for at in range(len(encodings))]

    def _logits(self, encodings: Sequence[Any]) -> list[Floats]:
        width = self._fixed_tokens or max(len(one.ids) for one in encodings)
        feed = {}
        for name, kind in self._inputs.items():
            padding = self._pad if name == "input_ids" else 0
            rows = np.full((len(encodings), width), padding, dtype=kind)
            for row, one in zip(rows, encodings, strict=True):
                values = {"input_ids": one.ids, "attention_mask": one.attention_mask, "token_type_ids": one.type_ids}
                row[: len(one.ids)] = values[name]
            feed[name] = rows
        try:
            found = run(self._session, self._output, feed)
        except ValueError as error:
            raise JudgementFailed(f"the model failed: {error}") from None
        wanted = (len(encodings), *((width,) if self.by_token else ()), len(self.labels))
        if found.shape != wanted:
            raise JudgementFailed(f"the model returned an array of shape {found.shape}, expected {wanted}")
        if not np.isfinite(found).all():
            raise JudgementFailed("the model returned logits that are not numbers")
        return [row[: len(one.ids)] if self.by_token else row for row, one in zip(found, encodings, strict=True)]

    def _chances(self, logits: Floats) -> Floats:
        """Probabilities of the labels, (…, labels): softmax, or the logistic function of a single output."""
        if len(self.labels) == 1:
            return np.asarray(1 / (1 + np.exp(-np.clip(logits, -50, 50))))
        shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))

    def _mass(self, chances: Floats, meaning: Meaning) -> Floats:
        """The total probability of all labels with one meaning."""
        return np.asarray(chances[..., [at for at, label in enumerate(self.labels) if label is meaning]].sum(axis=-1))

    def _by_token(self, encodings: Sequence[Any], found: Sequence[Floats]) -> PairRating:
        """The least supported token of the statement counts, each in the window that supports it best."""
        columns = []
        for one, logits in zip(encodings, found, strict=True):
            mine = [
                at
                for at, (sequence, special) in enumerate(zip(one.sequence_ids, one.special_tokens_mask, strict=True))
                if sequence == 1 and not special
            ]
            columns.append(self._chances(logits)[mine])
        if not len(columns[0]):
            raise JudgementFailed("the model finds no token in the statement")
        supported = np.stack([self._mass(one, Meaning.SUPPORTED) for one in columns]).max(axis=0)
        contradicted = np.stack([self._mass(one, Meaning.CONTRADICTED) for one in columns]).max()
        return PairRating(float(supported.min()), float(contradicted))

    # -- at load -------------------------------------------------------------------------------------------------------

    def _shape(self, files: ModelFiles, settings: LocalJudgeSettings) -> None:
        shapes = [tuple(wanted.shape or ()) for wanted in self._session.get_inputs()]
        if any(len(shape) != 2 for shape in shapes):
            raise ConfigError(
                f"the model requires inputs of the shapes {shapes}, not (batch, tokens).", where=str(files.file)
            )
        batch, tokens = ({size for size in sizes if isinstance(size, int)} for sizes in zip(*shapes, strict=True))
        if batch - {1} or len(tokens) > 1:
            raise ConfigError(
                f"the model requires inputs of the fixed shapes {shapes}.",
                where=str(files.file),
                hint="Export it with a batch of any size, or of 1.",
            )
        self._fixed_batch = bool(batch)
        self._fixed_tokens = next(iter(tokens), None)
        if self._fixed_tokens is not None:
            if settings.max_tokens is not None and settings.max_tokens > self._fixed_tokens:
                raise ConfigError(f"the model takes {self._fixed_tokens} tokens.", where="judge.local.max_tokens")
            self.max_tokens = min(self.max_tokens, self._fixed_tokens)

    def _tokens_around(self) -> int:
        """Tokens of the model's input besides text and statement."""
        if self._template is None:
            return int(self._tokenizer.num_special_tokens_to_add(True))
        bare = self._template.replace("{context}", "").replace("{statement}", "")
        try:
            return len(encode(self._tokenizer, bare).ids)
        except ValueError as error:
            raise ConfigError(f"the model can't read it: {error}.", where="judge.local.template") from None


def _encoded(tokenizer: Any, *texts: str, special: bool = True) -> Any:
    try:
        return encode(tokenizer, *texts, special=special)
    except ValueError as error:
        raise JudgementFailed(f"the model can't read the text: {error}") from None


def _windows(sentences: Sequence[_Sentence], room: int) -> list[tuple[_Sentence, ...]]:
    """Sentences in order, as many as fit into `room` tokens; each window starts with the last one of the previous."""
    windows: list[tuple[_Sentence, ...]] = []
    start = 0
    while start < len(sentences):
        end, size = start, 0
        while end < len(sentences) and (end == start or size + len(sentences[end].tokens) <= room):
            size += len(sentences[end].tokens)
            end += 1
        windows.append(tuple(sentences[start:end]))
        if end == len(sentences):
            break
        start = end - 1 if end - 1 > start else end
    return windows


def _nearest(windows: list[tuple[_Sentence, ...]], asked: frozenset[int]) -> list[tuple[_Sentence, ...]]:
    """At most MAX_WINDOWS of `windows`: those that share most with the tokens `asked`, weighted by rarity."""
    if len(windows) <= MAX_WINDOWS:
        return windows
    shared = [asked.intersection(token for one in window for token in one.tokens) for window in windows]
    counts: dict[int, int] = {}
    for tokens in shared:
        for token in tokens:
            counts[token] = counts.get(token, 0) + 1
    weights = [sum(math.log(1 + len(windows) / counts[token]) for token in sorted(tokens)) for tokens in shared]
    best = sorted(range(len(windows)), key=lambda at: (-weights[at], at))[:MAX_WINDOWS]
    return [windows[at] for at in sorted(best)]


def _known_limit(folder: ModelFolder) -> int:
    """The model's window in tokens, from its config, at most 512."""
    found = [folder.config("config.json").get("max_position_embeddings")]
    found.append(folder.config("tokenizer_config.json").get("model_max_length"))
    sizes = [size for size in found if isinstance(size, int) and 16 <= size <= 1_000_000]
    # RoBERTa counts two positions that are not for tokens.
    return min([_MAX_TOKENS, *(size - 2 if size == 514 else size for size in sizes)])


def _output(outputs: Sequence[Any], labels: int, files: ModelFiles) -> tuple[str, bool]:
    """The name of the output with the logits, and whether they are per token."""
    named = sorted(outputs, key=lambda found: found.name != "logits")
    for found in named:
        shape = tuple(found.shape or ())
        if len(shape) in (2, 3) and (not isinstance(shape[-1], int) or shape[-1] == labels):
            return found.name, len(shape) == 3
    shapes = ", ".join(f"{found.name} {tuple(found.shape or ())}" for found in outputs)
    raise ConfigError(
        f"the model has {labels} labels, and none of its outputs ({shapes}) is of that width.",
        where=str(files.file),
        hint="Take an ONNX export of a classifier of pairs or of tokens, and check judge.local.labels.",
    )
