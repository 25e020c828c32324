"""The benchmark's cluster, with its accounts, storlets and objects."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from storlet_middleware.aio.java import SAMPLE_JARS
from tests.bench.http import Address, Connection, Request, Timing, make_request, open_tcp
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.own_cluster import own_cluster

SMALL_BYTES: Final = 1024
LARGE_BYTES: Final = 100 * 1024 * 1024
CONTAINER: Final = "bench"
SMALL: Final = f"{CONTAINER}/small"
LARGE: Final = f"{CONTAINER}/large"
STORLETS: Final = Path(__file__).parent / "storlets"
#: An administrator that may create accounts; tempauth cannot create many in another way.
_ADMIN: Final = "admin:admin"
_META: Final = {
    "X-Object-Meta-Storlet-Interface-Version": "1.0",
    "X-Object-Meta-Storlet-Object-Metadata": "no",
}


@dataclass(frozen=True)
class Code:
    """A storlet to upload."""

    name: str
    language: str
    main: str
    data: bytes

    def headers(self) -> dict[str, str]:
        return {
            **_META,
            "X-Object-Meta-Storlet-Language": self.language,
            "X-Object-Meta-Storlet-Main": self.main,
        }


def python_code(file: str, main: str, name: str = "") -> Code:
    """One of ``tests/bench/storlets``; under another ``name`` it is a storlet that no node has
    seen."""
    name = name or file
    return Code(
        name, "python", f"{name.removesuffix('.py')}.{main}", (STORLETS / file).read_bytes()
    )


def java_identity(java_dir: str, name: str = "") -> Code:
    """The sample ``java_identity``."""
    manifest = json.loads(
        (CHECKOUT / "storlets/java_identity/manifest.json").read_text(encoding="utf-8")
    )
    jar = Path(java_dir, SAMPLE_JARS, manifest["file"])
    return Code(name or jar.name, "java", manifest["main"], jar.read_bytes())


@dataclass(frozen=True)
class Treatment:
    """A way to run a no-op: ``key`` as in figures, ``title`` for display, headers of the
    request."""

    key: str
    title: str
    headers: Mapping[str, str] = field(default_factory=dict)


PLAIN: Final = Treatment("plain", "plain Swift")


class Account:
    """One account and a connection to its storage URL."""

    def __init__(self, address: Address, path: str, token: str) -> None:
        self.address = address
        self._path = path
        self.token = token
        self._connection: Connection | None = None

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | memoryview = b"",
    ) -> Request:
        """Encode a request that is sent often."""
        return make_request(
            method, self.path_of(path), {"X-Auth-Token": self.token, **(headers or {})}, body
        )

    def path_of(self, path: str) -> str:
        """Path of a container or an object; empty: of the account."""
        return f"{self._path}/{path}" if path else self._path

    @property
    def connection(self) -> Connection:
        """A keep-alive connection; :meth:`reconnect` after servers were restarted."""
        if self._connection is None:
            self._connection = Connection(lambda: open_tcp(self.address))
        return self._connection

    def reconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | memoryview = b"",
    ) -> Timing:
        """Encode and send one request."""
        return self.connection.exchange(self.request(method, path, headers, body))

    def get_ready(self, *codes: Code) -> None:
        """Enable storlets, create the containers, upload storlets and an object of 1 KiB."""
        self.send("POST", "", {"X-Account-Meta-Storlet-Enabled": "True"})
        for container in ("storlet", "dependency", CONTAINER):
            self.send("PUT", container)
        self.send("PUT", SMALL, body=b"x" * SMALL_BYTES)
        for code in codes:
            self.upload(code)

    def upload(self, code: Code) -> None:
        self.send("PUT", f"storlet/{code.name}", code.headers(), code.data)


class Site:
    """A running cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._main: Account | None = None

    @property
    def java_dir(self) -> str:
        return str(self.cluster.description["java_dir"])

    def account(self, user: str = "test:tester") -> Account:
        """The account of a user of tempauth."""
        client = self.cluster.client(user)
        url = client.version_url
        return Account((url.host, url.port), url.path, client.token)

    def new_account(self, name: str) -> Account:
        """An account that has not been used; its requests are those of an administrator."""
        admin = self.account(_ADMIN)
        return Account(admin.address, f"/v1/AUTH_{name}", admin.token)

    @property
    def main(self) -> Account:
        """The account of most rows, with the identity storlets, an object of 1 KiB and one of 100
        MiB; made at first use."""
        if self._main is None:
            account = self.account()
            account.get_ready(python_code("identity.py", "Identity"), java_identity(self.java_dir))
            account.send("PUT", LARGE, body=os.urandom(1 << 20) * (LARGE_BYTES >> 20))
            self._main = account
        return self._main

    def treatments(self, *languages: str) -> list[Treatment]:
        """The no-op in each language, at the object node and at the proxy."""
        names = {"python": "identity.py", "java": java_identity(self.java_dir).name}
        return [
            Treatment(
                f"{language}.{place}",
                f"{language.capitalize()}, {'object node' if place == 'object' else 'proxy'}",
                {"X-Run-Storlet": names[language]}
                | ({"X-Storlet-Run-On-Proxy": ""} if place == "proxy" else {}),
            )
            for language in languages or names
            for place in ("object", "proxy")
        ]

    def configure(self, changes: Mapping[str, Mapping[str, object]]) -> None:
        """Set options and restart the processes that use them; ``{}`` restores the defaults."""
        self.cluster.configure(changes)
        self.reconnect()

    def reconnect(self) -> None:
        """Reconnect, because servers were restarted or have closed an idle connection."""
        if self._main is not None:
            self._main.reconnect()


@contextmanager
def own_site(**choices: str) -> Iterator[Site]:
    """A separate cluster on free ports for the length of a block."""
    with own_cluster("bench-", **choices) as cluster:
        yield Site(cluster)
