"""The reference pages agree with the tables, and one row is all that a new thing needs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware import reference

ROOT = Path(__file__).parents[3]
PACKAGES = ("storlet_middleware", "storlet_daemon", "rules")

#: A file, a line of it, and the one row that is added above that line.
ROWS = [
    (
        "storlet_middleware/config/sections.py",
        "    invocations: int = option(",
        '    bogus: int = option(COUNT, "7", "made-up option", least=2)\n',
    ),
    (
        "storlet_middleware/config/sections.py",
        "    open_files: int = option(",
        '    bogus_bytes: int = option(BYTES, "9M", "", least=16, limit=Limit("Bogus", "made-up"))\n',
    ),
    (
        "storlet_middleware/errors.py",
        "INTERNAL: Final = _code(",
        'BOGUS: Final = _later("bogus.busy", 503, Blame.OPERATOR, 42, help="made-up error")\n',
    ),
    (
        "storlet_daemon/protocol/messages/services.py",
        "    SERVICE_CHANGED: ",
        '    "services.bogus": "made-up code of services",\n',
    ),
    (
        "storlet_middleware/names.py",
        "EXTRA_RESOURCES: Final = _header(",
        'BOGUS: Final = _header("X-Storlet-Bogus", Scope.RUN, "number", "made-up header")\n',
    ),
    (
        "storlet_middleware/metrics.py",
        "_CACHE_HIT = _counter(",
        '_BOGUS = _counter("storlet.bogus.<verb>", "engine", "made-up metric")\n',
    ),
    (
        "storlet_daemon/runtimes/table.py",
        '    Language(\n        name="java",',
        """\
    Language(
        name="cobol",
        title="COBOL",
        versions=("2014", "2023"),
        workers_max=3,
        file_name=re.compile(r".*\\.cob"),
        file_rule="a COBOL storlet is a .cob file",
        main=re.compile(r"[A-Z-]+"),
        main_rule="the name of a program",
        worker_cost=Cost(tasks=1, memory_bytes=4 * MIB),
        worker_share=Cost(tasks=1, memory_bytes=8 * MIB),
        paths={"compiler": PathOption("cobol", "/usr/bin/cobc", "the COBOL compiler")},
        packages=("gnucobol",),
        runtime=_python,
        least_limits=Resources(memory_bytes=32 * MIB),
        has_version=True,
    ),
""",
    ),
    (
        "storlet_middleware/bundle/languages.py",
        '    Language(\n        name="java",',
        """\
    Language(
        name="cobol",
        title="COBOL",
        form=Form.JARS,
        keys=("language-version",),
        main=re.compile("[A-Z]+"),
        main_rule="the name of a program",
    ),
""",
    ),
]

#: A program that writes the files made from the tables, and prints, as JSON, how the packages with
#: these rows behave.
REPORT = """
import json
import types
from storlet_middleware import config, errors, metrics, names, reference
from storlet_middleware.bundle import manifest as bundle_manifest
from storlet_middleware.catalog import bundle_check
from storlet_middleware.catalog.manifests import ManifestError, read_storlet
from storlet_middleware import filter as storlet_filter
from storlet_middleware.engine import limits
from storlet_middleware.sandboxd import checks
from storlet_middleware.sandboxd.sandbox.worker_groups import WorkerGroups
from storlet_daemon.protocol.messages import Storlet
from storlet_daemon.runtimes.table import path_options
from storlet_middleware.wsgi.storlet_request import unknown_header_faults

def faults(text):
    try:
        config.parse(text)
    except config.ConfigError as error:
        return str(error)

def manifest(**limit):
    meta = {"X-Object-Meta-Storlet-Language": "python", "X-Object-Meta-Storlet-Main": "a.A",
            "X-Object-Meta-Storlet-Interface-Version": "1",
            "X-Object-Meta-Storlet-Object-Metadata": "no"}
    meta |= {"X-Object-Meta-Storlet-" + name: value for name, value in limit.items()}
    try:
        return dict(read_storlet("a.py", meta, {"python": ("3.11",)}).limits)
    except ManifestError as error:
        return error.faults

def cobol(name="payroll.cob", main="PAYROLL", **more):
    meta = {"X-Object-Meta-Storlet-Language": "cobol", "X-Object-Meta-Storlet-Main": main,
            "X-Object-Meta-Storlet-Interface-Version": "1",
            "X-Object-Meta-Storlet-Object-Metadata": "no"}
    meta |= {"X-Object-Meta-Storlet-" + key.replace("_", "-"): text for key, text in more.items()}
    try:
        read = read_storlet(name, meta, config.parse("").storlet.languages)
    except ManifestError as error:
        return error.faults
    return [read.language, read.language_version, read.main]

def bundle(**more):
    given = {"name": "payroll", "version": "1", "language": "cobol", "main": "PAYROLL", **more}
    faults = [str(fault) for fault in bundle_manifest.faults_of(given)]
    document = bundle_manifest.normal(given)
    faults += bundle_check.faults_here(config.parse(""), "AUTH_a", "payroll", document)
    facts = bundle_check.facts_of({"manifest": document, "archives": ["payroll.jar"]})
    return [faults, facts["language"], facts["archives"]]

def command(node):
    groups = WorkerGroups.__new__(WorkerGroups)
    groups._node = types.SimpleNamespace(config=node)
    storlet = Storlet(version="0" * 64, code="0" * 64, language="cobol", main="PAYROLL",
                      file="payroll.cob", name="payroll.cob", language_version="2023")
    checks.check_storlet("AUTH_a", storlet, node.storlet.languages)
    return groups._load_command(storlet, 1)

reference.main(["--write"])
info = []
storlet_filter.register_swift_info = lambda name, **what: info.append(what)
storlet_filter._publish_info(config.parse(""))
user = config.parse("[class:user]\\nbogus_bytes = 1M").classes["user"]
error = errors.from_code("bogus.busy", "text")
print(json.dumps({
    "default": config.parse("").admission.bogus,
    "read": config.parse("[admission]\\nbogus = 3").admission.bogus,
    "too little": faults("[admission]\\nbogus = 1"),
    "unreadable": faults("[admission]\\nbogus = x"),
    "misspelt": faults("[admission]\\nbogu = 3"),
    "class": user.limits.bogus_bytes,
    "class raised": faults("[class:user]\\nbogus_bytes = 1G"),
    "info": limits.published(user)["bogus_bytes"],
    "declared": manifest(Bogus="64K"),
    "declared too little": manifest(Bogus="1"),
    "requested": limits.requested({"X-Storlet-Limit-Bogus": "64K"}),
    "requested too much": limits.above_maximum({"Bogus": 1 << 30}, names.LIMIT_PREFIX, user),
    "in force": limits.in_force(user, {"Bogus": 1 << 16}, {})["bogus"],
    "error": [type(error).__name__, error.code, error.status, error.retry_after],
    "raised": errors.StorletError("text", code=errors.BOGUS).status,
    "header": unknown_header_faults(["X-Storlet-Bogus"], names.CLIENT_HEADERS, "unknown header"),
    "header misspelt": unknown_header_faults(["X-Storlet-Bogu"], names.CLIENT_HEADERS, "unknown header"),
    "languages": config.parse("").storlet.languages,
    "language read": config.parse("[storlet]\\nlanguages = cobol:2014").storlet.languages,
    "language refused": faults("[storlet]\\nlanguages = fortran:77"),
    "workers": dict(config.parse("[invocation]\\nworkers_cobol = 7").invocation.workers),
    "workers refused": faults("[invocation]\\nworkers_cobol = 0"),
    "workers in a load": [
        command(config.parse(text)).workers_max
        for text in ("", "[invocation]\\nworkers_cobol = 7")
    ],
    "cobol": [cobol(), cobol(Language_Version="2014"), cobol(Memory="32M")],
    "cobol file": cobol(name="payroll.py"),
    "cobol main": cobol(main="payroll"),
    "cobol version": cobol(Language_Version="1968"),
    "cobol limit": cobol(Memory="31M"),
    "bundle": bundle(),
    "bundle main": bundle(main="payroll")[0],
    "bundle version": bundle(**{"language-version": "3.11"})[0],
    "info languages": info[0]["languages"],
    "paths": [option.name for option in path_options()],
    "metric": metrics.TABLE["storlet.bogus.<verb>"].named(verb="GET"),
}))
"""


def test_the_reference_pages_and_the_sample_agree_with_the_tables() -> None:
    assert reference.outdated(ROOT) == [], "python3 -m storlet_middleware.reference --write"


def test_a_page_that_differs_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in reference.PAGES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    assert reference.outdated(tmp_path) == list(reference.PAGES)
    reference.write(tmp_path)
    assert reference.outdated(tmp_path) == []
    (tmp_path / "docs/reference/errors.rst").write_text("old")
    monkeypatch.setattr(reference, "outdated", lambda: ["docs/reference/errors.rst"])
    assert reference.main(["--check"]) == 1


@dataclass(frozen=True)
class Changed:
    """A copy of the packages with one made-up row of each kind; ``report`` is what it prints."""

    root: Path
    report: dict[str, Any]


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Changed:
    """The copy, with the files made from it."""
    root = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("*.pyc", "java", "std", "aio")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=ignored)
    for name, line, row in ROWS:
        path = root / name
        text = path.read_text()
        assert text.count(line) == 1, line
        path.write_text(text.replace(line, row + line))
    for name in reference.PAGES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, "-c", REPORT],
        cwd=root, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return Changed(root, json.loads(done.stdout.splitlines()[-1]))


def test_one_row_makes_a_new_thing_known_to_code_and_validation(changed: Changed) -> None:
    report = changed.report
    assert (report["default"], report["read"]) == (7, 3)
    assert "[admission] bogus: want at least 2" in report["too little"]
    assert "[admission] bogus = x: want a whole number" in report["unreadable"]
    assert "did you mean bogus?" in report["misspelt"]
    assert (report["class"], report["info"]) == (1 << 20, 1 << 20)
    assert "bogus_bytes is more than [limits] bogus_bytes" in report["class raised"]
    assert report["declared"] == {"Bogus": 65536}
    assert "less than 16 bytes" in report["declared too little"][0]
    assert report["requested"] == [{"Bogus": 65536}, []]
    assert report["requested too much"] == [
        "X-Storlet-Limit-Bogus: 1G is more than 1M, the most allowed here"
    ]
    assert report["in force"] == "64K"
    assert report["error"] == ["StorletError", "bogus.busy", 503, 42]
    assert report["raised"] == 503
    assert report["header"] == []
    assert "did you mean X-Storlet-Bogus?" in report["header misspelt"][0]
    assert report["metric"] == "storlet.bogus.GET"


def test_one_row_makes_a_language_known_to_code_and_validation(changed: Changed) -> None:
    report = changed.report
    versions = ["2014", "2023"]
    assert report["languages"] == {
        "python": ["3.11"],
        "cobol": versions,
        "java": ["17"],
        "native": ["1"],
    }
    assert report["language read"] == {"cobol": ["2014"]}
    assert "such as python:3.11, cobol:2014, java:17, native:1" in report["language refused"]
    assert report["workers"] == {"python": 8, "cobol": 7, "java": 4, "native": 8}
    assert "[invocation] workers_cobol: want at least 1" in report["workers refused"]
    assert report["workers in a load"] == [3, 7]
    assert report["cobol"] == [
        ["cobol", "", "PAYROLL"],
        ["cobol", "2014", "PAYROLL"],
        ["cobol", "", "PAYROLL"],
    ]
    assert report["cobol file"] == [
        "Storlet name is incorrect: 'payroll.py': a COBOL storlet is a .cob file"
    ]
    assert report["cobol main"] == [
        "X-Object-Meta-Storlet-Main: 'payroll': Main is incorrect: want the name of a program"
    ]
    (version,) = report["cobol version"]
    assert version.startswith("X-Object-Meta-Storlet-Language-Version: '1968': Not supported")
    assert version.endswith(": this cluster has COBOL 2014, 2023")
    assert report["cobol limit"] == [
        "X-Object-Meta-Storlet-Memory: 31M is less than 32M, the least for a cobol storlet"
    ]
    assert report["info languages"]["cobol"] == versions
    assert report["bundle"] == [[], "cobol", ["payroll.jar"]]
    assert report["bundle main"] == ["main: 'payroll': want the name of a program"]
    assert report["bundle version"] == ["language-version: '3.11': this cluster has 2014, 2023"]
    assert "cobol" in report["paths"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "etc/storlet.conf-sample",
            "# languages = python:3.11, cobol:2014/2023, java:17, native:1\n",
        ),
        (
            "etc/storlet.conf-sample",
            "# maximum of workers of one COBOL storlet in a sandbox\n# workers_cobol = 3\n",
        ),
        (
            "docs/reference/options.rst",
            "* - ``workers_cobol``\n     - whole number\n     - ``3``\n",
        ),
        ("docs/reference/limits.rst", "     - 16M; 32M for COBOL; 64M for Java\n"),
        ("docs/reference/headers.rst", "     - python | cobol | java | native\n"),
        ("docs/reference/headers.rst", "     - the version of Python or COBOL\n"),
        ("etc/storlet.conf-sample", "# made-up option\n# bogus = 7\n"),
        ("etc/storlet.conf-sample", "# bogus_bytes = 9M\n"),
        ("docs/reference/options.rst", "* - ``bogus``\n     - whole number\n     - ``7``\n"),
        ("docs/reference/options.rst", "made-up option (at least 2)\n"),
        (
            "docs/reference/limits.rst",
            "* - ``Bogus``\n     - ``bogus_bytes``\n     - 16 bytes\n     - made-up\n",
        ),
        (
            "docs/reference/errors.rst",
            "* - ``bogus.busy``\n     - 503\n     -\n     - operator\n     - after 42 s\n",
        ),
        ("docs/reference/errors.rst", "* - ``services.bogus``\n     - made-up code of services\n"),
        (
            "docs/reference/headers.rst",
            "* - ``X-Storlet-Bogus``\n     - number\n     - made-up header\n",
        ),
        (
            "docs/reference/metrics.rst",
            "* - ``storlet.bogus.<verb>``\n     - counter\n     -\n     - verb\n",
        ),
    ],
)
def test_one_row_makes_a_new_thing_documented(changed: Changed, name: str, text: str) -> None:
    assert text in (changed.root / name).read_text()
