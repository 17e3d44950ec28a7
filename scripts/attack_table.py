"""Write the lists of attacks in docs/threat-model.md from the marks of the tests: ``@pytest.mark.attack(…)``.

python scripts/attack_table.py            # write
python scripts/attack_table.py --check    # exit with 1 if the page differs
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "threat-model.md"

ATTACKERS = {
    "pull request": "The author of a pull request",
    "fork": "The author of a fork's pull request",
    "text": "Authors of displayed text",
    "other CI": "Changes on other CI systems and on your machine",
    "history": "Whoever writes a history",
    "network": "The network and GitHub",
    "stored run": "Whoever can change a stored run",
    "supply chain": "Our own supply chain",
}
"""Who attacks, as the marks say it, with the heading of the list."""

_BLOCK = re.compile(r"(<!-- attacks:begin -->\n).*?(<!-- attacks:end -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Attack:
    """One marked test: what is tried, what stops it, and where the test is, below tests/."""

    by: str
    tries: str
    stopped_by: str
    test: str

    @property
    def file(self) -> str:
        """The file of the test, below tests/."""
        return self.test.partition("::")[0]


def attacks_in(folder: Path) -> Iterator[Attack]:
    """The marked tests below `folder`, by file and line. Raises ValueError for a mark that lacks an argument."""
    for path in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = path.relative_to(folder).as_posix()
        for function in tree.body:
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for decorator in function.decorator_list:
                if _is_mark(decorator):
                    yield _attack(decorator, f"{name}::{function.name}")


def _is_mark(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.attack"


def _attack(mark: ast.expr, test: str) -> Attack:
    assert isinstance(mark, ast.Call)  # noqa: S101 - see _is_mark
    arguments = {keyword.arg: ast.literal_eval(keyword.value) for keyword in mark.keywords}
    if arguments.keys() != {"by", "tries", "stopped_by"} or arguments["by"] not in ATTACKERS:
        raise ValueError(f"{test}: a mark says by (one of {', '.join(ATTACKERS)}), tries and stopped_by")
    return Attack(arguments["by"], arguments["tries"], arguments["stopped_by"], test)


def lists(attacks: list[Attack]) -> str:
    """A heading and a list for each attacker."""
    parts = []
    for by, heading in ATTACKERS.items():
        rows = [f"- {one.tries}: {one.stopped_by} (`{one.file}`)" for one in attacks if one.by == by]
        parts.append("\n".join([f"### {heading}\n", *rows]))
    return "\n\n".join(parts)


def with_lists(page: str, attacks: list[Attack]) -> str:
    """`page` with the lists of `attacks` between the markers."""
    return _BLOCK.sub(lambda block: f"{block[1]}{lists(attacks)}\n{block[2]}", page)


def main(arguments: list[str]) -> int:
    """`--check` compares only."""
    page = PAGE.read_text(encoding="utf-8")
    expected = with_lists(page, list(attacks_in(ROOT / "tests")))
    if page == expected:
        return 0
    if "--check" in arguments:
        sys.stderr.write("docs/threat-model.md is not what scripts/attack_table.py writes.\n")
        return 1
    PAGE.write_text(expected, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
