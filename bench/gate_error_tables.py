"""Tables and plots of `gate_error_rates.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

GATES = (
    "ragstone",
    "ragstone, tight floors",
    "ragstone, max_drop .02",
    "bare mean",
    "tolerance .02",
    "evalsig",
    "evalsig, Holm",
    "deltagate, Holm",
)


def write_tables(document: dict[str, Any], path: Path) -> None:
    """Markdown: one table per question, with families or gates as rows and sample sizes as columns."""
    cells = document["cells"]
    sizes = sorted({cell["n"] for cell in cells})
    families = [name for name in document["families"] if any(cell["family"] == name for cell in cells)]
    parts = [
        "# Error rates of gates",
        f"Made by `python bench/gate_error_rates.py --runs {document['runs']} --seed {document['seed']}`; the cells "
        f"took {sum(cell.get('seconds', 0.0) for cell in cells) / 60:.0f} minutes in all. Shares of simulated runs; "
        f"alpha = {document['alpha']}.",
        *_families(document, families),
        "## The rag family: every gate",
        *_gates(cells, sizes),
        *_false_fails(cells, families, sizes),
        *_sights(cells, families),
        *_power(cells, families, sizes),
        *_coverage(cells, families, sizes),
        *_asymmetric(cells, sizes),
    ]
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")


def _families(document: dict[str, Any], families: Sequence[str]) -> list[str]:
    rows = [(name, document["families"][name]) for name in families]
    return ["## Families", _table(("family", "scores"), rows)]


def _gates(cells: Sequence[dict[str, Any]], sizes: Sequence[int]) -> list[str]:
    parts = []
    for drop, words in (
        (0.0, "nothing changed: share of runs failed"),
        (0.02, "a drop of 2 points in all four metrics: share of runs failed"),
        (0.05, "a drop of 5 points"),
        (0.1, "a drop of 10 points"),
    ):
        rows = []
        for gate in GATES:
            shares = [
                _one(cells, "gates", "rag", n, drop, lambda cell, gate=gate: cell["fails"].get(gate)) for n in sizes
            ]
            if any(share is not None for share in shares):
                rows.append((gate, *map(_share, shares)))
        parts.append(f"{words[0].upper()}{words[1:]}.")
        parts.append(_table(("gate", *(f"n = {n}" for n in sizes)), rows))
    return parts


def _false_fails(cells: Sequence[dict[str, Any]], families: Sequence[str], sizes: Sequence[int]) -> list[str]:
    parts = []
    for words, gate in (
        ("Ragstone where nothing changed, floors at the true means", "ragstone, tight floors"),
        ("Ragstone where nothing changed, floors 5 points below the true means", "ragstone"),
        ("evalsig, a metric at a time", "evalsig"),
        ("evalsig, Holm", "evalsig, Holm"),
        ("deltagate, Holm", "deltagate, Holm"),
    ):
        table = _by_family(cells, families, sizes, "gates", 0.0, lambda cell, gate=gate: cell["fails"].get(gate))
        parts += _section(f"False fails of {words}", table)
    return parts


def _sights(cells: Sequence[dict[str, Any]], families: Sequence[str]) -> list[str]:
    sizes = sorted({cell["n"] for cell in cells if cell["kind"] == "sight"})
    head = "The drop that is called seen in 4 of 5 runs (max_drop .02) / how often it is, a metric"
    return _section(head, _by_family(cells, families, sizes, "sight", 0.0, _sight))


def _sight(cell: dict[str, Any]) -> str:
    if cell["size"] is None:
        return "none"
    return _share(cell["size"]) + ("" if cell["seen"] is None else f" / {_share(cell['seen'])}")


def _power(cells: Sequence[dict[str, Any]], families: Sequence[str], sizes: Sequence[int]) -> list[str]:
    parts = []
    for drop in (0.02, 0.05, 0.1):
        for gate in ("ragstone", "deltagate, Holm", "evalsig, Holm"):
            table = _by_family(cells, families, sizes, "gates", drop, lambda cell, gate=gate: cell["fails"].get(gate))
            parts += _section(f"Drops of {drop * 100:.0f} points in all four metrics seen by {gate}", table)
    return parts


def _coverage(cells: Sequence[dict[str, Any]], families: Sequence[str], sizes: Sequence[int]) -> list[str]:
    parts = []
    for what in ("mean", "difference"):
        for drop in (0.0, 0.05):
            where = "nothing changed" if drop == 0.0 else "a drop of 5 points"
            parts.append(f"## Coverage / width of 95 % intervals for a {what}, {where}")
            parts.append(
                _by_family(
                    cells,
                    families,
                    sizes,
                    "intervals",
                    drop,
                    lambda cell, what=what: f"{_share(cell['coverage'][what])} / {_share(cell['width'][what])}",
                )
            )
    return parts


def _asymmetric(cells: Sequence[dict[str, Any]], sizes: Sequence[int]) -> list[str]:
    rows = []
    for name in ("rare gains", "rare losses"):
        shares = [_one(cells, "asymmetric", "", n, 0.0, lambda cell, name=name: cell["fails"][name]) for n in sizes]
        if any(share is not None for share in shares):
            rows.append((name, *map(_share, shares)))
    head = "Beyond the assumption: differences of mean 0 that are not symmetric, false fails over four metrics"
    return _section(head, _table(("differences", *(f"n = {n}" for n in sizes)), rows) if rows else "")


def _by_family(
    cells: Sequence[dict[str, Any]],
    families: Sequence[str],
    sizes: Sequence[int],
    kind: str,
    drop: float,
    read: Callable[[dict[str, Any]], Any],
) -> str:
    rows = []
    for family in families:
        row = [_one(cells, kind, family, n, drop, read) for n in sizes]
        if any(entry is not None for entry in row):
            rows.append((family, *(entry if isinstance(entry, str) else _share(entry) for entry in row)))
    return "" if not rows else _table(("family", *(f"n = {n}" for n in sizes)), rows)


def _section(head: str, table: str) -> list[str]:
    """Nothing if no cell has been run for `table`."""
    return [f"## {head}", table] if table else []


def _one(
    cells: Sequence[dict[str, Any]], kind: str, family: str, n: int, drop: float, read: Callable[[dict[str, Any]], Any]
) -> Any:
    for cell in cells:
        if (cell["kind"], cell["family"], cell["n"], cell["drop"]) == (kind, family, n, drop):
            return read(cell)
    return None


def _share(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}".lstrip("0") if 0.0 < value < 1.0 else f"{value:.0f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_plots(document: dict[str, Any], folder: Path) -> None:
    """SVG: false-fail rate and power of every gate in the rag family, and coverage over families."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gate_error_rates"
    from matplotlib import pyplot as plt

    cells = document["cells"]
    sizes = sorted({cell["n"] for cell in cells})
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), sharey=True, layout="constrained")
    titles = {0.0: "nothing changed", 0.05: "a drop of 5 points", 0.1: "a drop of 10 points"}
    for axis, (drop, title) in zip(axes, titles.items(), strict=True):
        for gate in GATES:
            points = [
                (n, _one(cells, "gates", "rag", n, drop, lambda cell, gate=gate: cell["fails"].get(gate)))
                for n in sizes
            ]
            points = [(n, share) for n, share in points if share is not None]
            if points:
                style = "-" if gate.startswith("ragstone") else "--"
                axis.plot(*zip(*points, strict=True), style, marker="o", markersize=3, label=gate)
        axis.set(title=title, xscale="log", xlabel="samples", ylim=(-0.02, 1.02))
        axis.set_xticks(sizes, [str(n) for n in sizes], rotation=45)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].axhline(document["alpha"], color="black", linewidth=0.8)
    axes[0].set_ylabel("share of runs failed")
    axes[2].legend(fontsize=7)
    figure.savefig(folder / "gate_error_rates.svg", metadata={"Date": None})
    plt.close(figure)
    _coverage_plot(plt, document, sizes, folder / "interval_coverage.svg")


def _coverage_plot(plt: Any, document: dict[str, Any], sizes: Sequence[int], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    for axis, what in zip(axes, ("mean", "difference"), strict=True):
        for family in document["families"]:
            points = [
                (
                    n,
                    _one(
                        document["cells"], "intervals", family, n, 0.05, lambda cell, what=what: cell["coverage"][what]
                    ),
                )
                for n in sizes
            ]
            points = [(n, share) for n, share in points if share is not None]
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=family)
        axis.axhline(0.95, color="black", linewidth=0.8)
        axis.set(title=f"{what}, a drop of 5 points", xscale="log", xlabel="samples", ylim=(0.9, 1.005))
        axis.set_xticks(sizes, [str(n) for n in sizes], rotation=45)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("coverage of 95 % intervals")
    axes[1].legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
