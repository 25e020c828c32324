"""Trust classes, images and pre-warmed sandboxes on a real cluster: the environment that a storlet
sees."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware import config as configuration
from storlet_middleware.keys import tenant_key
from tests.support.accounts import prepare_account, unique, users_of
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.storlets import SOURCES, declaration
from tests.support.waiting import wait_for

ADMIN, USER = "look_admin.py", "look.py"
SPECIAL = "AUTH_special"
SPARES = {"storlet.conf:sandbox": {"prewarmed": 1}}


@dataclass(frozen=True)
class Classes:
    """A cluster with an admin storlet that has a read-only mount, a writable mount and the host's
    network."""

    cluster: Cluster
    models: Path
    out: Path
    image: str

    def docker(self, *arguments: str) -> str:
        command = ["docker", "-H", self.cluster.docker_host, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=True
        ).stdout

    def containers(self, *filters: str) -> list[dict[str, Any]]:
        """Running sandboxes of this cluster, by label."""
        labels = (f"label=org.storlets={self.cluster.node_id}", *filters)
        ids = self.docker(
            "ps", "-q", "--no-trunc", *(word for one in labels for word in ("--filter", one))
        ).split()
        return list(json.loads(self.docker("inspect", *ids))) if ids else []


@pytest.fixture(scope="module")
def classes(other_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Classes]:
    folder = tmp_path_factory.mktemp("classes")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    models, out = folder / "models", folder / "out"
    models.mkdir()
    (models / "list").write_text("one model")
    out.mkdir()
    out.chmod(0o777)
    image = f"storlets/special:{other_cluster.node_id}"
    made = Classes(other_cluster, models, out, image)
    (folder / "image").mkdir()
    (folder / "image" / "Dockerfile").write_text(
        f"FROM {other_cluster.description['sandbox_image']}\n"
        "COPY special /etc/storlets-special\n"
        "RUN rm -rf /usr/lib/python3/dist-packages/*duckdb* /usr/lib/python3/dist-packages/*vips*\n"
    )
    (folder / "image" / "special").write_text("an image of its own")
    made.docker("build", "-q", "-t", image, str(folder / "image"))
    accepted = configuration.load(str(other_cluster.storlet_conf)).sandbox.accept_failures
    options: dict[str, dict[str, object]] = {
        # The host's network has its abstract sockets: the self-test finds them, so the operator
        # must accept it.
        "storlet.conf:sandbox": {"accept_failures": ", ".join([*accepted, "network-abstract-sockets"])},
        "storlet.conf:class:admin": {
            "storlets": f"AUTH_test/{ADMIN}", "network": "host", "mounts": f"{models}:/models:ro, {out}:/out:rw",
        },
        f"storlet.conf:image:{SPECIAL}": {"image": image},
        "storlet.conf:image:AUTH_unlucky": {"image": "storlets/no-such-image:1"},
    }  # fmt: skip
    try:
        with other_cluster.configured(options):
            yield made
    finally:
        made.docker("rmi", "-f", image)


@pytest.fixture(scope="module")
def admin_user(classes: Classes) -> Client:
    """A user with every permission in every account of that cluster."""
    return users_of(classes.cluster.description)["admin:admin"]


def interfaces() -> list[str]:
    """The interfaces of the host, which has more of them than an empty network namespace."""
    return [path.name for path in Path("/sys/class/net").iterdir()]


def look(client: Client, name: str = USER) -> dict[str, Any]:
    """The report of the storlet."""
    answer = run(client, name)
    assert (answer.status, answer.is_broken) == (200, False), answer
    seen: dict[str, Any] = json.loads(answer.body)
    return seen


def run(client: Client, name: str = USER) -> Answer:
    prepare_account(client)
    source = (SOURCES / "look.py").read_bytes()
    main = f"{name.removesuffix('.py')}.Look"
    assert client.put(f"storlet/{name}", source, declaration("python", main)).status == 201
    assert client.put("c").status in (201, 202)
    assert client.put("c/o", b"an object").status == 201
    return client.get("c/o", {"X-Run-Storlet": name})


def test_the_admin_class_has_the_network_and_mounts_that_were_configured(
    classes: Classes, other_owner: Client
) -> None:
    seen = look(other_owner, ADMIN)
    assert set(seen["interfaces"]) == set(interfaces())
    assert seen["content"]["/models/list"] == "one model"
    assert seen["written"] == {
        "/models/new": False,
        "/out/new": True,
        "/var/lib/storlets/new": False,
        "/tmp/new": True,
    }
    assert (classes.out / "new").read_text() == "a storlet was here"
    assert set("".join(seen["capabilities"])) == {"0"}


def test_the_user_class_has_no_network_and_no_mounts_beside_an_admin_storlet(
    classes: Classes, other_owner: Client
) -> None:
    admin, user = look(other_owner, ADMIN), look(other_owner, USER)
    assert set(user["interfaces"]) != set(interfaces())
    assert user["content"]["/models/list"] == "No such file or directory"
    assert [path for path, is_written in user["written"].items() if is_written] == ["/tmp/new"]
    assert user["uid"] != admin["uid"]
    assert set(admin["code"]) < set(user["code"]), "the account's code, which both may read"
    labels = {
        c["Config"]["Labels"]["org.storlets.class"]
        for c in classes.containers("label=org.storlets.account=AUTH_test")
    }
    assert labels == {"user", "admin"}


def test_an_account_runs_in_the_image_that_the_operator_chose(
    classes: Classes, admin_user: Client
) -> None:
    assert look(admin_user.on(SPECIAL))["content"]["/etc/storlets-special"] == "an image of its own"
    other = look(admin_user.on(f"AUTH_{unique('plain')}"))
    assert other["content"]["/etc/storlets-special"] == "No such file or directory"
    assert classes.containers(f"label=org.storlets.image-name={classes.image}")


@pytest.mark.parametrize(
    ("storlet", "parameter", "package"),
    [("std:sql", "query:SELECT 1", "duckdb"), ("std:image", "width:9", "pyvips")],
)
def test_an_account_whose_image_has_no_such_package_gets_the_reason(
    classes: Classes, admin_user: Client, storlet: str, parameter: str, package: str
) -> None:
    client = admin_user.on(SPECIAL)
    look(client)
    given = {"X-Run-Storlet": storlet, "X-Storlet-Parameter-1": parameter}
    answer = client.get("c/o", given)
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert f"the Python package {package}, which the sandbox image of this account" in answer.text


def test_an_image_that_is_missing_is_named_to_its_account_only(
    classes: Classes, admin_user: Client
) -> None:
    answer = run(admin_user.on("AUTH_unlucky"))
    assert (answer.status, answer.error) == (503, "sandbox.unavailable"), answer
    assert "storlets/no-such-image:1" in answer.text
    assert look(admin_user.on(SPECIAL))


@pytest.fixture(scope="module")
def usual(classes: Classes, admin_user: Client) -> dict[str, Any]:
    """The environment of a storlet in a sandbox that was started on demand."""
    return look(admin_user.on(f"AUTH_{unique('usual')}"))


@pytest.fixture(scope="module")
def lost(classes: Classes, usual: dict[str, Any]) -> Classes:
    """The same cluster with a mount of a missing directory, and without the other options of
    :func:`classes`, which resets all options at its end.  The tests that use this or
    :func:`prewarmed` are the last ones."""
    options = {"storlets": f"AUTH_test/{ADMIN}", "mounts": f"{classes.models}/nowhere:/models:ro"}
    classes.cluster.configure({"storlet.conf:class:admin": options})
    return classes


def test_a_mount_whose_directory_is_missing_is_named(lost: Classes, other_owner: Client) -> None:
    answer = run(other_owner, ADMIN)
    assert (answer.status, answer.error) == (503, "sandbox.unavailable"), answer
    assert "[class:admin] mounts" in answer.text
    assert f"{lost.models}/nowhere" in answer.text
    assert look(other_owner, USER)["uid"]


# --- pre-warmed sandboxes -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prewarmed(other_cluster: Cluster, classes: Classes, usual: dict[str, Any]) -> Classes:
    """The same cluster with one pre-warmed sandbox, and without other options; see :func:`lost`."""
    other_cluster.configure(SPARES)
    return classes


def spare(classes: Classes) -> dict[str, Any]:
    """Wait for a pre-warmed sandbox; return it."""
    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        notes = {
            path.name
            for path in (classes.cluster.run_dir / "a").iterdir()
            if path.read_text() == "free"
        }
        # The two commands take a tenth of a second of processor time.
        running = classes.containers() if notes else []
        found[:] = [c for c in running if c["Config"]["Labels"]["org.storlets.key"] in notes]
        return bool(found)

    wait_for(is_there, 60, "a spare sandbox")
    return found[0]


def test_a_new_account_gets_the_pre_warmed_sandbox_with_the_usual_contents(
    prewarmed: Classes, admin_user: Client, usual: dict[str, Any]
) -> None:
    waiting = spare(prewarmed)
    client = admin_user.on(f"AUTH_{unique('first')}")
    first = look(client)
    inspect = f"{waiting['State']['Pid']} /storlet-{prewarmed.cluster.node_id}-"
    form = "{{.State.Pid}} {{.Name}}"
    wait_for(
        lambda: "spare" not in prewarmed.docker("inspect", "-f", form, waiting["Id"]),
        10,
        "its new name",
    )
    assert prewarmed.docker("inspect", "-f", form, waiting["Id"]).startswith(inspect)

    assert look(client)["uid"] == first["uid"]
    assert first["uid"] > 0
    assert first["groups"] == []
    assert first["capabilities"] == usual["capabilities"] == 5 * ["0" * 16]
    assert first["supervisor"] == {"Uid": str(first["uid"]), "CapBnd": "0" * 16}
    assert first["written"] == usual["written"]
    assert first["interfaces"] == usual["interfaces"]
    code = [options.split(",") for path, options in first["mounts"] if path == "/var/lib/storlets"]
    assert {"ro", "nosuid", "nodev"} <= set(code[-1])
    assert first["code"]
    assert set(first["code"]) <= {path.name for path in code_of(prewarmed, client).iterdir()}


def code_of(classes: Classes, client: Client) -> Path:
    return classes.cluster.state_dir / "code" / tenant_key(client.account)


def test_many_new_accounts_at_once_each_get_a_sandbox_of_their_own(
    prewarmed: Classes, admin_user: Client
) -> None:
    spare(prewarmed)
    clients = [admin_user.on(f"AUTH_{unique('many')}") for _ in range(5)]
    with ThreadPoolExecutor(5) as threads:
        seen = list(threads.map(look, clients))
    assert len({one["uid"] for one in seen}) == 5
    for one, client in zip(seen, clients, strict=True):
        assert one["code"] == sorted(path.name for path in code_of(prewarmed, client).iterdir())
