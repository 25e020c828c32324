"""Storlets that cannot run."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from storlet_client.diagnosis.check import Check
from tests.unit.client.server import INFO, Reply, Server
from tests.unit.client.test_operations import META

Problems = Callable[..., list[Check]]
PLAIN = {key: value for key, value in META.items() if "Dependency" not in key}


def test_a_language_and_a_dependency_that_are_missing_are_found(
    server: Server, problems: Problems
) -> None:
    listed = b'[{"name": "a.py"}, {"name": "b.rb"}, {"name": "versions/c/1"}]'
    server.on("GET", "/storlet", Reply(body=listed))
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    ruby = {**META, "X-Object-Meta-Storlet-Language": "ruby"}
    server.on("HEAD", "/storlet/b.rb", Reply(200, ruby))
    server.on("HEAD", "/dependency/b.py", Reply(200))
    assert {(check.subject, check.text, check.remedy) for check in problems()} == {
        (
            "storlet a.py",
            "dependency c.py is missing",
            "storlet deploy a.py --main a.A --dependency c.py",
        ),
        (
            "storlet b.rb",
            "language ruby is not one of python",
            "storlet deploy b.rb --main a.A --language python",
        ),
        (
            "storlet b.rb",
            "dependency c.py is missing",
            "storlet deploy b.rb --main a.A --dependency c.py",
        ),
    }


def test_the_case_of_a_language_is_ignored_as_the_engine_does(
    server: Server, problems: Problems
) -> None:
    server.on("GET", "/storlet", Reply(body=b'[{"name": "a.py"}]'))
    meta = {**PLAIN, "X-Object-Meta-Storlet-Language": "Python"}
    server.on("HEAD", "/storlet/a.py", Reply(200, meta))
    assert problems() == []


def test_a_version_of_a_language_that_the_cluster_lacks_is_found(
    server: Server, problems: Problems
) -> None:
    server.on("GET", "/storlet", Reply(body=b'[{"name": "a.py"}, {"name": "b.py"}]'))
    for name, version in (("a.py", "2.7"), ("b.py", "3")):
        meta = {**PLAIN, "X-Object-Meta-Storlet-Language-Version": version}
        server.on("HEAD", f"/storlet/{name}", Reply(200, meta))
    remedy = "storlet deploy a.py --main a.A --language-version 3.11"
    text = "requires python 2.7: the cluster has 3.11"
    assert problems() == [Check("storlet a.py", False, text, remedy)]


def runs(*records: dict[str, object]) -> Reply:
    return Reply(body=json.dumps(records).encode())


# Swift rounds the time of the upload up to a second.
@pytest.mark.parametrize(("second", "is_found"), [("20", True), ("14", True), ("13", False)])
def test_code_that_did_not_load_is_found_until_it_is_replaced(
    server: Server, problems: Problems, second: str, is_found: bool
) -> None:
    server.on("GET", "/storlet", Reply(body=b'[{"name": "a.py"}]'))
    modified = {"Last-Modified": "Mon, 23 Nov 2026 10:00:15 GMT"}
    server.on("HEAD", "/storlet/a.py", Reply(200, {**PLAIN, **modified}))
    record: dict[str, object] = {
        "id": "tx1-1", "time": f"2026-11-23T10:00:{second}.5Z", "message": "ImportError:\nno x",
        "storlets": [{"name": "b.py"}, {"name": "a.py"}], "failed_step": 2,
    }  # fmt: skip
    server.on("GET", "", runs(record))
    text = "its code does not load: ImportError: no x (storlet show-run tx1-1)"
    remedy = "storlet deploy a.py --main a.A"
    expected = [Check("storlet a.py", False, text, remedy)] if is_found else []
    assert problems() == expected


@pytest.mark.parametrize(("digest", "is_found"), [("new", True), ("old", False)])
def test_a_bundle_that_does_not_load_goes_back_to_its_older_version(
    server: Server, problems: Problems, digest: str, is_found: bool
) -> None:
    server.on("GET", "/storlet", Reply(body=b'[{"name": "fruit.storlet"}]'))
    versions = {
        "versions": [
            {"number": 3, "version": "2", "sha256": "new", "bytes": 1, "time": "", "current": True},
            {"number": 2, "version": "1", "sha256": "old", "bytes": 1, "time": "",
             "current": False, "added_by_a_later_release": 1},
        ]
    }  # fmt: skip
    server.on("HEAD", "/storlet/fruit.storlet", Reply(200, PLAIN))
    server.on("GET", "/storlet/fruit.storlet", Reply(body=json.dumps(versions).encode()))
    record: dict[str, object] = {
        "id": "tx1-1", "message": "no",
        "storlets": [{"name": "fruit@3", "sha256": digest}],
    }  # fmt: skip
    server.on("GET", "", runs(record))
    assert [check.remedy for check in problems()] == ["storlet rollback fruit 2"] * is_found


@pytest.mark.parametrize(
    ("engine", "api", "is_found"),
    [
        (">=1.0,<2", "1.0", False),
        (">=1.1", "1.0", True),
        (">=1.0,<2", "2.0", True),
        ("", "1.0", False),
    ],
)
def test_a_bundle_for_another_engine_is_found_before_it_runs(
    server: Server, problems: Problems, engine: str, api: str, is_found: bool
) -> None:
    described = {"storlet_handler": {**INFO["storlet_handler"], "engine_api": api}}
    server.replies["GET", "/info"] = Reply(body=json.dumps(described).encode())
    server.on("GET", "/storlet", Reply(body=b'[{"name": "fruit.storlet"}]'))
    server.on("HEAD", "/storlet/fruit.storlet", Reply(200, PLAIN))
    document = {"engine": engine, "versions": []}
    server.on("GET", "/storlet/fruit.storlet", Reply(body=json.dumps(document).encode()))
    # A run was refused for the same reason: it is one problem.
    record = {"id": "tx1-1", "message": "no", "storlets": [{"name": "fruit"}]}
    server.on("GET", "", runs(record if is_found else {}))
    found = [check for check in problems() if check.subject != "client"]
    text = f"works with engine API {engine}: the cluster has {api}"
    remedy = (
        f"test it with engine API {api}, correct engine in storlet.toml, then:"
        " storlet build; storlet deploy BUNDLE"
    )
    expected = [Check("storlet fruit.storlet", False, text, remedy)] if is_found else []
    assert found == expected


@pytest.mark.parametrize(
    "reply", [Reply(404), Reply(403), Reply(body=b'{"name": "fruit", "versions": []}')]
)
def test_a_bundle_whose_engine_is_not_known_is_no_problem(
    server: Server, problems: Problems, reply: Reply
) -> None:
    """It was deleted meanwhile, is hidden by a rule, or the cluster has an older release."""
    server.on("GET", "/storlet", Reply(body=b'[{"name": "fruit.storlet"}]'))
    server.on("HEAD", "/storlet/fruit.storlet", Reply(200, PLAIN))
    server.on("GET", "/storlet/fruit.storlet", reply)
    assert problems() == []
