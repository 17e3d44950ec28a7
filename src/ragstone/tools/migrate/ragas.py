"""Tables of ragas: questions, answers and contexts, with a column for each metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragstone.errors import GoldenSetError
from ragstone.formatting import counted
from ragstone.golden import cells
from ragstone.golden.aliases import FIELDS, RECORDED, normal
from ragstone.golden.load import table_rows
from ragstone.golden.rows import Row, SourceFile
from ragstone.tools.migrate.evaluation import Case, Evaluation, Grade, as_number, entry_of

_ANSWER = ("response", "answer", *RECORDED["answer"].strong)
_RETRIEVED = ("retrieved_contexts", "contexts", "context", *RECORDED["contexts"].strong)
_QUESTION = ("user_input", "question", *FIELDS["question"].strong)
_REFERENCE = ("reference", "ground_truth", "ground_truths", *FIELDS["reference"].strong)
_GOLDEN = ("id", "reference_contexts", "relevant_ids", "answerable", "tags", "group", "history")
_NO_METRIC = frozenset({"index", "unnamed_0", "latency", "cost", "tokens", "latency_s", "row", "rank"})


def is_ragas(columns: Mapping[str, object]) -> bool:
    """Whether a row is one of a data set or a result of ragas: a question, with an answer or retrieved contexts."""
    names = {normal(name) for name in columns}
    recorded = names & {"response", "contexts", "retrieved_contexts"} or any(map(entry_of, columns))
    return bool(names & {"user_input", "question"} and recorded)


def metric_columns(rows: list[Row]) -> list[str]:
    """Columns of numbers under a metric's name, and other columns with numbers from 0 to 1 only."""
    named = {normal(name) for names in (_ANSWER, _RETRIEVED, _QUESTION, _REFERENCE, _GOLDEN) for name in names}
    named |= {alias for field in FIELDS.values() for alias in (*field.strong, *field.weak)}
    found = []
    for name in dict.fromkeys(name for row in rows for name in row.values):
        values = [row.values.get(name) for row in rows]
        numbers = [as_number(value) for value in values if not isinstance(value, bool) and value not in (None, "")]
        if normal(name) in named | _NO_METRIC or not numbers:
            continue
        finite = [value for value in numbers if value is not None]
        blank = sum(str(value).lower() in ("nan", "none", "null") for value in values)
        if len(finite) + blank < len(numbers):
            continue
        if entry_of(name) is not None or (finite and all(0 <= value <= 1 for value in finite)):
            found.append(str(name))
    return found


def read_ragas(source: SourceFile) -> Evaluation:
    """The evaluation in a table of ragas. Raises GoldenSetError with the line of a cell that can't be read."""
    rows = list(table_rows(source))
    found = Evaluation("ragas", per_case=False, files=[source.name])
    metrics = metric_columns(rows)
    used = dict.fromkeys(metrics, "")
    for row in rows:
        try:
            found.cases.append(_case(row, metrics, used))
        except cells.CellError as error:
            raise GoldenSetError(f"a cell {error}.", where=source.at(row.line)) from None
    found.translated += [(f"column {name}", field) for name, field in used.items() if field]
    ignored = dict.fromkeys(str(name) for row in rows for name in row.values if str(name) not in used)
    found.left_out += [
        (f"column {name or '(without a name)'}", "it is neither a metric nor a field") for name in ignored
    ]
    missing = sum(grade.value is None for case in found.cases for grade in case.grades.values())
    if missing:
        found.left_out.append(
            (
                counted(missing, "empty score"),
                "ragas leaves them out of a mean; here they are failed, and count in coverage",
            )
        )
    return found


def _case(row: Row, metrics: list[str], used: dict[str, str]) -> Case:
    def cell(names: tuple[str, ...], field: str) -> object:
        for name in names:
            for column, value in row.values.items():
                if normal(str(column)) == name and used.get(str(column), field) == field:
                    used[str(column)] = field
                    if value is not None and value != "":
                        return value
        return None

    asked, said = conversation(cell(_QUESTION, "question"))
    reference = cell(_REFERENCE, "reference")
    own = {field: cell((field, *FIELDS[field].strong), field) for field in _GOLDEN}
    written = own["reference_contexts"]
    if isinstance(written, str):
        own["reference_contexts"] = list(cells.contexts(written))
    golden = {**own, "question": asked, "reference": list(cells.texts(reference, written=True))}
    answer = cells.text(cell(_ANSWER, "recorded answer")) or said
    retrieved = cell(_RETRIEVED, "recorded contexts")
    grades = {name: Grade(as_number(row.values[name])) for name in metrics if name in row.values}
    recorded: dict[str, object] = {"answer": answer or ""} if answer or retrieved is not None else {}
    if retrieved is not None:  # not recorded is not empty
        recorded["contexts"] = list(cells.contexts(retrieved))
    return Case({key: value for key, value in golden.items() if value not in (None, "", [])}, recorded or None, grades)


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
    said = [text for one in messages[last + 1 :] if one["role"] == "assistant" and (text := cells.text(one["content"]))]
    return (messages[: last + 1], said[-1]) if said and last >= 0 else (messages or asked, None)


def ragas_tables(sources: list[SourceFile]) -> Iterator[tuple[tuple[int, int], SourceFile]]:
    """The files that are tables of ragas, with the number of their metrics and rows."""
    for source in sources:
        try:
            rows = list(table_rows(source))
        except (GoldenSetError, OSError):
            continue
        if rows and is_ragas(rows[0].values):
            yield (len(metric_columns(rows)), len(rows)), source
