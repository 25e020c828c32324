"""A storlet that attacks: the parameter ``do`` names the attack.

The attacks of ``gremlin.py``, its dependency, are not repeated here.

Attacks with many tries return a report as JSON: for each try ``no: <refusal>`` or ``got <what>``.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import gzip
import io
import json
import mmap
import os
import pathlib
import signal
import socket
import stat
import struct
import sys
import time
import xml.etree.ElementTree
import zlib
from typing import Any

from gremlin import CHUNK, Gremlin, _connect, _invocation_connection, _sockets

libc = ctypes.CDLL(None, use_errno=True)

#: Numbers of x86-64.
CALLS = {
    "ptrace": 101, "syslog": 103, "pivot_root": 155, "acct": 163, "settimeofday": 164, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172,
    "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "chroot": 161, "modify_ldt": 154, "vhangup": 153,
    "lookup_dcookie": 212, "clock_settime": 227, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
    "migrate_pages": 256, "unshare": 272, "move_pages": 279, "perf_event_open": 298, "fanotify_init": 300,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442,
    "quotactl_fd": 443, "process_mrelease": 448, "set_mempolicy_home_node": 450,
}  # fmt: skip
#: A lock of the first byte of a file, for reading.
BYTE_LOCK = struct.pack("hhxxxxqqixxxx", fcntl.F_RDLCK, 0, 0, 1, 0)
NAMESPACES = {
    "user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x8000000, "uts": 0x4000000,
    "cgroup": 0x2000000, "time": 0x80,
}  # fmt: skip


def call(number: int, *arguments: Any) -> int:
    """A system call by its number; ``OSError`` as it failed."""
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *given))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Hostile(Gremlin):
    """See the module."""

    def _report(self, attempts: dict[str, Any], **facts: Any) -> None:
        found: dict[str, Any] = dict(facts)
        known = self._descriptors()
        for name, attempt in attempts.items():
            # Blanks before the JSON, so that a long list on a slow machine does not exceed the idle
            # deadline.
            self.out.write(b" ")
            self.out.flush()
            found[name] = self._outcome_of(attempt)
            self._close_all_but(known)
        self.out.write(json.dumps(found).encode())

    @staticmethod
    def _outcome_of(attempt: Any) -> str:
        try:
            return f"got {attempt()!r}"[:200]
        except (OSError, ValueError, AttributeError, MemoryError, NotImplementedError) as error:
            return f"no: {error}"

    @staticmethod
    def _descriptors() -> set[int]:
        # The list has a descriptor of its own.
        listed = os.listdir("/proc/self/fd")
        return {int(fd) for fd in listed if os.path.lexists(f"/proc/self/fd/{fd}")}

    def _close_all_but(self, known: set[int]) -> None:
        """Close what an attempt has opened: the next run in this process would find it."""
        for fd in self._descriptors() - known:
            os.close(fd)

    # --- too much ------------------------

    def native_memory(self) -> None:
        """Memory outside of the interpreter's allocator."""
        libc.malloc.restype = ctypes.c_void_p
        while True:
            block = libc.malloc(ctypes.c_size_t(16 << 20))
            ctypes.memset(block, 1, 16 << 20)

    def memory_files(self) -> None:
        """Anonymous memory files (memfd)."""
        while True:
            fd = os.memfd_create("hostile")
            os.write(fd, b"x" * (16 << 20))

    def page_cache(self) -> None:
        """Map every visible file repeatedly, to fill the page cache."""
        until = time.monotonic() + self._float("seconds", "1.5")
        while time.monotonic() < until:
            for folder in ("/usr/lib", "/usr/bin", "/var/lib/storlets"):
                for parent, _, names in os.walk(folder):
                    for name in names:
                        if time.monotonic() > until:
                            break
                        self._touch_pages(os.path.join(parent, name))
        self.out.write(b"touched")

    @staticmethod
    def _touch_pages(path: str) -> None:
        try:
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
                for offset in range(0, len(pages), 4096):
                    pages[offset]
        except (OSError, ValueError):
            pass

    def fill_mounts(self) -> None:
        """Fill every writable mount; report the bytes written to each and the final error."""
        found: dict[str, Any] = {}
        points = [line.split()[4] for line in open("/proc/self/mountinfo")]
        for point in sorted({*points, "/", "/tmp", "/var/tmp", "/run", "/dev/shm", "/home", os.environ.get("HOME", "/")}):
            path = os.path.join(point, f"filler-{os.getpid()}")
            try:
                file = open(path, "wb", buffering=0)
            except OSError as error:
                found[point] = f"no: {error}"
                continue
            try:
                while True:
                    file.write(b"x" * CHUNK)
            except OSError as error:
                found[point] = [errno.errorcode[error.errno], os.fstat(file.fileno()).st_size]
            file.close()
            os.unlink(path)
        self.out.write(json.dumps(found).encode())

    def plants_files(self) -> None:
        """Leave modules where the Python of another storlet may look for them."""
        site = f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
        homes = {"/tmp", *(f"/homes/{name}" for name in os.listdir("/homes"))}
        found = {}
        for home in homes - {os.environ["HOME"]}:
            for name in ("colorsys.py", f"{site}/usercustomize.py"):
                path = pathlib.Path(home, name)
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text("print('planted')")
                    found[str(path)] = "got: written"
                except OSError as error:
                    found[str(path)] = f"no: {error}"
        self.out.write(json.dumps(found).encode())

    def fill_inodes(self) -> None:
        """Create empty files until creation fails."""
        folder = pathlib.Path(f"/tmp/inodes-{os.getpid()}")
        folder.mkdir()
        count, reason = 0, ""
        try:
            while count < 1_000_000:
                os.close(os.open(folder / str(count), os.O_CREAT | os.O_WRONLY))
                count += 1
        except OSError as error:
            reason = errno.errorcode[error.errno]
        for number in range(count):
            os.unlink(folder / str(number))
        folder.rmdir()
        self.out.write(json.dumps([reason, count]).encode())

    def pipes(self) -> None:
        """Kernel memory: fill pipes and sockets."""
        held: list[Any] = []
        try:
            while True:
                pair = socket.socketpair()
                held.append(pair)
                pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
                pair[0].setblocking(False)
                while True:
                    try:
                        pair[0].send(b"x" * 65536)
                    except BlockingIOError:
                        break
        except OSError as error:
            self.out.write(json.dumps([errno.errorcode[error.errno or 0], len(held)]).encode())

    def timers(self) -> None:
        """Kernel objects without descriptors: timers, locks, message queues."""
        counts = {}
        for name, make in (("timer", self._timer), ("queue", lambda: call(240, b"/x", 0o102, 0o600, None)),
                           ("msgget", lambda: call(68, 0, 0o1600)), ("semget", lambda: call(64, 0, 100, 0o1600)),
                           ("shmget", lambda: call(29, 0, 1 << 20, 0o1600))):  # fmt: skip
            count = 0
            try:
                while count < 200_000:
                    make()
                    count += 1
                reason = "no end"
            except OSError as error:
                reason = errno.errorcode[error.errno]
            counts[name] = [reason, count]
        self.out.write(json.dumps(counts).encode())

    @staticmethod
    def _timer() -> None:
        made = ctypes.c_int()
        call(222, 1, None, ctypes.byref(made))

    def uninterruptible_sleep(self) -> None:
        """Sleep without reads, writes or reaction to signals."""
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(3600)

    def busy_threads(self) -> None:
        """After some output, compute on every core without end."""
        self._lines(int(self.params.get("lines", "0")))
        for _ in range(4):
            if os.fork() == 0:
                while True:
                    pass
        while True:
            pass

    def trickle(self) -> None:
        """Write one byte each time before the idle deadline would pass."""
        while True:
            self.out.write(b"x")
            self.out.flush()
            time.sleep(self._float("every", "0.5"))

    def trickle_files(self) -> None:
        """Write a byte into each of many created objects and outputs in turn, without a pause."""
        from storlet import services

        made = [services.create(f"/data/trickle-{number}") for number in range(8)]
        for out in self.outs:
            out.write(b"x")
            out.flush()
        files = [each.raw for each in (*made, *self.outs)]
        while True:
            for file in files:
                file.write(b"x")

    def escapes(self) -> None:
        """Log lines with escapes that would control the reader's terminal."""
        for number in range(int(self.params["lines"])):
            self.logger.info("\x1b]0;owned\x07\x1b[2J\x1b[31m%d\x9b5n\r\n\x00 forged ERROR line", number)
        for fd in (1, 2):
            try:
                os.write(fd, b"\x1b[2Jprinted\n")
            except OSError:
                continue
        if "fail" in self.params:
            raise RuntimeError("\x1b[2J\x1b]0;owned\x07\r\nX-Forged: yes\r\n\x9b31m")
        self.out.write(b"logged")

    def huge_traceback(self) -> None:
        """An error text that exceeds every message limit."""
        raise RuntimeError("x" * (8 << 20))

    # --- honest parsers of hostile input ------------------------

    def unzip(self) -> None:
        """Decompress the whole content in memory."""
        data = gzip.GzipFile(fileobj=io.BytesIO(self.ins[0].read())).read()
        self.out.write(str(len(data)).encode())

    def unzip_stream(self) -> None:
        """Decompress as a stream: only the sandbox limits the output."""
        source = gzip.GzipFile(fileobj=self.ins[0])
        while chunk := source.read(CHUNK):
            self.out.write(chunk)

    def parse_xml(self) -> None:
        self.out.write(str(len(xml.etree.ElementTree.fromstring(self.ins[0].read()).text or "")).encode())

    # --- signals ------------------------

    def kill_others(self) -> None:
        """Kill every visible process except this one and process 1."""
        mine = os.getpid()
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) not in (1, mine):
                try:
                    os.kill(int(entry), signal.SIGKILL)
                except OSError:
                    pass
        self.out.write(b"?")

    def signal_supervisor(self) -> None:
        """Send every signal to process 1, by every call."""
        self._report({
            **{f"signal {number}": lambda number=number: self._must_matter(number) for number in (0,)},
            "ptrace": lambda: call(101, 16, 1, 0, 0), "pidfd_getfd": self._steal, "memory": lambda: os.open("/proc/1/mem", os.O_RDWR),
            "read memory": lambda: os.open("/proc/1/mem", os.O_RDONLY), "descriptors": lambda: os.listdir("/proc/1/fd"),
            "environment": lambda: open("/proc/1/environ").read(), "maps": lambda: open("/proc/1/maps").read(100) or self._empty(),
            "priority": lambda: os.setpriority(os.PRIO_PROCESS, 1, -5), "limits": lambda: call(302, 1, 7, struct.pack("QQ", 64, 64), None),
            "oom": lambda: self._put("/proc/1/oom_score_adj", b"1000"), "name": lambda: self._put("/proc/1/comm", b"x"),
            "vm": self._read_other,
        })  # fmt: skip

    def read_programs(self) -> None:
        """Read, signal and connect to the programs that other storlets have started."""
        attempts: dict[str, Any] = {}
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            if pid != 1 and os.getsid(pid) != os.getsid(0):
                attempts |= {
                    f"{pid} environment": lambda pid=pid: open(f"/proc/{pid}/environ").read(),
                    f"{pid} memory": lambda pid=pid: os.open(f"/proc/{pid}/mem", os.O_RDONLY),
                    f"{pid} maps": lambda pid=pid: open(f"/proc/{pid}/maps").read(100),
                    f"{pid} descriptor": lambda pid=pid: os.readlink(f"/proc/{pid}/fd/1"),
                    f"{pid} signal": lambda pid=pid: os.kill(pid, 0),
                    f"{pid} ptrace": lambda pid=pid: call(101, 16, pid, 0, 0),
                }
        self._report(attempts | {"abstract socket": self._connect_abstract})

    @staticmethod
    def _connect_abstract() -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.connect("\0program")
        return client

    @staticmethod
    def _put(path: str, data: bytes) -> int:
        fd = os.open(path, os.O_WRONLY)
        try:
            return os.write(fd, data)
        finally:
            os.close(fd)

    @staticmethod
    def _empty() -> None:
        raise OSError("empty")

    @staticmethod
    def _must_matter(number: int) -> str:
        """A signal to process 1 without effect is not a success."""
        for each in signal.Signals:
            try:
                os.kill(1, each)
            except OSError:
                continue
        time.sleep(0.2)
        state = open("/proc/1/stat").read().rpartition(")")[2].split()[0]
        if state in "SR":
            raise OSError(f"process 1 lives on ({state})")
        return state

    @staticmethod
    def _steal() -> int:
        return call(438, os.pidfd_open(1), 0, 0)

    @staticmethod
    def _read_other(pid: int = 1) -> int:
        buffer = ctypes.create_string_buffer(8)
        vector = struct.pack("QQ", ctypes.addressof(buffer), 8)
        return call(310, pid, vector, 1, vector, 1, 0)

    # --- other storlets of the same tenant ------------------------

    def siblings(self) -> None:
        """Code, processes and sockets of the tenant's other storlets."""
        root = "/var/lib/storlets"
        folders = [os.path.join(root, name) for name in os.listdir(root)] if os.access(root, os.R_OK) else []
        folders.append(self.params["storlet_execution_path"])
        others = [int(e) for e in os.listdir("/proc") if e.isdigit() and int(e) not in (1, os.getpid())]
        attempts: dict[str, Any] = {"new directory": lambda: os.mkdir(root + "/new"), "rename": lambda: os.rename(folders[0], root + "/other"),
                                    "mount over": lambda: call(165, b"none", root.encode(), b"tmpfs", 0, 0)}  # fmt: skip
        for folder in folders:
            for name in [folder, *(os.path.join(folder, name) for name in os.listdir(folder))]:
                attempts |= {
                    f"write {name}": lambda name=name: os.open(name, os.O_WRONLY), f"chmod {name}": lambda name=name: os.chmod(name, 0o777),
                    f"chown {name}": lambda name=name: os.chown(name, os.getuid(), os.getgid()),
                    f"truncate {name}": lambda name=name: os.truncate(name, 0), f"unlink {name}": lambda name=name: os.unlink(name),
                    f"add to {name}": lambda name=name: open(name + "/new.py", "w"), f"attribute {name}": lambda name=name: os.setxattr(name, "user.x", b"x"),
                }  # fmt: skip
        for pid in others:
            attempts |= {
                f"ptrace {pid}": lambda pid=pid: call(101, 16, pid, 0, 0), f"memory {pid}": lambda pid=pid: os.open(f"/proc/{pid}/mem", os.O_RDWR),
                f"vm {pid}": lambda pid=pid: self._read_other(pid), f"getfd {pid}": lambda pid=pid: self._getfd(pid),
                f"descriptors {pid}": lambda pid=pid: [os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR) for fd in os.listdir(f"/proc/{pid}/fd")] or self._empty(),
                f"which {pid}": lambda pid=pid: self._name_of(pid), f"environment {pid}": lambda pid=pid: open(f"/proc/{pid}/environ").read() or self._empty(),
            }  # fmt: skip
        self._report(attempts)

    @staticmethod
    def _getfd(pid: int) -> int:
        descriptor = os.pidfd_open(pid)
        try:
            return call(438, descriptor, 3, 0)
        finally:
            os.close(descriptor)

    @staticmethod
    def _name_of(pid: int) -> None:
        raise OSError(open(f"/proc/{pid}/comm").read().strip() + " of " + open(f"/proc/{pid}/stat").read().rpartition(")")[2][:20])

    # --- out of the sandbox ------------------------

    def sockets(self) -> None:
        """Connect to every Unix socket that can be found or whose path can be guessed."""
        names = {line.split()[-1] for line in open("/proc/net/unix") if len(line.split()) > 7}
        names |= {"/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/dev/log", "/run/systemd/private",
                  "/run/storlets/control.sock", "@/containerd-shim", "@/tmp/.X11-unix/X0"}  # fmt: skip
        for folder in ("/run", "/var/run", "/tmp", "/var/lib/storlets", "/dev"):
            for parent, _, files in os.walk(folder):
                for name in files:
                    path = os.path.join(parent, name)
                    try:
                        if stat.S_ISSOCK(os.lstat(path).st_mode):
                            names.add(path)
                    except OSError:
                        continue
        kinds = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packets": socket.SOCK_SEQPACKET}
        attempts = {}
        for name in sorted(names):
            address = "\0" + name[1:] if name.startswith("@") else name
            for kind, number in kinds.items():
                attempts[f"{kind} {name}"] = lambda address=address, number=number: _connect(address, number)
        self._report(attempts)

    def places(self) -> None:
        """Read or write files of the host, the kernel or other processes."""
        fds = [int(fd) for fd in os.listdir("/proc/self/fd")]
        attempts: dict[str, Any] = {}
        for name in ("/proc/1/root", "/proc/1/cwd", "/proc/1/fd", "/proc/1/ns", "/proc/self/root/../../etc/shadow"):
            attempts[f"list {name}"] = lambda name=name: os.listdir(name)
        for name in ("/etc/shadow", "/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/kmsg",
                     "/proc/sysvipc/shm", "/sys/kernel/debug", "/sys/firmware/acpi", "/sys/kernel/security", "/proc/acpi", "/proc/scsi/scsi",
                     "/proc/1/environ", "/proc/1/maps", "/proc/1/stack", "/proc/1/syscall", "/proc/vmallocinfo", "/proc/slabinfo"):  # fmt: skip
            attempts[f"read {name}"] = lambda name=name: self._content(name)
        for name in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger",
                     "/proc/self/mem/../../1/mem", "/proc/1/oom_score_adj", "/proc/irq/0/smp_affinity", "/proc/fs", "/sys/kernel/uevent_helper",
                     "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max",
                     "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/memory/release_agent",
                     "/sys/class/net", "/etc/passwd", "/etc/ld.so.preload", "/usr/bin/python3", "/run/x", "/var/lib/x", "/dev/x",
                     "/usr/local/lib/storlets/python/storlet_daemon/__main__.py", "/run/storlets/x"):  # fmt: skip
            attempts[f"write {name}"] = lambda name=name: os.open(name, os.O_WRONLY | os.O_CREAT, 0o600)
        for name in sorted(os.listdir("/dev")):
            if name not in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd", "stdin", "stdout", "stderr", "pts", "shm", "mqueue", "console"):
                attempts[f"device {name}"] = lambda name=name: os.open(f"/dev/{name}", os.O_RDWR)
        for name, major, minor in (("mem", 1, 1), ("sda", 8, 0), ("kvm", 10, 232), ("fuse", 10, 229), ("vda", 254, 0)):
            attempts[f"make {name}"] = lambda name=name, device=os.makedev(major, minor): os.mknod(f"/tmp/{name}", 0o660 | stat.S_IFBLK, device)
        attempts |= {"console": lambda: os.open("/dev/console", os.O_RDWR),
                     "oom": lambda: self._put("/proc/self/oom_score_adj", b"-1000"),
                     "nice": lambda: os.nice(-5), "realtime": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
                     "ioprio": lambda: call(251, 1, 0, 1 << 13), "root": lambda: os.setuid(0), "group 0": lambda: os.setgid(0),
                     "groups": lambda: os.setgroups([0]), "core": lambda: self._raise_limit(4), "files": lambda: self._raise_limit(7)}  # fmt: skip
        links = [os.readlink(f"/proc/self/fd/{fd}") for fd in fds if os.path.lexists(f"/proc/self/fd/{fd}")]
        for fd, link in zip(fds, links, strict=False):
            if link.startswith("/") and link != "/dev/null" and not link.startswith("/memfd"):
                attempts[f"reopen {link}"] = lambda fd=fd: os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
        self._report(attempts)

    @staticmethod
    def _content(name: str) -> bytes:
        """The content of a file; Docker's masks (an empty file mounted over it) and zeroed
        addresses are no content."""
        if os.path.isdir(name):
            content = ",".join(os.listdir(name)).encode()
        else:
            with open(name, "rb") as file:
                content = file.read(4096)
        if name == "/proc/kallsyms" and content.startswith(b"0" * 16):
            raise OSError("addresses hidden")
        if name == "/proc/sysvipc/shm" and content.count(b"\n") <= 1:
            raise OSError("none of others")
        if not content:
            raise OSError("empty")
        return content

    @staticmethod
    def _raise_limit(which: int) -> int:
        return call(302, 0, which, struct.pack("QQ", 1 << 20, 1 << 20), None)

    def calls(self) -> None:
        """System calls that no storlet needs, by number, with arguments that are harmless if
        admitted."""
        attempts: dict[str, Any] = {name: lambda number=number: self._in_child(number, -1, 0, 0, 0, 0) for name, number in CALLS.items()}
        for name, flag in NAMESPACES.items():
            attempts[f"unshare {name}"] = lambda flag=flag: self._in_child(272, flag)
            if flag > 0xFF:  # the lowest byte is the signal at exit
                attempts[f"clone {name}"] = lambda flag=flag: self._clone(flag)
        attempts |= {
            "clone3 user": self._clone3, "x32": lambda: self._in_child(0x40000000 | 39), "i386": self._compat,
            "setns self": self._enter,
            "personality unlimited": lambda: self._in_child(135, 0x0040000), "keyring": lambda: call(250, 0, -3, 1),
            "io_uring": lambda: call(425, 4, ctypes.create_string_buffer(120)), "userfaultfd": lambda: call(323, 1),
            "perf": lambda: call(298, ctypes.create_string_buffer(112), 0, -1, -1, 0), "bpf map": lambda: call(321, 0, ctypes.create_string_buffer(72), 72),
            "ptrace child": self._trace_child, "packet": lambda: socket.socket(17, socket.SOCK_RAW), "af_alg": lambda: socket.socket(38, socket.SOCK_SEQPACKET),
            "vsock": lambda: socket.socket(40, socket.SOCK_STREAM), "bluetooth": lambda: socket.socket(31, socket.SOCK_RAW),
            "terminal input": self._push_input,
            "lock of an open file": lambda: fcntl.fcntl(os.memfd_create("x"), fcntl.F_OFD_SETLK, BYTE_LOCK),
            "lock of a process": lambda: fcntl.fcntl(os.memfd_create("x"), fcntl.F_SETLK, BYTE_LOCK),
            "lease": lambda: fcntl.fcntl(os.memfd_create("x"), fcntl.F_SETLEASE, fcntl.F_RDLCK), "packet filter": self._filter_packets,
        }  # fmt: skip
        self._report(attempts)

    @staticmethod
    def _filter_packets() -> None:
        """Attach a filter that takes all packets to a socket."""
        code = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0xFFFF))
        with socket.socket(socket.AF_UNIX) as target:
            target.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))

    @staticmethod
    def _enter() -> int:
        fd = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            return call(308, fd, 0)
        finally:
            os.close(fd)

    @staticmethod
    def _push_input() -> None:
        """TIOCSTI on its own terminal: injects text as if the terminal's user had typed it."""
        master, slave = os.openpty()
        try:
            fcntl.ioctl(slave, 0x5412, b"x")
        finally:
            os.close(master)
            os.close(slave)

    @staticmethod
    def _in_child(number: int, *arguments: Any) -> str:
        """Run a call in a child process, which it may change. Anything but a refusal by policy
        counts as admitted."""
        pid = os.fork()
        if pid == 0:
            try:
                call(number, *arguments)
                os._exit(0)
            except OSError as error:
                os._exit(error.errno)
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            raise OSError(f"killed by signal {os.WTERMSIG(status)}")
        code = os.WEXITSTATUS(status)
        if code in (errno.EPERM, errno.ENOSYS, errno.EACCES):
            raise OSError(code, os.strerror(code))
        return errno.errorcode.get(code, "done")

    @staticmethod
    def _clone(flag: int) -> str:
        try:
            pid = call(56, flag | signal.SIGCHLD, 0, 0, 0, 0)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOSYS):
                raise
            return errno.errorcode[error.errno]
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return "a namespace"

    @staticmethod
    def _clone3() -> str:
        arguments = struct.pack("11Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
        pid = call(435, arguments, len(arguments))
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return "a namespace"

    @staticmethod
    def _trace_child() -> str:
        pid = os.fork()
        if pid == 0:
            time.sleep(5)
            os._exit(0)
        try:
            call(101, 16, pid, 0, 0)
            return "attached"
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    @staticmethod
    def _compat() -> str:
        """getpid by the 32-bit entry, whose numbers an incomplete filter misses: mov eax,20; int
        0x80; ret."""
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        # mov eax, 26 (ptrace); mov ebx, -1; xor ecx, ecx; xor edx, edx; xor esi, esi; int 0x80;
        # ret. The callee must preserve rbx.
        code.write(bytes.fromhex("53b81a000000bbffffffff31c931d231f6cd805bc3"))
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        pid = os.fork()
        if pid == 0:
            result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
            os._exit(-result if result < 0 else 0)
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            raise OSError(f"killed by signal {os.WTERMSIG(status)}")
        if os.WEXITSTATUS(status) in (errno.EPERM, errno.ENOSYS):
            raise OSError(os.WEXITSTATUS(status), "refused")
        return f"answered {os.WEXITSTATUS(status)}"

    def table_of_calls(self) -> None:
        """Report which system calls are refused; each is tried in a child with meaningless
        arguments."""
        spared = {int(one) for one in self.params.get("spare", "").split(",") if one}
        found = {}
        for number in range(int(self.params["first"]), int(self.params["last"]) + 1):
            self.out.write(b" ")
            self.out.flush()
            found[number] = "spared" if number in spared else self._outcome(number)
        self.out.write(json.dumps(found).encode())

    @staticmethod
    def _outcome(number: int) -> str:
        pid = os.fork()
        if pid == 0:
            os.closerange(0, 64)
            signal.alarm(1)
            libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
            os._exit(ctypes.get_errno() & 0xFF)
        status = os.waitpid(pid, 0)[1]
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
        return "refused" if code in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP) else "allowed"

    def network(self) -> None:
        """Try every network family and destination."""
        port = int(self.params["port"])
        self._report({
            "proxy server": lambda: socket.create_connection(("127.0.0.1", port), 2), "proxy server by IPv6": lambda: socket.create_connection(("::1", port), 2),
            "metadata address": lambda: socket.create_connection(("169.254.169.254", 80), 2),
            "metadata address by IPv6": lambda: socket.create_connection(("fd00:ec2::254", 80), 2),
            "gateway": lambda: socket.create_connection(("172.17.0.1", 2375), 2), "names": lambda: socket.getaddrinfo("example.org", 80),
            "names by hand": lambda: self._datagram(("8.8.8.8", 53)), "broadcast": lambda: self._datagram(("255.255.255.255", 67)),
            "multicast": lambda: self._datagram(("224.0.0.251", 5353)), "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
            "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW), "host's abstract socket": lambda: _connect("\0/tmp/.X11-unix/X0"),
        }, interfaces=[line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line and line.split(":")[0].strip() != "lo"],
            routes=open("/proc/net/route").read().splitlines()[1:])  # fmt: skip

    @staticmethod
    def _datagram(address: tuple[str, int]) -> int:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            return sender.sendto(b"x", address)

    def identity_facts(self) -> None:
        """The storlet's identity, capabilities and descriptors."""
        status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
        links = {}
        for fd in os.listdir("/proc/self/fd"):
            try:
                links[fd] = os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                continue
        self.out.write(json.dumps({
            "uid": [*os.getresuid(), *os.getresgid(), *os.getgroups()],
            "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
            "no_new_privileges": status["NoNewPrivs"], "seccomp": status["Seccomp"], "descriptors": links,
            "environment": dict(os.environ), "core": open("/proc/self/limits").read().split("Max core file size")[1].split()[:2],
            "oom_score_adj": int(open("/proc/self/oom_score_adj").read()),
        }).encode())  # fmt: skip

    def links(self) -> None:
        """Links in the scratch to files outside, for the storlet or a privileged process to
        follow."""
        targets = {"docker": "/var/run/docker.sock", "shadow": "/etc/shadow", "root": "/proc/1/root/etc/shadow", "up": "../../../../etc/shadow",
                   "code": "/var/lib/storlets", "control": "/run/storlets"}  # fmt: skip
        attempts: dict[str, Any] = {}
        for name, target in targets.items():
            path = f"/tmp/link-{name}"
            if os.path.lexists(path):
                os.unlink(path)
            os.symlink(target, path)
            attempts[f"write {name}"] = lambda path=path: os.open(path, os.O_WRONLY)
            attempts[f"create below {name}"] = lambda path=path: os.open(path + "/x", os.O_WRONLY | os.O_CREAT)
            if name in ("shadow", "root", "up"):
                attempts[f"read {name}"] = lambda path=path: open(path).read()
        attempts["hard link"] = lambda: os.link("/etc/passwd", "/tmp/hard")
        attempts["hard link to input"] = lambda: os.link(f"/proc/self/fd/{self.ins[0].fileno()}", "/tmp/hard", follow_symlinks=True)
        self._report(attempts)
        for name in targets:
            os.unlink(f"/tmp/link-{name}")

    # --- the donated descriptor ------------------------

    def donated(self) -> None:
        """Every operation on the object's file."""
        fd = self.ins[0].fileno()
        name, empty = f"/proc/self/fd/{fd}", b"\0"
        attribute = "user.swift.metadata"
        scratch = os.open("/tmp/donated", os.O_RDWR | os.O_CREAT)
        os.write(scratch, b"forged")
        target = os.readlink(name)
        attempts: dict[str, Any] = {
            "write": lambda: os.write(fd, b"x"), "pwrite": lambda: os.pwrite(fd, b"x", 0), "truncate": lambda: os.ftruncate(fd, 0),
            "truncate by name": lambda: os.truncate(name, 0), "allocate": lambda: os.posix_fallocate(fd, 0, 1 << 20),
            "punch": lambda: call(285, fd, 3, 0, 4096), "sendfile": lambda: os.sendfile(fd, scratch, 0, 6),
            "copy": lambda: os.copy_file_range(scratch, fd, 6, 0, 0), "clone": lambda: fcntl.ioctl(fd, 0x40049409, scratch),
            "splice": lambda: self._splice(fd), "reopen rw": lambda: os.open(name, os.O_RDWR), "reopen w": lambda: os.open(name, os.O_WRONLY),
            "reopen append": lambda: os.open(name, os.O_WRONLY | os.O_APPEND), "reopen truncating": lambda: os.open(name, os.O_RDONLY | os.O_TRUNC),
            "reopen by thread": lambda: os.open(f"/proc/thread-self/fd/{fd}", os.O_RDWR), "reopen by /dev/fd": lambda: os.open(f"/dev/fd/{fd}", os.O_RDWR),
            "reopen by task": lambda: os.open(f"/proc/{os.getpid()}/task/{os.getpid()}/fd/{fd}", os.O_RDWR),
            "path": lambda: os.open(target, os.O_RDONLY), "list attributes": lambda: os.listxattr(fd) or self._empty(),
            "list attributes by name": lambda: os.listxattr(name) or self._empty(),
            "attributes": lambda: os.getxattr(fd, attribute), "attributes by name": lambda: os.getxattr(name, attribute),
            "set attributes": lambda: os.setxattr(fd, attribute, b"x"), "new attribute": lambda: os.setxattr(fd, "user.hostile", b"x"),
            "remove attributes": lambda: os.removexattr(fd, attribute), "mode": lambda: os.fchmod(fd, 0o777), "mode by name": lambda: os.chmod(name, 0o777),
            "owner": lambda: os.fchown(fd, os.getuid(), os.getgid()), "times": lambda: os.utime(fd, (0, 0)), "times now": lambda: os.utime(name),
            "link": lambda: os.link(name, "/tmp/linked", follow_symlinks=True), "link at": lambda: call(265, fd, empty, -100, b"/tmp/linked", 0x1000),
            "unlink": lambda: os.unlink(target), "up": lambda: os.open("..", os.O_RDONLY, dir_fd=fd), "up by name": lambda: os.listdir(name + "/.."),
            "chdir": lambda: os.fchdir(fd), "handle": lambda: call(303, fd, empty, ctypes.create_string_buffer(struct.pack("I", 128), 256), ctypes.create_string_buffer(8), 0x1000),
            "map to write": lambda: mmap.mmap(fd, 10, mmap.MAP_SHARED, mmap.PROT_WRITE), "map and protect": lambda: self._protect(fd),
            "flags": lambda: fcntl.ioctl(fd, 0x40086602, struct.pack("l", 0x10)), "label": lambda: fcntl.ioctl(fd, 0x41009432, b"x" * 256),
            "freeze": lambda: fcntl.ioctl(fd, 0xC0045877, 0), "trim": lambda: fcntl.ioctl(fd, 0xC0185879, b"\0" * 24),
            "lease read": lambda: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK), "lease write": lambda: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK),
            "lock to write": lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB), "make writable": lambda: self._upgrade(fd),
            "verity": lambda: fcntl.ioctl(fd, 0x40806685, b"\0" * 128), "encrypt": lambda: fcntl.ioctl(fd, 0x400C6613, b"\0" * 12),
            "seal": lambda: fcntl.fcntl(fd, 1033, 8), "swap on": lambda: call(167, name.encode(), 0), "quota": lambda: call(443, fd, 0x800007, 0, 0),
            "exec": lambda: os.execve(fd, ["x"], {}), "run by name": lambda: os.execv(name, ["x"]),
            "dnotify": lambda: fcntl.fcntl(fd, fcntl.F_NOTIFY, 1), "write hint": lambda: fcntl.fcntl(fd, 1036, struct.pack("Q", 5)),
        }  # fmt: skip
        self._report(attempts, kind="file" if os.path.isfile(name) else "stream")
        os.close(scratch)
        os.unlink("/tmp/donated")

    @staticmethod
    def _splice(fd: int) -> int:
        reading, writing = os.pipe()
        try:
            os.write(writing, b"x")
            return os.splice(reading, fd, 1)
        finally:
            os.close(reading)
            os.close(writing)

    @staticmethod
    def _protect(fd: int) -> int:
        """A shared read-only mapping, then made writable."""
        address = libc.mmap
        address.restype = ctypes.c_void_p
        place = address(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0))
        if place in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "mmap")
        return call(10, ctypes.c_void_p(place), 4096, 3)

    @staticmethod
    def _upgrade(fd: int) -> int:
        """O_RDWR by F_SETFL, then a write."""
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_RDWR | os.O_APPEND)
        return os.write(fd, b"x")

    def lock(self) -> None:
        """Take every lock on the object's file and report them; then wait for the signal to
        continue."""
        fd = self.ins[0].fileno()
        got = []
        for name, take in (("flock", lambda: fcntl.flock(fd, fcntl.LOCK_EX)), ("read", lambda: fcntl.lockf(fd, fcntl.LOCK_SH)),
                           ("lease", lambda: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK))):  # fmt: skip
            try:
                take()
                got.append(name)
            except OSError:
                continue
        self.out.write(",".join(got).encode() + b"\n")
        self.out.flush()
        self.hold()

    # --- lies ------------------------

    def answer_for_others(self) -> None:
        """Accept connections that wait for other workers of this storlet; answer each with an empty
        success."""
        listening = _sockets()[0]
        listening.setblocking(False)
        until, taken = time.monotonic() + self._float("seconds", "1.5"), 0
        while time.monotonic() < until:
            try:
                connection, _ = listening.accept()
            except OSError:
                time.sleep(0.005)
                continue
            taken += 1
            for message in (b'{"type":"started"}', b'{"type":"metadata","metadata":{}}', b'{"type":"done","outcome":"ok"}'):
                try:
                    connection.send(message)
                except OSError:
                    break
            connection.close()
        self.out.write(b"%d" % taken)

    def forge_begin(self) -> None:
        """Announce a non-existent invocation to the supervisor, with descriptors of this
        process."""
        channel = _sockets()[1]
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for message in (b'{"type":"begin","id":"tx-forged-1"}', b'{"type":"begin","id":"\\u001b[2J\\r\\n"}', b'{"type":"end","recycle":false,"failed":false}'):
            try:
                channel.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pair[0].fileno()]))])
            except OSError:
                break
        time.sleep(0.3)
        self._lines(10)

    def forge_many_descriptors(self) -> None:
        """Fill the supervisor's descriptor table with this process's descriptors."""
        channel = _sockets()[1]
        null = os.open("/dev/null", os.O_RDONLY)
        channel.setblocking(False)
        for number in range(3000):
            try:
                channel.sendmsg([b'{"type":"begin","id":"f%d"}' % number], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 1))])
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                break
        self.out.write(b"sent")

    def hold_descriptors(self) -> None:
        """For a while, keep as many descriptors in unread messages as the kernel allows this
        user."""
        sockets = [socket.socketpair() for _ in range(4)]
        null = os.open("/dev/null", os.O_RDONLY)
        held = 0
        try:
            for ours, _ in sockets:
                ours.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null]))])
                        held += 1
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            self.out.write(b"full\n")
        time.sleep(1.0)
        self.out.write(b"%d" % held)
        for pair in sockets:
            for end in pair:
                end.close()
        os.close(null)

    def byte_flood(self) -> None:
        """Write single bytes as fast as possible, as packets if the output can be a packet pipe."""
        fd = self.out.fileno()
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
        while True:
            os.write(fd, b"x")

    def byte_floods(self) -> None:
        """The same into all outputs in turn, of which none gets two bytes at once."""
        for out in self.outs:
            with contextlib.suppress(OSError):
                fcntl.fcntl(out.fileno(), fcntl.F_SETFL, fcntl.fcntl(out.fileno(), fcntl.F_GETFL) | os.O_DIRECT)
        descriptors = [out.fileno() for out in self.outs]
        while True:
            for fd in descriptors:
                os.write(fd, b"x")

    def cold_output(self) -> None:
        """Write from a mapping of the input whose pages are on the disk."""
        source, target = self.ins[0].fileno(), self.out.fileno()
        size = os.fstat(source).st_size
        while True:
            os.posix_fadvise(source, 0, 0, os.POSIX_FADV_DONTNEED)
            with mmap.mmap(source, size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
                mapped.madvise(mmap.MADV_RANDOM)
                for offset in range(0, size, 1 << 20):
                    os.write(target, view[offset : offset + (1 << 18)])

    def cold_input(self) -> None:
        """Read the input from the disk, over and over, with one call for all of it."""
        source = self.ins[0].fileno()
        buffers = [bytearray(1 << 20) for _ in range(6)]
        while True:
            os.posix_fadvise(source, 0, 0, os.POSIX_FADV_DONTNEED)
            os.lseek(source, 0, os.SEEK_SET)
            os.readv(source, buffers)

    def many_locks(self) -> None:
        """Set locks without end on the input and on files of its own, each on another byte, before
        those there are."""
        first, files = 1 << 40, [self.ins[0].fileno()]
        files += [os.memfd_create("locked") for _ in range(20)]
        while True:
            first -= 2
            for fd in files:
                for command in (fcntl.F_OFD_SETLK, fcntl.F_SETLK):
                    with contextlib.suppress(OSError):
                        fcntl.fcntl(fd, command, struct.pack("hhxxxxqqixxxx", fcntl.F_RDLCK, 0, first, 1, 0))

    def flushes(self) -> None:
        """Flush the input to the disk without end, by each call that does."""
        source = self.ins[0].fileno()
        mapped = mmap.mmap(source, 0, prot=mmap.PROT_READ)
        while True:
            os.fsync(source)
            os.fdatasync(source)
            mapped.flush()
            call(277, source, 0, 0, 7)  # sync_file_range

    def slow_descriptors(self) -> None:
        """Send inotify descriptors, each of which takes milliseconds to close, to Swift."""
        inotify = int(libc.inotify_init1(os.O_CLOEXEC))
        libc.inotify_add_watch(inotify, b"/tmp", 2)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [inotify] * 8))]
        output = socket.socket(fileno=os.dup(self.out.fileno()))
        connection = _invocation_connection()
        with output:
            self._report(
                {
                    "output": lambda: output.sendmsg([b" "], rights),
                    "connection": lambda: connection.sendmsg([b"{}"], rights),
                    "urgent data": lambda: output.send(b"!", socket.MSG_OOB),
                }
            )
        os.close(inotify)

    def channel_garbage(self) -> None:
        """Send one malformed message (``packed``) to the supervisor, then continue normally."""
        try:
            _sockets()[1].send(zlib.decompress(bytes.fromhex(self.params["packed"])))
        except OSError:
            pass
        time.sleep(0.3)
        self._lines(10)

    def channel_close(self) -> None:
        """Close the channel to the supervisor."""
        channel = _sockets()[1]
        channel.shutdown(socket.SHUT_RDWR)
        time.sleep(0.3)
        self._lines(10)

    def partial_lie(self) -> None:
        """Write some of the output, report success, then exit."""
        self._lines(10)
        connection = _invocation_connection()
        connection.send(b'{"type":"metadata","metadata":{}}')
        connection.send(b'{"type":"done","outcome":"ok","usage":null}')
        os.kill(os.getpid(), signal.SIGKILL)

    def flip_output(self) -> None:
        """Pass the output to a child that writes after the run has succeeded."""
        fd = os.dup(self.out.fileno())
        os.set_inheritable(fd, True)
        self._lines(10)
        if os.fork() == 0:
            os.setsid()
            time.sleep(0.5)
            os.write(fd, b"late")
            os._exit(0)

    def drop_output(self) -> None:
        """Replace the output's descriptor with another pipe."""
        fd = self.out.fileno()
        reading, writing = os.pipe()
        os.dup2(writing, fd)
        self._lines(10)

    def input_offset(self) -> None:
        """Move the offset of the shared input and read it by other calls."""
        fd = self.ins[0].fileno()
        os.lseek(fd, 0, os.SEEK_END)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self.out.write(b"moved")

    def hoard_input(self) -> None:
        """Keep this run's input for the next one in the same process."""
        kept = sys.modules.setdefault("hostile_hoard", type(sys)("hostile_hoard"))
        held = getattr(kept, "held", [])
        if held:
            self.out.write(b"kept " + os.pread(held[0], 100, 0))
            return
        kept.held = [os.dup(self.ins[0].fileno())]
        self.out.write(b"first")

    def keep_objects(self) -> None:
        """Use the logger and the streams of an earlier run in this process, then pass the input."""
        kept = sys.modules.setdefault("hostile_objects", type(sys)("hostile_objects"))
        held = getattr(kept, "held", None)
        kept.held = (self.logger, self.ins[0], self.out)
        if held is None:
            self.out.write(b"first")
            return
        logger, source, sink = held
        self._report(
            {
                "log": lambda: logger.info("of another run"),
                "read": lambda: source.read(1),
                "seek": lambda: source.seek(0, os.SEEK_END),
                "descriptor": lambda: source.fileno(),
                "write": lambda: sink.write(b"of another run"),
                "metadata": lambda: sink.set_metadata({"of": "another run"}),
            }
        )
        self.out.write(b"\n")
        self.identity()

    def keep_mapping(self) -> None:
        """Keep the input: mapped into memory, and its descriptor in a message to this process.

        Not by Python's ``mmap``, which keeps a descriptor, so that the worker would be replaced.
        """
        kept = sys.modules.setdefault("hostile_mapping", type(sys)("hostile_mapping"))
        fd = self.ins[0].fileno()
        size, private = ctypes.c_size_t(os.fstat(fd).st_size), mmap.MAP_PRIVATE
        if libc.mmap(None, size, mmap.PROT_READ, private, fd, ctypes.c_long(0)) == -1:
            raise OSError(ctypes.get_errno(), "mmap")
        kept.sockets = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            kept.sockets[0].sendmsg([b" "], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        except OSError as error:
            self.out.write(f"refused: {error}".encode())
        else:
            self.out.write(b"kept")
