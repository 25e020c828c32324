"""The Docker engine that runs the sandboxes: the only import of docker-py.

Every method blocks, may be called from several threads, and raises only :class:`EngineFault` and
its subclasses.  A query waits at most :data:`QUICK_SECONDS`, a change at most :data:`SLOW_SECONDS`.
The next call replaces a lost connection, so no action is needed after a restart of Docker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import docker
import docker.errors
import requests

from storlet_middleware.sandboxd import hardening
from storlet_middleware.sandboxd.cgroups import hierarchy
from storlet_middleware.sandboxd.errors import (
    EngineFault,
    EngineUnavailable,
    ImageMissing,
    NameTaken,
)
from storlet_middleware.sandboxd.wording import plain

#: Docker answers queries from memory in a millisecond; a timeout means that it hangs.
QUICK_SECONDS: Final = 3
SLOW_SECONDS: Final = 30
LABEL_NODE: Final = "org.storlets"
LABEL_ACCOUNT: Final = "org.storlets.account"
LABEL_KEY: Final = "org.storlets.key"
LABEL_CLASS: Final = "org.storlets.class"
#: The image's name in the configuration (``org.storlets.image`` is the image's own label).
LABEL_IMAGE: Final = "org.storlets.image-name"
LABEL_CODE: Final = "org.storlets.code"
LABEL_CONFIG: Final = "org.storlets.config"

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_POLL_SECONDS: Final = 0.05
_T = TypeVar("_T")


@dataclass(frozen=True)
class Container:
    """A container as Docker lists it; ``created_at`` in seconds since 1970."""

    id: str
    name: str
    labels: Mapping[str, str]
    is_running: bool
    image_id: str
    created_at: float

    @property
    def node_id(self) -> str | None:
        """The node that it belongs to; ``None``: it is not a sandbox."""
        return self.labels.get(LABEL_NODE)


class Engine:
    """Docker at ``url``; connects at the first call."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._clients: dict[int, docker.APIClient] = {}
        self._host: dict[str, Any] | None = None

    def host(self) -> Mapping[str, Any]:
        """Docker's ``/info``, and whether its control groups are in sight.

        Cached until the connection is lost.
        """
        host = self._host
        if host is None:
            host = dict(self._query(lambda client: client.info()))
            host[hardening.CGROUPS_IN_SIGHT] = hierarchy.in_sight(self._url)
            self._host = host
        return host

    def image_id(self, image: str) -> str:
        """The id of an image by name; raises :class:`ImageMissing`."""
        try:
            return str(self._query(lambda client: client.inspect_image(image))["Id"])
        except _Absent as error:
            raise ImageMissing(f"the sandbox image {plain(image)} is not on this node") from error

    def start(self, name: str, body: Mapping[str, Any]) -> str:
        """Create and start a container; return its id.  One that does not start is removed."""
        try:
            created = self._change(
                lambda client: client.create_container_from_config(dict(body), name)
            )
        except _Conflict as error:
            raise NameTaken(str(error)) from error
        except _Absent as error:
            raise ImageMissing(str(error)) from error
        container_id = str(created["Id"])
        try:
            self._change(lambda client: client.start(container_id))
        except EngineFault:
            self._remove_quietly(container_id)
            raise
        return container_id

    def remove(self, container_id: str) -> None:
        """Kill and remove a container and wait for its removal.  Idempotent."""
        deadline = time.monotonic() + SLOW_SECONDS
        while True:
            try:
                self._change(
                    lambda client: client.remove_container(container_id, force=True, v=True)
                )
            except _Absent:
                return
            except _Conflict as error:
                # Another client removes it at this moment; Docker refuses instead of waiting.
                if time.monotonic() > deadline:
                    raise EngineFault(str(error)) from error
                time.sleep(_POLL_SECONDS)
                continue
            return

    def rename(self, container_id: str, name: str) -> None:
        """Rename a container, which frees its name for its replacement."""
        self._change(lambda client: client.rename(container_id, name))

    def find(self, name: str) -> Container | None:
        """The container of that name, if there is one."""
        try:
            found = self._query(lambda client: client.inspect_container(name))
        except _Absent:
            return None
        return Container(
            id=str(found["Id"]),
            name=name,
            labels=found["Config"].get("Labels") or {},
            is_running=bool(found["State"].get("Running")),
            image_id=str(found["Image"]),
            created_at=0.0,
        )

    def ours(self, node_id: str) -> list[Container]:
        """Every container of the node, running or not."""
        filters = {"label": [f"{LABEL_NODE}={node_id}"]}
        return [
            Container(
                id=str(entry["Id"]),
                name=str((entry.get("Names") or ["?"])[0]).lstrip("/"),
                labels=entry.get("Labels") or {},
                is_running=entry.get("State") == "running",
                image_id=str(entry.get("ImageID")),
                created_at=float(entry.get("Created") or 0),
            )
            for entry in self._query(lambda client: client.containers(all=True, filters=filters))
        ]

    def end_of(self, container_id: str) -> str | None:
        """How a container ended, as text; ``None`` while it runs."""
        try:
            state = self._query(lambda client: client.inspect_container(container_id))["State"]
        except _Absent:
            return "the container was removed"
        if state.get("Running") or state.get("Status") == "created":
            return None
        reason = (
            "killed for lack of memory"
            if state.get("OOMKilled")
            else f"exit code {state.get('ExitCode')}"
        )
        return f"{reason} {plain(state['Error'])}" if state.get("Error") else reason

    def close(self) -> None:
        """Close idle connections; the next call makes new ones."""
        with self._lock:
            clients = list(self._clients.values())
            self._clients.clear()
            self._host = None
        for client in clients:
            client.close()  # idle connections only; calls of other threads continue

    # --- how --------------------------------------------------------------------------------------

    def _query(self, call: Callable[[docker.APIClient], _T]) -> _T:
        """Run a query; retry once on a new connection: a restart of Docker drops the old one."""
        try:
            return self._call(call, QUICK_SECONDS)
        except _Silent:
            raise  # it hangs: a retry would double the time that callers wait
        except EngineUnavailable:
            return self._call(call, QUICK_SECONDS)

    def _change(self, call: Callable[[docker.APIClient], _T]) -> _T:
        """Run a change; never retried: it may have succeeded although its answer was lost."""
        return self._call(call, SLOW_SECONDS)

    def _call(self, call: Callable[[docker.APIClient], _T], seconds: int) -> _T:
        try:
            with _translated(self._url):
                return call(self._client(seconds))
        except EngineUnavailable:
            self.close()
            raise

    def _client(self, seconds: int) -> docker.APIClient:
        with self._lock:
            client = self._clients.get(seconds)
        if client is None:
            # Queries Docker's version; outside the lock, so that a hung Docker does not queue
            # callers.
            client = docker.APIClient(base_url=self._url, version="auto", timeout=QUICK_SECONDS)
            client.timeout = seconds
            with self._lock:
                client = self._clients.setdefault(seconds, client)
        return client

    def _remove_quietly(self, container_id: str) -> None:
        try:
            self.remove(container_id)
        except EngineFault:
            return  # the sweep finds it by its label


class _Absent(EngineFault):
    """Docker does not have the object; never leaves this file."""


class _Silent(EngineUnavailable):
    """Docker is connected, but does not answer in time."""


class _Conflict(EngineFault):
    """The request conflicts with the state of an object; never leaves this file."""


@contextmanager
def _translated(url: str) -> Iterator[None]:
    try:
        yield
    except docker.errors.APIError as error:
        text = f"Docker refused: {plain(error.explanation or error)}"
        status = error.response.status_code if error.response is not None else 0
        if status == _NOT_FOUND:
            raise _Absent(text) from error
        if status == _CONFLICT:
            raise _Conflict(text) from error
        raise EngineFault(text) from error
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        cause = _cause(error)
        if isinstance(cause, TimeoutError):
            raise _Silent(f"Docker at {url} does not answer") from error
        reason = plain(getattr(cause, "strerror", None) or cause)
        raise EngineUnavailable(f"Docker at {url} cannot be reached: {reason}") from error


def _cause(error: BaseException) -> BaseException:
    """The innermost error, such as a refused connection: docker-py wraps it four times."""
    seen = error
    while seen.__cause__ is not None or seen.__context__ is not None:
        seen = seen.__cause__ or seen.__context__  # type: ignore[assignment]
    return seen
