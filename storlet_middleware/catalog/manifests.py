"""Manifests of storlets and dependencies: checked at upload and read again at every resolution.

The manifest is the user metadata of the uploaded object (``X-Object-Meta-Storlet-*``).  Objects can
enter the containers unchecked (container sync, an operator's tools, uploads from before the filter
was installed), so every read checks the manifest again, and always refuses names that could leave a
directory.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from storlet_daemon.protocol.messages import SERVICES
from storlet_daemon.runtimes import table
from storlet_daemon.runtimes.language import Language
from storlet_middleware import names
from storlet_middleware.bundle.manifest import SECRET
from storlet_middleware.config import nearest
from storlet_middleware.engine import limits
from storlet_middleware.errors import AccessDenied, fault
from storlet_middleware.records.wish import wish_fault

#: Versions by language.
Languages = Mapping[str, tuple[str, ...]]
_SHOWN: Final = 60  # characters of a long name in a fault
#: A content type without parameters, and the same with ``*`` for any subtype or any type.
_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", re.ASCII)
_TYPES: Final = re.compile(_TYPE.pattern + r"|[\w!#$&^.+-]+/\*|\*/\*", re.ASCII)
MAX_ARGUMENTS: Final = 128
#: The value of :data:`~storlet_middleware.names.META_INPUT`.
SEEKABLE: Final = "seekable"
MAX_NAME_BYTES: Final = 255  # longest file name on Linux: a storlet becomes a file


class ManifestError(ValueError):
    """The manifest is not valid; ``faults`` lists every reason."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@dataclass(frozen=True)
class Manifest:
    """A storlet's manifest.  The row of its language has the form of ``main``.

    ``limits`` are its own, by the names of :data:`storlet_middleware.engine.limits.TABLE`;
    ``records`` is its wish for records of runs, empty without one.  ``services`` are the operations
    on the store that it declares, ``secrets`` the names of the secrets, ``seekable``: it seeks in
    its inputs, ``ranges``: it can give a range of its output."""

    language: str
    main: str
    dependencies: tuple[str, ...] = ()
    language_version: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    records: str = ""
    arguments: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    seekable: bool = False
    ranges: bool = False
    secrets: tuple[str, ...] = ()

    @property
    def is_program(self) -> bool:
        """Whether its files are executed."""
        row = table.language(self.language)
        return row is not None and row.main_is_file


@dataclass(frozen=True)
class ContentTypes:
    """The content types that a storlet declares; a run is not restricted to them.

    :param inputs: accepted types; ``text/*`` is any subtype; empty: not declared.
    :param output: of the output; ``None``: not declared, or that of the input.
    """

    inputs: tuple[str, ...] = ()
    output: str | None = None


@dataclass(frozen=True)
class DependencyManifest:
    """A dependency's manifest; ``permissions`` are the owner's bits, such as ``0o700``."""

    version: str
    permissions: int


def file_name_faults(name: str, what: str) -> list[str]:
    """Why ``name`` cannot be a file name in the code directory; empty if it can."""
    faults = []
    if not name or name in (".", "..") or "/" in name or name.startswith(("-", ".")):
        faults.append(
            f"{what} name {name!r} is not a plain file name (no '/', no leading '-' or '.')"
        )
    if any(ord(char) < 32 or ord(char) == 127 for char in name) or ":" in name or "," in name:
        faults.append(f"{what} name {name!r} has a control character, ':' or ','")
    if len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        faults.append(
            f"{what} name {name[:_SHOWN] + '...'!r} is longer than {MAX_NAME_BYTES} bytes"
        )
    return faults


def read_storlet(name: str, meta: Mapping[str, str], languages: Languages) -> Manifest:
    """The manifest in ``meta`` (header name to text, any case).

    Raises :class:`ManifestError` with all faults.
    """
    values = {key.lower(): value.strip() for key, value in meta.items()}

    def value(header: str) -> str:
        return values.get(header.lower(), "")

    mandatory = (
        names.META_LANGUAGE,
        names.META_INTERFACE_VERSION,
        names.META_OBJECT_METADATA,
        names.META_MAIN,
    )
    faults = [_missing(header) for header in mandatory if not value(header)]
    faults += file_name_faults(name, "Storlet")
    language = value(names.META_LANGUAGE).lower()
    if language and language not in languages:
        wanted = f"Unsupported Language: {language}: this cluster has {', '.join(languages)}"
        faults.append(fault(names.META_LANGUAGE, language, wanted))
    row = table.language(language)
    version = value(names.META_LANGUAGE_VERSION) if row and row.has_version else ""
    if row:
        faults += _version_faults(row, version, languages.get(language, ()))
        faults += _file_faults(row, name)
        faults += _main_faults(row, name, value(names.META_MAIN))
    dependencies = tuple(
        part.strip() for part in value(names.META_DEPENDENCY).split(",") if part.strip()
    )
    faults += _dependency_faults(name, dependencies)
    if row and row.main_is_file:
        faults += _main_file_faults(value(names.META_MAIN), (name, *dependencies))
    arguments, more = _arguments(row, value(names.META_ARGUMENTS))
    faults += more
    own, more = limits.declared(meta, language)
    faults += more
    faults += read_types(meta)[1]
    services, more = read_services(value(names.META_SERVICES), language, value(names.META_MAIN))
    faults += more
    seekable, more = read_input(value(names.META_INPUT), language, value(names.META_MAIN))
    faults += more
    ranges, more = read_ranges(value(names.META_RANGES), language, value(names.META_MAIN))
    faults += more
    secrets, more = read_secrets(value(names.META_SECRETS), language)
    faults += more
    if faults:
        raise ManifestError(faults)
    return Manifest(
        language,
        value(names.META_MAIN),
        dependencies,
        version,
        own,
        value(names.META_RECORDS),
        arguments,
        services,
        seekable,
        ranges,
        secrets,
    )


def read_input(text: str, language: str, main: str) -> tuple[bool, list[str]]:
    """Whether a value of metadata declares seekable inputs, and its faults.

    :param main: of the storlet: not each form of a language has such inputs.
    """
    if not text:
        return False, []
    wanted = _fault_of_seeking(language, main)
    if not wanted and text.lower() != SEEKABLE:
        wanted = f"want {SEEKABLE}, or leave it out{nearest(text.lower(), [SEEKABLE])}"
    return not wanted, [fault(names.META_INPUT, text, wanted)] if wanted else []


def read_ranges(text: str, language: str, main: str) -> tuple[bool, list[str]]:
    """Whether a value of metadata declares ranges of the output, and its faults.

    The storlet seeks in its input for them.
    """
    if text.lower() in ("", "false"):
        return False, []
    wanted = _fault_of_seeking(language, main)
    if not wanted and text.lower() != "true":
        wanted = "want true or false, or leave it out"
    return not wanted, [fault(names.META_RANGES, text, wanted)] if wanted else []


def _fault_of_seeking(language: str, main: str) -> str:
    """Why storlets of this language and form cannot seek in their inputs; empty if they can."""
    row = table.language(language)
    if row is None:
        return ""
    if not row.has_seekable_inputs:
        return f"{row.title} storlets have no seekable inputs yet: leave it out"
    return row.fault_of_form(main, "seekable inputs")


def read_services(text: str, language: str, main: str) -> tuple[tuple[str, ...], list[str]]:
    """The services in a value of metadata, in the order of their table, and the faults.

    :param main: of the storlet: not each form of a language has services.
    """
    row = table.language(language)
    if text and row is not None and not row.has_services:
        wanted = f"{row.title} storlets have no services yet: leave it out"
        return (), [fault(names.META_SERVICES, text, wanted)]
    lacking = row.fault_of_form(main, "services") if row is not None and text else ""
    if lacking:
        return (), [fault(names.META_SERVICES, text, lacking)]
    given = [part.strip().lower() for part in text.split(",") if part.strip()]
    faults = [
        fault(
            names.META_SERVICES,
            each,
            f"unknown service: want {', '.join(SERVICES)}{nearest(each, list(SERVICES))}",
        )
        for each in dict.fromkeys(given)
        if each not in SERVICES
    ]
    return tuple(each for each in SERVICES if each in given), faults


def read_secrets(text: str, language: str) -> tuple[tuple[str, ...], list[str]]:
    """The names of secrets in a value of metadata, each once, and the faults."""
    row = table.language(language)
    if text and row is not None and not row.has_secrets:
        wanted = f"{row.title} storlets have no secrets yet: leave it out"
        return (), [fault(names.META_SECRETS, text, wanted)]
    given = tuple(dict.fromkeys(_parts(text)))
    faults = [
        fault(names.META_SECRETS, each, wrong)
        for each in given
        if (wrong := names.secret_name_fault(each))
    ]
    if len(given) > names.MOST_SECRETS:
        wanted = f"want at most {names.MOST_SECRETS} names"
        faults.append(fault(names.META_SECRETS, text, wanted))
    return given, faults


def secrets_in(meta: Mapping[str, str]) -> list[str]:
    """The names of secrets in a storlet's metadata (header names in any case)."""
    texts = (text for key, text in meta.items() if key.lower() == names.META_SECRETS.lower())
    return [part for text in texts for part in _parts(text)]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def require_owner_of_secrets(
    secrets: Iterable[str], parameters: Mapping[str, Mapping[str, Any]], *, is_owner: bool
) -> None:
    """Refuse code with secrets from a writer of the storlet container that is no owner.

    Its code could send a value to its output.  A parameter of the type ``secret`` counts, because
    a rule that names a secret in it may exist.
    """
    has_parameter = any(row.get("type") == SECRET for row in parameters.values())
    if not is_owner and (has_parameter or any(secrets)):
        raise AccessDenied(
            "only an owner of the account uploads or changes a storlet that declares secrets, or a"
            f" parameter of the type {SECRET}"
        )


def records_faults(meta: Mapping[str, str]) -> list[str]:
    """The fault of the wish for records, at an upload; later, a wrong one is ignored."""
    values = {key.lower(): value for key, value in meta.items()}
    found = wish_fault(names.META_RECORDS, values.get(names.META_RECORDS.lower(), ""))
    return [found] if found else []


def read_types(meta: Mapping[str, str]) -> tuple[ContentTypes, list[str]]:
    """The content types in a storlet's metadata (header names in any case), and their faults."""
    values = {key.lower(): value.strip() for key, value in meta.items()}
    listed = values.get(names.META_INPUT_TYPE.lower(), "").split(",")
    inputs = tuple(part.strip().lower() for part in listed if part.strip())
    output = values.get(names.META_OUTPUT_TYPE.lower(), "").lower()
    faults = [
        fault(
            names.META_INPUT_TYPE,
            each,
            "want content types with commas, such as text/csv or image/*, without parameters",
        )
        for each in inputs
        if not _TYPES.fullmatch(each)
    ]
    if output and not _TYPE.fullmatch(output):
        wanted = "want one content type, such as text/csv, without parameters"
        faults.append(fault(names.META_OUTPUT_TYPE, output, wanted))
    return ContentTypes(inputs, output or None) if not faults else ContentTypes(), faults


def _missing(header: str) -> str:
    name = header.removeprefix(names.STORLET_META)
    return f"Mandatory parameter is missing: {name}: send the header {header}"


def _version_faults(row: Language, version: str, supported: tuple[str, ...]) -> list[str]:
    """A major version alone selects any of its supported minor versions."""
    if not version:
        return []
    key = names.META_LANGUAGE_VERSION
    if not re.fullmatch(r"\d+(\.\d+)?", version):
        wanted = f"Language-Version is invalid: want a number, one of {', '.join(supported)}"
        return [fault(key, version, wanted)]
    if version not in supported and version not in {each.partition(".")[0] for each in supported}:
        these = ", ".join(supported)
        wanted = f"Not supported version specified: this cluster has {row.title} {these}"
        return [fault(key, version, wanted)]
    return []


def _file_faults(row: Language, name: str) -> list[str]:
    if row.file_name.fullmatch(name):
        return []
    return [f"Storlet name is incorrect: {name[:_SHOWN]!r}: {row.file_rule}"]


def _main_faults(row: Language, name: str, main: str) -> list[str]:
    if not main:
        return []
    wanted = ""
    if row.main_is_in_file:
        if not row.file_name.fullmatch(name):
            return []
        module = name.rpartition(".")[0]
        if not main.startswith(module + "."):
            wanted = f"Main class should be included in storlet file: want {module}.<class>"
        elif main.count(".") != 1:
            wanted = f"Submodule is currently not supported: want {module}.<class>"
    if not wanted and not row.main.fullmatch(main):
        wanted = f"Main is incorrect: want {row.main_rule}"
    return [fault(names.META_MAIN, main, wanted)] if wanted else []


def _main_file_faults(main: str, files: tuple[str, ...]) -> list[str]:
    """``main`` names a file of the storlet."""
    file = main.partition(":")[0]
    if not main or file in files:
        return []
    wanted = "want the name of the storlet or of a dependency: one of " + ", ".join(files)
    return [fault(names.META_MAIN, main, wanted)]


def _arguments(row: Language | None, text: str) -> tuple[tuple[str, ...], list[str]]:
    """The words of ``Arguments``, and their faults."""
    if not text or row is None:
        return (), []
    if not row.has_arguments:
        takers = " and ".join(each.name for each in table.LANGUAGES if each.has_arguments)
        return (), [fault(names.META_ARGUMENTS, text, f"only {takers} storlets have arguments")]
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        wanted = f"want words as in a shell: {str(error).lower()}"
        return (), [fault(names.META_ARGUMENTS, text, wanted)]
    if len(words) > MAX_ARGUMENTS:
        return (), [fault(names.META_ARGUMENTS, text, f"want at most {MAX_ARGUMENTS} words")]
    return words, []


def _dependency_faults(name: str, dependencies: tuple[str, ...]) -> list[str]:
    key = names.META_DEPENDENCY
    faults = []
    if name in dependencies:
        wanted = "Using the same name for storlet and dependency is not allowed: rename one"
        faults.append(fault(key, name, wanted))
    once = dict.fromkeys(dependencies)
    faults += [
        fault(key, each, "Duplicated name in dependencies: name it once")
        for each in once
        if dependencies.count(each) > 1
    ]
    for dependency in once:
        faults += [f"{key}: {each}" for each in file_name_faults(dependency, "Dependency")]
    return faults


def read_dependency(name: str, meta: Mapping[str, str]) -> DependencyManifest:
    """The manifest of a dependency; raises :class:`ManifestError` with all faults."""
    values = {key.lower(): value.strip() for key, value in meta.items()}
    faults = file_name_faults(name, "Dependency")
    version = values.get(names.META_DEPENDENCY_VERSION.lower(), "")
    if not version:
        faults.append(_missing(names.META_DEPENDENCY_VERSION))
    raw = values.get(names.META_DEPENDENCY_PERMISSIONS.lower()) or "0600"
    permissions = 0o600
    if not re.fullmatch(r"(0o)?[0-7]{1,5}", raw):
        wanted = "Dependency permission is incorrect: want octal digits such as 0600 or 0700"
        faults.append(fault(names.META_DEPENDENCY_PERMISSIONS, raw, wanted))
    else:
        permissions = int(raw.removeprefix("0o"), 8) & 0o700
        if permissions & 0o600 != 0o600:
            wanted = "The owner should have rw permission: want 0600 or 0700"
            faults.append(fault(names.META_DEPENDENCY_PERMISSIONS, raw, wanted))
    if faults:
        raise ManifestError(faults)
    return DependencyManifest(version, permissions)
