"""One sandbox of the node, from its start or adoption to its end.

It owns the control listener (only while it waits for the supervisor), the control link, the container's id and the
sockets of its storlets.  All of it lives in the loop; Docker's calls run in threads and touch nothing here.

A *group* is the supervisor's set of workers for one storlet version.  sandboxd makes the group's listening socket, gives
it away and publishes its path only when the supervisor has it; so a path that a filter can see has somebody behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import logging
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from storlet_daemon.protocol import messages
from storlet_middleware.config import Config, LimitsSection
from storlet_middleware.sandboxd import mounting, process, readback
from storlet_middleware.sandboxd.cgroups import Cgroups
from storlet_middleware.sandboxd.control import ControlLink, PeerCheck, peer_of
from storlet_middleware.sandboxd.docker import Engine
from storlet_middleware.sandboxd.errors import (
    EngineFault,
    NameTaken,
    PlaceFault,
    SandboxLost,
    SandboxWeak,
)
from storlet_middleware.sandboxd.hardening import CODE_TARGET, SandboxFacts
from storlet_middleware.sandboxd.places import Places
from storlet_middleware.sandboxd.plan import Plan, aside_key
from storlet_middleware.sandboxd.threads import Threads
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: While a supervisor has not said hello, Docker is asked so often whether its container still runs.
LOOK_SECONDS: Final = 0.25
#: Groups in one sandbox: each costs its supervisor a descriptor, and a status of all must fit into one message.
GROUPS_MAX: Final = 128
#: Workers of the whole node that are moved into their control groups at a time.
PLACING_MAX: Final = 4
#: Containers of the whole node that are being removed at a time.
REMOVING_MAX: Final = 4
#: What was used this recently is not idle: its filter may hold the socket's path and be about to connect.
RECENT_SECONDS: Final = 2.0
#: By then a waiting connection has been taken by a worker, and its group says that it is busy.
SETTLE_SECONDS: Final = 0.05


class State(enum.StrEnum):
    """Where a sandbox is in its life."""

    STARTING = "starting"
    SPARE = "spare"
    RUNNING = "running"
    DRAINING = "draining"
    ENDING = "ending"


Mounter = Callable[[Path, int, str, Callable[[], bool]], None]
ReadBack = Callable[[SandboxFacts, Mapping[str, str], Mapping[str, Any]], list[str]]


@dataclass(frozen=True)
class Node:
    """What all sandboxes of the node share."""

    config: Config
    engine: Engine
    places: Places
    threads: Threads
    stranger: PeerCheck
    weaker: ReadBack = readback.faults
    cgroups: Cgroups = field(default_factory=Cgroups)
    #: Places for placing workers, which Docker's slowness must not take away.
    placing: Threads = field(default_factory=lambda: Threads(PLACING_MAX))
    #: Places for removals: the kernel frees a large one slowly, or not while the disk hangs, and starts must not wait for that.
    removing: Threads = field(default_factory=lambda: Threads(REMOVING_MAX))
    mount: Mounter = mounting.mount_read_only


class Sandbox:
    """Made from a plan; then :meth:`start` or :meth:`adopt`, once; then :meth:`cut` and :meth:`remove`, once.

    ``on_lost(sandbox, reason)`` is called at most once, when a running sandbox ends without being told to.
    """

    def __init__(self, plan: Plan, node: Node, on_lost: Callable[[Sandbox, str], None]) -> None:
        self.plan = plan
        self.state = State.STARTING
        self.container_id: str | None = None
        self.started_at = time.time()
        self._node = node
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._begun = self._last_used = self._loop.time()
        self._link: ControlLink | None = None
        self._met: asyncio.Future[messages.Hello] = self._loop.create_future()
        self._versions: set[str] = set()
        #: Folder of the code of each group that its supervisor has; ``""``: a supervisor that does not say it.
        self._codes: dict[str, str] = {}
        self._loads: dict[str, asyncio.Task[Path]] = {}
        self._is_lost = False
        self._supervisor_pid = 0
        self._renaming: asyncio.Task[None] | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()

    @property
    def supervisor_pid(self) -> int:
        """Process 1 of the sandbox, as we see it; 0 while there is none, or where it is out of sight."""
        return self._supervisor_pid

    @property
    def is_lost(self) -> bool:
        """Whether it has ended by itself."""
        return self._is_lost

    @property
    def lived_seconds(self) -> float:
        """Since it was made or adopted."""
        return self._loop.time() - self._begun

    # --- beginning --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Make the container and wait for its supervisor; on any fault the caller must :meth:`cut` it."""
        self._node.places.make_sandbox_dirs(self.plan.key)
        with self._listening():
            self.container_id = await self._create()
            await self._meet()
            await self._read_back()
        self._run()

    async def adopt(self, container_id: str, started_at: float) -> None:
        """Wait for the supervisor of a running container; its groups keep their sockets."""
        self.container_id, self.started_at = container_id, started_at
        self._node.places.keep_sandbox_dirs(self.plan.key)
        with self._listening():
            hello = await self._meet()
        if not self.plan.is_outdated:  # else it was made by other rules, and works to its end
            await self._read_back()
        self._versions = self._node.places.keep_group_sockets(self.plan.key, hello.groups)
        await self._take_over()
        self._run()

    async def _take_over(self) -> None:
        """Learn what runs; storlets that the operator has moved to another trust class meanwhile go on there."""
        demand, class_of = self.plan.demand, self._node.config.class_of
        groups = await self.groups()
        self._codes = {group.version: group.code for group in groups}
        for group in groups:
            if class_of(demand.account, group.name).name != demand.trust_class:
                # Not unloaded: what runs may finish, and until then the group says that it works.
                self._node.places.withdraw(self.plan.key, group.version)
                self._versions.discard(group.version)

    def _run(self) -> None:
        if self._link is None or not self._link.is_open:
            raise SandboxLost("the supervisor went away after its hello")
        self.state = State.SPARE if self.plan.facts.is_spare else State.RUNNING

    async def give(self, plan: Plan, on_lost: Callable[[Sandbox, str], None]) -> None:
        """Make a spare its tenant's for good; on any fault the caller must :meth:`cut` it.

        The code is mounted first, by us: once the supervisor is the tenant's user, nothing of root's is in there any more.
        """
        if self._link is None or self.state is not State.SPARE:
            raise SandboxLost("the spare sandbox has ended")
        self._on_lost, self.state = on_lost, State.STARTING
        call, code_dir = self._node.threads.call, self._node.places.code_dir(plan.account)
        with self._link.watched() as is_alive:
            await call(self._node.mount, code_dir, self._supervisor_pid, CODE_TARGET, is_alive)
        await self._link.assign(plan.identity)
        self.plan = plan
        await self._read_back()
        # For people who look at Docker's list; nothing waits for it, so that a Docker that hangs holds up nobody.
        self._renaming = self._loop.create_task(self._rename(plan.container_name))
        self._begun = self._last_used = self._loop.time()
        self._run()

    async def _rename(self, name: str) -> None:
        try:
            await self._node.threads.call(self._node.engine.rename, self.container_id or "", name)
        except EngineFault as fault:
            log.info("sandbox keeps its name key=%s reason=%s", self.plan.key, shown(fault))

    async def _read_back(self) -> None:
        """Hold what its kernel says against what was asked for; raises :class:`SandboxWeak`."""
        if self._link is None:
            raise SandboxLost("the supervisor went away after its hello")
        host = await self._node.threads.call(self._node.engine.host)
        faults = self._node.weaker(self.plan.facts, await self._link.inspect(), host)
        for fault in faults:
            log.error("sandbox weaker than configured key=%s fault=%s", self.plan.key, shown(fault))
        if faults:
            rows = dict.fromkeys(fault.partition(":")[0] for fault in faults)
            raise SandboxWeak(f"the sandbox came up weaker than configured: {', '.join(rows)}")

    async def _create(self) -> str:
        plan, call, engine = self.plan, self._node.threads.call, self._node.engine
        try:
            return await call(engine.start, plan.container_name, plan.body)
        except NameTaken:
            leftover = await call(engine.find, plan.container_name)
        if leftover is not None:
            if leftover.node_id != self._node.config.sandbox.node_id:
                raise EngineFault(
                    f"the name {plan.container_name} belongs to a container that is not ours"
                )
            log.warning("leftover removed key=%s container=%s", plan.key, leftover.id[:12])
            await call(engine.remove, leftover.id)
        return await call(engine.start, plan.container_name, plan.body)

    async def _meet(self) -> messages.Hello:
        """The supervisor's hello; raises :class:`SandboxLost` when its container ends before."""
        while True:
            await asyncio.wait({self._met}, timeout=LOOK_SECONDS)
            if self._met.done():
                return self._met.result()
            end = await self._node.threads.call(self._node.engine.end_of, self.container_id or "")
            if end is not None and not self._met.done():
                raise SandboxLost(f"the sandbox ended before its supervisor said hello: {end}")

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        # Only as long as needed: afterwards a tenant's code has nothing to connect to, let alone to flood.
        listener = self._node.places.listen_for_supervisor(self.plan.key)
        self._loop.add_reader(listener, self._accept, listener)
        try:
            yield
        finally:
            self._loop.remove_reader(listener)
            listener.close()
            self._node.places.stop_listening_for_supervisor(self.plan.key)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # it went away again
        reason = self._node.stranger(peer_of(connection), self.plan.identity)
        if reason or self._link is not None:
            if reason:
                log.warning("stranger refused key=%s reason=%s", self.plan.key, shown(reason))
            connection.close()
            return
        self._supervisor_pid = peer_of(connection).pid
        self._link = ControlLink(connection, self._link_ended, self._place)
        self._link.hello.add_done_callback(self._greeted)
        self._link.open()

    async def _place(self, place: messages.Place) -> str:
        """Move a new worker, which waits for it, into the control groups of its storlet."""
        directory = ""
        if (
            self._link is not None and self._supervisor_pid
        ):  # else it is out of sight, and so are its control groups
            with contextlib.suppress(SandboxLost), self._link.watched() as is_alive:
                directory = await self._node.placing.call(self.placed, place, is_alive)
        if not directory:
            log.warning(
                "worker not placed key=%s version=%s pid=%d",
                self.plan.key,
                place.version[:12],
                place.pid,
            )
        return directory

    def placed(self, place: messages.Place, is_alive: Callable[[], bool]) -> str:
        """The same in its turn, which may be late: once the supervisor has ended, its pid may be that of another process."""
        if not is_alive():
            return ""
        return self._node.cgroups.place(
            self._supervisor_pid, place.pid, place.version, place.limits
        )

    def _greeted(self, hello: asyncio.Future[messages.Hello]) -> None:
        if not hello.cancelled() and hello.exception() is None and not self._met.done():
            self._met.set_result(hello.result())

    def _link_ended(self, reason: str) -> None:
        if self._met.done():
            self._lose(reason)
        else:
            self._link = (
                None  # the supervisor tries again, until its container ends or the deadline comes
            )

    # --- working ----------------------------------------------------------------------------------------------------

    async def load(self, storlet: messages.Storlet) -> Path:
        """The path of a storlet's socket; loads it once however many ask.  Raises :class:`SandboxLost`."""
        self._last_used = self._loop.time()
        task = self._loads.get(storlet.version)
        if task is None:
            task = self._loop.create_task(self._load(storlet))
            self._loads[storlet.version] = task
            task.add_done_callback(lambda _: self._loads.pop(storlet.version, None))
        try:
            return await asyncio.shield(task)
        finally:
            self._last_used = self._loop.time()

    async def groups(self) -> tuple[messages.Group, ...]:
        """What its supervisor says of its groups; raises :class:`SandboxLost`."""
        if self._link is None:
            raise SandboxLost("the sandbox has no supervisor yet")
        return await self._link.status()

    async def check(
        self, descriptor: int, allowed: Sequence[str], limits: LimitsSection
    ) -> dict[str, str]:
        """Have it try to break out of itself, with a donated file in its hands; see ``gate``."""
        if self._link is None:
            raise SandboxLost("the sandbox has no supervisor yet")
        resources = messages.Resources(
            limits.memory_bytes, limits.cpus, limits.pids, limits.open_files, limits.scratch_bytes
        )
        return await self._link.check(descriptor, allowed, resources)

    def code_in_use(self) -> set[Path]:
        """Folders that must stay while it is there: of its groups' code, or of all of its account's code."""
        places, account = self._node.places, self.plan.account
        if self.state is State.STARTING:  # one that is adopted has not said yet what it has
            return {places.code_dir(account)}
        return {
            places.version_dir(account, code) if code else places.code_dir(account)
            for code in self._codes.values()
        }

    def idle_seconds(self, groups: Sequence[messages.Group]) -> float:
        """How long nobody has used it; negative while anything works or loads."""
        if self._loads or any(group.busy for group in groups):
            return -1.0
        return min([self._loop.time() - self._last_used, *(group.idle_seconds for group in groups)])

    async def retire(self, idle_seconds: float) -> bool:
        """Whether it may be ended, idle for at least so long.

        Its paths go first and its supervisor is asked a moment after that, so a filter that has just connected is seen.
        When it works after all, the groups lose nothing but their paths; the next ``load`` publishes new ones.
        """
        if self._loads or self.state is not State.RUNNING:
            return False
        for version in self._versions:
            self._node.places.withdraw(self.plan.key, version)
        self._versions.clear()
        await asyncio.sleep(SETTLE_SECONDS)
        groups = await self.groups()
        return self.idle_seconds(groups) >= idle_seconds

    async def tidy(self, groups: Sequence[messages.Group]) -> None:
        """Unload groups without workers that nobody has used for twice ``group_idle_seconds``."""
        limit = 2 * self._node.config.invocation.group_idle_seconds
        for group in groups:
            if (
                not group.busy
                and not group.workers
                and group.idle_seconds > limit
                and group.version not in self._loads
            ):
                await self._unload(group)
        if self._supervisor_pid:
            await self._node.placing.call(
                self._node.cgroups.sweep, self._supervisor_pid, [*self._versions, *self._loads]
            )

    async def _load(self, storlet: messages.Storlet) -> Path:
        try:
            if await self._is_live(storlet.version):
                return self._node.places.group_socket(self.plan.key, storlet.version)
            await self._make_room_for_a_group()
            return await self._load_new(storlet)
        except SandboxLost as error:
            self._lose(str(error))
            raise
        except PlaceFault as error:
            # Somebody removed our directories; a new sandbox makes them anew.
            self._lose(str(error))
            raise SandboxLost(str(error)) from error

    async def _is_live(self, version: str) -> bool:
        """Whether the supervisor lives, has the group, and the group's path is there."""
        if version not in self._versions:
            return False
        groups = await self.groups()
        path = self._node.places.group_socket(self.plan.key, version)
        if path.is_socket() and any(group.version == version for group in groups):
            return True
        self._versions.discard(version)
        return False

    async def _load_new(self, storlet: messages.Storlet) -> Path:
        if self._link is None:
            raise SandboxLost("the sandbox has no supervisor yet")
        began = time.monotonic()
        places, key = self._node.places, self.plan.key
        if places.code_mark(self.plan.account) != self.plan.code_mark:
            raise SandboxLost("its code directory was replaced, and it sees the old one")
        listener, temporary = places.listen_for_invocations(key)
        try:
            await self._link.load(lambda number: self._load_command(storlet, number), listener)
            path = places.publish(temporary, key, storlet.version)
        except OSError as error:
            raise PlaceFault(f"{temporary}: {error.strerror}") from error
        finally:
            temporary.unlink(missing_ok=True)
        self._versions.add(storlet.version)
        self._codes[storlet.version] = storlet.code
        milliseconds = (time.monotonic() - began) * 1000
        log.info(
            "storlet loaded key=%s account=%s storlet=%s version=%s ms=%.1f",
            key, shown(self.plan.account), shown(storlet.name), storlet.version[:12], milliseconds,
        )  # fmt: skip
        return path

    def _load_command(self, storlet: messages.Storlet, number: int) -> messages.Load:
        invocation = self._node.config.invocation
        workers = {"python": invocation.workers_python, "java": invocation.workers_java}
        return messages.Load(
            request=number,
            version=storlet.version,
            code=storlet.code,
            language=storlet.language,
            language_version=storlet.language_version,
            main=storlet.main,
            file=storlet.file,
            name=storlet.name,
            dependencies=storlet.dependencies,
            workers_max=workers.get(storlet.language, 1),
            runs_per_worker=invocation.runs_per_worker,
            idle_seconds=invocation.group_idle_seconds,
            load_seconds=invocation.load_seconds,
            limits=storlet.limits,
        )

    async def _make_room_for_a_group(self) -> None:
        if len(self._versions) < GROUPS_MAX:
            return
        idle = [
            group
            for group in await self.groups()
            if not group.busy and group.version not in self._loads
        ]
        if idle:
            await self._unload(max(idle, key=lambda group: group.idle_seconds))

    async def _unload(self, group: messages.Group) -> None:
        if self._link is None:
            return
        # The path first: a filter that finds none asks for a load, one that has connected is served to the end.
        self._node.places.withdraw(self.plan.key, group.version)
        self._versions.discard(group.version)
        await self._link.unload(group.version)
        self._codes.pop(group.version, None)
        log.info(
            "storlet unloaded key=%s version=%s runs=%d",
            self.plan.key,
            group.version[:12],
            group.runs,
        )

    # --- end --------------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Let go of a sandbox that goes on running, for the next sandboxd to adopt."""
        if self._link is not None:
            self._link.close("sandboxd ends")

    async def detach(self) -> bool:
        """Take a running one out of use for good; whether it still works and should be left to finish.

        Nobody finds it any more, and its directories' names are free for the sandbox that takes its place.
        """
        self.state = State.DRAINING
        aside = aside_key(self.container_id or "")
        self._node.places.set_aside(self.plan.key, aside)
        self.plan = dataclasses.replace(self.plan, key=aside)
        await asyncio.sleep(SETTLE_SECONDS)
        return await self.is_working()

    async def is_working(self) -> bool:
        """Whether any invocation runs; one that is lost works no more."""
        try:
            return any(group.busy for group in await self.groups())
        except SandboxLost:
            return False

    def cut(self) -> None:
        """Begin its end: nobody finds it any more, and what runs in it is killed.  Then :meth:`remove`."""
        self._node.places.remove_sandbox_dirs(self.plan.key)
        self.state = State.ENDING
        if self._link is not None:
            self._kill(self._link)
            self._link.close("the sandbox was ended")

    def _kill(self, link: ControlLink) -> None:
        """Kill its processes, where process 1 is theirs and in sight; elsewhere Docker does, when it removes the container."""
        if self._supervisor_pid and not self.plan.facts.runtime.startswith(readback.OWN_KERNEL):
            with contextlib.suppress(SandboxLost, OSError), link.watched() as is_alive:
                process.kill(self._supervisor_pid, is_alive, self._note_gone)

    async def gone(self) -> None:
        """Return when nothing of it runs any more: soon after :meth:`cut`, or when :meth:`remove` has done what it could."""
        await asyncio.shield(self._gone)

    def _note_gone(self) -> None:
        if not self._gone.done():
            self._gone.set_result(None)

    async def remove(self) -> None:
        """Remove its container; raises :class:`EngineFault` when Docker cannot."""
        try:
            if self.container_id is not None:
                await self._node.removing.call(self._node.engine.remove, self.container_id)
        finally:
            self._note_gone()

    async def remove_lost(self) -> None:
        """The same for one that ended by itself; how it ended goes to the log."""
        with contextlib.suppress(EngineFault):  # removing it will say the same
            how = await self._node.threads.call(self._node.engine.end_of, self.container_id or "")
            if how is not None:
                log.info("sandbox ended key=%s how=%s", self.plan.key, shown(how))
        await self.remove()

    def _lose(self, reason: str) -> None:
        if self.state in {State.SPARE, State.RUNNING, State.DRAINING} and not self._is_lost:
            self._is_lost = True
            self._on_lost(self, reason)
