"""What a sandbox will be, before there is one: its key, its uid, the body of Docker's ``create``."""

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
from storlet_middleware.sandboxd.errors import ImageMissing, MountMissing, PlaceFault, StartupFault
from storlet_middleware.sandboxd.identity import Identities, Identity
from storlet_middleware.sandboxd.places import Places

#: Whose the sandboxes of the self-test are: no account, because Swift's names of accounts have no slash.
SELF_TEST_ACCOUNT: Final = "/self-test"
#: Small, so that the limits are reached at once.
_SELF_TEST_LIMITS: Final = {
    "memory_bytes": 128 << 20,
    "pids": 64,
    "open_files": 256,
    "scratch_bytes": 8 << 20,
}

_NODE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class Demand:
    """Which sandbox a storlet needs: there is one for each account, trust class and image."""

    account: str
    trust_class: str
    image: str

    @property
    def key(self) -> str:
        """The name of the sandbox on every node."""
        return sandbox_key(self.account, self.trust_class, self.image)


@dataclass(frozen=True)
class Given:
    """What must be known of a pre-warmed sandbox that was given to a tenant, because Docker's labels cannot change."""

    container: str
    demand: Demand
    uid: int
    code_mark: str


@dataclass(frozen=True)
class Plan:
    """Everything that a sandbox is made from."""

    demand: Demand
    #: The name of its directories: its demand's key, or what a pre-warmed sandbox was called before it was given away.
    key: str
    identity: Identity
    container_name: str
    facts: hardening.SandboxFacts
    body: Mapping[str, Any]
    #: The container was made differently from what ``body`` says: by an older sandboxd, image or configuration.
    is_outdated: bool = False
    #: It was outdated for an earlier sandboxd already, and another has its place.
    is_aside: bool = False

    @property
    def account(self) -> str:
        """Whose sandbox it is."""
        return self.demand.account

    @property
    def code_mark(self) -> str:
        """Which directory the sandbox sees its code in (:meth:`Places.code_mark`)."""
        return str(self.body["Labels"][docker.LABEL_CODE])

    @property
    def config_hash(self) -> str:
        """Changes with anything that the container is made with."""
        return str(self.body["Labels"][docker.LABEL_CONFIG])


@dataclass(frozen=True)
class _Who:
    """For whom a sandbox is made, and by which names; ``account`` of a spare's demand is empty."""

    demand: Demand
    key: str
    name: str
    identity: Identity
    code_dir: Path
    code_mark: str


class Planner:
    """Makes plans for demands; blocks on Docker, the disk and a lock, but for :meth:`demand`."""

    def __init__(
        self, config: Config, engine: docker.Engine, places: Places, identities: Identities
    ) -> None:
        self._config = config
        self._engine = engine
        self._places = places
        self._identities = identities

    def demand(self, account: str, storlet: str) -> Demand:
        """Which sandbox a storlet of an account runs in; does not block."""
        return Demand(
            account, self._config.class_of(account, storlet).name, self._config.image_of(account)
        )

    def plan(self, demand: Demand) -> Plan:
        """The plan for a new sandbox, from the present image of its name."""
        self._check_mounts(demand.trust_class)
        return self._plan(
            demand,
            self._engine.image_id(demand.image),
            self._config.classes[demand.trust_class].limits,
        )

    # Pre-warmed sandboxes (``spares``).

    def spare_plan(self, key: str) -> Plan:
        """The plan for a sandbox of the user class that is nobody's yet."""
        image_id = self._engine.image_id(self._config.sandbox.image)
        return self._spare_plan(key, image_id, self._config.classes[USER_CLASS].limits)

    def _spare_plan(self, key: str, image_id: str, limits: LimitsSection) -> Plan:
        demand = Demand("", USER_CLASS, self._config.sandbox.image)
        who = _Who(
            demand, key, f"spare-{key}", Identity("", USER_CLASS, 0), self._places.empty_dir, ""
        )
        return self._made_for(who, image_id, limits)

    @property
    def spare_runtime(self) -> str:
        """The OCI runtime of pre-warmed sandboxes."""
        return self._config.classes[USER_CLASS].runtime

    def can_be_spare(self, demand: Demand) -> bool:
        """Whether a pre-warmed sandbox is what is needed."""
        return demand.trust_class == USER_CLASS and demand.image == self._config.sandbox.image

    def given_plan(self, demand: Demand, spare: Plan) -> Plan:
        """The plan of a pre-warmed sandbox for whom it is given to."""
        plan = self._plan(
            demand, spare.facts.image_id, self._config.classes[demand.trust_class].limits
        )
        facts = dataclasses.replace(plan.facts, control_dir=spare.facts.control_dir)
        return dataclasses.replace(plan, facts=facts, key=spare.key)

    def given_plan_of(self, container: docker.Container, given: Given) -> Plan | None:
        """The plan of a pre-warmed sandbox that an earlier sandboxd gave to a tenant; ``None``: it is of no use."""
        if not container.is_running or container.id != given.container:
            return None
        try:
            image_id = self._image_id(given.demand.image, container)
            key, limits = (
                container.labels.get(docker.LABEL_KEY, ""),
                self._config.classes[USER_CLASS].limits,
            )
            spare = self._spare_plan(key, image_id, limits)
            plan = self.given_plan(given.demand, spare)
        except PlaceFault:
            return None
        if plan.identity.uid != given.uid:
            return None
        if container.name == aside_name(plan.container_name, container.id):
            return _aside(plan, container)
        if plan.code_mark != given.code_mark:
            return None
        is_outdated = not self._is_wanted(
            given.demand
        ) or spare.config_hash != container.labels.get(docker.LABEL_CONFIG)
        return dataclasses.replace(plan, is_outdated=is_outdated)

    # The self-test asks for these (``gate``); everything but the size of the limits is as a tenant of the class has it.

    def self_test_demand(self, trust_class: str) -> Demand:
        """Which sandbox is for the self-test of a class."""
        return Demand(SELF_TEST_ACCOUNT, trust_class, self._config.sandbox.image)

    def self_test_limits(self, trust_class: str) -> LimitsSection:
        """The limits of that sandbox."""
        limits = self._config.classes[trust_class].limits
        small = {
            name: min(getattr(limits, name), value) for name, value in _SELF_TEST_LIMITS.items()
        }
        return dataclasses.replace(limits, **small)

    def self_test_plan(self, trust_class: str) -> Plan:
        """The plan for it."""
        demand = self.self_test_demand(trust_class)
        self._check_mounts(trust_class)
        return self._plan(
            demand, self._engine.image_id(demand.image), self.self_test_limits(trust_class)
        )

    def self_test_spare_plan(self) -> Plan:
        """The plan for a pre-warmed one; always of the same name, so that the next one removes what is left of it."""
        key = sandbox_key(SELF_TEST_ACCOUNT, "spare", self._config.sandbox.image)
        image_id = self._engine.image_id(self._config.sandbox.image)
        return self._spare_plan(key, image_id, self.self_test_limits(USER_CLASS))

    def self_test_given_plan(self, spare: Plan) -> Plan:
        """The plan of that one once it is given away."""
        plan = self.self_test_plan(USER_CLASS)
        facts = dataclasses.replace(plan.facts, control_dir=spare.facts.control_dir)
        return dataclasses.replace(plan, facts=facts, key=spare.key)

    def plan_of(self, container: docker.Container) -> Plan | None:
        """The plan of a container that an earlier sandboxd left, or ``None`` when it is of no use.

        One that runs but would be made differently today, of another image or not at all, is outdated: it may finish
        what it works on.
        """
        account = container.labels.get(docker.LABEL_ACCOUNT, "")
        # Before there was such a label, every container was made of the configured image.
        image = container.labels.get(docker.LABEL_IMAGE) or self._config.image_of(account)
        demand = Demand(account, container.labels.get(docker.LABEL_CLASS, ""), image)
        name = self._container_name(demand.key)
        is_aside = container.name == aside_name(name, container.id)
        known = (container.labels.get(docker.LABEL_KEY), name if is_aside else container.name)
        is_ours = (
            container.is_running and demand.trust_class in CLASSES and known == (demand.key, name)
        )
        if (
            not is_ours or account == SELF_TEST_ACCOUNT
        ):  # of a sandboxd that ended in the middle of a self-test
            return None
        try:
            image_id = self._image_id(demand.image, container)
            plan = self._plan(demand, image_id, self._config.classes[demand.trust_class].limits)
        except PlaceFault:
            return None  # its code directory is gone
        if is_aside:
            return _aside(plan, container)
        if plan.code_mark != container.labels.get(docker.LABEL_CODE):
            return None  # it sees a code directory that nobody writes to any more
        is_outdated = not self._is_wanted(demand) or plan.config_hash != container.labels.get(
            docker.LABEL_CONFIG
        )
        return dataclasses.replace(plan, is_outdated=is_outdated)

    def _image_id(self, image: str, container: docker.Container) -> str:
        """What a new container would be made of; where the image is not there, what this one was made of."""
        try:
            return self._engine.image_id(image)
        except ImageMissing:
            return container.image_id  # a running sandbox is worth more than none

    def _check_mounts(self, trust_class: str) -> None:
        for mount in self._config.classes[trust_class].mounts:
            if not Path(mount.source).is_dir():
                raise MountMissing(
                    f"[class:{trust_class}] mounts: {mount.source} is no directory of this node"
                )

    def _is_wanted(self, demand: Demand) -> bool:
        """Whether any storlet of the account would be given such a sandbox today."""
        admin = self._config.classes[ADMIN_CLASS]
        classes = {ADMIN_CLASS} if demand.account in admin.accounts else {USER_CLASS}
        if any(storlet.startswith(f"{demand.account}/") for storlet in admin.storlets):
            classes.add(ADMIN_CLASS)
        return demand.trust_class in classes and demand.image == self._config.image_of(
            demand.account
        )

    def _plan(self, demand: Demand, image_id: str, limits: LimitsSection) -> Plan:
        identity = self._identities.identity(demand.account, demand.trust_class)
        code_dir, mark = (
            self._places.code_dir(demand.account),
            self._places.code_mark(demand.account),
        )
        return self._made_for(
            _Who(demand, demand.key, demand.key, identity, code_dir, mark), image_id, limits
        )

    def _made_for(self, who: _Who, image_id: str, limits: LimitsSection) -> Plan:
        demand, trust_class = who.demand, self._config.classes[who.demand.trust_class]
        host = self._engine.host()
        facts = hardening.SandboxFacts(
            image_id=image_id,
            uid=who.identity.uid,
            gid=who.identity.gid,
            control_dir=str(self._places.control_dir(who.key)),
            code_dir=str(who.code_dir),
            runtime=trust_class.runtime,
            memory_bytes=limits.memory_bytes,
            cpus=limits.cpus,
            pids=limits.pids,
            open_files=limits.open_files,
            scratch_bytes=limits.scratch_bytes,
            network=trust_class.network,
            mounts=trust_class.mounts,
            cgroup_parent=hardening.cgroup_parent(self._config.sandbox.node_id, host),
            is_spare=not demand.account,
        )
        body = hardening.container_arguments(facts, host)
        labels = {
            docker.LABEL_NODE: self._config.sandbox.node_id,
            docker.LABEL_ACCOUNT: demand.account,
            docker.LABEL_CLASS: demand.trust_class,
            docker.LABEL_IMAGE: demand.image,
            docker.LABEL_KEY: who.key,
            docker.LABEL_CODE: who.code_mark,
        }
        labels[docker.LABEL_CONFIG] = hardening.arguments_hash({**body, "Labels": labels})
        name = self._container_name(who.name)
        return Plan(demand, who.key, who.identity, name, facts, {**body, "Labels": labels})

    def _container_name(self, key: str) -> str:
        return f"storlet-{self._config.sandbox.node_id}-{key}"


def aside_key(container_id: str) -> str:
    """The name of the directories of a sandbox that was set aside."""
    return container_id[:16]


def aside_name(name: str, container_id: str) -> str:
    """The name of its container."""
    return f"{name}-{container_id[:12]}"


def _aside(plan: Plan, container: docker.Container) -> Plan:
    return dataclasses.replace(plan, key=aside_key(container.id), is_outdated=True, is_aside=True)


def check_node_id(node_id: str) -> None:
    """Raise :class:`StartupFault` for a node id that cannot be part of a container's name."""
    if not _NODE_ID.fullmatch(node_id):
        raise StartupFault(
            f"[sandbox] node_id = {node_id!r}: want letters, digits, '.', '_' or '-', beginning with a letter or digit, "
            "because it is part of the containers' names"
        )
