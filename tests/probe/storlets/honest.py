"""A storlet with legitimate operations; reports the failed ones as JSON, {} if all worked."""

from __future__ import annotations

import array
import asyncio
import concurrent.futures
import ctypes
import fcntl
import hashlib
import importlib
import json
import mmap
import multiprocessing
import multiprocessing.shared_memory
import os
import pathlib
import pwd
import resource
import selectors
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from typing import Any

NOT_THERE = {"msvcrt", "nt", "winsound", "winreg", "ensurepip"}
NOT_FOR_STORLETS = {"antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "lib2to3", "msilib", "test"}


def square(number: int) -> int:
    return number * number


def imports() -> None:
    for name in sorted(sys.stdlib_module_names - NOT_THERE - NOT_FOR_STORLETS):
        if not name.startswith("_"):
            importlib.import_module(name)


def threads() -> None:
    all_threads = [threading.Thread(target=sum, args=(range(1000),)) for _ in range(50)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()


def processes() -> None:
    done = subprocess.run(
        "echo hi | tr a-z A-Z; ls -l /tmp | wc -l; id -u; date; df /tmp", shell=True, capture_output=True, check=True
    )
    assert done.stdout.startswith(b"HI"), done
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as cat:
        assert cat.communicate(b"x" * 200_000)[0] == b"x" * 200_000


def multiprocessing_fork() -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(3) as pool:
        assert pool.map(square, range(10)) == [number * number for number in range(10)]
    queue, lock, value, event = context.Queue(), context.Lock(), context.Value("i", 1), context.Event()
    queue.put(1)
    with lock:
        value.value += queue.get()
    event.set()
    queue.close()
    queue.join_thread()


def pools() -> None:
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, context) as others, concurrent.futures.ThreadPoolExecutor(4) as own:
        assert list(others.map(square, range(4))) == list(own.map(square, range(4)))


def shared_memory() -> None:
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=1000)
    memory.buf[0] = 1
    memory.close()
    memory.unlink()


def event_loop() -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec("echo", "x", stdout=asyncio.subprocess.PIPE)
        assert (await process.communicate())[0] == b"x\n"
        server = await asyncio.start_unix_server(lambda _reader, writer: writer.close(), "/tmp/honest-loop")
        reader, writer = await asyncio.open_unix_connection("/tmp/honest-loop")
        assert await reader.read() == b""
        writer.close()
        server.close()

    asyncio.run(main())
    pathlib.Path("/tmp/honest-loop").unlink(missing_ok=True)


def files() -> None:
    folder = tempfile.mkdtemp()
    name = f"{folder}/a"
    with open(name, "wb") as file:
        file.write(b"x" * 1_000_000)
        file.flush()
        os.fsync(file.fileno())
        os.fdatasync(file.fileno())
        fcntl.flock(file, fcntl.LOCK_EX)
        os.posix_fallocate(file.fileno(), 0, 2_000_000)
        os.ftruncate(file.fileno(), 1000)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
    shutil.copy2(name, f"{name}2")
    shutil.copytree(folder, f"{folder}-copy")
    os.symlink(name, f"{name}-link")
    os.link(name, f"{name}-hard")
    os.chmod(name, 0o600)
    os.utime(name, (1e9, 1e9))
    os.chown(name, os.getuid(), os.getgid())
    os.rename(f"{name}2", f"{name}3")
    os.mkfifo(f"{name}-pipe")
    with tarfile.open(f"{folder}.tgz", "w:gz") as tar:
        tar.add(f"{folder}-copy")
    with tarfile.open(f"{folder}.tgz") as tar:
        tar.extractall(f"{folder}-out")
    with zipfile.ZipFile(f"{folder}.zip", "w") as archive:
        archive.write(name)
    with open(name, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[0] = 65
        mapped.flush()
        mapped.madvise(mmap.MADV_DONTNEED)
    source, target = os.open(name, os.O_RDONLY), os.open(f"{name}4", os.O_WRONLY | os.O_CREAT)
    os.sendfile(target, source, 0, 10)
    os.copy_file_range(source, target, 5)
    os.preadv(source, [bytearray(3)], 0)
    os.set_inheritable(source, True)
    os.dup2(source, target)
    os.close(source)
    os.close(target)
    memory = os.memfd_create("honest", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    os.close(memory)
    shutil.disk_usage("/tmp")
    shutil.get_terminal_size()
    os.isatty(0)
    for path in pathlib.Path("/tmp").glob(f"{pathlib.Path(folder).name}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def database() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # No file of a sandbox has locks of a process.
        connection = sqlite3.connect(f"file:{folder}/db?nolock=1", uri=True)
        connection.execute("create table numbers(n)")
        connection.executemany("insert into numbers values(?)", [(number,) for number in range(1000)])
        connection.commit()
        assert connection.execute("select sum(n) from numbers").fetchone() == (499_500,)
        connection.close()


def local_sockets() -> None:
    one, two = socket.socketpair()
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]).tobytes())])
    two.recvmsg(10, 100)
    one.settimeout(1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
    selector = selectors.EpollSelector()
    selector.register(two, selectors.EVENT_READ)
    selector.select(0)
    selector.close()
    one.shutdown(socket.SHUT_RDWR)
    one.close()
    two.close()
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other,
    ):
        listening.bind("/tmp/honest-datagrams")
        other.sendto(b"hi", "/tmp/honest-datagrams")
        assert listening.recv(10) == b"hi"
    pathlib.Path("/tmp/honest-datagrams").unlink()


def signals() -> None:
    def in_child() -> None:
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        time.sleep(0.05)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.sigtimedwait([signal.SIGUSR1], 1)

    child = multiprocessing.get_context("fork").Process(target=in_child)
    child.start()
    os.close(os.pidfd_open(child.pid or 0))
    child.join()
    assert child.exitcode == 0, child.exitcode


def surroundings() -> None:
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.getpriority(os.PRIO_PROCESS, 0)
    os.getloadavg()
    resource.getrusage(resource.RUSAGE_SELF)
    resource.getrlimit(resource.RLIMIT_NOFILE)
    os.times()
    time.clock_getres(time.CLOCK_MONOTONIC)
    os.urandom(5)
    os.sched_yield()
    os.cpu_count()
    os.sched_rr_get_interval(0)
    os.uname()
    ctypes.CDLL(None).get_nprocs()
    pwd.getpwall()


def cryptography() -> None:
    ssl.create_default_context()
    hashlib.scrypt(b"x", salt=b"y", n=1024, r=8, p=1)


STEPS = (imports, threads, processes, multiprocessing_fork, pools, shared_memory, event_loop, files, database, local_sockets,
         signals, surroundings, cryptography)  # fmt: skip


class Honest:
    """See the module."""

    def __init__(self, logger: Any) -> None:
        pass

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        failed = {}
        for step in STEPS:
            try:
                step()
            except BaseException as error:
                failed[step.__name__] = f"{type(error).__name__}: {error}"
        out_files[0].write(json.dumps(failed).encode())
