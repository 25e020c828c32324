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
from collections.abc import Callable
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


def read_name(text: str) -> str:
    value = text.strip()
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value):
        raise ValueError("want 1 to 64 letters, digits, '.', '_' or '-'")
    return value


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
    Option("placement", "run_on", read_run_on, "object",
           "where a GET runs by default: object (the node that holds the data) or proxy"),
    Option("placement", "chunk_bytes", read_bytes, "64K",
           "object_chunk_size of the proxy servers: a heartbeat must fill one such read to be seen"),
    Option("placement", "heartbeat_seconds", read_seconds, "3",
           "an object node says that a silent storlet is alive; well below the proxies' node_timeout"),
    Option("sandbox", "image", read_text, "storlets/sandbox:latest", "Docker image that a sandbox starts from"),
    Option("sandbox", "run_dir", read_text, "/run/storlets", "sockets; short, because a socket path ends at 107 bytes"),
    Option("sandbox", "state_dir", read_text, "/var/lib/storlets", "code cache and identities; survives a restart"),
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
    Option("limits", "memory_bytes", read_bytes, "1G", "memory of a sandbox, swap off"),
    Option("limits", "cpus", read_cpus, "0", "CPUs of a sandbox; 0 = no quota"),
    Option("limits", "pids", read_count, "512", "processes and threads of a sandbox"),
    Option("limits", "open_files", read_count, "1024", "open files of a process in a sandbox"),
    Option("limits", "scratch_bytes", read_bytes, "64M", "size of /tmp in a sandbox, kept in memory"),
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

SECTION_HELP: Final = {
    "storlet": "Where a tenant's storlets live, and which languages it may use.",
    "placement": "Which server runs a storlet, and how an object node answers the proxy.",
    "sandbox": "The node's sandboxes; read by storlet-sandboxd and by the filter.",
    "limits": "What one sandbox or one invocation may use.",
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
class PlacementSection:
    run_on: str
    chunk_bytes: int
    heartbeat_seconds: float


@dataclass(frozen=True)
class SandboxSection:
    image: str
    run_dir: str
    state_dir: str
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


@dataclass(frozen=True)
class LimitsSection:
    memory_bytes: int
    cpus: float
    pids: int
    open_files: int
    scratch_bytes: int
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
class Config:
    """All options, typed; ``path`` is the file they came from."""

    storlet: StorletSection
    placement: PlacementSection
    sandbox: SandboxSection
    limits: LimitsSection
    invocation: InvocationSection
    path: str = ""


_SECTIONS: Final[dict[str, type]] = {
    "storlet": StorletSection,
    "placement": PlacementSection,
    "sandbox": SandboxSection,
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
        try:
            values[option.section][option.name] = option.reader(raw)
        except ValueError as error:
            faults.append(f"[{option.section}] {option.name} = {raw}: {error}")
    if not faults:
        faults += _contradictions(values)
    if faults:
        where = path or "options"
        raise ConfigError("\n".join(f"{where}: {fault}" for fault in faults))
    values["sandbox"]["node_id"] = values["sandbox"]["node_id"] or socket.gethostname()
    sections = {name: cls(**values[name]) for name, cls in _SECTIONS.items()}
    return Config(path=path, **sections)


def _unknown_names(parser: configparser.ConfigParser) -> list[str]:
    faults = []
    known = {section: [o.name for o in OPTIONS if o.section == section] for section in _SECTIONS}
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
    if values["limits"]["inputs"] > _MAX_INPUTS:
        faults.append(f"[limits] inputs: want at most {_MAX_INPUTS}, which is what one message to a sandbox can carry")
    for section, name in (("sandbox", "uid_first"), ("sandbox", "uid_count"), ("sandbox", "max_per_node"),
                          ("limits", "pids"), ("limits", "inputs"), ("limits", "memory_bytes"),
                          ("limits", "metadata_bytes"), ("limits", "log_bytes"), ("placement", "chunk_bytes"),
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
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(sample())
