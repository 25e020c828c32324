"""The languages that a sandbox runs, one row each.

The options of ``storlet.conf``, the checks of manifests, the least limits, ``/info``, the workers
of sandboxd and the reference pages are made from these rows. Importing the table imports no
runtime, so that processes beside Swift can read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from storlet_daemon.budget import MIB, Cost
from storlet_daemon.protocol.messages import Resources
from storlet_daemon.runtimes.language import CODE_ROOT, ImagePaths, Language, PathOption, Runtime


def _python(language: Language, paths: ImagePaths) -> Runtime:
    from storlet_daemon.runtimes.python.runtime import PythonRuntime  # noqa: PLC0415  see above

    return PythonRuntime(language, paths)


def _java(language: Language, paths: ImagePaths) -> Runtime:
    from storlet_daemon.runtimes.java.runtime import JavaRuntime  # noqa: PLC0415  see above

    return JavaRuntime(language, paths)


def _native(language: Language, paths: ImagePaths) -> Runtime:
    from storlet_daemon.runtimes.native.runtime import NativeRuntime  # noqa: PLC0415  see above

    return NativeRuntime(language, paths)


API_VERSION = "1.0"
"""The version of what storlets of all languages see; manifests of bundles name a range of it."""

LANGUAGES: tuple[Language, ...] = (
    Language(
        name="python",
        title="Python",
        versions=("3.11",),
        workers_max=8,
        file_name=re.compile(r".*\.py", re.DOTALL),
        file_rule="a Python storlet is a .py file",
        main=re.compile(r"[^\W\d]\w*\.[^\W\d]\w*"),
        main_rule="module.Class, with the module of the storlet's file",
        worker_cost=Cost(tasks=2, memory_bytes=16 * MIB),
        worker_share=Cost(tasks=4, memory_bytes=32 * MIB),
        paths={"interpreters": PathOption("python-dir", "/usr/bin", "where python3.x are")},
        packages=("python3",),
        runtime=_python,
        main_is_in_file=True,
        has_version=True,
        has_services=True,
        has_secrets=True,
        has_seekable_inputs=True,
    ),
    Language(
        name="java",
        title="Java",
        versions=("17",),
        workers_max=4,
        file_name=re.compile(r"(?=.*-).*\..*", re.DOTALL),
        file_rule="a Java storlet is named <name>-<version>.jar",
        main=re.compile(r"[^\W\d][\w$]*(\.[^\W\d][\w$]*)*"),
        main_rule="the full name of a class",
        worker_cost=Cost(tasks=20, memory_bytes=48 * MIB),
        worker_share=Cost(tasks=32, memory_bytes=128 * MIB),
        paths={
            "java": PathOption("java", "/usr/bin/java", "the java launcher"),
            "library": PathOption(
                "java-home-dir", "/usr/local/lib/storlets/java", "the worker's jars and library"
            ),
        },
        packages=("openjdk-17-jre-headless",),
        runtime=_java,
        has_services=True,
        has_secrets=True,
        least_limits=Resources(memory_bytes=64 * MIB, processes=48, scratch_bytes=1 * MIB),
        has_seekable_inputs=True,
    ),
    Language(
        name="native",
        title="Native",
        versions=("1",),
        workers_max=8,
        # Names without a dot are those of bundles.
        file_name=re.compile(r".*\..*", re.DOTALL),
        file_rule="the name of a native storlet has a dot, such as sum.bin or sum.so",
        main=re.compile(r"[A-Za-z0-9_][\w.+@-]*(:[A-Za-z_]\w*)?", re.ASCII),
        main_rule="the file of a program, or <shared object>:<function>",
        # The worker, and a small program that it runs.
        worker_cost=Cost(tasks=2, memory_bytes=4 * MIB),
        worker_share=Cost(tasks=2, memory_bytes=8 * MIB),
        paths={
            "worker": PathOption(
                "native-worker",
                "/usr/local/lib/storlets/native/storlet-worker",
                "the native worker",
            )
        },
        packages=(),
        runtime=_native,
        main_is_file=True,
        has_arguments=True,
        has_services=True,
        has_secrets=True,
        has_seekable_inputs=True,
        full_form=re.compile(r".*:.*", re.DOTALL),
        full_form_rule="a program has no {}: use a shared object, with Main <file>:<function>",
    ),
)


def language(name: str) -> Language | None:
    """The row of the language that manifests call ``name``."""
    return next((row for row in LANGUAGES if row.name == name), None)


def path_options() -> list[PathOption]:
    """Every path of the image that can be changed."""
    return [CODE_ROOT, *(option for row in LANGUAGES for option in row.paths.values())]


def runtimes(paths: ImagePaths) -> Mapping[str, Runtime]:
    """The runtime of each language, by the name that manifests use."""
    return {row.name: row.runtime(row, paths) for row in LANGUAGES}
