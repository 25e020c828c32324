"""The specification of the protocol has every message, and its examples are messages."""

from __future__ import annotations

import json
import re
from pathlib import Path

from storlet_daemon.protocol import framing, messages
from tests.unit.daemon.protocol.messages.parsing import VERSION

PROTOCOL = (Path(framing.__file__).parent / "PROTOCOL.rst").read_text("utf-8")


TABLES = [
    messages.INVOCATION_REQUEST,
    messages.INVOCATION_EVENTS,
    messages.INVOCATION_END,
    messages.SERVICE_REQUESTS,
    messages.SERVICE_REPLIES,
    messages.WORKER_REPORTS,
    messages.CONTROL_COMMANDS,
    messages.CONTROL_REPORTS,
    messages.NODE_REQUESTS,
    messages.NODE_ANSWERS,
]


def test_every_message_type_is_specified() -> None:
    types = {kind for table in TABLES for kind in table}
    assert {
        kind
        for kind in types
        if f'"type":"{kind}"' not in PROTOCOL and f"``{kind}``" not in PROTOCOL
    } <= {"status"}
    for code in messages.SANDBOX_CODES:
        assert f"``{code}``" in PROTOCOL


def test_the_examples_of_the_specification_are_messages() -> None:
    flat = re.sub(r"\s*\n\s*", " ", PROTOCOL)
    invoke = re.search(r'(\{"v":1, "type":"invoke".*?"limits":\{[^}]*\}\})', flat)
    load = re.search(r'(\{"v":1, "type":"load", .*?"scratch_bytes":\d+\}\})', flat)
    assert invoke is not None
    assert load is not None
    messages.parse(json.loads(invoke[1]), messages.INVOCATION_REQUEST, 4)
    messages.parse(
        json.loads(load[1].replace("<64 hexadecimal digits>", VERSION)),
        messages.CONTROL_COMMANDS,
        1,
    )
