"""An account with rules for the tests of rules, and assertions on what an answer must not reveal.

A mandatory rule applies to one reader (the researcher, ``test2:tester2``) and not to another (the
physician, ``test:tester``).  Answers to the researcher must not contain :data:`SECRET`, nor the
length, hash or metadata of the object.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from tests.support.accounts import prepare_account, unique
from tests.support.http import Answer, Client
from tests.support.storlets import SOURCES, declaration

SECRET = b"SECRET"
CONTENT = b"name: SECRET, age: 42\n" * 200
MASKED = CONTENT.replace(SECRET, b"------")
ETAG = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
RESEARCHER, PHYSICIAN = "test2:tester2", "test:tester"

RULES = f"""
version: 1
rules:
  - name: hide
    when:
      method: GET
      container: {{prefix: patients}}
      any: [{{user: "{RESEARCHER}"}}, {{anonymous: true}}, {{signed: true}}]
    mandatory: true
    run: mask.py
"""
#: For every reader, and before the storlets of the request.
MASK_FIRST = """\
version: 1
rules:
- name: hide
  when: {method: GET, container: patients}
  mandatory: true
  explicit: after
  run: mask.py
"""


@dataclass(frozen=True)
class Ward:
    """An account with rules."""

    admin: Client
    researcher: Client
    physician: Client

    def rule(self, text: str, *, accept: bool = False) -> None:
        headers = {"X-Storlet-Rules-Accept-Warnings": "true"} if accept else {}
        answer = self.admin.put("storlet_rules/rules.yaml", text.encode(), headers)
        assert answer.status == 201, answer.text


def make_ward(users: dict[str, Client], policy: str = "") -> Ward:
    """A new account; both users may read and write its containers, except the rules."""
    account = f"AUTH_{unique('ward')}"
    ward = Ward(*(users[name].on(account) for name in ("admin:admin", RESEARCHER, PHYSICIAN)))
    furnish(ward.admin, f"{RESEARCHER},{PHYSICIAN}", policy)
    return ward


def furnish(admin: Client, readers: str, policy: str = "") -> None:
    """Storlets, and an object in two containers; ``readers`` is an ACL."""
    prepare_account(admin)
    acl = {"X-Container-Read": readers, "X-Container-Write": readers}
    assert admin.put("storlet", b"", acl).status in (201, 202)
    for container in ("patients", "open"):
        more = {"X-Storage-Policy": policy} if policy else {}
        assert admin.put(container, b"", acl | more).status == 201
    assert admin.put("storlet_rules", b"").status == 201
    source = (SOURCES / "rules_tools.py").read_bytes()
    for name in ("mask", "mark", "pack", "unpack", "show", "fail"):
        headers = declaration("python", f"{name}.{name.title()}")
        assert admin.put(f"storlet/{name}.py", source, headers).status == 201
    headers = {
        "Content-Type": "text/csv",
        "X-Object-Meta-Patient": "SECRET",
        "X-Object-Meta-Study": "7",
    }
    for path in ("patients/a.csv", "open/a.csv"):
        assert admin.put(path, CONTENT, headers).status == 201


def told(answer: Answer) -> str:
    """Headers and body of an answer."""
    return f"{answer.headers}{answer.body.decode(errors='replace')}"


def assert_closed(answer: Answer, rule: str = "hide") -> None:
    """Assert a refusal that names the rule and reveals nothing of the object."""
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
        403,
        "access.rule",
        rule,
    ), answer
    assert_reveals_nothing(answer)


def assert_reveals_nothing(answer: Answer) -> None:
    """Assert that the answer has neither content nor metadata, hash or length of the object."""
    assert "SECRET" not in told(answer)
    assert ETAG not in told(answer)
    assert not tells_length(told(answer))


def tells_length(text: str) -> bool:
    """True if the text has the object's length as a separate number (a transaction id may contain
    its digits)."""
    return re.search(rf"\b{len(CONTENT)}\b", text) is not None


def assert_masked(answer: Answer) -> None:
    assert (answer.status, answer.is_broken, answer.body) == (200, False, MASKED), answer
    assert answer.headers["X-Storlet-Rule"] == "hide"
    assert "SECRET" not in told(answer)
    assert ETAG not in told(answer)
    for header in (
        "Content-Range",
        "Last-Modified",
        "Accept-Ranges",
        "X-Timestamp",
        "X-Object-Meta-Study",
    ):
        assert answer.headers[header] is None, (header, answer)
