"""What an oracle half of a run says."""

from __future__ import annotations

from ragstone.gate.verdict import OracleShares
from ragstone.report.escape import one_line
from ragstone.report.filters import sentence
from ragstone.report.templates import PACKAGE, render_lines

ORACLE_TITLE = "With the reference contexts given (oracle)"


def oracle_lines(shares: OracleShares | None) -> list[str]:
    """A sentence for each metric, then what qualifies them. Empty without an oracle half."""
    if shares is None:
        return []
    incomplete = None if shares.incomplete is None else one_line(sentence(shares.incomplete))
    return render_lines("oracle.txt.j2", PACKAGE, found=shares, incomplete=incomplete)
