"""Uploads of storlets and dependencies: checked on every path of upload, all faults in one 400."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import pytest

from tests.functional.s3 import S3
from tests.support.accounts import unique
from tests.support.http import Answer, Client
from tests.support.storlets import SOURCES, Tool, declaration

META = "X-Object-Meta-Storlet-"
GOOD = (SOURCES / "multitool.py").read_bytes()


def refused(answer: Answer) -> str:
    """The text of a refusal."""
    assert (answer.status, answer.error) == (400, "registration.invalid"), answer
    return answer.text


def python(stem: str, **more: str) -> dict[str, str]:
    return declaration("python", f"{stem}.Multitool", **more)


# --- each fault -----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["Language", "Interface-Version", "Object-Metadata", "Main"])
def test_missing_mandatory_metadata_is_refused(owner: Client, missing: str) -> None:
    stem = unique("reg")
    headers = {k: v for k, v in python(stem).items() if k != META + missing}
    text = refused(owner.put(f"storlet/{stem}.py", GOOD, headers))
    assert "Mandatory parameter is missing" in text
    assert missing in text
    assert owner.head(f"storlet/{stem}.py").status == 404


PYTHON_FAULTS = [
    ({"Language": "cobol"}, "Unsupported Language"),
    ({"Language-Version": "abc"}, "Language-Version is invalid"),
    ({"Language-Version": "2.7"}, "Not supported version specified"),
    ({"Main": "other.Multitool"}, "Main class should be included in storlet file"),
    ({"Main": "{stem}.sub.Multitool"}, "Submodule is currently not supported"),
    ({"Dependency": "{stem}.py"}, "Using the same name for storlet and dependency is not allowed"),
    ({"Dependency": "a.txt,b.txt,a.txt"}, "Duplicated name in dependencies"),
    ({"Dependency": "../../etc/passwd"}, "../../etc/passwd"),
    ({"Dependency": ".."}, ".."),
    ({"Dependency": "sub/file"}, "sub/file"),
    ({"Main": "{stem}./../x"}, "Submodule"),
    ({"Input-Type": "text/csv, csv"}, "Storlet-Input-Type: 'csv': want content types"),
    ({"Output-Type": "text/*"}, "Storlet-Output-Type: 'text/*': want one content type"),
]


@pytest.mark.parametrize(
    ("changed", "told"), PYTHON_FAULTS, ids=[told for _, told in PYTHON_FAULTS]
)
def test_faults_of_a_python_storlet_are_refused(
    owner: Client, changed: dict[str, str], told: str
) -> None:
    stem = unique("reg")
    headers = python(stem) | {META + key: value.format(stem=stem) for key, value in changed.items()}
    assert told.format(stem=stem) in refused(owner.put(f"storlet/{stem}.py", GOOD, headers))
    assert owner.head(f"storlet/{stem}.py").status == 404


@pytest.mark.parametrize("version", ["3", "3.11"])
@pytest.mark.parametrize("language", ["python", "Python"])
def test_valid_forms_of_language_and_version_are_accepted(
    owner: Client, version: str, language: str
) -> None:
    stem = unique("reg")
    headers = python(stem, Language_Version=version) | {META + "Language": language}
    assert owner.put(f"storlet/{stem}.py", GOOD, headers).status == 201


@pytest.mark.parametrize("name", ["reg.txt", "reg", "reg.tar.gz"])
def test_a_python_storlet_is_a_py_file(owner: Client, name: str) -> None:
    assert "Storlet name is incorrect" in refused(owner.put(f"storlet/{name}", GOOD, python("reg")))


@pytest.mark.parametrize("name", ["nodash.jar", "no-dot"])
def test_a_java_storlet_has_a_version_in_its_name(owner: Client, name: str) -> None:
    assert "Storlet name is incorrect" in refused(
        owner.put(f"storlet/{name}", b"PK", declaration("java", "a.B"))
    )


UNSAFE = ["sub/reg.py", "../reg.py", "..%2Freg.py", "a/../../reg.py", "-rf.py", "new\nline.py"]


@pytest.mark.parametrize("name", UNSAFE)
def test_names_that_could_leave_a_directory_are_refused(owner: Client, name: str) -> None:
    module = name.removesuffix(".py")
    headers = declaration("python", f"{module}.Multitool") if "\n" not in module else python("line")
    if "%" in name:
        assert owner.put(f"storlet/{name}", GOOD, headers).status in (400, 201)
        owner.delete(f"storlet/{name}")
        return
    refused(owner.put(f"storlet/{name}", GOOD, headers))


@pytest.mark.parametrize("name", ["sub/dep.txt", "../dep.txt", "a/..", "-dep"])
def test_names_of_dependencies_that_could_leave_a_directory_are_refused(
    owner: Client, name: str
) -> None:
    refused(owner.put(f"dependency/{name}", b"x", {META + "Dependency-Version": "1"}))
    assert owner.head(f"dependency/{name}").status == 404


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({}, "Mandatory parameter is missing"),
        (
            {"Dependency-Version": "1", "Dependency-Permissions": "rwx"},
            "Dependency permission is incorrect",
        ),
        (
            {"Dependency-Version": "1", "Dependency-Permissions": "888"},
            "Dependency permission is incorrect",
        ),
        (
            {"Dependency-Version": "1", "Dependency-Permissions": "0400"},
            "The owner should have rw permission",
        ),
    ],
)
def test_faults_of_a_dependency_are_refused(
    owner: Client, headers: dict[str, str], told: str
) -> None:
    name = unique("dep")
    answer = owner.put(
        f"dependency/{name}", b"x", {META + key: value for key, value in headers.items()}
    )
    assert told in refused(answer)
    assert owner.head(f"dependency/{name}").status == 404


@pytest.mark.parametrize("permissions", ["0600", "700", "0755", "0644"])
def test_valid_forms_of_permissions_are_accepted(owner: Client, permissions: str) -> None:
    headers = {META + "Dependency-Version": "1", META + "Dependency-Permissions": permissions}
    assert owner.put(f"dependency/{unique('dep')}", b"x", headers).status == 201


def test_all_faults_come_in_one_400(owner: Client) -> None:
    name = unique("all") + ".txt"
    headers = {
        META + "Language": "python",
        META + "Language-Version": "2.7",
        META + "Dependency": f"{name},a,a,../b",
    }
    text = refused(owner.put(f"storlet/{name}", GOOD, headers))
    for told in (
        "Interface-Version",
        "Object-Metadata",
        "Main",
        "Not supported version specified",
        "Storlet name is incorrect",
        "Using the same name for storlet and dependency is not allowed",
        "Duplicated name in dependencies",
        "../b",
    ):
        assert told in text


def test_faults_are_json_when_the_client_accepts_it(owner: Client) -> None:
    answer = owner.put("storlet/x.py", GOOD, {"Accept": "application/json"})
    assert answer.status == 400
    assert "registration.invalid" in json.dumps(json.loads(answer.body))


# --- every way in ---------------------------------------------------------------------------------


def test_a_post_may_not_make_a_storlet_invalid(any_tool: Tool, owner: Client, plain: str) -> None:
    stem = unique("post")
    assert owner.put(f"storlet/{stem}.py", GOOD, python(stem)).status == 201
    refused(owner.post(f"storlet/{stem}.py", {META + "Main": "elsewhere.X"}))
    assert Tool(owner, f"{stem}.py").get(plain).status == 200
    good = python(stem) | {"X-Object-Meta-Note": "changed"}
    assert owner.post(f"storlet/{stem}.py", good).status == 202
    assert Tool(owner, f"{stem}.py").get(plain).status == 200


def test_a_copy_into_the_container_is_checked(owner: Client, container: str) -> None:
    stem = unique("copied")
    assert owner.put(f"{container}/raw", GOOD, {META + "Language": "python"}).status == 201
    for answer in (
        owner.request("COPY", f"{container}/raw", {"Destination": f"/storlet/{stem}.py"}),
        owner.put(f"storlet/{stem}.py", b"", {"X-Copy-From": f"/{container}/raw"}),
    ):
        assert "Mandatory parameter is missing" in refused(answer)
    assert owner.head(f"storlet/{stem}.py").status == 404


def test_a_copy_with_good_metadata_is_a_storlet(owner: Client, container: str, plain: str) -> None:
    stem = unique("copied")
    assert owner.put(f"{container}/raw", GOOD, python(stem)).status == 201
    assert owner.put(f"storlet/{stem}.py", b"", {"X-Copy-From": f"/{container}/raw"}).status == 201
    assert Tool(owner, f"{stem}.py").get(plain).status == 200
    other = unique("given")
    answer = owner.request(
        "COPY", f"{container}/raw", {"Destination": f"/storlet/{other}.py"} | python(other)
    )
    assert answer.status == 201, answer
    assert (
        Tool(owner, f"{other}.py").client.head(f"storlet/{other}.py").meta("Storlet-Main")
        == f"{other}.Multitool"
    )


def test_a_copy_to_a_name_that_leaves_the_directory_is_refused(
    owner: Client, container: str
) -> None:
    assert owner.put(f"{container}/raw", GOOD, python("x")).status == 201
    refused(owner.request("COPY", f"{container}/raw", {"Destination": "/storlet/sub/x.py"}))


def test_the_result_of_a_storlet_in_the_container_is_checked(
    any_tool: Tool, owner: Client, container: str
) -> None:
    stem = unique("made")
    answer = any_tool.put(f"storlet/{stem}.py", GOOD)
    assert answer.status == 400, answer
    assert owner.head(f"storlet/{stem}.py").status == 404


def tar_of(files: dict[str, tuple[bytes, dict[str, str]]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (content, headers) in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            prefix = "SCHILY.xattr.user.meta."
            info.pax_headers = {
                prefix + key.removeprefix("X-Object-Meta-"): value
                for key, value in headers.items()
                if key.startswith("X-Ob")
            }
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def bulk(owner: Client, archive: bytes) -> dict[str, Any]:
    answer = owner.put(
        "storlet", archive, {"Accept": "application/json"}, query="extract-archive=tar"
    )
    assert answer.status == 200, answer
    told = json.loads(answer.body)
    assert isinstance(told, dict)
    return told


def test_a_bulk_upload_is_checked(owner: Client, plain: str) -> None:
    good, bad = unique("bulk_good"), unique("bulk_bad")
    told = bulk(owner, tar_of({f"{good}.py": (GOOD, python(good)), f"{bad}.py": (GOOD, {})}))
    assert told["Number Files Created"] == 1, told
    assert [[path.endswith(f"{bad}.py"), status[:3]] for path, status in told["Errors"]] == [
        [True, "400"]
    ]
    assert owner.head(f"storlet/{bad}.py").status == 404
    assert Tool(owner, f"{good}.py").get(plain).status == 200


def test_a_bulk_upload_of_a_name_that_leaves_the_directory_is_refused(owner: Client) -> None:
    told = bulk(owner, tar_of({"sub/x.py": (GOOD, python("x"))}))
    assert told["Number Files Created"] == 0, told
    assert told["Errors"][0][1].startswith("400")


def s3_put(client: S3, path: str, body: bytes, meta: dict[str, str]) -> Answer:
    headers = {f"x-amz-meta-{key.lower()}": value for key, value in meta.items()}
    return client.request(
        "PUT", path, headers | {"Content-Type": "application/octet-stream"}, body=body
    )


def s3_meta(headers: dict[str, str]) -> dict[str, str]:
    return {
        key.removeprefix("X-Object-Meta-"): value
        for key, value in headers.items()
        if key.startswith("X-Obj")
    }


def test_an_s3_upload_is_checked(owner: Client, description: dict[str, Any], plain: str) -> None:
    user, stem = "test:tester", unique("s3")
    client = S3(
        description["auth_url"].removesuffix("/auth/v1.0"), user, description["users"][user]
    )
    assert s3_put(client, f"storlet/{stem}.py", GOOD, {}).status == 400
    assert owner.head(f"storlet/{stem}.py").status == 404
    assert s3_put(client, f"storlet/sub/{stem}.py", GOOD, s3_meta(python(stem))).status == 400
    assert owner.head(f"storlet/sub/{stem}.py").status == 404
    answer = s3_put(client, f"storlet/{stem}.py", GOOD, s3_meta(python(stem)))
    assert answer.status == 200, answer
    assert Tool(owner, f"{stem}.py").get(plain).status == 200


def test_other_containers_are_not_checked(owner: Client, container: str) -> None:
    assert (
        owner.put(f"{container}/sub/anything.py", GOOD, {META + "Language": "cobol"}).status == 201
    )
