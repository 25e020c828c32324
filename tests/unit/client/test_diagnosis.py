"""The diagnosis of an account: each problem has the command that repairs it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from storlet_client import Storlets
from storlet_client.diagnosis import Check
from tests.unit.client.server import Reply, Server
from tests.unit.client.test_operations import META


def test_the_diagnosis_ends_where_the_rest_depends_on_it(
    server: Server, storlets: Storlets
) -> None:
    server.on("HEAD", "", Reply(204))
    *well, last = storlets.diagnose()
    assert [check.is_well for check in well] == [True, True, True]
    assert (last.is_well, last.remedy) == (False, "storlet enable")


def test_the_diagnosis_finds_storlets_that_cannot_run(server: Server, storlets: Storlets) -> None:
    server.on("HEAD", "", Reply(204, {"X-Account-Meta-Storlet-Enabled": "True"}))
    for container in ("storlet", "dependency"):
        server.on("HEAD", f"/{container}", Reply(204))
    server.on(
        "GET",
        "/storlet",
        Reply(body=b'[{"name": "a.py"}, {"name": "b.rb"}, {"name": "versions/c/1"}]'),
    )
    server.on("HEAD", "/storlet/a.py", Reply(200, META))
    server.on(
        "HEAD", "/storlet/b.rb", Reply(200, {**META, "X-Object-Meta-Storlet-Language": "ruby"})
    )
    server.on("HEAD", "/dependency/b.py", Reply(200))
    bad = {(check.subject, check.text) for check in storlets.diagnose() if not check.is_well}
    assert bad == {
        ("container storletlog", "missing"),
        ("storlet a.py", "dependency c.py is missing"),
        ("storlet b.rb", "language ruby is not one of python"),
    }


def test_a_version_of_a_language_that_the_cluster_lacks_is_found(
    server: Server, storlets: Storlets
) -> None:
    server.on("HEAD", "", Reply(204, {"X-Account-Meta-Storlet-Enabled": "True"}))
    server.on("GET", "/storlet", Reply(body=b'[{"name": "a.py"}, {"name": "b.py"}]'))
    without = {key: value for key, value in META.items() if "Dependency" not in key}
    for name, version in (("a.py", "2.7"), ("b.py", "3")):
        meta = {**without, "X-Object-Meta-Storlet-Language-Version": version}
        server.on("HEAD", f"/storlet/{name}", Reply(200, meta))
    found = [check for check in storlets.diagnose() if check.subject.startswith("storlet ")]
    remedy = "storlet deploy a.py --main a.A --language-version 3.11"
    assert found == [Check("storlet a.py", False, "wants python 2.7: the cluster has 3.11", remedy)]


@pytest.mark.parametrize(("seconds", "text"), [(3600, "behind"), (-3600, "ahead of"), (0, "that")])
def test_the_clock_is_compared_with_that_of_the_cluster(
    server: Server, storlets: Storlets, seconds: int, text: str
) -> None:
    then = datetime.now(UTC) + timedelta(seconds=seconds)
    server.date = format_datetime(then, usegmt=True)
    server.on("HEAD", "", Reply(204))
    (check,) = (check for check in storlets.diagnose() if check.subject == "clock")
    assert (check.is_well, text in check.text) == (not seconds, True)
    assert bool(check.remedy) == bool(seconds)


def test_a_user_who_does_not_own_the_account_is_told(server: Server, storlets: Storlets) -> None:
    server.on("HEAD", "", Reply(403))
    last = storlets.diagnose()[-1]
    assert (last.subject, last.remedy) == ("account", "ask the owner of the account")
