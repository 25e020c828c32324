"""Where a cluster lives: identity, ports and short names."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from storlet_middleware.aio import home
from storlet_middleware.aio.progress import AioError


def environment(path: Path, **more: str) -> dict[str, str]:
    return {"STORLETS_HOME": str(path), **more}


def test_a_home_keeps_its_identity_and_its_ports(tmp_path: Path) -> None:
    first = home.open_home(environment(tmp_path / "h"))
    assert home.open_home(environment(tmp_path / "h")) == first
    assert home.find_home(environment(tmp_path / "h")) == first


def test_find_home_makes_no_home(tmp_path: Path) -> None:
    assert home.find_home(environment(tmp_path / "none")) is None
    assert not (tmp_path / "none").exists()


def test_a_copied_home_is_another_cluster(tmp_path: Path) -> None:
    first = home.open_home(environment(tmp_path / "a"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b/settings.json").write_text((tmp_path / "a/settings.json").read_text())
    assert home.find_home(environment(tmp_path / "b")) is None
    assert home.open_home(environment(tmp_path / "b")).node_id != first.node_id


def test_a_taken_port_is_replaced_except_the_proxys(tmp_path: Path) -> None:
    place = home.open_home(environment(tmp_path, STORLETS_PORT="0"))
    for name, outcome in (("object-1", "moved"), ("proxy", "refused")):
        with socket.socket() as taker:
            taker.bind(("127.0.0.1", place.ports[name]))
            taker.listen()
            if outcome == "refused":
                with pytest.raises(AioError, match="STORLETS_PORT"):
                    home.replace_taken_ports(place, busy=())
            else:
                assert home.replace_taken_ports(place, busy=()).ports[name] != place.ports[name]
                assert (
                    home.replace_taken_ports(place, busy=[name]).ports
                    == home.find_home(environment(tmp_path)).ports
                )  # type: ignore[union-attr]
                place = home.open_home(environment(tmp_path))


@pytest.mark.parametrize(
    ("path", "needed"),
    [
        ("/srv/storlets", False),
        ("/srv/a b", True),
        ("/srv/" + "d" * 60, True),
        ("/srv/ü-is-fine", False),
        ("/srv/a'b", True),
        ("/srv/storlets_1", False),
    ],
)
def test_some_paths_need_a_mount(path: str, needed: bool) -> None:
    assert home.needs_mount(Path(path)) is needed


def test_a_closed_directory_above_needs_a_mount(tmp_path: Path) -> None:
    closed = Path("/var/tmp") / f"closed-{tmp_path.name}"
    closed.mkdir(mode=0o700)
    try:
        assert home.needs_mount(closed / "x")
    finally:
        closed.rmdir()


def test_sockets_stay_short_however_deep_the_home_is(tmp_path: Path) -> None:
    deep = tmp_path / "a b" / ("d" * 80)
    place = home.open_home(environment(deep))
    longest = place.run / "s" / ("f" * 16) / f"{'e' * 24}.sock"
    assert len(bytes(longest)) < 107
    assert place.root == place.short / "home"
    assert place.conf == place.root / "etc"
    assert place.mounts == {place.root: deep}


def test_a_configuration_elsewhere_gets_a_mount_of_its_own(tmp_path: Path) -> None:
    place = home.open_home(environment(tmp_path / "a b", STORLETS_CONF=str(tmp_path / "c d")))
    assert place.mounts == {
        place.short / "home": tmp_path / "a b",
        place.short / "etc": tmp_path / "c d",
    }


def test_the_lock_holder_is_known_only_while_the_lock_is_held(tmp_path: Path) -> None:
    place = home.open_home(environment(tmp_path))
    assert home.lock_holder(place) is None
    with home.locked(place):
        assert home.lock_holder(place) is not None
    assert home.lock_holder(place) is None


def test_a_file_system_without_attributes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(home.os, "setxattr", refuse)
    with pytest.raises(AioError, match="extended attributes"):
        home.check_xattrs(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_remembered_choice_holds_until_another_one(tmp_path: Path) -> None:
    place = home.open_home(environment(tmp_path))
    assert home.remembered(place, "STORLETS_ENCRYPTION", {}) == ""
    assert home.remembered(place, "STORLETS_ENCRYPTION", {"STORLETS_ENCRYPTION": "1"}) == "1"
    assert home.remembered(home.open_home(environment(tmp_path)), "STORLETS_ENCRYPTION", {}) == "1"
    assert home.remembered(place, "STORLETS_ENCRYPTION", {"STORLETS_ENCRYPTION": "0"}) == "0"
