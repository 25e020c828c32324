"""User metadata: the headers that contain it, and the subset that storlets see."""

from __future__ import annotations

from swift.common.header_key_dict import HeaderKeyDict

from storlet_middleware import names
from storlet_middleware.wsgi.user_metadata import (
    storlet_metadata,
    user_metadata,
    user_metadata_wsgi,
)

HEADERS = {
    "X-Object-Meta-Color": "grün".encode().decode("latin-1"),
    "x-object-meta-odd": "\xff",
    "X-Object-Meta-Storlet-Main": "up.Up",
    "X-OBJECT-META-STORLET-Language": "python",
    "X-Object-Sysmeta-Secret": "s",
    "X-Object-Transient-Sysmeta-Secret": "s",
    "Content-Type": "text/plain",
    "X-Container-Meta-Color": "red",
}


def test_user_metadata_is_text_with_its_prefix() -> None:
    assert user_metadata(HEADERS) == {
        "X-Object-Meta-Color": "grün",
        "x-object-meta-odd": "\ufffd",
        "X-Object-Meta-Storlet-Main": "up.Up",
        "X-OBJECT-META-STORLET-Language": "python",
    }
    assert list(user_metadata(HEADERS, names.STORLET_META)) == [
        "X-Object-Meta-Storlet-Main",
        "X-OBJECT-META-STORLET-Language",
    ]


def test_metadata_of_a_result_leaves_out_the_manifest() -> None:
    """A result is no storlet, even if its source is one."""
    assert user_metadata_wsgi(HEADERS) == {
        "X-Object-Meta-Color": "grün".encode().decode("latin-1"),
        "x-object-meta-odd": "\xff",
    }


def test_storlets_see_names_without_prefix_and_no_manifest() -> None:
    assert storlet_metadata(HEADERS) == {"Color": "grün", "odd": "\ufffd"}
    name = "X-Object-Meta-" + "Größe".encode().decode("latin-1")
    assert storlet_metadata({name: "1"}) == {"Größe": "1"}


def test_an_object_without_user_metadata_has_none() -> None:
    empty = HeaderKeyDict({"Content-Type": "text/plain", "X-Object-Metadata": "x"})
    assert (user_metadata(empty), user_metadata_wsgi(empty), storlet_metadata(empty)) == ({},) * 3
