"""A storlet whose parameter ``do`` names the action; ``code/java/Probe.java`` is the Java
version."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

RUNS = 0
kept = []


class Refusal(Exception):
    hides_traceback = True


class Probe:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        global RUNS
        RUNS += 1
        self.out_files = out_files
        getattr(self, "do_" + params.get("do", "echo"))(in_files, out_files[0], params)

    def do_echo(self, in_files, out, params):
        """Metadata of the first input and the parameters (without the path), then all inputs in
        sequence."""
        metadata = in_files[0].get_metadata()
        metadata.update((k, v) for k, v in params.items() if k not in ("do", "storlet_execution_path"))
        out.set_metadata(metadata)
        for source in in_files:
            while data := source.read(65536):
                out.write(data)

    def do_seek(self, in_files, out, params):
        """For each input its size; for each place the position after a read, and its bytes."""
        for source in in_files:
            out.write(b"size %d" % source.size)
            for place in params["places"].split(";"):
                offset, length = map(int, place.split(","))
                try:
                    source.seek(offset)
                except OSError:
                    out.write(b"|refused")
                    continue
                data = source.read(length)
                out.write(b"|%d %s" % (source.tell(), data))

    def do_refuse(self, in_files, out, params):
        raise Refusal(params["text"])

    def do_nothing(self, in_files, out, params):
        pass

    def do_outputs(self, in_files, out, params):
        """Metadata and twice the input into each output, from the last to the first."""
        data = in_files[0].read()
        for is_first in (True, False):
            for number in reversed(range(len(self.out_files))):
                output = self.out_files[number]
                if is_first:
                    output.set_metadata({"number": number})
                output.write(b"%d:%s" % (number, data))
                output.flush()

    def do_fill_last(self, in_files, out, params):
        """Bytes into the last output, then their number into the first."""
        self.out_files[-1].write(b"x" * int(params["size"]))
        self.out_files[-1].flush()
        out.write(params["size"].encode())

    def do_raise_after_further(self, in_files, out, params):
        self.out_files[1].write(b"half")
        self.out_files[1].flush()
        raise ValueError("on purpose")

    def do_further_metadata(self, in_files, out, params):
        self.out_files[1].set_metadata({"a": "x" * int(params["size"])})

    def do_write(self, in_files, out, params):
        """Data without metadata."""
        out.write(params["text"].encode())

    def do_pid(self, in_files, out, params):
        out.write(str(os.getpid()).encode())

    def do_count(self, in_files, out, params):
        """The number of runs of this process."""
        out.write(str(RUNS).encode())

    def do_path(self, in_files, out, params):
        out.write(params["storlet_execution_path"].encode())

    def do_lines(self, in_files, out, params):
        """Each line of the input with its number."""
        for number, line in enumerate(in_files[0], 1):
            out.write(b"%d:%s" % (number, line))

    def do_metadata_twice(self, in_files, out, params):
        out.set_metadata({"a": "1"})
        out.set_metadata({"a": "2"})

    def do_metadata_late(self, in_files, out, params):
        out.write(b"early")
        out.set_metadata({"a": "1"})

    def do_metadata_large(self, in_files, out, params):
        out.set_metadata({"a": "x" * int(params["size"])})

    def do_secrets(self, in_files, out, params):
        from storlet import secrets

        for name in params["names"].split(","):
            try:
                out.write(name.encode() + b"=" + secrets.get(name) + b";")
            except secrets.SecretError:
                out.write(name.encode() + b" is missing;")

    def do_leak(self, in_files, out, params):
        from storlet import secrets

        value = secrets.get("key").decode()
        raise ValueError("x" * int(params["before"]) + (value + "-") * int(params["times"]))

    def do_raise(self, in_files, out, params):
        raise ValueError(params.get("text", "on purpose"))

    def do_raise_late(self, in_files, out, params):
        out.set_metadata({})
        out.write(b"half")
        out.flush()
        raise ValueError("on purpose")

    def do_memory(self, in_files, out, params):
        raise MemoryError

    def do_recurse(self, in_files, out, params):
        self.do_recurse(in_files, out, params)

    def do_exit(self, in_files, out, params):
        """End the process with status 0 in the middle of the output."""
        out.set_metadata({})
        out.write(b"half")
        out.flush()
        os._exit(int(params.get("code", 0)))

    def do_sys_exit(self, in_files, out, params):
        out.write(b"half")
        sys.exit(int(params.get("code", 0)))

    def do_kill(self, in_files, out, params):
        out.write(b"half")
        out.flush()
        os.kill(os.getpid(), int(params.get("signal", signal.SIGKILL)))
        time.sleep(60)

    def do_spin(self, in_files, out, params):
        """Write one byte, then compute without end."""
        out.write(b"x")
        out.flush()
        while True:
            pass

    def do_sleep(self, in_files, out, params):
        time.sleep(float(params["seconds"]))
        out.write(b"slept")

    def do_flood(self, in_files, out, params):
        """Write without end."""
        while True:
            out.write(b"x" * 262144)

    def do_log(self, in_files, out, params):
        """Lines of each level, in the log."""
        self.logger.debug("one")
        self.logger.info("two")
        self.logger.warning("three")
        self.logger.error("four")

    def do_keep(self, in_files, out, params):
        """Keep what was passed to this run."""
        kept[:] = [in_files[0], out, self.logger]
        out.write(b"kept")

    def do_use_kept(self, in_files, out, params):
        """Use what an earlier run kept; write which uses raised."""
        source, target, logger = kept
        uses = (lambda: source.read(1), lambda: target.write(b"x"), lambda: logger.info("x"))
        outcomes = []
        for use in uses:
            try:
                use()
                outcomes.append("worked")
            except (OSError, ValueError):
                outcomes.append("raised")
        out.write(" ".join(outcomes).encode() + b" " + in_files[0].read())

    def do_log_flood(self, in_files, out, params):
        for number in range(int(params["lines"])):
            self.logger.info("line %d" % number)

    def do_print(self, in_files, out, params):
        print("to the standard output")
        print("to the standard error", file=sys.stderr)

    def do_leave_process(self, in_files, out, params):
        """Leave a process behind, in a separate session, that ignores signals."""
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        out.write(str(child.pid).encode())

    def do_leave_orphan(self, in_files, out, params):
        """Leave a process behind whose parent has ended."""
        script = "setsid sleep 300 >/dev/null 2>&1 & echo $!"
        out.write(subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True).stdout.strip())

    def do_leave_writer(self, in_files, out, params):
        self.child = subprocess.Popen(["/bin/sh", "-c", "echo begin; sleep 30; echo end"], stdout=out.fileno())

    def do_keep_duplicate(self, in_files, out, params):
        kept.append(os.dup(in_files[0].fileno()))
        out.write(b"%d" % os.getpid())

    def do_leave_thread(self, in_files, out, params):
        threading.Thread(target=time.sleep, args=(300,), daemon=True).start()

    def do_leave_changes(self, in_files, out, params):
        """Change all state of the process that the worker can restore."""
        os.chdir("/")
        os.umask(0o777)
        os.environ["LEFT"] = "behind"
        sys.path.insert(0, "/left/behind")
        sys.stdout = None
        os.environ.pop("PATH", None)

    def do_leave_handler(self, in_files, out, params):
        signal.signal(signal.SIGUSR1, lambda *_: None)

    def do_leave_hang(self, in_files, out, params):
        """Leave the process (its pid is the output) in a state whose restoration hangs."""
        out.write(str(os.getpid()).encode())
        os.getcwd = lambda: time.sleep(300)

    def do_leave_timeout(self, in_files, out, params):
        socket.setdefaulttimeout(float(params["seconds"]))

    def do_state(self, in_files, out, params):
        mask = os.umask(0)
        os.umask(mask)
        state = {"cwd": os.getcwd(), "umask": mask, "left": os.environ.get("LEFT"), "has_path": "PATH" in os.environ}
        out.write(json.dumps({**state, "sys_path": sys.path[0], "stdout": sys.stdout is None}).encode())

    def do_descriptors(self, in_files, out, params):
        """The descriptors of this process, and those that a child would inherit."""
        import fcntl

        listing = []
        for name in sorted(os.listdir("/proc/self/fd"), key=int):
            try:
                flags = fcntl.fcntl(int(name), fcntl.F_GETFD)
                target = os.readlink(f"/proc/self/fd/{name}").partition(":")[0]
                listing.append([int(name), target, bool(flags & fcntl.FD_CLOEXEC)])
            except OSError:
                pass
        out.write(json.dumps(listing).encode())

    def do_child(self, in_files, out, params):
        """A child that reads the input and writes the output by their descriptors."""
        subprocess.run(["tr", "a-z", "A-Z"], stdin=in_files[0].fileno(), stdout=out.fileno(), check=True)

    def do_ruin(self, in_files, out, params):
        """Close every descriptor except the storlet's own."""
        os.closerange(3, 1024)
        time.sleep(0.1)

    def do_hold_memory(self, in_files, out, params):
        """Allocate and touch ``mib`` MiB."""
        kept.append(b"x" * (int(params["mib"]) << 20))
        out.write(b"held")

    def do_child_holds_memory(self, in_files, out, params):
        subprocess.run([sys.executable, "-c", "b'x' * (%s << 20)" % params["mib"]], check=True)

    def do_threads(self, in_files, out, params):
        for _ in range(int(params["count"])):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

    def do_processes(self, in_files, out, params):
        children = [subprocess.Popen(["sleep", "60"]) for _ in range(int(params["count"]))]
        for child in children:
            child.kill()

    def do_open(self, in_files, out, params):
        """Open ``count`` files."""
        held = [open("/dev/null", "rb") for _ in range(int(params["count"]))]
        out.write(b"%d" % len(held))

    def do_scratch(self, in_files, out, params):
        """Fill files of one MiB, or one large file, in a folder; then do another action."""
        for number in range(int(params["files"])):
            with open("%s/%d" % (params["folder"], number), "wb") as file:
                for _ in range(int(params.get("mib", 1))):
                    file.write(bytes(1 << 20))
                    file.flush()
        time.sleep(float(params["seconds"]))
        out.write(b"filled")

    def do_end_early(self, in_files, out, params):
        """Report the end of the run, and continue."""
        self.send_report('{"type":"end"}')
        while params["then"] == "spin":
            pass
        self.send_report('{"type":"begin","id":"again"}', self.connection())
        time.sleep(30)

    def do_forge_begin(self, in_files, out, params):
        """Report the end of the run, and the start of one that the filter does not know."""
        import socket

        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.send_report('{"type":"end"}')
        self.send_report('{"type":"begin","id":"mine"}', theirs.fileno())
        time.sleep(30)

    def connection(self):
        """The connection of this invocation: a connected socket other than the channel."""
        import socket

        for name in os.listdir("/proc/self/fd"):
            if int(name) > 4:
                try:
                    found = socket.socket(fileno=os.dup(int(name)))
                    found.getpeername()
                    return found.detach()
                except OSError:
                    pass

    def send_report(self, text, *descriptors):
        import array
        import socket

        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        socket.socket(fileno=os.dup(4)).sendmsg([text.encode()], rights)

    def do_signal(self, in_files, out, params):
        """Send a signal; return the outcome."""
        try:
            os.kill(int(params["pid"]), int(params["signal"]))
            out.write(b"sent")
        except OSError as error:
            out.write(str(error).encode())

    def do_spy(self, in_files, out, params):
        """Look into another process."""
        for name in ("mem", "fd", "environ"):
            try:
                path = "/proc/%s/%s" % (params["pid"], name)
                found = os.listdir(path) if name == "fd" else open(path, "rb")
                out.write(b"%s: %s\n" % (name.encode(), str(found).encode()))
            except OSError:
                pass

    def do_forge(self, in_files, out, params):
        """Send an invalid message to the supervisor."""
        import socket

        channel = socket.socket(fileno=os.dup(4))
        channel.send(params["text"].encode())
        time.sleep(30)

    def do_close_all(self, in_files, out, params):
        out.write(b"all")
        out.close()
        in_files[0].close()
