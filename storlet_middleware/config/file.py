"""Reads ``storlet.conf`` into a :class:`~storlet_middleware.config.sections.Config`.

All faults of a file are reported at once, as one :class:`ConfigError`; no option silently gets its
default because its value cannot be used.
"""

from __future__ import annotations

import configparser
import difflib
import socket
from pathlib import Path
from typing import Any, Final

from storlet_middleware import names
from storlet_middleware.config.option import Option, fields_of
from storlet_middleware.config.sections import (
    ADMIN_CLASS,
    CLASS_OPTIONS,
    CLASSES,
    LOWERABLE,
    OPTIONS,
    SECTIONS,
    USER_CLASS,
    Config,
    InvocationSection,
    LimitsSection,
    TrustClass,
    options_named,
)

DEFAULT_PATH: Final = "/etc/swift/storlet.conf"
_IMAGE_SECTION: Final = "image:"

#: Values by section and option.
_Values = dict[str, dict[str, Any]]


class ConfigError(ValueError):
    """The file cannot be used; the text lists every fault, one a line."""


def load(path: str = DEFAULT_PATH) -> Config:
    """Read the file at ``path``; a missing file is a fault, not a set of defaults."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(Path(path).absolute()))


def parse(text: str, path: str = "") -> Config:
    """Read options from ``text``; raises :class:`ConfigError` with every fault."""
    parser = configparser.ConfigParser(
        interpolation=None, inline_comment_prefixes=None, default_section="\0none"
    )
    try:
        parser.read_string(text, source=path or "<string>")
    except configparser.Error as error:
        raise ConfigError(str(error)) from error
    faults = _unknown_names(parser)
    values: _Values = {section: {} for section in SECTIONS}
    for row in OPTIONS:
        raw = parser.get(row.section, row.name, fallback=row.default)
        values[row.section][row.name] = _read(row, raw, row.section, faults)
    if not faults:
        faults += _out_of_bounds(values)
        _fit_defaults(parser, values["limits"])
        faults += _contradictions(values)
    classes = {name: _trust_class(parser, name, values, faults) for name in CLASSES}
    images = _images(parser, faults)
    if faults:
        raise ConfigError("\n".join(f"{path or 'options'}: {fault}" for fault in faults))
    values["sandbox"]["node_id"] = values["sandbox"]["node_id"] or socket.gethostname()
    sections = {name: cls(**_fields(name, values)) for name, cls in SECTIONS.items()}
    lowered = {name: trust_class for name, trust_class in classes.items() if trust_class}
    return Config(path=path, classes=lowered, images=images, **sections)


def nearest(name: str, known: list[str]) -> str:
    """``; did you mean X?`` for the known name most like ``name``, else an empty string."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def _read(row: Option, raw: str, section: str, faults: list[str]) -> Any:
    try:
        return row.kind.read(raw)
    except ValueError as error:
        faults.append(f"[{section}] {row.name} = {raw}: {error}")
        return None


def _fields(section: str, values: _Values) -> dict[str, Any]:
    return fields_of(options_named(section), values[section])


def _unknown_names(parser: configparser.ConfigParser) -> list[str]:
    faults = []
    known = {section: [row.name for row in options_named(section)] for section in SECTIONS}
    of_class = [row.name for row in (*CLASS_OPTIONS, *LOWERABLE)]
    known |= {f"class:{name}": of_class for name in CLASSES}
    known |= {name: ["image"] for name in parser.sections() if name.startswith(_IMAGE_SECTION)}
    for section in parser.sections():
        if section not in known:
            faults.append(f"unknown section [{section}]{nearest(section, list(known))}")
            continue
        faults += [
            f"[{section}] unknown option {name}{nearest(name, known[section])}"
            for name in parser.options(section)
            if name not in known[section]
        ]
    return faults


def _out_of_bounds(values: _Values) -> list[str]:
    return [
        f"[{row.section}] {row.name}: {fault}"
        for row in OPTIONS
        if (fault := row.fault(values[row.section][row.name]))
    ]


def _fit_defaults(parser: configparser.ConfigParser, limits: dict[str, Any]) -> None:
    """A small sandbox lowers the defaults of one storlet in it."""
    for row in options_named("limits"):
        if row.part_of and not parser.has_option("limits", row.name):
            limits[row.name] = min(limits[row.name], limits[row.part_of])


def _contradictions(values: _Values) -> list[str]:
    faults = []
    containers = [
        values["storlet"][f"{name}_container"] for name in ("storlet", "dependency", "log")
    ]
    if len(set(containers)) < len(containers) or any(not c or "/" in c for c in containers):
        faults.append("[storlet] the three containers need three different names without '/'")
    rules = values["rules"]["container"]
    if not rules or "/" in rules or rules in containers:
        faults.append(
            "[rules] container: want a name without '/' that is none of the containers in [storlet]"
        )
    limits = values["limits"]
    faults += [
        f"[limits] {row.name} is more than {row.part_of}, which is the whole sandbox's"
        for row in options_named("limits")
        if row.part_of and limits[row.name] > limits[row.part_of]
    ]
    node = values["node"]["memory"]
    if isinstance(node, int) and 0 < node < limits["memory_bytes"]:
        faults.append(
            "[limits] memory_bytes is more than [node] memory, which is all sandboxes' together"
        )
    return faults


def _trust_class(
    parser: configparser.ConfigParser, name: str, values: _Values, faults: list[str]
) -> TrustClass | None:
    """``[class:<name>]`` over the node's values; ``None`` when the file has any fault."""
    section = f"class:{name}"
    own: dict[str, Any] = {}
    for row in CLASS_OPTIONS:
        raw = parser.get(section, row.name, fallback=row.default)
        if row.is_admin_only and name != ADMIN_CLASS and raw != row.default:
            faults.append(f"[{section}] {row.name}: only [class:{ADMIN_CLASS}] may have it")
        own[row.name] = _read(row, raw, section, faults)
    own["runtime"] = own["runtime"] or values["sandbox"].get("runtime", "")
    faults += [
        f"[{section}] storlets = {entry}: want account/name"
        for entry in own["storlets"] or ()
        if not all(entry.partition("/")) or entry.count("/") > 1
    ]
    faults += [
        f"[{section}] storlets = {entry}: a storlet of the library is of class {USER_CLASS}"
        for entry in own["storlets"] or ()
        if names.is_library(entry.partition("/")[2])
    ]
    lowered = _lowered(parser, section, values, faults)
    if faults:
        return None
    limits = lowered["limits"]
    for row in options_named("limits"):
        if row.part_of:
            limits[row.name] = min(limits[row.name], limits[row.part_of])
    return TrustClass(
        name,
        LimitsSection(**_fields("limits", lowered)),
        InvocationSection(**_fields("invocation", lowered)),
        **own,
    )


def _lowered(
    parser: configparser.ConfigParser, section: str, values: _Values, faults: list[str]
) -> _Values:
    """The node's limits, as far as the class in ``section`` does not lower them."""
    lowered = {row.section: dict(values[row.section]) for row in LOWERABLE}
    for row in LOWERABLE:
        if not parser.has_option(section, row.name):
            continue
        value = _read(row, parser.get(section, row.name), section, faults)
        node = values[row.section].get(row.name)
        if value is not None and node is not None and row.is_raised(value, node):
            faults.append(
                f"[{section}] {row.name} is more than [{row.section}] {row.name} = {node:g}"
            )
        elif value is not None and (fault := row.fault(value)):
            faults.append(f"[{section}] {row.name}: {fault}")
        lowered[row.section][row.name] = value
    return lowered


def _images(parser: configparser.ConfigParser, faults: list[str]) -> dict[str, str]:
    images = {}
    for section in parser.sections():
        if section.startswith(_IMAGE_SECTION):
            image = parser.get(section, "image", fallback="").strip()
            if not image:
                faults.append(f"[{section}] image: want the name of a Docker image")
            images[section.removeprefix(_IMAGE_SECTION)] = image
    return images
