"""The pytest plugin for authors, in a pytest of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_client.builder import template
from tests.support.forking import Commands, pytest_commands

TESTS = """
import pytest
from storlet_client.pytest_plugin import StorletFailed

def test_lines(storlet):
    result = storlet.run(b"one apple\\ntwo pears\\n", text="apple", metadata={"a": "b"})
    assert (result.output, result.metadata) == (b"one apple\\n", {"a": "b"})
    assert "kept 1 lines" in result.log

def test_a_file(storlet):
    assert storlet.run(storlet.project.folder / "sample.txt", text="two").output == b"two pears\\n"

def test_parameters_are_keywords(storlet):
    with pytest.raises(TypeError, match="no dict; parameters are keywords"):
        storlet.run(b"one apple", {"text": "apple"})

def test_a_failure(storlet):
    (storlet.project.folder / "src/fruit.py").write_text("import nothing_there")
    with pytest.raises(StorletFailed, match="storlet.load: ModuleNotFoundError"):
        storlet.run(b"")
"""


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with pytest_commands() as made:
        yield made


def pytest_in(commands: Commands, folder: Path) -> str:
    plugins = ["-p", "no:cacheprovider", "-p", "storlet_client.pytest_plugin"]
    done = commands.ended(["-q", *plugins, str(folder)], {}, str(folder))
    return done.out + done.err


def test_the_fixture_runs_the_storlet_of_the_project(commands: Commands, tmp_path: Path) -> None:
    folder = template.make(tmp_path / "fruit")
    (folder / "tests").mkdir()
    (folder / "tests/test_fruit.py").write_text(TESTS)
    assert "4 passed" in pytest_in(commands, folder)


def test_the_result_has_the_further_outputs(commands: Commands, tmp_path: Path) -> None:
    folder = template.make(tmp_path / "fruit")
    with (folder / "storlet.toml").open("a") as file:
        file.write("\n[outputs]\ncount = 2\n")
    source = folder / "src/fruit.py"
    source.write_text(source.read_text().replace("out_files[0]", "out_files[1]"))
    (folder / "tests").mkdir()
    (folder / "tests/test_fruit.py").write_text(
        "def test_two(storlet):\n"
        "    result = storlet.run(b'one apple\\ntwo pears\\n', text='apple')\n"
        "    assert (result.output, result.further) == (b'', (b'one apple\\n',))\n"
    )
    assert "1 passed" in pytest_in(commands, folder)


def test_a_test_outside_of_a_project_reports_the_missing_project(
    commands: Commands, tmp_path: Path
) -> None:
    (tmp_path / "test_any.py").write_text("def test_any(storlet):\n    pass\n")
    assert "there is no storlet.toml" in pytest_in(commands, tmp_path)
