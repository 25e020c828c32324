"""The body of a request for ``std:distributed``; ``test_distributed`` has its faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.errors import BadRequest
from storlet_middleware.flows.distribution import Part, Selection, parse, path_of
from storlet_middleware.wsgi.storlet_request import ObjectPath
from tests.unit.middleware.support import ACCOUNT, make_config


def test_the_defaults(tmp_path: Path) -> None:
    body = b'{"objects": {"container": "c"}, "split": "std:nop", "merge": "concat"}'
    parsed = parse(body, make_config(tmp_path), ACCOUNT)
    assert (parsed.objects, parsed.split) == (Selection("c"), Part("std:nop"))
    assert (parsed.merge, parsed.is_concatenated, parsed.order) == (None, True, "")
    assert (parsed.concurrency, parsed.reports_failures) == (16, False)


def test_a_split_with_a_network_has_effects(tmp_path: Path) -> None:
    admin = {"class:admin__storlets": f"{ACCOUNT}/a.py", "class:admin__network": "net"}
    config = make_config(tmp_path, **admin)
    for storlet, has_effects in (("a.py", True), ("b.py", False)):
        body = json.dumps({**SMALL, "split": storlet}).encode()
        assert parse(body, config, ACCOUNT).has_effects is has_effects


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(BadRequest, match="want a JSON object with objects and split"):
        parse(body, make_config(tmp_path), ACCOUNT)


SMALL = {"objects": {"container": "c"}, "split": "std:nop"}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({f"key-{number}": 1 for number in range(3000)}, "unknown"),
        ({"x": "a" * (70 << 10)}, "more than 65536 characters besides a list of objects"),
        ({"split": {"storlet": "std:nop", "limits": dict.fromkeys(map(str, range(99)), 1)}}, "99"),
        ({"split": "std:distributed "}, "a flow cannot be a part of a flow"),
        ({"objects": {"container": "c", "glob": "?" * 1025}}, "objects.glob: more than 1024 bytes"),
        (
            {"objects": {"container": "c", "metadata": dict.fromkeys(map(str, range(91)), "")}},
            "objects.metadata: more than 90 keys",
        ),
        (
            {"objects": {"container": "c" * 257}},
            "the name of the container has more than 256 bytes",
        ),
        ({"split": "n" * 1025}, "the name of the storlet has more than 1024 bytes"),
        ({"objects": ["/c/\ud800"]}, "surrogates not allowed"),
        (
            {"split": {"storlet": "std:nop", "parameters": {"a": "\ud800"}}},
            "surrogates not allowed",
        ),
        ({"objects": [[]] * 150_000}, "more than 200000 commas and brackets"),
        ({"order": []}, "want listing or arrival"),
        ({"on-failure": {"x": 1}}, "want fail or report"),
        ({"objects": [f"{number}" * 500 for number in range(99)]}, "and 59 more"),
    ],
)
def test_a_body_that_would_occupy_the_process_is_refused(
    tmp_path: Path, more: dict[str, Any], text: str
) -> None:
    body = json.dumps({**SMALL, **more}).encode()
    with pytest.raises(BadRequest, match=text) as caught:
        parse(body, make_config(tmp_path), ACCOUNT)
    assert len(str(caught.value)) < 16_000


def test_paths() -> None:
    assert path_of("/c/a%20/b") == path_of("c/a%20/b") == ObjectPath("c", "a%20/b")
    for wrong in ("", "/", "/c", "/c/", "//o", "c/\0", 5):
        with pytest.raises(ValueError, match="want /container/object"):
            path_of(wrong)
