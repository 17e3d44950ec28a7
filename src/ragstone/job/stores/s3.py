"""A store in a bucket of S3 or of a service that speaks its protocol. Needs the extra `s3`.

Credentials, region and endpoint come from the environment (AWS_*), as boto3 reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstone.ci.store import ENDING, MAX_ARCHIVE_BYTES, BaselineStore, Stored, StoreFailed, of_commit
from ragstone.errors import ConfigError
from ragstone.run.archive_members import pack_run

_MAX_PAGES = 20


@dataclass(frozen=True, slots=True)
class S3Store(BaselineStore):
    """Objects ``PREFIX/COMMIT.zip`` in a bucket."""

    client: Any
    bucket: str
    prefix: str

    @classmethod
    def at(cls, place: str) -> S3Store:
        """The store at ``BUCKET/PREFIX``. Raises ConfigError."""
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ImportError:
            raise ConfigError(
                "a store in S3 needs boto3, which is not installed.",
                where="gate.baseline_store",
                hint="pip install 'ragstone[s3]'",
            ) from None
        bucket, _, prefix = place.partition("/")
        config = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 3, "mode": "standard"})
        try:
            return cls(boto3.client("s3", config=config), bucket, prefix)
        except (BotoCoreError, ValueError) as error:
            raise ConfigError(f"S3 can't be used: {error}", where="gate.baseline_store") from None

    def newest(self, ancestors: Sequence[str]) -> Iterator[Stored]:
        sizes = self._sizes()
        for commit in ancestors:
            key = self._key(commit)
            if key not in sizes:
                continue
            if sizes[key] > MAX_ARCHIVE_BYTES:
                raise StoreFailed(f"{key} is larger than {MAX_ARCHIVE_BYTES:,} bytes")
            with _refusing():
                reply = self.client.get_object(Bucket=self.bucket, Key=key)
                body = reply["Body"].read(MAX_ARCHIVE_BYTES + 1)
            yield of_commit(commit, body, f"s3://{self.bucket}/{key}", ancestors)

    def save(self, commit: str, run: Path, ancestors: Sequence[str]) -> str:  # noqa: ARG002 - buckets have rules of their own
        key, body = self._key(commit), pack_run(run)
        with _refusing():
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType="application/zip")
        return f"s3://{self.bucket}/{key}"

    def _key(self, commit: str) -> str:
        return "/".join(filter(None, (self.prefix, f"{commit}{ENDING}")))

    def _sizes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        where = {"Bucket": self.bucket, "Prefix": f"{self.prefix}/" if self.prefix else ""}
        with _refusing():
            for number, page in enumerate(self.client.get_paginator("list_objects_v2").paginate(**where)):
                found |= {entry["Key"]: entry["Size"] for entry in page.get("Contents", ())}
                if number == _MAX_PAGES:
                    break
        return found


class _refusing:  # noqa: N801 - a context manager
    """Turns errors of boto3 into StoreFailed."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        if isinstance(error, ClientError):
            code = error.response.get("Error", {}).get("Code", "an error")
            raise StoreFailed(f"S3 answered {code} to {error.operation_name}") from None
        if isinstance(error, BotoCoreError | OSError):
            raise StoreFailed(f"S3: {error}") from None
