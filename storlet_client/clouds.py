"""Entries of ``clouds.yaml``, with ``secure.yaml`` beside it.

The first of these files counts: ``OS_CLIENT_CONFIG_FILE``, ``./clouds.yaml``,
``~/.config/openstack/clouds.yaml``, ``/etc/openstack/clouds.yaml``.

An entry may have a ``profile``: an entry of ``clouds-public.yaml``, whose values count where its
own are missing.  That file is ``OS_CLIENT_VENDOR_FILE``, or in one of the same folders.  A profile
that is part of openstacksdk, or at a URL, is unknown here, which is an error if the entry has no
``auth_url``.
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
_PUBLIC = "clouds-public.yaml"
#: Text of the file in an error of YAML, such as a tag or an alias; no name of a token.
_QUOTED = re.compile(r"""'(?!<)[^']{3,}'|"[^"]{3,}\"""")


def find(name: str, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The entry ``name``.

    :raises ConfigurationError: there is no file, no such entry, or the file cannot be read.  The
        error has no text of the file, which may be a secret.
    """
    places = _places(environ, "OS_CLIENT_CONFIG_FILE", _FILE)
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
    entry = _merged(_entry(file, clouds, name), secrets)
    profile = entry.get("profile") or entry.get("cloud")  # its older name
    if not profile:
        return entry
    return _merged(_profile(str(profile), entry, f"{file}: cloud {name}", environ), entry)


def _profile(
    name: str, entry: Mapping[str, Any], where: str, environ: Mapping[str, str]
) -> Mapping[str, Any]:
    """The values of the profile of an entry; empty if it is unknown and the entry needs none.

    :param where: the entry, for errors.
    :raises ConfigurationError: it is unknown, and the entry has no URL.
    """
    places = _places(environ, "OS_CLIENT_VENDOR_FILE", _PUBLIC)
    file = next((place for place in places if place.is_file()), None)
    known = _read(file, "public-clouds") if file is not None else {}
    if file is not None and name in known:
        return _entry(file, known, name)
    if entry["auth"].get("auth_url"):
        return {}
    searched = f"{file} has none" if file else f"there is no {' or '.join(map(str, places))}"
    remedy = "write its auth_url and its other values into the entry"
    raise ConfigurationError([f"{where}: profile {name} is unknown: {searched}: {remedy}"])


def _entry(file: Path, clouds: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An entry of one file; empty if it is missing there."""
    entry = clouds.get(name) or {}
    auth = entry.get("auth") or {} if isinstance(entry, dict) else None
    if not isinstance(auth, dict):
        what = "it" if auth is None else "its 'auth'"
        raise ConfigurationError([f"{file}: cloud {name}: {what} is no mapping"])
    return {**entry, "auth": auth}


def _places(environ: Mapping[str, str], variable: str, name: str) -> list[Path]:
    """The files that are searched: that of a variable, or those of a name."""
    given = environ.get(variable)
    if given:
        return [Path(given)]
    folders = (Path(), Path(environ.get("HOME", "~")) / ".config/openstack", Path("/etc/openstack"))
    return [folder / name for folder in folders]


def _read(file: Path, key: str = "clouds") -> dict[str, Any]:
    """The mapping ``key`` of a file."""
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
    clouds: Any | None = text.get(key) if isinstance(text, dict) else None
    if not isinstance(clouds, dict):
        raise ConfigurationError([f"{file}: it has no mapping '{key}'"])
    return {str(name): entry for name, entry in clouds.items()}


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        known = merged.get(key)
        is_deeper = isinstance(known, dict) and isinstance(value, dict)
        merged[key] = _merged(known or {}, value) if is_deeper else value
    return merged
