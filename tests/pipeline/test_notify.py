"""The webhook, against a real server on loopback."""

from __future__ import annotations

import json

import pytest

from ragstone.errors import ConfigError
from ragstone.pipeline.notify import notify
from tests.pipeline.receiver import Receiver, receiver

__all__ = ["receiver"]


def send(receiver: Receiver, link: str | None = None) -> str | None:
    return notify(receiver.url, "<!channel> a & b", link=link)


def test_a_message_is_a_text_with_a_link_and_mentions_nobody(receiver: Receiver) -> None:
    assert send(receiver, link="https://ci.example/1") is None
    ((path, headers, body),) = receiver.got
    assert path.endswith("T-secret-path")
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {"text": "‹!channel› a & b\nhttps://ci.example/1"}


def test_a_receiver_that_fails_is_named_without_its_address(receiver: Receiver) -> None:
    receiver.statuses = [(500, {})]
    problem = send(receiver) or ""
    assert problem.endswith("could not be reached: it answered 500.")
    assert "secret" not in problem


@pytest.mark.parametrize("status", [404, 302])
def test_a_refusal_and_a_redirect_are_final(receiver: Receiver, status: int) -> None:
    receiver.statuses = [(status, {"location": receiver.url})]
    assert "it answered" in (send(receiver) or "")
    assert len(receiver.got) == 1


def test_the_body_of_a_reply_is_not_waited_for(receiver: Receiver) -> None:
    receiver.promised_bytes = 10**12
    assert send(receiver) is None
    assert len(receiver.got) == 1


def test_nobody_there() -> None:
    problem = notify("http://127.0.0.1:9/secret-path", "text")
    assert "secret-path" not in (problem or "secret-path")


@pytest.mark.parametrize(
    "address", ["", "http://example.org/x", "ftp://127.0.0.1/", "https://", "http://[::1", "http://10.0.0.1/"]
)
def test_only_https_or_this_machine(address: str) -> None:
    with pytest.raises(ConfigError, match="RAGSTONE_NOTIFY") as caught:
        notify(address, "text")
    assert not address or address not in str(caught.value)
