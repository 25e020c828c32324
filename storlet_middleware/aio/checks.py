"""``make check`` and ``make test``."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from . import cache, java, native, packages, programs, sessions, venv
from .home import CHECKOUT
from .progress import AioError, say

SOURCES: Final = (
    "storlet_middleware",
    "storlet_daemon",
    "storlet_client",
    "rules",
    "tests",
    "setup.py",
)
TEXTS: Final = (
    "storlet_middleware",
    "storlet_daemon",
    "storlet_client",
    "rules",
    "sandbox_images",
    "storlets",
    "etc",
    "docs",
    "tests",
)
#: Checkers that run at the same time: each is a process that uses one processor.
AT_ONCE: Final = 2
#: The checker that runs unit tests in workers, so it runs when the others have ended.  The last
#: line of its output is part of the table.
COVERAGE: Final = "coverage"
SHELL: Final = ("*.sh", ".ci/run")
#: Maven runs for seconds, in which the optimizing compiler of its JVM would use half of the
#: processor time.
MAVEN: Final = "-XX:TieredStopAtLevel=1"
#: Arguments of pytest for a module at a time in each of four workers: tests wait for servers,
#: sandboxes and deadlines, so fewer workers leave processors idle.  Three of the workers have a
#: cluster (``tests/support/scheduling.py``).
WORKERS: Final = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder")
#: Folders whose tests need no cluster, and run in workers also where they are chosen.
WITHOUT_CLUSTER: Final = ("tests/unit", "tests/library")
#: First the tests that may run beside others, then those that need the machine for themselves.
#: All tests with the marker ``alone`` are probes: the collection of all others would take longer
#: than some of them.
ALONE: Final = ("tests/probe", "-m", "alone")
SESSIONS: Final = ((*WORKERS, "-m", "not alone"), ALONE)
#: The same without the tests that the checker ``coverage`` runs.
SESSIONS_AFTER_CHECK: Final = (
    (*WORKERS, "-m", "not alone and (hypothesis or untraced or not unit)"),
    ALONE,
)


def check(only: Sequence[str] = (), skip: Sequence[str] = ()) -> int:
    """Run the checkers (all, or ``only`` those), also after one has failed; the number of failures.

    Two run at the same time.  ``coverage`` runs after them: it takes longer than all others
    together, and uses all processors.
    """
    log = cache.cache_root() / "check.log"
    packages.install([packages.PYTHON], log)
    tools = venv.tools(log)
    checkers = dict(commands(tools))
    unknown = {*only, *skip} - set(checkers)
    if unknown:
        raise AioError(f"no checker {', '.join(sorted(unknown))}; there are {', '.join(checkers)}")
    chosen = [name for name in checkers if name not in skip and (not only or name in only)]
    environment, faults = _environment(tools), []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {
            name: pool.submit(_run, checkers[name], environment)
            for name in chosen
            if name != COVERAGE
        }
        for name in chosen:
            ended = running[name].result() if name in running else _run(checkers[name], environment)
            if not _passes(name, *ended):
                faults.append(name)
    say(f"check: {', '.join(faults)} complained" if faults else "check: all fine")
    return len(faults)


def commands(tools: Path) -> list[tuple[str, list[str]]]:
    """Name and words of each checker."""
    python = str(tools / "bin/python3")
    run = [python, "-m"]
    scratch = str(cache.cache_root() / "docs")
    texts = [name for name in TEXTS if (CHECKOUT / name).exists()]
    texts += sorted(path.name for path in CHECKOUT.glob("*.rst"))
    return [
        ("ruff-check", [*run, "ruff", "check", "--quiet", "."]),
        ("ruff-format", [*run, "ruff", "format", "--quiet", "--check", "."]),
        ("mypy", [*run, "mypy"]),
        ("import-linter", [str(tools / "bin/lint-imports"), "--no-cache"]),
        ("codespell", [*run, "codespell_lib", *texts]),
        (
            "docs",
            [*run, "sphinx", "-q", "-W", "--keep-going", "-d", scratch, "docs", f"{scratch}/html"],
        ),
        ("shellcheck", [str(tools / "bin/shellcheck"), *shell_scripts()]),
        ("prose", [*run, "tests.prose"]),
        ("news", [*run, "towncrier", "build", "--draft", "--version", "next"]),
        ("coverage", [*run, "tests.coverage"]),
    ]


def shell_scripts() -> list[str]:
    """Ours: no build output, nothing of a cluster."""
    found = {path for pattern in SHELL for path in CHECKOUT.glob(f"**/{pattern}")}
    ours = [path.relative_to(CHECKOUT) for path in found]
    left_out = {"target", ".aio", ".git"}
    return sorted(
        str(p)
        for p in ours
        if not left_out & set(p.parts) and not p.is_relative_to("tests/conformance/code")
    )


def test(arguments: Sequence[str]) -> int:
    """Run pytest with ``arguments``, or all tests in the sessions of :data:`SESSIONS`; 0 if each of
    them passed.

    If all arguments are folders of tests that need no cluster, workers run their modules.

    Fixtures bring up the clusters.  With ``STORLETS_AFTER_CHECK``, the tests are left out that the
    checker ``coverage`` of the same job has run.  Failed tests are repeated once
    (:mod:`.sessions`), by default only when all tests run.
    """
    log = cache.cache_root() / "test.log"
    needs = [packages.PYTHON, packages.CURL, packages.TMUX]
    needs += [packages.JDK, packages.MAVEN, packages.GCC] if java.SCRIPT.exists() else []
    if native.SCRIPT.exists():
        needs += [packages.GCC, packages.JANSSON, packages.JQ, *packages.TOOLCHAINS]
    packages.install(needs, log)
    tools = venv.tools(log)
    pytest = [str(tools / "bin/python3"), "-m", "pytest", "-p", "no:cacheprovider"]
    complete = SESSIONS_AFTER_CHECK if os.environ.get("STORLETS_AFTER_CHECK") else SESSIONS
    return sessions.run(
        pytest,
        [_with_workers(arguments)] if arguments else complete,
        _environment(tools),
        repeat=sessions.is_repeat_on(default=not arguments),
    )


def _with_workers(arguments: Sequence[str]) -> Sequence[str]:
    """Folders of tests that need no cluster, and nothing else, are run in workers."""
    is_folder = [
        (CHECKOUT / each).is_dir() and each.startswith(WITHOUT_CLUSTER) for each in arguments
    ]
    return (*WORKERS, *arguments) if all(is_folder) else arguments


def _run(
    command: list[str], environment: Mapping[str, str]
) -> tuple[subprocess.CompletedProcess[bytes], float]:
    """A checker that has ended, with its output, and the seconds that it took."""
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    return done, time.monotonic() - began


def _passes(name: str, done: subprocess.CompletedProcess[bytes], seconds: float) -> bool:
    """Print the row of a checker, and its output if it complains."""
    output = done.stdout.decode(errors="replace").rstrip()
    result = "ok" if done.returncode == 0 else "COMPLAINS"
    figures = output.rpartition("\n")[2] if name == COVERAGE else ""
    say(f"{name:14} {result:9} {seconds:5.1f} s  {figures}".rstrip())
    # A repeated test that passed must be seen, although it is no failure.
    if done.returncode or f"\n{sessions.MARK}" in output:
        say(output)
    return done.returncode == 0


def _environment(tools: Path) -> dict[str, str]:
    """The tools first on the path; byte code in the cache; Maven without an optimizing compiler;
    eventlet without a resolver.

    Without byte code each worker and each process of a test compiles all that it imports.
    """
    path = f"{tools / 'bin'}:{os.environ.get('PATH', '')}"
    bytecode = cache.made("bytecode", cache.digest([str(tools)]), lambda _place: None)
    ours = {"PATH": path, "PYTHONPATH": str(CHECKOUT), "PYTHONPYCACHEPREFIX": str(bytecode)}
    other = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {"MAVEN_OPTS": MAVEN} | programs.SWIFT_ENV | other | ours
