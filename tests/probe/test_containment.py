"""A storlet cannot see or change the network, the host, the object file or other tenants."""

from __future__ import annotations

import json
import pwd
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.host import Host
from tests.support.tenant import Tenant

#: Attempts that the kernel itself must refuse with any arguments.
REFUSED_CALLS = ("unshare", "mount", "ptrace", "bpf", "keyctl", "open_by_handle_at")
REFUSALS = ("Operation not permitted", "Function not implemented", "Permission denied")


@pytest.fixture(scope="module", params=["object", "proxy"])
def seen(request: pytest.FixtureRequest, tenant: Tenant, cluster: Cluster) -> dict[str, Any]:
    """The storlet's report, with the object's file as its input and with a pipe."""
    answer = tenant.tool(request.param).get(
        tenant.path, "look", port=str(cluster.process("proxy").port)
    )
    assert answer.status == 200, answer
    found: dict[str, Any] = json.loads(answer.body)
    assert found["input_is_file"] == (request.param == "object")
    return found


def test_no_escape_attempt_succeeds(seen: dict[str, Any]) -> None:
    got = {
        key: value
        for key, value in seen.items()
        if isinstance(value, str) and value.startswith("got")
    }
    assert got == {}


def test_dangerous_system_calls_are_refused(seen: dict[str, Any]) -> None:
    for name in REFUSED_CALLS:
        assert any(refusal in seen[name] for refusal in REFUSALS), f"{name}: {seen[name]}"


def test_a_storlet_runs_with_a_uid_unknown_to_the_host(seen: dict[str, Any]) -> None:
    known = {user.pw_uid for user in pwd.getpwall()} | {user.pw_gid for user in pwd.getpwall()}
    assert not known & set(seen["uid"])
    assert len(set(seen["uid"])) == 1


def test_a_storlet_has_no_privilege(seen: dict[str, Any]) -> None:
    assert {int(mask, 16) for mask in seen["capabilities"]} == {0}
    assert seen["no_new_privileges"] == "1"
    assert seen["seccomp"] == "2"
    assert seen["setuid"] == []


def test_a_storlet_sees_no_network_and_no_sockets_of_other_processes(seen: dict[str, Any]) -> None:
    assert seen["interfaces"] in ([], ["lo"])
    # The only socket is process 1's connection to sandboxd.
    assert [path for path in seen["unix_sockets"] if "/run/c/" not in path] == []


def test_a_storlet_has_only_the_descriptors_of_its_invocation(seen: dict[str, Any]) -> None:
    for link in seen["descriptors"]:
        kind = link.partition(":")[0]
        assert (
            kind in ("socket", "pipe", "anon_inode", "/memfd")
            or link == "/dev/null"
            or link.endswith(".data")
        ), link


def test_the_environment_of_a_storlet_reveals_nothing(seen: dict[str, Any]) -> None:
    assert seen["processes"] < 30
    assert not [
        name
        for name in seen["environment"]
        if "SWIFT" in name or "STORLETS" in name or "DOCKER" in name
    ]


def test_the_object_is_unchanged(tenant: Tenant, seen: dict[str, Any]) -> None:
    assert tenant.client.get(tenant.path).body == tenant.content
    assert tenant.client.head(tenant.path).status == 200


def test_the_docker_container_matches_the_hardening_checklist(host: Host, tenant: Tenant) -> None:
    assert tenant.is_well()
    made = host.inspect(host.sandbox(tenant.account).container)
    config = made["HostConfig"]
    assert config["NetworkMode"] == "none"
    assert config["ReadonlyRootfs"] is True
    assert config["CapDrop"] == ["ALL"]
    assert not config["CapAdd"]
    assert config["Privileged"] is False
    assert [option.partition("=")[0] for option in config["SecurityOpt"]] == [
        "no-new-privileges",
        "seccomp",
    ]
    assert config["PidsLimit"] > 0
    assert config["Memory"] > 0
    assert config["PidMode"] == ""
    assert not config["Devices"]
    assert sorted((mount["Destination"], mount["RW"]) for mount in made["Mounts"]) == [
        ("/run/storlets", False),
        ("/var/lib/storlets", False),
    ]
    assert config["LogConfig"]["Type"] == "none"


PLANTER = b"""
import os, pathlib, sys

class Planter:
    def __init__(self, logger): pass

    def __call__(self, ins, outs, params):
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = f".local/lib/{version}/site-packages"
        homes = {"/tmp", *(f"/homes/{name}" for name in os.listdir("/homes"))}
        code = "print('planted')"
        for home in homes - {os.environ["HOME"]}:
            for path in ("colorsys.py", f"{site}/usercustomize.py", f"{site}/colorsys.py"):
                try:
                    pathlib.Path(home, path).parent.mkdir(parents=True, exist_ok=True)
                    pathlib.Path(home, path).write_text(code)
                except OSError:
                    pass
        outs[0].write(" ".join(sorted(homes)).encode())
"""
VICTIM = b"""
import json, os, subprocess, sys, tempfile

class Victim:
    def __init__(self, logger): pass

    def __call__(self, ins, outs, params):
        child = "import colorsys, os; print(os.getcwd())"
        command = ["/usr/bin/python3", "-c", child]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        places = [os.environ["HOME"], os.environ["TMPDIR"], os.getcwd(), tempfile.gettempdir()]
        open("/tmp/still-usable", "w").close()
        outs[0].write(json.dumps([said.split(), places]).encode())
"""


def test_files_that_a_storlet_plants_never_run_in_another_storlets_child(fresh: Tenant) -> None:
    fresh.upload("planter.py", PLANTER, "Planter")
    fresh.upload("victim.py", VICTIM, "Victim")

    def look() -> tuple[list[str], set[str]]:
        answer = fresh.tool(storlet="victim.py").get(fresh.path)
        assert answer.status == 200, answer
        said, places = json.loads(answer.body)
        return said, set(places)

    said, places = look()
    (home,) = places
    assert home.startswith("/homes/")
    answer = fresh.tool(storlet="planter.py").get(fresh.path)
    assert answer.status == 200, answer
    assert home in answer.text.split()
    assert look() == (said, places) == ([home], {home})
