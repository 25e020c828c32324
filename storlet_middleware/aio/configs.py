"""The text of every configuration file of a cluster, from a few tables.

Each ``up`` writes the files again.  For a permanent change, write ``overrides.conf`` beside them::

    [storlet.conf:limits]
    memory_bytes = 512M
    [proxy-server.conf:app:proxy-server]
    node_timeout = 20
"""

from __future__ import annotations

import base64
import configparser
import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import rings
from .cache import cache_root
from .home import Home
from .packages import USER
from .progress import AioError
from .settings import UIDS_PER_CLUSTER

Sections = dict[str, dict[str, object]]

USERS: Final = {
    "admin:admin": ("admin", ".admin .reseller_admin"),
    "test:tester": ("testing", ".admin"),
    "test2:tester2": ("testing2", ".admin"),
    "test:tester3": ("testing3", ""),
    "test5:tester5": ("testing5", "service"),
}

POLICIES: Final[tuple[dict[str, object], ...]] = (
    {"name": "replicated", "index": 0, "default": True, "type": "replication"},
    {"name": "ec21", "index": 1, "default": False, "type": "erasure_coding"},
)

PROXY_PIPELINE: Final = (
    "catch_errors gatekeeper healthcheck proxy-logging cache listing_formats bulk tempurl "
    "ratelimit storlets-s3 s3api tempauth staticweb storlets copy container-quotas account-quotas "
    "slo dlo versioned_writes symlink ENCRYPTION proxy-logging proxy-server"
)
OBJECT_PIPELINE: Final = "healthcheck recon storlets object-server"
FETCH_PIPELINE: Final = "catch_errors proxy-logging cache slo dlo symlink ENCRYPTION proxy-server"

# Filter sections that need no option of their own.
PLAIN_FILTERS: Final = (
    "catch_errors gatekeeper healthcheck listing_formats bulk tempurl ratelimit s3api staticweb "
    "copy container-quotas account-quotas dlo symlink proxy-logging encryption"
)


#: The file of `[secrets] key_file`.
SECRETS_KEY: Final = "secrets.key"


@dataclass(frozen=True)
class Choices:
    """Choices of the user through environment variables of ``up``."""

    encryption: bool = False
    filter: bool = True
    workers: int = 0
    image: str = "storlets/sandbox:latest"
    docker_host: str = "unix:///var/run/docker.sock"
    accept_failures: tuple[str, ...] = ()
    replicas: rings.Replicas = rings.DEFAULT
    self_tests: tuple[str, ...] = ()


#: All servers share one machine, which may stall for seconds: with these timeouts that causes no
#: missing replica and no late listing. A server that is down refuses at once.
_PATIENCE: Final[Mapping[str, object]] = {"conn_timeout": 5, "post_quorum_timeout": 10}
_PATIENCE_OF_OBJECTS: Final[Mapping[str, object]] = {
    "conn_timeout": 5,
    "container_update_timeout": 10,
}


def choices_from(env: Mapping[str, str], image: str, docker_host: str) -> Choices:
    """Read ``STORLETS_ENCRYPTION``, ``STORLETS_FILTER`` and other choices of :class:`Choices`."""
    workers = env.get("STORLETS_WORKERS") or "0"
    if not workers.isdigit():
        raise AioError(
            f"STORLETS_WORKERS={workers!r}: want a number; 0 is one process without a parent"
        )
    tested = env.get("STORLETS_SELF_TESTS") or ""
    if tested not in {"", "user"}:
        raise AioError(f"STORLETS_SELF_TESTS={tested!r}: want user, or nothing for all classes")
    return Choices(
        encryption=_switch(env, "STORLETS_ENCRYPTION", default=False),
        filter=_switch(env, "STORLETS_FILTER", default=True),
        workers=int(workers),
        replicas=rings.Replicas(
            databases=_replicas(env, "STORLETS_DATABASE_REPLICAS"),
            objects=_replicas(env, "STORLETS_OBJECT_REPLICAS"),
        ),
        image=image,
        docker_host=docker_host,
        self_tests=(tested,) if tested else (),
    )


def write_all(home: Home, choices: Choices) -> None:
    """Write every file; readable for Swift's user and root only, because user keys are in there."""
    files = {
        "swift.conf": swift_conf(home),
        "proxy-server.conf": proxy_conf(home, choices),
        "account-server-1.conf": account_conf(home, choices),
        "container-server-1.conf": container_conf(home, choices),
        "object-server-1.conf": object_conf(home, choices, 1),
        "object-server-2.conf": object_conf(home, choices, 2),
        "internal-client.conf": internal_client_conf(home, choices),
        "storlet.conf": storlet_conf(home, choices),
    }
    home.real_conf.mkdir(parents=True, exist_ok=True)
    overrides = _read_overrides(home.real_conf / "overrides.conf", set(files))
    for name, sections in files.items():
        for section, options in overrides.get(name, {}).items():
            sections.setdefault(section, {}).update(options)
        head = "# Written by `make up`; to change an option see overrides.conf.\n"
        _write_private(home.real_conf / name, head + render(sections))
    _write_private(home.real_conf / SECRETS_KEY, f"{_secrets_key(home)}\n")
    home.real_conf.chmod(0o755)


def _write_private(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, "utf-8")
    new.chmod(0o640)
    if os.geteuid() == 0:
        shutil.chown(new, "root", USER)
    new.replace(path)


def render(sections: Sections) -> str:
    blocks = []
    for section, options in sections.items():
        lines = [f"{key} = {value}".rstrip() for key, value in options.items()]
        blocks.append("\n".join([f"[{section}]", *lines]) + "\n")
    return "\n".join(blocks)


def swift_conf(home: Home) -> Sections:
    sections: Sections = {
        "swift-hash": {"swift_hash_path_suffix": home.hash_suffix},
        "swift-constraints": {},
    }
    for policy in POLICIES:
        options: dict[str, object] = {
            "name": policy["name"],
            "policy_type": policy["type"],
            "default": "yes" if policy["default"] else "no",
        }
        if policy["type"] == "erasure_coding":
            options |= {
                "ec_type": "liberasurecode_rs_vand",
                "ec_num_data_fragments": 2,
                "ec_num_parity_fragments": 1,
                "ec_object_segment_size": 1048576,
            }
        sections[f"storage-policy:{policy['index']}"] = options
    return sections


def proxy_conf(home: Home, choices: Choices) -> Sections:
    sections = {"DEFAULT": _server(home, choices, "proxy")}
    sections["pipeline:main"] = {"pipeline": _pipeline(PROXY_PIPELINE, choices)}
    sections["app:proxy-server"] = {
        "use": "egg:swift#proxy",
        "account_autocreate": "true",
        "allow_account_management": "true",
        **_PATIENCE,
    }
    sections |= _swift_filters(home, choices)
    users = {
        f"user_{user.replace(':', '_')}": f"{key} {groups}".strip()
        for user, (key, groups) in USERS.items()
    }
    sections["filter:tempauth"] = {"use": "egg:swift#tempauth", **users}
    sections["filter:storlets"] = _storlets(home, "proxy", "proxy")
    if choices.filter:
        sections["filter:s3api"] = {"use": "egg:swift-storlets#s3api"}
    sections["filter:storlets-s3"] = {"use": "egg:swift-storlets#s3_headers"}
    return sections


def account_conf(home: Home, choices: Choices) -> Sections:
    return _backend(home, choices, "account-1", "account", "healthcheck recon account-server")


def container_conf(home: Home, choices: Choices) -> Sections:
    return _backend(home, choices, "container-1", "container", "healthcheck recon container-server")


def object_conf(home: Home, choices: Choices, number: int) -> Sections:
    sections = _backend(
        home, choices, f"object-{number}", "object", _pipeline(OBJECT_PIPELINE, choices)
    )
    sections["app:object-server"] |= _PATIENCE_OF_OBJECTS
    sections["filter:storlets"] = _storlets(home, "object", f"object-{number}")
    # Not run by the all-in-one; here so that `swift-object-auditor CONF once` and the like work.
    sections |= {
        f"object-{daemon}": {} for daemon in ("replicator", "reconstructor", "updater", "auditor")
    }
    return sections


def internal_client_conf(home: Home, choices: Choices) -> Sections:
    """The pipeline that fetches storlet code: all filters that change data, no authorisation."""
    sections: Sections = {"DEFAULT": {**_logging("internal-client"), "swift_dir": home.conf}}
    sections["pipeline:main"] = {"pipeline": _pipeline(FETCH_PIPELINE, choices)}
    sections["app:proxy-server"] = {
        "use": "egg:swift#proxy",
        "account_autocreate": "true",
        **_PATIENCE,
    }
    return sections | _swift_filters(home, choices)


def storlet_conf(home: Home, choices: Choices) -> Sections:
    return {
        "storlet": {"internal_client_conf_path": home.conf / "internal-client.conf"},
        "secrets": {"key_file": home.conf / SECRETS_KEY},
        "placement": {},
        "sandbox": {
            "image": choices.image,
            "run_dir": home.run,
            "state_dir": home.state,
            "identity_dir": identities(),
            "docker_url": choices.docker_host,
            "node_id": home.node_id,
            "group": USER,
            "uid_first": home.uid_first,
            "uid_count": UIDS_PER_CLUSTER,
            "accept_failures": ", ".join(choices.accept_failures),
        },
        "limits": {},
        "invocation": {},
    }


def identities() -> Path:
    """The directory of allocated uids, shared by all clusters of this machine."""
    return cache_root() / "identities"


def _backend(home: Home, choices: Choices, name: str, kind: str, pipeline: str) -> Sections:
    return {
        "DEFAULT": _server(home, choices, name)
        | {"devices": home.disks, "mount_check": "false", "fallocate_reserve": 0},
        "pipeline:main": {"pipeline": pipeline},
        f"app:{kind}-server": {"use": f"egg:swift#{kind}"},
        "filter:healthcheck": {"use": "egg:swift#healthcheck"},
        "filter:recon": {"use": "egg:swift#recon", "recon_cache_path": _recon(home, name)},
    }


def _server(home: Home, choices: Choices, name: str) -> dict[str, object]:
    return {
        "bind_ip": "127.0.0.1",
        "bind_port": home.ports[name],
        "workers": choices.workers,
        "user": USER,
        "swift_dir": home.conf,
        **_logging(name),
    }


def _logging(name: str) -> dict[str, object]:
    """Log to standard error (servers run with ``-v``); send the syslog copy to the discard port."""
    return {"log_name": name, "log_level": "INFO", "log_udp_host": "127.0.0.1", "log_udp_port": 9}


def _swift_filters(home: Home, choices: Choices) -> Sections:
    sections: Sections = {
        f"filter:{name}": {"use": f"egg:swift#{name.replace('-', '_')}"}
        for name in PLAIN_FILTERS.split()
    }
    sections["filter:cache"] = {
        "use": "egg:swift#memcache",
        "memcache_servers": f"127.0.0.1:{home.ports['memcached']}",
        "memcache_max_connections": 16,
        "pool_timeout": 10,
        "io_timeout": 10,
    }
    sections["filter:slo"] = {"use": "egg:swift#slo", "min_segment_size": 1}
    sections["filter:versioned_writes"] = {
        "use": "egg:swift#versioned_writes",
        "allow_versioned_writes": "true",
        "allow_object_versioning": "true",
    }
    sections["filter:keymaster"] = {
        "use": "egg:swift#keymaster",
        # 32 bytes in base64, constant for the life of the data: derived from the other secret.
        "encryption_root_secret": _root_secret(home),
    }
    if not choices.encryption:
        del sections["filter:keymaster"], sections["filter:encryption"]
    return sections


def _root_secret(home: Home) -> str:
    return _derived("keymaster", home)


def _secrets_key(home: Home) -> str:
    return _derived("secrets", home)


def _derived(purpose: str, home: Home) -> str:
    return base64.b64encode(
        hashlib.sha256(f"{purpose}\0{home.hash_suffix}".encode()).digest()
    ).decode()


def _pipeline(text: str, choices: Choices) -> str:
    words = []
    for word in text.split():
        if word == "ENCRYPTION":
            words += ["keymaster", "encryption"] if choices.encryption else []
        elif word not in ("storlets", "storlets-s3") or choices.filter:
            words.append(word)
    return " ".join(words)


def _storlets(home: Home, role: str, name: str) -> dict[str, object]:
    return {
        "use": "egg:swift-storlets#storlets",
        "role": role,
        "storlet_conf_path": home.conf / "storlet.conf",
        "recon_cache_path": _recon(home, name),
    }


def _recon(home: Home, name: str) -> Path:
    return Path(home.root) / "recon" / name


def _read_overrides(path: Path, known: set[str]) -> dict[str, Sections]:
    found: dict[str, Sections] = {}
    parser = configparser.RawConfigParser(default_section="\0")
    try:
        parser.read(path, encoding="utf-8")
    except configparser.Error as error:
        raise AioError(f"{path}: {error}") from error
    for title in parser.sections():
        file, _, section = title.partition(":")
        if file not in known or not section:
            raise AioError(
                f"{path}: [{title}]: want [FILE:SECTION], FILE one of {', '.join(sorted(known))}"
            )
        found.setdefault(file, {})[section] = dict(parser.items(title))
    return found


def _replicas(env: Mapping[str, str], name: str) -> int:
    value = env.get(name) or str(rings.REPLICAS)
    if value not in map(str, range(1, len(rings.DISKS) + 1)):
        raise AioError(
            f"{name}={value!r}: want a number from 1 to {len(rings.DISKS)}, the number of disks"
        )
    return int(value)


def _switch(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = env.get(name, "").strip().lower()
    if value in {"", "0", "no", "off", "false", "1", "yes", "on", "true"}:
        return value in {"1", "yes", "on", "true"} if value else default
    raise AioError(f"{name}={value!r}: want 1 or 0")
