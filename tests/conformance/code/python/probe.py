"""A storlet that does what its parameter ``do`` says; ``code/java/Probe.java`` is the same in Java."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

RUNS = 0
kept = []


class Probe:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        global RUNS
        RUNS += 1
        getattr(self, "do_" + params.get("do", "echo"))(in_files, out_files[0], params)

    def do_echo(self, in_files, out, params):
        """Metadata of the first input and its own parameters (less the path), then all inputs one after another."""
        metadata = in_files[0].get_metadata()
        metadata.update((k, v) for k, v in params.items() if k not in ("do", "storlet_execution_path"))
        out.set_metadata(metadata)
        for source in in_files:
            while data := source.read(65536):
                out.write(data)

    def do_nothing(self, in_files, out, params):
        pass

    def do_write(self, in_files, out, params):
        """Data without metadata."""
        out.write(params["text"].encode())

    def do_pid(self, in_files, out, params):
        out.write(str(os.getpid()).encode())

    def do_count(self, in_files, out, params):
        """How many runs this process has had."""
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
        """End the process in the middle of the output, as if all were well."""
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
        """Write one byte, then compute for ever."""
        out.write(b"x")
        out.flush()
        while True:
            pass

    def do_sleep(self, in_files, out, params):
        time.sleep(float(params["seconds"]))
        out.write(b"slept")

    def do_flood(self, in_files, out, params):
        """Write for ever."""
        while True:
            out.write(b"x" * 262144)

    def do_log(self, in_files, out, params):
        """Lines of each level, in the log."""
        self.logger.debug("one")
        self.logger.info("two")
        self.logger.warning("three")
        self.logger.error("four")

    def do_log_flood(self, in_files, out, params):
        for number in range(int(params["lines"])):
            self.logger.info("line %d" % number)

    def do_print(self, in_files, out, params):
        print("to the standard output")
        print("to the standard error", file=sys.stderr)

    def do_leave_process(self, in_files, out, params):
        """Leave a process behind, in a session of its own, that ignores what it can."""
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        out.write(str(child.pid).encode())

    def do_leave_orphan(self, in_files, out, params):
        """Leave a process behind whose parent is gone."""
        script = "setsid sleep 300 >/dev/null 2>&1 & echo $!"
        out.write(subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True).stdout.strip())

    def do_leave_writer(self, in_files, out, params):
        self.child = subprocess.Popen(["/bin/sh", "-c", "echo begin; sleep 1; echo end"], stdout=out.fileno())

    def do_keep_duplicate(self, in_files, out, params):
        kept.append(os.dup(in_files[0].fileno()))
        out.write(b"%d" % os.getpid())

    def do_leave_thread(self, in_files, out, params):
        threading.Thread(target=time.sleep, args=(300,), daemon=True).start()

    def do_leave_changes(self, in_files, out, params):
        """Change all of the process that can be put back."""
        os.chdir("/")
        os.umask(0o777)
        os.environ["LEFT"] = "behind"
        sys.path.insert(0, "/left/behind")
        sys.stdout = None
        os.environ.pop("PATH", None)

    def do_leave_handler(self, in_files, out, params):
        signal.signal(signal.SIGUSR1, lambda *_: None)

    def do_state(self, in_files, out, params):
        mask = os.umask(0)
        os.umask(mask)
        state = {"cwd": os.getcwd(), "umask": mask, "left": os.environ.get("LEFT"), "has_path": "PATH" in os.environ}
        out.write(json.dumps({**state, "sys_path": sys.path[0], "stdout": sys.stdout is None}).encode())

    def do_descriptors(self, in_files, out, params):
        """The descriptors of this process, and which of them a child would have."""
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
        """Close every descriptor that is not the storlet's business."""
        os.closerange(3, 1024)
        time.sleep(0.1)

    def do_forge(self, in_files, out, params):
        """Write to the supervisor what no worker would."""
        import socket

        channel = socket.socket(fileno=os.dup(4))
        channel.send(params["text"].encode())
        time.sleep(30)

    def do_close_all(self, in_files, out, params):
        out.write(b"all")
        out.close()
        in_files[0].close()
