"""All sandboxes of the node: which tenant has one, who waits for it, which must go.

Each sandbox key has at most one *entry*.  An entry holds the one task that starts (or adopts) its sandbox, so any number
of callers wait for the same start; when the sandbox is lost, retired or fails to start, the entry goes at once and a
background task removes the container.  The next caller makes a new entry, which waits for that removal first, because
the new container has the name of the old one.

Nobody is answered before the running containers of the node were adopted: a start in their place would end them together
with the invocations that they serve.  When Docker is away that is what callers are told, and the next call tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
from collections import Counter, deque
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from storlet_daemon.protocol import messages
from storlet_middleware.errors import (
    CodeMissing,
    InternalError,
    NodeBusy,
    SandboxUnavailable,
    StorletError,
)
from storlet_middleware.sandboxd import checks, hardening
from storlet_middleware.sandboxd.backoff import Backoff
from storlet_middleware.sandboxd.code_space import CodeSpace
from storlet_middleware.sandboxd.docker import LABEL_ACCOUNT, LABEL_KEY, Container
from storlet_middleware.sandboxd.errors import (
    EngineFault,
    EngineUnavailable,
    ImageMissing,
    LoadRefused,
    SandboxdFault,
    SandboxLost,
    SandboxWeak,
)
from storlet_middleware.sandboxd.gate import Gate
from storlet_middleware.sandboxd.plan import Demand, Plan, Planner, aside_name
from storlet_middleware.sandboxd.sandbox import RECENT_SECONDS, Node, Sandbox, State
from storlet_middleware.sandboxd.spares import Spares
from storlet_middleware.sandboxd.wording import shown

log = logging.getLogger("storlet.sandboxd")

#: A caller waits so long for the end of a back-off before it is sent away with ``retry_after``.
PATIENCE_SECONDS: Final = 2.0
#: What a load may take beyond the start of its sandbox.
LOAD_SECONDS: Final = 12.0
SWEEP_SECONDS: Final = 60.0
#: Who looks for a sandbox to end waits so long for each of those that run; one that has more to do is not idle.
LOOK_SECONDS: Final = 1.0
#: Between attempts to adopt while Docker is away; a caller's own attempt does not wait for it.
ADOPT_AGAIN_SECONDS: Final = 2.0
#: An outdated sandbox whose supervisor has not come back by then cannot: its control directory is another one.
OUTDATED_SECONDS: Final = 5.0
DRAIN_LOOK_SECONDS: Final = 0.5
#: From the load of new code to the look whether it is too much.
TIDY_SECONDS: Final = 2.0
UNAVAILABLE_RETRY_SECONDS: Final = 2
#: From the start of a sandbox until one is ended for the next: its first invocation comes first.
AHEAD_SECONDS: Final = 0.03
#: Ended sandboxes that Docker has not removed; with more of them nobody takes a place.
ENDINGS_MAX: Final = 8


@dataclass(eq=False)
class Entry:
    """A sandbox key that is in use; ``task`` ends with the running sandbox."""

    demand: Demand
    task: asyncio.Task[Sandbox] = field(init=False)
    sandbox: Sandbox | None = None

    @property
    def key(self) -> str:
        """The name of its sandbox."""
        return self.demand.key

    @property
    def account(self) -> str:
        """Whose it is."""
        return self.demand.account


class Pool:
    """Answers for the whole node; make it inside the loop, then :meth:`run` it."""

    def __init__(self, node: Node, planner: Planner, gate: Gate) -> None:
        self._node = node
        self._gate = gate
        self._planner = planner
        self._entries: dict[str, Entry] = {}
        self._endings: dict[str, asyncio.Task[None]] = {}
        self._draining: set[Sandbox] = set()
        self._backoffs: dict[str, Backoff] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._adoption: asyncio.Task[None] | None = None
        self._room = asyncio.Lock()
        #: Keys of sandboxes that ended lately, whatever ended them.
        self._ended_lately: deque[str] = deque(maxlen=node.config.sandbox.max_per_node)
        self._code = CodeSpace(
            node.places.code_root, node.config.sandbox.code_cache_bytes, node.threads
        )
        self._code_loading: Counter[Path] = Counter()
        self._spares = Spares(node, planner, self._has_room, self._end_sandbox)
        self._tidying: asyncio.Task[None] | None = None

    # --- requests ---------------------------------------------------------------------------------------------------

    async def prepare(self, account: str, storlet: str, asker: int | None) -> Path:
        """Make the account's code directory for user ``asker`` and begin to start the sandbox that ``storlet`` needs.

        Does not wait for that.
        """
        checks.check_account(account)
        try:
            path = self._node.places.make_code_dir(account, asker)
        except SandboxdFault as fault:
            raise self._answer(fault) from fault
        self._in_background(self._start_ahead(self._planner.demand(account, storlet)))
        # A worker will be placed soon, of which the kernel can do the slow part meanwhile.
        self._in_background(self._node.placing.call(self._node.cgroups.hurry))
        return path

    async def load(self, account: str, storlet: messages.Storlet) -> Path:
        """The path of the storlet's socket, served by a running sandbox; raises a :class:`StorletError`."""
        checks.check_storlet(account, storlet, self._node.config.storlet.languages)
        with self._code_kept(self._node.places.version_dir(account, storlet.code)):
            if not self._node.places.has_version(account, storlet.code):
                raise CodeMissing("the code of this version is not in the code directory")
            return await self._load_in_time(account, storlet)

    async def _load_in_time(self, account: str, storlet: messages.Storlet) -> Path:
        limit = self._node.config.sandbox.start_deadline_seconds + LOAD_SECONDS
        try:
            async with asyncio.timeout(limit):
                demand = self._planner.demand(account, storlet.name)
                await self._adopted()
                await self._gate.admit(demand.trust_class)
                return await self._load(demand, storlet)
        except SandboxdFault as fault:
            raise self._answer(fault) from fault
        except TimeoutError:
            raise SandboxUnavailable(
                f"the sandbox was not ready within {limit:.0f} seconds"
            ) from None

    async def status(self) -> messages.NodeStatus:
        """Every sandbox with its groups, and whether the configured images are there."""
        sandboxes, images = await asyncio.gather(
            asyncio.gather(*(self._described(entry) for entry in list(self._entries.values()))),
            self._images(),
        )
        others = (_described_briefly(sandbox) for sandbox in (*self._draining, *self._spares.all))
        return messages.NodeStatus([*sandboxes, *others], images, self._gate.results)

    async def self_test(self) -> messages.NodeStatus:
        """The status after a self-test of each trust class; raises a :class:`StorletError`."""
        try:
            await self._adopted()
            await self._gate.check()
        except SandboxdFault as fault:
            raise self._answer(fault) from fault
        return await self.status()

    # --- life -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Adopt, sweep and stop idle sandboxes until cancelled."""
        while True:
            try:
                await self._adopted()
            except SandboxdFault as fault:
                log.warning("adoption failed reason=%s", shown(fault))
                await asyncio.sleep(ADOPT_AGAIN_SECONDS)
                continue
            break
        self._in_background(self._gate.run())
        self._in_background(self._spares.run())
        config = self._node.config
        tick = min(
            SWEEP_SECONDS,
            config.sandbox.idle_stop_seconds / 4,
            config.invocation.group_idle_seconds,
        )
        next_sweep = 0.0  # at once: what a crash has left waits already
        while True:
            if self._now() >= next_sweep:
                next_sweep = self._now() + SWEEP_SECONDS
                await self._sweep()
                self._tidy_soon(0.0)
            await asyncio.sleep(max(tick, 0.1))
            await asyncio.gather(
                *(self._look_after(entry) for entry in list(self._entries.values()))
            )

    async def close(self, grace_seconds: float) -> None:
        """Let go of every sandbox and leave it running; starts and removals under way get ``grace_seconds``."""
        await self._gate.close(grace_seconds)
        tasks = {entry.task for entry in self._entries.values()} | set(self._endings.values())
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
        for sandbox in [entry.sandbox for entry in self._entries.values()] + list(self._draining):
            if sandbox is not None:
                sandbox.release()
        self._spares.release()
        for task in tasks | self._background:
            task.cancel()

    # --- one sandbox ------------------------------------------------------------------------------------------------

    async def _load(self, demand: Demand, storlet: messages.Storlet) -> Path:
        try:
            return await (await self._running(demand)).load(storlet)
        except SandboxLost as fault:
            # It ended before we were told; the one that takes its place is new and gets one attempt.
            log.info("sandbox replaced account=%s reason=%s", shown(demand.account), shown(fault))
            return await (await self._running(demand)).load(storlet)

    async def _running(self, demand: Demand) -> Sandbox:
        await self._adopted()
        entry = self._entries.get(demand.key)
        if entry is None:
            self._check_backoff(demand.key)
            entry = self._enter(demand)
            entry.task = self._in_background(self._start(entry))
        return await asyncio.shield(entry.task)

    def _enter(self, demand: Demand) -> Entry:
        entry = self._entries[demand.key] = Entry(demand)
        return entry

    async def _start(self, entry: Entry) -> Sandbox:
        began = self._now()
        seconds = self._node.config.sandbox.start_deadline_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._wait_for_turn(entry.key)
                sandbox = await self._given(entry) or await self._made(entry)
        except TimeoutError:
            fault = SandboxLost(f"the sandbox did not start within {seconds:g} seconds")
            self._failed(entry, fault, began)
            raise fault from None
        except (SandboxdFault, StorletError) as error:
            self._failed(entry, error, began)
            raise
        log.info(
            "sandbox started key=%s account=%s class=%s image=%s uid=%d container=%s ms=%.0f",
            entry.key, shown(entry.account), entry.demand.trust_class, shown(entry.demand.image),
            sandbox.plan.identity.uid, (sandbox.container_id or "")[:12], (self._now() - began) * 1000,
        )  # fmt: skip
        self._in_background(self._make_room_ahead(entry.key))
        return sandbox

    async def _given(self, entry: Entry) -> Sandbox | None:
        """A spare made the entry's, if there is one and that succeeds."""
        spare = self._spares.take(entry.demand)
        if spare is None:
            return None
        entry.sandbox = spare
        try:
            self._node.places.make_code_dir(entry.account)
            await self._spares.give(spare, entry.demand, self._lost)
        except SandboxdFault as fault:
            log.warning("spare sandbox of no use key=%s reason=%s", spare.plan.key, shown(fault))
            entry.sandbox = None
            self._end_sandbox(spare)
            return None
        return spare

    async def _made(self, entry: Entry) -> Sandbox:
        await self._make_room()
        self._node.places.make_code_dir(entry.account)
        plan = await self._node.threads.call(self._planner.plan, entry.demand)
        entry.sandbox = Sandbox(plan, self._node, self._lost)
        await entry.sandbox.start()
        return entry.sandbox

    async def _wait_for_turn(self, key: str) -> None:
        backoff = self._backoffs.get(key)
        if backoff is not None:
            await asyncio.sleep(backoff.wait_seconds(self._now()))
        ending = self._endings.get(key)
        if ending is not None:
            await asyncio.wait({ending})

    def _failed(self, entry: Entry, error: SandboxdFault | StorletError, began: float) -> None:
        """A start or adoption did not succeed: drop the entry, remove what there is of it."""
        log.warning(
            "sandbox failed key=%s account=%s reason=%s",
            entry.key,
            shown(entry.account),
            shown(error),
        )
        if isinstance(error, SandboxLost):
            self._note_end(entry.key, self._now() - began, str(error))
        self._drop(entry)

    def _lost(self, sandbox: Sandbox, reason: str) -> None:
        """A running sandbox ended by itself."""
        key = sandbox.plan.demand.key
        log.warning(
            "sandbox lost key=%s account=%s seconds=%.1f reason=%s",
            key, shown(sandbox.plan.account), sandbox.lived_seconds, shown(reason),
        )  # fmt: skip
        self._note_end(key, sandbox.lived_seconds, reason)
        entry = self._entries.get(key)
        if sandbox in self._draining:
            self._draining.discard(sandbox)
            sandbox.cut()
            self._end_in_background(sandbox.container_id or "", sandbox.remove_lost())
        elif entry is not None and entry.sandbox is sandbox:
            del self._entries[key]
            self._ended_lately.append(key)
            sandbox.cut()
            self._end_in_background(key, sandbox.remove_lost())

    def _drop(self, entry: Entry) -> None:
        """Forget an entry at once and end its sandbox in the background."""
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
        if entry.sandbox is not None:
            entry.sandbox.cut()
            self._end_in_background(entry.key, entry.sandbox.remove())

    def _end_sandbox(self, sandbox: Sandbox) -> None:
        """End a sandbox that no entry has."""
        sandbox.cut()
        self._end_in_background(sandbox.plan.key, sandbox.remove())

    def _end_in_background(self, key: str, end: Coroutine[Any, Any, None]) -> None:
        before = self._endings.get(key)

        async def ended() -> None:
            if before is not None:
                await asyncio.wait({before})
            try:
                await end
            except EngineFault as fault:
                # Its sockets are gone, so nobody uses it; the sweep or the next start removes it.
                log.warning("sandbox not removed key=%s reason=%s", key, shown(fault))

        task = self._in_background(ended())
        self._endings[key] = task
        task.add_done_callback(
            lambda done: self._endings.pop(key) if self._endings.get(key) is done else None
        )

    # --- code ---------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _code_kept(self, path: Path) -> Iterator[None]:
        """The code of a version stays while it is being loaded."""
        self._code_loading[path] += 1
        if self._code.note_use(path):
            self._tidy_soon(TIDY_SECONDS)
        try:
            yield
        finally:
            self._code_loading[path] -= 1
            if not self._code_loading[path]:
                del self._code_loading[path]

    def _code_in_use(self) -> set[Path]:
        sandboxes = [
            *self._draining,
            *(entry.sandbox for entry in self._entries.values() if entry.sandbox is not None),
        ]
        return set(self._code_loading).union(*(sandbox.code_in_use() for sandbox in sandboxes))

    def _tidy_soon(self, seconds: float) -> None:
        if self._tidying is None or self._tidying.done():
            self._tidying = self._in_background(self._tidy(seconds))

    async def _tidy(self, seconds: float) -> None:
        await asyncio.sleep(seconds)  # new code comes in bursts
        await self._adopted()  # else what runs is not known yet
        await self._code.tidy(self._code_in_use)

    # --- back-off ---------------------------------------------------------------------------------------------------

    def _note_end(self, key: str, lived_seconds: float, reason: str) -> None:
        self._backoffs.setdefault(key, Backoff()).ended(self._now(), lived_seconds, reason)

    def _check_backoff(self, key: str) -> None:
        backoff = self._backoffs.get(key)
        wait = backoff.wait_seconds(self._now()) if backoff is not None else 0.0
        if backoff is not None and wait > PATIENCE_SECONDS:
            raise SandboxUnavailable(
                messages.one_line(
                    f"the sandbox ended {backoff.ends} times in a row, last: {backoff.last_reason}"
                ),
                retry_after=math.ceil(wait),
            )

    # --- room -------------------------------------------------------------------------------------------------------

    async def _make_room(self) -> None:
        """End idle sandboxes until the node has no more than ``max_per_node``; raises :class:`NodeBusy`.

        One that does not work but is too fresh to be ended, as all are that were just adopted, is idle in a moment.
        """
        if await self._has_made_room():
            return
        if any(
            await asyncio.gather(*(self._is_fresh(entry) for entry in list(self._entries.values())))
        ):
            await asyncio.sleep(RECENT_SECONDS)
            if await self._has_made_room():
                return
        limit = self._node.config.sandbox.max_per_node
        raise NodeBusy(f"{limit} sandboxes work on this node, which is its maximum")

    async def _has_made_room(self) -> bool:
        async with self._room:
            # All that are too many at once: whoever else waits for a place finds it free.
            while (surplus := self._count() - self._node.config.sandbox.max_per_node) > 0:
                if not await self._free(surplus):
                    return False
        return True

    async def _make_room_ahead(self, key: str) -> None:
        """After the start of a sandbox, end an idle one before somebody waits for its place.

        Where tenants fit in, it would only take a place from them.  So not for one that comes back, whatever had ended its own;
        nor while Docker is behind with removing, which is waited for under the lock.
        """
        if key not in self._ended_lately and not len(self._spares):
            await asyncio.sleep(AHEAD_SECONDS)
            async with self._room:
                if not self._has_room() and len(self._endings) < ENDINGS_MAX:
                    await self._free(1)

    async def _free(self, places: int) -> bool:
        """End so many sandboxes that nobody uses, or as many as there are; returns when they are gone, whether it was any."""
        spares = [spare for _ in range(places) if (spare := self._spares.drop_one())]
        ending = spares + await self._evict(places - len(spares))
        for sandbox in ending:
            await sandbox.gone()
        while len(self._endings) > ENDINGS_MAX:
            await asyncio.wait(self._endings.values(), return_when=asyncio.FIRST_COMPLETED)
        return bool(ending)

    async def _is_fresh(self, entry: Entry) -> bool:
        """Whether a sandbox starts, is being adopted, or does not work."""
        if entry.sandbox is None:
            return False
        return entry.sandbox.state is State.STARTING or await self._idle_seconds(entry) >= 0

    def _count(self) -> int:
        return len(self._entries) + len(self._draining) + len(self._spares)

    def _has_room(self) -> bool:
        return self._count() < self._node.config.sandbox.max_per_node

    async def _evict(self, count: int) -> list[Sandbox]:
        """Begin to end so many sandboxes, those that were not used for the longest time; the idle ones among them."""
        running = self._running_entries() if count else []
        idle = await asyncio.gather(*(self._idle_seconds(entry) for entry in running))
        in_order = sorted(zip(idle, running, strict=True), key=lambda pair: -pair[0])
        candidates = [entry for seconds, entry in in_order if seconds >= RECENT_SECONDS]
        ending: list[Sandbox] = []
        while candidates and len(ending) < count:
            wanted = count - len(ending)
            retired = await asyncio.gather(
                *(self._retire(one, RECENT_SECONDS, "evicted") for one in candidates[:wanted])
            )
            ending += [sandbox for sandbox in retired if sandbox is not None]
            del candidates[:wanted]
        return ending

    def _running_entries(self) -> list[Entry]:
        return [
            e
            for e in self._entries.values()
            if e.sandbox is not None and e.sandbox.state is State.RUNNING
        ]

    async def _idle_seconds(self, entry: Entry) -> float:
        """How long nobody has used a sandbox; negative also when it does not answer soon: somebody waits for its place."""
        sandbox, groups = entry.sandbox, None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                groups = await self._groups(entry)
        return sandbox.idle_seconds(groups) if sandbox is not None and groups is not None else -1.0

    async def _retire(self, entry: Entry, idle_seconds: float, why: str) -> Sandbox | None:
        """Begin to end a sandbox that has been idle for so long; ``None`` when it works after all."""
        sandbox = entry.sandbox
        try:
            if (
                sandbox is None
                or not await sandbox.retire(idle_seconds)
                or self._entries.get(entry.key) is not entry
            ):
                return None
        except SandboxdFault as fault:
            log.warning("sandbox does not answer key=%s reason=%s", entry.key, shown(fault))
            return None
        log.info(
            "sandbox stopped key=%s account=%s reason=%s", entry.key, shown(entry.account), why
        )
        del self._entries[entry.key]
        self._ended_lately.append(entry.key)
        sandbox.cut()
        self._end_in_background(entry.key, sandbox.remove())
        return sandbox

    async def _look_after(self, entry: Entry) -> None:
        """One tick of one sandbox: stop it when idle, unload what nobody uses."""
        limit = self._node.config.sandbox.idle_stop_seconds
        sandbox, groups = entry.sandbox, await self._groups(entry)
        if sandbox is None or groups is None:
            return
        if sandbox.idle_seconds(groups) >= limit:
            await self._retire(entry, limit, "idle")
            return
        try:
            await sandbox.tidy(groups)
        except SandboxdFault as fault:
            log.warning("storlet not unloaded key=%s reason=%s", entry.key, shown(fault))

    async def _groups(self, entry: Entry) -> Sequence[messages.Group] | None:
        """The groups of a running sandbox; ``None`` when it does not run or does not answer."""
        if entry.sandbox is None or entry.sandbox.state is not State.RUNNING:
            return None
        try:
            return await entry.sandbox.groups()
        except SandboxdFault as fault:
            log.warning("sandbox does not answer key=%s reason=%s", entry.key, shown(fault))
            return None

    # --- adoption and sweep -----------------------------------------------------------------------------------------

    async def _adopted(self) -> None:
        """Return when the containers of an earlier sandboxd are adopted or being removed."""
        if self._adoption is None:
            self._adoption = self._in_background(self._adopt_all())
            self._adoption.add_done_callback(self._forget_failed_adoption)
        await asyncio.shield(self._adoption)

    def _forget_failed_adoption(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._adoption = None

    async def _adopt_all(self) -> None:
        call = self._node.threads.call
        containers = await call(self._node.engine.ours, self._node.config.sandbox.node_id)
        plans = [await call(self._plan_of, container) for container in containers]
        kept = set()
        for container, plan in zip(containers, plans, strict=True):
            if plan is None and self._spares.is_one(container):
                kept.add(container.labels.get(LABEL_KEY, ""))
                self._in_background(self._adopt_spare(container))
            elif plan is None:
                self._remove_stale(container)
            elif plan.is_aside:
                kept.add(plan.key)
                self._in_background(self._adopt_aside(plan, container))
            else:
                kept.add(plan.key)
                entry = self._enter(plan.demand)
                entry.task = self._in_background(self._adopt(entry, plan, container))
        for key in self._node.places.keys() - kept:
            self._node.places.remove_sandbox_dirs(key)

    def _plan_of(self, container: Container) -> Plan | None:
        is_spare = self._spares.is_one(container)
        return (
            self._spares.given_plan_of(container) if is_spare else self._planner.plan_of(container)
        )

    async def _adopt_spare(self, container: Container) -> None:
        if not await self._spares.adopt(container):
            self._node.places.remove_sandbox_dirs(container.labels.get(LABEL_KEY, ""))
            self._remove_stale(container)

    async def _adopt(self, entry: Entry, plan: Plan, container: Container) -> Sandbox:
        began = self._now()
        seconds = self._node.config.sandbox.start_deadline_seconds
        if plan.is_outdated:
            seconds = min(seconds, OUTDATED_SECONDS)
        entry.sandbox = Sandbox(plan, self._node, self._lost)
        try:
            async with asyncio.timeout(seconds):
                await entry.sandbox.adopt(container.id, container.created_at)
        except TimeoutError:
            fault = SandboxLost(f"the supervisor did not come back within {seconds:g} seconds")
            self._failed(entry, fault, began)
            raise fault from None
        except SandboxdFault as error:
            self._failed(entry, error, began)
            raise
        log.info(
            "sandbox adopted key=%s account=%s container=%s outdated=%s",
            entry.key, shown(entry.account), container.id[:12], plan.is_outdated,
        )  # fmt: skip
        if plan.is_outdated:
            await self._set_aside(entry, entry.sandbox, container)
            raise SandboxLost("the sandbox was made with another image or other options")
        return entry.sandbox

    async def _set_aside(self, entry: Entry, sandbox: Sandbox, container: Container) -> None:
        """Make way for a new sandbox in the place of an outdated one, which finishes its work beside it."""
        if not await sandbox.detach():
            self._drop(entry)
            return
        try:
            # Not of its present name: one that was a spare may never have been given the name that it should have.
            name = aside_name(sandbox.plan.container_name, container.id)
            await self._node.threads.call(self._node.engine.rename, container.id, name)
        except EngineFault as fault:
            log.warning("sandbox cannot be set aside key=%s reason=%s", entry.key, shown(fault))
            self._drop(entry)
            return
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
            self._draining.add(sandbox)
            self._in_background(self._drain(sandbox))

    async def _adopt_aside(self, plan: Plan, container: Container) -> None:
        """One that an earlier sandboxd has set aside goes on finishing its work."""
        sandbox = Sandbox(plan, self._node, self._lost)
        self._draining.add(sandbox)
        try:
            async with asyncio.timeout(OUTDATED_SECONDS):
                await sandbox.adopt(container.id, container.created_at)
        except (SandboxdFault, TimeoutError) as fault:
            log.info(
                "sandbox not adopted key=%s reason=%s",
                plan.key,
                shown(fault or "it did not come back in time"),
            )
            self._draining.discard(sandbox)
            self._end_sandbox(sandbox)
            return
        sandbox.state = State.DRAINING
        await self._drain(sandbox)

    async def _drain(self, sandbox: Sandbox) -> None:
        """End a sandbox that was set aside when it has finished; no invocation may be longer than ``total_seconds``."""
        deadline = self._now() + self._node.config.invocation.total_seconds
        while await sandbox.is_working() and self._now() < deadline:  # noqa: ASYNC110  it is asked; nobody tells
            await asyncio.sleep(DRAIN_LOOK_SECONDS)
        if sandbox in self._draining:
            log.info(
                "sandbox drained key=%s account=%s", sandbox.plan.key, shown(sandbox.plan.account)
            )
            self._draining.discard(sandbox)
            sandbox.cut()
            self._end_in_background(sandbox.container_id or "", sandbox.remove())

    def _remove_stale(self, container: Container) -> None:
        account, key = container.labels.get(LABEL_ACCOUNT, ""), container.labels.get(LABEL_KEY, "")
        log.info(
            "stale sandbox removed key=%s account=%s container=%s",
            shown(key),
            shown(account),
            container.id[:12],
        )

        async def remove() -> None:
            await self._node.removing.call(self._node.engine.remove, container.id)

        self._end_in_background(key, remove())

    async def _sweep(self) -> None:
        """Remove containers of ours that no entry knows: removals that failed, starts that were given up."""
        call, cgroups, node_id = (
            self._node.threads.call,
            self._node.cgroups,
            self._node.config.sandbox.node_id,
        )
        try:
            parent = hardening.cgroup_parent(node_id, await call(self._node.engine.host))
            # In this order: a group that is there has its container already.
            groups = await call(cgroups.sandboxes, parent)
            containers = await call(self._node.engine.ours, node_id)
        except EngineUnavailable:
            return  # the next sweep sees them
        except EngineFault as fault:
            log.warning("sweep failed reason=%s", shown(fault))
            return
        running = (entry.sandbox for entry in self._entries.values() if entry.sandbox is not None)
        known = {sandbox.container_id for sandbox in (*running, *self._draining, *self._spares.all)}
        for container in containers:
            key = container.labels.get(LABEL_KEY, "")
            is_going = container.id in self._endings or key in self._endings
            if container.id in known or is_going or self._gate.owns(key) or self._spares.owns(key):
                continue
            entry = self._entries.get(key)
            is_starting = entry is not None and (
                entry.sandbox is None or entry.sandbox.container_id is None
            )
            if not is_starting:
                self._remove_stale(container)
        await call(
            cgroups.remove_sandboxes, parent, groups - {container.id for container in containers}
        )
        now = self._now()
        self._backoffs = {
            key: backoff for key, backoff in self._backoffs.items() if not backoff.is_over(now)
        }

    # --- how --------------------------------------------------------------------------------------------------------

    async def _start_ahead(self, demand: Demand) -> None:
        if self._gate.is_closed(demand.trust_class):
            return
        try:
            await self._running(demand)
        except (SandboxdFault, StorletError):
            return  # logged where it happened; whoever loads next is told

    async def _described(self, entry: Entry) -> messages.Sandbox:
        sandbox = entry.sandbox
        if sandbox is None:
            demand = entry.demand
            return messages.Sandbox(
                entry.account,
                entry.key,
                State.STARTING.value,
                trust_class=demand.trust_class,
                image=demand.image,
            )
        return dataclasses.replace(
            _described_briefly(sandbox), groups=await self._groups(entry) or ()
        )

    async def _images(self) -> dict[str, Any]:
        config = self._node.config
        images = dict.fromkeys((config.sandbox.image, *config.images.values()))
        return dict(
            zip(
                images, await asyncio.gather(*(self._image(image) for image in images)), strict=True
            )
        )

    async def _image(self, image: str) -> dict[str, Any]:
        try:
            return {"id": await self._node.threads.call(self._node.engine.image_id, image)}
        except EngineFault as fault:
            return {"id": None, "message": str(fault)}

    def _answer(self, fault: SandboxdFault) -> StorletError:
        """What a filter is told of a fault."""
        text = messages.one_line(str(fault))
        if isinstance(fault, LoadRefused):
            return InternalError(f"the supervisor refused the storlet: {text}")
        if isinstance(fault, EngineUnavailable):
            return SandboxUnavailable(text, retry_after=UNAVAILABLE_RETRY_SECONDS)
        if isinstance(fault, ImageMissing):
            return SandboxUnavailable(
                f"{text}; build it as sandbox_images/README.rst says, or run 'make up'"
            )
        if isinstance(fault, SandboxWeak):
            # In what it was weaker is for the operator, whose log has it, and for nobody who could use it.
            return SandboxUnavailable(
                "the sandbox came up weaker than configured; the operator's log says in what"
            )
        return SandboxUnavailable(text)

    def _in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task that is kept until it ends, and whose failure is reported when it is a defect of ours."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_ended)
        return task

    def _background_ended(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, (SandboxdFault, StorletError)):
            log.error("background task failed", exc_info=error)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _described_briefly(sandbox: Sandbox) -> messages.Sandbox:
    """A sandbox for the status, without its groups."""
    return messages.Sandbox(
        account=sandbox.plan.account,
        key=sandbox.plan.key,
        state=sandbox.state.value,
        trust_class=sandbox.plan.demand.trust_class,
        image=sandbox.plan.demand.image,
        container=sandbox.container_id,
        uid=sandbox.plan.identity.uid,
        started_at=sandbox.started_at,
    )
