"""The table of Docker arguments: each row is there, and says against what."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Any

import pytest

from storlet_middleware.config import Mount
from storlet_middleware.sandboxd import hardening, seccomp
from tests.attack import sharing
from tests.attack.table import TABLE

FACTS = hardening.SandboxFacts(
    image_id="sha256:1", uid=200000, gid=200000, control_dir="/run/storlets/c/k", code_dir="/var/lib/storlets/code/t",
    runtime="runc", memory_bytes=1 << 30, cpus=0.5, pids=64, open_files=256, scratch_bytes=1 << 20,
    cgroup_parent="/storlets-unit",
)  # fmt: skip
HOST = {
    "MemoryLimit": True, "SwapLimit": True, "PidsLimit": True, "CpuCfsQuota": True, hardening.CGROUPS_IN_SIGHT: True,
}  # fmt: skip


def value(body: dict[str, Any], path: str) -> Any:
    for part in path.split("."):
        body = body[part]
    return body


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("User", "200000:200000"),
        ("Entrypoint", list(hardening.COMMAND)),
        ("NetworkDisabled", True),
        ("HostConfig.NetworkMode", "none"),
        ("HostConfig.CapDrop", ["ALL"]),
        (
            "HostConfig.SecurityOpt",
            ["no-new-privileges", f"seccomp={seccomp.profile(has_network=False)}"],
        ),
        ("HostConfig.CgroupParent", "/storlets-unit"),
        ("HostConfig.Privileged", False),
        ("HostConfig.ReadonlyRootfs", True),
        ("HostConfig.PidsLimit", 64),
        ("HostConfig.Memory", 1 << 30),
        ("HostConfig.MemorySwap", 1 << 30),
        ("HostConfig.NanoCpus", 500_000_000),
        ("HostConfig.IpcMode", "private"),
        ("HostConfig.CgroupnsMode", "private"),
        ("HostConfig.LogConfig", {"Type": "none"}),
        ("HostConfig.RestartPolicy", {"Name": "no"}),
        ("HostConfig.Init", False),
        ("HostConfig.OomScoreAdj", 500),
        ("HostConfig.Runtime", "runc"),
    ],
)
def test_argument(path: str, expected: object) -> None:
    assert value(hardening.container_arguments(FACTS, HOST), path) == expected


def test_every_row_names_its_threat() -> None:
    assert all(len(row.against) > 10 for row in hardening.TABLE)


def test_two_rows_of_one_argument_are_lists_that_add_up() -> None:
    paths = [row.path for row in hardening.TABLE]
    twice = {path for path in paths if paths.count(path) > 1}
    assert all(isinstance(row.value(FACTS), list) for row in hardening.TABLE if row.path in twice)


def test_every_mount_is_read_only_and_ours() -> None:
    mounts = value(hardening.container_arguments(FACTS, HOST), "HostConfig.Mounts")
    assert [(m["Source"], m["Target"]) for m in mounts] == [
        ("/run/storlets/c/k", "/run/storlets"), ("/var/lib/storlets/code/t", "/var/lib/storlets"),
    ]  # fmt: skip
    assert all(m["ReadOnly"] is True for m in mounts)


def test_nothing_adds_a_privilege() -> None:
    host = hardening.container_arguments(FACTS, HOST)["HostConfig"]
    assert not {
        "CapAdd",
        "Devices",
        "Binds",
        "VolumesFrom",
        "GroupAdd",
        "PortBindings",
        "Links",
    } & set(host)
    assert not any("unconfined" in option for option in host["SecurityOpt"])


def test_a_class_sees_the_mounts_and_the_network_that_its_operator_names() -> None:
    mounts = (
        Mount("/srv/models", "/models", is_writable=False),
        Mount("/srv/out", "/out", is_writable=True),
    )
    body = hardening.container_arguments(
        dataclasses.replace(FACTS, mounts=mounts, network="storage"), HOST
    )
    seen = {m["Target"]: (m["Source"], m["ReadOnly"]) for m in value(body, "HostConfig.Mounts")}
    assert seen["/models"] == ("/srv/models", True)
    assert seen["/out"] == ("/srv/out", False)
    assert (body["HostConfig"]["NetworkMode"], body["NetworkDisabled"]) == ("storage", False)
    wanted = seccomp.profile(has_network=True, writes_on_host=True)
    assert f"seccomp={wanted}" in body["HostConfig"]["SecurityOpt"]


def test_a_class_has_locks_of_files_if_its_operator_allows_them() -> None:
    facts = dataclasses.replace(FACTS, has_file_locks=True)
    body = hardening.container_arguments(facts, HOST)
    wanted = seccomp.profile(has_network=False, has_file_locks=True)
    assert f"seccomp={wanted}" in body["HostConfig"]["SecurityOpt"]


def test_a_pre_warmed_sandbox_differs_only_in_the_privileges_for_its_assignment() -> None:
    spare = dataclasses.replace(FACTS, uid=0, gid=0, code_dir=None, is_spare=True)
    body, usual = (hardening.container_arguments(facts, HOST) for facts in (spare, FACTS))
    assert body["User"] == "0:0"
    assert body["HostConfig"].pop("CapAdd") == ["SETGID", "SETPCAP", "SETUID"]
    assert body["HostConfig"]["CapDrop"] == ["ALL"]
    assert [m["Target"] for m in body["HostConfig"]["Mounts"]] == ["/run/storlets"]
    assert "mode=1777" in body["HostConfig"]["Tmpfs"]["/tmp"]
    assert {key for key in usual if body[key] != usual[key]} == {"User", "HostConfig"}
    differing = {
        key for key, value in usual["HostConfig"].items() if body["HostConfig"][key] != value
    }
    assert differing == {"Tmpfs", "Mounts"}


def test_the_group_of_the_node_has_the_form_that_the_cgroup_driver_requires() -> None:
    assert hardening.cgroup_parent("node-1", {"CgroupDriver": "cgroupfs"}) == "/storlets-node-1"
    assert (
        hardening.cgroup_parent("node-1", {"CgroupDriver": "systemd"})
        == "storlets-node\\x2d1.slice"
    )


def test_the_scratch_has_a_size_an_inode_limit_and_no_devices() -> None:
    options = value(hardening.container_arguments(FACTS, HOST), "HostConfig.Tmpfs")["/tmp"].split(
        ","
    )
    assert {"nosuid", "nodev", "size=1048576", "nr_inodes=8192", "uid=200000", "mode=0700"} <= set(
        options
    )


def test_core_files_are_off_and_open_files_bounded() -> None:
    limits = {
        u["Name"]: u
        for u in value(hardening.container_arguments(FACTS, HOST), "HostConfig.Ulimits")
    }
    assert limits["core"] == {"Name": "core", "Soft": 0, "Hard": 0}
    assert limits["nofile"]["Hard"] == 256


def test_a_limit_that_the_host_cannot_enforce_is_left_out_and_named() -> None:
    host = {**HOST, "SwapLimit": False, "CpuCfsQuota": False}
    body = hardening.container_arguments(FACTS, host)
    assert not {"MemorySwap", "NanoCpus"} & set(body["HostConfig"])
    assert body["HostConfig"]["Memory"] == 1 << 30
    assert [row.path for row in hardening.missing(host)] == [
        "HostConfig.MemorySwap",
        "HostConfig.NanoCpus",
    ]


def test_no_cpu_quota_when_none_is_configured() -> None:
    body = hardening.container_arguments(dataclasses.replace(FACTS, cpus=0), HOST)
    assert "NanoCpus" not in body["HostConfig"]


@pytest.mark.parametrize(
    "change", [{"uid": 200001}, {"pids": 65}, {"image_id": "sha256:2"}, {"runtime": "runsc"}]
)
def test_the_hash_changes_with_every_fact(change: dict[str, Any]) -> None:
    one = hardening.container_arguments(FACTS, HOST)
    other = hardening.container_arguments(dataclasses.replace(FACTS, **change), HOST)
    assert hardening.arguments_hash(one) == hardening.arguments_hash(one)
    assert hardening.arguments_hash(one) != hardening.arguments_hash(other)


def test_each_named_attack_is_a_row_of_make_attack() -> None:
    names = {attack.name for attack in TABLE}
    named = [name for row in (*hardening.TABLE, *hardening.BEYOND) for name in row.attacks]
    assert named
    assert [name for name in named if name not in names] == []


def test_each_protection_beyond_docker_has_a_module_and_an_attack() -> None:
    for protection in hardening.BEYOND:
        assert importlib.util.find_spec(protection.module) is not None, protection
        assert protection.attacks, protection
    assert all(row.against for row in (*hardening.TABLE, *hardening.BEYOND))


def test_each_attack_through_shared_streams_is_against_a_protection() -> None:
    """Rows of ``sharing`` and of resource exhaustion that no limit of Docker's ends."""
    named = {name for row in (*hardening.TABLE, *hardening.BEYOND) for name in row.attacks}
    assert [attack.name for attack in sharing.ROWS if attack.name not in named] == []
