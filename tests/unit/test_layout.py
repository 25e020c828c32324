"""The tree of unit tests mirrors the tree of the product: each module has a test module of its
name.

``modules_without_tests.txt`` lists the exceptions, and may only shrink: a module that gets its test
module leaves the list.  ``python3 -m tests.unit.test_layout`` prints the list as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
UNIT: Final = Path("tests/unit")
EXCEPTIONS: Final = ROOT / UNIT / "modules_without_tests.txt"
#: Where the unit tests of a product folder are; the longest prefix wins.
FOLDERS: Final = {
    Path("storlet_middleware"): UNIT / "middleware",
    Path("storlet_middleware/aio"): UNIT / "aio",
    Path("storlet_middleware/cli"): UNIT / "cli",
    Path("storlet_middleware/sandboxd"): UNIT / "sandboxd",
    Path("storlet_daemon"): UNIT / "daemon",
    Path("rules"): UNIT / "rules",
}


def modules() -> list[Path]:
    """Each module of the product, without the maps and the entry points of packages."""
    tops = {folder.parts[0] for folder in FOLDERS}
    found = {path.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("*.py")}
    return sorted(path for path in found if not path.name.startswith("__"))


def folder_of_tests(folder: Path) -> Path:
    """The folder of ``tests/unit`` that mirrors a folder of the product."""
    top = max(
        (top for top in FOLDERS if folder.is_relative_to(top)), key=lambda top: len(top.parts)
    )
    return FOLDERS[top] / folder.relative_to(top)


def path_of_test(module: Path) -> Path:
    """Where the unit test of ``module`` belongs."""
    return folder_of_tests(module.parent) / f"test_{module.name}"


def without_tests() -> list[str]:
    return [str(module) for module in modules() if not (ROOT / path_of_test(module)).exists()]


def test_a_module_has_a_place_of_test_its_name_or_is_a_known_exception() -> None:
    known = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    assert sorted(set(without_tests()) - set(known)) == [], "add test modules of these names"


def test_exceptions_are_modules_that_still_have_no_test_module() -> None:
    known = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    assert sorted(set(known) - set(without_tests())) == [], (
        "remove these lines: the list may only shrink"
    )


def test_folders_of_unit_tests_mirror_folders_of_the_product() -> None:
    mirrored = {folder_of_tests(module.parent) for module in modules()}
    tops = set(FOLDERS.values())
    tested = {
        path.parent.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("test_*.py")
    }
    assert sorted(map(str, tested - mirrored)) == []


if __name__ == "__main__":
    print("\n".join(without_tests()))
