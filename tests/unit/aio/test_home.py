"""Where a cluster lives: identity, ports and short names."""

from __future__ import annotations

import json
import os
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


def test_looking_for_a_home_makes_none(tmp_path: Path) -> None:
    assert home.find_home(environment(tmp_path / "none")) is None
    assert not (tmp_path / "none").exists()


def test_a_copied_home_is_another_cluster(tmp_path: Path) -> None:
    first = home.open_home(environment(tmp_path / "a"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b/settings.json").write_text((tmp_path / "a/settings.json").read_text())
    assert home.find_home(environment(tmp_path / "b")) is None
    assert home.open_home(environment(tmp_path / "b")).node_id != first.node_id


@pytest.mark.parametrize("damage", ["", '{"path": ', "[]", "{}", '{"node_id": 7}', "\udcff"])
def test_a_cluster_whose_identity_is_damaged_is_not_replaced_by_a_new_one(
    tmp_path: Path, damage: str
) -> None:
    place = home.open_home(environment(tmp_path))
    settings = tmp_path / "settings.json"
    sound, damaged = settings.read_bytes(), os.fsencode(damage)
    settings.write_bytes(damaged)
    for ask in (home.open_home, home.find_home):
        with pytest.raises(AioError, match=rf"{settings}.*put back what it was"):
            ask(environment(tmp_path))
    for change in (
        lambda: home.remembered(place, "X", {}),
        lambda: home.replace_taken_ports(place, ()),
    ):
        with pytest.raises(AioError, match=str(settings)):
            change()
    assert home.is_still(place)
    assert settings.read_bytes() == damaged
    settings.unlink()
    with pytest.raises(AioError, match="it is gone"):
        home.remembered(place, "X", {})
    assert not settings.exists()
    assert not home.is_still(place)
    settings.write_bytes(sound)
    assert home.open_home(environment(tmp_path)) == place


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one_and_no_other(
    tmp_path: Path,
) -> None:
    home.write_json(tmp_path / "x.json", {"a": 1})
    with pytest.raises(TypeError):
        home.write_json(tmp_path / "x.json", {"a": object()})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_ports_are_different_and_outside_the_ephemeral_range(tmp_path: Path) -> None:
    ports = home.open_home(environment(tmp_path, STORLETS_PORT="0")).ports
    assert set(ports) == set(home.SERVERS)
    assert len(set(ports.values())) == len(ports)
    assert all(port in home.FREE_PORTS for port in ports.values())


def test_the_proxy_moves_with_its_variable_and_the_others_stay(tmp_path: Path) -> None:
    before = home.open_home(environment(tmp_path)).ports
    after = home.open_home(environment(tmp_path, STORLETS_PORT="9191")).ports
    assert before["proxy"] == home.DEFAULT_PORT
    assert after == {**before, "proxy": 9191}


@pytest.mark.parametrize("port", ["eighty", "-1", "65536", "80 80"])
def test_a_port_that_is_none_is_refused(tmp_path: Path, port: str) -> None:
    with pytest.raises(AioError, match="STORLETS_PORT"):
        home.open_home(environment(tmp_path, STORLETS_PORT=port))


def test_a_port_that_somebody_took_is_replaced_but_never_the_proxys(tmp_path: Path) -> None:
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
def test_which_names_need_a_mount(path: str, needed: bool) -> None:
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


def test_who_holds_the_lock_is_known_only_while_it_is_held(tmp_path: Path) -> None:
    place = home.open_home(environment(tmp_path))
    assert home.lock_holder(place) is None
    with home.locked(place):
        assert home.lock_holder(place) is not None
    assert home.lock_holder(place) is None


def test_json_is_replaced_whole(tmp_path: Path) -> None:
    home.write_json(tmp_path / "x.json", {"a": 1})
    home.write_json(tmp_path / "x.json", {"a": 2})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_file_system_without_attributes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(home.os, "setxattr", refuse)
    with pytest.raises(AioError, match="extended attributes"):
        home.check_xattrs(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_choice_that_belongs_to_the_data_is_remembered(tmp_path: Path) -> None:
    place = home.open_home(environment(tmp_path))
    assert home.remembered(place, "STORLETS_ENCRYPTION", {}) == ""
    assert home.remembered(place, "STORLETS_ENCRYPTION", {"STORLETS_ENCRYPTION": "1"}) == "1"
    assert home.remembered(home.open_home(environment(tmp_path)), "STORLETS_ENCRYPTION", {}) == "1"
    assert home.remembered(place, "STORLETS_ENCRYPTION", {"STORLETS_ENCRYPTION": "0"}) == "0"
