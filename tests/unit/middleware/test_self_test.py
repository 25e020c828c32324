"""The state of the node's self-test in ``/info``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from swift.common.registry import get_swift_info

from storlet_middleware import config as configuration
from storlet_middleware import self_test
from storlet_middleware.filter import ProxyFilter
from tests.unit.middleware.logger import Logger

UNKNOWN = {"user": "untested", "admin": "untested"}


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ('{"user": "pass", "admin": "fail"}', {"user": "pass", "admin": "fail"}),
        ('{"user": "pass"}', {"user": "pass", "admin": "untested"}),
        ('{"user": "<script>", "admin": ["pass"], "root": "pass"}', UNKNOWN),
        ("[1]", UNKNOWN),
        ("not json", UNKNOWN),
        ("\udc80", UNKNOWN),
    ],
)
def test_only_known_states_are_published(tmp_path: Path, text: str, states: dict[str, str]) -> None:
    (tmp_path / self_test.FILE_NAME).write_bytes(text.encode("utf-8", "surrogateescape"))

    assert self_test.states(tmp_path) == states


def test_without_a_file_nothing_was_tested(tmp_path: Path) -> None:
    assert self_test.states(tmp_path) == UNKNOWN


def test_each_get_of_info_shows_the_state_of_that_moment(tmp_path: Path) -> None:
    config = configuration.parse(f"[sandbox]\nrun_dir = {tmp_path}\n")
    proxy = ProxyFilter(lambda _environ, _start: [b"info"], config, Logger(), {})
    environ = {"PATH_INFO": "/info", "REQUEST_METHOD": "GET"}

    for state in ("fail", "pass"):
        (tmp_path / self_test.FILE_NAME).write_text(json.dumps({"user": state, "admin": "pass"}))
        assert proxy(environ, lambda *_: None) == [b"info"]
        assert get_swift_info()["storlet_handler"]["self_test"] == {"user": state, "admin": "pass"}
