"""A new project, which works as it is."""

from __future__ import annotations

import re
from pathlib import Path

from storlet_client.builder.project import MANIFEST, SOURCE, ProjectError

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

_TOML = """\
name = "{name}"
version = "0.1.0"
language = "python"
main = "{module}.{class_}"
summary = "Keeps the lines that contain a text"
# Python packages, such as "numpy>=2"; storlet build puts their wheels into the bundle.
requirements = []

[parameters.text]
type = "string"
default = ""
help = "lines without it are left out"

# Cases of "storlet test": input and parameters, and the expected output, metadata or error.
[[tests]]
name = "lines with apples"
input = "sample.txt"
parameters = {{ text = "apple" }}
output = "expected.txt"
"""

_SOURCE = '''\
"""Keeps the lines that contain a text."""


class {class_}:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        source, out = in_files[0], out_files[0]
        out.set_metadata(source.get_metadata())
        wanted = params["text"].encode()
        kept = 0
        rest = b""
        for chunk in iter(lambda: source.read(1 << 16), b""):
            *lines, rest = (rest + chunk).split(b"\\n")
            for line in lines:
                if wanted in line:
                    kept += 1
                    out.write(line + b"\\n")
        if rest and wanted in rest:
            kept += 1
            out.write(rest)
        self.logger.debug(f"kept {{kept}} lines")
        source.close()
        out.close()
'''

_README = """\
{name}
======

Test, build, deploy and run it::

    storlet test
    storlet build
    storlet deploy dist/{name}-0.1.0.storlet
    storlet invoke {name} CONTAINER/OBJECT -p text=WORD
"""

_IGNORED = "dist/\n__pycache__/\n"
_INPUT = "one apple\ntwo pears\nthree apples\n"
_EXPECTED = "one apple\nthree apples\n"


def make(folder: Path) -> Path:
    """Make a project in the new ``folder``, whose name is that of the storlet.

    :raises ProjectError: the name cannot be that of a storlet, or the folder exists.
    """
    name = folder.name
    if not _NAME.fullmatch(name):
        raise ProjectError(
            [f"{name!r}: want a lower-case letter, then at most 62 of a-z, 0-9, '_' and '-'"]
        )
    module = name.replace("-", "_")
    class_ = "".join(part.capitalize() for part in module.split("_"))
    files = {
        MANIFEST: _TOML.format(name=name, module=module, class_=class_),
        f"{SOURCE}/{module}.py": _SOURCE.format(class_=class_),
        "README.rst": _README.format(name=name),
        ".gitignore": _IGNORED,
        "sample.txt": _INPUT,
        "expected.txt": _EXPECTED,
    }
    try:
        (folder / SOURCE).mkdir(parents=True)
        for path, text in files.items():
            with (folder / path).open("x", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError as error:
        raise ProjectError([f"{error.filename}: it exists already"]) from None
    return folder
