"""uids: persistent, never shared, never the host's."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.errors import IdentityFault
from storlet_middleware.sandboxd.identity import Identities, UidRange
from tests.support.forks import FORKS

FIRST = 3_000_000_000


def identities(path: Path, first: int = FIRST, count: int = 100) -> Identities:
    return Identities(path, path / "claims", UidRange(first, count))


def allot(path: str, name: str) -> int:
    return identities(Path(path)).identity(name, "user").uid


def test_the_same_tenant_keeps_its_uid_over_restarts(tmp_path: Path) -> None:
    first = identities(tmp_path).identity("AUTH_a", "user")
    other = identities(tmp_path).identity("AUTH_b", "user")
    assert (first.uid, first.gid, other.uid) == (FIRST, FIRST, FIRST + 1)
    assert identities(tmp_path).identity("AUTH_a", "user") == first


def test_another_trust_class_has_another_uid(tmp_path: Path) -> None:
    uids = identities(tmp_path)
    assert uids.identity("AUTH_a", "user").uid != uids.identity("AUTH_a", "admin").uid


def test_a_uid_of_a_forgotten_tenant_is_not_given_again_while_a_later_one_is_known(
    tmp_path: Path,
) -> None:
    for account in "abc":
        identities(tmp_path).identity(account, "user")
    path = tmp_path / "identities.json"
    data = json.loads(path.read_text())
    del data["identities"][1]
    path.write_text(json.dumps(data))
    assert identities(tmp_path).identity("d", "user").uid == FIRST + 3


def test_a_uid_of_the_host_is_skipped(tmp_path: Path) -> None:
    taken = next(user.pw_uid for user in pwd.getpwall() if user.pw_uid > 0)
    uid = identities(tmp_path, taken, 200).identity("a", "user").uid
    assert uid != taken
    with pytest.raises(KeyError):
        pwd.getpwuid(uid)


def test_an_exhausted_range_names_the_option_to_raise(tmp_path: Path) -> None:
    uids = identities(tmp_path, count=2)
    uids.identity("a", "user")
    uids.identity("b", "user")
    with pytest.raises(IdentityFault, match="uid_count"):
        uids.identity("c", "user")
    assert uids.identity("a", "user").uid == FIRST


def test_a_range_that_moved_keeps_old_uids_and_gives_new_ones_from_the_new_range(
    tmp_path: Path,
) -> None:
    identities(tmp_path).identity("a", "user")
    moved = identities(tmp_path, FIRST + 500)
    assert moved.identity("a", "user").uid == FIRST
    assert moved.identity("b", "user").uid == FIRST + 500


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version":2,"identities":[]}', '{"version":1,"identities":[{"account":"a"}]}',
             '{"version":1,"identities":[{"account":"a","class":"user","uid":5},{"account":"b","class":"user","uid":5}]}']
)  # fmt: skip
def test_a_damaged_file_stops_allotment_instead_of_starting_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "identities.json").write_text(text)
    with pytest.raises(IdentityFault, match="damaged"):
        identities(tmp_path).identity("b", "user")
    with pytest.raises(IdentityFault, match="damaged"):
        identities(tmp_path).check()
    assert (tmp_path / "identities.json").read_text() == text


@pytest.mark.parametrize(("first", "count"), [(0, 10), (2**32 - 5, 10)])
def test_a_range_with_root_or_the_overflow_user_is_refused(
    tmp_path: Path, first: int, count: int
) -> None:
    with pytest.raises(IdentityFault, match="uid_first"):
        identities(tmp_path, first, count).check()


def test_the_file_is_root_s_alone(tmp_path: Path) -> None:
    identities(tmp_path).identity("a", "user")
    assert (tmp_path / "identities.json").stat().st_mode & 0o777 == 0o600


def node(path: Path, name: str, first: int = FIRST, count: int = 100) -> Identities:
    """One of several nodes of a machine."""
    (path / name).mkdir(exist_ok=True)
    return Identities(path / name, path / "claims", UidRange(first, count))


def test_two_nodes_of_a_machine_that_share_a_range_give_no_uid_twice(tmp_path: Path) -> None:
    uids = [
        node(tmp_path, name).identity(f"AUTH_{number}", "user").uid
        for number in range(5)
        for name in ("one", "two")
    ]
    assert len(set(uids)) == 10
    node(tmp_path, "one").check()
    node(tmp_path, "two").check()


def test_a_uid_that_two_nodes_allotted_before_claims_existed_is_reported(tmp_path: Path) -> None:
    Identities(tmp_path, tmp_path / "own claims", UidRange(FIRST, 10)).identity("AUTH_a", "user")
    node(tmp_path, "two").identity("AUTH_b", "user")
    with pytest.raises(IdentityFault, match=f"uid {FIRST} belongs to AUTH_a here.*{tmp_path}/two"):
        identities(tmp_path).check()


def test_a_node_whose_directory_moved_keeps_its_uids(tmp_path: Path) -> None:
    uid = node(tmp_path, "old").identity("AUTH_a", "user").uid
    (tmp_path / "old").rename(tmp_path / "new")
    node(tmp_path, "new").check()
    assert node(tmp_path, "new").identity("AUTH_a", "user").uid == uid


def test_uids_of_a_file_from_before_there_were_claims_are_claimed_at_the_start(
    tmp_path: Path,
) -> None:
    entries = [{"account": "AUTH_a", "class": "user", "uid": FIRST}]
    (tmp_path / "identities.json").write_text(json.dumps({"version": 1, "identities": entries}))
    identities(tmp_path).check()
    identities(tmp_path).check()
    assert node(tmp_path, "two").identity("AUTH_b", "user").uid == FIRST + 1


def allot_there(path: str, directory: str, name: str) -> int:
    return node(Path(path), directory).identity(name, "user").uid


def test_nodes_that_allot_at_once_never_give_a_uid_twice(tmp_path: Path) -> None:
    asks = [(str(tmp_path), f"node{number % 4}", f"AUTH_{number}") for number in range(40)]
    with FORKS.Pool(4) as pool:
        assert len(set(pool.starmap(allot_there, asks))) == 40


def test_processes_that_allot_at_once_never_give_a_uid_twice(tmp_path: Path) -> None:
    names = [f"AUTH_{number % 10}" for number in range(40)]
    with FORKS.Pool(4) as pool:
        uids = pool.starmap(allot, [(str(tmp_path), name) for name in names])
    by_name = dict(zip(names, uids, strict=True))
    assert len(set(by_name.values())) == 10
    assert all(by_name[name] == uid for name, uid in zip(names, uids, strict=True))


def test_a_restart_syncs_the_disk_once_for_any_number_of_tenants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        identities(tmp_path).identity(f"AUTH_{number}", "user")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    identities(tmp_path).check()
    assert len(synced) == 2  # identities.json and its directory
