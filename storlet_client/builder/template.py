"""A new project, which works as it is.

Each template of a language is a folder of ``templates``, ``LANGUAGE-TEMPLATE``: in names and texts,
``@name@``, ``@module@`` and ``@Class@`` stand for the names of the storlet, and the suffix ``.in``
is left out.  ``README.md`` and ``.gitignore``, which all have, are in this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from storlet_client.builder import rights
from storlet_client.builder.project import SOURCE, ProjectError
from storlet_client.bundle import languages

#: The template that is made if no other is named.
FILTER = "filter"
_FOLDER = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

_README = """\
# {name}

Test, build, deploy and run it:

```console
storlet test
storlet build
storlet deploy dist/{name}-0.1.0.storlet
storlet invoke {name} CONTAINER/OBJECT{parameters}
```
"""

#: The end of the last command of the README.
_PARAMETERS = {
    FILTER: " -p text=WORD",
    "csv": " -p columns=NAME,NAME",
    "image": " -p width=100 -o small.png",
    "merge": " --resource CONTAINER/OTHER",
    "service": " -p table=/CONTAINER/TABLE",
}
_IGNORED = "dist/\ntarget/\n__pycache__/\n"


def kinds() -> list[str]:
    """The names of the templates, which each language has."""
    found = {path.name.partition("-")[2] for path in _FOLDER.glob(f"{languages.NAMES[0]}-*")}
    return [FILTER, *sorted(found - {FILTER})]


def make(folder: Path, language: str = languages.NAMES[0], kind: str = FILTER) -> Path:
    """Make a project in the new ``folder``, whose name is that of the storlet.

    Under ``sudo`` in a folder of the user, it belongs to the user.

    :param language: one of :data:`languages.NAMES`; ``native`` is a project in Rust or C.
    :param kind: one of :func:`kinds`.
    :raises ProjectError: the name cannot be that of a storlet, or the folder exists.
    """
    name = folder.name
    if not _NAME.fullmatch(name):
        raise ProjectError(
            [f"{name!r}: want a lower-case letter, then at most 62 of a-z, 0-9, '_' and '-'"]
        )
    module = name.replace("-", "_")
    class_ = "".join(part.capitalize() for part in module.split("_"))
    files = _of_folder(language, kind, {"name": name, "module": module, "Class": class_})
    return Path(rights.with_rights_of(rights.owner_above(folder), lambda: _write(folder, files)))


def _write(folder: Path, files: Mapping[str, bytes]) -> str:
    """Write the files of a new project; the path of its folder."""
    try:
        (folder / SOURCE).mkdir(parents=True)
        for path, content in files.items():
            with (folder / path).open("xb") as file:
                file.write(content)
    except FileExistsError as error:
        raise ProjectError([f"{error.filename}: it exists already"]) from None
    return str(folder)


def _of_folder(language: str, kind: str, names: dict[str, str]) -> dict[str, bytes]:
    """The files of a template, by their paths."""
    top = _FOLDER / f"{language}-{kind}"
    readme = _README.format(name=names["name"], parameters=_PARAMETERS[kind])
    files = {".gitignore": _IGNORED.encode(), "README.md": readme.encode()}
    for path in sorted(path for path in top.rglob("*") if path.is_file()):
        content, place = path.read_bytes(), path.relative_to(top).as_posix()
        for name, value in names.items():
            content = content.replace(f"@{name}@".encode(), value.encode())
            place = place.replace(f"@{name}@", value)
        files[re.sub(r"\.in$", "", place)] = content
    return files
