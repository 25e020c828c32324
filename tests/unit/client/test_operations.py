"""The requests of each operation."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from storlet_client import (
    BrokenAnswer,
    ConfigurationError,
    Grant,
    NotThere,
    Refused,
    Storlets,
    StorletsError,
)
from storlet_client import session as sessions
from storlet_client.bundle import archive
from storlet_client.content import md5_of
from storlet_client.exchange import Call
from storlet_client.operations import Invocation, Manifest, language_of, object_path
from tests.unit.client.server import ACCOUNT, INFO, Reply, Server

CODE = b"class A: pass\n"
META = {
    "X-Object-Meta-Storlet-Language": "python",
    "X-Object-Meta-Storlet-Main": "a.A",
    "X-Object-Meta-Storlet-Interface-Version": "1.0",
    "X-Object-Meta-Storlet-Object-Metadata": "no",
    "X-Object-Meta-Storlet-Dependency": "b.py, c.py",
    "X-Object-Meta-Storlet-Memory": "64M",
    "ETag": hashlib.md5(CODE, usedforsecurity=False).hexdigest(),
}


def test_a_storlet_has_its_manifest(server: Server, storlets: Storlets) -> None:
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    found = storlets.show("a.py")
    assert (found.language, found.main, found.dependencies) == ("python", "a.A", ("b.py", "c.py"))
    assert found.declared == {"memory": "64M"}


def test_a_missing_storlet_has_the_nearest_name(server: Server, storlets: Storlets) -> None:
    rows = b'[{"name": "fruit.storlet"}, {"name": "a.py"}, {"subdir": "versions/"}]'
    server.on("GET", "/storlet", Reply(body=rows), Reply(body=rows), Reply(403))
    with pytest.raises(NotThere, match=r"no storlet friut: did you mean fruit\?"):
        storlets.show("friut")
    with pytest.raises(NotThere, match=r"no bundle b: 'storlet list' has all"):
        storlets.versions("b")
    with pytest.raises(NotThere, match=r"no storlet b: 'storlet list' has all"):
        storlets.delete("b")


def test_a_plain_file_has_no_versions(server: Server, storlets: Storlets) -> None:
    server.on("GET", "/storlet", Reply(body=b'[{"name": "fruit.storlet"}, {"name": "a.py"}]'))
    with pytest.raises(NotThere, match=r"^a\.py is a plain file: only bundles"):
        storlets.versions("a.py")
    server.on("POST", "/storlet/a.py.storlet", Reply(404, NOT_FOUND, b"there is no bundle"))
    with pytest.raises(NotThere, match=r"^a\.py is a plain file: only bundles"):
        storlets.roll_back("a.py", 1)


def test_a_bundle_without_the_version_is_not_taken_for_a_missing_one(
    server: Server, storlets: Storlets
) -> None:
    server.on("GET", "/storlet", Reply(body=b'[{"name": "fruit.storlet"}]'))
    for name in ("friut", "fruit"):
        server.on("POST", f"/storlet/{name}.storlet", Reply(404, NOT_FOUND, b"no version 9"))
    server.on("HEAD", "/storlet/friut.storlet", Reply(404))
    with pytest.raises(NotThere, match=r"no bundle friut: did you mean fruit\?"):
        storlets.roll_back("friut", 9)
    server.on("HEAD", "/storlet/fruit.storlet", Reply(200, META))
    with pytest.raises(Refused, match="no version 9"):
        storlets.roll_back("fruit", 9)


def test_a_missing_storlet_is_not_one_without_logs_or_runs(
    server: Server, storlets: Storlets
) -> None:
    server.on("GET", "/storlet", Reply(body=b'[{"name": "fruit.storlet"}]'))
    server.on("GET", "/storletlog", Reply(body=b"[]"))
    server.on("GET", "", Reply(body=b"[]"))
    reads: list[Callable[[str], object]] = [
        storlets.logs, storlets.invocations, lambda name: storlets.log(name, "tx1-1"),
    ]  # fmt: skip
    for read in reads:
        with pytest.raises(NotThere, match=r"no storlet friut: did you mean fruit\?"):
            read("friut")
    server.on("HEAD", "/storlet/fruit.storlet", Reply(200, META))
    assert storlets.logs("fruit") == []
    assert storlets.invocations("fruit") == []
    with pytest.raises(NotThere, match="has no log tx1-1"):
        storlets.log("fruit", "tx1-1")


NOT_FOUND = {"X-Storlet-Error": "storlet.not_found", "X-Storlet-Invocation": "tx1-1"}


def test_a_run_of_a_missing_storlet_has_the_nearest_name(
    server: Server, storlets: Storlets
) -> None:
    for method in ("GET", "COPY", "PUT"):
        server.on(method, "/c/o", Reply(404, NOT_FOUND))
    server.on("POST", "", Reply(404, NOT_FOUND))
    server.on("GET", "/storlet", Reply(body=b'[{"name": "fruit.storlet"}, {"name": "a.py"}]'))
    for path in ("/storlet/friut", "/storlet/friut.storlet"):
        server.on("HEAD", path, Reply(404))
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    document = {"split": {"storlet": "a.py"}, "merge": {"storlet": "friut"}}
    runs: list[Callable[[], object]] = [
        lambda: storlets.run("friut@2", "c/o").__enter__(),
        lambda: storlets.copy("friut", "c/o", "c/p"),
        lambda: storlets.put("friut", "c/o", b"body"),
        lambda: storlets.distribute(document).__enter__(),
    ]
    for run in runs:
        with pytest.raises(NotThere, match=r"^there is no storlet friut: did you mean fruit\?$"):
            run()


@pytest.mark.parametrize("name", ["a.py", "a.py@9", "std:grepp", "hidden.py"])
def test_other_reasons_of_a_missing_storlet_are_those_of_the_server(
    server: Server, storlets: Storlets, name: str
) -> None:
    """A version, a storlet of the library or of a rule, and one that the caller may not see."""
    server.on("GET", "/c/o", Reply(404, NOT_FOUND, b"the reason"))
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    server.on("HEAD", "/storlet/hidden.py", Reply(403))
    with pytest.raises(Refused, match=r"404 storlet\.not_found: the reason") as caught:
        storlets.run(name, "c/o").__enter__()
    assert caught.value.invocation == "tx1-1"


def page(names: range) -> Reply:
    rows = [{"name": f"{name:05}", "last_modified": f"{name:05}", "bytes": 1} for name in names]
    return Reply(body=json.dumps(rows).encode())


def test_a_listing_of_ten_thousand_objects_is_read_in_pages(
    server: Server, storlets: Storlets
) -> None:
    pages = [page(range(first, first + 1000)) for first in range(0, 10_000, 1000)]
    server.on("GET", "/storletlog", *pages, page(range(0)))
    found = storlets.logs("a.py")
    assert [row["name"] for row in found] == [f"{name:05}" for name in range(10_000)]
    last = next(each.path for each in reversed(server.received) if "marker=" in each.path)
    assert "marker=09999" in last
    assert "prefix=a.py%2F" in last


def test_a_listing_that_does_not_end_is_refused(server: Server, storlets: Storlets) -> None:
    server.on("GET", "/storletlog", page(range(1000)))
    with pytest.raises(BrokenAnswer, match="does not continue after 00999"):
        storlets.logs("a.py")


def test_versions_of_bundles_are_no_storlets(server: Server, storlets: Storlets) -> None:
    server.on("GET", "/storlet", Reply(body=b'[{"name": "a.py"}, {"subdir": "versions/"}]'))
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    assert [each.name for each in storlets.list()] == ["a.py"]
    listed = next(
        each.path for each in server.received if each.path.startswith(f"{ACCOUNT}/storlet?")
    )
    assert "delimiter=%2F" in listed


def test_an_answer_of_another_program_is_refused(server: Server, storlets: Storlets) -> None:
    server.on("GET", "/storletlog", Reply(body=b"<html>Please log in\nto this network"))
    with pytest.raises(BrokenAnswer, match="not JSON, but begins with: '<html>Please log in to"):
        storlets.logs("a.py")
    server.on("PUT", "/storlet/a.storlet", Reply(201))
    with pytest.raises(BrokenAnswer, match="no number of a version"):
        storlets.deploy_bundle("a", b"x")


def test_a_missing_storlet_is_named(storlets: Storlets) -> None:
    with pytest.raises(NotThere, match=r"no storlet x\.py"):
        storlets.show("x.py")
    with pytest.raises(NotThere):
        storlets.delete("x.py")


def test_dependencies_are_uploaded_before_the_storlet(server: Server, storlets: Storlets) -> None:
    server.on("HEAD", "/storlet/a.py", Reply(404), Reply(200, META))
    server.on("PUT", "/storlet/a.py", Reply(201))
    server.on("PUT", "/dependency/b.py", Reply(201))
    server.on("HEAD", "/dependency/b.py", Reply(404))
    manifest = Manifest("a.A", "python", ("b.py",), limits={"memory": "64M"})
    deployed = storlets.deploy("a.py", CODE, manifest, {"b.py": (b"x", "0700")})
    assert server.calls() == [
        "HEAD /storlet/a.py", "HEAD /dependency/b.py", "PUT /dependency/b.py",
        "PUT /storlet/a.py", "HEAD /storlet/a.py",
    ]  # fmt: skip
    puts = [one for one in server.received if one.method == "PUT"]
    assert puts[0].headers["x-object-meta-storlet-dependency-permissions"] == "0700"
    assert puts[1].headers["x-object-meta-storlet-memory"] == "64M"
    assert puts[1].headers["etag"] == META["ETag"]
    assert deployed.changes == ("new: 0 bytes of python", "dependency b.py: new")


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        (Reply(200, {"ETag": md5_of(b"xyz"), "Content-Length": "3"}), ()),
        (Reply(200, {"ETag": "other"}), ("dependency b.py: 0 -> 3 bytes",)),
        (
            Reply(200, {"ETag": "o", "X-Object-Meta-Storlet-Dependency-Permissions": "0600"}),
            ("dependency b.py: 0 -> 3 bytes, mode 0600 -> 0700",),
        ),
        # The right to write the container does not include that to read it.
        (Reply(403), ()),
    ],
)
def test_a_deployment_lists_changes_of_dependencies(
    server: Server, storlets: Storlets, before: Reply, changes: tuple[str, ...]
) -> None:
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    server.on("HEAD", "/dependency/b.py", before)
    for path in ("/storlet/a.py", "/dependency/b.py"):
        server.on("PUT", path, Reply(201))
    manifest = Manifest("a.A", "python", ("b.py",), limits={"memory": "64M"})
    assert storlets.deploy("a.py", CODE, manifest, {"b.py": (b"xyz", "0700")}).changes == changes


def test_a_refused_deployment_names_the_dependencies_that_are_in_use(
    server: Server, storlets: Storlets
) -> None:
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    server.on("HEAD", "/dependency/b.py", Reply(200, {"ETag": "other"}))
    server.on("PUT", "/dependency/b.py", Reply(201))
    refused = Reply(422, {"X-Storlet-Error": "registration.check"}, b"nothing was changed\n")
    server.on("PUT", "/storlet/a.py", refused)
    manifest = Manifest("a.A", "python", ("b.py",))
    with pytest.raises(Refused) as caught:
        storlets.deploy("a.py", CODE, manifest, {"b.py": (b"xyz", "0700")})
    assert caught.value.message == (
        "nothing was changed\nchanged before that: dependency b.py: 0 -> 3 bytes"
    )
    with pytest.raises(Refused) as caught:
        storlets.deploy("a.py", CODE, Manifest("a.A", "python"))
    assert caught.value.message == "nothing was changed"


def test_a_deployment_lists_what_changed(server: Server, storlets: Storlets) -> None:
    before = {**META, "X-Object-Meta-Storlet-Main": "a.B", "ETag": "other"}
    del before["X-Object-Meta-Storlet-Memory"]
    server.on("HEAD", "/storlet/a.py", Reply(200, before), Reply(200, META))
    server.on("PUT", "/storlet/a.py", Reply(201))
    deployed = storlets.deploy("a.py", CODE, Manifest("a.A", "python"))
    assert deployed.changes == (
        "code: 0 -> 0 bytes",
        "main: a.B -> a.A",
        "memory: unset -> 64M",
    )


def test_another_upload_at_the_same_time_is_noticed(server: Server, storlets: Storlets) -> None:
    server.on("HEAD", "/storlet/a.py", Reply(200, {**META, "ETag": "other"}))
    server.on("PUT", "/storlet/a.py", Reply(201))
    with pytest.raises(StorletsError, match="another upload"):
        storlets.deploy("a.py", CODE, Manifest("a.A", "python"))


def test_parameters_arrive_as_they_are() -> None:
    parameters = {
        "plain": "a,b=c/d",
        "begin and end": " a ",
        "line": "a\r\nb\0",
        "accent": "\u00e9",
        "percent": "50%, %41, %zz",
        "k:1": "v",
        "": "e",
    }
    call = Invocation("s.py", "c/o", parameters).call("GET", {})
    sent = [value for name, value in call.headers.items() if name.startswith("X-Storlet-Param")]
    assert sent[0] == "plain:a,b=c/d"
    assert all(value.isascii() and value.isprintable() for value in sent)
    # As the server reads them.
    received = {key: value for key, _, value in (unquote(each).partition(":") for each in sent)}
    assert {**received, **dict(call.query)} == parameters
    assert dict(call.query) == {"k:1": "v", "": "e"}


def test_an_invocation_has_all_its_headers() -> None:
    invocation = Invocation(
        "s.py",
        "/c/a/b",
        {},
        "0-9",
        ("c/x", "/c/100%, y"),
        {"memory": "1M"},
        on_proxy=True,
        keep_log=True,
        outputs=("c/one, two", "/d/z"),
        if_resources=("e1", "e2"),
    )
    call = invocation.call("COPY", {"Destination": "c/z"})
    assert call.path == ("c", "a/b")
    assert dict(call.headers) == {
        "X-Run-Storlet": "s.py",
        "Accept": "*/*",
        "Destination": "c/z",
        "X-Storlet-Range": "bytes=0-9",
        "X-Storlet-Extra-Resources": "/c/x,/c/100%25%2C%20y",
        "X-Storlet-If-Resources": "e1,e2",
        "X-Storlet-Output": "/c/one%2C%20two,/d/z",
        "X-Storlet-Limit-memory": "1M",
        "X-Storlet-Run-On-Proxy": "",
        "X-Storlet-Generate-Log": "true",
    }


@pytest.mark.parametrize("path", ["", "/", "c", "c/", "/c", "//o"])
def test_a_path_has_a_container_and_an_object(path: str) -> None:
    with pytest.raises(ConfigurationError, match="write container/object"):
        object_path(path)


@pytest.mark.parametrize(("name", "language"), [("a.py", "python"), ("a.jar", "java"), ("a", "")])
def test_the_suffix_gives_the_language(name: str, language: str) -> None:
    assert language_of(name) == language


def test_a_long_listing_has_all_pages(server: Server, storlets: Storlets) -> None:
    rows = [
        f'{{"name": "s/{n:04}.log", "bytes": 1, "last_modified": "{n:04}"}}' for n in range(1500)
    ]
    pages = [",".join(rows[:1000]), ",".join(rows[1000:])]
    server.on("GET", "/storletlog", *(Reply(body=f"[{page}]".encode()) for page in pages))
    assert len(storlets.logs("s")) == 1500
    assert any("marker=s%2F0999.log" in each.path for each in server.received)


def test_grants_are_read_and_changed(server: Server, storlets: Storlets) -> None:
    listed = "test2%3Aada=a.py, bob=b%2C.py"
    server.on("HEAD", "/c", Reply(204, {"X-Storlet-Container-Read": listed}))
    server.on("POST", "/c", Reply(204, {"X-Storlet-Warning": "no such storlet"}))
    assert storlets.grants("c") == [Grant("test2:ada", "a.py"), Grant("bob", "b,.py")]
    assert storlets.grant("c", "ada", "a.py") == "no such storlet"
    storlets.revoke("c", "bob", "b,.py")
    sent = server.received[-1].headers
    assert (sent["x-remove-storlet-container-read"], sent["x-storlet-name"]) == ("bob", "b,.py")


def test_a_bundle_that_is_named_as_its_object_has_runs_grants_and_logs(
    server: Server, storlets: Storlets
) -> None:
    """As lists have it; the server would find none of them."""
    invocation = Invocation("fruit.storlet", "c/o")
    assert invocation.call("GET", {}).headers["X-Run-Storlet"] == "fruit"
    server.on(
        "HEAD", "/c", Reply(204, {"X-Storlet-Container-Read": "ada=fruit, bob=fruit.storlet"})
    )
    server.on("POST", "/c", Reply(204))
    storlets.grant("c", "ada", "fruit.storlet")
    assert server.received[-1].headers["x-storlet-name"] == "fruit"
    for user, name in (("ada", "fruit"), ("bob", "fruit.storlet")):
        storlets.revoke("c", user, "fruit.storlet")
        sent = server.received[-1].headers
        assert (sent["x-remove-storlet-container-read"], sent["x-storlet-name"]) == (user, name)
    server.on("GET", "", Reply(body=b'[{"id": "tx1-1"}]'))
    storlets.invocations("fruit.storlet")
    assert server.received[-1].path.endswith("storlet=fruit&limit=100")
    server.on("GET", "/storletlog", Reply(body=b"[]"))
    server.on("HEAD", "/storlet/fruit.storlet", Reply(200, META))
    assert storlets.logs("fruit.storlet") == []
    assert "prefix=fruit%2F" in server.calls()[-3]


def test_logs_of_a_bundle_have_those_of_its_versions(server: Server, storlets: Storlets) -> None:
    rows = [{"name": "fruit/tx2-1.log", "last_modified": "2"}]
    others = ("fruit@1/tx1-1.log", "fruit@one/tx9-1.log", "fruit@1.py/tx8-1.log")
    numbered = [{"name": name, "last_modified": "1"} for name in others]
    replies = [Reply(body=json.dumps(each).encode()) for each in (rows, numbered)]
    server.on("GET", "/storletlog", *replies * 2)
    assert [row["name"] for row in storlets.logs("fruit")] == [others[0], "fruit/tx2-1.log"]
    server.on("GET", "/storletlog/fruit%401/tx1-1.log", Reply(body=b"first"))
    assert storlets.log("fruit", "tx1-1") == "first"


def test_a_version_of_a_bundle_is_downloaded(server: Server, storlets: Storlets) -> None:
    kept = [
        {
            "number": number, "version": "1", "sha256": "a" * 64, "bytes": 9, "time": "2026-11-28",
            "current": number == 2,
        }
        for number in (2, 1)
    ]  # fmt: skip
    server.on("GET", "/storlet/fruit.storlet", Reply(body=json.dumps({"versions": kept}).encode()))
    server.on("GET", f"/storlet/versions/fruit/1-{'a' * 12}.storlet", Reply(body=b"the first"))
    with storlets.download("fruit@1") as stream:
        assert stream.read() == b"the first"
    with pytest.raises(NotThere, match="bundle fruit has no version 3; there are 1, 2"):
        storlets.download("fruit@3").__enter__()


def test_a_grant_that_does_not_exist_is_not_reported_as_revoked(
    server: Server, storlets: Storlets
) -> None:
    server.on("HEAD", "/c", Reply(204, {"X-Storlet-Container-Read": "test2%3Aada=a.py"}))
    for given in (("test2:adda", "a.py"), ("test2:ada", "b.py")):
        with pytest.raises(NotThere, match=r"has no grant for .\.py on c: 'storlet grants c'"):
            storlets.revoke("c", *given)
    assert not any(call.startswith("POST") for call in server.calls())


def test_an_empty_name_is_no_request_for_what_holds_it(server: Server, storlets: Storlets) -> None:
    """Such as that of an unset variable: a DELETE of it would delete the container."""
    manifest = Manifest(main="a.A", language="python")
    requests: list[Callable[[], object]] = [
        lambda: storlets.delete(""),
        lambda: storlets.show(""),
        lambda: storlets.download("").__enter__(),
        lambda: storlets.deploy("", CODE, manifest),
        lambda: storlets.deploy_bundle("", CODE),
        lambda: storlets.versions(""),
        lambda: storlets.roll_back("", 1),
        lambda: storlets.logs(""),
        lambda: storlets.invocation(""),
        lambda: storlets.grants(""),
        lambda: storlets.grant("/", "ada", "a.py"),
        lambda: storlets.revoke("c/o", "ada", "a.py"),
    ]
    for request in requests:
        with pytest.raises(ConfigurationError, match=r"is empty|is not a container"):
            request()
    assert server.calls() == []
    server.on("HEAD", "/c", Reply(204))
    assert storlets.grants("c/") == []


def test_a_cluster_without_storlets_is_an_error(server: Server, storlets: Storlets) -> None:
    server.replies["GET", "/info"] = Reply(body=b'{"swift": {}}')
    with pytest.raises(StorletsError, match="runs no storlets"):
        storlets.info()


@pytest.mark.parametrize(
    "request_",
    [
        lambda storlets: storlets.invocations(most=1),
        lambda storlets: storlets.invocation("tx1"),
        lambda storlets: storlets.versions("a"),
        lambda storlets: storlets.roll_back("a", 1),
        lambda storlets: storlets.deploy_bundle("a", b""),
    ],
)
def test_a_cluster_of_an_older_release_is_not_queried(
    server: Server, storlets: Storlets, request_: Callable[[Storlets], object]
) -> None:
    """It would take the request for another one: a listing, or the upload of a plain storlet."""
    older = {"storlet_handler": {"storlet_container": "storlet", "languages": {}}}
    server.replies["GET", "/info"] = Reply(body=json.dumps(older).encode())
    with pytest.raises(ConfigurationError, match="its release is older"):
        request_(storlets)
    assert server.calls() == []


def requests_of_info(server: Server) -> int:
    return sum(one.path == "/info" for one in server.received)


def test_the_description_of_the_cluster_is_requested_once(
    server: Server, storlets: Storlets
) -> None:
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    server.on("GET", "/storlet", Reply(body=b"[]"))
    storlets.show("a.py")
    assert storlets.list() == []
    storlets.show("a.py")
    assert requests_of_info(server) == 1
    storlets.info()  # the current one
    storlets.show("a.py")
    assert requests_of_info(server) == 2


def test_a_cluster_that_was_upgraded_is_queried_again(server: Server, storlets: Storlets) -> None:
    """A process that runs for weeks may have the description of an older release."""
    older = {"storlet_handler": {"storlet_container": "storlet", "languages": {}}}
    newer = [Reply(body=json.dumps(each).encode()) for each in (older, older, INFO)]
    server.replies["GET", "/info"] = newer
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    server.on("GET", "", Reply(body=b"[]"))
    storlets.show("a.py")
    with pytest.raises(ConfigurationError, match="its release is older"):
        storlets.invocations()
    assert storlets.invocations() == []
    assert requests_of_info(server) == 3


def test_the_description_of_the_cluster_is_requested_again_after_some_minutes(
    server: Server, storlets: Storlets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A feature that an upgrade brought may have no error in the old release."""
    now = time.monotonic()
    monkeypatch.setattr(sessions, "time", SimpleNamespace(monotonic=lambda: now))
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    for seconds, expected in ((0, 1), (599, 1), (2, 2), (599, 2)):
        now += seconds
        storlets.show("a.py")
        assert requests_of_info(server) == expected


def test_a_cluster_of_release_0_2_gets_a_bundle_without_source(
    server: Server, storlets: Storlets
) -> None:
    document = {"name": "a", "version": "1", "language": "python", "main": "a.A"}
    code = {"a.py": (b"class A: pass", 0o644)}
    with_source, without = io.BytesIO(), io.BytesIO()
    archive.write(with_source, document, code, others={"source/storlet.toml": (b"", 0o644)})
    archive.write(without, document, code)
    server.on("PUT", "/storlet/a.storlet", Reply(201, {"X-Storlet-Version": "1"}))
    storlets.deploy_bundle("a", with_source.getvalue())
    assert server.received[-1].body == with_source.getvalue()
    older = json.loads(json.dumps(INFO))
    del older["storlet_handler"]["bundles"]["source"]
    server.replies["GET", "/info"] = Reply(body=json.dumps(older).encode())
    storlets.info()
    storlets.deploy_bundle("a", with_source.getvalue())
    assert server.received[-1].body == without.getvalue()
    # It was upgraded, and the library still has the description of the older release.
    server.replies["GET", "/info"] = Reply(body=json.dumps(INFO).encode())
    storlets.deploy_bundle("a", with_source.getvalue())
    assert server.received[-1].body == with_source.getvalue()
    # In the middle of an upgrade, /info and the upload may reach different proxies.
    server.replies["GET", "/info"] = Reply(body=json.dumps(INFO).encode())
    storlets.info()
    fault = b"source/storlet.toml: want storlet.json, storlet.lock.json, and all else below code/"
    refusal = Reply(400, {"X-Storlet-Error": "registration.bundle"}, fault + b" and tests/\n")
    created = Reply(201, {"X-Storlet-Version": "1"})
    server.on("PUT", "/storlet/a.storlet", refusal, created)
    storlets.deploy_bundle("a", with_source.getvalue())
    assert server.received[-1].body == without.getvalue()
    server.on("PUT", "/storlet/a.storlet", Reply(400, refusal.headers, b"too large\n"), created)
    with pytest.raises(Refused, match="too large"):
        storlets.deploy_bundle("a", with_source.getvalue())


def test_secrets_are_not_sent_to_a_cluster_that_has_none(
    server: Server, storlets: Storlets
) -> None:
    """It would take the request for one of the account itself."""
    handler = {key: value for key, value in INFO["storlet_handler"].items() if key != "secrets"}
    body = json.dumps({"storlet_handler": handler}).encode()
    server.replies["GET", "/info"] = Reply(body=body)
    for operation in (
        storlets.secrets,
        lambda: storlets.set_secret("name", b"the value of a secret"),
        lambda: storlets.delete_secret("name"),
    ):
        with pytest.raises(ConfigurationError, match="has no secrets of accounts"):
            operation()
    assert server.calls() == []


def test_a_call_does_not_show_its_body() -> None:
    assert "value" not in repr(Call("POST", body=b"the value of a secret"))


def test_a_limit_may_be_a_number() -> None:
    limits: Any = {"timeout-total": 5}
    call = Invocation("a.py", "c/o", limits=limits).call("GET", {})
    assert call.headers["X-Storlet-Limit-timeout-total"] == "5"
