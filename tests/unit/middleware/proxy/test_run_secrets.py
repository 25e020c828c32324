"""The secrets of a run's storlets: their names, values, placement and callers."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.proxy.requested_steps import RequestedStep, step_of
from storlet_middleware.proxy.run_secrets import used_by
from storlet_middleware.wsgi.storlet_request import StorletRequest
from tests.support.bundles import tool
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Proxy, WorkerRun

VALUE = b"the value of a \xff secret"
DECLARED = {"X_Object_Meta_Storlet_Secrets": "api-token"}


@pytest.fixture
def proxy(make_proxy: Callable[..., Proxy], tmp_path: Path, swift: FakeSwift) -> Proxy:
    keys = tmp_path / "keys"
    keys.write_bytes(base64.b64encode(b"k" * 32))
    keys.chmod(0o600)
    swift.put_storlet("up.py", **DECLARED)
    return make_proxy(secrets__key_file=str(keys))


def set_secret(proxy: Proxy, name: str = "api-token") -> None:
    path = f"/v1/{ACCOUNT}?storlet-secrets={name}"
    assert proxy.call("POST", path, body=VALUE).status == 201


def step(parameters: dict[str, str], rows: dict[str, Any], *secrets: str) -> RequestedStep:
    request = StorletRequest("GET", "v1", ACCOUNT, "a", None, None, parameters)
    version = StorletVersion(
        ACCOUNT, "a", "python", "", "a.A", (), parameters=rows, secrets=secrets
    )
    return replace(step_of("tx-1", request), version=version)


def test_a_step_uses_declared_secrets_and_those_of_its_parameters() -> None:
    rows = {"key": {"type": "secret"}, "text": {"type": "string"}}
    found = used_by(step({"key": "two", "text": "none"}, rows, "one", "two"))
    assert found == ("one", "two")
    assert used_by(step({"text": "none"}, rows)) == ()


def test_a_run_has_the_value_at_the_proxy_and_nowhere_else(
    proxy: Proxy, swift: FakeSwift, node: Any
) -> None:
    set_secret(proxy)
    swift.seen.clear()
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.headers["X-Storlet-Ran-On"]) == (200, "proxy")
    (run,) = node.workers.runs
    assert run.invoke.secret_values == {"api-token": VALUE}
    assert "the value" not in repr(run.invoke)
    assert "why=secrets" in proxy.logger.text
    sent = str(swift.seen) + proxy.logger.text
    for form in (VALUE.decode("latin-1"), base64.b64encode(VALUE).decode(), VALUE.hex()):
        assert form not in sent
    assert not swift.requests("GET", "c/o")[0].headers.get("X-Backend-Storlet-Invocation")


def test_a_storlet_without_a_declaration_has_no_secret(
    proxy: Proxy, swift: FakeSwift, node: Any
) -> None:
    set_secret(proxy)
    swift.put_storlet("up.py")
    assert proxy.call("GET", "c/o", RUN | {"X-Storlet-Run-On-Proxy": ""}).status == 200
    assert node.workers.runs[0].invoke.secrets is None


def test_a_missing_secret_is_a_failure_by_name_before_anything_runs(
    proxy: Proxy, node: Any
) -> None:
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (422, "storlet.secret")
    assert "uses the secret api-token, which is not set" in answer.data.decode()
    assert node.workers.runs == []


def test_another_caller_does_not_see_which_secret_is_missing(
    proxy: Proxy, swift: FakeSwift
) -> None:
    swift.containers["storlet"].read = swift.containers["c"].read = "test:bob"
    answer = proxy.call("GET", "c/o", RUN, user="test:bob")
    assert (answer.status, answer.error) == (422, "storlet.secret")
    assert "api-token" not in answer.data.decode()


def test_a_caller_that_may_run_the_storlet_uses_its_declared_secret(
    proxy: Proxy, swift: FakeSwift, node: Any
) -> None:
    set_secret(proxy)
    swift.containers["storlet"].read = swift.containers["c"].read = "test:bob"
    assert proxy.call("GET", "c/o", RUN, user="test:bob").status == 200
    assert node.workers.runs[0].invoke.secret_values == {"api-token": VALUE}


def test_errors_records_and_logs_have_no_value(proxy: Proxy, swift: FakeSwift, node: Any) -> None:
    def leak(run: WorkerRun) -> None:
        value = run.invoke.secret_values["api-token"]
        os.write(run.log, b"log " + value + b" " + base64.b64encode(value) + b"\n")
        run.fail(f"ValueError: {value!r}", traceback=f"Traceback {value.hex()} {value!r}")

    set_secret(proxy)
    node.workers.script = leak
    answer = proxy.call("GET", "c/o", RUN | {"X-Storlet-Generate-Log": "true"})
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert answer.data.decode().count("[secret]") == 3
    proxy.filter._proxy.records.flush()
    stored = [
        each.body
        for name, container in swift.containers.items()
        if not name.startswith("\0")
        for each in container.objects.values()
    ]
    seen = b"".join(stored) + answer.data + proxy.logger.text.encode()
    assert b"log [secret] [secret]" in seen
    for form in (VALUE, base64.b64encode(VALUE), VALUE.hex().encode(), repr(VALUE).encode()):
        assert form not in seen


def test_only_an_owner_names_a_secret_in_a_parameter(
    proxy: Proxy, swift: FakeSwift, node: Any
) -> None:
    set_secret(proxy)
    packed = tool("tool", parameters={"key": {"type": "secret"}})
    assert proxy.call("PUT", "storlet/tool.storlet", body=packed).status == 201
    run = {"X-Run-Storlet": "tool"}
    assert proxy.call("GET", "c/o?key=api-token", run).status == 200
    assert node.workers.runs[0].invoke.secret_values == {"api-token": VALUE}
    swift.containers["storlet"].read = swift.containers["c"].read = "test:bob"
    answer = proxy.call("GET", "c/o?key=api-token", run, user="test:bob")
    assert (answer.status, answer.error) == (403, "access.denied")
    assert proxy.call("GET", "c/o", run, user="test:bob").status == 200
    assert [run.invoke.secrets for run in node.workers.runs[1:]] == [None]
    wrong = proxy.call("GET", "c/o?key=Api_Token", run)
    assert (wrong.status, "want the name of a secret" in wrong.data.decode()) == (400, True)
