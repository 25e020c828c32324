"""``settings.json``: the identity of a cluster, which is never replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from storlet_middleware.aio import home, settings
from storlet_middleware.aio.progress import AioError


def environment(path: Path, **more: str) -> dict[str, str]:
    return {"STORLETS_HOME": str(path), **more}


@pytest.mark.parametrize("damage", ["", '{"path": ', "[]", "{}", '{"node_id": 7}', "\udcff"])
def test_a_damaged_identity_is_an_error_and_never_replaced(tmp_path: Path, damage: str) -> None:
    # A free port, because a taken one would be reported first.
    place = home.open_home(environment(tmp_path, STORLETS_PORT="0"))
    file = tmp_path / "settings.json"
    sound, damaged = file.read_bytes(), os.fsencode(damage)
    file.write_bytes(damaged)
    for find in (home.open_home, home.find_home):
        with pytest.raises(AioError, match=rf"{file}.*Restore it from a backup"):
            find(environment(tmp_path))
    for change in (
        lambda: home.remembered(place, "X", {}),
        lambda: home.replace_taken_ports(place, ()),
    ):
        with pytest.raises(AioError, match=str(file)):
            change()
    assert home.exists(place)
    assert file.read_bytes() == damaged
    file.unlink()
    with pytest.raises(AioError, match="does not exist any more"):
        home.remembered(place, "X", {})
    assert not file.exists()
    assert not home.exists(place)
    file.write_bytes(sound)
    assert home.open_home(environment(tmp_path)) == place


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path,
) -> None:
    settings.write_json(tmp_path / "x.json", {"a": 1})
    with pytest.raises(TypeError):
        settings.write_json(tmp_path / "x.json", {"a": object()})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_write_replaces_the_whole_file(tmp_path: Path) -> None:
    settings.write_json(tmp_path / "x.json", {"a": 1})
    settings.write_json(tmp_path / "x.json", {"a": 2})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_two_new_clusters_share_no_identity(tmp_path: Path) -> None:
    one, other = settings.new(tmp_path), settings.new(tmp_path)
    for key in ("node_id", "hash_suffix"):
        assert one[key] != other[key]
    for made in (one, other):
        assert made["uid_first"] % settings.UIDS_PER_CLUSTER == 0
        assert made["uid_first"] >= 1_000_000


def test_a_change_keeps_the_other_settings_and_needs_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(AioError, match="does not exist any more"):
        settings.change(tmp_path, {"ports": {"proxy": 1}})
    assert settings.read(tmp_path) == {}
    made = settings.new(tmp_path)
    settings.write(tmp_path, made)
    settings.change(tmp_path, {"ports": {"proxy": 1}})
    assert settings.read(tmp_path) == {**made, "ports": {"proxy": 1}}


@pytest.mark.parametrize("key", ["path", "node_id", "uid_first", "hash_suffix", "ports"])
def test_a_missing_setting_is_named(tmp_path: Path, key: str) -> None:
    made = settings.new(tmp_path)
    del made[key]
    settings.write(tmp_path, made)
    with pytest.raises(AioError, match=f"missing or invalid: {key}\\."):
        settings.read(tmp_path)
