"""Entries of ``clouds.yaml``, with ``secure.yaml`` beside it.

The first of these files counts: ``OS_CLIENT_CONFIG_FILE``, ``./clouds.yaml``,
``~/.config/openstack/clouds.yaml``, ``/etc/openstack/clouds.yaml``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from storlet_client.errors import ConfigurationError

_FILE = "clouds.yaml"
_SECURE = "secure.yaml"
#: Text of the file in an error of YAML, such as a tag or an alias; no name of a token.
_QUOTED = re.compile(r"""'(?!<)[^']{3,}'|"[^"]{3,}\"""")


def find(name: str, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The entry ``name``.

    :raises ConfigurationError: there is no file, no such entry, or the file cannot be read.  The
        error has no text of the file, which may be a secret.
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
    secrets = _entry(secure, _read(secure), name) if secure.is_file() else {}
    return _merged(_entry(file, clouds, name), secrets)


def _entry(file: Path, clouds: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An entry of one file; empty if it is missing there."""
    entry = clouds.get(name) or {}
    auth = entry.get("auth") or {} if isinstance(entry, dict) else None
    if not isinstance(auth, dict):
        what = "it" if auth is None else "its 'auth'"
        raise ConfigurationError([f"{file}: cloud {name}: {what} is no mapping"])
    return {**entry, "auth": auth}


def _places(environ: Mapping[str, str]) -> list[Path]:
    given = environ.get("OS_CLIENT_CONFIG_FILE")
    if given:
        return [Path(given)]
    folders = (Path(), Path(environ.get("HOME", "~")) / ".config/openstack", Path("/etc/openstack"))
    return [folder / _FILE for folder in folders]


def _read(file: Path) -> dict[str, Any]:
    try:
        text = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:  # its text has the line of the file
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = _QUOTED.sub("...", error.problem or "invalid YAML")
        raise ConfigurationError([f"{file}{place}: {problem}"]) from None
    except UnicodeDecodeError:
        raise ConfigurationError([f"{file}: not UTF-8"]) from None
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError([f"{file}: {' '.join(str(error).split())}"]) from None
    clouds: Any | None = text.get("clouds") if isinstance(text, dict) else None
    if not isinstance(clouds, dict):
        raise ConfigurationError([f"{file}: it has no mapping 'clouds'"])
    return {str(name): entry for name, entry in clouds.items()}


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        known = merged.get(key)
        is_deeper = isinstance(known, dict) and isinstance(value, dict)
        merged[key] = _merged(known or {}, value) if is_deeper else value
    return merged
