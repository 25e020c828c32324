"""Users and privileges: how the kernel's status of a process is judged."""

from __future__ import annotations

import os

import pytest

from storlet_daemon.selftest import privileges
from tests.unit.daemon.selftest.rows import attempt, attempt_in_child

CLEAN = {
    "CapInh": "0000000000000000",
    "CapPrm": "0000000000000000",
    "CapEff": "0000000000000000",
    "CapBnd": "0000000000000000",
    "CapAmb": "0000000000000000",
    "NoNewPrivs": "1",
    "Seccomp": "2",
}
STATUS_TESTS = ("capabilities", "no-new-privileges", "seccomp")


def results(monkeypatch: pytest.MonkeyPatch, status: dict[str, str]) -> dict[str, str]:
    """The findings about a process with this status."""
    text = "".join(f"{key}:\t{value}\n" for key, value in status.items())
    monkeypatch.setattr(privileges, "read", lambda _path: text)
    return {name: fault for name in STATUS_TESTS if (fault := attempt(name))}


def test_a_process_without_privileges_has_no_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert results(monkeypatch, CLEAN) == {}


@pytest.mark.parametrize(
    ("key", "value", "name", "fault"),
    [
        ("CapEff", "0000000000000001", "capabilities", "CapEff is 0000000000000001"),
        ("CapBnd", "000001ffffffffff", "capabilities", "CapBnd is 000001ffffffffff"),
        ("NoNewPrivs", "0", "no-new-privileges", "NoNewPrivs is 0"),
        ("Seccomp", "0", "seccomp", "Seccomp is 0: system calls are not filtered"),
        ("Seccomp", "1", "seccomp", "Seccomp is 1: system calls are not filtered"),
    ],
)
def test_each_privilege_that_is_left_is_a_finding_of_one_test(
    monkeypatch: pytest.MonkeyPatch, key: str, value: str, name: str, fault: str
) -> None:
    assert results(monkeypatch, {**CLEAN, key: value}) == {name: fault}


def test_a_status_that_cannot_be_read_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(results(monkeypatch, {})) == set(STATUS_TESTS)


@pytest.mark.parametrize(
    ("uids", "gids", "has_fault"),
    [
        ((5, 5, 5), (5, 5, 5), False),
        ((0, 0, 0), (5, 5, 5), True),
        ((5, 5, 0), (5, 5, 5), True),
        ((5, 5, 5), (5, 0, 5), True),
        ((5, 6, 5), (5, 5, 5), True),
    ],
)
def test_all_ids_must_be_one_user_other_than_root(
    monkeypatch: pytest.MonkeyPatch,
    uids: tuple[int, int, int],
    gids: tuple[int, int, int],
    has_fault: bool,
) -> None:
    monkeypatch.setattr(os, "getresuid", lambda: uids)
    monkeypatch.setattr(os, "getresgid", lambda: gids)
    assert bool(attempt("user")) is has_fault


@pytest.mark.parametrize(
    ("groups", "fault"), [([], ""), ([5], ""), ([5, 999], "it is in the groups [999]")]
)
def test_only_the_own_group_is_allowed(
    monkeypatch: pytest.MonkeyPatch, groups: list[int], fault: str
) -> None:
    monkeypatch.setattr(os, "getgid", lambda: 5)
    monkeypatch.setattr(os, "getgroups", lambda: groups)
    assert attempt("groups") == fault


def test_every_change_of_the_user_is_reported() -> None:
    """Root can become any user, other users cannot."""
    result = attempt_in_child("become-another")
    assert result.startswith("it could setgroups 0, setgid 0, ") if os.getuid() == 0 else not result
