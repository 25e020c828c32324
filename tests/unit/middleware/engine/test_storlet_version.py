"""One exact storlet version: its key, its text, its request to sandboxd."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.engine.storlet_version import StorletVersion
from tests.unit.middleware.engine.storlet_code import version


def test_the_key_changes_with_every_field_of_the_code_and_the_text_can_be_read_back() -> None:
    base = version()
    others = [
        version(b"other"),
        version(timestamp="2"),
        version(mode=0o555),
        replace(base, account="AUTH_b"),
        replace(base, main="up.Other"),
        replace(base, language_version="3.11"),
        replace(base, files=base.files * 2),
        replace(base, arguments=("-9",)),
    ]
    assert len({base.key, *(other.key for other in others)}) == len(others) + 1
    assert StorletVersion.from_text(base.text) == base
    assert StorletVersion.from_text(base.text) is StorletVersion.from_text(base.text)


def test_limits_are_no_part_of_the_key_and_are_part_of_the_text() -> None:
    base, limited = version(), replace(version(), limits={"memory": 1.0})
    assert base.key == limited.key
    assert base.text != limited.text
    assert StorletVersion.from_text(limited.text).limits == {"memory": 1.0}


def test_seekable_inputs_are_no_part_of_the_key_and_are_sent_to_the_node() -> None:
    base, seekable = version(), replace(version(), seekable=True)
    assert base.key == seekable.key
    assert "seekable" not in base.text, "older proxies and nodes read it"
    assert StorletVersion.from_text(seekable.text) == seekable
    assert StorletVersion.from_text(seekable.for_node).seekable


def test_ranges_are_no_part_of_the_key_and_are_for_proxies_only() -> None:
    base, ranged = version(), replace(version(), ranges=True)
    assert base.key == ranged.key
    assert "ranges" not in base.text, "older proxies read it"
    assert StorletVersion.from_text(ranged.text) == ranged
    assert "ranges" not in ranged.for_node, "older nodes read it"


def test_the_numbers_of_outputs_and_of_the_version_are_for_proxies_only() -> None:
    base = replace(version(), digest="d" * 64, inputs=(1, 1))
    two = replace(base, outputs=(2, 4), number=3)
    assert base.key == two.key
    assert StorletVersion.from_text(two.text) == two
    assert "outputs" not in base.text, "older proxies read it"
    assert "number" not in base.text
    assert "outputs" not in two.for_node, "older nodes read it"
    assert "number" not in two.for_node


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": []}', "{", '{"files": [{}]}'])
def test_a_text_that_describes_no_version_is_refused(text: str) -> None:
    with pytest.raises((TypeError, KeyError, ValueError)):
        StorletVersion.from_text(text)


def test_the_request_names_the_code_by_its_key_and_the_worker_group_apart() -> None:
    base = version()
    dependency = replace(base.files[0], container="dependency", name="lib.py")
    resources = messages.Resources(memory_bytes=1 << 26)
    wanted = replace(base, files=(*base.files, dependency)).load_request("a" * 64, resources)
    assert (wanted.version, wanted.file, wanted.limits) == ("a" * 64, "up.py", resources)
    assert wanted.code == replace(base, files=(*base.files, dependency)).key
    assert (list(wanted.dependencies), wanted.language_version) == (["lib.py"], None)


def test_names_of_secrets_are_for_the_proxy_only() -> None:
    base, using = version(), replace(version(), secrets=("api-token",))
    assert base.key == using.key
    assert "secrets" not in base.text, "older proxies read it"
    assert StorletVersion.from_text(using.text) == using
    assert "api-token" not in using.for_node
