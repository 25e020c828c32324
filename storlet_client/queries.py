"""SQL over one object, or over the objects of a container, where the data are.

The storlets ``std:sql`` and ``std:sql-parquet`` of the system library run the query, and
``std:sql-merge`` merges the partial results of many objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from storlet_client import operations
from storlet_client.errors import ConfigurationError
from storlet_client.exchange import Answer, Flow
from storlet_client.operations import Invocation
from storlet_client.session import Session

SQL, PARQUET, MERGE = "std:sql", "std:sql-parquet", "std:sql-merge"
OUTPUTS = ("csv", "jsonl", "parquet", "arrow")
#: Formats by the suffix of an object; CSV has any other one.
FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4")


@dataclass(frozen=True)
class SqlQuery:
    """A query.

    :param text: one ``SELECT`` from the table ``input``.
    :param path: ``container/object``; a container, or a prefix that ends with a slash, is all the
        objects in it.
    :param parameters: of the storlet, such as ``delimiter``.  ``format`` is that of the objects:
        one of the storlet's, or ``parquet``; by the suffix of the name if it is missing.
    :param output: one of :data:`OUTPUTS`.
    :param suffix: the end of the names of the objects.
    :param glob: the pattern of their names.
    :raises ConfigurationError: with all faults.
    """

    text: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    output: str = "csv"
    suffix: str = ""
    glob: str = ""

    def __post_init__(self) -> None:
        faults = []
        if not self.text.strip():
            faults.append("the query is empty: want a SELECT from the table input")
        if not self.container:
            faults.append(f"{self.path!r}: want CONTAINER/OBJECT, CONTAINER or CONTAINER/PREFIX/")
        if self.output not in OUTPUTS:
            faults.append(f"output {self.output!r}: want one of {', '.join(OUTPUTS)}")
        if not self.is_of_many and (self.suffix or self.glob):
            faults.append("suffix and glob select objects of a container: leave out the object")
        faults += [
            f"parameter {name!r}: is given otherwise"
            for name in ("query", "output")
            if name in self.parameters
        ]
        if faults:
            raise ConfigurationError(faults)

    @property
    def container(self) -> str:
        """The container."""
        return self.path.lstrip("/").partition("/")[0]

    @property
    def prefix(self) -> str:
        """The name of the object, or the start of the names of all."""
        return self.path.lstrip("/").partition("/")[2]

    @property
    def is_of_many(self) -> bool:
        """Whether it is of all objects with the prefix."""
        return not self.prefix or self.prefix.endswith("/")

    def storlet(self, form: str) -> dict[str, Any]:
        """The storlet for objects of a format, with its parameters, as in a document."""
        given = {name: text for name, text in self.parameters.items() if name != "format"}
        given |= {"query": self.text, "output": "partial" if self.is_of_many else self.output}
        if form == "parquet":
            return {"storlet": PARQUET, "parameters": given}
        return {"storlet": SQL, "parameters": {**given, "format": form}}

    def document(self, form: str) -> dict[str, Any]:
        """The request for many objects."""
        named = {"prefix": self.prefix, "suffix": self.suffix, "glob": self.glob}
        selection = {key: text for key, text in named.items() if text}
        return {
            "objects": {"container": self.container, **selection},
            "split": self.storlet(form),
            "merge": {"storlet": MERGE, "parameters": {"output": self.output}},
        }


def format_of(name: str) -> str:
    """The format of an object, or of a pattern of names, by its suffix; empty: an unknown one."""
    lower = name.lower()
    for suffix in COMPRESSED:
        lower = lower.removesuffix(suffix)
    return next((form for suffix, form in FORMATS.items() if lower.endswith(suffix)), "")


def run(session: Session, query: SqlQuery) -> Flow[Answer]:
    """The result of a query; the answer is streamed."""
    form = query.parameters.get("format", "")
    if not query.is_of_many:
        storlet = query.storlet(form or format_of(query.prefix) or "csv")
        invocation = Invocation(storlet["storlet"], query.path, storlet["parameters"])
        return (yield from operations.run(session, invocation))
    form = form or format_of(query.suffix) or format_of(query.glob)
    if not form:
        form = _common_format((yield from _first_names(session, query)))
    return (yield from operations.distribute(session, query.document(form)))


def _common_format(names: Sequence[str]) -> str:
    """:raises ConfigurationError: the objects have several."""
    found = {format_of(name) or "csv": name for name in names}
    if len(found) > 1:
        some = ", ".join(f"{name} ({form})" for form, name in found.items())
        text = f"objects of several formats: {some}: select some of them by --suffix or --glob"
        raise ConfigurationError([text])
    return next(iter(found), "csv")


def _first_names(session: Session, query: SqlQuery) -> Flow[list[str]]:
    """Names of some objects; none if the caller may run a storlet on them, but not list them."""
    names = yield from operations.some_names(session, (query.container,), query.prefix)
    return [
        name
        for name in names
        if not name.endswith("/")
        and name.endswith(query.suffix)
        and (not query.glob or fnmatchcase(name, query.glob))
    ]
