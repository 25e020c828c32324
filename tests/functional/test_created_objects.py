"""Objects that a storlet creates while it runs: stored with its outputs, all or none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.functional.test_services import SUFFIXES, Author, ask, authors_of, outcomes, upload
from tests.functional.wards import PHYSICIAN, RESEARCHER, RULES, Ward, make_ward
from tests.support.accounts import delete_large_objects, unique
from tests.support.cluster import CHECKOUT
from tests.support.http import Answer, Client
from tests.support.storlets import Toolbox, declaration
from tests.support.waiting import retry_until

CREATOR = "creator.py"
METHODS = ("GET", "PUT", "COPY")
#: The languages and methods of runs that fail: each of both.
RUNS = [("python", "GET"), ("python", "PUT"), ("java", "COPY"), ("native", "COPY")]
#: A rule denies each PUT into one container, another one runs a storlet on it.
RULES_ABOUT_PUT = """
version: 1
rules:
- {name: new, when: {method: PUT, container: patients}, deny: nothing new}
- {name: marked, when: {method: PUT, container: marked}, mandatory: true, run: mask.py}
"""
#: Where the run may store nothing, with the rule.
CLOSED = {"/patients/new": "new", "/marked/new": "marked"}
#: Creates an object that is allowed and the one of its parameter, and catches no exception.
INSISTS = b"""
from storlet import services


class Insists:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        out_files[0].write(b"a result")
        for path in ("/open/made", params["then"]):
            with services.create(path) as file:
                file.write(b"x")
"""
#: More than a PUT keeps back, also with erasure coding: it begins while the storlet runs.
MANY = 10 << 20

ENDS: list[list[Any]] = [["fail"], ["die", "/{path}"], ["die_creating", "/{other}", 160]]
#: Each run with each end.  The number of bytes changes from row to row, so that each language and
#: each end has both.
FAILURES = [
    (language, method, (1, MANY)[(row + column) % 2], end)
    for row, (language, method) in enumerate(RUNS)
    for column, end in enumerate(ENDS)
]


@pytest.fixture(scope="module")
def creators(owner: Client, toolbox: Toolbox) -> dict[str, Author]:
    """The owner, whose account has the storlet in each language."""
    return authors_of(owner, toolbox, "creator", "read, write")


@pytest.fixture(params=SUFFIXES)
def creator(request: pytest.FixtureRequest, creators: dict[str, Author]) -> Author:
    """The owner, with the storlet of each language."""
    return creators[request.param]


@pytest.fixture
def python(creators: dict[str, Author]) -> Author:
    """The owner, with the Python storlet."""
    return creators["python"]


@pytest.fixture
def second(owner: Client) -> Iterator[str]:
    """A second container, erasure-coded."""
    name = unique("ec")
    assert owner.put(name, headers={"X-Storage-Policy": "ec21"}).status == 201
    yield name
    delete_large_objects(owner, name)


def create(client: Client, path: str, *asked: list[Any], **headers: str) -> list[Any]:
    """The outcomes of a GET, with the storlet of an author."""
    return outcomes(ask(client, path, *asked, **headers))


def run(client: Author, method: str, container: str, *asked: list[Any], **headers: str) -> Answer:
    """Run with the input ``in``; the result of a PUT or COPY is stored in ``main``."""
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    given |= {"X-Run-Storlet": client.storlet, "X-Storlet-Parameter-1": f"ask:{json.dumps(asked)}"}
    if method == "PUT":
        return client.put(f"{container}/main", b"in", given)
    assert client.put(f"{container}/in", b"in").status == 201
    if method == "COPY":
        return client.request(
            "COPY", f"{container}/in", {**given, "Destination": f"{container}/main"}
        )
    return client.get(f"{container}/in", given)


def contents(client: Client, *paths: str) -> list[bytes | None]:
    """The bytes of each object, and None for one that does not exist."""
    answers = [client.get(path) for path in paths]
    # Any other status does not say whether it exists.
    assert {answer.status for answer in answers} <= {200, 404}, answers
    return [answer.body if answer.status == 200 else None for answer in answers]


# --- what is stored -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("creator", "method"), list(zip(SUFFIXES, METHODS, strict=True)), indirect=["creator"]
)
def test_objects_are_stored_with_the_outputs_of_the_run(
    creator: Author, container: str, second: str, method: str
) -> None:
    paths = [f"{container}/mäde 1", f"{second}/made/2", f"{container}/empty"]
    options = {
        "content_type": "text/x",
        "metadata": {"Colour": "röd", "Shape": "round"},
        "delete_after": 9000,
    }
    output = f"{container}/further"
    answer = run(
        creator, method, container, ["create", f"/{paths[0]}", "one", options],
        ["create", f"/{paths[1]}", "x", None, MANY], ["create", f"/{paths[2]}", ""],
        X_Storlet_Output=f"/{output}", X_Object_Meta_Mine="1",
    )  # fmt: skip
    assert answer.status == (200 if method == "GET" else 201), answer
    assert not answer.is_broken
    main = answer if method == "GET" else creator.get(f"{container}/main")
    assert json.loads(main.body) == [["ok"]] * 3
    assert contents(creator, *paths, output) == [b"one", b"x" * MANY, b"", b""]
    stored = creator.head(paths[0])
    assert stored.headers["Content-Type"] == "text/x"
    assert [stored.meta(key) for key in ("Colour", "Shape", "Mine")] == ["röd", "round", None]
    assert stored.headers["X-Delete-At"]
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"
    if method != "GET":
        written = len("one") + MANY
        usage = answer.headers["X-Storlet-Usage"]
        assert f";service-operations=6;service-in=0;service-out={written}" in usage
        assert f"out={len(main.body)};" in usage


def test_a_large_object_is_streamed(creator: Author, container: str, plain: str) -> None:
    path = f"{container}/large"
    assert create(creator, plain, ["create", f"/{path}", "x", None, 4 * MANY]) == [["ok"]]
    assert creator.head(path).headers["Content-Length"] == str(4 * MANY)


def test_objects_may_be_written_at_the_same_time(
    creator: Author, container: str, plain: str
) -> None:
    paths = [f"{container}/{number}" for number in range(8)]
    text = "abc" * 40
    asked = ["create_many", [f"/{path}" for path in paths], text]
    assert create(creator, plain, asked) == [["ok"]]
    assert contents(creator, *paths) == [text.encode()] * 8


def test_an_object_is_replaced_when_the_run_has_succeeded(
    creator: Author, container: str, plain: str
) -> None:
    path = f"{container}/old"
    assert creator.put(path, b"the old one", {"X-Object-Meta-Old": "yes"}).status == 201
    made, read = create(creator, plain, ["create", f"/{path}", "new"], ["open", f"/{path}"])
    assert made == ["ok"]
    # Until the end of the run the storlet finds the old one, as all readers do.
    assert read[4:] == [{"Old": "yes"}, "the old one"]
    assert (creator.get(path).body, creator.head(path).meta("Old")) == (b"new", None)


def test_the_record_of_a_run_names_what_it_creates(
    creator: Author, container: str, plain: str
) -> None:
    answer = ask(creator, plain, ["create", f"/{container}/made", "x"], ["fail"])
    assert (answer.status, answer.error) == (422, "storlet.failed")
    record = f"storlet-runs&id={answer.headers['X-Storlet-Invocation']}"
    assert retry_until(lambda: creator.get("", query=record).status == 200)
    wanted = f'"outputs":["{container}/made"]'
    assert wanted in creator.get("", query=record).text.replace(": ", ":")


# --- what is not stored ---------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "method", "times", "end"), FAILURES)
def test_a_storlet_that_fails_or_is_killed_creates_nothing(
    creators: dict[str, Author], container: str, language: str, method: str, times: int, end: list[Any]
) -> None:  # fmt: skip
    creator = creators[language]
    path, other = f"{container}/made", f"{container}/other"
    assert creator.put(path, b"the old one").status == 201
    last = [str(each).format(path=path, other=other) for each in end[:2]] + end[2:]
    answer = run(creator, method, container, ["create", f"/{path}", "x", None, times], last)
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert contents(creator, path, other, f"{container}/main") == [b"the old one", None, None]


@pytest.mark.parametrize("how", ["open", "dropped"])
def test_a_run_that_leaves_an_object_open_fails(
    creator: Author, container: str, plain: str, how: str
) -> None:
    path = f"{container}/open"
    answer = ask(creator, plain, ["leave", f"/{path}", "half", how])
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert f"has created /{path}, and has neither closed nor discarded it" in answer.text
    assert contents(creator, path) == [None]


def test_a_run_may_discard_an_object(creator: Author, container: str, plain: str) -> None:
    path = f"{container}/discarded"
    for how in ("discarded", "closed and discarded"):
        assert create(creator, plain, ["leave", f"/{path}", "half", how]) == [["ok"]]
    found = create(creator, plain, ["leave", f"/{path}", "half", "exception"])
    assert found == [["OSError", "", "in the block"]]
    assert contents(creator, path) == [None]
    # Its name is free again.
    asked = [["leave", f"/{path}", "half", "discarded"], ["create", f"/{path}", "whole"]]
    assert create(creator, plain, *asked) == [["ok"]] * 2
    assert contents(creator, path) == [b"whole"]


def test_a_client_that_disconnects_gets_no_objects_stored(
    python: Author, container: str, plain: str
) -> None:
    path = f"{container}/made"
    asked = [["create", f"/{path}", "x", None, MANY], ["wait", 4 << 20]]
    headers = {"X-Run-Storlet": python.storlet, "X-Storlet-Parameter-1": f"ask:{json.dumps(asked)}"}
    connection, response = python.open("GET", plain, headers)
    assert response.read(10)
    connection.close()
    record = f"storlet-runs&id={response.headers['X-Storlet-Invocation']}"
    assert retry_until(lambda: python.get("", query=record).status == 200)
    assert contents(python, path) == [None]


def test_a_storlet_that_lies_about_the_length_creates_nothing(
    creator: Author, container: str, plain: str
) -> None:
    path = f"{container}/lie"
    answer = ask(creator, plain, ["lie", f"/{path}"])
    assert (answer.status, answer.error) == (422, "storlet.services"), answer
    assert "3 of 2 bytes arrived" in answer.text
    assert contents(creator, path) == [None]


# --- refusals -------------------------------------------------------------------------------------


def test_a_refusal_at_the_call_is_an_exception_and_no_failure(
    creator: Author, container: str, plain: str
) -> None:
    full = unique("full")
    # In C, 0 is "not set".
    refused = -1 if creator.storlet.endswith(".so") else 0
    assert creator.put(full, headers={"X-Container-Meta-Quota-Count": "0"}).status == 201
    main, output = f"{container}/main", f"{container}/output"
    asked = [
        ["create", f"/{full}/o", "x"],
        ["create", "/no-such-container/o", "x"],
        ["create", f"/{container}", "x"],
        ["create", f"/{container}/o", "x", {"metadata": {"a" * 300: "x"}}],
        ["create", f"/{container}/o", "x", {"delete_after": refused}],
        ["create", f"/{main}", "x"],
        ["create", f"/{output}", "x"],
        ["create", f"/{container}/twice", "first"],
        ["create", f"/{container}/twice", "second"],
        *(["create", f"/{name}/o", "x"] for name in ("storlet", "dependency", "storletlog")),
        ["create", "/storlet_rules/rules.yaml", "x"],
    ]
    answer = run(creator, "COPY", container, *asked, X_Storlet_Output=f"/{output}")
    assert answer.status == 201, answer
    found = [each[:2] for each in json.loads(creator.get(main).body)]
    assert found == [
        ["ServiceError", "swift.refused"],
        ["NotFound", "target.not_found"],
        *[["ServiceError", "bad_request"]] * 5,
        ["ok"],
        ["ServiceError", "bad_request"],
        *[["Denied", "access.denied"]] * 4,
    ]
    assert contents(creator, f"{container}/twice") == [b"first"]
    delete_large_objects(creator, full)


@pytest.mark.parametrize("is_discarded", [True, False])
def test_a_refusal_while_an_object_is_written_fails_the_run_unless_it_is_discarded(
    creator: Author, container: str, plain: str, *, is_discarded: bool
) -> None:
    """The limit of bytes fails the file, and not the run."""
    path = f"{container}/much"
    given = {"X_Storlet_Limit_Service_Bytes": "1M"}
    answer = ask(creator, plain, ["refused", f"/{path}", is_discarded], **given)
    if is_discarded:
        found = [each[:2] for each in outcomes(answer)]
        assert found == [["LimitExceeded", "storlet.limit.services"]]
    else:
        assert (answer.status, answer.error) == (422, "storlet.limit.services"), answer
    assert contents(creator, path) == [None]


def test_limits_of_created_objects_are_refused_by_name(
    creator: Author, container: str, plain: str
) -> None:
    paths = [f"/{container}/{number}" for number in range(3)]
    asked = [["create", path, "x"] for path in paths]
    *fine, refused = create(creator, plain, *asked, X_Storlet_Limit_Service_Creations="2")
    assert fine == [["ok"]] * 2
    assert refused[:2] == ["LimitExceeded", "storlet.limit.services"]
    assert "Service-Creations" in refused[2]
    asked = [["create", paths[0], "x", None, 2000]]
    answer = ask(creator, plain, *asked, X_Storlet_Limit_Output="1K")
    assert (answer.status, answer.error) == (422, "storlet.limit.output"), answer


def test_objects_are_created_with_the_rights_of_the_caller(
    creator: Author, users: dict[str, Client], plain: str, container: str
) -> None:
    """tester3 may read the container and the storlets, and then write into one container."""
    guest, own = users["test:tester3"], unique("own")
    assert creator.put(own, headers={"X-Container-Write": "test:tester3"}).status == 201
    assert creator.post(container, {"X-Container-Read": "test:tester3"}).status == 204
    assert creator.post("storlet", {"X-Container-Read": "test:tester3"}).status == 204
    try:
        asked = [["create", f"/{container}/guests", "x"], ["create", f"/{own}/guests", "x"]]
        denied, made = create(guest, plain, *asked, storlet=creator.storlet)
        assert (denied[:2], made) == (["Denied", "access.denied"], ["ok"])
        assert contents(creator, f"{container}/guests", f"{own}/guests") == [None, b"x"]
    finally:
        assert creator.post("storlet", {"X-Remove-Container-Read": "x"}).status == 204
        delete_large_objects(creator, own)


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    ward = make_ward(users)
    assert upload(ward.admin, "read, write", CREATOR).status == 201
    return ward


def test_the_rules_of_the_account_hold_for_created_objects(ward: Ward) -> None:
    rules = f"""
version: 1
rules:
- {{name: no-text, when: {{method: PUT, container: open, content-type: text/x}}, deny: no text}}
- {{name: short, when: {{method: PUT, container: open, user: "{RESEARCHER}"}}, deny: not by you}}
- {{name: marked, when: {{method: PUT, container: patients}}, mandatory: true, run: mask.py}}
"""
    ward.rule(rules, accept=True)
    try:
        asked = [
            ["create", "/open/a", "x", {"content_type": "text/x"}],
            ["create", "/open/b", "x", {"content_type": "text/y"}],
            ["create", "/patients/new", "x"],
        ]
        text, other, run_ = create(ward.physician, "open/a.csv", *asked, storlet=CREATOR)
        assert (text[:2], other) == (["Denied", "access.rule"], ["ok"])
        assert "rule no-text: no text" in text[2]
        assert run_[:2] == ["Denied", "access.rule"]
        assert "rule marked: it runs a storlet on what is stored there" in run_[2]
        _, denied, _ = create(ward.researcher, "open/a.csv", *asked, storlet=CREATOR)
        assert denied[:2] == ["Denied", "access.rule"]
        assert "rule short: not by you" in denied[2]
        found = contents(ward.admin, "open/a", "open/b", "patients/new")
        assert found == [None, b"x", None]
    finally:
        ward.rule(RULES)


@pytest.fixture(scope="module")
def closing(users: dict[str, Client]) -> Author:
    """A caller in an account with rules about PUT, and the storlet."""
    ward = make_ward(users)
    rights = {"X-Container-Read": PHYSICIAN, "X-Container-Write": PHYSICIAN}
    assert ward.admin.put("marked", headers=rights).status == 201
    assert upload(ward.admin, "read, write", CREATOR).status == 201
    declared = declaration("python", "insists.Insists", Services="write")
    assert ward.admin.put("storlet/insists.py", INSISTS, declared).status == 201
    ward.rule(RULES_ABOUT_PUT, accept=True)
    return Author.of(ward.physician, "python", "creator")


@pytest.fixture
def places(closing: Author) -> Iterator[list[str]]:
    """Paths of objects that a run may store; none of them exists."""
    paths = ["open/made", "open/further", "open/main"]
    yield paths
    for path in paths:
        closing.delete(path)


@pytest.mark.parametrize("method", METHODS)
def test_a_rule_about_one_further_output_refuses_the_whole_run(
    closing: Author, places: list[str], method: str
) -> None:
    made = ["create", "/open/made", "x"]
    for path, rule in CLOSED.items():
        outputs = f"/open/further, {path}"
        answer = run(closing, method, "open", made, X_Storlet_Output=outputs)
        assert (answer.status, answer.error) == (403, "access.rule"), answer
        assert answer.headers["X-Storlet-Rule"] == rule
        assert f"output {path}: " in answer.text
        assert contents(closing, path[1:], *places) == [None] * 4
    # The allowed one alone is stored.
    answer = run(closing, method, "open", made, X_Storlet_Output="/open/further")
    assert answer.status == (200 if method == "GET" else 201), answer
    stored = None if method == "GET" else b'[["ok"]]'
    assert contents(closing, *places) == [b"x", b"", stored]


@pytest.mark.parametrize("method", METHODS)
def test_a_rule_about_a_created_object_fails_a_run_that_insists(
    closing: Author, places: list[str], method: str
) -> None:
    headers = {"X-Run-Storlet": "insists.py", "X-Storlet-Output": "/open/further"}
    for path in CLOSED:
        given = headers | {"X-Storlet-Parameter-1": f"then:{path}"}
        if method == "PUT":
            answer = closing.put("open/main", b"in", given)
        elif method == "COPY":
            answer = closing.request("COPY", "open/a.csv", given | {"Destination": "open/main"})
        else:
            answer = closing.get("open/a.csv", given)
        assert answer.error == "storlet.failed" or answer.is_broken, answer
        assert contents(closing, path[1:], *places) == [None] * 4
    # It fails for these alone.
    given = headers | {"X-Storlet-Parameter-1": "then:/open/main"}
    assert closing.get("open/a.csv", given).status == 200
    assert contents(closing, *places) == [b"x", b"", b"x"]


def test_rules_that_come_later_are_for_the_next_object(ward: Ward) -> None:
    """A request, such as the creation of an object, is decided when it begins."""
    assert ward.admin.put("open/marker").status == 201
    asked = [["create_late", "/open/late", "/open/marker"], ["create", "/open/next", "x"]]
    rule = "{name: closed, when: {method: PUT, container: open}, deny: closed}"
    try:
        with ThreadPoolExecutor(1) as threads:
            going = threads.submit(create, ward.physician, "open/a.csv", *asked, storlet=CREATOR)
            assert retry_until(lambda: ward.admin.head("open/marker").meta("Created"))
            ward.rule(f"version: 1\nrules:\n- {rule}\n", accept=True)
            assert ward.admin.post("open/marker", {"X-Object-Meta-Go": "yes"}).status == 202
            late, following = going.result(60)
        assert (late, following[:2]) == (["ok"], ["Denied", "access.rule"])
        assert contents(ward.admin, "open/late", "open/next") == [b"late", None]
    finally:
        ward.rule(RULES)


def test_an_object_is_created_only_with_the_service(owner: Client, container: str) -> None:
    assert upload(owner, "read", "reading.py").status == 201
    path = f"{container}/in"
    assert owner.put(path, b"x").status == 201
    [[name, code, _]] = outcomes(
        ask(owner, path, ["create", f"/{container}/o", "x"], storlet="reading.py")
    )
    assert (name, code) == ("Denied", "services.undeclared")


def test_the_sample_indexes_all_objects_of_a_prefix(owner: Client, container: str) -> None:
    folder = CHECKOUT / "storlets/index_words"
    headers = declaration("python", "index_words.IndexWords", Services="read, list, write")
    code = (folder / "index_words.py").read_bytes()
    assert owner.put("storlet/index_words.py", code, headers).status == 201
    for number in range(30):
        text = f"All of them, and number {number % 10}.\n".encode()
        assert owner.put(f"{container}/texts/{number:02}", text).status == 201
    query = {"container": container, "prefix": "texts/", "index": f"/{container}/index"}
    run_ = {"X-Run-Storlet": "index_words.py"}
    answer = owner.get(f"{container}/texts/00", run_, query=query)
    assert (answer.status, answer.text) == (200, "15 words of 30 objects\n"), answer
    index = owner.get(f"{container}/index")
    lines = dict(line.split(" ", 1) for line in index.text.splitlines())
    assert len(lines) == 15
    assert lines["7"].split(",") == [f"texts/{number:02}" for number in range(7, 30, 10)]
    assert len(lines["them"].split(",")) == 30
    assert index.meta("Objects") == "30"
