"""The few calls of the Docker engine's HTTP interface that the tooling needs, over its Unix socket.

The ``docker`` command may be missing or too new for the engine, and docker-py is not installed yet
when this runs.  In production only ``storlet-sandboxd`` talks to the engine.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote, urlencode

from .progress import TAIL_LINES, AioError

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"
LABEL: Final = "org.storlets"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("docker", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class DockerApi:
    """One engine; every call is a connection of its own."""

    def __init__(self, host: str) -> None:
        if not host.startswith("unix://"):
            raise AioError(
                f"DOCKER_HOST={host}: want a unix:// address. Storlets need an engine on this "
                "machine, because Swift shares files and descriptors with the sandboxes."
            )
        self.host = host
        self.path = host.removeprefix("unix://")

    def answers(self) -> bool:
        try:
            return self._call("GET", "/_ping", timeout=5.0)[0] == 200
        except AioError:
            return False

    def info(self) -> dict[str, Any]:
        return dict(self._json("GET", "/info"))

    def image_id(self, name: str) -> str | None:
        status, body = self._call("GET", f"/images/{quote(name, safe='')}/json")
        return str(json.loads(body)["Id"]) if status == 200 else None

    def tag(self, name: str, repository: str, tag: str) -> None:
        self._json(
            "POST",
            f"/images/{quote(name, safe='')}/tag?{urlencode({'repo': repository, 'tag': tag})}",
        )

    def tags(self, repository: str) -> list[str]:
        """Full names of all images of a repository, the newest first."""
        query = urlencode({"filters": json.dumps({"reference": [repository]})})
        images = sorted(
            self._json("GET", f"/images/json?{query}"), key=lambda item: -int(item["Created"])
        )
        return [str(name) for item in images for name in item.get("RepoTags") or ()]

    def untag(self, name: str) -> None:
        """Remove a name, and the image when it was the last; one that a container uses stays."""
        self._call("DELETE", f"/images/{quote(name, safe='')}?noprune=0")

    def pull(self, repository: str, tag: str, seconds: float) -> bool:
        """Pull an image; return False when no registry can be reached."""
        query = urlencode({"fromImage": repository, "tag": tag})
        try:
            self._call("POST", f"/images/create?{query}", timeout=seconds)
        except AioError:
            return False
        return self.image_id(f"{repository}:{tag}") is not None

    def import_image(
        self, layer: Iterable[bytes], repository: str, tag: str, changes: Iterable[str]
    ) -> None:
        """Make an image from a tar stream."""
        query = urlencode(
            [
                ("fromSrc", "-"),
                ("repo", repository),
                ("tag", tag),
                *(("changes", c) for c in changes),
            ]
        )
        self._stream(f"/images/create?{query}", layer)

    def build(
        self, context: Iterable[bytes], tag: str, args: dict[str, str], network: str = "none"
    ) -> None:
        """``docker build`` of a tar stream that contains a Dockerfile."""
        query = urlencode(
            {
                "t": tag,
                "networkmode": network,
                "rm": "1",
                "forcerm": "1",
                "buildargs": json.dumps(args),
                "version": "1",
            }
        )
        self._stream(f"/build?{query}", context)

    def containers(self, label: str) -> list[str]:
        """Ids of all containers, running or not, with ``label`` (``key`` or ``key=value``)."""
        query = urlencode({"all": "1", "filters": json.dumps({"label": [label]})})
        return [str(item["Id"]) for item in self._json("GET", f"/containers/json?{query}")]

    def running_containers(self) -> list[str]:
        return [str(item["Id"]) for item in self._json("GET", "/containers/json")]

    def remove(self, container: str) -> None:
        """Kill and remove a container.  Idempotent."""
        status, body = self._call("DELETE", f"/containers/{container}?force=1&v=1", timeout=60.0)
        if status not in {204, 404, 409}:
            raise AioError(
                f"the engine cannot remove container {container[:12]}: "
                f"{body.decode(errors='replace')}"
            )

    def _json(self, method: str, path: str) -> Any:
        status, body = self._call(method, path)
        if status >= 400:
            raise AioError(
                f"the Docker engine answered {status} to {path}: "
                f"{body.decode(errors='replace').strip()}"
            )
        return json.loads(body or b"null")

    def _call(self, method: str, path: str, timeout: float = 30.0) -> tuple[int, bytes]:
        connection = _UnixConnection(self.path, timeout)
        try:
            connection.request(method, path, headers={"Host": "docker"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise AioError(f"the Docker engine at {self.path} does not answer: {error}") from error
        finally:
            connection.close()

    def _stream(self, path: str, body: Iterable[bytes]) -> None:
        """Send a tar stream; the answer is JSON lines, which may contain an error despite a 200."""
        connection = _UnixConnection(self.path, timeout=600.0)
        try:
            # An engine that finds a fault answers and disconnects during the transfer: its answer
            # contains the reason, EPIPE does not.
            with suppress(BrokenPipeError):
                connection.request(
                    "POST",
                    path,
                    body=body,
                    headers={"Content-Type": "application/x-tar"},
                    encode_chunked=True,
                )
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise AioError(f"the connection to the Docker engine broke: {error}") from error
        finally:
            connection.close()
        messages = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        fault = next((str(message["error"]) for message in messages if "error" in message), "")
        if answer.status >= 400 or fault:
            output = "".join(str(message.get("stream", "")) for message in messages).splitlines()[
                -TAIL_LINES:
            ]
            raise AioError(
                "\n".join(
                    [
                        f"the Docker engine answered {answer.status}: {fault or text.strip()}",
                        *output,
                    ]
                )
            )
