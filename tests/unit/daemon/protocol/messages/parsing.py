"""Messages through the encoder and the parser, and the faults of invalid ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

from storlet_daemon.protocol import framing, messages

#: The hash of a storlet version.
VERSION: Final = "0f" * 32
#: A message, the table that allows it, and the number of its descriptors.
Example = tuple[messages.Message, messages.Kinds, int]


def assert_round_trip(example: Example) -> None:
    """The parser returns the encoded message; only versioned messages carry the version."""
    message, kinds, descriptors = example
    fields = framing.decode(framing.encode(message))
    assert messages.parse(fields, kinds, descriptors) == message
    assert (fields.get("v") == messages.VERSION) is message.IS_VERSIONED


def assert_complete(examples: Iterable[Example], *tables: messages.Kinds) -> None:
    """Each message of ``tables`` has an example, and each example is in a table."""
    kinds = {kind for table in tables for kind in table.values()}
    assert {type(message) for message, _, _ in examples} == kinds


def faults_of(
    fields: dict[str, Any],
    kinds: messages.Kinds = messages.INVOCATION_REQUEST,
    descriptors: int = 2,
) -> list[str]:
    """The faults for which the parser refuses ``fields``."""
    with pytest.raises(messages.ProtocolError) as caught:
        messages.parse(fields, kinds, descriptors)
    return list(caught.value.faults)
