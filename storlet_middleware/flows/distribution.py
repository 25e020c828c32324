"""The body of a request for ``std:distributed``, parsed once into a frozen value.

::

    {"objects": {"container": "logs", "prefix": "2026-07/", "suffix": ".log"},
     "split": {"storlet": "std:grep", "parameters": {"pattern": "WARN", "count": true}},
     "merge": {"storlet": "std:sum"},
     "concurrency": 8, "on-failure": "fail", "output": "/results/warnings.txt"}

All faults are reported in one answer, and unknown keys with the nearest known one.  One body must
not occupy a server process, so all that is not a list of objects is small.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from storlet_middleware.concurrency import Pace
from storlet_middleware.config import Config, nearest
from storlet_middleware.errors import BadRequest, fault
from storlet_middleware.flows.sequence import (
    MOST_FAULTS,
    joined,
    json_of,
    limits_of,
    parameters_of,
    storlet_fault,
)
from storlet_middleware.wsgi.storlet_request import ObjectPath, reserved_containers
from storlet_middleware.wsgi.swift_paths import name_fault

_KEYS: Final = (
    "objects",
    "split",
    "merge",
    "order",
    "concurrency",
    "parts",
    "on-failure",
    "output",
)
_SELECTION: Final = ("container", "prefix", "suffix", "glob", "metadata", "manifest")
_STORLET: Final = ("storlet", "parameters", "limits")
LISTING, ARRIVAL = "listing", "arrival"
CONCATENATE: Final = "concat"
#: All of a body but a list of objects.
_MOST_CHARACTERS: Final = 64 << 10
_SHOWN_CHARACTERS: Final = 80
#: Each value of JSON has one of these before it, and a million of them take half a second, in which
#: the process does nothing else.  Names of objects may have some, too.
_SIGNS: Final = (b"[", b"{", b",")
_MOST_SIGNS: Final = 200_000
#: The longest name of an object in Swift.
_NAME_BYTES: Final = 1024
#: Keys of user metadata; Swift's default maximum for an object.
_MOST_METADATA: Final = 90


@dataclass(frozen=True)
class Part:
    """A storlet of the flow; ``limits`` as they are written in headers."""

    storlet: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Selection:
    """The objects of a container that the caller may list.

    ``metadata`` are values of user metadata that an object must have, by key.
    """

    container: str
    prefix: str = ""
    suffix: str = ""
    glob: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Distribution:
    """See the module.

    :param objects: paths; an object with one path a line; or a part of a container.
    :param merge: ``None`` without a merge.
    :param order: of the results; empty: the client chose none.
    :param concurrency: objects that are worked on at the same time.
    :param parts: of each object; 0: objects are read whole.
    :param output: the object that the result becomes; ``None``: the result is the answer.
    :param has_effects: the split's storlet can act outside of its sandbox, so a split that may have
        run is not repeated.
    """

    objects: tuple[ObjectPath, ...] | ObjectPath | Selection
    split: Part
    merge: Part | None = None
    is_concatenated: bool = False
    order: str = ""
    concurrency: int = 1
    parts: int = 0
    reports_failures: bool = False
    output: ObjectPath | None = None
    has_effects: bool = False


def parse(body: bytes, config: Config, account: str) -> Distribution:
    """The distribution in a request's body.

    :raises BadRequest: with all faults.
    """
    if sum(map(body.count, _SIGNS)) > _MOST_SIGNS:
        raise BadRequest(
            f"the body: more than {_MOST_SIGNS} commas and brackets: list fewer objects"
        )
    try:
        document = json_of(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body: {error}: want a JSON object with objects and split") from None
    if not isinstance(document, dict):
        raise BadRequest("the body: want a JSON object with objects and split")
    listed = isinstance(document.get("objects"), list)
    small = {key: value for key, value in document.items() if not (listed and key == "objects")}
    if len(json.dumps(small, ensure_ascii=False)) > _MOST_CHARACTERS:
        raise BadRequest(
            f"the body: more than {_MOST_CHARACTERS} characters besides a list of objects"
        )
    return _Parser(document, config, account).parse()


def path_of(text: Any) -> ObjectPath:
    """``/container/object`` as text, not quoted; raises ``ValueError``."""
    container, _, name = str(text).removeprefix("/").partition("/")
    wrong = name_fault(container, name) if isinstance(text, str) else "want /container/object"
    if wrong:
        raise ValueError(f"{repr(text)[:_SHOWN_CHARACTERS]}: {wrong}")
    return ObjectPath(container, name)


class _Parser:
    def __init__(self, document: Mapping[str, Any], config: Config, account: str) -> None:
        self._document = document
        self._config = config
        self._account = account
        self._faults: list[str] = []

    def parse(self) -> Distribution:
        document = self._document
        self._refuse_unknown("", document, _KEYS)
        merge = document.get("merge")
        is_concatenated = merge == CONCATENATE
        split = self._part("split", document.get("split"))
        parsed = Distribution(
            objects=self._objects(document.get("objects")),
            split=split,
            merge=None if merge is None or is_concatenated else self._part("merge", merge),
            is_concatenated=is_concatenated,
            order=self._one_of("order", "", (LISTING, ARRIVAL)),
            concurrency=self._concurrency(),
            parts=self._parts(),
            reports_failures=self._one_of("on-failure", "fail", ("fail", "report")) == "report",
            output=self._output(document.get("output")),
            has_effects=self._config.class_of(self._account, split.storlet).has_effects,
        )
        if parsed.reports_failures and merge is not None:
            self._faults.append(
                "on-failure: 'report': only without merge: a merged result without some of its"
                " parts would look complete"
            )
        if parsed.merge is not None and parsed.order:
            self._faults.append("order: a merge gets the results in the order of the listing")
        if self._faults:
            raise BadRequest(joined(self._faults))
        return parsed

    # --- objects ----------------------------------------------------------------------------------

    def _objects(self, given: Any) -> tuple[ObjectPath, ...] | ObjectPath | Selection:
        if isinstance(given, list):
            return self._paths(given)
        if not isinstance(given, dict) or ("container" in given) == ("manifest" in given):
            self._faults.append(
                "objects: want a list of /container/object, an object with container, or one with"
                " manifest"
            )
            return ()
        self._refuse_unknown("objects.", given, _SELECTION)
        if "manifest" in given:
            self._faults += [
                f"objects.{key}: not with manifest" for key in given if key in _SELECTION[:-1]
            ]
            return self._path("objects.manifest", given["manifest"])
        return self._selection(given)

    def _paths(self, given: list[Any]) -> tuple[ObjectPath, ...]:
        most = self._config.library.distributed_objects
        if not 1 <= len(given) <= most:
            self._faults.append(f"objects: {len(given)} objects: want 1 to {most}")
            return ()
        paths, pace = [], Pace()
        for index, text in enumerate(given):
            paths.append(self._path(f"objects.{index}", text))
            pace.pause()
        return tuple(paths)

    def _path(self, where: str, text: Any) -> ObjectPath:
        try:
            return path_of(text)
        except ValueError as error:
            self._faults.append(f"{where}: {error}")
            return ObjectPath("", "")

    def _selection(self, given: Mapping[str, Any]) -> Selection:
        texts = {key: given.get(key, "") for key in _SELECTION[:4]}
        self._faults += [
            f"objects.{key}: {text!r}: want a text"
            for key, text in texts.items()
            if not isinstance(text, str)
        ]
        self._faults += [
            f"objects.{key}: more than {_NAME_BYTES} bytes, which no name has"
            for key, text in texts.items()
            if isinstance(text, str) and len(text.encode()) > _NAME_BYTES
        ]
        container = str(texts["container"])
        wrong = name_fault(container)
        if wrong:
            self._faults.append(fault("objects.container", container, wrong))
        metadata = given.get("metadata", {})
        if not isinstance(metadata, dict) or not all(
            isinstance(each, str) for each in metadata.values()
        ):
            self._faults.append("objects.metadata: want an object with texts")
            metadata = {}
        if len(metadata) > _MOST_METADATA:
            self._faults.append(f"objects.metadata: more than {_MOST_METADATA} keys")
        return Selection(**{key: str(text) for key, text in texts.items()}, metadata=metadata)

    # --- the rest ---------------------------------------------------------------------------------

    def _output(self, given: Any) -> ObjectPath | None:
        if given is None:
            return None
        output = self._path("output", given)
        if output.container in reserved_containers(self._config):
            wanted = f"no result is stored in {output.container}: choose another container"
            self._faults.append(fault("output", str(given), wanted))
        return output

    def _part(self, where: str, given: Any) -> Part:
        part = {"storlet": given} if isinstance(given, str) else given
        if not isinstance(part, dict):
            self._faults.append(f"{where}: want a name, or an object with storlet")
            return Part("")
        self._refuse_unknown(f"{where}.", part, _STORLET)
        storlet = part.get("storlet")
        if storlet_fault(storlet):
            self._faults.append(f"{where}.storlet: {storlet_fault(storlet)}")
        parameters, faults = parameters_of(part.get("parameters", {}))
        _, more = limits_of(part.get("limits", {}), self._config, self._account, str(storlet))
        self._faults += [f"{where}: {each}" for each in faults + more]
        limits = part.get("limits", {})
        texts = {name: str(text) for name, text in limits.items()} if not more else {}
        return Part(str(storlet), parameters, texts)

    def _one_of(self, key: str, default: str, known: tuple[str, ...]) -> str:
        value = self._document.get(key, default)
        if value not in (default, *known):  # a value of JSON need not be hashable
            self._faults.append(fault(key, str(value), f"want {' or '.join(known)}"))
        return str(value)

    def _concurrency(self) -> int:
        most = self._config.library.distributed_concurrency
        value = self._document.get("concurrency", most)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            self._faults.append(fault("concurrency", str(value), f"want 1 to {most}"))
            return 1
        return value

    def _parts(self) -> int:
        most = self._config.library.distributed_objects
        value = self._document.get("parts", 0)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if "parts" in self._document and not (is_number and 1 <= value <= most):
            self._faults.append(fault("parts", str(value), f"want 1 to {most}"))
            return 0
        return int(value)

    def _refuse_unknown(self, where: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
        unknown = [key for key in given if key not in known]
        self._faults += [
            f"{where}{key}: unknown{nearest(key, list(known))}" for key in unknown[:MOST_FAULTS]
        ]
