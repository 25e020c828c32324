"""The client's logins with a real Keystone, and the plugin of the OpenStack client."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.client_package import installed, interpreters
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.keystone import Keystone, Owner, proxy_of, running_keystone

SAMPLE = CHECKOUT / "storlets/csv_filter"
OPENSTACK_CLIENT = "python-openstackclient==10.5.0"


@pytest.fixture(scope="module")
def keystone(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Keystone]:
    """A Keystone with one proxy of the cluster in its catalog."""
    home = tmp_path_factory.mktemp("keystone")
    with running_keystone(home) as started, proxy_of(cluster, started):
        yield started


@pytest.fixture
def owner(keystone: Keystone) -> Owner:
    return Owner.new(keystone)


@pytest.fixture(scope="module")
def place() -> Path:
    """An environment with the OpenStack client and ours."""
    return installed(list(interpreters().values())[-1], OPENSTACK_CLIENT)


def run(command: list[str | Path], variables: Mapping[str, str], code: int = 0) -> str:
    """Standard output; standard error for other exit codes than 0."""
    done = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def test_a_password_logs_in(place: Path, owner: Owner) -> None:
    storlet = place / "bin/storlet"
    run([storlet, "enable"], owner.variables)
    assert "FAIL" not in run([storlet, "doctor"], owner.variables)
    wrong = {**owner.variables, "OS_PASSWORD": "wrong"}
    assert "refuses" in run([storlet, "list"], wrong, code=3)


def test_an_application_credential_logs_in(place: Path, owner: Owner) -> None:
    credential, secret = owner.application_credential()
    variables = {
        "OS_AUTH_URL": owner.keystone.url,
        "OS_AUTH_TYPE": "v3applicationcredential",
        "OS_APPLICATION_CREDENTIAL_ID": credential,
        "OS_APPLICATION_CREDENTIAL_SECRET": secret,
    }
    storlet = place / "bin/storlet"
    run([storlet, "enable"], variables)
    assert "FAIL" not in run([storlet, "doctor"], variables)


def test_a_cloud_of_clouds_yaml_logs_in(place: Path, owner: Owner, tmp_path: Path) -> None:
    file = tmp_path / "clouds.yaml"
    file.write_text(
        f"""
clouds:
  mine:
    region_name: RegionOne
    auth:
      auth_url: {owner.keystone.url}
      username: {owner.user}
      password: {owner.password}
      project_name: {owner.project}
      user_domain_id: default
      project_domain_id: default
"""
    )
    variables = {"OS_CLIENT_CONFIG_FILE": str(file)}
    storlet = place / "bin/storlet"
    run([storlet, "--os-cloud", "mine", "enable"], variables)
    assert "mine" in run([storlet, "--os-cloud", "mein", "list"], variables, code=3)


def test_the_openstack_client_has_the_commands(place: Path, owner: Owner, tmp_path: Path) -> None:
    def openstack(*words: str, code: int = 0) -> str:
        return run([place / "bin/openstack", "storlet", *words], owner.variables, code)

    openstack("doctor", code=1)
    openstack("enable")
    openstack("doctor")
    openstack("deploy", str(SAMPLE / "csv_filter.py"), "--limit", "memory=128M")
    (row,) = json.loads(openstack("list", "-f", "json"))
    assert (row["Name"], row["Language"]) == ("csv_filter.py", "python")
    assert openstack("list", "-f", "value", "-c", "Main") == "csv_filter.CsvFilter\n"
    assert json.loads(openstack("show", "csv_filter.py", "-f", "json"))["language"] == "python"
    openstack("upload", str(SAMPLE / "input.csv"), "samples/input.csv")
    run_it = ("invoke", "csv_filter.py", "samples/input.csv", "-p", "columns=station")
    assert openstack(*run_it).splitlines()[:2] == ["station", "Basel"]
    openstack("grant", "create", "samples", "someone", "csv_filter.py")
    assert json.loads(openstack("grant", "list", "samples", "-f", "json"))[0]["User"] == "someone"
    openstack("grant", "delete", "samples", "someone", "csv_filter.py")
    assert json.loads(openstack("grant", "list", "samples", "-f", "json")) == []
    assert json.loads(openstack("run", "list", "--since", "1m", "-f", "json")) == []
    target = tmp_path / "saved.py"
    openstack("save", "csv_filter.py", "-o", str(target))
    assert target.read_bytes() == (SAMPLE / "csv_filter.py").read_bytes()
    assert "no storlet nosuch" in openstack("delete", "nosuch", code=1)
    assert "write" in openstack("run", "list", "--since", "yesterday", code=1)
    openstack("delete", "csv_filter.py")
    assert json.loads(openstack("list", "-f", "json")) == []
