"""The restrictions of a worker: those that the kernel supports and needs."""

from __future__ import annotations

import pytest

from storlet_daemon import confinement, descriptor_filter
from storlet_daemon.confinement import Confinement


@pytest.mark.parametrize(
    ("can_refuse", "is_wanted", "expected"),
    [(True, False, False), (True, True, True), (False, False, True)],
)
def test_descriptors_are_confined_where_sockets_cannot_refuse_them(
    monkeypatch: pytest.MonkeyPatch, *, can_refuse: bool, is_wanted: bool, expected: bool
) -> None:
    monkeypatch.setattr(confinement.kernel, "can_refuse_descriptors", lambda: can_refuse)
    monkeypatch.setattr(confinement.landlock, "interface", lambda: 5)
    assert Confinement.of_this_kernel(descriptors=is_wanted) == Confinement(5, expected)


def test_landlock_comes_before_the_filter_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(confinement.landlock, "separate", lambda *given: calls.append(given))
    monkeypatch.setattr(descriptor_filter, "confine", lambda _: calls.append("filter") or 99)
    assert Confinement(7, descriptors=False).apply(4) == 4
    assert Confinement(7, descriptors=True).apply(4) == 99
    assert calls == [(7, "", ""), (7, "", ""), "filter"]


def test_a_worker_moves_into_the_folder_of_its_group_and_can_use_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[object] = []
    monkeypatch.setattr(confinement.homes, "move_in", calls.append)
    monkeypatch.setattr(confinement.landlock, "separate", lambda *given: calls.append(given))
    Confinement(7, homes="/homes").of_group("v1").apply(4)
    assert calls == ["/homes/v1", (7, "/homes", "/homes/v1")]
    assert Confinement(7).of_group("v1") == Confinement(7), "outside of a sandbox"
