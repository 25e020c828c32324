"""Storlets of the tests: built from ``tests/functional/storlets``, uploaded and run through
HTTP."""

from __future__ import annotations

import io
import os
import re
import subprocess
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from storlet_client.builder.jars import JAVAC
from storlet_middleware.aio import cache
from tests.support.cluster import CHECKOUT
from tests.support.http import Answer, Client

SOURCES = CHECKOUT / "tests/functional/storlets"
LANGUAGES = ("python", "java")
PLACEMENTS = ("object", "proxy")
INVOCATION_ID = re.compile(r"tx[0-9a-f]{21}-[0-9a-f]{10}\S*-\d+")


def java_libraries(api_jar: Path) -> list[Path]:
    """The jars of json-simple and slf4j, which the legacy storlet is compiled against."""
    found = [
        path
        for name in ("json-simple", "slf4j-api")
        for path in sorted(api_jar.parent.rglob(f"{name}*.jar"))
    ]
    repository = Path.home() / ".m2" / "repository"
    places = (repository / "com/googlecode/json-simple", repository / "org/slf4j/slf4j-api")
    return found or [path for place in places for path in sorted(place.rglob("*.jar"))]


class JavaClasses:
    """The Java sources, compiled once a machine: the classes are in the cache."""

    def __init__(
        self, api_jar: Path, libraries: Sequence[Path], folder: Path = SOURCES / "java"
    ) -> None:
        class_path, sources = [api_jar, *libraries], sorted(folder.rglob("*.java"))
        parts = [
            part for path in (*class_path, *sources) for part in (path.name, path.read_bytes())
        ]

        def make(place: Path) -> None:
            words = ["-cp", os.pathsep.join(map(str, class_path)), "-d", place, *sources]
            command = [*JAVAC, "--release", "17", "-nowarn", *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr

        self._folder = cache.made("test-classes", cache.digest(parts), make)

    def jar(self, package: str, files: Mapping[str, str] | None = None) -> bytes:
        """A jar of one package, with further files in it."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\n\r\n")
            for path in sorted((self._folder / package).glob("*.class")):
                jar.write(path, f"{package}/{path.name}")
            for name, content in (files or {}).items():
                jar.writestr(name, content)
        return buffer.getvalue()


@dataclass(frozen=True)
class Dependency:
    """An object for the dependency container."""

    name: str
    content: bytes
    permissions: str | None = None

    def upload(self, client: Client) -> Answer:
        headers = {"X-Object-Meta-Storlet-Dependency-Version": "1"}
        if self.permissions is not None:
            headers["X-Object-Meta-Storlet-Dependency-Permissions"] = self.permissions
        return client.put(f"dependency/{self.name}", self.content, headers)


def declaration(
    language: str, main: str, dependencies: Iterable[str] = (), **more: str
) -> dict[str, str]:
    """The manifest of a storlet as metadata headers."""
    headers = {
        "X-Object-Meta-Storlet-Language": language,
        "X-Object-Meta-Storlet-Interface-Version": "1.0",
        "X-Object-Meta-Storlet-Object-Metadata": "no",
        "X-Object-Meta-Storlet-Main": main,
        "Content-Type": "application/octet-stream",
    }
    if names := ",".join(dependencies):
        headers["X-Object-Meta-Storlet-Dependency"] = names
    return headers | {
        f"X-Object-Meta-Storlet-{key.replace('_', '-')}": value for key, value in more.items()
    }


def usage(answer: Answer) -> dict[str, float]:
    """``X-Storlet-Usage`` in numbers."""
    return numbers(answer.headers["X-Storlet-Usage"])


def numbers(text: str) -> dict[str, float]:
    """The numbers of a usage by their names."""
    pairs = (part.partition("=") for part in text.split(";"))
    return {key: float(value) for key, _, value in pairs}


@dataclass(frozen=True)
class Toolbox:
    """Makes storlets of either language with the same behaviour."""

    java: JavaClasses

    def multitool(self, language: str, stem: str, version: str = "1") -> tuple[str, bytes, str]:
        """Object name, content and main class of a Multitool."""
        if language == "python":
            source = (
                (SOURCES / "multitool.py")
                .read_text()
                .replace('VERSION = "1"', f'VERSION = "{version}"')
            )
            return f"{stem}.py", source.encode(), f"{stem}.Multitool"
        return (
            f"{stem}-1.0.jar",
            self.java.jar("functional", {"version.txt": version}),
            "functional.Multitool",
        )

    def upload(
        self,
        client: Client,
        language: str,
        stem: str,
        *,
        version: str = "1",
        dependencies: Iterable[Dependency] = (),
    ) -> str:
        """Upload a Multitool with its dependencies; its name."""
        given = list(dependencies)
        for dependency in given:
            answer = dependency.upload(client)
            assert answer.status == 201, answer
        name, content, main = self.multitool(language, stem, version)
        answer = client.put(
            f"storlet/{name}", content, declaration(language, main, [d.name for d in given])
        )
        assert answer.status == 201, answer
        return name

    def upload_source(
        self, client: Client, file: str, main: str, dependencies: Iterable[Dependency] = ()
    ) -> str:
        """Upload a Python source of this folder as it stands."""
        given = list(dependencies)
        for dependency in given:
            assert dependency.upload(client).status == 201
        content = (SOURCES / file).read_bytes()
        answer = client.put(
            f"storlet/{file}", content, declaration("python", main, [d.name for d in given])
        )
        assert answer.status == 201, answer
        return file

    def upload_jar(
        self,
        client: Client,
        name: str,
        package: str,
        main: str,
        dependencies: Iterable[Dependency] = (),
    ) -> str:
        """Upload a jar of one package."""
        given = list(dependencies)
        for dependency in given:
            assert dependency.upload(client).status == 201
        headers = declaration("java", main, [d.name for d in given])
        answer = client.put(f"storlet/{name}", self.java.jar(package), headers)
        assert answer.status == 201, answer
        return name


@dataclass(frozen=True)
class Tool:
    """An uploaded storlet and its placement."""

    client: Client
    storlet: str
    placement: str = "object"

    def headers(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        headers = {"X-Run-Storlet": self.storlet}
        if self.placement == "proxy":
            headers["X-Storlet-Run-On-Proxy"] = ""
        return headers | dict(extra or {})

    def get(
        self,
        path: str,
        do: str = "identity",
        headers: Mapping[str, str] | None = None,
        **parameters: str,
    ) -> Answer:
        """GET with this storlet; parameters go by query (``set_Name`` stands for ``set-Name``)."""
        return self.client.get(path, self.headers(headers), query=query_of(do, parameters))

    def put(
        self,
        path: str,
        body: bytes | Iterable[bytes],
        do: str = "identity",
        headers: Mapping[str, str] | None = None,
        **parameters: str,
    ) -> Answer:
        """PUT with this storlet; always on the proxy."""
        sent = {"X-Run-Storlet": self.storlet} | dict(headers or {})
        return self.client.put(path, body, sent, query=query_of(do, parameters))

    def copy(
        self,
        source: str,
        target: str,
        do: str = "identity",
        headers: Mapping[str, str] | None = None,
        **parameters: str,
    ) -> Answer:
        """COPY with this storlet."""
        sent = self.headers(headers) | {"Destination": target}
        return self.client.request("COPY", source, sent, query=query_of(do, parameters))

    def describe(
        self, path: str, headers: Mapping[str, str] | None = None, **parameters: str
    ) -> dict[str, str]:
        """Run ``describe`` on a GET; what the storlet saw."""
        answer = self.get(path, "describe", headers, **parameters)
        assert answer.status == 200, answer
        return seen(answer)

    def count(self, path: str, key: str) -> int:
        """Count the runs that registered under ``key``."""
        answer = self.get(path, "counted", of=key)
        assert answer.status == 200, answer
        return int(answer.body)


def query_of(do: str, parameters: Mapping[str, str]) -> dict[str, str]:
    return {"do": do} | {re.sub("^set_", "set-", key): value for key, value in parameters.items()}


def seen(answer: Answer) -> dict[str, str]:
    """The output of ``describe`` as a dictionary."""
    assert not answer.is_broken, answer
    pairs = (line.split("=", 1) for line in answer.text.splitlines())
    return {key: bytes.fromhex(value).decode() for key, value in pairs}
