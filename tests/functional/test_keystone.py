"""With a real Keystone: the client's logins, the plugin of the OpenStack client, and S3 requests
signed with EC2 credentials.
"""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.functional.s3 import Signer
from tests.functional.test_services import ask, outcomes, upload
from tests.support.accounts import prepare_account
from tests.support.client_package import interpreters, layered
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.forking import Commands, commands_of
from tests.support.http import Client
from tests.support.keystone import Keystone, Owner, proxy_of, running_keystone
from tests.support.proxies import OtherProxy
from tests.support.storlets import Tool, Toolbox

SAMPLE = CHECKOUT / "storlets/csv_filter"
OPENSTACK_CLIENT = "python-openstackclient==10.5.0"
_PACKAGE = tomllib.loads((CHECKOUT / "storlet_client/pyproject.toml").read_text(encoding="utf-8"))
#: The commands of the plugin, each as its words after ``openstack storlet``.
NAMES = [
    point.split("_")[1:] for point in _PACKAGE["project"]["entry-points"]["openstack.storlet.v1"]
]


CONTENT, SECRET = b"what was signed for", b"the secret of another object"
SIGNED, OTHER = "bucket/signed", "bucket/secret"


@dataclass(frozen=True)
class Service:
    """A Keystone with one proxy of the cluster in its catalog."""

    keystone: Keystone
    proxy: OtherProxy


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("keystone")
    with running_keystone(home) as started, proxy_of(cluster, started) as proxy:
        yield Service(started, proxy)


@pytest.fixture
def owner(service: Service) -> Owner:
    return Owner.new(service.keystone)


@pytest.fixture(scope="module")
def place() -> Path:
    """An environment with the OpenStack client and ours."""
    return layered(list(interpreters().values())[-1], OPENSTACK_CLIENT)


@pytest.fixture(scope="module")
def storlet(place: Path) -> Iterator[Commands]:
    with commands_of(place, "storlet", "storlet_client.cli.main") as commands:
        yield commands


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


def test_a_password_logs_in(storlet: Commands, owner: Owner) -> None:
    storlet.run(["enable"], owner.variables)
    assert "FAIL" not in storlet.run(["doctor"], owner.variables)
    wrong = {**owner.variables, "OS_PASSWORD": "wrong"}
    assert "refuses" in storlet.run(["list"], wrong, code=3)


def test_an_application_credential_logs_in(storlet: Commands, owner: Owner) -> None:
    credential, secret = owner.application_credential()
    variables = {
        "OS_AUTH_URL": owner.keystone.url,
        "OS_AUTH_TYPE": "v3applicationcredential",
        "OS_APPLICATION_CREDENTIAL_ID": credential,
        "OS_APPLICATION_CREDENTIAL_SECRET": secret,
    }
    storlet.run(["enable"], variables)
    assert "FAIL" not in storlet.run(["doctor"], variables)


def test_a_cloud_of_clouds_yaml_logs_in(storlet: Commands, owner: Owner, tmp_path: Path) -> None:
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
    storlet.run(["--os-cloud", "mine", "enable"], variables)
    assert "mine" in storlet.run(["--os-cloud", "mein", "list"], variables, code=3)


def test_the_openstack_client_has_the_commands(place: Path, owner: Owner, tmp_path: Path) -> None:
    run([place / "bin/openstack", "storlet", "doctor"], owner.variables, code=1)
    used = set()
    with commands_of(place, "openstack", "openstackclient.shell") as commands:

        def openstack(*words: str, code: int = 0) -> str:
            named = [each for each in NAMES if [*words[: len(each)]] == each]
            used.add(" ".join(max(named, key=len)))
            return commands.run(["storlet", *words], owner.variables, code)

        use_all_commands(openstack, tmp_path)
        use_local_commands(openstack, tmp_path)
    assert used == {" ".join(each) for each in NAMES}


def test_the_openstack_client_has_the_login_of_storlet(place: Path, cluster: Cluster) -> None:
    """The OpenStack client itself knows no ST_* variables."""
    user = "test:tester"
    variables = {
        "ST_AUTH": cluster.auth_url, "ST_USER": user, "ST_KEY": cluster.description["users"][user],
    }  # fmt: skip
    with commands_of(place, "openstack", "openstackclient.shell") as commands:
        commands.run(["storlet", "enable"], variables)
        commands.run(["storlet", "list", "-f", "json"], variables)
        assert "FAIL  cluster" not in commands.run(["storlet", "info", "show"], variables)
        wrong = {**variables, "ST_KEY": "wrong"}
        assert f"refuses {user}" in commands.run(["storlet", "list"], wrong, code=1)
        missing = {key: value for key, value in variables.items() if key != "ST_KEY"}
        assert "ST_KEY is missing" in commands.run(["storlet", "list"], missing, code=1)
        # A login of the OpenStack client precedes it.
        keystone = {**variables, "OS_AUTH_URL": "http://127.0.0.1:9/v3"}
        assert "ST_KEY" not in commands.run(["storlet", "list"], keystone, code=1)


def use_all_commands(openstack: Callable[..., str], tmp_path: Path) -> None:
    openstack("enable")
    assert "provided by the storlet-client plugin" in openstack("enable", "--help")
    openstack("doctor")
    openstack("deploy", str(SAMPLE / "csv_filter.py"), "--limit", "memory=128M")
    show_the_storlet(openstack)
    openstack("upload", str(SAMPLE / "input.csv"), "samples/input.csv")
    run_it = ("invoke", "csv_filter.py", "samples/input.csv", "-p", "columns=station")
    assert openstack(*run_it).splitlines()[:2] == ["station", "Basel"]
    openstack(*run_it, "--keep-log")
    (log,) = json.loads(openstack("log", "list", "csv_filter.py", "-f", "json"))
    assert log["Invocation"].startswith("tx")
    openstack("log", "show", "csv_filter.py", log["Invocation"])
    assert "no log tx1" in openstack("log", "show", "csv_filter.py", "tx1", code=1)
    assert "tx1" in openstack("run", "replay", "tx1", code=1)
    assert "no record of tx1" in openstack("run", "show", "tx1", code=1)
    secret = tmp_path / "secret"
    secret.write_text("a value of a secret")
    assert openstack("secret", "set", "api-token", str(secret)) == "set api-token\n"
    assert openstack("secret", "list", "-f", "value", "-c", "Name") == "api-token\n"
    assert openstack("secret", "delete", "api-token") == "deleted api-token\n"
    openstack("grant", "create", "samples", "someone", "csv_filter.py")
    assert json.loads(openstack("grant", "list", "samples", "-f", "json"))[0]["User"] == "someone"
    openstack("grant", "delete", "samples", "someone", "csv_filter.py")
    assert json.loads(openstack("grant", "list", "samples", "-f", "json")) == []
    assert json.loads(openstack("run", "list", "--since", "1m", "-f", "json")) == []
    assert '"Storlet"' in openstack("run", "list", "-f", "csv")
    assert json.loads(openstack("info", "show", "-f", "json"))["storlet_container"] == "storlet"
    library = json.loads(openstack("library", "list", "-f", "json"))
    assert "std:grep" in {row["Name"] for row in library}
    rows = openstack("query", "SELECT station FROM input LIMIT 1", "samples/input.csv", "-f", "csv")
    assert rows == "station\nBasel\n"
    many = ("distribute", "std:nop", "samples", "--prefix", "in")
    assert openstack(*many, "--merge", "concat").encode() == (SAMPLE / "input.csv").read_bytes()
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules:\n- {name: shut, when: {object: a}, deny: closed}\n")
    openstack("rules", "set", str(rules))
    assert openstack("rules", "show") == rules.read_text()
    assert "deny: closed" in openstack("rules", "explain", "GET", "samples/a")
    # The environment has no package of the server.
    assert "swift-storlets" in openstack("rules", "check", str(rules), code=3)
    openstack("rules", "delete")
    assert openstack("rules", "show") == ""
    target = tmp_path / "saved.py"
    openstack("save", "csv_filter.py", "-o", str(target))
    assert target.read_bytes() == (SAMPLE / "csv_filter.py").read_bytes()
    assert "no storlet nosuch" in openstack("delete", "nosuch", code=1)
    assert "write" in openstack("run", "list", "--since", "yesterday", code=1)
    openstack("delete", "csv_filter.py")
    assert json.loads(openstack("list", "-f", "json")) == []


def show_the_storlet(openstack: Callable[..., str]) -> None:
    (row,) = json.loads(openstack("list", "-f", "json"))
    assert (row["Name"], row["Language"]) == ("csv_filter.py", "python")
    # Numbers, and null for runs, which the account does not record.
    assert (row["Limits"], row["Number"]) == ({"memory": 128 << 20}, None)
    assert (row["Runs"], row["Failures"]) == (None, 0)
    assert "memory=128M" in openstack("list")
    assert openstack("list", "-f", "value", "-c", "Main") == "csv_filter.CsvFilter\n"
    shown = json.loads(openstack("show", "csv_filter.py", "-f", "json"))
    assert (shown["language"], shown["limits"]) == ("python", row["Limits"])
    assert "memory=128M" in openstack("show", "csv_filter.py")


def use_local_commands(openstack: Callable[..., str], tmp_path: Path) -> None:
    folder = tmp_path / "fruit"
    openstack("init", str(folder))
    assert "lines with apples" in openstack("test", "--no-sandbox", str(folder))
    ran = openstack("run", "--no-sandbox", "-p", "text=pear", str(folder), f"{folder}/sample.txt")
    assert ran == "two pears\n"
    openstack("build", str(folder))
    bundle = f"{folder}/dist/fruit-0.1.0.storlet"
    # The environment has no package of the server.
    assert "install swift-storlets" in openstack("check", bundle, code=1)
    assert "No such file" in openstack("build", f"{tmp_path}/none", code=1)
    openstack("deploy", bundle)
    with (folder / "src/fruit.py").open("a") as source:
        source.write("# The second version.\n")
    openstack("build", str(folder))
    openstack("deploy", bundle)
    assert openstack("version", "list", "fruit", "-f", "value", "-c", "Number") == "2\n1\n"
    assert openstack("rollback", "fruit", "1") == "fruit: version 1 is current\n"


# --- storlets of a caller with a token ------------------------------------------------------------


def test_results_of_puts_and_copies_are_stored(project: Project) -> None:
    """The token has no domain of its own: ``authtoken`` sets its headers to None."""
    client = project.tool.client
    put = client.put("bucket/put", CONTENT, project.run)
    assert put.status == 201, put
    copied = client.request("COPY", SIGNED, {**project.run, "Destination": "bucket/copied"})
    assert copied.status == 201, copied
    from_ = client.put("bucket/copied-from", b"", {**project.run, "X-Copy-From": f"/{SIGNED}"})
    assert from_.status == 201, from_
    for name in ("put", "copied", "copied-from"):
        assert client.get(f"bucket/{name}").body == CONTENT.upper()


def test_services_and_further_outputs_are_stored(project: Project) -> None:
    client = project.tool.client
    assert upload(client, "read, write").status == 201
    asked = [["set", f"/{SIGNED}", {"a": "b"}], ["copy", f"/{SIGNED}", "/bucket/by-service"]]
    assert outcomes(ask(client, SIGNED, *asked, ["stat", "/bucket/by-service"]))[:2] == [["ok"]] * 2
    assert client.get("bucket/by-service").body == CONTENT
    headers = {
        **project.run,
        "X-Storlet-Parameter-1": "do:spread",
        "X-Storlet-Output": "/bucket/2nd",
    }
    answer = client.get(SIGNED, headers)
    assert answer.status == 200, answer
    assert client.get("bucket/2nd").body == b"1:" + CONTENT


# --- S3 requests that are signed with EC2 credentials ---------------------------------------------


@dataclass(frozen=True)
class Project:
    """A project's account with two objects and a storlet, and a signer with an EC2 credential."""

    tool: Tool
    signer: Signer

    @property
    def run(self) -> dict[str, str]:
        return {"X-Run-Storlet": self.tool.storlet, "X-Storlet-Parameter-1": "do:upper"}


@pytest.fixture(scope="module")
def project(service: Service, toolbox: Toolbox) -> Project:
    owner = Owner.new(service.keystone)
    url = f"http://127.0.0.1:{service.proxy.port}"
    client = Client(f"{url}/v1/AUTH_{owner.project_id}", owner.token())
    prepare_account(client)
    assert client.put("bucket").status == 201
    for path, content in ((SIGNED, CONTENT), (OTHER, SECRET)):
        assert client.put(path, content).status == 201
    storlet = toolbox.upload(client, "python", "multitool")
    return Project(Tool(client, storlet), Signer(url, *owner.ec2_credential()))


def test_an_ec2_credential_signs_and_a_wrong_key_does_not(project: Project) -> None:
    signer = project.signer
    for send in (signer.v2_query, signer.v4_query, signer.v2_header):
        assert send(SIGNED, {}).body == CONTENT
    forged = Signer(signer.url, signer.user, "wrong")
    assert forged.v4_query(SIGNED, {}).status == 403


@pytest.mark.parametrize("way", ["v2_query", "v4_query", "v2_header"])
def test_an_uncovered_header_runs_no_storlet(project: Project, way: str) -> None:
    send = getattr(project.signer, way)
    extra = {"X-Storlet-Extra-Resources": f"/{OTHER}"}
    for headers in (project.run, project.run | extra, extra):
        answer = send(SIGNED, headers)
        assert 400 <= answer.status < 500, answer
        assert SECRET not in answer.body
        assert CONTENT.upper() not in answer.body


def test_headers_that_the_signature_covers_run_the_storlet(project: Project) -> None:
    answer = project.signer.v4_header(SIGNED, project.run, {})
    assert (answer.status, answer.body) == (200, CONTENT.upper()), answer
    extra = {"X-Storlet-Extra-Resources": f"/{OTHER}"}
    refused = project.signer.v4_header(SIGNED, project.run, extra)
    assert 400 <= refused.status < 500, refused
    assert SECRET not in refused.body


@pytest.mark.parametrize("way", ["v2_query", "v4_query"])
def test_an_uncovered_header_changes_no_grant(project: Project, way: str) -> None:
    grant = {"X-Storlet-Container-Read": "*:*", "X-Storlet-Name": project.tool.storlet}
    answer = getattr(project.signer, way)("bucket", grant)
    assert 400 <= answer.status < 500, answer
    head = project.tool.client.head("bucket")
    assert head.headers["X-Storlet-Container-Read"] is None
