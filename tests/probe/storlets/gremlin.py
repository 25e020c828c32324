"""A storlet that misbehaves on demand: the parameter ``do`` names the behaviour.

With ``key`` a run can be identified: its process takes the key as its name, so that a test finds
it among the host's processes. A byte is added to ``/tmp/count-<key>``, so that a test can count
the runs.

Numbered output is lines of ``<nonce of the run> <number>``: tests detect a splice of two runs and
a missing piece.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from typing import Any

VERSION = "1"
CHUNK = 256 * 1024
PR_SET_NAME = 15


def _set_process_name(name: str) -> None:
    """Set the name of this process. A worker's files in /proc belong to root, so comm is not
    writable."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


class Gremlin:
    """See the module."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        self.ins, self.out, self.params = in_files, out_files[0], params
        self.outs = out_files
        self.nonce = os.urandom(8).hex()
        self.number = 0
        self.run = self._identify_run(params["key"]) if "key" in params else 0
        getattr(self, params.get("do", "identity"))()

    def _identify_run(self, key: str) -> int:
        _set_process_name(key)
        with open(f"/tmp/count-{key}", "ab") as file:
            file.write(b"x")
            return file.tell()

    def _float(self, name: str, otherwise: str = "0") -> float:
        return float(self.params.get(name, otherwise))

    def _lines(self, count: int) -> None:
        """Write ``count`` numbered lines at once."""
        first = self.number
        self.number += count
        self.out.write("".join(f"{self.nonce} {number:010}\n" for number in range(first, self.number)).encode())
        self.out.flush()

    # --- harmless ------------------------

    def identity(self) -> None:
        for source in self.ins:
            while chunk := source.read(CHUNK):
                self.out.write(chunk)

    def counted(self) -> None:
        path = pathlib.Path(f"/tmp/count-{self.params['of']}")
        self.out.write(str(path.stat().st_size if path.exists() else 0).encode())

    def touch(self) -> None:
        """Release :meth:`hold` with this ``go``."""
        pathlib.Path(f"/tmp/go-{self.params['go']}").touch()

    def version(self) -> None:
        self.out.write(VERSION.encode())

    def numbered(self) -> None:
        """``lines`` lines after ``before`` seconds of silence, then ``trickle`` lines, one a
        second."""
        time.sleep(self._float("before"))
        self._lines(int(self.params.get("lines", "0")))
        time.sleep(self._float("pause"))
        for _ in range(int(self.params.get("trickle", "0"))):
            self._lines(1)
            time.sleep(self._float("every", "1"))
        self._lines(1)

    def hold(self) -> None:
        """``lines`` lines, then wait for :meth:`touch`, then a line. With ``once`` only the first
        waits."""
        if lines := int(self.params.get("lines", "0")):
            self._lines(lines)
        is_held = self.run <= 1 or "once" not in self.params
        while is_held and not os.path.exists(f"/tmp/go-{self.params['key']}"):
            time.sleep(0.02)
        self.out.write(f"{VERSION} ".encode() if "tell" in self.params else b"")
        self._lines(1)

    def spread(self) -> None:
        """``bytes`` bytes into each output, from the last to the first; then wait for
        :meth:`touch`. With ``drops``, one byte into each in each half second instead. The object
        ``creates`` is one more."""
        made = []
        if "creates" in self.params:
            from storlet import services

            made.append(services.create(self.params["creates"]))
        files = [*self.outs, *made]
        for file in reversed(files):
            file.write(b"x" * int(self.params.get("bytes", "0")))
            file.flush()
        for _ in range(int(self.params.get("drops", "0"))):
            time.sleep(0.5)
            for file in files:
                file.write(b"x")
                file.flush()
        if "drops" not in self.params:
            self.hold()
        for file in made:
            file.close()

    def call(self) -> None:
        """The output of :meth:`hold` with the key ``inner``, run by another storlet on ``of``; or
        the code of the call's failure."""
        from storlet import services

        given = {"do": "hold", "key": self.params["inner"], "once": "1"}
        try:
            with services.call("gremlin.py", self.params["of"], given) as result:
                self.out.write(result.read())
        except services.ServiceError as error:
            self.out.write(error.code.encode())

    def open_slowly(self) -> None:
        """The size of the object ``of``, of which all but the start is read after ``pause``
        seconds, with the process named ``opened``; or the code of the failure."""
        from storlet import services

        try:
            with services.open(self.params["of"]) as file:
                size = len(file.read(1))
                _set_process_name(self.params["opened"])
                time.sleep(self._float("pause"))
                while piece := file.read(CHUNK):
                    size += len(piece)
            self.out.write(str(size).encode())
        except services.ServiceError as error:
            self.out.write(error.code.encode())

    def slow_reader(self) -> None:
        """Take the input in small pieces with pauses."""
        size = 0
        while chunk := self.ins[0].read1(4096):
            size += len(chunk)
            time.sleep(self._float("every"))
        self.out.write(str(size).encode())

    # --- bad ends ------------------------

    def end(self) -> None:
        """``lines`` lines, ``pause`` seconds, then the end that ``how`` names."""
        if lines := int(self.params.get("lines", "0")):
            self._lines(lines)
            time.sleep(self._float("pause"))
        how = self.params["how"]
        if how == "raise":
            raise RuntimeError("fails on purpose: " + self.params.get("word", "-"))
        if how == "exit":
            os._exit(0)
        if how == "sysexit":
            sys.exit(0)
        if how == "thread-exit":
            threading.Thread(target=os._exit, args=(0,)).start()
            time.sleep(60)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "abort":
            os.abort()
        if how == "exec":
            os.execv("/bin/true", ["true"])
        if how == "stall":
            time.sleep(3600)
        if how == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)

    # --- too much ------------------------

    def flood(self) -> None:
        """Write ``bytes`` bytes without reading the input; without end if ``bytes`` is missing."""
        block, left = bytes(range(256)) * 1024, int(self.params.get("bytes", str(1 << 62)))
        while left:
            self.out.write(block[:left])
            left -= min(left, len(block))

    def ignore(self) -> None:
        """Return quickly without reading the input."""
        self.out.write(b"ignored")

    def metadata(self) -> None:
        self.out.set_metadata(json.loads(self.params["metadata"]))
        self.out.write(b"metadata was set")

    def metadata_flood(self) -> None:
        """Send events without end, below the author's interface."""
        event = json.dumps({"type": "metadata", "metadata": {"a": "x" * 1000}}).encode()
        connection = _invocation_connection()
        for _ in range(100_000):
            connection.send(event)
        self.out.write(b"?")

    def log_flood(self) -> None:
        for number in range(int(self.params["lines"])):
            self.logger.info("%d %s", number, "x" * 1000)
        self.out.write(b"logged")

    def memory(self) -> None:
        kept = []
        while True:
            kept.append(bytearray(os.urandom(1)) * (16 << 20))

    def memory_of_child(self) -> None:
        """A child uses all memory; the error does not say so."""
        code = "import os\nkept = []\nwhile True: kept.append(bytearray(os.urandom(1)) * (1 << 24))"
        subprocess.run(["/usr/bin/python3", "-c", code], check=False)
        raise ValueError("nothing useful came out")

    def python_child(self) -> None:
        """Output of a child Python that imports a module of the standard library."""
        command = ["/usr/bin/python3", "-c", "import colorsys; print('own', end='')"]
        self.out.write(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    def shared_memory(self) -> None:
        """Memory that belongs to no process: files in /tmp are also kept in memory."""
        kept = []
        for number in range(1000):
            memory = mmap.mmap(-1, 16 << 20)
            memory.write(b"x" * (16 << 20))
            kept.append(memory)
            self.logger.debug("%d", number)
        self.out.write(b"?")

    def scratch(self) -> None:
        """Fill /tmp."""
        path = pathlib.Path(f"/tmp/filler-{os.getpid()}")
        try:
            with path.open("wb") as file:
                while True:
                    file.write(b"x" * CHUNK)
        except OSError as error:
            size = path.stat().st_size
            path.unlink()
            self.out.write(f"{error.errno} {size}".encode())

    def fill_shm(self) -> None:
        """The number of files in /dev/shm; then fill it with as many as possible."""
        folder = pathlib.Path("/dev/shm")
        found, made = len(list(folder.glob("name-*"))), 0
        try:
            while True:
                (folder / f"name-{os.getpid()}-{made}").touch()
                made += 1
        except OSError as error:
            self.out.write(f"{found} {made} {error.errno}".encode())

    def fork_bomb(self) -> None:
        while True:
            os.fork()

    def stubborn_fork_bomb(self) -> None:
        """A fork bomb that ignores errors, leaves its session and continues without end."""
        while True:
            try:
                if os.fork() == 0:
                    os.setsid()
            except OSError:
                pass

    def forked_return(self) -> None:
        """A forked copy returns normally, then the original fails."""
        self._lines(10)
        if os.fork() == 0:
            return
        time.sleep(0.5)
        raise RuntimeError("the original fails")

    def thread_bomb(self) -> None:
        while True:
            threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()

    def descriptors(self) -> None:
        kept = []
        while True:
            kept.append(os.open("/dev/null", os.O_RDONLY))

    def orphans(self) -> None:
        """Succeed and leave programs behind that have left group and session and ignore signals."""
        deaf = "import ctypes, signal, sys, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; "
        named = f"ctypes.CDLL(None).prctl({PR_SET_NAME}, sys.argv[1].encode(), 0, 0, 0); time.sleep(3600)"
        for _ in range(3):
            subprocess.Popen([sys.executable, "-c", deaf + named, self.params["child"]], start_new_session=True)
        self.out.write(b"left")

    def copies(self) -> None:
        """Leave copies of this process behind, which have its output open."""
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                        signal.signal(number, signal.SIG_IGN)
                    _set_process_name(self.params["child"])
                    time.sleep(3600)
                os._exit(0)
        self.out.write(b"left")

    def busy(self) -> None:
        """Compute without end and ignore signals."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        while True:
            pass

    # --- lies ------------------------

    def forge_done(self) -> None:
        """Send ``done`` to the filter while the output is still open, then hang."""
        self._lines(10)
        _invocation_connection().send(json.dumps({"type": "done", "outcome": "ok", "usage": None}).encode())
        time.sleep(3600)

    def forge_garbage(self) -> None:
        """Send what is not a message."""
        _invocation_connection().send(zlib.decompress(bytes.fromhex(self.params["packed"])))
        time.sleep(3600)

    def forge_end(self) -> None:
        """Report the end of this run to the supervisor, then continue."""
        channel = _sockets()[1]
        channel.send(json.dumps({"type": "end", "recycle": False, "failed": False}).encode())
        time.sleep(0.5)
        self._lines(10)

    def forge_reports(self) -> None:
        """Flood the supervisor, then succeed."""
        channel = _sockets()[1]
        channel.setblocking(False)
        for _ in range(20_000):
            try:
                channel.send(b"\x00garbage")
            except BlockingIOError:
                time.sleep(0.0001)
            except OSError:
                break
        self.out.write(b"flooded")

    def squat(self) -> None:
        """Keep a thread that accepts this storlet's next connections and sends a false success."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, os.dup(3))

        def lie() -> None:
            while True:
                select.select([listening], [], [])
                try:
                    connection, _ = listening.accept()
                except OSError:
                    continue
                connection.send(b'{"type":"started"}')
                connection.send(b'{"type":"done","outcome":"ok"}')
                connection.close()

        threading.Thread(target=lie, daemon=True).start()
        self.out.write(b"squatting")

    def hoard(self) -> None:
        """Keep duplicates of all descriptors for later runs in this process."""
        kept = [os.dup(int(fd)) for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and os.path.exists(f"/proc/self/fd/{fd}")]
        self.out.write(b"%d" % len(kept))

    def kill_all(self) -> None:
        """Kill every process in reach."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in (1, -1):
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
        self.out.write(b"?")

    # --- what a sandbox lets its storlet see ------------------------

    def look(self) -> None:
        """The outcome of every escape attempt, as JSON: ``no`` and the reason, or the result."""
        fd = self.ins[0].fileno()
        status = dict(line.split(":\t", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
        found: dict[str, Any] = {
            "uid": [os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()],
            "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
            "no_new_privileges": status["NoNewPrivs"],
            "seccomp": status["Seccomp"],
            "interfaces": sorted(line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line),
            "unix_sockets": [line.split()[-1] for line in open("/proc/net/unix") if "/" in line or "@" in line],
            "processes": sum(entry.isdigit() for entry in os.listdir("/proc")),
            "descriptors": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")),
            "setuid": _setuid_files(),
            "environment": sorted(os.environ),
            "input_is_file": os.path.isfile(f"/proc/self/fd/{fd}"),
        }
        attempts = {
            "tcp": lambda: socket.create_connection(("127.0.0.1", int(self.params["port"])), 2),
            "metadata address": lambda: socket.create_connection(("169.254.169.254", 80), 2),
            "names": lambda: socket.getaddrinfo("example.org", 80),
            "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
            "packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
            "write /": lambda: open("/x", "w"),
            "write /usr": lambda: open("/usr/local/lib/storlets/python/storlet_daemon/__main__.py", "a"),
            "write code": lambda: open(os.path.join(self.params["storlet_execution_path"], "gremlin.py"), "a"),
            "chmod code": lambda: os.chmod(os.path.join(self.params["storlet_execution_path"], "gremlin.py"), 0o777),
            "new file beside code": lambda: open(os.path.join(self.params["storlet_execution_path"], "new.py"), "w"),
            "new directory of code": lambda: os.mkdir("/var/lib/storlets/new"),
            "write control": lambda: open("/run/storlets/x", "w"),
            "write /etc": lambda: open("/etc/passwd", "a"),
            "write /dev": lambda: open("/dev/x", "w"),
            "write sysctl": lambda: open("/proc/sys/kernel/core_pattern", "w"),
            "sysrq": lambda: open("/proc/sysrq-trigger", "w"),
            "write /sys": lambda: open("/sys/kernel/profiling", "w"),
            "cgroup": lambda: os.mkdir("/sys/fs/cgroup/memory/x"),
            "docker socket": lambda: _connect("/var/run/docker.sock"),
            "syslog": lambda: _connect("/dev/log", socket.SOCK_DGRAM),
            "control socket": lambda: _connect("/run/storlets/control.sock", socket.SOCK_SEQPACKET),
            "kmsg": lambda: os.open("/dev/kmsg", os.O_RDONLY),
            "memory": lambda: os.open("/dev/mem", os.O_RDONLY),
            "device": lambda: os.mknod("/tmp/device", 0o600 | 0o060000, os.makedev(8, 0)),
            "root of 1": lambda: os.listdir("/proc/1/root"),
            "memory of 1": lambda: os.open("/proc/1/mem", os.O_RDWR),
            "descriptors of 1": lambda: os.listdir("/proc/1/fd"),
            "chroot": lambda: os.chroot("/tmp"),
            "become root": lambda: os.setuid(0),
            "unshare": lambda: _call("unshare", 0x10000000),
            "mount": lambda: _call("mount", b"none", b"/tmp", b"tmpfs", 0, None),
            "ptrace": lambda: _call("ptrace", 16, 1, None, None),
            "bpf": lambda: _call("syscall", 321, 0, None, 0),
            "keyctl": lambda: _call("syscall", 250, 0, 0, 0),
            "io_uring": lambda: _call("syscall", 425, 1, mmap.mmap(-1, 4096) and None),
            "open_by_handle_at": lambda: _call("syscall", 304, -100, None, 0),
            "reopen input to write": lambda: os.open(f"/proc/self/fd/{fd}", os.O_RDWR),
            "reopen input to append": lambda: os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_APPEND),
            "write input": lambda: os.write(fd, b"x"),
            "truncate input": lambda: os.ftruncate(fd, 0),
            "map input to write": lambda: mmap.mmap(fd, 10, mmap.MAP_SHARED, mmap.PROT_WRITE),
            "chmod input": lambda: os.fchmod(fd, 0o777),
            "attributes of input": lambda: os.getxattr(fd, "user.swift.metadata"),
            "set attributes of input": lambda: os.setxattr(fd, "user.swift.metadata", b"x"),
            "link input": lambda: os.link(f"/proc/self/fd/{fd}", "/tmp/linked", follow_symlinks=True),
            "leave by input": lambda: os.open("..", os.O_RDONLY, dir_fd=fd),
            "nice": lambda: os.nice(-5),
        }
        for name, attempt in attempts.items():
            try:
                got = attempt()
            except (OSError, ValueError) as error:
                found[name] = f"no: {error}"
            else:
                found[name] = f"got {got!r}"
        self.out.write(json.dumps(found).encode())


def _connect(path: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, kind)
    connection.connect(path)
    return connection


def _call(name: str, *arguments: Any) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = getattr(library, name)(*given)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _setuid_files() -> list[str]:
    found = []
    for folder in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec"):
        for parent, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(parent, name)
                try:
                    if os.lstat(path).st_mode & 0o6000:
                        found.append(path)
                except OSError:
                    continue
    return found


def _sockets() -> list[socket.socket]:
    """Listening socket, channel to the supervisor, and the rest, by what the descriptors are."""
    numbers = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))
    found = []
    for number in numbers:
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                found.append(socket.socket(fileno=os.dup(number)))
        except OSError:
            continue
    return found


def _invocation_connection() -> socket.socket:
    """The accepted connection: it has the name of the listening socket, and a peer."""
    return next(
        one
        for one in _sockets()[1:]
        if one.type == socket.SOCK_SEQPACKET and one.getsockname() and _has_peer(one)
    )


def _has_peer(one: socket.socket) -> bool:
    try:
        one.getpeername()
    except OSError:
        return False
    return True
