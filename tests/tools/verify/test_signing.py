"""What platforms sign, against the published parsers and verifiers: in-toto's messages, DSSE and sigstore's bundles.

The key is made here. What only the platform has, its certificate and its log, is not tested.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.app.attestation import DIGESTS_PREDICATE, PREDICATE, TEST_RESULT_PREDICATE
from ragstone.run.directory import ATTESTATION, DIGESTS, TEST_RESULT
from ragstone.tools.verify.verify import State, verify
from tests.tools.verify.world import World, make_world

pytestmark = pytest.mark.heavy

PAYLOAD = "application/vnd.in-toto+json"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("signed") / "repo")


def text_of(world: World, name: str) -> str:
    return (world.run / name).read_text(encoding="utf-8")


def signed_statement(world: World) -> bytes:
    """The statement that `actions/attest` and `cosign attest-blob` make of the files, as in docs/verifying.md."""
    digest = hashlib.sha256((world.run / ATTESTATION).read_bytes()).hexdigest()
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": ATTESTATION, "digest": {"sha256": digest}}],
        "predicateType": DIGESTS_PREDICATE,
        "predicate": json.loads(text_of(world, DIGESTS)),
    }
    return json.dumps(statement).encode()


@pytest.mark.parametrize(("name", "kind"), [(ATTESTATION, PREDICATE), (TEST_RESULT, TEST_RESULT_PREDICATE)])
def test_in_totos_own_messages_read_our_statements(world: World, name: str, kind: str) -> None:
    from google.protobuf import json_format
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    found = Statement.copy_from_pb(json_format.Parse(text_of(world, name), statement_pb2.Statement()))
    found.validate()
    assert found.pb.predicate_type == kind
    assert found.pb.subject[0].digest["gitCommit"] == world.commit


def test_in_totos_message_of_test_results_reads_ours(world: World) -> None:
    from google.protobuf import json_format
    from in_toto_attestation.predicates.test_result.v0 import test_result_pb2

    predicate = json.loads(text_of(world, TEST_RESULT))["predicate"]
    found = json_format.ParseDict(predicate, test_result_pb2.TestResult())
    assert found.result in ("PASSED", "WARNED", "FAILED")
    assert [*found.passed_tests, *found.warned_tests, *found.failed_tests]
    assert {one.name for one in found.configuration} >= {"policy", "golden", "judge"}


@pytest.fixture(scope="module")
def key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def bundle_of(world: World, key: Any) -> str:
    """A sigstore bundle (v0.3) on the signed statement, whose key is named and not certified."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from securesystemslib.dsse import Envelope

    body = signed_statement(world)
    message = Envelope(payload=body, payload_type=PAYLOAD, signatures={}).pae()
    signature = base64.b64encode(key.sign(message, ec.ECDSA(hashes.SHA256()))).decode()
    return json.dumps(
        {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": "made in a test"}, "tlogEntries": []},
            "dsseEnvelope": {
                "payload": base64.b64encode(body).decode(),
                "payloadType": PAYLOAD,
                "signatures": [{"sig": signature, "keyid": ""}],
            },
        }
    )


def verified(bundle: str, key: Any) -> dict[str, Any]:
    """The statement in `bundle`, if `key` signed it, as sigstore's client reads it. Raises its VerificationError."""
    from sigstore import dsse
    from sigstore_models.bundle.v1 import Bundle

    envelope = Bundle.from_json(bundle).dsse_envelope
    found = dsse._verify(key.public_key(), dsse.Envelope(envelope))
    dsse.Statement(found)  # its fields are those of in-toto's
    statement: dict[str, Any] = json.loads(found)
    return statement


def test_a_signed_verdict_leads_to_the_attestation_and_to_the_run(world: World, key: Any) -> None:
    statement = verified(bundle_of(world, key), key)
    assert statement["predicateType"] == DIGESTS_PREDICATE
    (subject,) = statement["subject"]
    assert subject["digest"]["sha256"] == statement["predicate"]["attestation"]["sha256"]
    assert subject["digest"]["sha256"] == hashlib.sha256((world.run / ATTESTATION).read_bytes()).hexdigest()
    assert statement["predicate"]["verdict"] == "fail"
    assert {part.state for part in verify(world.run, world.own())} <= {State.MATCHES, State.RECOMPUTED}


def test_one_byte_of_what_was_signed_is_enough(world: World, key: Any, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from sigstore.errors import VerificationError

    whole = json.loads(bundle_of(world, key))
    body = base64.b64decode(whole["dsseEnvelope"]["payload"]).replace(b'"verdict": "fail"', b'"verdict": "pass"')
    whole["dsseEnvelope"]["payload"] = base64.b64encode(body).decode()
    with pytest.raises(VerificationError):
        verified(json.dumps(whole), key)
    with pytest.raises(VerificationError):
        verified(bundle_of(world, key), ec.generate_private_key(ec.SECP256R1()))


def test_what_is_signed_for_a_public_log_has_no_text_of_the_run(world: World) -> None:
    body = signed_statement(world).decode()
    for line in (world.run / "samples.jsonl").read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)["sample"]
        assert sample["question"] not in body
        assert sample["id"] not in json.loads(body)["predicate"].values()
    assert "faithfulness" not in body
