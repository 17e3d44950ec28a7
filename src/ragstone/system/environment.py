"""Access of a child process: an environment built from an allow-list, and the user it
runs as."""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ragstone.errors import ConfigError
from ragstone.settings.load import SECRET_VARIABLES
from ragstone.settings.variables import BY_NAME, SECRET_NAME, WITHHELD, Environ

# Search paths, home and temporary folders, language and time zone: nothing that grants
# access.
_POSIX = (
    "PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHASHSEED PYTHONUTF8 "
    "LD_LIBRARY_PATH DYLD_LIBRARY_PATH"
)
_WINDOWS = (
    "SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT TEMP TMP USERNAME USERPROFILE HOMEDRIVE HOMEPATH APPDATA "
    "LOCALAPPDATA PROGRAMDATA PROGRAMFILES NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE"
)
ALLOWED = frozenset(f"{_POSIX} {_WINDOWS}".split())
FORBIDDEN = (*SECRET_VARIABLES, *WITHHELD)
# Passed only by exact name, never by pattern: they usually contain tokens.
_BY_NAME_ONLY = (*BY_NAME, "*RAGSTONE*")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_-]*)\}")


class RunAs(Struct, frozen=True):
    """The user that children run as (POSIX only, and only where Ragstone itself may
    change users).

    `home` becomes HOME. Supplementary groups are dropped.
    """

    uid: int
    gid: int
    home: Path

    def popen_arguments(self) -> dict[str, object]:
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def check_names(names: Iterable[str]) -> None:
    """Raise ConfigError if `system.env` names a variable that no system under test may
    have."""
    for name in names:
        if _matches(name, FORBIDDEN):
            raise ConfigError(
                f"'{name}' must not be passed to the system under test.",
                where="system.env",
                hint="It belongs to Ragstone or to the CI system. Give the system its own key under another name.",
            )
        if set(name) <= set("*?[]!"):
            raise ConfigError(
                f"'{name}' would pass the whole environment to the system under test.",
                where="system.env",
                hint="Name the variables it needs, such as OPENAI_API_KEY or MY_APP_*.",
            )


def may_pass(name: str) -> bool:
    """Whether a system under test may be given the variable `name`, and doesn't get it
    anyway."""
    return name not in ALLOWED and not _matches(name, (*FORBIDDEN, *_BY_NAME_ONLY))


def passed_names(names: Iterable[str], environ: Environ) -> frozenset[str]:
    """The variables of `environ` that `names` (exact, or patterns with * and ?) let
    through. Raises ConfigError."""
    wanted = tuple(names)
    check_names(wanted)
    passed = set()
    for name in environ:
        by_pattern = any(
            fnmatch.fnmatchcase(_folded(name), _folded(pattern)) for pattern in wanted
        )
        refused = _matches(name, FORBIDDEN) or (
            name not in wanted and _matches(name, _BY_NAME_ONLY)
        )
        if by_pattern and not refused:
            passed.add(name)
    return frozenset(passed)


def child_environment(
    names: Iterable[str], environ: Environ, run_as: RunAs | None = None
) -> Environ:
    """The whole environment of a child: ALLOWED, LC_*, and what `names` let through.
    Raises ConfigError."""
    passed = passed_names(names, environ)
    child = {
        name: value
        for name, value in environ.items()
        if name in passed or _folded(name) in ALLOWED or _folded(name).startswith("LC_")
    }
    if run_as is not None:
        for name in ("USER", "LOGNAME"):
            if name not in passed:
                child.pop(name, None)
        child["HOME"] = str(run_as.home)
    return child


def lacking(text: str, environ: Environ, child: Environ) -> str | None:
    """What a failure that says `text` has to do with variables of `environ` that the
    system doesn't get, as a sentence. `child` is what it gets."""
    for name in _VARIABLE.findall(text):
        is_known = name in environ or SECRET_NAME.search(name) is not None
        if is_known and name not in child and not _matches(name, FORBIDDEN):
            return f'{name} is not passed to your system: set it, and add "{name}" to env under [system].'
    return None


def substituted(
    value: str, names: Iterable[str], environ: Environ, *, where: str
) -> str:
    """`value` with each ``${NAME}`` replaced, for names that `system.env` lets through.
    Raises ConfigError."""
    passed = passed_names(names, environ)

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in passed:
            return environ[name]
        check_names((name,))
        raise ConfigError(
            f"the environment variable {name} is not set, or not passed to the system under test.",
            where=where,
            hint=f"Set {name}, and add '{name}' to env in [system].",
        )

    return _REFERENCE.sub(replace, value)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name.upper(), pattern) for pattern in patterns)


def _folded(name: str) -> str:
    return name.upper() if sys.platform == "win32" else name
