"""Feishu's own SDK and our verifier agree on encryption and signature."""

from __future__ import annotations

import json
import random
from asyncio.subprocess import PIPE
from typing import Any

from activities.feishu.verifier import Refused, Verifier
from cards import Event
from tests.support.callbacks import APP, NOW, TENANT, TOKEN, body_of, click, signed
from tests.support.fork_server import spawn

# The SDK takes seconds and much memory to import: it judges all vectors in one process of its own.
SDK = """
import json, logging, sys
from lark_oapi import EventDispatcherHandler
from lark_oapi.core.model import RawRequest
logging.disable()
answers = []
for vector in json.load(sys.stdin):
    seen = []
    builder = EventDispatcherHandler.builder(vector["key"], vector["token"])
    handler = builder.register_p2_customized_event("assent.test", lambda data: seen.append(data.event)).build()
    request = RawRequest()
    request.uri, request.headers, request.body = "/", vector["headers"], vector["body"].encode()
    status = handler.do(request).status_code
    answers.append(seen[0] if status == 200 else None)
json.dump(answers, sys.stdout)
"""


def vector(chance: random.Random) -> dict[str, Any]:
    """A request that is as it should be, or has one of the faults of a forgery."""
    key, nonce, text = (_text(chance, most) for most in (64, 32, 2000))
    envelope = {**click(header={"event_type": "assent.test"}), "event": {"text": text}}
    fault = chance.choice(["none", "none", "signature", "body", "signed with another key", "sealed with another key"])
    body = body_of(envelope, "x" + key if fault == "sealed with another key" else key)
    headers = signed(body, nonce=nonce, key="x" + key if fault == "signed with another key" else key)
    if fault == "signature":
        headers["X-Lark-Signature"] = headers["X-Lark-Signature"][::-1]
    if fault == "body":
        body = body[:20] + (b"A" if body[20:21] != b"A" else b"B") + body[21:]
    return {"key": key, "token": TOKEN, "headers": headers, "body": body.decode(), "fault": fault}


def _text(chance: random.Random, most: int) -> str:
    return "".join(chance.choice("abcXYZ019 !+/=\"\\'{}äß中文🙂\n") for _ in range(chance.randint(1, most)))


def ours(vector: dict[str, Any]) -> dict[str, Any] | None:
    verifier = Verifier(app_id=APP, tenant_key=TENANT, encrypt_key=vector["key"], verification_token=vector["token"])
    try:
        found = verifier.open(vector["headers"], vector["body"].encode(), NOW)
    except Refused:
        return None
    assert isinstance(found, Event)
    return found.event


async def test_the_official_sdk_and_ours_agree_on_random_vectors() -> None:
    chance = random.Random(20260315)
    vectors = [vector(chance) for _ in range(120)]
    process = await spawn("-c", SDK, stdin=PIPE, stdout=PIPE)
    judged, _ = await process.communicate(json.dumps(vectors).encode())
    assert process.returncode == 0
    theirs = json.loads(judged)
    assert [ours(each) for each in vectors] == theirs
    assert {each["fault"] for each, answer in zip(vectors, theirs, strict=True) if answer is not None} == {"none"}
    assert all(answer is not None for each, answer in zip(vectors, theirs, strict=True) if each["fault"] == "none")
