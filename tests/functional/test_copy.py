"""COPY and X-Copy-From with a storlet: the read runs at the object node, the write is an ordinary
PUT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.accounts import unique
from tests.support.http import Answer, Client
from tests.support.storlets import Tool

Copier = Callable[..., Answer]


def by_copy(
    tool: Tool,
    source: str,
    target: str,
    do: str,
    headers: Mapping[str, str] | None = None,
    **more: str,
) -> Answer:
    return tool.copy(source, "/" + quote(target), do, headers, **more)


def by_put(
    tool: Tool,
    source: str,
    target: str,
    do: str,
    headers: Mapping[str, str] | None = None,
    **more: str,
) -> Answer:
    sent = tool.headers(headers) | {"X-Copy-From": "/" + quote(source), "Content-Length": "0"}
    return tool.put(target, b"", do, sent, **more)


both_ways = pytest.mark.parametrize("copier", [by_copy, by_put])


@both_ways
def test_the_copy_is_transformed(
    tool: Tool, owner: Client, plain: str, container: str, content: bytes, copier: Copier
) -> None:
    answer = copier(tool, plain, f"{container}/copied", "upper", set_Made="here")
    assert answer.status == 201, answer
    assert answer.headers["X-Storlet-Ran-On"] == tool.placement
    copied = owner.get(f"{container}/copied")
    assert copied.body == content.upper()
    assert copied.meta("Made") == "here"
    assert owner.get(plain).body == content


@pytest.mark.parametrize("body", [b"a body that is not read" * 10_000, (), [b"a chunk"]])
def test_the_body_of_a_put_that_copies_is_ignored(
    tool: Tool, owner: Client, plain: str, container: str, content: bytes, body: Any
) -> None:
    """As for OpenStack Storlets; Swift itself refuses a body with a length."""
    target = f"{container}/{unique('copied')}"
    headers = tool.headers() | {"X-Copy-From": "/" + quote(plain)}
    answer = tool.put(target, body, "upper", headers)
    assert answer.status == 201, answer
    assert owner.get(target).body == content.upper()


@both_ways
def test_the_answer_names_the_source_of_the_copy(
    anywhere: Tool, owner: Client, plain: str, container: str, copier: Copier
) -> None:
    answer = copier(anywhere, plain, f"{container}/copied", "upper")
    assert answer.headers["X-Storlet-Generated-From-Account"] == owner.account
    assert answer.headers["X-Storlet-Generated-From"] == quote(plain)
    assert (
        answer.headers["X-Storlet-Generated-From-Last-Modified"]
        == owner.head(plain).headers["Last-Modified"]
    )


@both_ways
def test_names_that_need_quoting(tool: Tool, owner: Client, copier: Copier) -> None:
    container = unique("cönt %41 ")
    assert owner.put(container).status == 201
    source, target = f"{container}/a b/ü?&#+%2F", f"{container}/ζ/c d"
    assert owner.put(source, b"text").status == 201
    assert copier(tool, source, target, "upper").status == 201
    assert owner.get(target).body == b"TEXT"


@both_ways
@pytest.mark.parametrize("after", ["0", "2000000"])
def test_a_failed_copy_stores_nothing(
    tool: Tool, owner: Client, plain: str, container: str, after: str, copier: Copier
) -> None:
    target = f"{container}/target"
    assert owner.put(target, b"the old one").status == 201
    answer = copier(tool, plain, target, "fail", after=after)
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert owner.get(target).body == b"the old one"


@both_ways
def test_a_copy_reads_a_range(
    anywhere: Tool, owner: Client, plain: str, container: str, content: bytes, copier: Copier
) -> None:
    answer = copier(anywhere, plain, f"{container}/part", "upper", {"X-Storlet-Range": "bytes=-10"})
    assert answer.status == 201
    assert owner.get(f"{container}/part").body == content[-10:].upper()


@both_ways
def test_a_copy_of_a_missing_object_is_404(
    anywhere: Tool, owner: Client, container: str, copier: Copier
) -> None:
    assert copier(anywhere, f"{container}/nosuch", f"{container}/target", "upper").status == 404
    assert owner.get(f"{container}/target").status == 404


@both_ways
def test_an_object_can_be_copied_onto_itself(
    anywhere: Tool, owner: Client, plain: str, content: bytes, copier: Copier
) -> None:
    assert copier(anywhere, plain, plain, "upper").status == 201
    assert owner.get(plain).body == content.upper()


def test_headers_of_the_copy_are_for_the_new_object(
    anywhere: Tool, owner: Client, plain: str, container: str
) -> None:
    headers = {"Content-Type": "x/new", "X-Delete-After": "3600"}
    assert anywhere.copy(plain, f"/{container}/copied", "upper", headers).status == 201
    copied = owner.head(f"{container}/copied")
    assert copied.headers["Content-Type"] == "x/new"
    assert "X-Delete-At" in copied.headers


@pytest.mark.parametrize("header", ["Destination-Account", "X-Fresh-Metadata"])
def test_unsupported_options_of_a_copy_are_refused(
    any_tool: Tool, plain: str, container: str, header: str
) -> None:
    answer = any_tool.copy(plain, f"/{container}/copied", "upper", {header: "true"})
    assert answer.status == 400
    assert f"Storlet on copy with {header} is not supported" in answer.text


def test_copy_from_another_account_is_not_supported(
    any_tool: Tool, plain: str, container: str
) -> None:
    answer = by_put(
        any_tool, plain, f"{container}/copied", "upper", {"X-Copy-From-Account": "AUTH_test2"}
    )
    assert answer.status == 400
    assert "Storlet on copy with X-Copy-From-Account is not supported" in answer.text


def test_a_copy_without_a_destination_is_412(any_tool: Tool, owner: Client, plain: str) -> None:
    assert owner.request("COPY", plain, any_tool.headers()).status == 412


def test_a_copy_reads_extra_resources(
    either: Tool, owner: Client, plain: str, container: str, content: bytes
) -> None:
    assert owner.put(f"{container}/more", b"and more").status == 201
    answer = either.copy(
        plain, f"/{container}/joined", headers={"X-Storlet-Extra-Resources": f"/{container}/more"}
    )
    assert answer.status == 201
    assert owner.get(f"{container}/joined").body == content + b"and more"


def test_a_copy_needs_permission_to_read_the_source(
    any_tool: Tool, owner: Client, users: dict[str, Client], plain: str, shared_storlets: None
) -> None:
    target = unique("writable")
    assert (
        owner.put(
            target,
            headers={"X-Container-Write": "test:tester3", "X-Container-Read": "test:tester3"},
        ).status
        == 201
    )
    writer = Tool(users["test:tester3"], any_tool.storlet)
    assert writer.copy(plain, f"/{target}/o", "upper").status == 403
    assert owner.get(f"{target}/o").status == 404
