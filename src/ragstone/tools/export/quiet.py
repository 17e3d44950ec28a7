"""Keeps what other tools' packages log away from the terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def captured_log(*names: str) -> Iterator[list[str]]:
    """The last line that the loggers of these names write, in a list; nothing of theirs is printed."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines[:] = [record.getMessage()]

    with ExitStack() as stack:
        for name in names:
            stack.enter_context(_only(logging.getLogger(name), Kept()))
        yield lines


@contextmanager
def _only(logger: logging.Logger, handler: logging.Handler) -> Iterator[None]:
    """`handler` as the one handler of `logger`."""
    before, propagate = logger.handlers[:], logger.propagate
    logger.handlers[:] = [handler]
    logger.propagate = False
    try:
        yield
    finally:
        logger.handlers[:] = before
        logger.propagate = propagate
