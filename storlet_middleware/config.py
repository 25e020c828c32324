"""The options of ``/etc/swift/storlet.conf``: one table, from which everything else follows.

:data:`OPTIONS` gives section, name, reader, default, unit and help of every option.  From it come the frozen
:class:`Config`, ``etc/storlet.conf-sample`` (``python -m storlet_middleware.config`` prints it; a test compares) and the
refusal of unknown names with the nearest known one.  Proxies, object servers and ``storlet-sandboxd`` of a node read the
same file; the paste section of the filter holds only ``use``, ``role``, ``storlet_conf_path`` and ``legacy_status``.

All faults of a file are reported at once, as one :class:`ConfigError`; nothing falls back silently.
"""

from __future__ import annotations

import configparser
import difflib
import re
import socket
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DEFAULT_PATH: Final = "/etc/swift/storlet.conf"
#: 32 descriptors go with one message; output and log are two of them.
_MAX_INPUTS: Final = 30


class ConfigError(ValueError):
    """The file cannot be used; the text lists every fault, one a line."""


def read_text(text: str) -> str:
    return text.strip()


def read_languages(text: str) -> dict[str, tuple[str, ...]]:
    """``python:3.11/3.12, java:17``: versions by language."""
    languages = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(python|java)\s*:\s*([0-9.]+(?:/[0-9.]+)*)\s*", part)
        if not match:
            raise ValueError("want languages with versions, such as python:3.11, java:17")
        languages[match[1]] = tuple(match[2].split("/"))
    return languages


def read_bytes(text: str) -> int:
    """``1024``, ``64K``, ``256 MiB``, ``1g``: units of 1024; 0 means no limit where the option says so."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError("want a number of bytes such as 65536, 64K, 256M or 1G")
    return int(match[1]) << (10 * " kmgt".index(match[2].lower() or " "))


def read_count(text: str) -> int:
    if not re.fullmatch(r"\d{1,12}", text.strip()):
        raise ValueError("want a whole number, 0 or more")
    return int(text)


def read_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("want a number of seconds such as 0.5 or 40") from None
    if not 0 < value < 1e7:
        raise ValueError("want more than 0 and less than 10,000,000 seconds")
    return value


def read_cpus(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("want a number of CPUs such as 0.5 or 2; 0 = no limit") from None
    if not 0 <= value <= 1024:
        raise ValueError("want 0 to 1024 CPUs")
    return value


def read_run_on(text: str) -> str:
    if text not in ("object", "proxy"):
        raise ValueError("want object or proxy")
    return text


def read_share(text: str) -> int | float:
    """``12G`` as bytes, ``75%`` as a fraction below or equal to 1."""
    match = re.fullmatch(r"\s*(\d{1,3})\s*%\s*", text)
    if not match:
        return read_bytes(text)
    if not 1 <= int(match[1]) <= 100:
        raise ValueError("want 1% to 100% or a number of bytes")
    return int(match[1]) / 100


def read_overflow(text: str) -> str:
    if text not in ("none", "replica", "proxy"):
        raise ValueError("want none, replica or proxy")
    return text


def read_list(text: str) -> tuple[str, ...]:
    """``a, b``: names without commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def read_weights(text: str) -> dict[str, float]:
    """``AUTH_a:2, AUTH_b:0.5``: weights by account."""
    weights = {}
    for part in read_list(text):
        account, colon, weight = part.rpartition(":")
        try:
            weights[account.strip()] = float(weight)
        except ValueError:
            colon = ""
        if not colon or not account.strip() or not 0.01 <= weights[account.strip()] <= 1000:
            raise ValueError("want accounts with weights from 0.01 to 1000, such as AUTH_a:2, AUTH_b:0.5")
    return weights


#: What a sandbox has there already: its control directory, its code, its scratch, the supervisor, the kernel's.
SANDBOX_PATHS: Final = (
    "/run/storlets",
    "/var/lib/storlets",
    "/tmp",  # noqa: S108  the sandbox has one of its own
    "/usr/local/lib/storlets",
    "/dev",
    "/proc",
    "/sys",
)


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def read_mounts(text: str) -> tuple[Mount, ...]:
    """``/srv/models:/models:ro, /srv/out:/out:rw``: directories of the host that a sandbox sees."""
    mounts = []
    for part in read_list(text):
        match = re.fullmatch(r"(/[^:]*):(/[^:]+)(?::(ro|rw))?", part)
        if not match or ".." in Path(match[1]).parts or ".." in Path(match[2]).parts:
            raise ValueError("want host directories such as /srv/models:/models:ro, separated by commas")
        # As the kernel names it: what becomes of the mount is read back by its path.
        target = str(Path(f"/{match[2].lstrip('/')}"))
        taken = [path for path in SANDBOX_PATHS if _overlap(Path(path), Path(target))]
        if taken:
            raise ValueError(f"{target} cannot be a mount of a sandbox: {taken[0]} is its own")
        mounts.append(Mount(match[1], target, is_writable=match[3] == "rw"))
    return tuple(mounts)


def read_name(text: str) -> str:
    value = text.strip()
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value):
        raise ValueError("want 1 to 64 letters, digits, '.', '_' or '-'")
    return value


@dataclass(frozen=True)
class Mount:
    """A directory of the host (``source``) that sandboxes of a trust class see as ``target``."""

    source: str
    target: str
    is_writable: bool


@dataclass(frozen=True)
class Option:
    """One row: ``default`` is text, read by ``reader`` like a value of the file."""

    section: str
    name: str
    reader: Callable[[str], Any]
    default: str
    help: str


OPTIONS: Final = (
    Option("storlet", "storlet_container", read_text, "storlet", "container of an account that holds its storlets"),
    Option("storlet", "dependency_container", read_text, "dependency", "container that holds their dependencies"),
    Option("storlet", "log_container", read_text, "storletlog", "container that receives invocation logs"),
    Option("storlet", "languages", read_languages, "python:3.11, java:17",
           "languages that may be uploaded and run, with the versions that the sandbox image has (a/b for several)"),
    Option("storlet", "internal_client_conf_path", read_text, "/etc/swift/internal-client.conf",
           "pipeline with which a node fetches storlet code; with slo, dlo and encryption if the proxies have them"),
    Option("rules", "container", read_text, "storlet_rules",
           "container of an account that holds its rules, in rules.yaml, and all their versions"),
    Option("rules", "role", read_text, "",
           "with the container's write ACL, needed to change rules by all who do not own the account; empty = the ACL decides"),
    Option("rules", "cache_bytes", read_bytes, "4M",
           "rules that a proxy process keeps compiled, as text; compiled they take some 30 times as much"),
    Option("rules", "check_seconds", read_seconds, "30", "CPU time that the check of an upload may take; then it is refused"),
    Option("placement", "run_on", read_run_on, "object",
           "where a GET runs by default: object (the node that holds the data) or proxy"),
    Option("placement", "chunk_bytes", read_bytes, "64K",
           "object_chunk_size of the proxy servers: a heartbeat must fill one such read to be seen"),
    Option("placement", "heartbeat_seconds", read_seconds, "3",
           "an object node says that a silent storlet is alive; well below the proxies' node_timeout"),
    Option("placement", "overflow", read_overflow, "none",
           "when the object node is full: none (wait there), replica (ask another one) or proxy (run it at the proxy)"),
    Option("sandbox", "image", read_text, "storlets/sandbox:latest", "Docker image that a sandbox starts from"),
    Option("sandbox", "run_dir", read_text, "/run/storlets", "sockets; short, because a socket path ends at 107 bytes"),
    Option("sandbox", "state_dir", read_text, "/var/lib/storlets", "code cache and identities; survives a restart"),
    Option("sandbox", "identity_dir", read_text, "/var/lib/storlets-identities",
           "which uids were ever given; one directory for all nodes of a machine, survives a restart"),
    Option("sandbox", "docker_url", read_text, "unix:///var/run/docker.sock", "the engine that sandboxd talks to"),
    Option("sandbox", "node_id", read_text, "", "value of the label org.storlets; empty = this host's name"),
    Option("sandbox", "group", read_name, "swift", "group whose members may ask sandboxd: the one Swift runs in"),
    Option("sandbox", "uid_first", read_count, "200000", "first uid and gid for sandboxes; must be unused on the host"),
    Option("sandbox", "uid_count", read_count, "100000", "how many; one per account, never given to another"),
    Option("sandbox", "start_deadline_seconds", read_seconds, "30", "a sandbox that does not answer by then is removed"),
    Option("sandbox", "stop_deadline_seconds", read_seconds, "5", "between asking a sandbox to end and killing it"),
    Option("sandbox", "idle_stop_seconds", read_seconds, "3600", "a sandbox without work for that long is stopped"),
    Option("sandbox", "max_per_node", read_count, "64", "sandboxes at a time; the least recently used idle one makes room"),
    Option("sandbox", "runtime", read_name, "runc", "OCI runtime known to the engine, such as runc or runsc"),
    Option("sandbox", "prewarmed", read_count, "0",
           "sandboxes that wait, started, for the next account that needs one; each idles with some 12 MB"),
    Option("sandbox", "code_cache_bytes", read_bytes, "10G",
           "copies of storlet code on this node; the least recently used that is not loaded goes first"),
    Option("sandbox", "accept_failures", read_list, "",
           "self-tests whose failure does not close a trust class on this node, by name; see storlet sandboxes --check"),
    Option("node", "memory", read_share, "75%", "of all sandboxes together, in bytes or of the host's; the rest is Swift's"),
    Option("node", "cpus", read_cpus, "0", "CPUs of all sandboxes together; 0 = no quota, only cpu_shares"),
    Option("node", "cpu_shares", read_count, "256",
           "weight of all sandboxes together when the CPUs are busy; a process of Swift's has 1024"),
    Option("node", "pids", read_count, "16384", "processes and threads of all sandboxes together"),
    Option("admission", "invocations", read_count, "0", "storlets that run at a time on this node; 0 = 32 for each CPU"),
    Option("admission", "queue", read_count, "2048", "invocations that wait at a time on this node; then 503"),
    Option("admission", "queue_per_tenant", read_count, "512", "of them of one account; then 429"),
    Option("admission", "weights", read_weights, "",
           "shares of accounts when they compete, such as AUTH_a:2, AUTH_b:0.5; all others have 1"),
    Option("limits", "memory_bytes", read_bytes, "1G", "memory of a sandbox, swap off"),
    Option("limits", "cpus", read_cpus, "0", "CPUs of a sandbox; 0 = no quota"),
    Option("limits", "pids", read_count, "512", "processes and threads of a sandbox"),
    Option("limits", "open_files", read_count, "1024", "open files of a process in a sandbox"),
    Option("limits", "scratch_bytes", read_bytes, "64M", "size of /tmp in a sandbox, kept in memory"),
    Option("limits", "storlet_memory_bytes", read_bytes, "512M", "memory of all workers of one storlet in a sandbox"),
    Option("limits", "storlet_cpus", read_cpus, "0", "CPUs of all workers of one storlet in a sandbox; 0 = no quota"),
    Option("limits", "storlet_processes", read_count, "256", "processes and threads of one storlet in a sandbox"),
    Option("limits", "output_bytes", read_bytes, "0", "output of an invocation; 0 = no limit"),
    Option("limits", "metadata_bytes", read_bytes, "4K", "metadata that a storlet sets, as JSON"),
    Option("limits", "log_bytes", read_bytes, "1M", "log of an invocation; what is beyond is cut, and the log says so"),
    Option("limits", "code_bytes", read_bytes, "256M", "a storlet with its dependencies"),
    Option("limits", "inputs", read_count, "16", "inputs of an invocation: ranges and extra resources"),
    Option("invocation", "first_byte_seconds", read_seconds, "120", "deadline for the first byte of output or the end"),
    Option("invocation", "idle_seconds", read_seconds, "40", "deadline for each further byte while input is at hand"),
    Option("invocation", "total_seconds", read_seconds, "7200", "deadline for a whole invocation"),
    Option("invocation", "queue_seconds", read_seconds, "30", "how long an invocation waits for a worker; then 429"),
    Option("invocation", "max_inflight_per_tenant", read_count, "256", "invocations of an account in a server process"),
    Option("invocation", "workers_python", read_count, "8", "workers at most, of one Python storlet in a sandbox"),
    Option("invocation", "workers_java", read_count, "4", "JVMs at most, of one Java storlet in a sandbox"),
    Option("invocation", "runs_per_worker", read_count, "1000", "a worker is replaced after so many invocations"),
    Option("invocation", "load_seconds", read_seconds, "30", "deadline for loading a storlet's code"),
    Option("invocation", "group_idle_seconds", read_seconds, "600", "workers of a storlet unused for that long end"),
)  # fmt: skip

#: What ``[class:user]`` and ``[class:admin]`` may say besides the options of :data:`CLASS_OPTIONS`: any of these, never
#: more than the section that it comes from has.
_LOWERED: Final = {
    "limits": ("memory_bytes", "cpus", "pids", "open_files", "scratch_bytes", "storlet_memory_bytes", "storlet_cpus",
               "storlet_processes", "output_bytes", "metadata_bytes", "log_bytes"),
    "invocation": ("first_byte_seconds", "idle_seconds", "total_seconds"),
}  # fmt: skip
#: Options for which 0 means that there is no limit.
_ZERO_IS_NONE: Final = ("cpus", "storlet_cpus", "output_bytes")
#: With less of these a storlet that does nothing could not run, whatever the language.
LEAST: Final = {
    "memory_bytes": 16 << 20,
    "pids": 4,
    "open_files": 64,
    "scratch_bytes": 64 << 10,
    "storlet_memory_bytes": 16 << 20,
    "storlet_cpus": 0.01,
    "storlet_processes": 4,
    "metadata_bytes": 16,
    "log_bytes": 256,
}
CLASSES: Final = ("user", "admin")
_IMAGE_SECTION: Final = "image:"
USER_CLASS: Final = "user"
ADMIN_CLASS: Final = "admin"
CLASS_OPTIONS: Final = (
    Option("class", "runtime", read_text, "", "OCI runtime of this class; empty = [sandbox] runtime"),
    Option("class", "accounts", read_list, "", "admin only: accounts all of whose storlets are of this class"),
    Option("class", "storlets", read_list, "", "admin only: single storlets of this class, as account/name"),
    Option("class", "network", read_text, "none", "admin only: a network of the engine, by name"),
    Option("class", "mounts", read_mounts, "", "admin only: directories of the host, such as /srv/models:/models:ro"),
)

SECTION_HELP: Final = {
    "storlet": "Where a tenant's storlets live, and which languages it may use.",
    "rules": "Who changes the rules of an account, and where they are.",
    "placement": "Which server runs a storlet, and how an object node answers the proxy.",
    "sandbox": "The node's sandboxes; read by storlet-sandboxd and by the filter.",
    "node": "What all sandboxes of a node may use together; read by storlet-sandboxd.",
    "admission": "How many invocations run and wait on a node, and whose turn it is.",
    "limits": "What one sandbox, one storlet in it (storlet_*), or one invocation may use; a trust class, a storlet's own\n"
    "# metadata and a request can each lower these, never raise them.",
    "invocation": "Deadlines and concurrency.",
}


@dataclass(frozen=True)
class StorletSection:
    storlet_container: str
    dependency_container: str
    log_container: str
    languages: dict[str, tuple[str, ...]]
    internal_client_conf_path: str


@dataclass(frozen=True)
class RulesSection:
    container: str
    role: str
    cache_bytes: int
    check_seconds: float


@dataclass(frozen=True)
class PlacementSection:
    run_on: str
    chunk_bytes: int
    heartbeat_seconds: float
    overflow: str


@dataclass(frozen=True)
class SandboxSection:
    image: str
    run_dir: str
    state_dir: str
    identity_dir: str
    docker_url: str
    node_id: str
    group: str
    uid_first: int
    uid_count: int
    start_deadline_seconds: float
    stop_deadline_seconds: float
    idle_stop_seconds: float
    max_per_node: int
    runtime: str
    prewarmed: int
    code_cache_bytes: int
    accept_failures: tuple[str, ...]


@dataclass(frozen=True)
class NodeSection:
    """``memory`` is bytes (``int``) or a fraction of the host's memory (``float``)."""

    memory: int | float
    cpus: float
    cpu_shares: int
    pids: int


@dataclass(frozen=True)
class AdmissionSection:
    """``invocations`` 0 stands for 32 a CPU."""

    invocations: int
    queue: int
    queue_per_tenant: int
    weights: dict[str, float]


@dataclass(frozen=True)
class LimitsSection:
    memory_bytes: int
    cpus: float
    pids: int
    open_files: int
    scratch_bytes: int
    storlet_memory_bytes: int
    storlet_cpus: float
    storlet_processes: int
    output_bytes: int
    metadata_bytes: int
    log_bytes: int
    code_bytes: int
    inputs: int


@dataclass(frozen=True)
class InvocationSection:
    first_byte_seconds: float
    idle_seconds: float
    total_seconds: float
    queue_seconds: float
    max_inflight_per_tenant: int
    workers_python: int
    workers_java: int
    runs_per_worker: int
    load_seconds: float
    group_idle_seconds: float


@dataclass(frozen=True)
class TrustClass:
    """A trust class: who is in it, and what its sandboxes may have; ``limits`` and ``invocation`` are those of the node
    with what the class lowers."""

    name: str
    runtime: str
    accounts: tuple[str, ...]
    storlets: tuple[str, ...]
    network: str
    mounts: tuple[Mount, ...]
    limits: LimitsSection
    invocation: InvocationSection


@dataclass(frozen=True)
class Config:
    """All options, typed; ``path`` is the file they came from."""

    storlet: StorletSection
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
        """The trust class of a storlet: ``admin`` when the operator grants it to the account or to the storlet."""
        admin = self.classes[ADMIN_CLASS]
        is_admin = account in admin.accounts or f"{account}/{storlet}" in admin.storlets
        return admin if is_admin else self.classes[USER_CLASS]

    def image_of(self, account: str) -> str:
        """The image of an account's sandboxes: ``[image:<account>]`` or the default."""
        return self.images.get(account, self.sandbox.image)


_SECTIONS: Final[dict[str, type]] = {
    "storlet": StorletSection,
    "rules": RulesSection,
    "placement": PlacementSection,
    "sandbox": SandboxSection,
    "node": NodeSection,
    "admission": AdmissionSection,
    "limits": LimitsSection,
    "invocation": InvocationSection,
}


def nearest(name: str, known: list[str]) -> str:
    """``; did you mean X?`` for the known name most like ``name``, else an empty string."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def parse(text: str, path: str = "") -> Config:
    """Read options from ``text``; raises :class:`ConfigError` with every fault."""
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=None, default_section="\0none")
    try:
        parser.read_string(text, source=path or "<string>")
    except configparser.Error as error:
        raise ConfigError(str(error)) from error
    faults = _unknown_names(parser)
    values: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for option in OPTIONS:
        raw = parser.get(option.section, option.name, fallback=option.default)
        values[option.section][option.name] = _read(option, raw, option.section, faults)
    if not faults:
        faults += _too_little("limits", values["limits"])
        _fit_defaults(parser, values["limits"])
        faults += _contradictions(values)
    classes = {name: _trust_class(parser, name, values, faults) for name in CLASSES}
    images = _images(parser, faults)
    if faults:
        where = path or "options"
        raise ConfigError("\n".join(f"{where}: {fault}" for fault in faults))
    values["sandbox"]["node_id"] = values["sandbox"]["node_id"] or socket.gethostname()
    sections = {name: cls(**values[name]) for name, cls in _SECTIONS.items()}
    return Config(path=path, classes=classes, images=images, **sections)


#: What of the sandbox's one storlet may have at most.
_PARTS: Final = (("storlet_memory_bytes", "memory_bytes"), ("storlet_processes", "pids"))


def _fit_defaults(parser: configparser.ConfigParser, limits: dict[str, Any]) -> None:
    """A small sandbox lowers what one storlet in it has by default."""
    for part, whole in _PARTS:
        if not parser.has_option("limits", part):
            limits[part] = min(limits[part], limits[whole])


def _trust_class(
    parser: configparser.ConfigParser, name: str, values: dict[str, dict[str, Any]], faults: list[str]
) -> TrustClass:
    """``[class:<name>]`` over the node's values; notes every fault."""
    section = f"class:{name}"
    own: dict[str, Any] = {}
    for option in CLASS_OPTIONS:
        raw = parser.get(section, option.name, fallback=option.default)
        if name != ADMIN_CLASS and option.name != "runtime" and raw != option.default:
            faults.append(f"[{section}] {option.name}: only [class:{ADMIN_CLASS}] may have it")
        own[option.name] = _read(option, raw, section, faults)
    own["runtime"] = own["runtime"] or values["sandbox"].get("runtime", "")
    faults += [
        f"[{section}] storlets = {entry}: want account/name"
        for entry in own["storlets"] or ()
        if not all(entry.partition("/")) or entry.count("/") > 1
    ]
    lowered = {part: dict(values[part]) for part in _LOWERED}
    for option in OPTIONS:
        if option.name in _LOWERED.get(option.section, ()) and parser.has_option(section, option.name):
            value = _read(option, parser.get(section, option.name), section, faults)
            most = values[option.section].get(option.name)
            if value is not None and most is not None and _is_more(option.name, value, most):
                faults.append(f"[{section}] {option.name} is more than [{option.section}] {option.name} = {most:g}")
            elif value is not None:
                faults += _too_little(section, {option.name: value})
            lowered[option.section][option.name] = value
    for part, whole in _PARTS if not faults else ():
        lowered["limits"][part] = min(lowered["limits"][part], lowered["limits"][whole])
    if faults:  # the result is thrown away
        return TrustClass(name, "", (), (), "", (), None, None)  # type: ignore[arg-type]
    return TrustClass(
        name=name,
        limits=LimitsSection(**lowered["limits"]),
        invocation=InvocationSection(**lowered["invocation"]),
        **own,
    )


def _is_more(name: str, value: float, most: float) -> bool:
    if name in _ZERO_IS_NONE:
        return bool(most) and (value > most or not value)
    return value > most


def _too_little(section: str, values: Mapping[str, float]) -> list[str]:
    """A fault for each limit with which nothing could run; in a class 0 would moreover mean none at all to the kernel."""
    return [
        f"[{section}] {name}: want at least {least:g}{' or 0 for no limit' if name in _ZERO_IS_NONE else ''}"
        for name, least in LEAST.items()
        if name in values and values[name] < least and (values[name] or name not in _ZERO_IS_NONE)
    ]


def _images(parser: configparser.ConfigParser, faults: list[str]) -> dict[str, str]:
    images = {}
    for section in parser.sections():
        if section.startswith(_IMAGE_SECTION):
            image = parser.get(section, "image", fallback="").strip()
            if not image:
                faults.append(f"[{section}] image: want the name of a Docker image")
            images[section.removeprefix(_IMAGE_SECTION)] = image
    return images


def _read(option: Option, raw: str, section: str, faults: list[str]) -> Any:
    try:
        return option.reader(raw)
    except ValueError as error:
        faults.append(f"[{section}] {option.name} = {raw}: {error}")
        return None


def _unknown_names(parser: configparser.ConfigParser) -> list[str]:
    faults = []
    known = {section: [o.name for o in OPTIONS if o.section == section] for section in _SECTIONS}
    of_class = [option.name for option in CLASS_OPTIONS] + [name for names in _LOWERED.values() for name in names]
    known |= {f"class:{name}": of_class for name in CLASSES}
    known |= {section: ["image"] for section in parser.sections() if section.startswith(_IMAGE_SECTION)}
    for section in parser.sections():
        if section not in known:
            faults.append(f"unknown section [{section}]{nearest(section, list(known))}")
            continue
        faults += [
            f"[{section}] unknown option {name}{nearest(name, known[section])}"
            for name in parser.options(section)
            if name not in known[section]
        ]
    return faults


def _contradictions(values: dict[str, dict[str, Any]]) -> list[str]:
    faults = []
    containers = [values["storlet"][f"{name}_container"] for name in ("storlet", "dependency", "log")]
    if len(set(containers)) < len(containers) or any(not c or "/" in c for c in containers):
        faults.append("[storlet] the three containers need three different names without '/'")
    rules = values["rules"]["container"]
    if not rules or "/" in rules or rules in containers:
        faults.append("[rules] container: want a name without '/' that is none of the containers in [storlet]")
    if values["limits"]["inputs"] > _MAX_INPUTS:
        faults.append(f"[limits] inputs: want at most {_MAX_INPUTS}, which is what one message to a sandbox can carry")
    limits = values["limits"]
    for part, whole in _PARTS:
        if limits[part] > limits[whole]:
            faults.append(f"[limits] {part} is more than {whole}, which is the whole sandbox's")
    node = values["node"]["memory"]
    if isinstance(node, int) and 0 < node < limits["memory_bytes"]:
        faults.append("[limits] memory_bytes is more than [node] memory, which is all sandboxes' together")
    for section, name in (("node", "memory"), ("node", "cpu_shares"), ("node", "pids"), ("limits", "inputs"),
                          ("admission", "queue"), ("admission", "queue_per_tenant"), ("sandbox", "code_cache_bytes"),
                          ("sandbox", "uid_first"), ("sandbox", "uid_count"), ("sandbox", "max_per_node"),
                          ("placement", "chunk_bytes"), ("rules", "cache_bytes"),
                          ("invocation", "workers_python"), ("invocation", "workers_java"),
                          ("invocation", "max_inflight_per_tenant"), ("invocation", "runs_per_worker")):  # fmt: skip
        if not values[section][name]:
            faults.append(f"[{section}] {name}: want at least 1")
    return faults


def load(path: str = DEFAULT_PATH) -> Config:
    """Read the file at ``path``; a missing file is a fault that says so, not a set of defaults."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(Path(path).absolute()))


def sample() -> str:
    """``etc/storlet.conf-sample``: every option once, commented out, with its default and its meaning."""
    lines = [
        "# Options of storlets for OpenStack Swift: /etc/swift/storlet.conf, the same file on proxies and storage nodes.",
        "# Every option is shown with its default. Sizes take K, M, G; unknown names are refused at start.",
    ]
    for section, text in SECTION_HELP.items():
        lines += ["", f"# {text}", f"[{section}]"]
        for option in OPTIONS:
            if option.section == section:
                lines += [f"# {option.help}", f"# {option.name} = {option.default}".rstrip()]
    lowered = ", ".join(name for names in _LOWERED.values() for name in names)
    lines += [
        "",
        "# Trust classes. Every storlet is of class user; the operator lifts single ones, or whole accounts, to admin.",
    ]
    lines += textwrap.wrap(f"Each class may lower {lowered}.", 116, initial_indent="# ", subsequent_indent="# ")
    for name in CLASSES:
        lines.append(f"[class:{name}]")
        for option in CLASS_OPTIONS:
            if name == ADMIN_CLASS or option.name == "runtime":
                lines += [f"# {option.help}", f"# {option.name} = {option.default}".rstrip()]
    lines += ["", "# An image of its own for one account; it must have what sandbox_images/README.rst asks for.",
              "# [image:AUTH_example]", "# image = example/storlets:1"]  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(sample())
