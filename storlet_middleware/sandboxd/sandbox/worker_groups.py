"""The worker groups of one sandbox: one per loaded storlet version.

The supervisor owns the workers.  sandboxd makes a group's listening socket, donates it to the
supervisor, and publishes the socket's path only after that.  So a path that a filter can see has a
server behind it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from storlet_daemon.protocol import messages
from storlet_middleware.sandboxd.errors import PathFault, SandboxLost
from storlet_middleware.sandboxd.node import Node
from storlet_middleware.sandboxd.plan import Plan
from storlet_middleware.sandboxd.sandbox.supervisor import Supervisor
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: Groups in one sandbox: each costs its supervisor a descriptor, and the status of all groups must
#: fit into one message.
GROUPS_MAX: Final = 128
#: Groups of one storlet: of its versions, and of the limits of requests.
GROUPS_PER_STORLET_MAX: Final = 8
#: After this time a worker has accepted a waiting connection, and its group reports itself busy.
SETTLE_SECONDS: Final = 0.05


class WorkerGroups:
    """``plan`` returns the sandbox's current plan; ``on_lost`` is called when a load finds it dead.

    Methods raise :class:`SandboxLost` when the supervisor has ended.
    """

    def __init__(
        self,
        node: Node,
        supervisor: Supervisor,
        plan: Callable[[], Plan],
        on_lost: Callable[[str], None],
    ) -> None:
        self._node = node
        self._supervisor = supervisor
        self._plan = plan
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._dirs = node.paths.sandboxes
        #: Storlet versions whose socket is published.
        self._versions: set[str] = set()
        #: Folder of each group's code; ``""``: the supervisor does not report it.
        self._codes: dict[str, str] = {}
        self._loads: dict[str, asyncio.Task[Path]] = {}
        self._last_used = self._loop.time()

    def touch(self) -> None:
        """Note that the sandbox is used now."""
        self._last_used = self._loop.time()

    async def status(self) -> tuple[messages.Group, ...]:
        """The groups as the supervisor reports them."""
        return await self._supervisor.link.status()

    async def adopt(self, versions: Sequence[str]) -> None:
        """Take over the groups of a running sandbox.

        Groups of storlets that the operator has since moved to another trust class are withdrawn,
        not unloaded: running invocations may finish, and until then the group reports itself busy.
        """
        demand, class_of = self._plan().demand, self._node.config.class_of
        self._versions = self._dirs.keep_group_sockets(self._key, versions)
        groups = await self.status()
        # A status may lack groups: their code is unknown.  Its names are not trusted.
        codes = {one.version: Path(one.code).name for one in groups}
        self._codes = dict.fromkeys(versions, "") | codes
        for group in groups:
            if class_of(demand.account, group.name).name != demand.trust_class:
                self._dirs.withdraw(self._key, group.version)
                self._versions.discard(group.version)

    def code_in_use(self) -> set[Path]:
        """Folders of code that must stay: of its groups, or of its whole account when unknown."""
        code, account = self._node.paths.code, self._plan().account
        return {
            code.version_dir(account, name) if name else code.path_of(account)
            for name in self._codes.values()
        }

    # --- idle -------------------------------------------------------------------------------------

    def idle_seconds(self, groups: Sequence[messages.Group]) -> float:
        """Seconds since the last use; negative while any invocation or load is under way."""
        if self._loads or any(group.busy for group in groups):
            return -1.0
        now = self._loop.time()
        return min([now - self._last_used, *(group.idle_seconds for group in groups)])

    async def retire(self, idle_seconds: float) -> bool:
        """Withdraw all groups; return whether they have then been idle for ``idle_seconds``.

        The paths are unlinked first and the supervisor's status is read a moment later, so that a
        filter that has just connected is noticed.  A sandbox that turns out to be busy loses only
        its paths; the next :meth:`load` publishes new ones.
        """
        if self._loads:
            return False
        for version in self._versions:
            self._dirs.withdraw(self._key, version)
        self._versions.clear()
        await asyncio.sleep(SETTLE_SECONDS)
        return self.idle_seconds(await self.status()) >= idle_seconds

    async def unload_idle(self, groups: Sequence[messages.Group]) -> None:
        """Unload groups without workers that were idle for twice ``group_idle_seconds``."""
        limit = 2 * self._node.config.invocation.group_idle_seconds
        for group in groups:
            is_idle = not group.busy and not group.workers and group.idle_seconds > limit
            if is_idle and group.version not in self._loads:
                await self._unload(group)
        pid = self._supervisor.pid
        if pid:
            in_use = [*self._versions, *self._loads]
            await self._node.moving.call(self._node.worker_cgroups.remove_others, pid, in_use)

    # --- load -------------------------------------------------------------------------------------

    async def load(self, storlet: messages.Storlet) -> Path:
        """The path of a storlet's socket; concurrent callers share one load."""
        self.touch()
        task = self._loads.get(storlet.version)
        if task is None:
            task = self._loop.create_task(self._load(storlet))
            self._loads[storlet.version] = task
            task.add_done_callback(lambda _: self._loads.pop(storlet.version, None))
        try:
            return await asyncio.shield(task)
        finally:
            self.touch()

    @property
    def _key(self) -> str:
        return self._plan().key

    async def _load(self, storlet: messages.Storlet) -> Path:
        try:
            if await self._is_live(storlet.version):
                return self._dirs.group_socket(self._key, storlet.version)
            await self._evict_surplus(storlet.name)
            return await self._load_new(storlet)
        except SandboxLost as error:
            self._on_lost(str(error))
            raise
        except PathFault as error:
            # Our directories were removed; a new sandbox gets new ones.
            self._on_lost(str(error))
            raise SandboxLost(str(error)) from error

    async def _is_live(self, version: str) -> bool:
        """Whether the supervisor is alive and has the group, and the group's path exists."""
        if version not in self._versions:
            return False
        groups = await self.status()
        path = self._dirs.group_socket(self._key, version)
        if path.is_socket() and any(group.version == version for group in groups):
            return True
        self._versions.discard(version)
        return False

    async def _load_new(self, storlet: messages.Storlet) -> Path:
        link = self._supervisor.link
        began = time.monotonic()
        plan, key = self._plan(), self._key
        if self._node.paths.code.mark(plan.account) != plan.code_mark:
            raise SandboxLost("its code directory was replaced, and it sees the old one")
        listener, temporary = self._dirs.listen_for_invocations(key)
        try:
            await link.load(lambda number: self._load_command(storlet, number), listener)
            path = self._dirs.publish(temporary, key, storlet.version)
        except OSError as error:
            raise PathFault(f"{temporary}: {error.strerror}") from error
        finally:
            temporary.unlink(missing_ok=True)
        self._versions.add(storlet.version)
        self._codes[storlet.version] = storlet.code
        log.info(
            "storlet loaded key=%s account=%s storlet=%s version=%s ms=%.1f",
            key, shown(plan.account), shown(storlet.name), storlet.version[:12],
            (time.monotonic() - began) * 1000,
        )  # fmt: skip
        return path

    def _load_command(self, storlet: messages.Storlet, number: int) -> messages.Load:
        invocation = self._node.config.invocation
        return messages.Load(
            request=number,
            version=storlet.version,
            code=storlet.code,
            language=storlet.language,
            language_version=storlet.language_version,
            arguments=storlet.arguments,
            main=storlet.main,
            file=storlet.file,
            name=storlet.name,
            dependencies=storlet.dependencies,
            workers_max=invocation.workers.get(storlet.language, 1),
            runs_per_worker=invocation.runs_per_worker,
            idle_seconds=invocation.group_idle_seconds,
            load_seconds=invocation.load_seconds,
            limits=storlet.limits,
        )

    async def _evict_surplus(self, name: str) -> None:
        """Unload the group that was idle longest: of the storlet if it has its share, else of all.

        Groups that are busy stay, so the number of running invocations bounds them too.
        """
        if len(self._versions) < GROUPS_PER_STORLET_MAX:
            return
        groups = await self.status()
        own = [one for one in groups if one.name == name]
        if len(own) >= GROUPS_PER_STORLET_MAX:
            groups = tuple(own)
        elif len(self._versions) < GROUPS_MAX:
            return
        idle = [one for one in groups if not one.busy and one.version not in self._loads]
        if idle:
            await self._unload(max(idle, key=lambda group: group.idle_seconds))

    async def _unload(self, group: messages.Group) -> None:
        # The path first: a filter that finds no path requests a load, and one that has connected
        # is served to the end.
        self._dirs.withdraw(self._key, group.version)
        self._versions.discard(group.version)
        await self._supervisor.link.unload(group.version)
        self._codes.pop(group.version, None)
        log.info(
            "storlet unloaded key=%s version=%s runs=%d", self._key, group.version[:12], group.runs
        )
