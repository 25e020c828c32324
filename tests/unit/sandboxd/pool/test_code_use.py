"""Code in use is never evicted; the rest is, when the cache is full."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.sandboxd.pool import code_use
from tests.unit.sandboxd.doubles import FakeNode, greeting, loaded, make_storlet, refused, until

MakeNode = Callable[..., FakeNode]
V1, V2, V3 = ("1" * 64, "2" * 64, "3" * 64)
HOUR = 3600.0


def set_age(path: Path, age_seconds: float) -> None:
    then = time.time() - age_seconds
    os.utime(path, (then, then))


def await_running(node: FakeNode, count: int) -> None:
    """Until then all code of an account stays."""
    until(lambda: [s.state for s in node.status().sandboxes] == count * ["running"])


@pytest.fixture
def small(make_node: MakeNode, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """A node whose cache is full with one version."""
    monkeypatch.setattr(code_use, "EVICT_AFTER_SECONDS", 0.05)
    return make_node(code_cache_bytes=8192)


def test_loading_new_code_removes_old_code_that_no_sandbox_has_loaded(small: FakeNode) -> None:
    code_dir = small.put_code("AUTH_b", V3)
    await_running(small, 1)
    (code_dir / V3 / "file").write_bytes(os.urandom(8192))
    set_age(code_dir / V3, HOUR)
    path = loaded(small.load("AUTH_a", V1))
    until(lambda: not (code_dir / V3).exists())
    assert greeting(path)


def test_code_that_is_loaded_stays_also_after_a_restart_and_in_a_sandbox_that_does_not_name_it(
    small: FakeNode,
) -> None:
    code_dir = small.put_code("AUTH_a", V1)
    (code_dir / V1 / "file").write_bytes(os.urandom(8192))
    loaded(small.load("AUTH_a", V1))
    small.stop()
    set_age(code_dir / V1, HOUR)
    small.start()
    other = small.put_code("AUTH_b", V3)
    await_running(small, 2)
    set_age(other / V3, HOUR)
    loaded(small.load("AUTH_b", V2))
    until(lambda: not (other / V3).exists())
    assert (code_dir / V1 / "file").exists()


def test_a_filter_whose_code_was_evicted_must_fetch_it_again(small: FakeNode) -> None:
    code_dir = small.put_code("AUTH_a", V1)
    (code_dir / V1).rmdir()
    answer = refused(small.ask(messages.Acquire("AUTH_a", make_storlet(version=V1))))
    assert answer.code == "code.missing"
    assert greeting(loaded(small.load("AUTH_a", V1)))
