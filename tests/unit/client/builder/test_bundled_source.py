"""The source of projects in their bundles: read, built again, and each file once."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from storlet_client.builder import bundled_source, bundler, project, template
from storlet_client.builder.bundled_source import files_of, unpack
from storlet_client.builder.project import ProjectError
from storlet_client.builder.wheels import Sandbox
from storlet_client.bundle import archive
from tests.unit.client.builder.projects import make, make_wheel

NATIVE = """\
name = "fruit"
version = "1"
language = "native"
main = "fruit.sh"
build = ["sh", "make.sh"]
files = ["out/fruit.sh", "run.sh", "target/tool"]

[[tests]]
name = "small"
input = "small.txt"
output = "small.out"

[[tests]]
name = "large"
input = "large.txt"
output = "large.out"
upload = false
"""
MAKE = """\
mkdir -p out build target
printf '#!/bin/sh\\ncat\\n' > out/fruit.sh
chmod 755 out/fruit.sh
date +%N > build/time
printf '\\177ELF' > lib/tool
echo made > lib/made.log
cp lib/tool target/tool
"""


def write(folder: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def native(tmp_path: Path) -> Path:
    """A project whose build makes a script, with files that are no source."""
    folder = tmp_path / "fruit"
    write(folder, "storlet.toml", text=NATIVE)
    write(folder, "make.sh", text=MAKE)
    write(folder, ".gitignore", text="*.log\nnode/\n")
    write(folder, "small.txt", "small.out", "large.txt", "large.out")
    write(folder, "lib/a.c", "lib/a.o", "lib/b.log", "node/x", ".git/x", ".env", "src/build/x.rs")
    write(folder, "crates/a/out/CACHEDIR.TAG", "crates/a/out/deps.json")
    write(folder, "run.sh", text="exec ./fruit.sh")
    write(folder, "Makefile", "Makefile~", "__pycache__/x", "target/x")
    write(folder, ".cargo/config.toml", "crates/a/.cargo/config.toml", ".tool-versions")
    write(folder, ".cargo/credentials.toml", ".cargo/.env", ".other/.cargo/config.toml")
    (folder / "make.sh").chmod(0o755)
    (folder / "lib/link.c").symlink_to("a.c")
    (folder / "outside").symlink_to("/etc/hostname")
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    return folder


def build(folder: Path, out: Path | None = None) -> Path:
    return bundler.build(folder, out or folder / "dist", Sandbox())


def names_in(bundle: Path, folder: str = archive.SOURCE) -> set[str]:
    with zipfile.ZipFile(bundle) as zipped:
        return {name[len(folder) :] for name in zipped.namelist() if name.startswith(folder)}


def test_a_native_project_has_what_its_author_keeps(native: Path) -> None:
    first = build(native)
    expected = {
        "storlet.toml", "make.sh", "Makefile", "lib/a.c", "lib/link.c", "src/build/x.rs",
        ".gitignore", ".tool-versions", ".cargo/config.toml", "crates/a/.cargo/config.toml",
    }  # fmt: skip
    assert names_in(first) == expected
    assert bundled_source.collected(first) == sorted(expected)
    assert names_in(first, archive.TESTS) == {"small.txt", "small.out"}
    content = first.read_bytes()
    assert build(native).read_bytes() == content  # the outputs of the first build exist


def test_a_native_project_from_its_bundle_gives_the_same_bundle(
    native: Path, tmp_path: Path
) -> None:
    bundle = build(native)
    unpack(bundle, tmp_path / "copy")
    assert (tmp_path / "copy/make.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "copy/run.sh").read_text() == "exec ./fruit.sh"
    assert not (tmp_path / "copy/target").exists()
    assert build(tmp_path / "copy").read_bytes() == bundle.read_bytes()


def test_a_manifest_that_is_an_input_of_a_case_is_source(native: Path, tmp_path: Path) -> None:
    text = NATIVE.replace('input = "small.txt"', 'input = "storlet.toml"')
    write(native, "storlet.toml", text=text)
    bundle = build(native)
    unpack(bundle, tmp_path / "copy")
    assert build(tmp_path / "copy").read_bytes() == bundle.read_bytes()


def test_a_file_that_is_ignored_above_the_project_is_no_source(
    native: Path, tmp_path: Path
) -> None:
    (native / ".git").rename(tmp_path / ".git")
    write(tmp_path, ".gitignore", text="*.pem\nsecrets/\n/fruit/token\n")
    write(native, "a.pem", "lib/b.pem", "secrets/c", "token", "lib/token")
    source = names_in(build(native))
    assert not {"a.pem", "lib/b.pem", "secrets/c", "token"} & source
    assert {"storlet.toml", "lib/token"} <= source


def test_a_link_to_a_file_that_is_no_source_is_none(native: Path) -> None:
    for name, target in (("env", ".env"), ("log", "lib/b.log"), ("inner/x", "../node/x")):
        (native / name).parent.mkdir(exist_ok=True)
        (native / name).symlink_to(target)
    (native / "case").symlink_to("small.txt")
    source = names_in(build(native))
    assert not {"env", "log", "inner/x"} & source
    assert {"lib/link.c", "case"} <= source


def test_files_without_a_build_are_a_part_of_the_project(tmp_path: Path) -> None:
    folder = tmp_path / "fruit"
    write(folder, "bin/fruit.sh", text="#!/bin/sh\ncat\n")
    (folder / "bin/fruit.sh").chmod(0o755)
    text = NATIVE.replace('build = ["sh", "make.sh"]\n', "")
    text = text.replace('"out/fruit.sh", "run.sh", "target/tool"', '"bin/fruit.sh"')
    write(folder, "storlet.toml", text=text.partition("\n[[")[0])
    bundle = build(folder)
    assert names_in(bundle) == {"storlet.toml"}
    unpack(bundle, tmp_path / "copy")
    assert (tmp_path / "copy/bin/fruit.sh").stat().st_mode & 0o100
    assert build(tmp_path / "copy").read_bytes() == bundle.read_bytes()


def test_a_python_project_from_its_bundle_gives_the_same_bundle(
    tmp_path: Path, index: Path
) -> None:
    make_wheel(index, "helper")
    folder = make(tmp_path / "p", 'requirements = ["helper"]\n')
    write(folder, "src/lib/own.py", "src/sub/__init__.py", "README.md", "data.csv", ".env")
    bundle = build(folder)
    expected = {"storlet.toml", "storlet.requirements.lock", "README.md", "src/lib/own.py"}
    assert names_in(bundle) == expected
    unpack(bundle, tmp_path / "copy")
    assert not (tmp_path / "copy/src/lib/helper.py").exists()
    assert (tmp_path / "copy/src/thumb.py").read_text() == "class Thumb: pass\n"
    assert build(tmp_path / "copy").read_bytes() == bundle.read_bytes()


def test_a_java_project_has_its_source(tmp_path: Path) -> None:
    folder = template.make(tmp_path / "grape", "java")
    write(folder, "pom.xml", "storlet.maven.lock", "notes.txt", "src/words.txt", "target/x")
    expected = {
        "storlet.toml", "README.md", "pom.xml", "storlet.maven.lock", "src/Grape.java",
        "src/words.txt",
    }  # fmt: skip
    assert set(files_of(project.read(folder))) == expected


def test_shared_modules_are_in_the_source(tmp_path: Path) -> None:
    folder = template.make(tmp_path / "grape", "java")
    write(tmp_path, "shared/Lines.java", text="class Lines {}")
    (folder / "src/Lines.java").symlink_to("../../shared/Lines.java")
    files = files_of(project.read(folder))
    assert files["src/Lines.java"] == (b"class Lines {}", 0o644)


def test_files_that_git_would_obey_are_not_made(tmp_path: Path) -> None:
    """Of a bundle that another program made."""
    cases = [{"name": "a", "input": ".git/hooks/pre-commit"}]
    document = {
        "name": "a", "version": "1", "language": "native", "main": "config",
        "files": [".git/config"], "tests": cases,
    }  # fmt: skip
    paths = (
        "source/storlet.toml", "source/.git/HEAD", "source/src/.GIT/config", "source/.envrc",
        "source/src/.keep", "tests/.git/hooks/pre-commit",
        "source/.cargo/config.toml", "source/.cargo/.git/config", "source/.cargo/credentials.toml",
    )  # fmt: skip
    bundle = tmp_path / "a.storlet"
    with bundle.open("wb") as out:
        others = dict.fromkeys(paths, (b"", 0o755))
        others["tests/.git/hooks/pre-commit"] = (b"", 0o644)
        archive.write(out, document, {"config": (b"[core]", 0o755)}, others=others)
    with bundle.open("rb") as packed:
        archive.verify(packed, archive.Bounds())
    unpack(bundle, tmp_path / "copy")
    made = {
        path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*")
    }
    assert made == {"storlet.toml", "src", "src/.keep", ".cargo", ".cargo/config.toml"}


def written_bundle(
    folder: Path, others: bundled_source.Files, main: str = "config", **more: object
) -> Path:
    """A bundle that another program made."""
    document = {
        "name": "a", "version": "1", "language": "native", "main": main, "files": [main],
        **more,
    }  # fmt: skip
    bundle = folder / "a.storlet"
    with bundle.open("wb") as out:
        archive.write(out, document, {main: (b"code", 0o755)}, others=others)
    with bundle.open("rb") as packed:
        archive.verify(packed, archive.Bounds())
    return bundle


PLAIN = (b"other", 0o644)


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("config", {}),
        ("config/x", {}),
        ("q", {"files": ["q/config"]}),
        ("q", {"tests": [{"name": "a", "input": "q/x"}]}),
    ],
)
def test_two_files_for_one_place_are_refused(
    tmp_path: Path, path: str, more: dict[str, object]
) -> None:
    """The source of a bundle must not hide the code that runs."""
    others = {"source/storlet.toml": PLAIN, f"source/{path}": PLAIN}
    others |= {"tests/q/x": PLAIN} if "tests" in more else {}
    bundle = written_bundle(tmp_path, others, **more)
    with pytest.raises(ProjectError, match="the bundle has two files for this place"):
        unpack(bundle, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_code_that_is_the_input_of_a_case_stays_executable(tmp_path: Path) -> None:
    others = {"source/storlet.toml": PLAIN, "tests/config": (b"code", 0o644)}
    bundle = written_bundle(tmp_path, others, tests=[{"name": "a", "input": "config"}])
    unpack(bundle, tmp_path / "copy")
    assert (tmp_path / "copy/config").stat().st_mode & 0o100


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_project_is_complete_or_absent(
    native: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    bundle = build(native)

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Path, "chmod", fail)
        with pytest.raises((KeyboardInterrupt, OSError)):
            unpack(bundle, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    unpack(bundle, tmp_path / "copy")


def test_a_folder_that_exists_is_refused(native: Path) -> None:
    with pytest.raises(ProjectError, match="it exists already: name a new folder"):
        unpack(build(native), native)


def test_a_bundle_without_source_is_named(native: Path, tmp_path: Path) -> None:
    bundle = build(native)
    bundle.write_bytes(archive.without_source(bundle.read_bytes()))
    with pytest.raises(
        ProjectError, match="fruit has no source: an older release built or stored it"
    ):
        unpack(bundle, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_names_that_no_bundle_has_are_refused(native: Path) -> None:
    (native / "lib/a\nb.c").touch()
    (native / os.fsdecode(b"lib/\xff.c")).touch()
    (native / "lib/A.c").touch()
    with pytest.raises(ProjectError) as caught:
        build(native)
    assert caught.value.faults == [
        "source 'lib/a\\nb.c': control characters in the name",
        "source 'lib/\\udcff.c': a name that is not UTF-8",
        "source 'lib/A.c' and 'lib/a.c': the names differ in case only",
        "rename these files, or list in .gitignore of a native project what is no source",
    ]


def test_a_source_that_is_too_large_is_named(native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (native / "model.bin").write_bytes(os.urandom(20_000))
    monkeypatch.setattr(bundler, "_MUCH", 10_000)
    monkeypatch.setattr(archive.Bounds, "__init__", _small_bounds(archive.Bounds.__init__))
    with pytest.raises(ProjectError) as caught:
        build(native)
    assert "at most 5000 are allowed" in caught.value.faults[0]
    assert "most of them model.bin: list in .gitignore" in caught.value.faults[-1]


def test_a_source_that_is_too_large_for_memory_is_not_read(
    native: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (native / "data.bin").open("wb") as file:
        file.truncate(1 << 40)  # sparse
    monkeypatch.setattr(bundled_source, "_content", lambda _: pytest.fail("it was read"))
    with pytest.raises(ProjectError, match=r"most of them data\.bin: .* at most 1,073,741,824"):
        build(native)


def _small_bounds(initialize: object) -> object:
    def small(self: archive.Bounds) -> None:
        initialize(self, 5000)  # type: ignore[operator]

    return small


def test_the_rules_of_nested_folders_hold_there_only(native: Path) -> None:
    write(native, "lib/.gitignore", text="*.c\n!a.c\n")
    write(native, "lib/b.c", "src/b.c")
    names = set(files_of(project.read(native)))
    assert {"lib/a.c", "src/b.c"} <= names
    assert "lib/b.c" not in names
    assert bundled_source.CACHE not in names
