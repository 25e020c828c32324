"""Sphinx configuration: ``sphinx-build -W docs build/docs``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

project = "Storlets for OpenStack Swift"
author = "the contributors"
copyright = "the contributors, Apache License 2.0"  # noqa: A001
extensions = ["sphinx.ext.autodoc"]
# The pages of modules are their docstrings, so building them needs requirements.txt.
autodoc_typehints = "none"
exclude_patterns = ["_build", "changes"]  # changes: fragments of CHANGELOG.rst
html_theme = "alabaster"
html_theme_options = {
    "description": "functions on the node that holds the data",
    "page_width": "1000px",
}
nitpicky = False
