"""Keeps what other tools' packages log away from the terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def captured_log(*names: str) -> Iterator[list[str]]:
    """The last line that the loggers of these names write, in a list; nothing of theirs is printed."""
    lines: list[str] = []

    class LastLine(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines[:] = [record.getMessage()]

    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.handlers[:], logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers[:], logger.propagate = [LastLine()], False
    try:
        yield lines
    finally:
        for logger, (handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers[:], logger.propagate = handlers, propagate
