"""A new project, which works as it is.

The template ``filter`` of each language is in this module.  The others are folders of
``templates``, ``LANGUAGE-TEMPLATE``: in names and texts, ``@name@``, ``@module@`` and ``@Class@``
stand for the names of the storlet, and the suffix ``.in`` is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from storlet_client.builder import rights
from storlet_client.builder.project import MANIFEST, SOURCE, ProjectError

#: The template of this module; each language has it.
FILTER = "filter"
_FOLDER = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

#: The end of each manifest.
_CASES = """\
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

_TOML = (
    """\
name = "{name}"
version = "0.1.0"
language = "python"
main = "{module}.{class_}"
summary = "Keeps the lines that contain a text"
# Python packages, such as "numpy>=2"; storlet build puts their wheels into the bundle.
requirements = []

"""
    + _CASES
)

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

_JAVA_TOML = (
    """\
name = "{name}"
version = "0.1.0"
language = "java"
main = "{class_}"
summary = "Keeps the lines that contain a text"
# Java libraries, each "group:artifact:version"; storlet build puts their jars into the bundle.
maven = []

"""
    + _CASES
)

_JAVA_SOURCE = """\
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import org.openstack.storlet.common.IStorlet;
import org.openstack.storlet.common.StorletException;
import org.openstack.storlet.common.StorletInputStream;
import org.openstack.storlet.common.StorletLogger;
import org.openstack.storlet.common.StorletObjectOutputStream;
import org.openstack.storlet.common.StorletOutputStream;

/** Keeps the lines that contain a text. */
public class {class_} implements IStorlet {{
    @Override
    public void invoke(
            ArrayList<StorletInputStream> inputs,
            ArrayList<StorletOutputStream> outputs,
            Map<String, String> parameters,
            StorletLogger logger)
            throws StorletException {{
        StorletInputStream source = inputs.get(0);
        StorletObjectOutputStream target = (StorletObjectOutputStream) outputs.get(0);
        target.setMetadata(new HashMap<>(source.getMetadata()));
        String wanted = parameters.get("text");
        int kept = 0;
        try (BufferedReader lines =
                        new BufferedReader(
                                new InputStreamReader(source.getStream(), StandardCharsets.UTF_8));
                BufferedWriter out =
                        new BufferedWriter(
                                new OutputStreamWriter(
                                        target.getStream(), StandardCharsets.UTF_8))) {{
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {{
                if (line.contains(wanted)) {{
                    kept++;
                    out.write(line + "\\n");
                }}
            }}
        }} catch (IOException cause) {{
            throw new StorletException("reading or writing failed: " + cause.getMessage());
        }}
        logger.emitLog("kept " + kept + " lines");
    }}
}}
"""

_RUST_TOML = (
    """\
name = "{name}"
version = "0.1.0"
language = "native"
main = "{name}"
summary = "Keeps the lines that contain a text"
# storlet build runs this command, and puts these files into the bundle.
build = ["cargo", "build", "--release", "--quiet"]
files = ["target/release/{name}"]

"""
    + _CASES
)

_CARGO = """\
[package]
name = "{name}"
version = "0.1.0"
edition = "2021"

[profile.release]
strip = true
"""

_RUST_SOURCE = """\
//! Keeps the lines that contain a text.
//!
//! The object is standard input, the output standard output, and the log standard error.

use std::io::{self, BufRead, BufWriter, Write};

fn main() -> io::Result<()> {
    let wanted = std::env::var("STORLET_PARAM_text").unwrap_or_default();
    let mut source = io::stdin().lock();
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    let mut kept = 0;
    while source.read_until(b'\\n', &mut line)? > 0 {
        if contains(&line, wanted.as_bytes()) {
            kept += 1;
            out.write_all(&line)?;
        }
        line.clear();
    }
    eprintln!("kept {kept} lines");
    // An error here is an exit status other than 0, and so a failure of the run.
    out.flush()
}

fn contains(line: &[u8], text: &[u8]) -> bool {
    text.is_empty() || line.windows(text.len()).any(|part| part == text)
}
"""

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
_TEXT = " -p text=WORD"
_PARAMETERS = {
    "csv": " -p columns=NAME,NAME",
    "image": " -p width=100 -o small.png",
    "merge": " --resource CONTAINER/OTHER",
    "service": " -p table=/CONTAINER/TABLE",
}
_IGNORED = "dist/\ntarget/\n__pycache__/\n"
_INPUT = "one apple\ntwo pears\nthree apples\n"
_EXPECTED = "one apple\nthree apples\n"


def kinds() -> list[str]:
    """The names of the templates, which each language has."""
    return [FILTER, *sorted(path.name.partition("-")[2] for path in _FOLDER.glob("python-*"))]


def make(folder: Path, language: str = "python", kind: str = FILTER) -> Path:
    """Make a project in the new ``folder``, whose name is that of the storlet.

    Under ``sudo`` in a folder of the user, it belongs to the user.

    :param language: ``python``, ``java``, or ``native``: a project in Rust or C.
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
    if kind == FILTER:
        texts = {**_FILES[language](name, module, class_), **_COMMON}
        files = {path: text.encode("utf-8") for path, text in texts.items()}
    else:
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


_COMMON = {".gitignore": _IGNORED, "sample.txt": _INPUT, "expected.txt": _EXPECTED}


def _python_files(name: str, module: str, class_: str) -> dict[str, str]:
    return {
        MANIFEST: _TOML.format(name=name, module=module, class_=class_),
        f"{SOURCE}/{module}.py": _SOURCE.format(class_=class_),
        "README.md": _README.format(name=name, parameters=_TEXT),
    }


def _java_files(name: str, _module: str, class_: str) -> dict[str, str]:
    return {
        MANIFEST: _JAVA_TOML.format(name=name, class_=class_),
        f"{SOURCE}/{class_}.java": _JAVA_SOURCE.format(class_=class_),
        "README.md": _README.format(name=name, parameters=_TEXT),
    }


def _native_files(name: str, _module: str, _class: str) -> dict[str, str]:
    return {
        MANIFEST: _RUST_TOML.format(name=name),
        "Cargo.toml": _CARGO.format(name=name),
        f"{SOURCE}/main.rs": _RUST_SOURCE,
        "README.md": _README.format(name=name, parameters=_TEXT),
    }


_FILES = {"python": _python_files, "java": _java_files, "native": _native_files}
