"""Tables of ragas: questions, answers and contexts, with a column for each metric."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ragstone.app.survey.look import MAX_DATA_BYTES
from ragstone.errors import GoldenSetError
from ragstone.formatting import counted
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, RECORDED, normal
from ragstone.golden.formats.registry import BY_ENDING
from ragstone.golden.load import table_rows
from ragstone.golden.rows import MAX_FILE_BYTES, Row, SourceFile
from ragstone.run.score_files import metric_columns
from ragstone.tools.migrate.evaluation import Case, Evaluation, Grade, as_number, canonical, content, entry_of, filled
from ragstone.tools.migrate.python_bounds import Bound, bounds_in

_COLUMNS = {
    "question": ("user_input", "question", *FIELDS["question"].strong),
    "reference": ("reference", "ground_truth", "ground_truths", *FIELDS["reference"].strong),
    "recorded answer": ("response", "answer", *RECORDED["answer"].strong),
    "recorded contexts": ("retrieved_contexts", "contexts", "context", *RECORDED["contexts"].strong),
    **{
        field: (field, *FIELDS[field].strong)
        for field in ("id", "reference_contexts", "relevant_ids", "answerable", "tags", "group", "history")
    },
}
_MAX_TABLES = 50
"""Number of tables that are read at most to find those of ragas."""


def read_ragas(root: Path, names: list[PurePosixPath]) -> Evaluation | None:
    """The table with the most metrics and rows among the files, with bounds in Python source; None without a table.

    Raises GoldenSetError for a cell that can't be read, and for a table that is the only file and can't be read.
    """
    alone = len(names) == 1
    tables: list[tuple[list[str], int, SourceFile]] = []
    data = [one for one in names if one.suffix.lower() in BY_ENDING and not one.name.startswith((".", "package"))]
    for name in data[:_MAX_TABLES]:
        source = SourceFile(root / name, str(name), root, limit=MAX_FILE_BYTES if alone else MAX_DATA_BYTES)
        try:
            rows = list(table_rows(source))
        except (GoldenSetError, OSError):
            if alone and name.suffix.lower() not in (".json", ".yaml", ".yml"):  # those may be another tool's
                raise
            continue
        if rows and _is_ragas(rows[0].values):
            tables.append((metric_columns([row.values for row in rows]), len(rows), source))
    if not tables:
        return None
    tables.sort(key=lambda one: (-len(one[0]), -one[1]))
    metrics, _, table = tables[0]
    found = _read(metrics, table)
    found.left_out += [(source.name, "another table; name it to migrate it") for _, _, source in tables[1:]]
    columns = {canonical(name): name for name in reversed(metrics)} | {normal(name): name for name in metrics}
    for name in (one for one in names if one.suffix == ".py"):
        bounds = bounds_in(content(root, name), lambda word: columns.get(normal(word), columns.get(canonical(word))))
        for bound in sorted(bounds, key=lambda one: one.lower is None):  # what fails comes first
            _add_bound(bound, f"{bound.value:g} in {name}:{bound.line}", found)
    return found


def _add_bound(one: Bound, place: str, found: Evaluation) -> None:
    entry = entry_of(one.metric)
    if one.lower is not None and entry is not None and one.lower is not bool(entry.get("lower_is_better")):
        found.left_out.append((place, f"of {one.metric}, {'less' if not one.lower else 'more'} is better"))
    elif one.metric not in found.bounds:
        found.bounds[one.metric] = one.value
        found.lower |= {} if one.lower is None else {one.metric: one.lower}
        found.translated.append((place, f"the bound of {one.metric}"))
    elif found.bounds[one.metric] != one.value:
        found.left_out.append((place, f"{one.metric} has another bound already"))


def _is_ragas(columns: Mapping[str, object]) -> bool:
    """Whether a row is one of a data set or a result of ragas: a question, with an answer or retrieved contexts."""
    names = {normal(name) for name in columns}
    recorded = names & {"response", "contexts", "retrieved_contexts"} or any(map(entry_of, columns))
    return bool(names & {"user_input", "question"} and recorded)


def _read(metrics: list[str], source: SourceFile) -> Evaluation:
    rows = list(table_rows(source))
    found = Evaluation("ragas", per_case=False, files=[source.name])
    used = dict.fromkeys(metrics, "")
    for row in rows:
        try:
            found.cases.append(_case(row, metrics, used))
        except cells.CellError as error:
            raise GoldenSetError(f"a cell {error}.", where=source.at(row.line)) from None
    found.translated += [(f"column {name}", field) for name, field in used.items() if field]
    ignored = dict.fromkeys(str(name) for row in rows for name in row.values if str(name) not in used)
    found.left_out += [(f"column {name or '(without a name)'}", "neither a metric nor a field") for name in ignored]
    if missing := sum(grade.value is None for case in found.cases for grade in case.grades.values()):
        why = "ragas leaves them out of a mean; here they are failed, and count in coverage"
        found.left_out.append((counted(missing, "empty score"), why))
    return found


def _case(row: Row, metrics: list[str], used: dict[str, str]) -> Case:
    by_name = {normal(str(column)): (str(column), value) for column, value in reversed([*row.values.items()])}

    def cell(field: str) -> object:
        for column, value in (by_name[name] for name in _COLUMNS[field] if name in by_name):
            if used.setdefault(column, field) == field and value is not None and value != "":
                return value
        return None

    asked, said = conversation(cell("question"))
    golden = {field: cell(field) for field in _COLUMNS if " " not in field}
    if isinstance(written := golden["reference_contexts"], str):
        golden["reference_contexts"] = list(cells.contexts(written))
    golden |= {"question": asked, "reference": list(cells.texts(golden["reference"], written=True))}
    answer, retrieved = cells.text(cell("recorded answer")) or said, cell("recorded contexts")
    recorded: dict[str, object] = {"answer": answer or ""} if answer or retrieved is not None else {}
    if retrieved is not None:  # not recorded is not empty
        recorded["contexts"] = list(cells.contexts(retrieved))
    grades = {name: Grade(as_number(row.values[name])) for name in metrics if name in row.values}
    return Case(filled(golden), recorded or None, grades)


def conversation(asked: object) -> tuple[object, str | None]:
    """A question, or the messages up to the last of the user, with what the system said to it."""
    if isinstance(asked, str) and asked.lstrip().startswith("[{"):
        asked = list(cells.listed(asked, split_bars=False))
    if not isinstance(asked, list):
        return asked, None
    messages = [dict(one) for one in asked if isinstance(one, Mapping)]
    for one in messages:  # ragas writes human and ai under `type`, as LangChain does
        one["role"] = {"human": "user", "ai": "assistant"}.get(str(one.get("role", one.get("type"))), one.get("role"))
    last = max((at for at, one in enumerate(messages) if one["role"] == "user"), default=-1)
    spoken = (one.get("content", one.get("text")) for one in messages[last + 1 :] if one["role"] == "assistant")
    said = [text for one in spoken if (text := cells.text(one))]
    return (messages[: last + 1], said[-1]) if said and last >= 0 else (messages or asked, None)
