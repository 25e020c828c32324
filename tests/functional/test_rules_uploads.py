"""Uploads by form, archive and container sync: rules about PUT apply to all of them."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.wards import (
    CONTENT,
    MASKED,
    RESEARCHER,
    RULES,
    Ward,
    assert_closed,
    make_ward,
    told,
)
from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.proxies import other_proxy

KEY = "a key"
REALM = "REALM"
ANY_UPLOAD = "method: PUT, container: patients"


@pytest.fixture(scope="module")
def realms() -> Iterator[str]:
    """A directory that Swift's user can read, with the keys of clusters that sync."""
    with tempfile.TemporaryDirectory(prefix="storlets-realms-") as directory:
        file = Path(directory, "container-sync-realms.conf")
        file.write_text(f"[{REALM}]\nkey = {KEY}\n", "ascii")
        for path, mode in ((Path(directory), 0o755), (file, 0o644)):
            path.chmod(mode)
        yield directory


@pytest.fixture(scope="module")
def ward(cluster: Cluster, users: dict[str, Client], realms: str) -> Iterator[Ward]:
    """A ward behind a proxy that accepts forms and container sync."""
    changes = {
        "pipeline:main": {"pipeline": _pipeline(cluster)},
        "filter:formpost": {"use": "egg:swift#formpost"},
        "filter:container_sync": {"use": "egg:swift#container_sync", "set swift_dir": realms},
    }
    with other_proxy(cluster, changes) as proxy:
        made = make_ward(users)
        callers = made.admin, made.researcher, made.physician
        there = Ward(*(proxy.client(caller) for caller in callers))
        assert there.admin.post("", {"X-Account-Meta-Temp-URL-Key": KEY}).status in (201, 204)
        assert there.admin.post("patients", {"X-Container-Sync-Key": KEY}).status == 204
        yield there


def _pipeline(cluster: Cluster) -> str:
    text = Path(cluster.description["conf_dir"], "proxy-server.conf").read_text("utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("pipeline ="))
    words = (
        line.partition("=")[2]
        .replace(" cache ", " cache container_sync ")
        .replace(" tempurl ", " tempurl formpost ")
    )
    assert {"container_sync", "formpost"} <= set(words.split())
    return words


def rules(action: str, more: str = "", conditions: str = ANY_UPLOAD) -> str:
    return f"version: 1\nrules:\n- name: scrub\n  when: {{{conditions}{more}}}\n  mandatory: true\n  {action}\n"


# --- forms ----------------------------------------------------------------------------------------


def send_form(
    ward: Ward, name: str, content: bytes, key: str = KEY, container: str = "patients"
) -> Answer:
    """Send a form like a browser without a token."""
    path, expires = f"{ward.admin.version_url.path}/{container}/", int(time.time()) + 300
    signature = hmac.new(
        key.encode(), f"{path}\n\n100000\n1\n{expires}".encode(), hashlib.sha256
    ).hexdigest()
    fields = {
        "max_file_size": "100000",
        "max_file_count": "1",
        "expires": str(expires),
        "signature": signature,
    }
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in fields.items()
    ]
    file = f'--x\r\nContent-Disposition: form-data; name="f"; filename="{name}"\r\nContent-Type: text/csv\r\n\r\n'
    body = "".join([*parts, file]).encode() + content + b"\r\n--x--\r\n"
    anonymous = Client(ward.admin.storage_url, "")
    return anonymous.request(
        "POST", f"{container}/", {"Content-Type": "multipart/form-data; boundary=x"}, body=body
    )


@pytest.mark.parametrize(
    "more", ["", ", signed: true", ', content-type: text/csv, any: [{signed: true}, {user: "x"}]']
)
def test_a_mandatory_storlet_runs_on_uploads_by_form(ward: Ward, more: str) -> None:
    ward.rule(rules("run: mask.py", more))
    name = unique("form")
    answer = send_form(ward, name, CONTENT)
    assert answer.status == 201, answer
    assert ward.admin.get(f"patients/{name}").body == MASKED


def test_a_form_is_refused(ward: Ward) -> None:
    ward.rule(rules("deny: no forms here", ", signed: true"))
    name = unique("form")
    answer = send_form(ward, name, CONTENT)
    assert answer.status == 403, answer
    assert "rule scrub: no forms here" in answer.text
    assert ward.admin.head(f"patients/{name}").status == 404
    assert ward.admin.put(f"patients/{name}", CONTENT).status == 201


def test_a_form_that_is_not_signed_learns_nothing_of_the_rules(ward: Ward) -> None:
    ward.rule(rules("deny: no forms here"))
    answer = send_form(ward, unique("form"), CONTENT, key="guessed")
    assert (answer.status, "scrub" in told(answer)) == (401, False), answer


def test_a_container_closed_to_readers_accepts_forms(ward: Ward) -> None:
    """No rule applies to Swift's own look-up of the container's key."""
    ward.rule(rules("deny: no reads here", conditions="method: GET, container: box"))
    assert ward.admin.put("box", b"", {"X-Container-Meta-Temp-URL-Key": "its own"}).status in (
        201,
        202,
    )
    name = unique("form")
    answer = send_form(ward, name, CONTENT, "its own", "box")
    assert answer.status == 201, answer
    assert_closed(ward.admin.get(f"box/{name}"), "scrub")


# --- archives -------------------------------------------------------------------------------------


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(CONTENT)
            tar.addfile(info, io.BytesIO(CONTENT))
    return buffer.getvalue()


def extract(client: Client, body: bytes) -> dict[str, object]:
    answer = client.put("", body, {"Accept": "application/json"}, query={"extract-archive": "tar"})
    assert answer.status == 200, answer
    found: dict[str, object] = json.loads(answer.body)
    return found


def test_a_mandatory_storlet_runs_on_extracted_objects(ward: Ward) -> None:
    ward.rule(rules("run: mask.py", f', user: "{RESEARCHER}"'))
    stem = unique("tar")
    body = archive(f"patients/{stem}/1", f"open/{stem}/1")
    result = extract(ward.researcher, body)
    assert (result["Number Files Created"], result["Errors"]) == (2, []), result
    assert ward.admin.get(f"patients/{stem}/1").body == MASKED
    assert ward.admin.get(f"open/{stem}/1").body == CONTENT


#: Facts of a client's request that those of ``bulk`` and ``formpost`` lack.
LOST = [', client-address: "127.0.0.0/8"', ", header: {x-department: east}"]


@pytest.mark.parametrize("more", LOST)
def test_uploads_that_a_middleware_sends_do_not_evade_rules_about_the_client(
    ward: Ward, more: str
) -> None:
    ward.rule(rules("run: mask.py", more))
    stem = unique("tar")
    result = extract(ward.researcher, archive(f"patients/{stem}/1", f"open/{stem}/1"))
    assert (result["Number Files Created"], result["Errors"]) == (2, []), result
    assert send_form(ward, f"{stem}/2", CONTENT).status == 201
    assert ward.admin.get(f"open/{stem}/1").body == CONTENT
    for number in (1, 2):
        assert ward.admin.get(f"patients/{stem}/{number}").body == MASKED


@pytest.mark.parametrize("more", LOST)
def test_bulk_delete_does_not_evade_rules_about_the_client(ward: Ward, more: str) -> None:
    ward.rule(rules("deny: keep it", more, conditions="method: DELETE, container: patients"))
    headers = {"Content-Type": "text/plain", "Accept": "application/json"}
    answer = ward.admin.request("POST", "", headers, query="bulk-delete", body=b"patients/a.csv\n")
    assert json.loads(answer.body)["Number Deleted"] == 0, answer
    assert ward.admin.head("patients/a.csv").status == 200


def test_extracted_objects_are_refused_one_by_one(ward: Ward) -> None:
    ward.rule(rules("deny: not here", f', user: "{RESEARCHER}"'))
    stem = unique("tar")
    result = extract(ward.researcher, archive(f"patients/{stem}/1", f"open/{stem}/1"))
    assert result["Number Files Created"] == 1, result
    ((path, status),) = result["Errors"]  # type: ignore[misc]
    assert (f"patients/{stem}/1" in path, status[:3]) == (True, "403")
    assert ward.admin.head(f"patients/{stem}/1").status == 404


def test_bulk_delete_is_refused_one_by_one(ward: Ward) -> None:
    ward.rule(
        rules("deny: keep it", conditions="method: DELETE, container: patients, object: a.csv")
    )
    name = unique("bulk")
    assert ward.admin.put(f"patients/{name}", b"x").status == 201
    headers = {"Content-Type": "text/plain", "Accept": "application/json"}
    body = f"patients/a.csv\npatients/{name}\n".encode()
    answer = ward.admin.request("POST", "", headers, query="bulk-delete", body=body)
    result = json.loads(answer.body)
    assert result["Number Deleted"] == 1, result
    assert [(path.endswith("patients/a.csv"), status[:3]) for path, status in result["Errors"]] == [
        (True, "403")
    ]
    assert ward.admin.head("patients/a.csv").status == 200


# --- container sync -------------------------------------------------------------------------------


def sync(ward: Ward, method: str, name: str, content: bytes = b"", key: str = KEY) -> Answer:
    """Send an object like another cluster's container-sync daemon."""
    path = f"{ward.admin.version_url.path}/patients/{name}"
    timestamp = f"{time.time():.5f}"
    text = f"{method}\n{path}\n{timestamp}\nnonce\n{key}"
    signature = hmac.new(KEY.encode(), text.encode(), hashlib.sha1).hexdigest()
    headers = {"X-Container-Sync-Auth": f"{REALM} nonce {signature}", "X-Timestamp": timestamp}
    anonymous = Client(ward.admin.storage_url, "")
    return anonymous.request(method, f"patients/{name}", headers, body=content or None)


@pytest.mark.parametrize("more", ["", ", signed: true"])
def test_a_mandatory_storlet_runs_on_objects_of_container_sync(ward: Ward, more: str) -> None:
    ward.rule(rules("run: mask.py", more))
    name = unique("sync")
    answer = sync(ward, "PUT", name, CONTENT)
    assert answer.status == 201, answer
    assert ward.admin.get(f"patients/{name}").body == MASKED


def test_objects_of_container_sync_are_refused(ward: Ward) -> None:
    ward.rule(rules("deny: keep your own"))
    name = unique("sync")
    assert_closed(sync(ward, "PUT", name, CONTENT), "scrub")
    assert ward.admin.head(f"patients/{name}").status == 404
    assert sync(ward, "PUT", name, CONTENT, key="guessed").status == 401


def test_the_key_of_container_sync_reads_no_more_than_a_signed_url(ward: Ward) -> None:
    ward.rule(RULES)
    answer = sync(ward, "GET", "a.csv")
    assert (answer.status, answer.body) == (200, MASKED), answer
    head = sync(ward, "HEAD", "a.csv")
    assert (head.status, head.headers["Etag"]) == (200, None), head
