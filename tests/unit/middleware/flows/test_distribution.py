"""The body of a request for ``std:distributed``; ``test_distributed`` has its faults."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(BadRequest, match="want a JSON object with objects and split"):
        parse(body, make_config(tmp_path), ACCOUNT)


def test_paths() -> None:
    assert path_of("/c/a%20/b") == path_of("c/a%20/b") == ObjectPath("c", "a%20/b")
    for wrong in ("", "/", "/c", "/c/", "//o", "c/\0", 5):
        with pytest.raises(ValueError, match="want /container/object"):
            path_of(wrong)
