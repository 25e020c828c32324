"""New projects."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storlet_client.builder import native, project, template
from storlet_client.builder.project import ProjectError
from storlet_client.local import cases


@pytest.mark.parametrize("name", ["thumb", "two-words_3"])
def test_a_new_project_is_valid(tmp_path: Path, name: str) -> None:
    folder = template.make(tmp_path / name)
    made = project.read(folder)
    module = name.replace("-", "_")
    assert made.document["name"] == name
    assert list(made.source()) == [f"{module}.py"]
    assert made.document["main"].startswith(f"{module}.")


class Stream:
    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks
        self.written = b""
        self.is_closed = False

    def read(self, _size: int) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""

    def write(self, data: bytes) -> None:
        self.written += data

    def get_metadata(self) -> dict[str, str]:
        return {"a": "b"}

    def set_metadata(self, metadata: dict[str, str]) -> None:
        assert metadata == {"a": "b"}

    def close(self) -> None:
        self.is_closed = True


class Logger:
    def debug(self, text: str) -> None:
        assert text == "kept 2 lines"


def test_its_source_matches_its_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = template.make(tmp_path / "some-lines")
    monkeypatch.setattr(sys, "path", [str(folder / "src"), *sys.path])
    import some_lines  # type: ignore[import-not-found]  # noqa: PLC0415 - made by the test

    source, out = Stream([b"one ap", b"ple\ntwo pears\nthr", b"ee apples"]), Stream([])
    storlet: Any = some_lines.SomeLines(Logger())
    storlet([source], [out], {"text": "apple"})
    assert out.written == b"one apple\nthree apples"
    assert source.is_closed
    assert out.is_closed


@pytest.mark.parametrize("name", ["Thumb", "1st", "a.b", "x" * 64])
def test_a_name_that_no_storlet_can_have_makes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ProjectError, match="want a lower-case letter"):
        template.make(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thumb").mkdir()
    (tmp_path / "thumb/storlet.toml").write_text("mine")
    with pytest.raises(ProjectError, match="it exists already"):
        template.make(tmp_path / "thumb")
    assert (tmp_path / "thumb/storlet.toml").read_text() == "mine"


def language_kinds() -> list[tuple[str, str]]:
    folders = (Path(template.__file__).parent / "templates").iterdir()
    found = [tuple(folder.name.split("-")) for folder in folders]
    filters = [(language, "filter") for language in ("python", "java", "native")]
    return [*filters, *((a, b) for a, b in sorted(found))]


@pytest.mark.parametrize(("language", "kind"), language_kinds())
def test_a_project_of_each_template_is_valid(tmp_path: Path, language: str, kind: str) -> None:
    folder = template.make(tmp_path / "two-words", language, kind)
    made = project.read(folder)
    assert (made.document["name"], made.document["language"]) == ("two-words", language)
    assert made.test_files()
    mains = {"python": "two_words.TwoWords", "java": "TwoWords", "native": "two-words"}
    mains["native-service"] = "two-words.so:replace_codes"
    main = mains.get(f"{language}-{kind}", mains[language])
    assert made.document["main"] == main
    for path in folder.rglob("*"):
        if path.is_file():
            assert b"@name@" not in path.read_bytes()
            assert "@" not in path.name
            assert path.suffix != ".in"
    readme = (folder / "README.md").read_text()
    assert readme.startswith("# two-words\n\n")
    assert readme.count("```") == 2
    assert "\nstorlet invoke two-words CONTAINER/OBJECT" in readme


@pytest.mark.usefixtures("forked_cases")
@pytest.mark.parametrize("kind", ["filter", "csv", "merge", "service"])
def test_the_cases_of_a_new_python_project_pass(tmp_path: Path, kind: str) -> None:
    made = project.read(template.make(tmp_path / "some-thing", "python", kind))
    found = list(cases.results(made, "", cases.InProcesses(made)))
    assert [each for each in found if each.faults] == []
    assert len(found) == len(made.document["tests"])


def test_each_language_has_each_template() -> None:
    assert template.kinds() == ["filter", "csv", "image", "merge", "service"]
    languages = {"python", "java", "native"}
    wanted = {(language, kind) for language in languages for kind in template.kinds()}
    assert set(language_kinds()) == wanted


@pytest.fixture(scope="module")
def thumbs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the project with the native thumbnails, whose program is built."""
    if shutil.which("cc") is None:
        pytest.skip("a C compiler is missing")
    folder = template.make(tmp_path_factory.mktemp("thumbs") / "thumbs", "native", "image")
    native.build(folder, project.read(folder).document)
    return folder


@pytest.mark.usefixtures("forked_cases")
def test_the_cases_of_the_native_thumbnails_pass(thumbs: Path) -> None:
    made = project.read(thumbs)
    found = list(cases.results(made, "", cases.InProcesses(made)))
    assert [each for each in found if each.faults] == []
    assert len(found) == 3


GREY = b"P5 5\t3 # wide\n200\n" + bytes(range(1, 16))


@pytest.mark.parametrize(
    ("image", "width", "status", "output"),
    [
        # Columns 0-1 and 2-4 of the only row that is left.
        pytest.param(GREY, "2", 0, b"P5\n2 1\n200\n" + bytes([7, 9]), id="means"),
        pytest.param(GREY, "1", 0, b"P5\n1 1\n200\n" + bytes([8]), id="one pixel"),
        pytest.param(GREY, "9", 0, b"P5\n5 3\n200\n" + bytes(range(1, 16)), id="not enlarged"),
        pytest.param(GREY[:-1], "2", 1, None, id="incomplete"),
        pytest.param(GREY.replace(b"200", b"65535"), "2", 1, None, id="16 bits"),
        pytest.param(GREY.replace(b"5\t", b"9999999\t"), "2", 1, None, id="too wide"),
        pytest.param(GREY.replace(b"5\t", b"0\t"), "2", 1, None, id="no column"),
        pytest.param(b"P6", "2", 1, None, id="header only"),
        pytest.param(b"", "2", 1, None, id="empty"),
    ],
)
def test_native_thumbnails(
    thumbs: Path, tmp_path: Path, image: bytes, width: str, status: int, output: bytes | None
) -> None:
    with (tmp_path / "metadata").open("w") as metadata:
        done = subprocess.run(
            [thumbs / "target/thumbs"],
            input=image,
            capture_output=True,
            pass_fds=[metadata.fileno()],
            env={"STORLET_PARAM_width": width, "STORLET_METADATA_FD": str(metadata.fileno())},
            check=False,
        )
    assert done.returncode == status, done
    if output is None:
        assert b"image" in done.stderr
        return
    assert done.stdout == output
    _, columns, rows = done.stdout.split(maxsplit=3)[:3]
    written = {"Width": columns.decode(), "Height": rows.decode()}
    written["Content-Type"] = "image/x-portable-graymap"
    assert json.loads((tmp_path / "metadata").read_text()) == written
