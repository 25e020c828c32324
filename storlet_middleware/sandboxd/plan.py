"""The plan of a sandbox, before it is made: its key, its uid, the body of Docker's ``create``.

Plans are made for tenants, for pre-warmed sandboxes (``spares``), for the self-test
(``self_test_plans``), and for containers that an earlier sandboxd left, to decide whether they can
be adopted.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from storlet_middleware.config import ADMIN_CLASS, CLASSES, USER_CLASS, Config, LimitsSection
from storlet_middleware.keys import sandbox_key
from storlet_middleware.sandboxd import docker, hardening
from storlet_middleware.sandboxd.directories.paths import NodePaths
from storlet_middleware.sandboxd.errors import ImageMissing, MountMissing, PathFault, StartupFault
from storlet_middleware.sandboxd.identity import Identities, Identity

#: The account of the self-test's sandboxes: not a tenant, because account names have no slash.
SELF_TEST_ACCOUNT: Final = "/self-test"

_NODE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class Demand:
    """The sandbox that a storlet needs: one per account, trust class and image."""

    account: str
    trust_class: str
    image: str

    @property
    def key(self) -> str:
        """The key of the sandbox on every node."""
        return sandbox_key(self.account, self.trust_class, self.image)


@dataclass(frozen=True)
class Assignment:
    """The tenant of a pre-warmed sandbox, in its note because Docker's labels cannot change."""

    container: str
    demand: Demand
    uid: int
    code_mark: str


@dataclass(frozen=True)
class Plan:
    """Everything that a sandbox is made from."""

    demand: Demand
    #: The name of its directories: the demand's key, or the key before its assignment.
    key: str
    identity: Identity
    container_name: str
    facts: hardening.SandboxFacts
    body: Mapping[str, Any]
    #: The container does not match ``body``: it has an older image or other options.
    is_outdated: bool = False
    #: An earlier sandboxd detached it as outdated, and another sandbox has its key.
    is_detached: bool = False

    @property
    def account(self) -> str:
        """The tenant's account."""
        return self.demand.account

    @property
    def code_mark(self) -> str:
        """The identity of the mounted code directory (:meth:`CodeDirs.mark`)."""
        return str(self.body["Labels"][docker.LABEL_CODE])

    @property
    def config_hash(self) -> str:
        """Changes with anything that the container is made with."""
        return str(self.body["Labels"][docker.LABEL_CONFIG])


@dataclass(frozen=True)
class _Subject:
    """The tenant and the names of a sandbox; a pre-warmed sandbox has an empty account."""

    demand: Demand
    key: str
    name: str
    identity: Identity
    code_dir: Path
    code_mark: str


class Planner:
    """Makes plans; all methods except :meth:`demand` may block on Docker or the disk."""

    def __init__(
        self, config: Config, engine: docker.Engine, paths: NodePaths, identities: Identities
    ) -> None:
        self._config = config
        self._engine = engine
        self._paths = paths
        self._identities = identities

    def demand(self, account: str, storlet: str) -> Demand:
        """The sandbox that a storlet of an account runs in; does not block."""
        trust_class = self._config.class_of(account, storlet).name
        return Demand(account, trust_class, self._config.image_of(account))

    def plan(self, demand: Demand, limits: LimitsSection | None = None) -> Plan:
        """The plan for a new sandbox, from the current image of its name.

        :param limits: ``None``: those of its class.
        """
        self._check_mounts(demand.trust_class)
        image_id = self._engine.image_id(demand.image)
        return self._plan(demand, image_id, limits or self._limits(demand))

    def plan_of(self, container: docker.Container) -> Plan | None:
        """The plan of a container that an earlier sandboxd left, or ``None`` when it is unusable.

        A container that runs but would be made differently today is outdated: it may finish its
        invocations.
        """
        account = container.labels.get(docker.LABEL_ACCOUNT, "")
        # Containers from before this label existed were made from the configured image.
        image = container.labels.get(docker.LABEL_IMAGE) or self._config.image_of(account)
        demand = Demand(account, container.labels.get(docker.LABEL_CLASS, ""), image)
        name = self._container_name(demand.key)
        is_detached = container.name == detached_name(name, container.id)
        known = (container.labels.get(docker.LABEL_KEY), name if is_detached else container.name)
        is_ours = demand.trust_class in CLASSES and known == (demand.key, name)
        # A sandbox of the self-test: sandboxd ended in the middle of the test.
        if not container.is_running or not is_ours or account == SELF_TEST_ACCOUNT:
            return None
        try:
            image_id = self._image_id(demand.image, container)
            plan = self._plan(demand, image_id, self._limits(demand))
        except PathFault:
            return None  # its code directory does not exist any more
        if is_detached:
            return _detached(plan, container)
        if plan.code_mark != container.labels.get(docker.LABEL_CODE):
            return None  # its code directory was replaced: no new code would reach it
        is_current = plan.config_hash == container.labels.get(docker.LABEL_CONFIG)
        is_outdated = not is_current or not self._is_wanted(demand)
        return dataclasses.replace(plan, is_outdated=is_outdated)

    # --- pre-warmed sandboxes ---------------------------------------------------------------------

    def spare_plan(self, key: str, limits: LimitsSection | None = None) -> Plan:
        """The plan for a pre-warmed sandbox, which is of the user class.

        :param limits: ``None``: those of its class.
        """
        image_id = self._engine.image_id(self._config.sandbox.image)
        limits = limits or self._config.classes[USER_CLASS].limits
        return self._spare_plan(key, image_id, limits)

    @property
    def spare_runtime(self) -> str:
        """The OCI runtime of spares."""
        return self._config.classes[USER_CLASS].runtime

    def can_be_spare(self, demand: Demand) -> bool:
        """Whether a pre-warmed sandbox can satisfy a demand."""
        return demand.trust_class == USER_CLASS and demand.image == self._config.sandbox.image

    def assigned_plan(self, demand: Demand, spare: Plan) -> Plan:
        """The plan of a pre-warmed sandbox once it is assigned to ``demand``."""
        return in_directories_of(
            spare, self._plan(demand, spare.facts.image_id, self._limits(demand))
        )

    def assigned_plan_of(self, container: docker.Container, assignment: Assignment) -> Plan | None:
        """The plan of one that an earlier sandboxd assigned, or ``None`` when it is unusable."""
        if not container.is_running or container.id != assignment.container:
            return None
        demand, key = assignment.demand, container.labels.get(docker.LABEL_KEY, "")
        try:
            image_id = self._image_id(demand.image, container)
            spare = self._spare_plan(key, image_id, self._config.classes[USER_CLASS].limits)
            plan = self.assigned_plan(demand, spare)
        except PathFault:
            return None
        if plan.identity.uid != assignment.uid:
            return None
        if container.name == detached_name(plan.container_name, container.id):
            return _detached(plan, container)
        if plan.code_mark != assignment.code_mark:
            return None
        is_current = spare.config_hash == container.labels.get(docker.LABEL_CONFIG)
        is_outdated = not is_current or not self._is_wanted(demand)
        return dataclasses.replace(plan, is_outdated=is_outdated)

    # --- parts ------------------------------------------------------------------------------------

    def _limits(self, demand: Demand) -> LimitsSection:
        return self._config.classes[demand.trust_class].limits

    def _image_id(self, image: str, container: docker.Container) -> str:
        """The id of an image; when it does not exist any more, the id that the container has.

        That keeps a running sandbox, which is worth more than none.
        """
        try:
            return self._engine.image_id(image)
        except ImageMissing:
            return container.image_id

    def _check_mounts(self, trust_class: str) -> None:
        for mount in self._config.classes[trust_class].mounts:
            if not Path(mount.source).is_dir():
                raise MountMissing(
                    f"[class:{trust_class}] mounts: {mount.source} is no directory of this node"
                )

    def _is_wanted(self, demand: Demand) -> bool:
        """Whether any storlet of the account would get such a sandbox today."""
        admin = self._config.classes[ADMIN_CLASS]
        classes = {ADMIN_CLASS} if demand.account in admin.accounts else {USER_CLASS}
        if any(storlet.startswith(f"{demand.account}/") for storlet in admin.storlets):
            classes.add(ADMIN_CLASS)
        image = self._config.image_of(demand.account)
        return demand.trust_class in classes and demand.image == image

    def _plan(self, demand: Demand, image_id: str, limits: LimitsSection) -> Plan:
        identity = self._identities.identity(demand.account, demand.trust_class)
        code = self._paths.code
        code_dir, mark = code.path_of(demand.account), code.mark(demand.account)
        subject = _Subject(demand, demand.key, demand.key, identity, code_dir, mark)
        return self._made_for(subject, image_id, limits)

    def _spare_plan(self, key: str, image_id: str, limits: LimitsSection) -> Plan:
        demand = Demand("", USER_CLASS, self._config.sandbox.image)
        root = Identity("", USER_CLASS, 0)
        subject = _Subject(demand, key, f"spare-{key}", root, self._paths.empty_dir, "")
        return self._made_for(subject, image_id, limits)

    def _made_for(self, subject: _Subject, image_id: str, limits: LimitsSection) -> Plan:
        demand, trust_class = subject.demand, self._config.classes[subject.demand.trust_class]
        host = self._engine.host()
        facts = hardening.SandboxFacts(
            image_id=image_id,
            uid=subject.identity.uid,
            gid=subject.identity.gid,
            control_dir=str(self._paths.sandboxes.control_dir(subject.key)),
            code_dir=str(subject.code_dir),
            runtime=trust_class.runtime,
            memory_bytes=limits.memory_bytes,
            cpus=limits.cpus,
            pids=limits.pids,
            open_files=limits.open_files,
            scratch_bytes=limits.scratch_bytes,
            network=trust_class.network,
            mounts=trust_class.mounts,
            has_file_locks=trust_class.file_locks,
            cgroup_parent=hardening.cgroup_parent(self._config.sandbox.node_id, host),
            is_spare=not demand.account,
        )
        body = hardening.container_arguments(facts, host)
        labels = {
            docker.LABEL_NODE: self._config.sandbox.node_id,
            docker.LABEL_ACCOUNT: demand.account,
            docker.LABEL_CLASS: demand.trust_class,
            docker.LABEL_IMAGE: demand.image,
            docker.LABEL_KEY: subject.key,
            docker.LABEL_CODE: subject.code_mark,
        }
        labels[docker.LABEL_CONFIG] = hardening.arguments_hash({**body, "Labels": labels})
        name, body = self._container_name(subject.name), {**body, "Labels": labels}
        return Plan(demand, subject.key, subject.identity, name, facts, body)

    def _container_name(self, key: str) -> str:
        return f"storlet-{self._config.sandbox.node_id}-{key}"


def detached_key(container_id: str) -> str:
    """The key of the directories of a detached sandbox."""
    return container_id[:16]


def detached_name(name: str, container_id: str) -> str:
    """The name of its container."""
    return f"{name}-{container_id[:12]}"


def _detached(plan: Plan, container: docker.Container) -> Plan:
    key = detached_key(container.id)
    return dataclasses.replace(plan, key=key, is_outdated=True, is_detached=True)


def in_directories_of(spare: Plan, plan: Plan) -> Plan:
    """A tenant's plan for a container that was made pre-warmed, and keeps its directories."""
    facts = dataclasses.replace(plan.facts, control_dir=spare.facts.control_dir)
    return dataclasses.replace(plan, facts=facts, key=spare.key)


def check_node_id(node_id: str) -> None:
    """Raise :class:`StartupFault` for a node id that cannot be part of a container's name."""
    if not _NODE_ID.fullmatch(node_id):
        raise StartupFault(
            f"[sandbox] node_id = {node_id!r}: want letters, digits, '.', '_' or '-', beginning "
            "with a letter or digit, because it is part of the containers' names"
        )
