"""A node of its own for the object server object-2: its own sandboxd, sandboxes and options.

The servers of a test cluster share one sandboxd.  With a second one, one object node can be in a
bad state while the rest of the cluster, the proxy included, is well.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.support.accounts import unique
from tests.support.cluster import Cluster, start_server
from tests.support.forked_servers import Forked
from tests.support.forking import Commands, commands_of
from tests.support.freezing import frozen, with_children
from tests.support.waiting import wait_for

SERVER: Final = "object-2"
#: Far from the uids of all clusters of a machine.
_UID_DISTANCE: Final = 10_000_000

Options = Mapping[str, Mapping[str, object]]


class SecondNode:
    """Use :meth:`attached` around :meth:`state`, which puts the node into one state."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.conf = cluster.storlet_conf.with_name("storlet-2.conf")
        self.run_dir = cluster.run_dir.parent / "second"
        self.state_dir = cluster.state_dir.with_name("state-2")
        self.log = cluster.process("sandboxd").log.with_name("sandboxd-2.log")
        self.name = ""
        self._sandboxd: Forked | subprocess.Popen[bytes] | None = None
        self._commands: Commands

    @contextlib.contextmanager
    def attached(self, changes: Options) -> Iterator[None]:
        """Let the object server use the configuration of this node during the block.

        :param changes: further options of the cluster.
        """
        self._write({})
        own = {"object-server-2.conf:filter:storlets": {"storlet_conf_path": self.conf}}
        module = "storlet_middleware.sandboxd.__main__"
        try:
            with (
                self.cluster.configured({**own, **changes}),
                commands_of(self.cluster.venv, "storlet-sandboxd", module) as self._commands,
            ):
                yield
        finally:
            self.conf.unlink()
            shutil.rmtree(self.state_dir, ignore_errors=True)
            shutil.rmtree(self.run_dir, ignore_errors=True)

    @contextlib.contextmanager
    def state(self, options: Options, *, has_sandboxd: bool = True) -> Iterator[None]:
        """Run the node with ``options`` (``{"sandbox": {"image": ...}}``) during the block."""
        self._write(options)
        try:
            # Both start at the same time.
            if has_sandboxd:
                self._start_sandboxd()
            self.cluster.stop(SERVER)
            self.cluster.start(SERVER)
            if has_sandboxd:
                wait_for(self._answers, 20, "the second sandboxd")
            yield
        finally:
            if not self.cluster.is_running(SERVER):
                self.cluster.start(SERVER)
            self.end_sandboxd()
            self._write({})
            self._commands.run(["--conf", str(self.conf), "--remove-all"], {})

    # --- sandboxd ---------------------------------------------------------------------------------

    def _start_sandboxd(self) -> None:
        """Start it; it answers later."""
        with self.log.open("ab") as log:
            # Only one state has storlets of another class, whose first load tests it.
            bin_dir = self.cluster.venv / "bin"
            words = [bin_dir / "python3", bin_dir / "storlet-sandboxd", "--conf", self.conf]
            command = [*map(str, words), "--test", "user"]
            self._sandboxd = start_server(command, stdout=log, stderr=log)

    def end_sandboxd(self) -> None:
        """Kill it, also when it is stopped."""
        sandboxd, self._sandboxd = self._sandboxd, None
        if sandboxd is not None:
            sandboxd.send_signal(signal.SIGKILL)
            sandboxd.wait(10)

    def freeze_sandboxd(self) -> None:
        """Stop the process; its socket accepts connections and never answers."""
        assert self._sandboxd is not None
        self._sandboxd.send_signal(signal.SIGSTOP)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            return probe.connect_ex(os.fspath(self.run_dir / "sandboxd.sock")) == 0

    # --- the object server ------------------------------------------------------------------------

    @contextlib.contextmanager
    def without_filter(self) -> Iterator[None]:
        """Take the filter out of the object server's pipeline during the block."""
        conf = self.cluster.storlet_conf.with_name("object-server-2.conf")
        text = conf.read_text(encoding="utf-8")
        bare = text.replace("recon storlets object-server", "recon object-server")
        assert bare != text
        self._restart_with(conf, bare)
        try:
            yield
        finally:
            self._restart_with(conf, text)

    def _restart_with(self, conf: Path, text: str) -> None:
        conf.write_text(text, encoding="utf-8")
        self.cluster.stop(SERVER)
        self.cluster.start(SERVER)

    @contextlib.contextmanager
    def frozen_server(self) -> Iterator[None]:
        """Stop all processes of the object server during the block."""
        pid = self.cluster.process(SERVER).pid
        assert pid is not None
        with frozen(with_children(pid)):
            yield

    # --- options ----------------------------------------------------------------------------------

    def _write(self, options: Options) -> None:
        """The cluster's options with those of this node and ``options``.

        Each state is a node of its own name: the proxy remembers nodes that could not run storlets.
        """
        parser = configparser.RawConfigParser()
        parser.read(self.cluster.storlet_conf, encoding="utf-8")
        base = parser["sandbox"]
        if options or not self.name:
            self.name = unique("node")
        own = {
            "run_dir": self.run_dir,
            "state_dir": self.state_dir,
            "node_id": self.name,
            "uid_first": int(base["uid_first"]) + _UID_DISTANCE,
        }
        for section, values in {"sandbox": own, "placement": {"heartbeat_seconds": 0.5}}.items():
            _update(parser, section, values)
        for section, values in options.items():
            _update(parser, section, values)
        with self.conf.open("w", encoding="utf-8") as file:
            parser.write(file)
        shutil.copymode(self.cluster.storlet_conf, self.conf)
        shutil.chown(
            self.conf, self.cluster.storlet_conf.owner(), self.cluster.storlet_conf.group()
        )


def _update(
    parser: configparser.RawConfigParser, section: str, values: Mapping[str, object]
) -> None:
    if not parser.has_section(section):
        parser.add_section(section)
    for key, value in values.items():
        parser.set(section, key, str(value))
