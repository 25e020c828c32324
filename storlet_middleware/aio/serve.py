"""Run a command of Swift with a ``swift.conf`` of its own, so that a machine can have two clusters.

``python -m storlet_middleware.aio.serve CONF_DIR swift-object-server CONF -v``.  Swift's servers
take the hash secret and the rings from ``swift_dir``, but their modules read storage policies and
constraints from ``/etc/swift/swift.conf`` when they are imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import distribution


def main(argv: Sequence[str]) -> int:
    """Become the console script ``argv[2]`` of Swift, with the arguments that follow."""
    conf_dir, command = argv[1:3]
    use(conf_dir)
    script = next(
        e
        for e in distribution("swift").entry_points
        if e.group == "console_scripts" and e.name == command
    )
    sys.argv = [command, *argv[3:]]
    return int(script.load()() or 0)


def use(conf_dir: str) -> None:
    """Use this ``swift.conf``; call it before importing Swift modules that read it."""
    from swift.common import utils  # noqa: PLC0415  (the tooling runs without Swift)

    utils.SWIFT_CONF_FILE = f"{conf_dir}/swift.conf"
    from swift.common import constraints, storage_policy  # noqa: PLC0415

    constraints.reload_constraints()
    storage_policy.reload_storage_policies()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
