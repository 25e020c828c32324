"""Escapes from the sandbox: to processes, host, network, the object's file, the tenant's
storlets."""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from storlet_daemon import landlock
from storlet_daemon.landlock import INTERFACE_WITH_SCOPES
from tests.attack import leftovers
from tests.attack.arena import Attacker, must, outcome
from tests.attack.attack import BOTH, PYTHON, Attack
from tests.support.accounts import unique
from tests.support.host import check_numbered, new_key
from tests.support.storlets import Tool
from tests.support.waiting import wait_for

#: swift-object-auditor for several servers at once; it switches to Swift's user itself. The import
#: of Swift's modules takes longer than an audit.
AUDITOR: Final = """
import os, sys
from swift.common import utils
utils.set_swift_dir(os.path.dirname(sys.argv[1]))
from swift.obj.auditor import main
children = []
for config in sys.argv[1:]:
    children.append(os.fork())
    if not children[-1]:
        sys.argv[1:] = [config, "once"]
        sys.exit(main())
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""
#: The kernel's errors for a refusal by policy; any other error means that the call was admitted.
REFUSALS: Final = (
    "Operation not permitted",
    "Function not implemented",
    "Permission denied",
    "not supported",
    "killed by signal",
    "refused",
)


def all_refused(do: str, but: Iterable[str] = (), **parameters: str) -> Callable[[Attacker], str]:
    """Every try of a report failed, except those declared harmless."""
    spared = frozenset(but)

    def run(attacker: Attacker) -> str:
        found = attacker.report(
            do,
            **{
                key: value.format(port=attacker.arena.cluster.process("proxy").port)
                for key, value in parameters.items()
            },
        )
        got = {
            key: value
            for key, value in found.items()
            if str(value).startswith("got") and key not in spared
        }
        must(not got, got)
        attacker.recovers()
        return f"{sum(str(value).startswith('no') for value in found.values())} tries, none worked"

    return run


def calls(attacker: Attacker) -> str:
    """Every call is refused by policy and not for its arguments: better arguments would fail
    too."""
    found = attacker.report("calls")
    wrong = {
        key: value
        for key, value in found.items()
        if not any(refusal in value for refusal in REFUSALS)
    }
    must(not wrong, wrong)
    return f"{len(found)} calls, all refused by policy"


def donated(attacker: Attacker) -> str:
    """The donated file can only be read; each replica on disk is unchanged."""
    before = leftovers.objects_of(attacker.host, attacker.tenant.account)
    must(before, "no replica was found")
    found = attacker.report("donated")
    must(found.pop("kind", "file") == "file", found)
    got = {key: value for key, value in found.items() if str(value).startswith("got")}
    must(not got, got)
    after = leftovers.objects_of(attacker.host, attacker.tenant.account)
    # (A replica that Swift had not finished writing may have appeared meanwhile.)
    changed = {
        path: (was, after.get(path)) for path, was in before.items() if after.get(path) != was
    }
    must(not changed, f"replicas have changed: {changed}")
    must(
        attacker.client.get(attacker.path).body == attacker.tenant.content,
        "Swift serves other bytes",
    )
    return f"{len(found)} tries, none worked; {len(before)} replicas unchanged"


def donated_stream(attacker: Attacker) -> str:
    """At the proxy the input is a stream, and the sandbox has no access to the object."""
    found = attacker.report("donated")
    must(found["kind"] == "stream", found)
    got = {key: value for key, value in found.items() if str(value).startswith("got")}
    # On its own end of the stream the storlet may change these: they are not those of our end.
    harmless = {"mode", "mode by name", "times", "times now", "owner", "lock to write"}
    must(set(got) <= harmless, got)
    return f"a stream; {len(found) - len(got)} tries failed"


def locks(attacker: Attacker) -> str:
    """A lock on the object's file does not stop Swift's reads, writes, deletes and audits."""
    tenant, key = attacker.tenant, new_key()
    path = f"data/{unique('locked')}"
    must(tenant.client.put(path, tenant.content).status == 201, "upload")
    going = attacker.arena.pool.submit(attacker.tool.get, path, "lock", key=key)
    attacker.host.run_named(key)
    times = {}
    for name, act, wanted in (
        ("GET", lambda: tenant.client.get(path).status, 200), ("POST", lambda: tenant.client.post(path, {"X-Object-Meta-A": "b"}).status, 202),
        ("audit", lambda: len(audit(attacker)), 0), ("PUT", lambda: tenant.client.put(path, b"new").status, 201),
        ("DELETE", lambda: tenant.client.delete(path).status, 204),
    ):  # fmt: skip
        began = time.monotonic()
        seen = act()
        times[name] = time.monotonic() - began
        must(seen == wanted, f"{name}: {seen}")
    must(max(took for name, took in times.items() if name != "audit") < 2, times)
    answer = going.result(30)
    # It never receives the signal to continue: the deadline ends it.
    must(outcome(answer) in ("200 broken", "422 storlet.timeout.first_byte"), answer)
    held = answer.body.decode().strip() or "nothing"
    return f"held {held}; " + ", ".join(
        f"{name} {took * 1000:.0f} ms" for name, took in times.items()
    )


def audit(attacker: Attacker) -> list[str]:
    """Run Swift's object auditor once over all disks; return the quarantined objects."""
    arena = attacker.arena
    configs = [str(arena.cluster.process(server).config) for server in ("object-1", "object-2")]
    arena.python(AUDITOR, *configs)
    return leftovers.quarantined(attacker.host)


def facts(attacker: Attacker) -> str:
    """The storlet's process has no privileges and only the descriptors of its invocation."""
    if attacker.language == "java":
        return java_facts(attacker)
    found = attacker.report("identity_facts")
    known = {user.pw_uid for user in pwd.getpwall()} | {user.pw_gid for user in pwd.getpwall()}
    must(len(set(found["uid"])) == 1, found["uid"])
    must(not known & set(found["uid"]), found["uid"])
    must({int(mask, 16) for mask in found["capabilities"]} == {0}, found["capabilities"])
    must((found["no_new_privileges"], found["seccomp"]) == ("1", "2"), found)
    must(found["core"] == ["0", "0"], found["core"])
    must(found["oom_score_adj"] > 0, found["oom_score_adj"])
    must(
        not [
            name
            for name in found["environment"]
            if "SWIFT" in name or "STORLETS" in name or "DOCKER" in name
        ],
        found["environment"],
    )
    return check_descriptors(list(found["descriptors"].values()), attacker)


def java_facts(attacker: Attacker) -> str:
    found = attacker.report("facts")
    must({int(value, 16) for key, value in found.items() if key.startswith("Cap")} == {0}, found)
    must((found["NoNewPrivs"], found["Seccomp"]) == ("1", "2"), found)
    must(len(set(found["Uid"].split() + found["Gid"].split())) == 1, found)
    return check_descriptors(
        [value for key, value in found.items() if key.startswith("fd ")], attacker
    )


def check_descriptors(links: list[str], attacker: Attacker) -> str:
    """Check that the links name exactly one object, the invocation's pipes, sockets and memory
    files, and files of the language runtime."""
    objects = [link for link in links if "/disks/" in link]
    must(len(objects) == 1, links)
    strange = [
        link for link in links
        if link.partition(":")[0] not in ("socket", "pipe", "anon_inode", "/memfd") and "/disks/" not in link
        and not link.startswith(("/dev/null", "/dev/random", "/dev/urandom", "/usr/", "/var/lib/storlets/", "/proc/", "/sys/fs/cgroup", "/tmp/hsperf", "/etc/"))
    ]  # fmt: skip
    must(not strange, strange)
    limit = 16 if attacker.language == "python" else 64
    must(len(links) <= limit, links)
    return f"no capability, filter on, {len(links)} descriptors, one object"


def kill_siblings(attacker: Attacker) -> str:
    """The attacker kills another storlet of the same tenant: its client receives an error, never a
    short result."""
    victim, key = Tool(attacker.client, "gremlin.py"), new_key()
    slow = attacker.arena.pool.submit(
        victim.get, attacker.path, "numbered", key=key, lines="5000", pause="1.5"
    )
    attacker.host.run_named(key)
    time.sleep(0.3)
    answer = attacker.shoot("kill_others")
    must(answer.status in (200, 422, 503), answer)
    seen = slow.result(30)
    if not seen.is_broken:
        must(outcome(seen) in ("200", "422 storlet.failed", "503 sandbox.unavailable"), seen)
        must(seen.status != 200 or check_numbered(seen.body) == 5001, seen)
    attacker.recovers()
    return f"victim: {outcome(seen)}; attacker: {outcome(answer)}"


def kill_one(do: str) -> Callable[[Attacker], str]:
    def run(attacker: Attacker) -> str:
        answer = attacker.shoot(do)
        must(
            outcome(answer)
            in ("200", "422 storlet.failed", "200 broken", "503 sandbox.unavailable"),
            answer,
        )
        attacker.recovers()
        return outcome(answer)

    return run


def ends_early(attacker: Attacker) -> str:
    """exit(0) in the middle of the body is not a success."""
    do, how = ("end", {"how": "exit"}) if attacker.language == "python" else ("halt", {})
    # The response begins once the output exceeds the held-back bytes; a COPY begins with less
    # output.
    answer = attacker.shoot(do, **how, lines="40000")
    must(outcome(answer) == "200 broken", answer)
    path = f"data/{unique('early')}"
    stored = attacker.tool.copy(attacker.path, path, do, **how, lines="4000")
    must(outcome(stored) == "422 storlet.failed", stored)
    must(attacker.client.get(path).status == 404, "something was stored")
    attacker.recovers()
    return f"GET {outcome(answer)}; COPY {outcome(stored)}"


def keeps_input(attacker: Attacker) -> str:
    """A descriptor kept from a run gives no access to the object of the next run."""
    secret = f"data/{unique('secret')}"
    must(attacker.client.put(secret, b"a secret of another object").status == 201, "upload")
    first = attacker.tool.get(secret, "hoard_input")
    must(first.status in (200, 422), first)
    seen = attacker.shoot("hoard_input")
    must(b"secret" not in seen.body, seen)
    return f"{outcome(first)}, then {outcome(seen)} {seen.body[:20]!r}"


def moves_offset(attacker: Attacker) -> str:
    """The file offset is private to a run: a simultaneous plain GET and the next run read from the
    start."""
    answer = attacker.shoot("input_offset")
    must((outcome(answer), answer.body) == ("200", b"moved"), answer)
    must(attacker.client.get(attacker.path).body == attacker.tenant.content, "plain GET")
    attacker.recovers()
    return "200, other offsets unchanged"


def leak_is_its_own(attacker: Attacker) -> str:
    """The memory limit is per storlet: a leaking storlet ends, another of the same tenant
    continues."""
    victim, key = Tool(attacker.client, "gremlin.py"), new_key()
    going = attacker.arena.pool.submit(
        victim.get, attacker.path, "numbered", key=key, before="1.5", lines="10"
    )
    attacker.host.run_named(key)
    answer = attacker.shoot("memory")
    must(outcome(answer) == "422 storlet.limit.memory", answer)
    seen = going.result(30)
    must((seen.status, seen.is_broken, check_numbered(seen.body)) == (200, False, 11), seen)
    return f"the leak: {outcome(answer)}; the other: {outcome(seen)}"


def share_name_prefix(attacker: Attacker) -> str:
    """Two accounts whose names share sixty characters."""
    stem = "AUTH_" + unique("alike").ljust(55, "x")
    must(len(stem) == 60, stem)
    first, second = (attacker.arena.account(stem + letter) for letter in "ab")
    key = new_key()
    must(Tool(first.client, "gremlin.py").get(first.path, "touch", go=key).status == 200, "first")
    seen = Tool(second.client, "gremlin.py").get(second.path, "counted", of=key)
    must((seen.status, seen.body) == (200, b"0"), seen)
    second.upload(
        "gremlin.py",
        b"class Gremlin:\n def __init__(self, l): pass\n def __call__(self, i, o, p): o[0].write(b'other')\n",
    )
    must(Tool(second.client, "gremlin.py").get(second.path).body == b"other", "second's own code")
    must(first.is_well(), "first's own code")
    ones = [attacker.host.sandbox(one.account) for one in (first, second)]
    uids = [_uids(one.pid) for one in ones]
    must(ones[0].container != ones[1].container, ones)
    must(uids[0] != uids[1], uids)
    must(
        attacker.host.code_dir(first.account) != attacker.host.code_dir(second.account),
        "one code directory",
    )
    return f"two sandboxes, uids {' and '.join(uids)}"


def _uids(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Uid:"))


def impersonates(attacker: Attacker) -> str:
    """A worker takes connections that wait for its own storlet; it cannot see those of other
    storlets."""
    honest = attacker.tenant.upload("honest.py", b"class Honest:\n def __init__(self, l): pass\n"
                                    b" def __call__(self, i, o, p): o[0].write(i[0].read())\n", "Honest")  # fmt: skip
    tool = Tool(attacker.client, honest)
    must(tool.get(attacker.path).body == attacker.tenant.content, "the honest one")
    lying = [attacker.arena.pool.submit(attacker.shoot, "answer_for_others") for _ in range(2)]
    for _ in range(20):
        answer = tool.get(attacker.path)
        must((outcome(answer), answer.body) == ("200", attacker.tenant.content), answer)
    seen: dict[str, int] = {}
    for _ in range(6):
        answer = attacker.shoot("identity")
        if answer.status == 200 and not answer.is_broken and answer.body != attacker.tenant.content:
            # A storlet may falsify its own runs, but the body must not be shorter than its success
            # event states.
            must(answer.body == b"", answer)
        seen[outcome(answer)] = seen.get(outcome(answer), 0) + 1
    for one in lying:
        must(one.result(30).status in (200, 422, 503), one.result())
    wait_for(lambda: tool.get(attacker.path).body == attacker.tenant.content, 10, "the honest one")
    attacker.recovers()
    return f"20 of 20 honest runs right; its own: {seen}"


#: A storlet that starts a program with a secret, and an abstract socket, until its input has ended.
STARTER: Final = b"""
import socket, subprocess

class Starter:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        server = socket.socket(socket.AF_UNIX)
        server.bind("\\0program")
        server.listen()
        with subprocess.Popen(["sleep", params["seconds"]], env={"SECRET": "of another storlet"}):
            out_files[0].write(b"started")
            out_files[0].flush()
        server.close()
"""


def plants_files(attacker: Attacker) -> str:
    """A child Python of the honest storlet runs nothing that the hostile one has left."""
    report = attacker.report("plants_files")
    victim = attacker.tenant.tool()
    answer = victim.get(attacker.path, "python_child")
    must((answer.status, answer.text) == (200, "own"), answer)
    return f"{sum(said.startswith('got') for said in report.values())} of {len(report)} written"


def reads_programs(attacker: Attacker) -> str:
    """A storlet starts a program; another one of the account cannot read or signal it."""
    tool = Tool(attacker.client, attacker.tenant.upload("starter.py", STARTER, "Starter"))
    # The sandbox and the storlet's workers begin.
    answer = tool.get(attacker.path, seconds="0")
    must(answer.status == 200, answer)
    running = attacker.arena.pool.submit(tool.get, attacker.path, seconds="30")
    account, host = attacker.tenant.account, attacker.host
    wait_for(lambda: host.programs_named(account, "sleep"), 10, "a program")
    report = attacker.report("read_programs")
    for program in host.programs_named(account, "sleep"):
        os.kill(program.pid, signal.SIGKILL)
    must(any(name.endswith("environment") for name in report), report)
    got = {name: value for name, value in report.items() if value.startswith("got")}
    must(not got or landlock.interface() < INTERFACE_WITH_SCOPES, got)
    answer = running.result(30)
    must((outcome(answer), answer.body) == ("200", b"started"), answer)
    attacker.recovers()
    return f"{len(report)} tries, none worked"


#: Files of the kernel and Docker that any process may open; they contain nothing of other
#: processes.
HARMLESS: Final = ("read /proc/timer_list", "read /proc/sched_debug")

ROWS: Final = (
    Attack("exit(0) half-way", "200 broken; 422 failed, nothing stored", ends_early, BOTH),
    Attack("kill -9 1 and -1", "200, 422 or 503; the next run works", kill_one("kill_all"), PYTHON, fresh=True),
    Attack("kill -9 1 and -1 by a shell", "200, 422 or 503; the next run works", kill_one("signals"), ("java",), fresh=True),
    Attack("every signal to the supervisor", "no effect", all_refused("signal_supervisor"), PYTHON),
    Attack("plants files for the tenant's other storlets", "they never run", plants_files, PYTHON, fresh=True),
    Attack("reads programs of the tenant's other storlets", "refused", reads_programs, PYTHON, fresh=True),
    Attack("kills the tenant's other storlets", "their clients see an error or all of it", kill_siblings, PYTHON, fresh=True),
    Attack("leaks while another storlet works", "422 memory for it, 200 for the other", leak_is_its_own, BOTH),
    Attack("writes other storlets' code, traces their workers", "refused", all_refused("siblings"), BOTH),
    Attack("connects to every Unix socket", "refused", all_refused("sockets"), BOTH),
    Attack("files of host, kernel and process 1; devices", "refused", all_refused("places", HARMLESS), BOTH),
    Attack("links in the scratch directory", "lead nowhere", all_refused("links"), PYTHON),
    Attack("dangerous system calls", "EPERM or ENOSYS", calls, PYTHON),
    Attack("network", "unreachable", all_refused("network", port="{port}"), BOTH),
    Attack("identity, capabilities and descriptors", "unprivileged; the invocation's descriptors only", facts, BOTH),
    Attack("donated descriptor", "read-only, disk unchanged", donated, BOTH),
    Attack("donated stream", "nothing of an object", donated_stream, PYTHON, placement="proxy"),
    Attack("locks on the donated file", "Swift's requests are not delayed", locks, PYTHON),
    Attack("moves the donated descriptor's offset", "no effect on other readers", moves_offset, PYTHON),
    Attack("keeps the last run's input", "no access in the next run", keeps_input, PYTHON),
    Attack("answers for another invocation", "never another storlet's", impersonates, PYTHON, fresh=True),
    Attack("accounts that share sixty characters", "two sandboxes, nothing shared", share_name_prefix, PYTHON, once=True),
)  # fmt: skip
