"""The rings: replicas on different zones, and an update that moves no data."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from swift.common.ring import RingBuilder

from storlet_middleware.aio import rings
from storlet_middleware.aio.home import Home


@pytest.fixture
def plan(place: Home) -> dict[str, Any]:
    place.real_conf.mkdir()
    return rings.plan(place)


def builder(plan: dict[str, Any], file: str = "object") -> RingBuilder:
    return RingBuilder.load(str(Path(plan["directory"]) / f"{file}.builder"))


def assignment(ring: RingBuilder) -> list[list[int]]:
    return [list(replica) for replica in ring._replica2part2dev]


def test_the_plan_is_json_and_names_a_server_of_the_cluster_for_each_disk(
    plan: dict[str, Any], place: Home
) -> None:
    assert json.loads(json.dumps(plan)) == plan
    assert [ring["file"] for ring in plan["rings"]] == list(rings.FILES)
    for ring in plan["rings"]:
        assert {device["device"] for device in ring["devices"]} == set(rings.DISKS)
        for device in ring["devices"]:
            names = {name for name, port in place.ports.items() if port == device["port"]}
            assert {name.partition("-")[0] for name in names} == {ring["file"].partition("-")[0]}


def test_every_partition_has_its_replicas_on_different_devices_of_all_zones(
    plan: dict[str, Any],
) -> None:
    rings.build(plan)
    ring = builder(plan)
    zones = {device["id"]: device["zone"] for device in ring.devs}
    for devices in zip(*assignment(ring), strict=True):
        assert len(set(devices)) == rings.REPLICAS
        assert {zones[device] for device in devices} == set(rings.DISKS.values())


def test_databases_may_have_fewer_replicas_and_objects_keep_theirs(
    plan: dict[str, Any], place: Home
) -> None:
    rings.build(rings.plan(place, rings.Replicas(databases=1)))
    found = {file: len(assignment(builder(plan, file))) for file in rings.FILES}
    assert found == {"account": 1, "container": 1, "object": 3, "object-1": 3}


def test_two_replicas_of_an_object_are_on_both_servers_and_fragments_keep_their_number(
    plan: dict[str, Any], place: Home
) -> None:
    rings.build(rings.plan(place, rings.Replicas(objects=2)))
    found = {file: len(assignment(builder(plan, file))) for file in rings.FILES}
    assert found == {"account": 3, "container": 3, "object": 2, "object-1": 3}
    ring = builder(plan)
    zones = {device["id"]: device["zone"] for device in ring.devs}
    for devices in zip(*assignment(ring), strict=True):
        assert {zones[device] for device in devices} == set(rings.DISKS.values())


def test_new_ports_keep_every_partition_on_its_disk(plan: dict[str, Any], place: Home) -> None:
    rings.build(plan)
    before = assignment(builder(plan))
    moved = {**place.ports, "object-1": 1111, "object-2": 2222}
    rings.build(rings.plan(dataclasses.replace(place, ports=moved)))
    after = builder(plan)
    assert assignment(after) == before
    ports = {
        device["device"]: (device["port"], device["replication_port"]) for device in after.devs
    }
    assert ports == {name: (1111, 1111) if node == 1 else (2222, 2222)
                     for name, node in rings.DISKS.items()}  # fmt: skip


def test_the_files_are_whole_and_every_server_can_read_them(plan: dict[str, Any]) -> None:
    rings.build(plan)
    files = {path.name: path for path in Path(plan["directory"]).iterdir() if path.is_file()}
    for name in rings.FILES:
        assert files[f"{name}.ring.gz"].stat().st_mode & 0o777 == 0o644
        assert f"{name}.builder" in files
    assert not [name for name in files if name.startswith(".")]
