"""Requests that are refused before a sandbox is needed; runs are in the functional tests."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from storlet_middleware.local import session as sessions
from storlet_middleware.local.requests import InputFile, Malformed, Request
from storlet_middleware.local.session import Session
from tests.support.bundles import tool
from tests.unit.middleware.support import make_config


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(make_config(tmp_path))


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    path = tmp_path / "tool.storlet"
    path.write_bytes(tool("tool", parameters={"text": {"type": "string"}}))
    return str(path)


def test_all_faults_of_a_request_come_at_once(session: Session, bundle: str) -> None:
    inputs = (InputFile("/dev/null", {}),) * 2
    reply = session.answer(Request("run", bundle, inputs, {"txt": "a"}, {"Memory": "9999G"}))
    assert reply.code == "bad_request"
    assert "X-Storlet-Limit-Memory: 9999G is more than" in reply.message
    assert "number of inputs: 2: storlet tool takes 1" in reply.message
    assert "did you mean text?" in reply.message
    two = Request("run", bundle, inputs[:1], {"text": "a"}, outputs=("/dev/null",))
    assert "number of outputs: 2: storlet tool makes 1" in session.answer(two).message


def test_an_unknown_limit_is_refused(session: Session, bundle: str) -> None:
    inputs = (InputFile("/dev/null", {}),)
    reply = session.answer(Request("run", bundle, inputs, {}, {"Memry": "64M"}))
    assert "did you mean" in reply.message


def test_a_missing_file_is_named(session: Session, bundle: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    assert (
        session.answer(Request("run", missing)).message == f"{missing}: No such file or directory"
    )
    reply = session.answer(Request("run", bundle, (InputFile(missing, {}),)))
    assert reply.message == f"{missing}: No such file or directory"


def test_a_node_without_sandboxd_gives_the_clusters_error(session: Session, bundle: str) -> None:
    for request in (Request("load", bundle), Request("run", bundle, (InputFile(bundle, {}),))):
        reply = session.answer(request)
        assert reply.code == "sandbox.unavailable"
        assert "storlet-sandboxd does not answer" in reply.message
        assert reply.usage == ""


def test_each_line_gets_an_answer_and_a_malformed_one_ends_it(
    session: Session, bundle: str
) -> None:
    good = json.dumps({"do": "load", "bundle": bundle}).encode() + b"\n"
    report = io.BytesIO()
    with pytest.raises(Malformed):
        sessions.serve(session, io.BytesIO(good + good + b"{}\n" + good), report)
    assert len(report.getvalue().splitlines()) == 2
