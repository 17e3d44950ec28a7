"""Reads Parquet, through pyarrow (the extra ``ragstone[parquet]``)."""

from __future__ import annotations

from collections.abc import Iterator

from ragstone.golden.rows import MAX_COLUMNS, Row, SourceFile, first_line_of

_BATCH_ROWS = 1024


def read_rows(source: SourceFile) -> Iterator[Row]:
    """Yield the rows of `source`, without line numbers. Raises GoldenSetError."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise source.error(
            "reading Parquet needs pyarrow, which is not installed.",
            hint='Run: pip install "ragstone[parquet]"',
        ) from None
    try:
        with source.open_document() as stream, parquet.ParquetFile(stream) as file:
            names = file.schema_arrow.names
            count = len(names)
            if count > MAX_COLUMNS:
                raise source.error(
                    f"{count:,} columns; at most {MAX_COLUMNS:,} are allowed."
                )
            distinct_names = set(names)
            if len(distinct_names) != count:
                raise source.error(
                    "two columns have the same name.", hint="Rename one of them."
                )
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for values in batch.to_pylist():
                    yield Row(values)
    except OSError as error:
        raise source.error(
            f"can't be read as Parquet: {first_line_of(error)}"
        ) from None
    except (arrow.ArrowException, ValueError, OverflowError) as error:
        raise source.error(f"not valid Parquet: {first_line_of(error)}") from None
