"""What a sandbox will be, before there is one: its key, its uid, the body of Docker's ``create``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from storlet_middleware.config import Config
from storlet_middleware.sandboxd import docker, hardening
from storlet_middleware.sandboxd.errors import ImageMissing, PlaceFault, StartupFault
from storlet_middleware.sandboxd.identity import Identities, Identity
from storlet_middleware.sandboxd.keys import USER_CLASS, sandbox_key
from storlet_middleware.sandboxd.places import Places

_KEY: Final = re.compile("[0-9a-f]{16}")
_NODE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class Plan:
    """Everything that a sandbox is made from."""

    account: str
    trust_class: str
    key: str
    identity: Identity
    container_name: str
    body: Mapping[str, Any]
    #: The container was made differently from what ``body`` says: by an older sandboxd, image or configuration.
    is_outdated: bool = False

    @property
    def code_mark(self) -> str:
        """Which directory the sandbox sees its code in (:meth:`Places.code_mark`)."""
        return str(self.body["Labels"][docker.LABEL_CODE])

    @property
    def config_hash(self) -> str:
        """Changes with anything that the container is made with."""
        return str(self.body["Labels"][docker.LABEL_CONFIG])


class Planner:
    """Makes plans for accounts; blocks on Docker, the disk and a lock."""

    def __init__(self, config: Config, engine: docker.Engine, places: Places, identities: Identities) -> None:
        self._config = config
        self._engine = engine
        self._places = places
        self._identities = identities

    def key(self, account: str) -> str:
        """The key of an account's sandbox; does not block."""
        return sandbox_key(account, USER_CLASS, self._config.sandbox.image)

    def plan(self, account: str) -> Plan:
        """The plan for an account's sandbox from the present image."""
        return self._plan(account, self.key(account), self._engine.image_id(self._config.sandbox.image))

    def plan_of(self, container: docker.Container) -> Plan | None:
        """The plan of a container that an earlier sandboxd left, or ``None`` when it is of no use.

        One that runs but would be made differently today, or from an image of another name, is outdated: it may finish
        what it works on.
        """
        account = container.labels.get(docker.LABEL_ACCOUNT, "")
        key = container.labels.get(docker.LABEL_KEY, "")
        known = (container.labels.get(docker.LABEL_CLASS), container.name)
        if not container.is_running or not _KEY.fullmatch(key) or known != (USER_CLASS, self._container_name(key)):
            return None
        try:
            image_id = self._engine.image_id(self._config.sandbox.image)
        except ImageMissing:
            image_id = container.image_id  # a running sandbox is worth more than none
        try:
            plan = self._plan(account, key, image_id)
        except PlaceFault:
            return None  # its code directory is gone
        if plan.code_mark != container.labels.get(docker.LABEL_CODE):
            return None  # it sees a code directory that nobody writes to any more
        is_outdated = key != self.key(account) or plan.config_hash != container.labels.get(docker.LABEL_CONFIG)
        return dataclasses.replace(plan, is_outdated=is_outdated)

    def _plan(self, account: str, key: str, image_id: str) -> Plan:
        identity = self._identities.identity(account, USER_CLASS)
        limits = self._config.limits
        facts = hardening.SandboxFacts(
            image_id=image_id,
            uid=identity.uid,
            gid=identity.gid,
            control_dir=str(self._places.control_dir(key)),
            code_dir=str(self._places.code_dir(account)),
            runtime=self._config.sandbox.runtime,
            memory_bytes=limits.memory_bytes,
            cpus=limits.cpus,
            pids=limits.pids,
            open_files=limits.open_files,
            scratch_bytes=limits.scratch_bytes,
        )
        body = hardening.container_arguments(facts, self._engine.host())
        labels = {
            docker.LABEL_NODE: self._config.sandbox.node_id,
            docker.LABEL_ACCOUNT: account,
            docker.LABEL_KEY: key,
            docker.LABEL_CLASS: USER_CLASS,
            docker.LABEL_CODE: self._places.code_mark(account),
        }
        labels[docker.LABEL_CONFIG] = hardening.arguments_hash({**body, "Labels": labels})
        return Plan(account, USER_CLASS, key, identity, self._container_name(key), {**body, "Labels": labels})

    def _container_name(self, key: str) -> str:
        return f"storlet-{self._config.sandbox.node_id}-{key}"


def check_node_id(node_id: str) -> None:
    """Raise :class:`StartupFault` for a node id that cannot be part of a container's name."""
    if not _NODE_ID.fullmatch(node_id):
        raise StartupFault(
            f"[sandbox] node_id = {node_id!r}: want letters, digits, '.', '_' or '-', beginning with a letter or digit, "
            "because it is part of the containers' names"
        )
