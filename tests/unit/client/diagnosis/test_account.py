"""The diagnosis of an account: each problem has the command that repairs it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from storlet_client import Storlets
from storlet_client.diagnosis.check import Check
from tests.unit.client.server import INFO, Reply, Server


def test_the_diagnosis_ends_where_the_rest_depends_on_it(
    server: Server, storlets: Storlets
) -> None:
    server.on("HEAD", "", Reply(204))
    *well, last = storlets.diagnose()
    assert [check.is_well for check in well] == [True] * 4
    assert (last.is_well, last.remedy) == (False, "storlet enable")


def test_a_container_that_is_missing_or_hidden_by_a_rule_is_found(
    server: Server, storlets: Storlets
) -> None:
    server.on("HEAD", "", Reply(204, {"X-Account-Meta-Storlet-Enabled": "True"}))
    server.on("HEAD", "/storlet", Reply(204))
    server.on("HEAD", "/dependency", Reply(403, {"X-Storlet-Rule": "shut"}))
    bad = {(each.subject, each.text) for each in storlets.diagnose() if not each.is_well}
    assert bad == {
        ("container dependency", "rule shut refuses the request"),
        ("container storletlog", "missing"),
    }


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {("release", True)}),
        ({"library": {}, "upload_check": True}, set()),
        ({"library": {}, "upload_check": True, "engine_api": "2.0"}, {("client", False)}),
        (
            {"library": {}, "upload_check": True, "self_test": {"user": "fail", "admin": "pass"}},
            {("sandboxes", False)},
        ),
    ],
)
def test_other_releases_and_failed_self_tests_are_found(
    server: Server, storlets: Storlets, more: dict[str, object], expected: set[tuple[str, bool]]
) -> None:
    described = {"storlet_handler": {**INFO["storlet_handler"], **more}}
    server.replies["GET", "/info"] = Reply(body=json.dumps(described).encode())
    server.on("HEAD", "", Reply(204))
    found = {(check.subject, check.is_well) for check in storlets.diagnose()}
    assert found - {("login", True), ("cluster", True), ("clock", True), ("account", False)} == (
        expected
    )


def test_an_invalid_token_and_a_missing_account_end_the_diagnosis(
    server: Server, storlets: Storlets
) -> None:
    for status, text in ((401, "the token is not valid"), (404, "it does not exist")):
        server.on("HEAD", "", Reply(status))
        last = storlets.diagnose()[-1]
        assert (last.subject, last.is_well, text in last.text) == ("account", False, True)


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


def test_a_user_who_does_not_own_the_account_is_informed(
    server: Server, storlets: Storlets
) -> None:
    server.on("HEAD", "", Reply(403))
    server.on("HEAD", "/storlet", Reply(204))
    account, code = storlets.diagnose()[-2:]
    assert (account.subject, account.remedy) == ("account", "contact the owner of the account")
    assert code == Check("container storlet", True, "you may run its storlets")


@pytest.mark.parametrize(
    ("setting", "text"),
    [({}, "callers with a login"), ({"X-Account-Meta-Storlet-Library": "none"}, "no caller")],
)
def test_the_callers_of_the_library_are_shown(
    server: Server, storlets: Storlets, setting: dict[str, str], text: str
) -> None:
    described = {"storlet_handler": {**INFO["storlet_handler"], "library_callers": "users"}}
    server.replies["GET", "/info"] = Reply(body=json.dumps(described).encode())
    server.on("HEAD", "", Reply(204, {"X-Account-Meta-Storlet-Enabled": "True", **setting}))
    (check,) = (check for check in storlets.diagnose() if check.subject == "library")
    assert (check.is_well, check.text) == (True, f"std: storlets for {text}")
