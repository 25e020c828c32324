"""Projects: their manifests, with positions of faults, and their source."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client.builder import project
from storlet_client.builder.project import ProjectError
from tests.unit.client.builder.projects import make


def test_manifest_and_source_of_a_project(tmp_path: Path) -> None:
    folder = make(tmp_path / "p")
    (folder / "src/__pycache__").mkdir()
    (folder / "src/__pycache__/x.pyc").write_bytes(b"")
    made = project.read(folder)
    assert made.document["name"] == "thumb"
    assert made.source() == {"thumb.py": (b"class Thumb: pass\n", 0o644)}


def test_the_folder_of_a_project_is_the_nearest_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "p")
    monkeypatch.chdir(folder / "src")
    assert project.folder_above(Path()) == Path("..")
    assert project.folder_above(folder) == folder
    monkeypatch.chdir(tmp_path)
    assert project.folder_above(Path()) is None


def test_a_manifest_that_is_no_text_is_a_fault(tmp_path: Path) -> None:
    folder = make(tmp_path / "p")
    (folder / "storlet.toml").write_bytes(b"name = '\xff'\n")
    with pytest.raises(ProjectError, match="not UTF-8"):
        project.read(folder)


def test_all_faults_come_with_line_and_column(tmp_path: Path) -> None:
    more = """\
  summry = "x"

[parameters.width]
type = "integer"
default = "x"

[[tests]]
name = "a"
input = "in"
[[tests]]
name = "b"
inptu = "in"
"""
    folder = make(tmp_path / "p", more)
    with pytest.raises(ProjectError) as refused:
        project.read(folder)
    place = folder / "storlet.toml"
    assert refused.value.faults == [
        f"{place}:5:3: summry: unknown key; did you mean summary?",
        f"{place}:9:1: parameters.width.default: 'x': is no integer",
        f"{place}:14:3: tests.1.input: missing",
        f"{place}:16:1: tests.1.inptu: unknown key; did you mean input?",
    ]


@pytest.mark.parametrize(
    ("path", "position"),
    [
        (("name",), (1, 1)),
        (("a", "b", "c"), (3, 1)),
        (("a", "x"), (2, 2)),
        (("d", "e.f"), (5, 2)),
        (("list", 1, "k"), (10, 3)),
        (("nothing",), (1, 1)),
    ],
)
def test_position_of_a_key(path: tuple[object, ...], position: tuple[int, int]) -> None:
    text = """\
name = "x"
[a]
b.c = 1
[ d ]  # a comment
 "e.f" = 1

[[list]]
k = 1
[[list]]
  k = 2
"""
    assert project.position_of(text, path) == position


@pytest.mark.parametrize("text", ["name = ", "\0", "a = 1\na = 2"])
def test_text_that_is_no_toml_is_a_fault(tmp_path: Path, text: str) -> None:
    (tmp_path / "storlet.toml").write_text(text)
    with pytest.raises(ProjectError, match=r"storlet\.toml:\d+:\d+: not TOML: [A-Z]"):
        project.read(tmp_path)


def test_a_link_to_a_shared_module_is_its_content(tmp_path: Path) -> None:
    folder = make(tmp_path / "p")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/colours.py").write_text("RED = 1\n")
    (folder / "src/colours.py").symlink_to("../../shared/colours.py")
    assert project.read(folder).source()["colours.py"] == (b"RED = 1\n", 0o644)


def test_folder_without_a_manifest_source_or_with_a_link_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="No such file"):
        project.read(tmp_path)
    folder = make(tmp_path / "p")
    (folder / "src/link").symlink_to("/etc/passwd")
    with pytest.raises(ProjectError, match="a symbolic link"):
        project.read(folder).source()
    (folder / "src/link").unlink()
    (tmp_path / "shared/folder").mkdir(parents=True)
    (tmp_path / "shared/outside").symlink_to("/etc/passwd")
    for target in ("../../shared/absent.py", "../../shared/folder", "../../shared/outside"):
        (folder / "src/link").symlink_to(target)
        with pytest.raises(ProjectError, match=r"may only lead to a file in \.\./shared/"):
            project.read(folder).source()
        (folder / "src/link").unlink()
    (folder / "src/thumb.py").unlink()
    with pytest.raises(ProjectError, match="no source"):
        project.read(folder).source()


CASES = """
[[tests]]
name = "a"
input = ["in", "in"]
output = "%s"
[[tests]]
name = "large"
input = "absent"
upload = false
"""


def test_files_of_cases_are_read_once(tmp_path: Path) -> None:
    folder = make(tmp_path / "p", CASES % "out")
    for name in ("in", "out"):
        (folder / name).write_text(name)
    assert project.read(folder).test_files() == {"in": b"in", "out": b"out"}


def test_no_link_brings_a_file_from_outside_into_a_bundle(tmp_path: Path) -> None:
    folder = make(tmp_path / "p", CASES % "out")
    (tmp_path / "secret").write_text("secret")
    (folder / "real").write_text("inside")
    (folder / "in").symlink_to("real")
    (folder / "out").symlink_to("../secret")
    with pytest.raises(ProjectError, match="out: a symbolic link to a file outside") as error:
        project.read(folder).test_files()
    assert len(error.value.faults) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("absent", "no such file"),
        ("../out", "leaves its folder"),
        ("/etc/passwd", "absolute"),
        ("large", "set upload = false"),
    ],
)
def test_files_that_no_bundle_can_have_are_refused(tmp_path: Path, path: str, text: str) -> None:
    folder = make(tmp_path / "p", CASES % path)
    (folder / "in").write_text("in")
    (folder / "large").write_bytes(bytes((4 << 20) + 1))
    with pytest.raises(ProjectError, match=text):
        project.read(folder).test_files()
