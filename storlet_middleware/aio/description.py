"""``cluster.json``: what people and tests read about a running cluster."""

from __future__ import annotations

from typing import Any

from . import configs, engine, java, programs, rings
from .client import log_in
from .home import CHECKOUT, Home
from .parts import Parts


def describe(
    home: Home, entries: list[programs.Entry], parts: Parts, *, check: bool = True
) -> dict[str, Any]:
    """The description; with ``check`` every user logs in, so that a real request was answered."""
    base = f"http://127.0.0.1:{home.ports['proxy']}"
    jar = parts.java / java.API_JAR if parts.java else None
    return {
        "auth_url": f"{base}/auth/v1.0",
        "users": {user: key for user, (key, _) in configs.USERS.items()},
        "storage_urls": {user: _storage_url(base, user, check=check) for user in configs.USERS},
        "processes": programs.described(
            home, entries, engine.our_pid(), engine.LOG, parts.engine.api.host
        ),
        "policies": list(configs.POLICIES),
        "disks": [
            {"path": str(home.disks / disk), "name": disk, "object_server": f"object-{node}"}
            for disk, node in rings.DISKS.items()
        ],
        "rings": {file: str(home.conf / f"{file}.ring.gz") for file in rings.FILES},
        "sandbox_image": parts.image,
        "java_api_jar": str(jar) if jar else None,
        "java_dir": str(parts.java) if parts.java else None,
        "native_dir": str(parts.native) if parts.native else None,
        "venv": str(parts.venv),
        "home": str(home.real),
        "conf_dir": str(home.conf),
        "storlet_conf": str(home.conf / "storlet.conf"),
        "run_dir": str(home.run),
        "state_dir": str(home.state),
        "node_id": home.node_id,
        "docker_host": parts.engine.api.host,
        "checkout": str(CHECKOUT),
    }


def _storage_url(base: str, user: str, *, check: bool) -> str:
    """The URL of a user's account: tempauth's answer, or without ``check`` its known form."""
    if check:
        return log_in(f"{base}/auth/v1.0", user, configs.USERS[user][0]).storage_url
    return f"{base}/v1/AUTH_{user.partition(':')[0]}"
