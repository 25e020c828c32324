"""Source files of projects, and what is none."""

from __future__ import annotations

from pathlib import Path

from storlet_client.builder import template
from storlet_client.builder.sources import Sources


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def found(sources: Sources, folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in sources.files()}


def test_sources_of_a_python_project(tmp_path: Path) -> None:
    folder = template.make(tmp_path / "fruit")
    write(folder, "dist/fruit-0.1.0.storlet", "src/__pycache__/fruit.pyc", "src/.git/x", "notes")
    write(folder, "storlet.requirements.lock", "src/build/lib.py", "src/fruit.py~", "src/.swp")
    expected = {
        "storlet.toml", "sample.txt", "expected.txt", "src/fruit.py", "src/build/lib.py",
    }  # fmt: skip
    sources = Sources(folder)
    assert found(sources, folder) == expected
    (folder / "storlet.toml").write_text("broken")
    assert found(sources, folder) == expected


def test_sources_of_a_native_project_are_no_outputs_of_its_build(tmp_path: Path) -> None:
    folder = template.make(tmp_path / "fruit", "native")
    text = (folder / "storlet.toml").read_text().replace("target/release/fruit", "fruit")
    (folder / "storlet.toml").write_text(text)
    write(folder, "fruit", "lib/a.c", "lib/a.o", "target/x", "build/x", ".git/x", "a.storlet")
    write(folder, ".cargo/config.toml", ".cargo/credentials.toml", ".env")
    expected = {
        "storlet.toml", "Cargo.toml", "README.md", "sample.txt", "expected.txt", "src/main.rs",
        "lib/a.c", ".gitignore", ".cargo/config.toml",
    }  # fmt: skip
    sources = Sources(folder)
    assert found(sources, folder) == expected
    with sources.while_built():
        write(folder, "Cargo.lock", "lib/made.h", "src/new.rs", "fruit")
    assert found(sources, folder) == {*expected, "src/new.rs"}


def test_all_files_count_before_the_manifest_is_valid(tmp_path: Path) -> None:
    write(tmp_path, "storlet.toml", "main.py")
    assert found(Sources(tmp_path), tmp_path) == {"storlet.toml", "main.py"}
