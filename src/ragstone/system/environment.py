"""What a child process gets access to: the environment, built from an allow-list, and
the user it runs as."""

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

_POSIX_VARIABLES = (
    "PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHASHSEED PYTHONUTF8 "
    "LD_LIBRARY_PATH DYLD_LIBRARY_PATH"
)
_WINDOWS_VARIABLES = (
    "SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT TEMP TMP USERNAME USERPROFILE HOMEDRIVE HOMEPATH APPDATA "
    "LOCALAPPDATA PROGRAMDATA PROGRAMFILES NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE"
)
ALLOWED = frozenset(f"{_POSIX_VARIABLES} {_WINDOWS_VARIABLES}".split())
"""Variables that every child gets: search paths, home and temporary folders, language
and time zone. None of them grants access to anything."""
FORBIDDEN = (*SECRET_VARIABLES, *WITHHELD)
"""Names and patterns of variables that no child gets."""
# Variables that usually contain tokens: `system.env` must name them in full, because no
# pattern in it matches them.
_EXACT_NAME_ONLY = (*BY_NAME, "*RAGSTONE*")
_VARIABLE_NAME = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_-]*)\}")


class RunAs(Struct, frozen=True):
    """The user that children run as (POSIX only, and only where Ragstone itself may
    change users)."""

    uid: int
    gid: int
    home: Path
    """The HOME of the children."""

    def popen_arguments(self) -> dict[str, object]:
        """The arguments of Popen that change the user, and drop supplementary
        groups."""
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


def needs_env_entry(name: str) -> bool:
    """Whether a system under test gets the variable `name` only if `system.env` names
    it. False for variables that it always gets, never gets, or that hold Ragstone's or
    the CI system's tokens."""
    return name not in ALLOWED and not _matches(name, (*FORBIDDEN, *_EXACT_NAME_ONLY))


def passed_variables(names: Iterable[str], environ: Environ) -> frozenset[str]:
    """The variables of `environ` that are passed to a system with `names` in its
    `system.env`: exact names, or patterns with * and ?. Raises ConfigError."""
    patterns = tuple(names)
    check_names(patterns)
    passed = set()
    for name in environ:
        is_named = any(
            fnmatch.fnmatchcase(_comparable(name), _comparable(pattern))
            for pattern in patterns
        )
        is_refused = _matches(name, FORBIDDEN) or (
            name not in patterns and _matches(name, _EXACT_NAME_ONLY)
        )
        if is_named and not is_refused:
            passed.add(name)
    return frozenset(passed)


def child_environment(
    names: Iterable[str], environ: Environ, run_as: RunAs | None = None
) -> Environ:
    """The whole environment of a child: ALLOWED, LC_*, and the variables that `names`
    let through. Raises ConfigError."""
    passed = passed_variables(names, environ)
    child = {
        name: value
        for name, value in environ.items()
        if name in passed or _is_allowed(name)
    }
    if run_as is not None:
        for name in ("USER", "LOGNAME"):  # those of the user that Ragstone runs as
            if name not in passed:
                child.pop(name, None)
        child["HOME"] = str(run_as.home)
    return child


def _is_allowed(name: str) -> bool:
    comparable = _comparable(name)
    return comparable in ALLOWED or comparable.startswith("LC_")


def missing_variable_hint(text: str, environ: Environ, child: Environ) -> str | None:
    """A hint for a failure that says `text`, if it names a variable that the system
    doesn't get; None if it names none. `environ` is Ragstone's environment, `child` the
    system's."""
    for name in _VARIABLE_NAME.findall(text):
        is_known = name in environ or SECRET_NAME.search(name) is not None
        if is_known and name not in child and not _matches(name, FORBIDDEN):
            return f'{name} is not passed to your system: set it, and add "{name}" to env under [system].'
    return None


def substituted(
    value: str, names: Iterable[str], environ: Environ, *, where: str
) -> str:
    """Replace each ``${NAME}`` in `value` by the variable of `environ`. Raises
    ConfigError for one that is not set, or that `names` (`system.env`) don't let
    through."""
    passed = passed_variables(names, environ)

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in passed:
            return environ[name]
        check_names((name,))  # it may be a variable that can't be passed at all
        raise ConfigError(
            f"the environment variable {name} is not set, or not passed to the system under test.",
            where=where,
            hint=f"Set {name}, and add '{name}' to env in [system].",
        )

    return _REFERENCE.sub(replace, value)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name.upper(), pattern) for pattern in patterns)


def _comparable(name: str) -> str:
    """`name` as the platform compares names of variables: Windows ignores case."""
    return name.upper() if sys.platform == "win32" else name
