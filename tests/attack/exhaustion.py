"""Resource exhaustion: processes, memory, files, time, output, metadata, log, parser bombs."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from tests.attack.arena import (
    DEADLINES,
    ENDS_SOON,
    LOG_BYTES,
    METADATA_BYTES,
    NO_MORE_OUTPUT,
    NO_OUTPUT,
    OUTPUT_BYTES,
    SCRATCH_BYTES,
    STORLETS,
    Attacker,
    must,
    outcome,
)
from tests.attack.attack import BOTH, JAVA, PYTHON, Attack
from tests.attack.names import raw
from tests.support.accounts import unique
from tests.support.host import new_key
from tests.support.http import Answer, raw_connection
from tests.support.storlets import Tool, declaration
from tests.support.waiting import wait_for

MEMORY: Final = "422 storlet.limit.memory"
PROCESSES: Final = "422 storlet.limit.processes"
FAILED: Final = "422 storlet.failed"
FIRST_BYTE: Final = "422 storlet.timeout.first_byte"
BROKEN: Final = "200 broken"
#: Runs at once of a storlet with at most eight workers, and the length of each: the last one waits
#: for longer than its total deadline.
WAITING: Final = 40
WAITING_SECONDS: Final = 0.8
WAITS_LONGER: Final = {"X-Storlet-Limit-Timeout-Total": "3s"}
#: The time of the last of many cancels.
CANCEL_SECONDS: Final = 0.1
#: The bytes themselves load the machine as any client's do: a plain PUT and GET of 8 MiB, five
#: times a second, doubles the neighbour's times on two cores.  These attacks measure the additional
#: effect of an endless output.
LITTLE: Final = {"X-Storlet-Limit-Output": "1M"}


def ends(
    do: str, *allowed: str, headers: Mapping[str, str] | None = None, **parameters: str
) -> Callable[[Attacker], str]:
    """A GET ends with an allowed outcome, all of its processes end, and the next run works."""

    def run(attacker: Attacker) -> str:
        key = new_key()
        answer = attacker.tool.get(attacker.path, do, headers, key=key, **parameters)
        must(outcome(answer) in allowed, answer)
        must(len(answer.body) <= OUTPUT_BYTES, f"{len(answer.body)} bytes came")
        if outcome(answer) != "200":  # a worker that succeeded keeps running
            wait_for(lambda: not attacker.host.runs_named(key), 10, "its processes to end")
        attacker.recovers()
        return outcome(answer)

    return run


def stores_nothing(
    do: str, *allowed: str, headers: Mapping[str, str] | None = None, **parameters: str
) -> Callable[[Attacker], str]:
    """A COPY ends with an allowed outcome, and no object is stored."""

    def run(attacker: Attacker) -> str:
        path = f"data/{unique('attack')}"
        answer = attacker.tool.copy(attacker.path, path, do, headers, **parameters)
        must(outcome(answer) in allowed, answer)
        must(attacker.client.get(path).status == 404, "something was stored")
        attacker.recovers()
        return outcome(answer)

    return run


def both(*steps: Callable[[Attacker], str]) -> Callable[[Attacker], str]:
    """Run both attacks in sequence."""
    return lambda attacker: "; ".join(step(attacker) for step in steps)


# --- files ----------------------------------------------------------------------------------------


def fill_mounts(attacker: Attacker) -> str:
    answer = attacker.shoot("fill_mounts")
    if outcome(answer) == MEMORY:
        attacker.recovers()
        return MEMORY
    must((answer.status, answer.is_broken) == (200, False), answer)
    written = {}
    for point, result in json.loads(answer.body).items():
        if isinstance(result, list):
            written[point] = result[1]
        elif not result.startswith("no: "):
            written[point] = int(result.split()[0])
    homes = {point for point in written if point.startswith("/homes/")}
    must(len(homes) <= 1 and set(written) <= {"/tmp", "/dev/shm", *homes}, written)
    must(all(size <= SCRATCH_BYTES for size in written.values()), written)
    attacker.recovers()
    return "room in " + ", ".join(
        f"{point} for {size >> 10} KiB" for point, size in sorted(written.items())
    )


def fill_inodes(attacker: Attacker) -> str:
    answer = attacker.shoot("fill_inodes")
    must(answer.status == 200, answer)
    reason, count = json.loads(answer.body)
    must((reason, count <= 8192) == ("ENOSPC", True), answer)
    attacker.recovers()
    return f"{reason} after {count} files"


def fill_shared_memory(attacker: Attacker) -> str:
    answer = attacker.shoot("fill_shm")
    must(answer.status == 200, answer)
    _found, made, error = map(int, answer.body.split())
    must((error, made < 1024) == (28, True), answer)
    attacker.recovers()
    return f"ENOSPC after {made} files"


def many_limits(attacker: Attacker) -> str:
    """Each limit that a request lowers makes another worker group."""
    for number in attacker.repeats(12, 10):
        limits = {"X-Storlet-Limit-Memory": f"{150 - number}M"}
        answer = attacker.tool.get(attacker.path, headers=limits)
        must(answer.status == 200, answer)
    groups = len(attacker.host.group_sockets(attacker.host.sandbox(attacker.tenant.account)))
    must(1 < groups <= 8 + 1, groups)  # the honest storlet has one
    attacker.recovers()
    return f"{groups} groups in its sandbox"


def kernel_objects(attacker: Attacker) -> str:
    """Kernel objects that outlive their process must be refused; all others must be bounded."""
    answer = attacker.shoot("timers")
    must(outcome(answer) in ("200", MEMORY, FIRST_BYTE), answer)
    attacker.recovers()
    if answer.status != 200:
        return outcome(answer)
    found = json.loads(answer.body)
    must(all(reason != "no end" for reason, _ in found.values()), found)
    must(not any(found[name][1] for name in ("queue", "msgget", "semget", "shmget")), found)
    return ", ".join(f"{name}: {reason} after {count}" for name, (reason, count) in found.items())


def pipes(attacker: Attacker) -> str:
    answer = attacker.shoot("pipes")
    must(outcome(answer) in ("200", MEMORY, FAILED), answer)
    attacker.recovers()
    return f"{outcome(answer)} {answer.text[:60]}" if answer.status == 200 else outcome(answer)


# --- input, output --------------------------------------------------------------------------------


def never_reads(attacker: Attacker) -> str:
    """A PUT whose body the storlet never reads: the output is stored and the client does not
    hang."""
    path, body = f"data/{unique('unread')}", b"x" * (8 << 20)
    answer = attacker.tool.put(path, body, "ignore")
    must(answer.status == 201, answer)
    must(attacker.client.get(path).body == b"ignored", "something else was stored")
    key = new_key()
    stalled = attacker.tool.put(path + "-2", body, "uninterruptible_sleep", NO_OUTPUT, key=key)
    must(stalled.status == 422 and (stalled.error or "").startswith("storlet.timeout."), stalled)
    must(attacker.client.get(path + "-2").status == 404, "something was stored")
    wait_for(lambda: not attacker.host.runs_named(key), 10, "its process to end")
    return f"201; {outcome(stalled)}"


def reader_leaves(attacker: Attacker) -> str:
    """The client reads little of a terabyte and then disconnects."""
    key = new_key()
    with raw_connection(attacker.client) as client:
        client.send_head(
            "GET",
            attacker.path,
            attacker.tool.headers(),
            {"do": "flood", "bytes": str(1 << 40), "key": key},
        )
        status, _ = client.read_head()
        must(status == 200, status)
        client.sock.recv(1000)
        client.reset()
    wait_for(lambda: not attacker.host.runs_named(key), 10, "its process to end")
    attacker.recovers()
    return "200, and its process ended with the client"


def cancel_storm(attacker: Attacker) -> str:
    """Cancel invocations in each of their states."""
    numbers = attacker.repeats(200, 36)

    def cancel(number: int) -> None:
        with raw_connection(attacker.client) as client:
            do = ("uninterruptible_sleep", "flood", "identity")[number % 3]
            client.send_head("GET", attacker.path, attacker.tool.headers(), {"do": do})
            time.sleep(number * CANCEL_SECONDS / len(numbers))
            client.reset()

    list(attacker.arena.pool.map(cancel, numbers))
    attacker.recovers(30)
    return f"{len(numbers)} cancelled, the next works"


def crowd(attacker: Attacker) -> str:
    """Send far more than one tenant's share of slots at once: each is served or receives
    Retry-After."""
    answers: list[Answer] = list(
        attacker.arena.pool.map(
            lambda _: attacker.shoot("numbered", before="0.1", lines="1"),
            attacker.repeats(300, 96),
        )
    )
    seen = sorted({outcome(answer) for answer in answers})
    must(set(seen) <= {"200", "429 tenant.busy", "503 node.busy"}, seen)
    must(
        all(int(a.headers.get("Retry-After", "0")) > 0 for a in answers if a.status != 200),
        "no Retry-After",
    )
    attacker.recovers()
    return ", ".join(
        f"{seen_one} x{sum(outcome(a) == seen_one for a in answers)}" for seen_one in seen
    )


def wait_for_workers(attacker: Attacker) -> str:
    """Runs of a storlet whose workers are all busy wait for longer than its total deadline, which
    begins with the run."""
    answers: list[Answer] = list(
        attacker.arena.pool.map(
            lambda _: attacker.tool.get(
                attacker.path, "numbered", WAITS_LONGER, before=str(WAITING_SECONDS), lines="1"
            ),
            range(WAITING),
        )
    )
    seen = Counter(outcome(answer) for answer in answers)
    must(set(seen) <= {"200", "429 tenant.busy"}, seen)
    attacker.recovers()
    return ", ".join(f"{what} x{count}" for what, count in sorted(seen.items()))


# --- metadata and log -----------------------------------------------------------------------------


def sets_metadata(
    attacker: Attacker, given: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Headers and parameters that make the hostile storlet set the metadata ``given``."""
    if attacker.language == "python":
        return {"X-Storlet-Parameter-1": quote(f"metadata:{json.dumps(given)}")}, {}
    keys = {f"key{n}": key for n, key in enumerate(given)}
    return {}, keys | {f"value{n}": value for n, value in enumerate(given.values())}


def metadata(attacker: Attacker, given: dict[str, str]) -> Answer:
    headers, parameters = sets_metadata(attacker, given)
    return attacker.tool.get(attacker.path, "metadata", headers, **parameters)


def large_metadata(attacker: Attacker) -> str:
    """The JSON text ``{"a":"..."}`` is eight bytes longer than the value."""
    allowed = metadata(attacker, {"a": "x" * (METADATA_BYTES - 8)})
    refused = metadata(attacker, {"a": "x" * (METADATA_BYTES - 7)})
    must(outcome(refused) == "422 storlet.limit.metadata", refused)
    # Swift's own limit for one value is far lower: metadata within the storlet's limit may be
    # refused, but is never stored in part.
    must(outcome(allowed) in ("200", "422 storlet.limit.metadata", FAILED), allowed)
    return f"4096 bytes: {outcome(allowed)}; 4097 bytes: {outcome(refused)}"


FORGERIES: Final = (
    {"a": "b\r\nX-Forged: yes"}, {"a\r\nX-Forged": "yes"}, {"a": "b\n\nbody"}, {"a\x00": "b"}, {"a": "\x00"}, {"": "b"}, {"a: b": "x"},
    {"a": "\x7f"}, {"a": "\u2028\u4e2d\U0001f600"}, {"a": "\x1b[2J"}, {"a": "\x85X-Forged: yes"}, {"X-Timestamp": "1"},
    {"Etag": "0" * 32}, {"Content-Length": "1"}, {"Transfer-Encoding": "chunked"}, {"X-Storlet-Error": "internal"}, {"Status": "500"},
)  # fmt: skip


#: Swift's proxy server sends nothing to a node with more errors (``error_suppression_limit``).
ERRORS_OF_A_NODE: Final = 10
#: An object server refuses each of them before it has read the body.
UNSTORABLE: Final = (
    {"Content-Type": " "},
    {"Content-Type": "a/b; swift_bytes=1"},
    {"k" * 129: "v"},
    {"k": "v" * 257},
)


def unstorable_metadata(attacker: Attacker) -> str:
    """Swift's proxy counts no error against a node, so plain requests continue to work."""
    seen: dict[str, int] = {}
    for given in UNSTORABLE:
        headers, parameters = sets_metadata(attacker, given)
        for number in attacker.repeats(20, ERRORS_OF_A_NODE + 2):
            path = f"data/unstorable-{number}"
            answer = attacker.tool.put(path, b"x" * 300_000, "metadata", headers, **parameters)
            must(outcome(answer) in ("201", FAILED, "422 storlet.limit.metadata"), (given, answer))
            seen[outcome(answer)] = seen.get(outcome(answer), 0) + 1
            good = attacker.client.get(attacker.path)
            must((outcome(good), good.body) == ("200", attacker.tenant.content), good)
    return ", ".join(f"{what} x{count}" for what, count in sorted(seen.items()))


def forged_metadata(attacker: Attacker) -> str:
    """No key or value becomes another header, ends the response head early or changes its
    framing."""
    seen = set()
    for given in FORGERIES:
        answer = metadata(attacker, given)
        must(answer.status in (200, 422), (given, answer))
        must(not answer.is_broken, (given, answer))
        must("X-Forged" not in answer.headers, (given, answer))
        must(answer.status == 422 or answer.body == b"metadata was set", (given, answer))
        must(answer.status == 422 or answer.error is None, (given, answer))
        seen.add(outcome(answer))
    check_wide_key(attacker)
    return f"{len(FORGERIES) + 1} forgeries: {', '.join(sorted(seen))}"


def check_wide_key(attacker: Attacker) -> None:
    """A non-ASCII key is sent as Swift sends its own, which Python's client cannot parse: compare
    bytes."""
    query = "do=metadata" + ("" if attacker.language == "python" else "&key0=%E4%B8%AD&value0=b")
    headers = [b"X-Run-Storlet: " + attacker.tool.storlet.encode()]
    if attacker.language == "python":
        headers.append(b"X-Storlet-Parameter-1: " + quote('metadata:{"\u4e2d":"b"}').encode())
    status, found, body = raw(
        attacker, "GET", attacker.client.target(attacker.path) + f"?{query}", headers
    )
    must(status in (200, 422), (status, found, body))
    framings = {"chunked": b"10\r\nmetadata was set\r\n0\r\n\r\n", None: b"metadata was set"}
    must(status == 422 or body == framings.get(found.get("transfer-encoding")), (found, body))
    must(status == 422 or found.get("content-length") in (None, "16"), found)


def log_flood(attacker: Attacker) -> str:
    answer = attacker.tool.get(
        attacker.path, "log_flood", {"X-Storlet-Generate-Log": "True"}, lines="5000"
    )
    must((answer.status, answer.body) == (200, b"logged"), answer)
    return f"200, a log of {log_size(attacker, answer)} bytes"


def log_escapes(attacker: Attacker) -> str:
    """Escapes appear only in the tenant's log; every attack checks the operator's log
    afterwards."""
    answer = attacker.tool.get(
        attacker.path, "escapes", {"X-Storlet-Generate-Log": "True"}, lines="10000"
    )
    must((answer.status, answer.body) == (200, b"logged"), answer)
    size = log_size(attacker, answer)
    failed = attacker.tool.get(
        attacker.path, "escapes", {"X-Storlet-Generate-Log": "True"}, lines="10", fail="1"
    )
    must(outcome(failed) == FAILED, failed)
    must("X-Forged" not in failed.headers, failed)
    return f"200, a log of {size} bytes; {outcome(failed)}"


def log_size(attacker: Attacker, answer: Answer) -> int:
    log = attacker.client.get(
        f"storletlog/{attacker.tool.storlet}/{answer.headers['X-Storlet-Invocation']}.log"
    )
    must(log.status == 200, log)
    must(len(log.body) <= LOG_BYTES + 100, f"a log of {len(log.body)} bytes")
    return len(log.body)


def trickle_files(attacker: Attacker) -> str:
    """With a pace for each stream, the proxy would be woken up thousands of times a second."""
    source = (STORLETS / "hostile.py").read_bytes()
    declared = declaration(
        "python", "trickler.Hostile", ["gremlin.py"], Services="write", **DEADLINES
    )
    must(attacker.client.put("storlet/trickler.py", source, declared).status == 201, "upload")
    key, outputs = new_key(), [f"/data/{unique('trickle')}" for _ in range(8)]
    tool = Tool(attacker.client, "trickler.py")
    headers = {"X-Storlet-Output": ", ".join(outputs), "X-Storlet-Limit-Timeout-Total": "3s"}
    answer = tool.copy(attacker.path, "data/trickle", "trickle_files", headers, key=key)
    must(outcome(answer) == "422 storlet.timeout.total", answer)
    paths = ["data/trickle", *(f"data/trickle-{number}" for number in range(8))]
    for path in (*paths, *(output[1:] for output in outputs)):
        must(attacker.client.get(path).status == 404, f"{path} was stored")
    wait_for(lambda: not attacker.host.runs_named(key), 10, "its processes to end")
    attacker.recovers()
    return outcome(answer)


# --- honest parsers -------------------------------------------------------------------------------


def parses(
    do: str, content: bytes, *allowed: str, headers: Mapping[str, str] | None = None
) -> Callable[[Attacker], str]:
    """A bomb in the input of an honest storlet."""

    def run(attacker: Attacker) -> str:
        path = f"data/{unique('bomb')}"
        must(attacker.client.put(path, content).status == 201, "upload")
        answer = attacker.tool.get(path, do, headers)
        attacker.client.delete(path)
        must(outcome(answer) in allowed, answer)
        attacker.recovers()
        return outcome(answer)

    return run


ZIP_BOMB: Final = gzip.compress(b"\0" * (1 << 20), 9) * 1024
LAUGHS: Final = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "ha">'
    + b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 11))
    + b"]><l>&l10;</l>"
)
OUTSIDE: Final = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY e SYSTEM "file:///proc/1/environ">]><l>&e;</l>'
)

#: ``tested=PYTHON``: the kernel, the supervisor or the filter ends the run, and it does not matter
#: which language's worker is ended.  Rows in which the worker itself detects, bounds or reports
#: something are tested in both languages.
ROWS: Final = (
    Attack("fork bomb", "422 processes, failed or first byte", ends("fork_bomb", PROCESSES, FAILED, FIRST_BYTE), BOTH, tested=PYTHON, fresh=True),
    Attack("fork bomb that leaves its session", "422 processes or first byte", ends("stubborn_fork_bomb", PROCESSES, FIRST_BYTE, headers=NO_OUTPUT), PYTHON, fresh=True),
    Attack("thread bomb", "422 processes, failed or first byte", ends("thread_bomb", PROCESSES, FAILED, FIRST_BYTE, MEMORY), BOTH, fresh=True),
    Attack("memory bomb: heap", MEMORY, ends("memory", MEMORY), BOTH),
    Attack("memory bomb: in a child", MEMORY, ends("memory_of_child", MEMORY), PYTHON),
    Attack("memory bomb: native", MEMORY, ends("native_memory", MEMORY), BOTH),
    Attack("memory bomb: mapped and shared", MEMORY, ends("shared_memory", MEMORY), PYTHON),
    Attack("memory bomb: direct buffers", MEMORY, ends("mapped_memory", MEMORY), JAVA),
    Attack("memory bomb: files in memory", MEMORY, ends("memory_files", MEMORY, FAILED), PYTHON),
    Attack("page cache by mmap", "200, within the sandbox's memory", ends("page_cache", "200", MEMORY, seconds="1"), PYTHON),
    Attack("kernel memory by sockets", "200 or 422, and it ends", pipes, PYTHON),
    Attack("kernel objects", "refused or bounded, none stays", kernel_objects, PYTHON),
    Attack("descriptor exhaustion", FAILED, ends("descriptors", FAILED), BOTH),
    Attack("disk filler in every mount", "only the scratch takes files, up to its limit", fill_mounts, BOTH, tested=PYTHON),
    Attack("inode filler", "ENOSPC after at most 8192", fill_inodes, PYTHON),
    Attack("inode filler in shared memory", "ENOSPC before 1024", fill_shared_memory, PYTHON, once=True),
    Attack("requests with twelve different limits", "at most 8 groups of a storlet", many_limits, PYTHON, once=True, fresh=True),
    Attack("endless loop that ignores signals", FIRST_BYTE, ends("busy", FIRST_BYTE, headers=NO_OUTPUT), BOTH, tested=PYTHON),
    Attack("endless loop on every core", BROKEN, ends("busy_threads", BROKEN, headers=NO_MORE_OUTPUT, lines="1"), BOTH, tested=PYTHON),
    Attack("neither reads nor writes, ignores signals", FIRST_BYTE, ends("uninterruptible_sleep", FIRST_BYTE, headers=NO_OUTPUT), BOTH, tested=PYTHON),
    Attack("never reads its input", "201 with its output; 422 first byte", never_reads, BOTH),
    Attack("one byte at a time", "200 broken at the total deadline", ends("trickle", BROKEN, headers=ENDS_SOON), BOTH, tested=PYTHON),
    Attack("many created files byte by byte", "422 storlet.timeout.total", trickle_files, PYTHON, account="services", once=True),
    Attack("a terabyte of output", "200 broken; 422 output, nothing stored",
           both(ends("flood", BROKEN, headers=LITTLE), stores_nothing("flood", "422 storlet.limit.output", headers=LITTLE)), BOTH, tested=PYTHON),
    Attack("a terabyte for a client that disconnects", "its process ends", reader_leaves, BOTH, tested=PYTHON),
    Attack("200 invocations cancelled", "nothing is left", cancel_storm, BOTH, tested=PYTHON, flood=True),
    Attack("300 invocations at once", "200, 429 with Retry-After", crowd, PYTHON, flood=True),
    Attack("runs that wait for a worker", "200 or 429, never a deadline", wait_for_workers, PYTHON, flood=True, once=True),
    Attack("metadata that no node stores", "201 or 422, no node blamed", unstorable_metadata, BOTH, tested=PYTHON),
    Attack("metadata of 4097 bytes", "422 storlet.limit.metadata", large_metadata, BOTH),
    Attack("metadata that forges headers", "200 or 422, no forged header", forged_metadata, BOTH),
    Attack("metadata flood behind the interface", "422 or 503", ends("metadata_flood", FAILED, "422 storlet.limit.metadata", "503 sandbox.unavailable"), PYTHON),
    Attack("log flood", "200, the log bounded", log_flood, BOTH),
    Attack("10,000 log lines with terminal escapes", "200 and 422, no escape in the operator's log", log_escapes, BOTH),
    Attack("a traceback of 8 MiB", FAILED, ends("huge_traceback", FAILED), PYTHON),
    Attack("zip bomb, parsed in memory", "422 memory or first byte", parses("unzip", ZIP_BOMB, MEMORY, FIRST_BYTE), BOTH, tested=PYTHON),
    Attack("zip bomb, parsed as a stream", BROKEN, parses("unzip_stream", ZIP_BOMB, BROKEN, headers=LITTLE), BOTH, tested=PYTHON),
    Attack("XML bomb", "422 failed or memory", parses("parse_xml", LAUGHS, FAILED, MEMORY, FIRST_BYTE), BOTH, tested=PYTHON),
    Attack("XML that reads files", "nothing of process 1", parses("parse_xml", OUTSIDE, FAILED), BOTH),
)  # fmt: skip
