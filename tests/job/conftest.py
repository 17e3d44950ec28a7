"""A fake GitHub, and a bucket on loopback, served by moto, which speaks S3's protocol and was written by others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ci.github.conftest import api, connect, contract, github, pauses

__all__ = ["api", "connect", "contract", "github", "pauses", "s3", "s3_server"]

BUCKET = "my-bucket"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def s3(s3_server: str) -> Iterator[dict[str, str]]:
    """The environment of a job with access to an empty bucket `my-bucket`."""
    import boto3

    environ = {
        "AWS_ENDPOINT_URL_S3": s3_server,
        "AWS_ACCESS_KEY_ID": "key-of-the-bucket",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-bucket",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    client = boto3.client(
        "s3",
        endpoint_url=s3_server,
        aws_access_key_id="key-of-the-bucket",
        aws_secret_access_key="secret-of-the-bucket",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    yield environ
    for entry in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        client.delete_object(Bucket=BUCKET, Key=entry["Key"])
    client.delete_bucket(Bucket=BUCKET)
