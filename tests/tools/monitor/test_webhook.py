"""The webhook, against a real server on loopback."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from ragstone.cli.monitor import Format, post, signature, webhook_body
from ragstone.errors import ConfigError
from tests.tools.monitor.receiver import Receiver, receiver

__all__ = ["receiver"]

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def send(receiver: Receiver, pauses: list[float] | None = None, secret: str = "") -> str | None:
    environ = {"RAGSTONE_WEBHOOK_URL": receiver.url, "RAGSTONE_WEBHOOK_SECRET": secret}
    kept: list[float] = [] if pauses is None else pauses
    return post(environ, webhook_body("json", "hello", {"failing": True}), now=lambda: NOW, sleep=kept.append)


def test_a_message_arrives_and_can_be_verified(receiver: Receiver) -> None:
    assert send(receiver, secret="our secret") is None
    ((_, headers, body),) = receiver.got
    assert json.loads(body) == {"schema_version": 1, "text": "hello", "failing": True}
    stamp = str(int(NOW.timestamp()))
    assert headers["x-ragstone-timestamp"] == stamp
    assert headers["x-ragstone-signature"] == signature("our secret", stamp, body)


def test_without_a_secret_there_is_no_signature(receiver: Receiver) -> None:
    assert send(receiver) is None
    assert "x-ragstone-signature" not in receiver.got[0][1]


def test_a_busy_receiver_is_asked_again_after_the_time_that_it_names(receiver: Receiver) -> None:
    receiver.statuses = [(503, {}), (429, {"retry-after": "7"}), (429, {"retry-after": "9999999999999"})]
    pauses: list[float] = []
    assert send(receiver, pauses) is None
    assert pauses == [1.0, 7.0, 30.0]
    assert len({headers["x-ragstone-delivery"] for _, headers, _ in receiver.got}) == 1


def test_a_receiver_that_stays_busy_is_given_up_without_its_address(receiver: Receiver) -> None:
    receiver.statuses = [(500, {})] * 4
    assert send(receiver) == "Webhook delivery failed: it answered 500."
    assert len(receiver.got) == 4


@pytest.mark.parametrize("status", [400, 404, 302])
def test_a_refusal_and_a_redirect_are_final(receiver: Receiver, status: int) -> None:
    receiver.statuses = [(status, {"location": receiver.url})]
    assert send(receiver) == f"Webhook delivery failed: it answered {status}."
    assert len(receiver.got) == 1


def test_nobody_there(receiver: Receiver) -> None:
    environ = {"RAGSTONE_WEBHOOK_URL": "http://127.0.0.1:9/secret-path"}
    found = post(environ, b"{}", now=lambda: NOW, sleep=lambda _: None)
    assert found is not None
    assert "secret-path" not in found


@pytest.mark.parametrize(
    "address", ["", "http://example.org/x", "ftp://127.0.0.1/", "https://", "http://[::1", "http://10.0.0.1/"]
)
def test_only_https_or_this_machine(address: str) -> None:
    with pytest.raises(ConfigError, match="RAGSTONE_WEBHOOK_URL") as caught:
        post({"RAGSTONE_WEBHOOK_URL": address}, b"{}", now=lambda: NOW, sleep=lambda _: None)
    assert not address or address not in str(caught.value)


@pytest.mark.parametrize("form", ["slack", "teams"])
def test_chats_get_their_own_shape_and_no_markup(form: Format) -> None:
    body = json.loads(webhook_body(form, "<!channel> a & b\nnext", {}))
    if form == "slack":
        assert body == {"text": "&lt;!channel&gt; a &amp; b\nnext"}
    else:
        (attachment,) = body["attachments"]
        assert attachment["content"]["body"][0]["text"] == "<!channel> a & b\n\nnext"
