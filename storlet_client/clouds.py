"""Entries of ``clouds.yaml``, with ``secure.yaml`` beside it.

The first of these files counts: ``OS_CLIENT_CONFIG_FILE``, ``./clouds.yaml``,
``~/.config/openstack/clouds.yaml``, ``/etc/openstack/clouds.yaml``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from storlet_client.errors import ConfigurationError

_FILE = "clouds.yaml"
_SECURE = "secure.yaml"


def find(name: str, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The entry ``name``.

    :raises ConfigurationError: there is no file, no such entry, or the file cannot be read.
    """
    places = _places(environ)
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        searched = ", ".join(map(str, places))
        raise ConfigurationError([f"cloud {name}: there is no {_FILE}: searched {searched}"])
    clouds = _read(file)
    if name not in clouds:
        near = difflib.get_close_matches(name, clouds, 1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(clouds) or 'none'}"
        raise ConfigurationError([f"{file} has no cloud {name}: {hint}"])
    secure = file.with_name(_SECURE)
    secrets = _read(secure).get(name, {}) if secure.is_file() else {}
    return _merged(clouds[name] or {}, secrets)


def _places(environ: Mapping[str, str]) -> list[Path]:
    given = environ.get("OS_CLIENT_CONFIG_FILE")
    if given:
        return [Path(given)]
    folders = (Path(), Path(environ.get("HOME", "~")) / ".config/openstack", Path("/etc/openstack"))
    return [folder / _FILE for folder in folders]


def _read(file: Path) -> dict[str, Any]:
    try:
        text = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError([f"{file}: {' '.join(str(error).split())}"]) from None
    clouds: Any | None = text.get("clouds") if isinstance(text, dict) else None
    if not isinstance(clouds, dict):
        raise ConfigurationError([f"{file}: it has no mapping 'clouds'"])
    return clouds


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        known = merged.get(key)
        is_deeper = isinstance(known, dict) and isinstance(value, dict)
        merged[key] = _merged(known or {}, value) if is_deeper else value
    return merged
