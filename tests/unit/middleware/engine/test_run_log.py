"""The log of a run outlives its storlet, and has a limit."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from storlet_middleware.engine.log_pieces import LogPieces
from storlet_middleware.errors import StorletError
from tests.unit.middleware.engine.invocations import make
from tests.unit.middleware.support import WorkerRun, Workers


def test_the_log_is_whole_although_the_storlet_was_killed(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        os.write(worker.log, b"line 1\nline 2\n")

    workers.script = script
    invocation = make(log=True)
    invocation.start(workers.connect())
    with pytest.raises(StorletError):
        invocation.output.first()
    assert invocation.log.read() == b"line 1\nline 2\n"
    invocation.close()
    assert invocation.log.read() == b""


def test_the_log_ends_at_its_limit_and_cannot_be_enlarged(workers: Workers) -> None:
    tried: list[int] = []

    def script(worker: WorkerRun) -> None:
        assert worker.invoke.log is not None
        tried.append(os.write(worker.log, b"x" * 64))
        for enlarge in (
            lambda: os.write(worker.log, b"x"),
            lambda: os.ftruncate(worker.log, 1 << 20),
        ):
            try:
                enlarge()
            except PermissionError:
                tried.append(-1)
        os.lseek(worker.log, 1 << 30, os.SEEK_SET)
        worker.begin()
        worker.succeed()

    workers.script = script
    invocation = make(log=True, limits=(0, 4096, 64))
    invocation.start(workers.connect())
    assert invocation.output.first()
    assert invocation.log.read() == b"x" * 64
    assert tried == [64, -1, -1]
    invocation.close()


VALUE = b"the value of a secret"


@pytest.mark.parametrize("padding", [0, 4090, 70_000])
@pytest.mark.parametrize("wants_log", [True, False])
def test_the_log_has_no_value_of_a_secret(
    workers: Workers, padding: int, *, wants_log: bool
) -> None:
    """Also none that the limit, or the start of the tail, cuts."""

    def script(worker: WorkerRun) -> None:
        worker.begin()
        os.write(worker.log, (VALUE + b"." * padding + VALUE)[: padding + 30])

    workers.script = script
    invocation = make(log=wants_log, limits=(0, 4096, padding + 30))
    secrets = {"name": VALUE}
    task = replace(invocation.task, secrets=secrets, keeps_log_tail=True, wants_log=wants_log)
    invocation.replace_task(task)
    invocation.start(workers.connect())
    with pytest.raises(StorletError):
        invocation.output.first()
    found = invocation.log.read()
    invocation.close()
    assert b"[secret]" in found
    assert VALUE[:8] not in found
    assert b"a secret" not in found
    assert len(found) > padding if wants_log else len(found) <= 4096


@pytest.mark.parametrize("has_secrets", [True, False])
def test_a_log_with_secrets_is_not_followed(workers: Workers, *, has_secrets: bool) -> None:
    """Also if the run was followed before its storlet was replaced by one with secrets."""

    def script(worker: WorkerRun) -> None:
        worker.begin()
        os.write(worker.log, VALUE + b"\n")
        worker.succeed()

    workers.script = script
    invocation = make(log=True)
    invocation.log._pieces = LogPieces(0)
    secrets = {"name": VALUE} if has_secrets else {}
    invocation.task = replace(invocation.task, secrets=secrets)
    invocation.start(workers.connect())
    invocation.output.first()
    pieces = [invocation.log.due_piece(), invocation.log.last_piece()]
    invocation.close()
    assert any(VALUE.decode() in piece.text for piece in pieces if piece) != has_secrets
    assert not has_secrets or pieces == [None, None]
