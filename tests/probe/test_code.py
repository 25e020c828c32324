"""The code cache of a node: partial code never runs, a full disk is reported, an upload takes
effect at once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storlet_middleware.keys import sandbox_key, tenant_key
from tests.support.accounts import unique
from tests.support.host import Host, check_numbered, links_of, new_key, remove
from tests.support.storlets import Dependency, declaration
from tests.support.tenant import SOURCE, Tenant
from tests.support.waiting import wait_for

SERVERS = ("object-1", "object-2")


def version(number: int) -> bytes:
    return SOURCE.read_bytes().replace(b'VERSION = "1"', b'VERSION = "%d"' % number)


def test_files_left_by_a_crash_never_run(host: Host, tenant: Tenant, placement: str) -> None:
    assert tenant.is_well(placement)
    code_dir = host.code_dir(tenant.account)
    half = code_dir / ".tmp-0123456789abcdef"
    half.mkdir()
    (half / "gremlin.py").write_bytes(
        b"class Gremlin:\n    def __init__(self, logger): raise SystemExit('half')\n"
    )
    (code_dir / ".lock-0123456789abcdef").touch()
    try:
        for number in (2, 3):
            tenant.upload("gremlin.py", version(number))
            assert tenant.tool(placement).get(tenant.path, "version").body == b"%d" % number
    finally:
        remove(half)
        remove(code_dir / ".lock-0123456789abcdef")


def test_code_is_complete_after_a_server_is_killed_during_a_fetch(
    host: Host, fresh: Tenant, background: ThreadPoolExecutor
) -> None:
    assert fresh.is_well()
    big = os.urandom(1 << 20) * 80
    assert Dependency("big.bin", big).upload(fresh.client).status == 201
    stem = "fetched"
    source = b"""
import hashlib, pathlib
class Fetched:
    def __init__(self, logger): pass
    def __call__(self, ins, outs, params):
        path = pathlib.Path(params["storlet_execution_path"], "big.bin")
        outs[0].write(hashlib.md5(path.read_bytes()).hexdigest().encode())
"""
    headers = declaration("python", f"{stem}.Fetched", ["big.bin"])
    assert fresh.client.put(f"storlet/{stem}.py", source, headers).status == 201
    code_dir = host.code_dir(fresh.account)
    with host.started_again(*SERVERS), cleared(code_dir):
        going = background.submit(fresh.tool("object", f"{stem}.py").get, fresh.path)
        fetching: list[str] = []

        def caught() -> bool:
            fetching.extend(
                name for name in SERVERS if _writes_below(host, name, str(code_dir / ".tmp-"))
            )
            return bool(fetching)

        wait_for(caught, 20, "the fetch")
        for name in fetching:
            host.kill_hard(name)
        answer = going.result(60)
        assert answer.status in (200, 503), answer
        wait_for(
            lambda: fresh.tool("object", f"{stem}.py").get(fresh.path).status == 200,
            30,
            "a run to work",
        )
        again = fresh.tool("object", f"{stem}.py").get(fresh.path)
        assert again.body == hashlib.md5(big, usedforsecurity=False).hexdigest().encode()


@contextlib.contextmanager
def cleared(code_dir: Path) -> Iterator[None]:
    """Remove the leftovers of a killed server at the end."""
    try:
        yield
    finally:
        for left in code_dir.glob(".*"):
            remove(left)


def _writes_below(host: Host, name: str, folder: str) -> bool:
    return any(link.startswith(folder) for link in links_of(host.cluster.process(name).pid or 0))


def test_a_full_disk_under_the_code_is_reported_and_recovers(
    host: Host, tenant: Tenant, placement: str
) -> None:
    assert tenant.is_well(placement)
    code_dir = host.code_dir(tenant.account)
    tenant.upload("gremlin.py", version(2) + b"#" * 1_000_000)
    with host.tiny_disk_over(code_dir, "64k"):
        answer = tenant.tool(placement).get(tenant.path, "version")
        assert answer.status == 503, answer
        assert answer.error in ("node.busy", "sandbox.unavailable")
        assert int(answer.headers["Retry-After"]) > 0
        assert b"Errno" not in answer.body
        assert tenant.client.get(tenant.path).body == tenant.content
        left = [path.name for path in code_dir.iterdir() if not path.name.startswith(".lock-")]
        assert left == []
    assert tenant.tool(placement).get(tenant.path, "version").body == b"2"


def test_an_upload_during_runs_takes_effect_for_new_runs(
    host: Host, tenant: Tenant, placement: str, background: ThreadPoolExecutor
) -> None:
    tenant.upload("gremlin.py", version(10))
    keys = [new_key() for _ in range(3)]
    tool = tenant.tool(placement)
    going = [background.submit(tool.get, tenant.path, "hold", key=key, tell="1") for key in keys]
    for key in keys:
        host.run_named(key)
    tenant.upload("gremlin.py", version(11))
    for place in ("object", "proxy"):
        assert tenant.tool(place).get(tenant.path, "version").body == b"11"
    for key in keys:
        assert tool.get(tenant.path, "touch", go=key).status == 200
    for one in going:
        answer = one.result(30)
        assert (answer.status, answer.is_broken) == (200, False)
        assert answer.body.startswith(b"10 ")
        assert check_numbered(answer.body[3:]) == 1


def test_uploads_under_load_are_never_mixed_and_never_stale(
    tenant: Tenant, placement: str, background: ThreadPoolExecutor
) -> None:
    tool, done = tenant.tool(placement), [20]
    tenant.upload("gremlin.py", version(20))

    def get_version() -> None:
        while done[-1] < 28:
            known = done[-1]
            answer = tool.get(tenant.path, "version")
            assert answer.status == 200, answer
            assert int(answer.body) >= known, (
                "an upload that was confirmed before was not yet in effect"
            )

    going = [background.submit(get_version) for _ in range(4)]
    for number in range(21, 29):
        tenant.upload("gremlin.py", version(number))
        done.append(number)
        time.sleep(0.1)
    for one in going:
        one.result(30)


def test_accounts_that_share_sixty_characters_share_nothing(
    host: Host, new_tenant: Callable[[str], Tenant], placement: str
) -> None:
    stem = "AUTH_" + unique("alike").ljust(55, "x")
    assert len(stem) == 60
    first, second = new_tenant(stem + "a"), new_tenant(stem + "b")
    second.upload("gremlin.py", version(2))
    assert first.tool(placement).get(first.path, "version").body == b"1"
    assert second.tool(placement).get(second.path, "version").body == b"2"
    one, other = host.sandbox(first.account), host.sandbox(second.account)
    assert one.container != other.container
    assert _uid(one.pid) != _uid(other.pid)
    assert host.code_dir(first.account) != host.code_dir(second.account)
    key = new_key()
    assert first.tool().get(first.path, "touch", go=key).status == 200
    answer = second.tool().get(second.path, "counted", of=key)
    assert answer.body == b"0"


def _uid(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Uid:"))


@pytest.mark.parametrize("length", [13, 60, 200])
def test_keys_of_accounts_with_the_same_beginning_differ(length: int) -> None:
    one, other = "AUTH_" + "x" * length + "a", "AUTH_" + "x" * length + "b"
    assert tenant_key(one) != tenant_key(other)
    assert sandbox_key(one, "user", "image") != sandbox_key(other, "user", "image")
