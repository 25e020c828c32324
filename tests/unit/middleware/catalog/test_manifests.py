"""Manifests of storlets and dependencies: which are accepted, and all faults of the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_middleware import names
from storlet_middleware.catalog.manifests import (
    ContentTypes,
    DependencyManifest,
    Manifest,
    ManifestError,
    file_name_faults,
    read_dependency,
    read_storlet,
    read_types,
    records_faults,
)

META = "X-Object-Meta-Storlet-"
LANGUAGES = {"python": ("3.11", "3.12"), "java": ("17",), "native": ("1",)}
COMMON = {"Interface-Version": "1.0", "Object-Metadata": "no"}
PYTHON = {**COMMON, "Language": "python", "Main": "up.Up"}
NATIVE = {**COMMON, "Language": "native", "Main": "up.sh"}
JAVA = {**COMMON, "Language": "java", "Main": "org.example.Up"}


def storlet(name: str, fields: dict[str, str]) -> Manifest:
    meta = {f"X-Object-Meta-Storlet-{key}": value for key, value in fields.items()}
    return read_storlet(name, meta, LANGUAGES)


def faults_of(name: str, fields: dict[str, str]) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        storlet(name, fields)
    return caught.value.faults


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("up.py", PYTHON, Manifest("python", "up.Up")),
        ("up.py", {**PYTHON, "Language": " PYTHON "}, Manifest("python", "up.Up")),
        ("größe.py", {**PYTHON, "Main": "größe.Größe"}, Manifest("python", "größe.Größe")),
        (
            "up.py",
            {**PYTHON, "Language-Version": "3.12", "Dependency": "a.txt, b.txt,"},
            Manifest("python", "up.Up", ("a.txt", "b.txt"), "3.12"),
        ),
        (
            "up.py",
            {**PYTHON, "Language-Version": "3"},
            Manifest("python", "up.Up", language_version="3"),
        ),
        ("up-1.0.jar", JAVA, Manifest("java", "org.example.Up")),
        # Only Python storlets have a version of their language.
        ("up-1.0.jar", {**JAVA, "Language-Version": "11"}, Manifest("java", "org.example.Up")),
        (
            "up-1.0.jar",
            {**JAVA, "Main": "org.example.Up$Inner"},
            Manifest("java", "org.example.Up$Inner"),
        ),
        ("up.py", {**PYTHON, "Input": "Seekable"}, Manifest("python", "up.Up", seekable=True)),
        ("up.py", {**PYTHON, "Ranges": "True"}, Manifest("python", "up.Up", ranges=True)),
        ("up.py", {**PYTHON, "Ranges": "false"}, Manifest("python", "up.Up")),
        ("up.sh", NATIVE, Manifest("native", "up.sh")),
        ("up.so", {**NATIVE, "Main": "up.so:run"}, Manifest("native", "up.so:run")),
        ("a.b", {**NATIVE, "Dependency": "up.sh"}, Manifest("native", "up.sh", ("up.sh",))),
        (
            "up.sh",
            {**NATIVE, "Arguments": "-9 's/a b/$c/' ''"},
            Manifest("native", "up.sh", arguments=("-9", "s/a b/$c/", "")),
        ),
    ],
)
def test_a_valid_manifest_is_read(name: str, fields: dict[str, str], expected: Manifest) -> None:
    assert storlet(name, fields) == expected


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"Main": "down"}, "'down': want the name of the storlet or of a dependency: one of up.sh"),
        ({"Main": "down.so:run", "Dependency": "a,b"}, "one of up.sh, a, b"),
        ({"Main": "../up"}, "Main is incorrect: want the file of a program"),
        ({"Main": "up:1st"}, "Main is incorrect: want the file of a program"),
        ({"Arguments": "-e 's/a/b/"}, "want words as in a shell: no closing quotation"),
        ({"Arguments": "x " * 129}, "want at most 128 words"),
        ({"Ranges": "true"}, "a program has no seekable inputs: use a shared object, with Main"),
        ({"Input": "seekable"}, "a program has no seekable inputs: use a shared object, with Main"),
    ],
)
def test_a_fault_of_a_native_manifest_is_named(changes: dict[str, str], fault: str) -> None:
    assert any(fault in text for text in faults_of("up.sh", {**NATIVE, **changes}))


def test_a_shared_object_has_services_and_a_program_has_none() -> None:
    shared = storlet("up.so", {**NATIVE, "Main": "up.so:run", "Services": "list, read"})
    assert shared.services == ("read", "list")
    assert storlet("up.so", {**NATIVE, "Main": "up.so:run", "Input": "seekable"}).seekable
    (text,) = faults_of("up.sh", {**NATIVE, "Services": "read"})
    assert text == (
        "X-Object-Meta-Storlet-Services: 'read': a program has no services: use a shared object,"
        " with Main <file>:<function>"
    )


def test_only_programs_have_arguments() -> None:
    (text,) = faults_of("up.py", {**PYTHON, "Arguments": "-9"})
    assert text.endswith("only native storlets have arguments")


@pytest.mark.parametrize(
    ("name", "changes", "fault"),
    [
        ("up.py", {"Language": "perl"}, "Unsupported Language: perl"),
        ("up.py", {"Language-Version": "3.x"}, "Language-Version is invalid"),
        ("up.py", {"Language-Version": "2.7"}, "Not supported version specified"),
        ("up.py", {"Main": "other.Up"}, "Main class should be included in storlet file"),
        ("up.py", {"Main": "up"}, "Main class should be included in storlet file"),
        ("up.py", {"Main": "up.sub.Up"}, "Submodule is currently not supported"),
        ("up.py", {"Main": "up.1Up"}, "want module.Class"),
        ("up.py", {"Main": "up.Up; import os"}, "want module.Class"),
        ("up.txt", {}, "a Python storlet is a .py file"),
        ("up.py", {"Dependency": "up.py"}, "same name for storlet and dependency"),
        ("up.py", {"Dependency": "a,a"}, "Duplicated name in dependencies"),
        ("up.py", {"Dependency": "../a"}, "Dependency name '../a' is not a plain file name"),
        ("up.jar", {**JAVA, "Main": "Up"}, "a Java storlet is named"),
        ("up-1.jar", {**JAVA, "Main": "org..Up"}, "want the full name of a class"),
        ("up.py", {"Memory": "much"}, "Memory"),
    ],
)
def test_a_fault_is_named(name: str, changes: dict[str, str], fault: str) -> None:
    (found,) = faults_of(name, {**PYTHON, **changes})
    assert fault in found


#: Keys of a storlet's metadata with wrong values.
WRONG_VALUES = [
    ("Language", "perl"),
    ("Language-Version", "3.x"),
    ("Language-Version", "2.7"),
    ("Main", "other.Up"),
    ("Main", "up.sub.Up"),
    ("Main", "up.1Up"),
    ("Dependency", "up.py"),
    ("Dependency", "../a"),
    ("Arguments", "-9"),
    ("Input-Type", "csv"),
    ("Output-Type", "text/*"),
    ("Services", "lst"),
    ("Secrets", "Api_Token"),
    ("Input", "seekble"),
    ("Ranges", "bytes"),
    ("Memory", "much"),
]


@pytest.mark.parametrize(("key", "value"), WRONG_VALUES)
def test_a_fault_names_the_key_and_quotes_its_value(key: str, value: str) -> None:
    (found,) = faults_of("up.py", {**PYTHON, key: value})
    assert found.startswith(f"{META}{key}: ")
    assert repr(value) in found


def test_each_key_that_is_interpreted_has_a_wrong_value_here() -> None:
    known = {row.name for row in names.TABLE if row.scope is names.Scope.STORLET}
    checked = {META + key for key, _ in WRONG_VALUES}
    # A wrong wish for records is refused at an upload, and ignored later.
    assert known - checked == {
        names.META_INTERFACE_VERSION,
        names.META_OBJECT_METADATA,
        names.META_RECORDS,
    }


def test_a_wrong_wish_for_records_is_a_fault_of_the_upload_only() -> None:
    meta = {**PYTHON, "Records": "failure"}
    assert storlet("up.py", meta).records == "failure"
    (found,) = records_faults({META + "Records": "failure"})
    assert found == (
        "X-Object-Meta-Storlet-Records: 'failure': want all, failures, none; did you mean failures?"
    )
    assert records_faults({META + "Records": " ALL "}) == records_faults({}) == []


def test_all_faults_are_reported_at_once() -> None:
    faults = faults_of("../up.txt", {"Language": "python", "Language-Version": "x", "Main": ""})
    assert len(faults) == 6
    assert "; ".join(faults) == str(ManifestError(faults))
    missing = [f.split(": ")[1:] for f in faults if f.startswith("Mandatory parameter")]
    assert missing == [
        [name, f"send the header X-Object-Meta-Storlet-{name}"]
        for name in ("Interface-Version", "Object-Metadata", "Main")
    ]


@given(st.text(max_size=300))
def test_a_name_without_faults_is_a_file_of_the_directory(name: str) -> None:
    if file_name_faults(name, "Storlet"):
        return
    assert name not in ("", ".", "..")
    assert not set("/:,\0\n") & set(name)
    assert not name.startswith((".", "-"))
    assert len(name.encode("utf-8", "replace")) <= 255


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".a", "-a", "a/b", "a\nb", "a\x7f", "a:b", "a,b", "a" * 256, "é" * 128]
)
def test_names_that_leave_the_directory_or_confuse_tools_have_faults(name: str) -> None:
    assert file_name_faults(name, "Storlet")


@pytest.mark.parametrize(
    ("given", "permissions"),
    [("", 0o600), ("0600", 0o600), ("700", 0o700), ("0o755", 0o700), ("0666", 0o600)],
)
def test_a_dependency_keeps_the_owners_permissions(given: str, permissions: int) -> None:
    meta = {
        "x-object-meta-storlet-dependency-version": "1.0",
        "X-Object-Meta-Storlet-Dependency-Permissions": given,
    }
    assert read_dependency("a.txt", meta) == DependencyManifest("1.0", permissions)


@pytest.mark.parametrize(
    ("version", "permissions", "faults"),
    [
        ("", "", ["Mandatory parameter is missing: Dependency-Version"]),
        ("1", "0800", ["Dependency permission is incorrect: want octal digits"]),
        ("1", "rwx", ["Dependency permission is incorrect: want octal digits"]),
        ("1", "0400", ["The owner should have rw permission"]),
        ("", "0077", ["Mandatory parameter is missing", "The owner should have rw permission"]),
    ],
)
def test_all_faults_of_a_dependency_are_reported(
    version: str, permissions: str, faults: list[str]
) -> None:
    meta = {
        "X-Object-Meta-Storlet-Dependency-Version": version,
        "X-Object-Meta-Storlet-Dependency-Permissions": permissions,
    }
    with pytest.raises(ManifestError) as caught:
        read_dependency("a.txt", meta)
    assert len(caught.value.faults) == len(faults)
    for found, part in zip(caught.value.faults, faults, strict=True):
        assert part in found
        assert "X-Object-Meta-Storlet-Dependency-" in found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ContentTypes()),
        ({META + "Input-Type": " ", META + "Output-Type": ""}, ContentTypes()),
        (
            {META.lower() + "input-type": "Text/CSV, image/*,", META + "Output-Type": " Image/PNG "},
            ContentTypes(("text/csv", "image/*"), "image/png"),
        ),
        ({META + "Input-Type": "*/*"}, ContentTypes(("*/*",))),
        ({META + "Output-Type": "application/vnd.a+json"}, ContentTypes((), "application/vnd.a+json")),
    ],
)  # fmt: skip
def test_declared_content_types_are_read(given: dict[str, str], expected: ContentTypes) -> None:
    assert read_types(given) == (expected, [])


@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        ("Input-Type", "text/csv, csv", "'csv'"),
        ("Input-Type", "text/csv; charset=utf-8", "'text/csv; charset=utf-8'"),
        ("Input-Type", "*/csv", "'*/csv'"),
        ("Output-Type", "text/*", "'text/*'"),
        ("Output-Type", "text/csv, text/plain", "'text/csv, text/plain'"),
    ],
)
def test_a_wrong_content_type_is_named_with_its_key(key: str, value: str, wrong: str) -> None:
    (fault,) = faults_of("up.py", {**PYTHON, key: value})
    assert fault.startswith(f"X-Object-Meta-Storlet-{key}: {wrong}: want")
    assert read_types({META + key: value})[0] == ContentTypes()


def test_a_storlet_declares_its_secrets_once_each() -> None:
    assert storlet("up.py", {**PYTHON, "Secrets": "b-1, a,b-1"}).secrets == ("b-1", "a")
    assert storlet("up-1.jar", {**JAVA, "Main": "Up", "Secrets": "a"}).secrets == ("a",)
    assert storlet("up.sh", {**NATIVE, "Secrets": "a"}).secrets == ("a",)
    assert storlet("up.py", PYTHON).secrets == ()


@pytest.mark.parametrize(
    ("name", "fields", "fault"),
    [
        ("up.py", {**PYTHON, "Secrets": "a, Api_Token"}, "'Api_Token': want the name of a secret"),
        ("up.py", {**PYTHON, "Secrets": ",".join("abcdefghi")}, "want at most 8 names"),
    ],
)
def test_a_wrong_declaration_of_secrets_is_named(
    name: str, fields: dict[str, str], fault: str
) -> None:
    (text,) = faults_of(name, fields)
    assert text.startswith("X-Object-Meta-Storlet-Secrets: ")
    assert fault in text
