"""The tree of unit tests mirrors the tree of the product: each module has a test module of its
name.  The docstring of a package is the map of its modules, and a contract has their layers.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
UNIT: Final = Path("tests/unit")
#: Where the unit tests of a product folder are; the longest prefix wins.
FOLDERS: Final = {
    Path("storlet_middleware"): UNIT / "middleware",
    Path("storlet_middleware/aio"): UNIT / "aio",
    Path("storlet_middleware/cli"): UNIT / "cli",
    Path("storlet_middleware/sandboxd"): UNIT / "sandboxd",
    Path("storlet_client"): UNIT / "client",
    Path("storlet_daemon"): UNIT / "daemon",
    Path("rules"): UNIT / "rules",
}


def modules() -> list[Path]:
    """Each module of the product, without the maps and the entry points of packages."""
    tops = {folder.parts[0] for folder in FOLDERS}
    found = {path.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("*.py")}
    # `pip install ./storlet_client` leaves a copy in its folder build.
    own = (path for path in found if path.parts[1] != "build")
    return sorted(path for path in own if not path.name.startswith("__"))


def folder_of_tests(folder: Path) -> Path:
    """The folder of ``tests/unit`` that mirrors a folder of the product."""
    top = max(
        (top for top in FOLDERS if folder.is_relative_to(top)), key=lambda top: len(top.parts)
    )
    return FOLDERS[top] / folder.relative_to(top)


def path_of_test(module: Path) -> Path:
    """Where the unit test of ``module`` belongs."""
    return folder_of_tests(module.parent) / f"test_{module.name}"


def test_each_module_has_a_test_module_of_its_name() -> None:
    missing = [str(module) for module in modules() if not (ROOT / path_of_test(module)).exists()]
    assert missing == [], "add test modules of these names"


def test_folders_of_unit_tests_mirror_folders_of_the_product() -> None:
    mirrored = {folder_of_tests(module.parent) for module in modules()}
    tops = set(FOLDERS.values())
    tested = {
        path.parent.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("test_*.py")
    }
    assert sorted(map(str, tested - mirrored)) == []


def packages() -> list[Path]:
    """Each package of the product with modules, and the tests' helpers."""
    tops = [*dict.fromkeys(folder.parts[0] for folder in FOLDERS), "tests/support"]
    found = {path.parent for top in tops for path in (ROOT / top).rglob("__init__.py")}
    return sorted(path.relative_to(ROOT) for path in found)


def modules_of(folder: Path) -> set[str]:
    """The modules and packages in the folder of a package, without its entry point."""
    modules = {path.stem for path in folder.glob("*.py") if not path.name.startswith("__")}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("package", packages(), ids=str)
def test_the_docstring_of_a_package_names_its_modules(package: Path) -> None:
    folder = ROOT / package
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    named = re.findall(r"\w+", ast.get_docstring(tree) or "")
    assert sorted(modules_of(folder) - set(named)) == []


def test_each_package_with_several_modules_has_a_contract_of_its_layers() -> None:
    """``make check`` compares the contract with the imports: it fails for a module without a layer,
    and for an import of a higher layer."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    exhaustive = [each for each in contracts if each["type"] == "layers" and each.get("exhaustive")]
    named = {package for contract in exhaustive for package in contract["containers"]}
    tops = {folder.parts[0] for folder in FOLDERS}
    several = {
        ".".join(package.parts)
        for package in packages()
        if package.parts[0] in tops and len(modules_of(ROOT / package)) > 1
    }
    assert sorted(several - named) == []
