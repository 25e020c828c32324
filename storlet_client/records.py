"""Records of one length, selected at the node that has the object, and read one at a time.

The storlet ``std:records`` of the system library selects and projects; :mod:`structure` is the
description of records that both share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storlet_client import operations, structure
from storlet_client.errors import ConfigurationError
from storlet_client.exchange import Answer, Flow
from storlet_client.operations import Invocation
from storlet_client.session import Session
from storlet_client.structure import Structure, StructureError

STORLET = "std:records"


@dataclass(frozen=True)
class RecordQuery:
    """A request for records; ``layout`` is that of the output."""

    layout: Structure
    invocation: Invocation

    @classmethod
    def of(
        cls, container: str, name: str, described: str, where: str, fields: Sequence[str]
    ) -> RecordQuery:
        """The request for the records of an object.

        :raises ConfigurationError: description, condition or fields are not valid.
        """
        try:
            layout = structure.parse(described)
            structure.selection(where, layout)
            result = layout.projected(fields or [field.name for field in layout.fields])
        except StructureError as error:
            raise ConfigurationError([str(error)]) from None
        given = {"struct": described, "where": where, "fields": ",".join(fields)}
        parameters = {key: value for key, value in given.items() if value}
        return cls(result, Invocation(STORLET, f"{container}/{name}", parameters))


def run(session: Session, query: RecordQuery) -> Flow[Answer]:
    """GET through the storlet; the answer is streamed.

    :raises ConfigurationError: the cluster has no such storlet.
    """
    cluster = yield from operations.info_that(session, _has_storlet)
    if not _has_storlet(cluster):
        text = (
            f"this cluster has no {STORLET}: its release is older, or its operator has switched it"
            " off; read the whole object, or deploy a storlet of your own"
        )
        raise ConfigurationError([text])
    answer = yield from operations.run(session, query.invocation)
    return answer


def _has_storlet(cluster: operations.Info) -> bool:
    return STORLET in cluster.raw.get("library", {})
