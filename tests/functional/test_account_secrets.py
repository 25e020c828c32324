"""Secrets of accounts: storlets use them, and no request, log, record, error or disk shows one.

The first cluster has a key in ``[secrets] key_file``, the second one Swift's keymaster.
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.functional.wards import CONTENT, Ward, make_ward
from tests.support.accounts import unique
from tests.support.bundles import bundle
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.native import shared_object
from tests.support.storlets import Tool, Toolbox, declaration
from tests.support.waiting import retry_until

SOURCE = """
import hmac
from storlet import secrets


class Keyed:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        value = secrets.get(params.get("key", "mac-key"))
        if params.get("do") == "leak":
            self.logger.info("the value: %s", value.decode())
            print(value.hex(), flush=True)
            raise ValueError(f"{value.decode()} {value!r}")
        mac = hmac.new(value, digestmod="sha256")
        for piece in iter(lambda: in_files[0].read(65536), b""):
            mac.update(piece)
        out_files[0].write(mac.hexdigest().encode())
"""
CONTAINER = "\0storlet-secrets"


@dataclass(frozen=True)
class Place:
    """An account with the storlet, a container ``c`` with an object, and its cluster."""

    owner: Client
    cluster: Cluster
    tool: Tool

    def secret(self, method: str, name: str = "mac-key", body: bytes | None = None) -> Answer:
        return self.owner.request(method, "", query=f"storlet-secrets={name}", body=body)


@pytest.fixture(scope="module", params=["key file", "keymaster"])
def place(request: pytest.FixtureRequest) -> Place:
    is_first = request.param == "key file"
    owner = request.getfixturevalue("owner" if is_first else "other_owner")
    cluster = request.getfixturevalue("cluster" if is_first else "other_cluster")
    headers = declaration("python", "keyed.Keyed", Secrets="mac-key")
    assert owner.put("storlet/keyed.py", SOURCE.encode(), headers).status == 201
    assert owner.put("c").status in (201, 202)
    assert owner.put("c/o", CONTENT).status == 201
    return Place(owner, cluster, Tool(owner, "keyed.py"))


@pytest.fixture
def value(place: Place) -> Iterator[bytes]:
    """A secret that no other test has."""
    value = unique("a-value-of").encode()
    assert place.secret("POST", body=value).status in (201, 204)
    yield value
    place.secret("DELETE")


def mac_of(value: bytes) -> bytes:
    return hmac.new(value, CONTENT, "sha256").hexdigest().encode()


def test_a_storlet_uses_a_secret_at_the_proxy_in_all_requests(place: Place, value: bytes) -> None:
    answer = place.tool.get("c/o")
    assert (answer.status, answer.body) == (200, mac_of(value)), answer
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"
    assert place.tool.put("c/put", CONTENT).status == 201
    assert place.tool.copy("c/o", "/c/copied").status == 201
    for name in ("c/put", "c/copied"):
        assert place.owner.get(name).body == mac_of(value)


SCRIPT = b"""#!/bin/sh
eval "exec 9<&$STORLET_SECRET_FD_MAC_KEY"
if [ "$STORLET_PARAM_do" = leak ]; then cat <&9 >&2; exit 1; fi
cat <&9; echo; tr '\\0' '\\n' </proc/self/environ
"""
SHARED_OBJECT = """
#include <storlet.h>
#include <string.h>
STORLET_ABI_VERSION_OF_THIS_OBJECT
int reveal(struct storlet_run *run) {
    const char *value;
    size_t size;
    if (run->secret(run, "mac-key", &value, &size) != 0) {
        return errno;
    }
    for (size_t i = 0; i < run->parameter_count; i++) {
        if (strcmp(run->parameters[i].value, "leak") == 0) {
            run->fail(run, value);
            return EINVAL;
        }
    }
    return run->write(run, 0, value, size) == 0 ? run->write(run, 0, "\\n", 1) : errno;
}
"""


def test_storlets_of_other_languages_use_a_secret(
    place: Place, value: bytes, toolbox: Toolbox, tmp_path: Path
) -> None:
    (tmp_path / "reveal.c").write_text(SHARED_OBJECT)
    codes = {
        "reveal.sh": ("native", "reveal.sh", SCRIPT),
        "reveal.so": ("native", "reveal.so:reveal", shared_object(tmp_path / "reveal.c")),
        "reveal-1.jar": ("java", "reveal.Reveal", toolbox.java.jar("reveal")),
    }
    for name, (language, main, code) in codes.items():
        headers = declaration(language, main, Secrets="mac-key")
        assert place.owner.put(f"storlet/{name}", code, headers).status == 201
        tool = Tool(place.owner, name)
        answer = tool.get("c/o")
        assert answer.status == 200, answer
        found, _, environment = answer.body.partition(b"\n")
        assert (found, forms_in(environment, value)) == (value, [])
        failed = tool.get("c/o", "leak")
        assert (failed.status, b"[secret]" in failed.body) == (422, True), failed
        assert not forms_in(failed.body, value)


def test_a_change_is_in_force_for_the_next_run(place: Place, value: bytes) -> None:
    assert place.secret("POST", body=b"another value").status == 204
    assert place.tool.get("c/o").body == mac_of(b"another value")
    assert place.secret("DELETE").status == 204
    missing = place.tool.get("c/o")
    assert (missing.status, missing.error) == (422, "storlet.secret")
    assert "uses the secret mac-key, which is not set" in missing.text
    assert place.secret("DELETE").status == 404
    assert place.secret("POST", body=value).status == 201
    assert place.tool.get("c/o").body == mac_of(value)


def test_names_are_listed_without_values(place: Place, value: bytes) -> None:
    rows: list[dict[str, str]] = (
        retry_until(lambda: json.loads(place.owner.get("", query="storlet-secrets").body), 10) or []
    )
    (row,) = (row for row in rows if row["name"] == "mac-key")
    assert row["set"].startswith("20")
    refused = place.secret("GET")
    assert (refused.status, "a value cannot be read" in refused.text) == (400, True)


@pytest.fixture
def began() -> float:
    """A time before all that a test does; files that are older cannot have its value."""
    return time.time() - 1


def test_a_value_is_in_no_log_record_error_object_or_disk(
    place: Place, began: float, value: bytes
) -> None:
    answer = place.tool.get("c/o", "leak", {"X-Storlet-Generate-Log": "true"})
    assert (answer.status, answer.error) == (422, "storlet.failed")
    run = answer.headers["X-Storlet-Invocation"]
    record = retry_until(
        lambda: (got := place.owner.get("", query=f"storlet-runs&id={run}")).status == 200 and got,
        8,
    )
    assert record
    log = place.owner.get(f"storletlog/keyed.py/{run}.log")
    assert log.body.startswith(b"keyed.Keyed INFO: the value: [secret]\n[secret]\n"), log
    assert b"[secret]" in answer.body
    assert b"[secret]" in record.body
    for shown in (answer.body, str(answer.headers).encode(), record.body, log.body):
        assert not forms_in(shown, value)
    files = [path for path in files_of(place.cluster) if path.stat().st_mtime >= began]
    assert files
    assert [path for path in files if forms_in(path.read_bytes(), value)] == []


def forms_in(data: bytes, value: bytes) -> list[bytes]:
    forms = (value, value.hex().encode(), base64.b64encode(value).rstrip(b"="))
    return [form for form in forms if form in data]


def files_of(cluster: Cluster) -> Iterator[Path]:
    """Logs of all processes, and all files of the disks: objects and databases."""
    logs = [Path(row["log"]) for row in cluster.description["processes"]]
    assert any(path.stat().st_size for path in logs)
    yield from logs
    for disk in cluster.description["disks"]:
        yield from (path for path in Path(disk["path"]).rglob("*") if path.is_file())


def test_only_owners_use_the_interface(place: Place, value: bytes) -> None:
    users = {"test2:tester2": 403, "test:tester3": 403, "": 401}
    clients = {name: place.cluster.client(name) if name else None for name in users}
    rights = {"read-write": ["test2:tester2"], "read-only": ["test:tester3"]}
    assert place.owner.post("", {"X-Account-Access-Control": json.dumps(rights)}).status == 204
    try:
        for name, status in users.items():
            client = clients[name] or Client(place.owner.storage_url, "")
            client = client.on(place.owner.account)
            for method in ("GET", "POST", "PUT", "DELETE"):
                query = "storlet-secrets" + ("" if method == "GET" else "=mac-key")
                answer = client.request(method, "", query=query, body=b"of a stranger")
                assert answer.status == status, (name, method, answer)
    finally:
        assert place.owner.post("", {"X-Account-Access-Control": ""}).status == 204
    assert place.tool.get("c/o").body == mac_of(value)


def test_no_request_reaches_the_stored_objects(place: Place, value: bytes) -> None:
    owner, path = place.owner, f"{CONTAINER}/\0mac-key"
    for headers in ({}, {"X-Backend-Allow-Reserved-Names": "true"}):
        for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            answer = owner.request(method, path, headers, body=b"x")
            assert answer.status in (400, 404, 412), (method, answer)
        assert owner.get(CONTAINER, headers).status in (404, 412)
        listing = owner.get("", headers, query="format=json")
        assert "storlet-secrets" not in listing.text
        copy = {**headers, "X-Copy-From": "%00storlet-secrets/%00mac-key"}
        assert owner.put("c/copy", b"", copy).status in (400, 404, 412)
        link = {**headers, "X-Symlink-Target": "%00storlet-secrets/%00mac-key"}
        assert owner.put("c/link", b"", link).status in (201, 400, 412)
        assert owner.get("c/link", headers).status in (400, 404, 412)
    assert place.tool.get("c/o").body == mac_of(value)


def test_bad_requests_change_nothing(place: Place, value: bytes) -> None:
    for name, body in (("Mac-Key", value), ("mac-key", b"short"), ("mac-key", b"x" * 5000)):
        refused = place.secret("POST", name, body)
        assert (refused.status, refused.error) == (400, "bad_request"), refused
    headers = declaration("python", "wrong.Keyed", Secrets="Mac_Key")
    refused = place.owner.put("storlet/wrong.py", SOURCE.encode(), headers)
    assert (refused.status, refused.error) == (400, "registration.invalid")
    assert place.tool.get("c/o").body == mac_of(value)


# --- other callers --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    ward = make_ward(users)
    headers = declaration("python", "keyed.Keyed", Secrets="mac-key")
    assert ward.admin.put("storlet/keyed.py", SOURCE.encode(), headers).status == 201
    files = {"keyed.py": (SOURCE.encode(), 0o644)}
    parameters = {"key": {"type": "secret"}, "do": {"type": "string"}}
    packed = bundle("named", files, main="keyed.Keyed", parameters=parameters)
    assert ward.admin.put("storlet/named.storlet", packed).status == 201
    query = "storlet-secrets=mac-key"
    assert ward.admin.request("POST", "", query=query, body=b"of the ward").status == 201
    return ward


def test_a_reader_uses_the_secret_that_its_owner_has_declared(ward: Ward) -> None:
    run = {"X-Run-Storlet": "keyed.py"}
    assert ward.physician.get("open/a.csv", run).body == mac_of(b"of the ward")
    failed = ward.physician.get("open/a.csv", run, query="do=leak")
    assert (failed.status, failed.error) == (422, "storlet.failed")
    assert failed.text == "the storlet failed; its owner can see why\n"


def test_only_an_owner_or_a_rule_names_a_secret_in_a_parameter(ward: Ward) -> None:
    run, query = {"X-Run-Storlet": "named"}, "key=mac-key"
    assert ward.admin.get("open/a.csv", run, query=query).body == mac_of(b"of the ward")
    refused = ward.physician.get("open/a.csv", run, query=query)
    assert (refused.status, refused.error) == (403, "access.denied")
    assert "only an owner of the account, or a rule" in refused.text
    ward.rule(
        "version: 1\nrules:\n- name: keyed\n  when: {method: GET, container: patients}\n"
        "  run: {storlet: named, parameters: {key: mac-key}}\n"
    )
    for client in (ward.physician, ward.researcher):
        answer = client.get("patients/a.csv")
        assert (answer.status, answer.body) == (200, mac_of(b"of the ward")), answer


def test_a_merge_has_no_secrets(ward: Ward) -> None:
    body = {"objects": ["/open/a.csv"], "split": {"storlet": "std:nop"}}
    body["merge"] = {"storlet": "keyed.py"}  # type: ignore[assignment]
    answer = ward.admin.request(
        "POST", "", {"X-Run-Storlet": "std:distributed"}, body=json.dumps(body).encode()
    )
    assert (answer.status, "uses secrets, which a merge does not have" in answer.text) == (
        400, True,
    ), answer  # fmt: skip
