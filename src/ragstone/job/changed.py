"""The paths that a change touches, and whether patterns, files or what a gate reads are among them.

GitHub lists the files that differ. A link or a submodule is one entry of such a list, whatever lies below it; and a
file below the target of a link is changed under the name that the link gives it, too.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.ci.github.base_files import LINKS, MAX_LISTED, changed_files, list_base_modes
from ragstone.ci.github.client import GitHubApi
from ragstone.golden.patterns import compiled

_MAX_NAMES = 20_000
_MAX_LINKS = 5_000
_CHAIN = 8
"""So many links, one below the target of another, are followed."""


class UnknownChangeError(Exception):
    """Which files a change touches can't be known; the message says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """The `files` that a change touches, by all their names; `whole` are those of links and submodules among them."""

    files: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()

    def touches(self, patterns: Sequence[str]) -> bool:
        """Whether a file matches `patterns`: the last pattern that fits it decides, and ``!`` excludes.

        ``*`` stands for any characters but ``/``, ``**`` for any characters, and a folder stands for all that is in
        it; but an exclusion that ends in a name with ``*``, as ``!**/*.md``, excludes no folder of such a name. A link
        or a submodule counts if a file below it could match.
        """
        rules = [_Rule.of(pattern) for pattern in patterns]
        return any(_last(rules, file, whole=False) for file in self.files - self.whole) or any(
            _last(rules, entry, whole=True) for entry in self.whole
        )

    def touches_path(self, path: str) -> bool:
        """Whether the file `path`, or a file in the folder `path`, is touched."""
        below = f"{path}/"
        return any(file == path or file.startswith(below) for file in self.files) or any(
            below.startswith(f"{entry}/") for entry in self.whole
        )


def read_change(api: GitHubApi, base: str, head: str, workspace: Path) -> Change:
    """What differs between two commits, with the links of the checkout in `workspace`.

    Raises UnknownChangeError and GitHubApiError.
    """
    files = changed_files(api, base, head)
    if files is None:
        raise UnknownChangeError(f"it has {MAX_LISTED} files or more, and GitHub lists no more")
    links = links_in(workspace)
    before = list_base_modes(api, base) if any(not (workspace / file).is_file() for file in files) else {}
    # A folder in the checkout is a submodule: Git knows no others.
    whole = {file for file in files if file in links or before.get(file) in LINKS or (workspace / file).is_dir()}
    return with_links(Change(files, frozenset(whole)), links)


def links_in(workspace: Path) -> Mapping[str, str]:
    """The links in a checkout that lead to something in it, and their targets. Raises UnknownChangeError."""
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(workspace):
        at = Path(folder).relative_to(workspace).as_posix()
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*folders, *files):
            if not os.path.islink(full := os.path.join(folder, name)):  # noqa: PTH114, PTH118 - three times as fast
                continue
            inside = os.path.relpath(os.path.join(folder, Path(full).readlink()), workspace)  # noqa: PTH118
            if not inside.startswith(".."):
                found[posixpath.normpath(posixpath.join(at, name))] = Path(inside).as_posix()
            if len(found) > _MAX_LINKS:
                raise UnknownChangeError(f"the checkout has more than {_MAX_LINKS:,} links")
    return found


def with_links(change: Change, links: Mapping[str, str]) -> Change:
    """`change` with the names that `links` (link to target) give what it touches. Raises UnknownChangeError."""
    files, whole = set(change.files), set(change.whole)
    by_target: dict[str, list[str]] = {}
    for link, target in links.items():
        by_target.setdefault(target, []).append(link)
    last = files
    for _ in range(_CHAIN):
        # What leads into a submodule, or through another link that differs, may lead anywhere now.
        moved = {link for link, target in links.items() if not whole.isdisjoint(_above(target))} - whole
        new = set(moved)
        for file in last:
            for target in (".", *_above(file)):
                below = posixpath.relpath(file, target) if target in by_target else ""
                new.update(posixpath.normpath(f"{link}/{below}") for link in by_target.get(target, ()))
                if len(files) + len(new) > _MAX_NAMES:
                    raise UnknownChangeError("its files have too many names by links")
        last = new - files
        if not last and not moved:
            break
        whole |= moved
        files |= last
    return Change(frozenset(files), frozenset(whole))


def _above(path: str) -> Iterator[str]:
    """`path`, and the folders that it is in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class _Rule:
    includes: bool
    parts: tuple[str, ...]
    expression: re.Pattern[str]

    @classmethod
    def of(cls, pattern: str) -> _Rule:
        includes = not pattern.startswith("!")
        path = pattern.removeprefix("!").removeprefix("./").removeprefix("/")
        path = path.rstrip("/") or path
        last = path.rpartition("/")[2]
        below = "" if not includes and "*" in last and "**" not in last else "(?:/.*)?"
        return cls(includes, tuple(path.split("/")), compiled(rf"(?s)\A{_translated(path)}{below}\z"))

    def fits(self, file: str) -> bool:
        return self.expression.search(file) is not None

    def fits_below(self, entry: str) -> bool:
        """Whether something at or below `entry` could match; for an exclusion, whether all of it does."""
        if not self.includes:
            return self.fits(f"{entry}/\0/\0")
        for part, name in zip(self.parts, entry.split("/"), strict=False):
            if "**" in part:
                return True
            if compiled(rf"(?s)\A{_translated(part)}\z").search(name) is None:
                return False
        return True


def _last(rules: Iterable[_Rule], name: str, *, whole: bool) -> bool:
    counts = False
    for rule in rules:
        if rule.includes is not counts and (rule.fits_below(name) if whole else rule.fits(name)):
            counts = rule.includes
    return counts


_PART = re.compile(r"\*\*/|\*\*|\*|.", re.DOTALL)
_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}


def _translated(path: str) -> str:
    return _PART.sub(_of_part, path)


def _of_part(part: re.Match[str]) -> str:
    char = part[0]
    if char in _WILDCARDS:
        return _WILDCARDS[char]
    return char if char.isalnum() or char in "/_-" or ord(char) > 127 else f"\\x{{{ord(char):x}}}"
