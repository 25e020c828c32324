"""The environment of the benchmark has what the benchmark imports."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from tests.support.cluster import CHECKOUT

FILES = ("requirements.txt", "requirements-bench.txt")
#: The module that a worker offers to storlets.
OF_SANDBOX = "storlet"
OURS = frozenset(path.parent.name for path in CHECKOUT.glob("*/__init__.py"))


def imported(module: Path) -> Iterator[str]:
    """Names of the modules that a module imports at once; not those of its functions."""
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files_of(name: str) -> list[Path]:
    """The module ``name``, if it is one, and the packages that hold it, which run first."""
    parts = name.split(".")
    packages = [CHECKOUT.joinpath(*parts[:end], "__init__.py") for end in range(1, len(parts) + 1)]
    return [
        path for path in (CHECKOUT.joinpath(*parts).with_suffix(".py"), *packages) if path.is_file()
    ]


def needed() -> dict[str, Path]:
    """Foreign top-level packages that the benchmark imports, each with a module that does."""
    found: dict[str, Path] = {}
    todo, seen = list((CHECKOUT / "tests/bench").rglob("*.py")), set()
    while todo:
        module = todo.pop()
        if module in seen:
            continue
        seen.add(module)
        for name in imported(module):
            top = name.partition(".")[0]
            if top in OURS:
                todo += _files_of(name)
            elif top not in sys.stdlib_module_names and top != OF_SANDBOX:
                found[top] = module
    return found


def test_every_package_that_the_benchmark_imports_is_required() -> None:
    required = {
        re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower()
        for file in FILES
        for line in (CHECKOUT / file).read_text("utf-8").splitlines()
        if "==" in line
    }
    distributions = metadata.packages_distributions()
    missing = {
        package: str(module.relative_to(CHECKOUT))
        for package, module in needed().items()
        if required.isdisjoint(
            re.sub(r"[-_.]+", "-", name).lower() for name in distributions.get(package, [package])
        )
    }
    assert {"matplotlib", "duckdb"} <= needed().keys()
    assert missing == {}
