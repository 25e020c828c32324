"""A real Keystone, and a proxy whose callers it authenticates."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from storlet_middleware.aio import cache, venv
from tests.support.accounts import unique
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.proxies import OtherProxy, free_port, other_proxy
from tests.support.waiting import wait_for

REQUIREMENTS = "requirements-keystone.txt"
ADMIN, SERVICE_PASSWORD = "admin", "password-of-the-service"
_DEFAULT = {"id": "default"}
#: The fewest rounds of bcrypt: each command logs in, and the default takes a quarter of a second.
_CONFIGURATION = """\
[DEFAULT]
log_file = {home}/keystone.log
[cache]
enabled = true
backend = dogpile.cache.memory
[identity]
password_hash_rounds = 4
[database]
connection = sqlite:///{home}/keystone.db
[fernet_tokens]
key_repository = {home}/fernet
[credential]
key_repository = {home}/credential
"""
#: Of a Keystone that does not run yet.
_NO_URL = "http://127.0.0.1:9/v3"
#: The application reads the command line of its process.
_SERVE = """\
import sys
port, sys.argv = int(sys.argv[1]), ["keystone"]
from keystone.server.wsgi import initialize_public_application
from werkzeug.serving import run_simple
run_simple("127.0.0.1", port, initialize_public_application(), threaded=True)
"""


class Keystone:
    """A running Keystone.

    :param url: with ``/v3``.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url + "/")
        self._http.headers["X-Auth-Token"] = self._token()

    def _token(self) -> str:
        user = {"name": ADMIN, "domain": _DEFAULT, "password": SERVICE_PASSWORD}
        scope = {"project": {"name": ADMIN, "domain": _DEFAULT}}
        identity = {"methods": ["password"], "password": {"user": user}}
        answer = self._http.post(
            "auth/tokens", json={"auth": {"identity": identity, "scope": scope}}
        )
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    def create(self, path: str, kind: str, **values: object) -> str:
        """The id of a new thing, such as ``create("users", "user", name="ada")``."""
        answer = self._http.post(path, json={kind: values})
        answer.raise_for_status()
        return str(answer.json()[kind]["id"])

    def find(self, path: str, name: str) -> str:
        """The id of the thing with ``name``."""
        answer = self._http.get(path, params={"name": name})
        answer.raise_for_status()
        (found,) = answer.json()[path]
        return str(found["id"])

    def assign(self, user: str, role: str, project: str) -> None:
        """Give a user a role in a project; all by id."""
        self._http.put(f"projects/{project}/users/{user}/roles/{role}").raise_for_status()

    def move(self, url: str) -> None:
        """Set the URL of Keystone itself in the catalog."""
        (service,) = self._http.get("services", params={"type": "identity"}).json()["services"]
        answer = self._http.get("endpoints", params={"service_id": service["id"]})
        (endpoint,) = answer.json()["endpoints"]
        changed = {"endpoint": {"url": url}}
        self._http.patch(f"endpoints/{endpoint['id']}", json=changed).raise_for_status()

    def add_swift(self, proxy: OtherProxy) -> None:
        """Put the URL of a proxy's accounts into the catalog."""
        service = self.create("services", "service", type="object-store", name="swift")
        url = f"http://127.0.0.1:{proxy.port}/v1/AUTH_$(project_id)s"
        where = {"interface": "public", "region_id": "RegionOne"}
        self.create("endpoints", "endpoint", service_id=service, url=url, **where)

    def close(self) -> None:
        self._http.close()


@dataclass(frozen=True)
class Owner:
    """A user with the role ``admin`` in a project of their own."""

    keystone: Keystone
    user: str
    user_id: str
    password: str
    project: str
    project_id: str

    @classmethod
    def new(cls, keystone: Keystone) -> Owner:
        name, password = unique("owner"), "password-of-the-owner"
        project = unique("project")
        project_id = keystone.create("projects", "project", name=project, domain_id="default")
        user_id = keystone.create(
            "users", "user", name=name, password=password, domain_id="default"
        )
        keystone.assign(user_id, keystone.find("roles", ADMIN), project_id)
        return cls(keystone, name, user_id, password, project, project_id)

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of a login by password."""
        return {
            "OS_AUTH_URL": self.keystone.url,
            "OS_IDENTITY_API_VERSION": "3",
            "OS_USERNAME": self.user,
            "OS_PASSWORD": self.password,
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_NAME": self.project,
            "OS_PROJECT_DOMAIN_ID": "default",
        }

    def application_credential(self) -> tuple[str, str]:
        """Id and secret of a new application credential."""
        asked = {"application_credential": {"name": unique("credential")}}
        made = self._create("application_credentials", asked)["application_credential"]
        return made["id"], made["secret"]

    def ec2_credential(self) -> tuple[str, str]:
        """Access key and secret of a new EC2 credential, with which S3 requests are signed."""
        made = self._create("credentials/OS-EC2", {"tenant_id": self.project_id})["credential"]
        return made["access"], made["secret"]

    def token(self) -> str:
        """A token of the project."""
        user = {"id": self.user_id, "password": self.password}
        identity = {"methods": ["password"], "password": {"user": user}}
        asked = {"identity": identity, "scope": {"project": {"id": self.project_id}}}
        answer = httpx.post(f"{self.keystone.url}/auth/tokens", json={"auth": asked})
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    def _create(self, path: str, asked: Mapping[str, object]) -> Any:
        url = f"{self.keystone.url}/users/{self.user_id}/{path}"
        answer = httpx.post(url, json=asked, headers={"X-Auth-Token": self.token()})
        answer.raise_for_status()
        return answer.json()


@contextmanager
def running_keystone(home: Path) -> Iterator[Keystone]:
    """A new Keystone with the user ``admin``; its files are in ``home``."""
    place = _environment()
    shutil.copytree(_prepared(place), home, dirs_exist_ok=True)
    configuration, _ = _configured(place, home)
    port = free_port()
    url = f"http://127.0.0.1:{port}/v3"
    with (home / "output").open("wb") as output:
        process = subprocess.Popen(
            [str(place / "bin/python3"), "-c", _SERVE, str(port)],
            env={**os.environ, "OS_KEYSTONE_CONFIG_FILES": str(configuration)},
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_for(lambda: process.poll() is not None or _answers(url), 60, "Keystone")
        assert process.poll() is None, (home / "output").read_text(encoding="utf-8")
        keystone = Keystone(url)
        keystone.move(url)
        yield keystone
        keystone.close()
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def proxy_of(
    cluster: Cluster, keystone: Keystone, changes: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[OtherProxy]:
    """A proxy with ``authtoken``, ``s3token`` and ``keystoneauth`` instead of ``tempauth``."""
    login = {
        "auth_url": keystone.url,
        "auth_type": "password",
        "username": ADMIN,
        "password": SERVICE_PASSWORD,
        "project_name": ADMIN,
        "user_domain_id": "default",
        "project_domain_id": "default",
        "delay_auth_decision": "True",
    }
    authtoken = {
        "paste.filter_factory": "keystonemiddleware.auth_token:filter_factory",
        "www_authenticate_uri": keystone.url,
        "interface": "public",
    }
    text = " ".join(cluster.pipeline())
    text = text.replace(
        "storlets-s3 s3api tempauth", "authtoken storlets-s3 s3api s3token keystoneauth"
    )
    added = {
        "pipeline:main": {"pipeline": text},
        "filter:authtoken": authtoken | login,
        "filter:s3token": {"use": "egg:swift#s3token", "auth_uri": keystone.url} | login,
        "filter:keystoneauth": {"use": "egg:swift#keystoneauth", "operator_roles": ADMIN},
    }
    with other_proxy(cluster, {**added, **(changes or {})}) as proxy:
        keystone.add_swift(proxy)
        yield proxy


def _environment() -> Path:
    """The environment of Keystone, from the cache."""
    file = CHECKOUT / REQUIREMENTS
    python = venv.base_python()
    log = cache.cache_root() / "keystone.log"

    def make(place: Path) -> None:
        _run([str(python), "-m", "venv", str(place)])
        venv.install(place, place, ["-r", file], log)

    return cache.made(
        "keystone", cache.digest([file.read_text(encoding="utf-8"), str(python)]), make
    )


def _prepared(place: Path) -> Path:
    """A folder with the tables and the keys of a Keystone with the user ``admin``, from the
    cache."""

    def make(folder: Path) -> None:
        _, manage = _configured(place, folder)
        _run([*manage, "db_sync"])
        for command in ("fernet_setup", "credential_setup"):
            _run([*manage, command, "--keystone-user", "root", "--keystone-group", "root"])
        secret = ["--bootstrap-password", SERVICE_PASSWORD]
        where = ["--bootstrap-public-url", _NO_URL, "--bootstrap-region-id", "RegionOne"]
        _run([*manage, "bootstrap", *secret, *where])

    made_of = [place.name, _CONFIGURATION, SERVICE_PASSWORD, _NO_URL]
    return cache.made("tables", cache.digest(made_of), make)


def _configured(place: Path, home: Path) -> tuple[Path, list[str]]:
    """The configuration of a Keystone in ``home``, and the command that manages it."""
    configuration = home / "keystone.conf"
    configuration.write_text(_CONFIGURATION.format(home=home), encoding="utf-8")
    return configuration, [str(place / "bin/keystone-manage"), "--config-file", str(configuration)]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False
