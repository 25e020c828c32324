"""The drawings of the ways of a request name modules and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from storlet_middleware.wsgi import context

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/developer/request-paths.rst"
MODULES = [path for path in (ROOT / "storlet_middleware").rglob("*.py") if "aio" not in path.parts]
STEP = re.compile(r"^   ([a-z_]+) {2,}([A-Za-z_.]+(?:(?: or |, )[A-Za-z_.]+)*)", re.MULTILINE)


def steps() -> list[tuple[str, str]]:
    """Module and function of each line of each drawing."""
    found = STEP.findall(PAGE.read_text(encoding="utf-8"))
    return [(module, name) for module, names in found for name in re.split(r" or |, ", names)]


def test_there_are_drawings() -> None:
    assert len(steps()) > 30


@pytest.mark.parametrize(("module", "name"), sorted(set(steps())))
def test_a_step_of_a_drawing_exists(module: str, name: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in MODULES if path.stem == module]
    assert texts, "no module has this name"
    assert any(set(name.split(".")) <= defined_in(text) for text in texts)


def test_the_page_has_the_order_of_the_chain_of_authorization() -> None:
    links = re.findall(r"^    ([a-z]+) {2,}", context.__doc__ or "", re.MULTILINE)
    assert len(links) == 4
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"chain of authorization, whose order is {', '.join(links)}." in text


def defined_in(source: str) -> set[str]:
    """Names of all functions and classes."""
    nodes = ast.walk(ast.parse(source))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
