"""The file and the permissions of a self-test; ``test_gate`` runs whole tests."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from storlet_middleware import config as configuration
from storlet_middleware.sandboxd.self_test import self_tests


def test_a_self_test_receives_the_permissions_of_its_class() -> None:
    text = "[class:admin]\naccounts = a\nnetwork = lan\nmounts = /srv/in:/in:ro, /srv/out:/out:rw\n"
    classes = configuration.parse(text).classes
    assert self_tests.allowed(classes["user"]) == ()
    assert self_tests.allowed(classes["admin"]) == ("network", "write:/out")


def test_the_donated_file_is_like_an_object_and_is_removed(tmp_path: Path) -> None:
    (tmp_path / "self-test-object").write_text("of a test that did not end", encoding="utf-8")
    with self_tests.donated(tmp_path) as descriptor:
        assert stat.S_IMODE(os.fstat(descriptor).st_mode) == 0o600
        assert os.pread(descriptor, 100, 0) == self_tests.CONTENT
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(descriptor, b"x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", ["content", "mode", "time"])
def test_a_change_of_the_donated_file_is_noticed(tmp_path: Path, change: str) -> None:
    with self_tests.donated(tmp_path) as descriptor:
        before = self_tests._fingerprint(descriptor)
        assert self_tests._fingerprint(descriptor) == before
        path = tmp_path / "self-test-object"
        if change == "content":
            path.write_bytes(b"other")
        elif change == "mode":
            path.chmod(0o644)
        else:
            os.utime(path, ns=(1, 1))
        assert self_tests._fingerprint(descriptor) != before
