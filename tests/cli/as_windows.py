"""Runs the command line with what Python offers on Windows: `python as_windows.py gate …`.

Not Windows: no drive letters, no other event loop. But all that Python does not have there is gone, and `sys.platform`
says "win32". The standard library is imported before, since it decides at import what it uses.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.process  # noqa: F401
import faulthandler
import multiprocessing  # noqa: F401
import os
import signal
import subprocess  # noqa: F401
import sys
import sysconfig
from typing import Any

import click  # noqa: F401
import jinja2  # noqa: F401
import numpy as np  # noqa: F401

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty")
OF_OS = (
    "O_CLOEXEC",
    "O_DIRECTORY",
    "O_NOFOLLOW",
    "O_NONBLOCK",
    "O_PATH",
    "chown",
    "fchmod",
    "fork",
    "getegid",
    "geteuid",
    "getgid",
    "getpgid",
    "getuid",
    "killpg",
    "mkfifo",
    "pread",
    "sched_getaffinity",
    "setsid",
)
OF_SIGNAL = ("SIGALRM", "SIGHUP", "SIGUSR1", "alarm", "pthread_sigmask", "setitimer")


def _has_no_signals(*_: Any) -> None:
    raise NotImplementedError


def become_windows() -> None:
    sysconfig.get_config_vars()  # while it still finds Linux's
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in OF_OS:
        delattr(os, name)
    for name in OF_SIGNAL:
        delattr(signal, name)
    del faulthandler.register
    setattr(asyncio.SelectorEventLoop, "add_signal_handler", _has_no_signals)  # noqa: B010 - of the type for Linux
    setattr(sys, "platform", "win32")  # noqa: B010 - a constant to the type checker


if __name__ == "__main__":
    become_windows()
    from ragstone.cli.main import main

    main(sys.argv[1:])
