"""Encryption at rest (Swift's keymaster): storlets read plain content, the disks never hold it."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from tests.functional import test_library_in_rules as in_rules
from tests.functional.test_library_storlets import run_headers, set_secret
from tests.functional.test_output_ranges import OUTSIDE, SPANS, furnished, spans_of
from tests.functional.test_seekable import SEEKING, upload_seeker
from tests.functional.test_services import SUFFIXES, ask, md5, outcomes, upload
from tests.functional.wards import (
    CONTENT,
    MASKED,
    RULES,
    Ward,
    assert_closed,
    assert_masked,
    assert_reveals_nothing,
    make_ward,
)
from tests.support.accounts import unique, users_of
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.http import Client
from tests.support.storlets import Tool, Toolbox, seen

SECRET = b"a secret that must never lie on a disk, " * 2000


def holding(cluster: Cluster, word: bytes) -> list[Path]:
    """The files of objects on the disks in which ``word`` can be read."""
    disks = cluster.description["disks"]
    files = [path for disk in disks for path in Path(disk["path"]).rglob("objects*/**/*.data")]
    assert files
    return [path for path in files if word in path.read_bytes()]


@pytest.fixture(scope="module")
def secret(other_owner: Client) -> str:
    """The path of a large secret."""
    assert other_owner.put("c/secret", SECRET, {"X-Object-Meta-Colour": "red"}).status == 201
    return "c/secret"


def test_the_storlet_sees_the_plain_content(there: Tool, secret: str) -> None:
    answer = there.get(secret, "upper")
    assert (answer.status, answer.body) == (200, SECRET.upper()), answer
    # An object node has no keys.
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"


def test_a_range_of_the_plain_content(there: Tool, secret: str) -> None:
    answer = there.get(secret, headers={"X-Storlet-Range": "bytes=70003-70013"})
    assert (answer.status, answer.body) == (200, SECRET[70003:70014])
    saw = there.describe(secret, {"X-Storlet-Range": "bytes=0-9,-11"})
    assert (saw["input.0.bytes"], saw["input.1.bytes"]) == ("10", "11")


@pytest.mark.parametrize("language", SEEKING)
def test_any_place_of_the_plain_content_is_read(
    other_owner: Client, toolbox: Toolbox, language: str, secret: str
) -> None:
    name = upload_seeker(other_owner, toolbox, language)
    answer = Tool(other_owner, name).get(secret, "seek", places="70003,11 5,3 -9,9")
    found = [SECRET[70_003:70_014], SECRET[5:8], SECRET[-9:]]
    assert (answer.status, answer.body) == (200, b"|".join([b"%d" % len(SECRET), *found]) + b"\n")
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"


def test_the_storlet_sees_the_plain_metadata(there: Tool, secret: str) -> None:
    assert seen(there.get(secret, "describe"))["input.0.meta.colour"] == "red"


@pytest.mark.parametrize("suffix", SUFFIXES.values())
def test_a_running_storlet_reads_the_plain_content(
    other_owner: Client, secret: str, suffix: str, toolbox: Toolbox
) -> None:
    storlet = f"asker{suffix}"
    assert upload(other_owner, name=storlet, jar=toolbox.java.jar("asking")).status == 201
    asked = [["open", f"/{secret}"], ["seek", f"/{secret}", [[70_003, 11], [-5, 5]]]]
    whole, pieces = outcomes(ask(other_owner, secret, *asked, storlet=storlet))
    assert whole[:3] == ["ok", md5(SECRET), len(SECRET)]
    assert whole[4]["Colour"] == "red"
    assert pieces == ["ok", SECRET[70_003:70_014].decode(), SECRET[-5:].decode()]


def test_a_stored_result_is_encrypted_again(
    there: Tool, secret: str, other_cluster: Cluster
) -> None:
    word = f"stored by {there.storlet} {there.placement} ".encode()
    assert there.put("c/put", word * 500, set_Word="hidden").status == 201
    assert there.copy("c/put", "/c/copied", "identity").status == 201
    for name in ("c/put", "c/copied"):
        assert there.client.get(name).body == word * 500
    assert holding(other_cluster, word) == holding(other_cluster, SECRET[:200]) == []


# --- the system library


LIBRARY = CHECKOUT / "storlets/std"


#: Storlets of each kind: those that read a stream, those with a seekable input, one with a secret.
#: To a storlet, an encrypted object is what a large one is: bytes that the proxy server gives it.
#: All storlets of the library run on large objects in :mod:`.test_library_in_rules`.
KINDS = ("compress", "sql", "s3-select", "archive", "s3-select-parquet", "deidentify-dicom")
CASES = {case.name: case for case in in_rules.CASES}


@pytest.mark.parametrize("case", [CASES[name] for name in KINDS], ids=lambda case: case.name)
def test_a_rule_runs_a_storlet_of_the_library(case: in_rules.Case, ward: Ward) -> None:
    in_rules.test_a_rule_runs_the_storlet(case, ward)
    assert ward.admin.get("patients/input").headers["X-Storlet-Ran-On"] == "proxy"


def test_rules_encrypt_and_restore_twice(ward: Ward) -> None:
    in_rules.test_rules_encrypt_and_restore(ward)


def test_rules_pack_encrypted_objects(ward: Ward) -> None:
    in_rules.test_rules_pack_other_objects(ward)


def test_rules_check_bags_of_encrypted_objects(ward: Ward) -> None:
    in_rules.test_rules_check_bags(ward)


def test_arrow_runs_on_encrypted_objects(other_owner: Client) -> None:
    """The first case of ``std:sql`` has another format."""
    data = (LIBRARY / "sql/tests/input.arrow").read_bytes()
    assert other_owner.put("c/table.arrow", data).status == 201
    given = {"query": "SELECT count(*) AS n FROM input", "format": "arrow"}
    answer = other_owner.get("c/table.arrow", run_headers("std:sql", given))
    assert (answer.status, answer.body) == (200, b"n\n5\n"), answer


def test_one_query_over_encrypted_objects_and_their_parts(other_owner: Client) -> None:
    """Each part requires the ETag that a HEAD has shown, and not the one of the encrypted bytes."""
    rows = [b"a,%d\n" % number for number in range(3000)]
    assert other_owner.put("parts", b"", {"X-Storage-Policy": "ec21"}).status in (201, 202)
    assert other_owner.put("c/rows/plain", b"k,v\n" + b"".join(rows[:1000])).status == 201
    in_rules.put_slo(other_owner, "c/rows/large", b"k,v\n" + b"".join(rows[1000:]))
    query = "SELECT k, count(*) AS n, sum(v) AS s FROM input GROUP BY k"
    for storlet, more in (("std:sql", {}), ("std:sql-part", {"parts": 3})):
        body = {
            "objects": {"container": "c", "prefix": "rows/"},
            "split": {"storlet": storlet, "parameters": {"query": query, "output": "partial"}},
            "merge": "std:sql-merge",
            **more,
        }
        headers = {"X-Run-Storlet": "std:distributed"}
        answer = other_owner.request("POST", "", headers=headers, body=json.dumps(body).encode())
        wanted = b"k,n,s\na,3000,%d\n" % sum(range(3000))
        assert (answer.status, answer.body) == (200, wanted), answer


def test_objects_are_encrypted_twice_and_packed(
    other_owner: Client, other_cluster: Cluster, secret: str
) -> None:
    set_secret(other_owner, "backup-key", bytes(range(32)))
    key = {"key": "backup-key"}
    assert other_owner.put("c/twice", SECRET, run_headers("std:encrypt", key)).status == 201
    assert SECRET[:20] not in other_owner.get("c/twice").body
    assert other_owner.get("c/twice", run_headers("std:decrypt", key)).body == SECRET
    given = {"container": "c", "prefix": "secret", "compress": "false"}
    assert other_owner.put("c/packed", b"", run_headers("std:archive-pack", given)).status == 201
    with zipfile.ZipFile(io.BytesIO(other_owner.get("c/packed").body)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {secret[2:]: SECRET}
    assert holding(other_cluster, SECRET[:200]) == []


# --- rules


@pytest.fixture(scope="module")
def ward(other_cluster: Cluster) -> Ward:
    return in_rules.furnished(make_ward(users_of(other_cluster.description)))


def test_a_range_of_a_restored_object_is_that_of_the_plain_one(other_cluster: Cluster) -> None:
    ward = furnished(make_ward(users_of(other_cluster.description)))
    for path in ("patients/packed", "open/sealed"):
        for span in (*SPANS[:5], *OUTSIDE):
            assert spans_of(ward, path, span).headers["X-Storlet-Ran-On"] == "proxy"


def test_a_mandatory_rule_hides_encrypted_content(ward: Ward) -> None:
    ward.rule(RULES)
    assert_masked(ward.researcher.get("patients/a.csv"))
    assert_closed(ward.researcher.get("patients/a.csv", {"Range": "bytes=0-9"}))
    copy = unique("open/copy")
    assert ward.researcher.request("COPY", "patients/a.csv", {"Destination": copy}).status == 201
    assert ward.admin.get(copy).body == MASKED
    assert_reveals_nothing(ward.researcher.head("patients/a.csv"))
    assert_reveals_nothing(ward.researcher.get("patients", query={"format": "json"}))
    assert ward.physician.get("patients/a.csv").body == CONTENT


def test_rules_can_test_encrypted_metadata(ward: Ward) -> None:
    ward.rule(
        "version: 1\nrules:\n  - {name: hide, when: {method: GET, metadata: {patient: SECRET}}, mandatory: true, run: mask.py}\n"
    )
    assert_masked(ward.physician.get("patients/a.csv"))


def test_a_pipeline_of_encrypted_objects(ward: Ward) -> None:
    ward.rule(
        "version: 1\nrules:\n  - name: both\n    when: {method: GET, container: patients}\n    run:\n      - mask.py\n"
        '      - {storlet: mark.py, parameters: {mark: "* "}}\n'
    )
    answer = ward.physician.get("patients/a.csv")
    assert (answer.status, answer.is_broken, answer.headers["X-Storlet-Ran-On"]) == (
        200,
        False,
        "proxy,proxy",
    ), answer
    assert answer.body == b"".join(b"* " + line for line in MASKED.splitlines(keepends=True))


def test_the_stored_result_of_a_pipeline_is_encrypted(ward: Ward, other_cluster: Cluster) -> None:
    mark = "stored by a pipeline: "
    ward.rule(
        "version: 1\nrules:\n  - name: both\n    when: {method: PUT, container: open}\n    run:\n      - mask.py\n"
        f"      - {{storlet: mark.py, parameters: {{mark: {mark!r}}}}}\n"
    )
    name = unique("open/new")
    assert ward.physician.put(name, CONTENT).status == 201
    expected = b"".join(mark.encode() + line for line in MASKED.splitlines(keepends=True))
    assert ward.physician.get(name).body == expected
    assert holding(other_cluster, mark.encode()) == []
