"""The table of languages: one row and a folder of templates make a new one known to the client."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storlet_client.builder import template
from storlet_client.bundle import languages
from storlet_client.bundle.languages import Form
from storlet_daemon.runtimes import table

ROOT = Path(__file__).parents[4]
SCHEMA = ROOT / "storlet_client/bundle/manifest.schema.json"
TEMPLATES = ROOT / "storlet_client/builder/templates"

ROW = """\
    Language(
        name="cobol",
        title="COBOL",
        form=Form.MODULES,
        keys=("requirements",),
        suffix=".cbl",
        main=re.compile("[a-z]+[.][A-Z]+"),
        main_rule="program.PARAGRAPH",
    ),
"""

#: A program that prints, as JSON, how the client with this row behaves.
REPORT = """
import json, sys, zipfile
from pathlib import Path
from storlet_client.builder import bundler, plain, project, template, wheels
from storlet_client.bundle import manifest
from storlet_client.cli.main import main
from storlet_client.errors import ConfigurationError
from storlet_client.operations import language_of

MANIFEST = {"name": "pay", "version": "1", "language": "cobol", "main": "pay.MAIN"}

def faults(**more):
    return [str(fault) for fault in manifest.faults_of({**MANIFEST, **more})]

def refused(call, *arguments):
    try:
        call(*arguments)
    except (ConfigurationError, project.ProjectError) as error:
        return error.faults

status = main(["init", "pay", "--language", "cobol"])
folder = Path("pay")
built = bundler.build(folder, Path("dist"), wheels.Sandbox("3.11", "x86_64"))
entry = folder / "src/pay.cbl"
entry.unlink()
(folder / "src/other").write_bytes(b"")
print(json.dumps({
    "init": status,
    "language": [language_of("pay.cbl"), language_of("pay.py"), language_of("pay")],
    "valid": faults(),
    "main": faults(main="PAY"),
    "key": faults(maven=["a:b:1"]) + faults(requirements=["x"]),
    "unknown": faults(language="fortran"),
    "shared key": faults(language="java", main="A", requirements=["x"]),
    "bundle": zipfile.ZipFile(built).namelist(),
    "without entry": refused(bundler.build, folder, Path("dist"), wheels.Sandbox("3.11", "x")),
    "plain": plain.language(None, "pay.cbl"),
    "plain unknown": refused(plain.entry_point, Path("pay"), "pay", "fortran", b""),
    "run": main(["run", "--help"]),
}))
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of a copy of the client with one more row; ``help`` is that of ``run``."""
    root = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("*.pyc", "java", "java_api", "dist", "build")
    package = root / "storlet_client"
    shutil.copytree(ROOT / "storlet_client", package, ignore=ignored)
    rows = package / "bundle/languages.py"
    text = rows.read_text()
    line = '    Language(\n        name="java",'
    assert text.count(line) == 1
    rows.write_text(text.replace(line, ROW + line))
    made = package / "builder/templates/cobol-filter"
    shutil.copytree(TEMPLATES / "python-filter", made)
    (made / "src/@module@.py.in").rename(made / "src/@module@.cbl.in")
    text = (made / "storlet.toml").read_text()
    text = text.replace('"python"', '"cobol"').replace("@module@.@Class@", "@module@.MAIN")
    (made / "storlet.toml").write_text(text)
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONSAFEPATH": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", REPORT],
        cwd=root, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *shown, last = done.stdout.splitlines()
    return {**json.loads(last), "help": "\n".join(shown)}


def test_one_row_makes_a_language_known_to_manifests(report: dict[str, Any]) -> None:
    assert report["valid"] == []
    assert report["main"] == ["main: 'PAY': want program.PARAGRAPH"]
    assert report["key"] == ["maven: is of java storlets only; the language is cobol"]
    assert report["unknown"] == ["language: 'fortran': want one of python, cobol, java, native"]
    assert report["shared key"] == [
        "requirements: is of python and cobol storlets only; the language is java"
    ]


def test_one_row_makes_a_language_known_to_the_builder(report: dict[str, Any]) -> None:
    assert "code/pay.cbl" in report["bundle"]
    assert "source/storlet.toml" in report["bundle"]
    assert report["without entry"] == ["main: code/pay.cbl is missing"]
    assert report["language"] == ["cobol", "python", ""]
    assert report["plain"] == "cobol"
    assert report["plain unknown"] == [
        "--language fortran: want python, cobol, java, native; of another language, add --main"
    ]


def test_one_row_makes_a_language_known_to_the_command(report: dict[str, Any]) -> None:
    assert (report["init"], report["run"]) == (0, 0)
    assert "[python|cobol|java|native]" in report["help"]


def test_the_published_schema_names_each_language() -> None:
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))["properties"]
    assert published["language"]["enum"] == list(languages.NAMES)
    assert {key for row in languages.LANGUAGES for key in row.keys} <= published.keys()


def test_each_language_has_each_template() -> None:
    found = sorted(path.name for path in TEMPLATES.iterdir())
    assert found == sorted(
        f"{name}-{kind}" for name in languages.NAMES for kind in template.kinds()
    )


def test_the_rows_agree_with_those_of_the_sandbox() -> None:
    assert tuple(row.name for row in table.LANGUAGES) == languages.NAMES
    for own, row in zip(languages.LANGUAGES, table.LANGUAGES, strict=True):
        assert own.title == row.title
        assert ("language-version" in own.keys) == row.has_version
        assert ("arguments" in own.keys) == row.has_arguments
        assert (own.form is Form.FILES) == row.main_is_file == (own.main is None)
        assert (own.form is Form.MODULES) == row.main_is_in_file
        assert not own.suffix or row.file_name.fullmatch(f"a-1{own.suffix}")


def test_no_other_module_of_client_and_bundles_compares_the_name_of_a_language() -> None:
    """``java`` as a word of a command or a suffix is none."""
    names = "|".join(languages.NAMES)
    paths = [*(ROOT / "storlet_client").rglob("*.py"), *(ROOT / "storlet_middleware").rglob("*.py")]
    pattern = re.compile(rf"(?:[=!]= |in [(\[{{]|Choice\([(\[])\"(?:{names})\"")
    found = {str(path.relative_to(ROOT)) for path in paths if pattern.search(path.read_text())}
    assert found == set()
