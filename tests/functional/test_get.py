"""GET with a storlet: content, headers, parameters, ranges, several inputs, refusals."""

from __future__ import annotations

import hashlib
import json
import re
import time
from urllib.parse import quote

import pytest

from tests.support.accounts import unique
from tests.support.http import Client
from tests.support.storlets import INVOCATION_ID, Tool, seen


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


# --- the answer -----------------------------------------------------------------------------------


def test_a_storlet_transforms_the_object_on_its_way_out(
    each_tool: Tool, plain: str, content: bytes
) -> None:
    answer = each_tool.get(plain, "upper")
    assert (answer.status, answer.body, answer.is_broken) == (200, content.upper(), False)


def test_the_answer_names_storlet_placement_and_duration(tool: Tool, plain: str) -> None:
    answer = tool.get(plain)
    assert answer.status == 200
    assert INVOCATION_ID.fullmatch(answer.headers["X-Storlet-Invocation"])
    assert answer.headers["X-Storlet-Ran-On"] == tool.placement
    shares = dict(re.findall(r"([a-z-]+)[^,]*?;dur=([0-9.]+)", answer.headers["Server-Timing"]))
    assert len(shares) >= 3, answer.headers["Server-Timing"]
    assert {"auth", "sandbox"} <= {
        name.split("-")[0].replace("authorisation", "auth") for name in shares
    }
    assert any("first" in name for name in shares)


def test_every_invocation_has_an_id_of_its_own(any_tool: Tool, plain: str) -> None:
    ids = {any_tool.get(plain).headers["X-Storlet-Invocation"] for _ in range(3)}
    assert len(ids) == 3


def test_a_result_has_no_header_that_describes_only_the_source(tool: Tool, plain: str) -> None:
    answer = tool.get(plain, "upper")
    for name in (
        "Etag",
        "Last-Modified",
        "Content-Range",
        "Content-MD5",
        "X-Timestamp",
        "Accept-Ranges",
    ):
        assert name not in answer.headers, name
    assert not [name for name in answer.headers if name.lower().startswith("x-backend")]
    assert not [name for name in answer.headers if "sysmeta" in name.lower()]


def test_the_storlet_sets_content_type_and_metadata(tool: Tool, plain: str) -> None:
    answer = tool.get(
        plain, "identity", None, **{"set_Content-Type": "text/x-made", "set_Size": "large"}
    )
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"].startswith("text/x-made")
    assert answer.meta("Size") == "large"


def test_metadata_in_utf8_reach_the_storlet_and_the_client(
    tool: Tool, owner: Client, container: str
) -> None:
    path = f"{container}/o"
    assert owner.put(path, b"x", {"X-Object-Meta-Name": "Zoë Ünal 漢字"}).status == 201
    answer = tool.get(path, "describe", set_Name="Élan 語")
    assert seen(answer)["input.0.meta.name"] == "Zoë Ünal 漢字"
    assert answer.meta("Name") == "Élan 語"


def test_the_storlet_sees_the_metadata_of_the_object(each_tool: Tool, plain: str) -> None:
    assert each_tool.describe(plain)["input.0.meta.colour"] == "red"


def test_the_user_metadata_of_the_object_stay_unless_the_storlet_sets_others(
    tool: Tool, plain: str
) -> None:
    assert tool.get(plain, set_Other="x").meta("Colour") == "red"
    assert tool.get(plain, set_Colour="blue").meta("Colour") == "blue"


def test_a_storlet_withholds_metadata_of_the_source(
    tool: Tool, owner: Client, plain: str, container: str
) -> None:
    """An empty value removes a name: OpenStack Storlets cannot withhold the source's user
    metadata."""
    assert tool.get(plain, set_Colour="").meta("Colour") is None
    assert tool.copy(plain, f"/{container}/copied", set_Colour="").status == 201
    assert owner.head(f"{container}/copied").meta("Colour") is None


def test_metadata_are_optional(tool: Tool, plain: str, content: bytes) -> None:
    answer = tool.get(plain, "silent")
    assert (answer.status, answer.body) == (200, content)


def test_a_storlet_may_write_nothing(tool: Tool, plain: str) -> None:
    answer = tool.get(plain, "nothing")
    assert (answer.status, answer.body, answer.is_broken) == (200, b"", False)


@pytest.mark.parametrize("bad", ["a\r\nX-Injected: 1", "a\nb", "nul\0"])
def test_metadata_cannot_inject_headers(anywhere: Tool, plain: str, bad: str) -> None:
    answer = anywhere.get(plain, set_Evil=bad)
    assert answer.status in (200, 422)
    assert "X-Injected" not in answer.headers
    assert not any(char in (answer.meta("Evil") or "") for char in "\r\n\0")


# --- parameters -----------------------------------------------------------------------------------


def test_parameters_by_query_and_by_header(tool: Tool, plain: str) -> None:
    headers = {
        "X-Storlet-Parameter-1": "from-header:1",
        "X-Storlet-Parameter-Two": "colon:a:b",
        "X-Storlet-Parameter-3": "both:header",
    }
    saw = tool.describe(
        plain, headers, **{"from-query": "2", "both": "query", "empty": "", "umlaut": "ä &=+%"}
    )
    assert saw["param.from-header"] == "1"
    assert saw["param.colon"] == "a:b"
    assert saw["param.both"] == "header"
    assert saw["param.from-query"] == "2"
    assert saw["param.empty"] == ""
    assert saw["param.umlaut"] == "ä &=+%"
    assert saw["param.storlet_execution_path"].startswith("/var/lib/storlets/")


def test_a_parameter_header_is_unquoted_before_it_is_split(tool: Tool, plain: str) -> None:
    saw = tool.describe(plain, {"X-Storlet-Parameter-1": quote("key:Zoë, 100%")})
    assert saw["param.key"] == "Zoë, 100%"


def test_all_faults_of_a_request_come_in_one_400(anywhere: Tool, plain: str) -> None:
    headers = {
        "X-Storlet-Parameter-1": "no colon here",
        "X-Storlet-Range": "bytes=5-2",
        "X-Storlet-Extra-Resources": "/only-a-container",
        "X-Storlet-Genrate-Log": "True",
    }
    answer = anywhere.get(plain, headers=headers)
    assert (answer.status, answer.error) == (400, "bad_request")
    for part in (
        "X-Storlet-Parameter-1",
        "X-Storlet-Range",
        "X-Storlet-Extra-Resource",
        "X-Storlet-Generate-Log",
    ):
        assert part in answer.text, answer


@pytest.mark.parametrize(
    ("header", "nearest"),
    [
        ("X-Storlet-Run-On-Proxi", "X-Storlet-Run-On-Proxy"),
        ("X-Storlet-Ranges", "X-Storlet-Range"),
        ("X-Storlet-Dependency", ""),
    ],
)
def test_an_unknown_header_is_refused_naming_the_nearest(
    any_tool: Tool, plain: str, header: str, nearest: str
) -> None:
    answer = any_tool.get(plain, headers={header: "1"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert header in answer.text
    assert nearest in answer.text


def test_run_on_proxy_requires_an_empty_value(any_tool: Tool, plain: str) -> None:
    answer = any_tool.get(plain, headers={"X-Storlet-Run-On-Proxy": "yes"})
    assert answer.status == 400
    assert "X-Storlet-Run-On-Proxy header should be empty" in answer.text


def test_parameters_of_the_system_cannot_be_forged(anywhere: Tool, plain: str) -> None:
    assert anywhere.get(plain, storlet_execution_path="/etc").status == 400


# --- ranges ---------------------------------------------------------------------------------------

LENGTH = 41  # of the plain object


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("5-9", 5, 9),
        ("0-0", 0, 0),
        ("5-", 5, 40),
        ("-4", 37, 40),
        ("0-", 0, 40),
        ("-1000", 0, 40),
        ("30-1000", 30, 40),
        ("40-40", 40, 40),
    ],
)
def test_an_input_range(
    tool: Tool, plain: str, content: bytes, asked: str, first: int, last: int
) -> None:
    assert len(content) == LENGTH
    answer = tool.get(plain, headers={"X-Storlet-Range": f"bytes={asked}"})
    assert (answer.status, answer.body) == (200, content[first : last + 1])
    assert answer.headers["Storlet-Input-Range"] == f"bytes {first}-{last}/{LENGTH}"
    assert "Content-Range" not in answer.headers


@pytest.mark.parametrize("asked", ["41-", "1000-2000", "-0"])
def test_a_range_outside_the_object_is_416(tool: Tool, plain: str, asked: str) -> None:
    answer = tool.get(plain, headers={"X-Storlet-Range": f"bytes={asked}"})
    assert (answer.status, answer.error) == (416, "range.unsatisfiable")
    assert "X-Storlet-Ran-On" not in answer.headers


@pytest.mark.parametrize(
    "value", ["junk", "bytes=", "bytes=a-b", "bytes=9-5", "lines=1-2", "bytes=1-2,x"]
)
def test_a_malformed_range_is_400(anywhere: Tool, plain: str, value: str) -> None:
    answer = anywhere.get(plain, headers={"X-Storlet-Range": value})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert answer.headers["X-Storlet-Invocation"]


def test_several_ranges_are_several_inputs(tool: Tool, plain: str, content: bytes) -> None:
    saw = tool.describe(plain, {"X-Storlet-Range": "bytes=0-3, 10-19,-5"})
    assert saw["inputs"] == "3"
    wanted = [content[0:4], content[10:20], content[-5:]]
    assert [saw[f"input.{i}.md5"] for i in range(3)] == [md5(data) for data in wanted]
    assert saw["input.2.meta.colour"] == "red"


def test_a_plain_range_header_is_refused(anywhere: Tool, plain: str) -> None:
    answer = anywhere.get(plain, headers={"Range": "bytes=0-3"})
    assert answer.status == 400
    assert "Storlet execution with range header is not supported" in answer.text


# --- several inputs -------------------------------------------------------------------------------


def test_extra_resources_are_further_inputs_in_their_order(
    either: Tool, owner: Client, plain: str, container: str
) -> None:
    other = unique("c é")
    assert owner.put(other).status == 201
    assert owner.put(f"{container}/second", b"2nd", {"X-Object-Meta-Nr": "2"}).status == 201
    assert (
        owner.put(f"{other}/third, with comma", b"the third", {"X-Object-Meta-Nr": "3"}).status
        == 201
    )
    listed = ", ".join([f"/{container}/second", quote(f"/{other}/third, with comma")])
    answer = either.get(plain, "describe", {"X-Storlet-Extra-Resources": listed})
    assert answer.status == 200, answer
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"
    saw = seen(answer)
    assert saw["inputs"] == "3"
    assert (saw["input.1.md5"], saw["input.2.md5"]) == (md5(b"2nd"), md5(b"the third"))
    assert (saw["input.0.meta.colour"], saw["input.1.meta.nr"], saw["input.2.meta.nr"]) == (
        "red",
        "2",
        "3",
    )


def test_a_missing_extra_resource_is_an_error_before_anything_runs(
    either: Tool, plain: str, container: str
) -> None:
    key = unique("extra")
    extra = {"X-Storlet-Extra-Resources": f"/{container}/nosuch"}
    answer = either.get(plain, "describe", extra, count=key)
    assert answer.status == 404
    assert f"{container}/nosuch" in answer.text
    assert answer.error
    assert either.count(plain, key) == 0


def test_a_forbidden_extra_resource_is_an_error_before_anything_runs(
    any_tool: Tool,
    owner: Client,
    users: dict[str, Client],
    plain: str,
    container: str,
    shared_storlets: None,
) -> None:
    secret = unique("secret")
    assert owner.put(secret).status == 201
    assert owner.put(f"{secret}/o", b"not for tester3").status == 201
    assert owner.post(container, {"X-Container-Read": "test:tester3"}).status == 204
    key = unique("extra")
    reader = Tool(users["test:tester3"], any_tool.storlet)
    assert reader.get(plain).status == 200
    answer = reader.get(plain, "describe", {"X-Storlet-Extra-Resources": f"/{secret}/o"}, count=key)
    assert (answer.status, answer.error) == (403, "access.denied")
    assert b"not for" not in answer.body
    assert any_tool.count(plain, key) == 0


@pytest.mark.parametrize("value", ["container/object", "/container", "/", "/c/o, junk"])
def test_extra_resources_require_container_and_object(
    any_tool: Tool, plain: str, value: str
) -> None:
    answer = any_tool.get(plain, headers={"X-Storlet-Extra-Resources": value})
    assert answer.status == 400
    assert "X-Storlet-Extra-Resource must be a csv with/container/object format" in answer.text
    assert answer.text.startswith("X-Storlet-Extra-Resources: '"), answer


def test_extra_resources_that_are_large_are_streamed(
    either: Tool, owner: Client, plain: str, container: str
) -> None:
    data = bytes(range(256)) * 16384
    assert owner.put(f"{container}/a", data).status == 201
    assert owner.put(f"{container}/b", data[::-1]).status == 201
    saw = either.describe(plain, {"X-Storlet-Extra-Resources": f"/{container}/a,/{container}/b"})
    assert (saw["input.1.md5"], saw["input.2.md5"]) == (md5(data), md5(data[::-1]))


# --- refused requests -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["HEAD", "DELETE", "OPTIONS"])
def test_only_get_put_and_copy_run_storlets(
    any_tool: Tool, owner: Client, plain: str, method: str
) -> None:
    answer = owner.request(method, plain, {"X-Run-Storlet": any_tool.storlet})
    assert answer.status == 405
    assert owner.head(plain).status == 200


def test_post_on_an_object_is_401_as_without_storlets(
    any_tool: Tool, owner: Client, plain: str
) -> None:
    answer = owner.post(plain, {"X-Run-Storlet": any_tool.storlet})
    assert answer.status == 401
    assert owner.head(plain).meta("Colour") == "red"


def test_without_an_object_in_the_path_the_header_means_nothing(
    any_tool: Tool, owner: Client, container: str
) -> None:
    assert owner.get(container, {"X-Run-Storlet": any_tool.storlet}).status in (200, 204)
    assert owner.get("", {"X-Run-Storlet": any_tool.storlet}).status in (200, 204)


def test_a_missing_storlet_is_reported(any_tool: Tool, owner: Client, plain: str) -> None:
    answer = owner.get(plain, {"X-Run-Storlet": "nosuch-1.0.jar"})
    assert (answer.status, answer.error) == (404, "storlet.not_found")


def test_a_missing_object_is_404(anywhere: Tool, container: str) -> None:
    key = unique("missing")
    assert anywhere.get(f"{container}/nosuch", count=key).status == 404
    assert anywhere.get("nosuchcontainer/nosuch", count=key).status == 404


def test_without_a_token_nothing_runs(any_tool: Tool, plain: str) -> None:
    stranger = Tool(Client(any_tool.client.storage_url, ""), any_tool.storlet)
    assert stranger.get(plain).status == 401


def test_errors_are_json_when_the_client_accepts_it(anywhere: Tool, plain: str) -> None:
    answer = anywhere.get(plain, headers={"Accept": "application/json", "X-Storlet-Range": "junk"})
    assert answer.status == 400
    assert answer.headers["Content-Type"].startswith("application/json")
    told = json.loads(answer.body)
    text = json.dumps(told)
    assert "bad_request" in text
    assert "X-Storlet-Range" in text


# --- conditional requests -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("If-None-Match", "{etag}", 304),
        ("If-None-Match", "*", 304),
        ("If-None-Match", '"0123"', 200),
        ("If-Match", '"0123"', 412),
        ("If-Match", "{etag}", 200),
        ("If-Modified-Since", "Tue, 01 Jan 2030 00:00:00 GMT", 304),
        ("If-Modified-Since", "Sat, 01 Jan 2000 00:00:00 GMT", 200),
        ("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT", 412),
    ],
)
def test_conditions_are_evaluated_on_the_source_before_a_run(
    anywhere: Tool, plain: str, content: bytes, header: str, value: str, status: int
) -> None:
    key = unique("condition")
    answer = anywhere.get(
        plain, headers={header: value.format(etag=f'"{md5(content)}"')}, count=key
    )
    assert answer.status == status, answer
    assert answer.body == (content if status == 200 else answer.body)
    assert anywhere.count(plain, key) == (1 if status == 200 else 0)


# --- time -----------------------------------------------------------------------------------------
# Silence for longer than Swift's timeouts: tests/probe/test_slow.py.


def test_slow_output_reaches_the_client_while_the_storlet_works(tool: Tool, plain: str) -> None:
    connection, response = tool.client.open(
        "GET", plain, tool.headers(), query="do=slow&pieces=3&pause=0.5"
    )
    try:
        assert response.read(4) == b"1:0\n"
        came = time.monotonic()
        assert response.read() == b"1:1\n1:2\n"
        assert time.monotonic() - came > 0.5, "the others came later"
    finally:
        connection.close()


def test_a_storlet_need_not_read_its_input(each_tool: Tool, owner: Client, container: str) -> None:
    path = f"{container}/big"
    assert owner.put(path, b"x" * 3_000_000).status == 201
    assert each_tool.get(path, "version").body == b"1"


def test_much_output_from_little_input(tool: Tool, plain: str) -> None:
    size = 20_000_001
    answer = tool.get(plain, "flood", bytes=str(size))
    assert (answer.status, answer.is_broken, answer.size) == (200, False, size)
    assert answer.body == (bytes(range(256)) * (size // 256 + 1))[:size]
