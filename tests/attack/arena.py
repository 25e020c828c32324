"""The environment of attacks: a cluster with small limits, hostile storlets, and their accounts."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tests.attack.ordinary import lower_priority
from tests.support.accounts import users_of
from tests.support.cluster import Cluster
from tests.support.host import Host
from tests.support.http import Answer, Client
from tests.support.storlets import Dependency, JavaClasses, Tool, declaration
from tests.support.tenant import SOURCE, Tenant, make_tenant
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.attack.attack import Attack

STORLETS: Final = Path(__file__).parent / "storlets"
NAMES: Final = {"python": "hostile.py", "java": "hostile-1.0.jar", "native": "hostile.so"}
MAINS: Final = {
    "python": "hostile.Hostile", "java": "hostile.Hostile", "native": "hostile.so:hostile",
}  # fmt: skip
OUTPUT_BYTES: Final = 8 << 20
SCRATCH_BYTES: Final = 4 << 20
LOG_BYTES: Final = 64 << 10
METADATA_BYTES: Final = 4096
#: Small, so that an attack reaches them soon; a storlet's limits are below those of its sandbox.
LIMITS: Final = {
    "storlet.conf:limits": {
        "memory_bytes": "384M", "storlet_memory_bytes": "160M", "pids": 128, "storlet_processes": 64, "scratch_bytes": SCRATCH_BYTES,
        "open_files": 128, "output_bytes": OUTPUT_BYTES, "log_bytes": LOG_BYTES,
    },
    # By default the auditor reads twenty files a second to spare the disks: too slow for a test.
    **{f"object-server-{n}.conf:object-auditor": {"files_per_second": 0, "bytes_per_second": 0, "zero_byte_files_per_second": 0} for n in (1, 2)},
}  # fmt: skip


#: Only for the hostile storlets: a machine that stalls for seconds must not end other invocations.
DEADLINES: Final = {"Timeout_First_Byte": "3s", "Timeout_Idle": "2s", "Timeout_Total": "5s"}
#: Of the request of an attack that continues until a deadline.
ENDS_SOON: Final = {
    "X-Storlet-Limit-Timeout-First-Byte": "2s",
    "X-Storlet-Limit-Timeout-Total": "2s",
}
#: The same for a flood, whose report shows that it took place.
FLOOD_ENDS: Final = {
    "X-Storlet-Limit-Timeout-First-Byte": "1s",
    "X-Storlet-Limit-Timeout-Total": "1s",
}
#: The same for an attack without output in a worker that is warm.
NO_OUTPUT: Final = {"X-Storlet-Limit-Timeout-First-Byte": "1s"}
#: The same for an attack without further output.
NO_MORE_OUTPUT: Final = {"X-Storlet-Limit-Timeout-Idle": "1s"}


class GotThrough(AssertionError):
    """An attack did not end as required; the text is the observed outcome."""


def must(condition: object, seen: object) -> None:
    """Raise GotThrough unless the attack ended as required."""
    if not condition:
        raise GotThrough(str(seen)[:2000])


def outcome(answer: Answer) -> str:
    """A response in a few words: status, error code, whether the body broke off."""
    return " ".join(
        filter(None, [str(answer.status), answer.error or "", "broken" if answer.is_broken else ""])
    )


@dataclass
class Arena:
    """A cluster that is up, with :data:`LIMITS`.

    ``is_short``: attacks of many equal requests send fewer of them, as :meth:`Attacker.repeats`
    states.
    """

    cluster: Cluster
    is_short: bool = False
    host: Host = field(init=False)
    pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(64, initializer=lower_priority)
    )
    _settled: dict[tuple[str, str], Tenant] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.host = Host(self.cluster)

    @functools.cached_property
    def users(self) -> dict[str, Client]:
        return users_of(self.cluster.description)

    @functools.cached_property
    def java(self) -> JavaClasses:
        return JavaClasses(self.cluster.java_api_jar, [], STORLETS / "java")

    @functools.cached_property
    def native(self) -> bytes:
        # It needs this module.
        from tests.attack.native import built  # noqa: PLC0415

        return built()

    def account(self, name: str = "") -> Tenant:
        """A new account with the honest storlet only; ``name`` is one of its own unless given."""
        return make_tenant(self.users["admin:admin"], quote(name))

    def tenant(self, language: str) -> Tenant:
        """A new account with the hostile storlet in Python and in ``language``; none has run."""
        tenant = self.account()
        answer = Dependency("gremlin.py", SOURCE.read_bytes()).upload(tenant.client)
        must(answer.status == 201, answer)
        for each in {"python", language}:
            more = ["gremlin.py"] if each == "python" else []
            headers = declaration(each, MAINS[each], more, **DEADLINES)
            answer = tenant.client.put(f"storlet/{NAMES[each]}", self._hostile(each), headers)
            must(answer.status == 201, answer)
        return tenant

    def _hostile(self, language: str) -> bytes:
        if language == "python":
            return (STORLETS / "hostile.py").read_bytes()
        return self.java.jar("hostile") if language == "java" else self.native

    def attacker(self, language: str, account: str = "") -> Attacker:
        """The shared attacker of a language, for attacks that its sandbox survives.

        :param account: whose attacker it is; see :class:`.Attack`.
        """
        place = (account, language)
        if place not in self._settled:
            self._settled[place] = self.tenant(language)
        return Attacker(self, self._settled[place], language)

    @contextlib.contextmanager
    def prepared(self, attack: Attack, language: str) -> Iterator[Attacker]:
        """A warm attacker: its hostile storlet and the honest storlet of its account are loaded.

        The sandbox of a separate account is removed at the end: a hundred idle sandboxes would be a
        load themselves.
        """
        shared = None if attack.fresh else self.attacker(language, attack.account)
        tenant = shared.tenant if shared else self.tenant(language)
        attacker = Attacker(self, tenant, language, attack.placement)
        attacker.recovers(30)
        must(tenant.is_well(attack.placement), "the honest storlet")
        try:
            yield attacker
        finally:
            if attack.fresh:
                for sandbox in self.host.sandboxes(tenant.account):
                    self.host.remove(sandbox)

    def python(self, program: str, *arguments: str) -> str:
        """Run a program in the cluster's Python environment, which contains Swift; return its
        output."""
        done = subprocess.run(
            [str(self.cluster.venv / "bin" / "python3"), "-W", "ignore", "-c", program, *arguments],
            capture_output=True, text=True, timeout=120, check=False, cwd="/",
        )  # fmt: skip
        must(done.returncode == 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Attacker:
    """An account and one of its hostile storlets."""

    arena: Arena
    tenant: Tenant
    language: str
    placement: str = "object"

    @property
    def host(self) -> Host:
        return self.arena.host

    @property
    def client(self) -> Client:
        return self.tenant.client

    @property
    def path(self) -> str:
        return self.tenant.path

    @property
    def tool(self) -> Tool:
        return Tool(self.client, NAMES[self.language], self.placement)

    def repeats(self, count: int, short: int) -> range:
        """The requests of an attack: ``count`` in ``make attack``, ``short`` in ``make test``."""
        return range(short if self.arena.is_short else count)

    def shoot(self, do: str, **parameters: str) -> Answer:
        """A GET through the hostile storlet."""
        return self.tool.get(self.path, do, **parameters)

    def report(self, do: str, **parameters: str) -> dict[str, Any]:
        """The report of a run that makes many tries."""
        answer = self.shoot(do, **parameters)
        must((answer.status, answer.is_broken) == (200, False), answer)
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def is_well(self) -> bool:
        """Return True if a harmless run of the hostile storlet returns the right bytes."""
        answer = self.shoot("identity")
        return answer.status == 200 and answer.body == self.tenant.content and not answer.is_broken

    def recovers(self, seconds: float = 15) -> None:
        """Wait until a run works again."""
        try:
            wait_for(self.is_well, seconds, "the next run to work")
        except AssertionError:
            raise GotThrough(
                f"the next run does not work: {outcome(self.shoot('identity'))}"
            ) from None


@contextlib.contextmanager
def arena_on(cluster: Cluster, *, is_short: bool = False) -> Iterator[Arena]:
    """Apply the small limits to the cluster for the duration of a block."""
    with cluster.configured(LIMITS):
        arena = Arena(cluster, is_short)
        try:
            yield arena
        finally:
            arena.close()
