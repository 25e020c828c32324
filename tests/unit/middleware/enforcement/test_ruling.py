"""The decision about each operation: accounts without rules, and rules that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from swift.common.swob import Response

from storlet_middleware import names
from tests.unit.middleware.ruled_proxy import CONTENT, Ruled, assert_closed, rule
from tests.unit.middleware.support import ACCOUNT, Answer, Proxy, make_config


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_account_without_rules_causes_no_further_requests(ruled: Ruled, method: str) -> None:
    ruled.proxy.call(method, "c/o")
    ruled.seen()
    answer = ruled.proxy.call(method, "c/o")
    assert (answer.status, answer.headers.get(names.RULE)) == (200, None)
    assert ruled.seen() == [f"{method} c/o"]


def test_an_upload_without_rules_causes_no_further_requests(ruled: Ruled) -> None:
    ruled.get()
    ruled.seen()
    assert ruled.proxy.call("PUT", "c/new", body=b"x").status == 201
    assert ruled.seen() == ["PUT c/new"]


def damage(ruled: Ruled, how: str) -> None:
    """The version in force and its copy, ``rules.yaml``."""
    objects = ruled.swift.containers["storlet_rules"].objects
    for name in list(objects):
        if how == "gone":
            del objects[name]
        elif how == "other":
            objects[name].body = b"version: 1\nrules: []\n"
        else:
            path = f"/v1/{ACCOUNT}/storlet_rules/{name}"
            ruled.swift.hooks["GET", path] = lambda request: Response(status=503, request=request)


READS: dict[str, Callable[[Ruled], Answer]] = {
    "GET": lambda r: r.get(),
    "HEAD": lambda r: r.proxy.call("HEAD", "c/o"),
    "listing": lambda r: r.get("c"),
    "range": lambda r: r.get(headers={"Range": "bytes=0-3"}),
    "explicit": lambda r: r.get(headers={"X-Run-Storlet": "up.py"}),
    "COPY": lambda r: r.proxy.call("COPY", "c/o", {"Destination": "c/copy"}),
    "PUT": lambda r: r.proxy.call("PUT", "c/new", body=b"x"),
    "explain": lambda r: r.get(headers={"X-Storlet-Explain": "true"}),
}


@pytest.mark.parametrize("how", ["gone", "other", "unavailable"])
@pytest.mark.parametrize("way", READS)
def test_mandatory_rules_that_cannot_be_read_close_everything(
    ruled: Ruled, short_dir: Path, how: str, way: str
) -> None:
    ruled.rule(rule("hide", "method: GET, container: elsewhere", "deny: it is closed"))
    damage(ruled, how)
    other = Ruled(ruled.swift, Proxy(ruled.swift, make_config(short_dir)))
    answer = READS[way](other)
    assert (answer.status, answer.error) == (503, "rules.unavailable"), answer.data
    assert answer.headers["Retry-After"]
    assert b"secret" not in answer.data
    assert "new" not in ruled.swift.containers["c"].objects


@pytest.mark.parametrize("how", ["gone", "other", "unavailable"])
def test_ordinary_rules_that_cannot_be_read_close_nothing(
    ruled: Ruled, short_dir: Path, how: str
) -> None:
    ruled.rule(rule("soft", "method: GET, container: c", "deny: it is closed", mandatory=False))
    assert_closed(ruled.get(), "soft")
    damage(ruled, how)
    other = Ruled(ruled.swift, Proxy(ruled.swift, make_config(short_dir)))
    assert other.get().data == CONTENT
    assert "rules" in other.proxy.logger.text


def test_rules_do_not_apply_to_lookups_by_swift_itself(ruled: Ruled) -> None:
    ruled.rule(rule("hide", "method: GET", "deny: it is closed"))
    own = {"REMOTE_USER": ".wsgi.pre_authed", "swift.authorize": lambda _: None}
    assert ruled.proxy.call("HEAD", "c", environ=own, user="").status == 204
    assert_closed(ruled.get(environ=own | {"swift.source": "FP"}, user=""))
    assert_closed(ruled.proxy.call("GET", "c", environ=own, user=""))
