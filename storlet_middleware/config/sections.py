"""The table of options: a class for each section of the file, a row for each option.

The docstring of a class is the comment above its section in the sample file.
"""

# ruff: noqa: RUF009  option() describes a field; it is no default value

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_type_hints

from storlet_daemon.runtimes.table import LANGUAGES as LANGUAGE_ROWS
from storlet_middleware import errors, names
from storlet_middleware.config.option import (
    BYTES,
    COUNT,
    CPUS,
    LANGUAGES,
    LIST,
    MEMORY,
    MOUNTS,
    NAME,
    OVERFLOW,
    PERMISSION,
    RUN_ON,
    SECONDS,
    TEXT,
    WEIGHTS,
    Level,
    Limit,
    Option,
    option,
    option_per_language,
    options_of,
)
from storlet_middleware.config.readers import Mount

_K: Final = 1 << 10
_M: Final = 1 << 20
USER_CLASS: Final = "user"
ADMIN_CLASS: Final = "admin"
CLASSES: Final = (USER_CLASS, ADMIN_CLASS)


# fmt: off
@dataclass(frozen=True)
class StorletSection:
    """The containers of an account's storlets, and the languages of this cluster."""

    storlet_container: str = option(
        TEXT, "storlet", "container of an account that holds its storlets")
    dependency_container: str = option(
        TEXT, "dependency", "container that holds their dependencies")
    log_container: str = option(
        TEXT, "storletlog", "container that receives invocation logs and records of runs")
    records_days: int = option(
        COUNT, "14", "days after which records of runs are deleted",
        zero="only their owner deletes them")
    versions_kept: int = option(
        COUNT, "10", "versions of a bundle that are kept: the current one, the one that was so"
        " before, and the newest of the others", least=1, most=50)
    check_seconds: float = option(
        SECONDS, "30", "time of all test cases of a bundle together, in the check of an upload",
        least=1, most=600)
    languages: dict[str, tuple[str, ...]] = option(
        LANGUAGES, ", ".join(f"{row.name}:{'/'.join(row.versions)}" for row in LANGUAGE_ROWS),
        "languages that may be uploaded and run, with the versions in the sandbox image (a/b for"
        " several)")
    internal_client_conf_path: str = option(
        TEXT, "/etc/swift/internal-client.conf",
        "pipeline with which a node fetches storlet code; with slo, dlo and encryption if the"
        " proxies have them")


@dataclass(frozen=True)
class LibrarySection:
    """The system library: storlets that every account has, named std:NAME."""

    folders: tuple[str, ...] = option(
        LIST, "",
        "directories with storlets of the operator, a folder each with storlet.toml and src/; the"
        " same on all nodes")
    disabled: tuple[str, ...] = option(
        LIST, "", "storlets of the library that are switched off, such as std:grep")
    distributed_objects: int = option(
        COUNT, "10000", "objects of a request for std:distributed", least=1, most=10000)
    distributed_concurrency: int = option(
        COUNT, "16", "objects that such a request works on at the same time; it may choose fewer",
        least=1, most=256)
    distributed_spool_bytes: int = option(
        BYTES, "256M", "intermediate results of such a request that a proxy keeps on its disk",
        least=1)
    distributed_spool_total_bytes: int = option(
        BYTES, "1G",
        "intermediate results of all such requests of a proxy process; an account may have half of"
        " what others leave",
        least=2)
    distributed_spool_dir: str = option(
        TEXT, "",
        "directory of files with intermediate results, which have no names; empty = spool below"
        " [sandbox] state_dir")


@dataclass(frozen=True)
class SecretsSection:
    """The encryption of accounts' secrets, where the pipeline has no keymaster of Swift."""

    key_file: str = option(
        TEXT, "",
        "file with keys of at least 32 random bytes in base64, one a line; the first one encrypts,"
        " all decrypt; the same on all proxy servers, and not readable for other users")


@dataclass(frozen=True)
class RulesSection:
    """The rules of an account: where they are, and how they are changed."""

    container: str = option(
        TEXT, "storlet_rules",
        "container of an account that holds its rules, in rules.yaml, and all their versions")
    role: str = option(
        TEXT, "",
        "role that callers who do not own the account need, besides the container's write ACL, to "
        "change rules; empty = the ACL decides")
    cache_bytes: int = option(
        BYTES, "4M",
        "text of rules that a proxy process keeps compiled; compiled they take about 30 times as"
        " much",
        least=1)
    check_seconds: float = option(
        SECONDS, "30", "CPU time for the check of an upload; an upload that needs more is refused")
    hits_seconds: float = option(
        SECONDS, "60",
        "interval at which a proxy process logs how many operations each rule decided",
        zero="never")


@dataclass(frozen=True)
class PlacementSection:
    """The server that runs a storlet, and how an object node answers the proxy."""

    run_on: str = option(
        RUN_ON, "object",
        "where a GET runs by default: object (the node that holds the data) or proxy")
    chunk_bytes: int = option(
        BYTES, "64K",
        "object_chunk_size of the proxy servers: a heartbeat must fill one such read to be seen",
        least=1)
    heartbeat_seconds: float = option(
        SECONDS, "3",
        "interval of the heartbeats of an object node while a storlet is silent; well below the"
        " proxies' node_timeout")
    overflow: str = option(
        OVERFLOW, "none",
        "when the object node is full: none (queue there), replica (try another node) or proxy"
        " (run at the proxy)")
    unable_seconds: float = option(
        SECONDS, "30",
        "a proxy passes over an object node that could not start a storlet for this time, then it"
        " probes the node once a second", zero="never")


@dataclass(frozen=True)
class SandboxSection:
    """The node's sandboxes; read by storlet-sandboxd and by the filter."""

    image: str = option(
        TEXT, "storlets/sandbox:latest", "Docker image that a sandbox starts from")
    run_dir: str = option(
        TEXT, "/run/storlets",
        "directory of sockets; short, because a socket path is at most 107 bytes long")
    state_dir: str = option(
        TEXT, "/var/lib/storlets", "code cache and identities; survives a restart")
    identity_dir: str = option(
        TEXT, "/var/lib/storlets-identities",
        "record of all uids ever given out; one directory for all nodes of a machine, survives a"
        " restart")
    docker_url: str = option(
        TEXT, "unix:///var/run/docker.sock", "address of the Docker engine that sandboxd uses")
    node_id: str = option(
        TEXT, "", "value of the label org.storlets; empty = this host's name")
    group: str = option(
        NAME, "swift", "group whose members may use sandboxd: the one that Swift runs in")
    uid_first: int = option(
        COUNT, "200000",
        "first uid and gid of sandboxes; the range must be unused on the host", least=1)
    uid_count: int = option(
        COUNT, "100000",
        "number of uids; each account has its own, which is never given to another", least=1)
    start_deadline_seconds: float = option(
        SECONDS, "30",
        "deadline for the start of a sandbox; one that does not answer by then is removed")
    stop_deadline_seconds: float = option(
        SECONDS, "5", "grace period between the request to stop a sandbox and its kill")
    idle_stop_seconds: float = option(
        SECONDS, "3600", "an idle sandbox is stopped after this time")
    log_statsd_host: str = option(
        TEXT, "", "host that storlet-sandboxd sends its metrics to, in StatsD's format; empty = "
                  "none")
    log_statsd_port: int = option(
        COUNT, "8125", "UDP port of log_statsd_host", least=1)
    log_statsd_metric_prefix: str = option(
        TEXT, "", "put before the names of storlet-sandboxd's metrics")
    max_per_node: int = option(
        COUNT, "64",
        "sandboxes at a time; the least recently used idle one is evicted for a new one", least=1)
    runtime: str = option(
        NAME, "runc", "OCI runtime known to the engine, such as runc or runsc")
    prewarmed: int = option(
        COUNT, "0",
        "idle sandboxes that are started ahead, for the next account that needs one; each takes"
        " about 12 MB")
    code_cache_bytes: int = option(
        BYTES, "10G",
        "size of the code cache of this node; the least recently used storlet version is evicted"
        " first,"
        " never a loaded one", least=1)
    accept_failures: tuple[str, ...] = option(
        LIST, "",
        "self-tests that may fail without closing a trust class on this node, by name; see storlet"
        " sandboxes --check")


@dataclass(frozen=True)
class NodeSection:
    """Limits of all sandboxes of a node together; read by storlet-sandboxd."""

    memory: int | float = option(
        MEMORY, "75%",
        "memory of all sandboxes together, in bytes or as a part of the host's; the rest is"
        " Swift's")
    cpus: float = option(
        CPUS, "0", "CPUs of all sandboxes together", zero="no quota, only cpu_shares")
    cpu_shares: int = option(
        COUNT, "256",
        "weight of all sandboxes together when the CPUs are busy; a process of Swift has"
        " 1024", least=1)
    pids: int = option(
        COUNT, "16384", "processes and threads of all sandboxes together", least=1)


@dataclass(frozen=True)
class AdmissionSection:
    """Slots and queues of a node, and the shares of accounts that compete."""

    invocations: int = option(
        COUNT, "0", "slots of this node: invocations that run at a time", zero="32 for each CPU")
    queue: int = option(
        COUNT, "2048",
        "invocations in the queue of this node; one more is refused with 503", least=1)
    queue_per_tenant: int = option(
        COUNT, "512",
        "invocations of one account in the queue; one more is refused with 429", least=1)
    weights: dict[str, float] = option(
        WEIGHTS, "",
        "weights of accounts that compete, such as AUTH_a:2, AUTH_b:0.5; all others have 1")


@dataclass(frozen=True)
class LimitsSection:
    """Limits of one sandbox, of one storlet in it (storlet_*), and of one invocation. A trust
    class, the metadata of a storlet and a request can each lower these, never raise them."""

    memory_bytes: int = option(
        BYTES, "1G", "memory of a sandbox, swap off", least=16 * _M,
        level=Level.CLASS, is_published=True)
    cpus: float = option(
        CPUS, "0", "CPUs of a sandbox", zero="no quota", level=Level.CLASS, is_published=True)
    pids: int = option(
        COUNT, "512", "processes and threads of a sandbox", least=4,
        level=Level.CLASS, is_published=True)
    storlet_memory_bytes: int = option(
        BYTES, "512M", "memory of all workers of one storlet in a sandbox", least=16 * _M,
        part_of="memory_bytes",
        limit=Limit("Memory", "its workers are killed: storlet.limit.memory",
                    resource="memory_bytes"))
    storlet_cpus: float = option(
        CPUS, "0", "CPUs of all workers of one storlet in a sandbox", least=0.01, zero="no quota",
        limit=Limit("Cpu", "the storlet runs slower", resource="cpus"))
    storlet_processes: int = option(
        COUNT, "256", "processes and threads of one storlet in a sandbox", least=4, part_of="pids",
        limit=Limit("Processes", "no more can be started: storlet.limit.processes",
                    resource="processes"))
    open_files: int = option(
        COUNT, "1024", "open files of a process in a sandbox", least=64,
        limit=Limit("Open-Files", "no more can be opened: an error in the storlet",
                    resource="open_files"))
    scratch_bytes: int = option(
        BYTES, "64M", "size of /tmp in a sandbox, kept in memory", least=64 * _K,
        limit=Limit("Scratch", "no more fits into /tmp: storlet.limit.scratch",
                    resource="scratch_bytes"))
    output_bytes: int = option(
        BYTES, "0", "output of an invocation", zero="no limit",
        limit=Limit("Output", errors.LIMIT_OUTPUT, least=1))
    metadata_bytes: int = option(
        BYTES, "4K", "metadata that a storlet sets, as JSON", least=16,
        limit=Limit("Metadata", errors.LIMIT_METADATA))
    log_bytes: int = option(
        BYTES, "1M", "log of an invocation; the rest is dropped; the log notes this", least=256,
        limit=Limit("Log", "the rest is dropped; the log notes this"))
    service_operations: int = option(
        COUNT, "10000", "operations of a run on the store",
        limit=Limit("Service-Operations", "further ones are refused: storlet.limit.services",
                    least=1))
    service_rate: int = option(
        COUNT, "200",
        "operations on the store in a second, of all runs of a client's request together",
        limit=Limit("Service-Rate", "further ones wait", least=1))
    service_concurrency: int = option(
        COUNT, "8", "operations of a run on the store at the same time",
        limit=Limit("Service-Concurrency", "further ones wait", least=1))
    service_files: int = option(
        COUNT, "16", "files of the store that a run has open",
        limit=Limit("Service-Files", "no more can be opened: storlet.limit.services", least=1))
    service_creations: int = option(
        COUNT, "8", "objects that a run creates, whose ends are withheld at the same time",
        limit=Limit("Service-Creations", "no more can be created: storlet.limit.services",
                    least=1))
    service_bytes: int = option(
        BYTES, "0", "bytes that a run reads and writes by its services", zero="no limit",
        limit=Limit("Service-Bytes", "the file fails: storlet.limit.services", least=1))
    code_bytes: int = option(
        BYTES, "256M", "a storlet with its dependencies")
    bundle_unpacked_bytes: int = option(
        BYTES, "1G", "a bundle when it is unpacked; packed it is limited by code_bytes",
        least=64 * _K)
    bundle_files: int = option(
        COUNT, "20000", "files of a bundle", least=3, most=60000)
    bundle_ratio: int = option(
        COUNT, "50", "unpacked to packed size of a bundle", least=2)
    inputs: int = option(
        COUNT, "16",
        "inputs of an invocation: ranges and extra resources; at most 30, because a message to a"
        " sandbox carries 32 descriptors, two of them for output and log",
        least=1, most=30, is_published=True)
    outputs: int = option(
        COUNT, "8",
        "outputs of an invocation beside the first; with the inputs at most 30, as above",
        most=29, zero="X-Storlet-Output is refused", is_published=True)


@dataclass(frozen=True)
class InvocationSection:
    """Deadlines and concurrency of invocations."""

    first_byte_seconds: float = option(
        SECONDS, "120", "deadline for the first byte of output or the end",
        limit=Limit("Timeout-First-Byte", errors.TIMEOUT_FIRST_BYTE, least=0.1))
    idle_seconds: float = option(
        SECONDS, "40", "deadline for each further byte while input is available",
        limit=Limit("Timeout-Idle", errors.TIMEOUT_IDLE, least=0.1))
    total_seconds: float = option(
        SECONDS, "7200", "deadline for a whole invocation",
        limit=Limit("Timeout-Total", errors.TIMEOUT_TOTAL, least=0.1))
    queue_seconds: float = option(
        SECONDS, "30",
        "deadline for a slot of the node and a free worker together; then 429 or 503")
    max_inflight_per_tenant: int = option(
        COUNT, "256", "invocations of an account in one server process", least=1)
    buffer_bytes_per_tenant: int = option(
        BYTES, "256M",
        "memory of a proxy process for an account's results that wait to be stored, and unread"
        " listings",
        least=16 << 20)
    buffer_bytes: int = option(
        BYTES, "1G", "the same, for all accounts together; each may have half of what others leave",
        least=16 << 20)
    workers: Mapping[str, int] = option_per_language(
        COUNT, lambda row: row.workers_max,
        lambda row: f"maximum of workers of one {row.title} storlet in a sandbox", least=1)
    runs_per_worker: int = option(
        COUNT, "1000", "a worker is replaced after this number of invocations", least=1)
    load_seconds: float = option(
        SECONDS, "30", "deadline for loading a storlet's code")
    group_idle_seconds: float = option(
        SECONDS, "600", "idle workers of a storlet are stopped after this time")


@dataclass(frozen=True)
class TrustClass:
    """A trust class: its members, and the limits of its sandboxes.

    ``limits`` and ``invocation`` are those of the node, as far as the class does not lower them.
    """

    name: str
    limits: LimitsSection
    invocation: InvocationSection
    runtime: str = option(
        TEXT, "", "OCI runtime of this class; empty = [sandbox] runtime")
    file_locks: bool = option(
        PERMISSION, "refuse",
        "locks of files by fcntl, which SQLite and FileChannel.lock of Java need; the kernel counts"
        " their memory for no sandbox, so a storlet can use up the memory of the node")
    accounts: tuple[str, ...] = option(
        LIST, "", "accounts all of whose storlets are of this class", is_admin_only=True)
    storlets: tuple[str, ...] = option(
        LIST, "", "single storlets of this class, as account/name", is_admin_only=True)
    network: str = option(
        TEXT, "none", "a network of the engine, by name", is_admin_only=True)
    mounts: tuple[Mount, ...] = option(
        MOUNTS, "", "directories of the host, such as /srv/models:/models:ro", is_admin_only=True)
# fmt: on

    @property
    def has_effects(self) -> bool:
        """Whether its storlets can change something outside of their sandboxes, beside the store:
        a run of which nothing is known must not be repeated then.
        """
        return self.network != "none" or any(mount.is_writable for mount in self.mounts)


@dataclass(frozen=True)
class Config:
    """All options, typed; ``path`` is the file they came from."""

    storlet: StorletSection
    library: LibrarySection
    secrets: SecretsSection
    rules: RulesSection
    placement: PlacementSection
    sandbox: SandboxSection
    node: NodeSection
    admission: AdmissionSection
    limits: LimitsSection
    invocation: InvocationSection
    classes: Mapping[str, TrustClass]
    images: Mapping[str, str]
    path: str = ""

    def class_of(self, account: str, storlet: str) -> TrustClass:
        """The trust class: ``admin`` if the operator lifted the account or the storlet.

        The library is the same code for every account, and always of class ``user``.
        """
        admin = self.classes[ADMIN_CLASS]
        if names.is_library(storlet):
            return self.classes[USER_CLASS]
        bundle = names.bundle_of(storlet)
        storlet = bundle[0] if bundle else storlet  # all versions are of one class
        is_admin = account in admin.accounts or f"{account}/{storlet}" in admin.storlets
        return admin if is_admin else self.classes[USER_CLASS]

    def image_of(self, account: str) -> str:
        """The image of an account's sandboxes: ``[image:<account>]`` or the default."""
        return self.images.get(account, self.sandbox.image)


#: The sections of the file in their order.
SECTIONS: Final[dict[str, type]] = {
    name: cls
    for name, cls in get_type_hints(Config).items()
    if isinstance(cls, type) and dataclasses.is_dataclass(cls)
}
#: Every option of the sections above, in order.
OPTIONS: Final = tuple(row for name, cls in SECTIONS.items() for row in options_of(name, cls))
#: The options that ``[class:user]`` and ``[class:admin]`` have of their own.
CLASS_OPTIONS: Final = options_of("class", TrustClass)
#: The options of the sections above that a class may lower.
LOWERABLE: Final = tuple(row for row in OPTIONS if row.level >= Level.CLASS)


def options_named(section: str) -> tuple[Option, ...]:
    """The rows of one section of the file."""
    return tuple(row for row in OPTIONS if row.section == section)
