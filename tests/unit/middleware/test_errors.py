"""The table of error codes, and the exceptions made from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_daemon.protocol import messages
from storlet_middleware import errors
from tests.support import error_codes

ROOT = Path(__file__).parents[3]

SOURCES = [path for path in (ROOT / "storlet_middleware").rglob("*.py") if "/aio/" not in str(path)]


def test_every_error_has_a_reason_phrase_and_comes_back_from_its_code() -> None:
    classes = [errors.StorletError]
    for cls in classes:
        classes += cls.__subclasses__()
        assert cls.status in errors.REASONS, cls
        Response(status=f"{cls.status} {errors.REASONS[cls.status]}")
    for cls in (
        errors.BadRequest,
        errors.TenantBusy,
        errors.NodeBusy,
        errors.SandboxUnavailable,
        errors.InternalError,
    ):
        again = errors.from_message(cls("why", detail="d").to_message())
        assert (type(again), str(again), again.detail) == (cls, "why", "d")
        assert again.retry_after == cls("why").retry_after


def test_every_row_of_errors_is_consistent_and_comes_back_from_its_code() -> None:
    for code, row in errors.TABLE.items():
        assert (row.retry_after is not None) == (row.retry is errors.Retry.LATER), code
        assert (row.status < 500) == (
            row.blame not in (errors.Blame.OPERATOR, errors.Blame.US)
        ) or row.status == 503
        assert row.help
        again = errors.from_message(errors.StorletError("why", code=code).to_message())
        assert (again.code, again.status, again.retry_after) == (code, row.status, row.retry_after)
        assert (again.legacy_get, again.legacy_put) == (row.legacy_get, row.legacy_put)


TENANT_TEXT = ("storlet.failed", "storlet.load", "storlet.secret", "registration.check")


def test_fields_of_errors_replace_lists_of_codes_elsewhere() -> None:
    """The fields select the codes that prefixes and tuples of codes selected."""
    prefixes = ("storlet.", "tenant.", "node.", "sandbox.", "code.")
    for code, row in errors.TABLE.items():
        assert row.is_of_step == code.startswith(prefixes), code
        assert row.has_source_text == (
            code in ("backend.failed", "input.changed", "input.incomplete")
        ), code
        assert row.has_tenant_text == (code in TENANT_TEXT), code


def test_codes_of_the_sandbox_and_of_the_node_are_in_the_table() -> None:
    assert set(messages.SANDBOX_CODES) - {messages.PROTOCOL} <= set(errors.TABLE)
    assert set(messages.NODE_CODES) <= set(errors.TABLE)
    assert not set(messages.SERVICE_CODES) & set(errors.TABLE)


#: Codes of answers that workers know in addition to those that they send.
OF_ANSWERS = {errors.BAD_REQUEST, errors.LIMIT_OUTPUT}


def test_constants_of_java_are_the_codes_of_the_tables_each_once() -> None:
    texts = [(ROOT / name).read_text() for name in error_codes.JAVA_CONSTANTS]
    codes = [code for text in texts for code in error_codes.declared_in_java(text)]
    assert sorted(codes) == sorted({*messages.SANDBOX_CODES, *messages.SERVICE_CODES, *OF_ANSWERS})


def test_constants_of_c_are_the_codes_of_the_tables_each_once() -> None:
    codes = error_codes.declared_in_c((ROOT / error_codes.C_CONSTANTS).read_text())
    assert sorted(codes) == sorted({*messages.SANDBOX_CODES, *messages.SERVICE_CODES, *OF_ANSWERS})


def test_constants_of_the_authors_interface_are_codes_of_the_tables_each_once() -> None:
    codes = error_codes.declared_in_python((ROOT / error_codes.AUTHOR_CONSTANTS).read_text())
    own = set(messages.SERVICE_CODES) - {messages.SERVICE_UNDECLARED}  # the worker's
    assert sorted(codes) == sorted({*own, messages.LIMIT_SERVICES})


def test_every_error_code_that_the_client_knows_is_in_the_table() -> None:
    """The client knows HTTP only, and so repeats the codes that it explains."""
    text = "\n".join(error_codes.sources(".py", ".java", roots=["storlet_client"]).values())
    families = {code.split(".")[0] for code in errors.TABLE} - {"rules", "storlet", "swift"}
    names = "|".join([*sorted(families), r"storlet\.limit", r"storlet\.timeout"])
    found = set(re.findall(rf'"((?:{names})\.[a-z_]+)"', text))
    assert {errors.ACCESS_RULE, errors.LIMIT_METADATA} <= found
    assert found <= set(errors.TABLE)


def test_every_literal_error_code_is_in_the_table() -> None:
    code = "\n".join(path.read_text() for path in SOURCES if path.name != "errors.py")
    assert set(re.findall(r'\bcode="([a-z_.]+)"', code)) <= set(errors.TABLE)


def test_an_unknown_code_is_our_defect_and_never_a_header_of_its_own() -> None:
    assert errors.from_code("storlet.limit.processes", "x").status == 422
    for code in ("", "nonsense", "storlet.x\r\nSet-Cookie: a", "storlet."):
        error = errors.from_code(code, "x")
        assert (error.status, error.code) == (500, "internal")


def test_text_of_the_tenants_code_is_for_its_owner() -> None:
    for code, row in errors.TABLE.items():
        error = errors.StorletError("secret", code=code, detail="Traceback", retry_after=9)
        shown = error.without_tenant_text()
        assert shown.detail == ""
        assert ("secret" in str(shown)) is not row.has_tenant_text, code
        assert (shown.code, shown.status, shown.retry_after) == (code, error.status, 9)


def test_an_unknown_code_of_a_storlet_is_the_tenants() -> None:
    """A node of a newer release may send codes that this one does not know."""
    error = errors.from_code("storlet.limit.new", "x", detail="d")
    assert isinstance(error, errors.Unprocessable)
    assert (error.code, error.status, error.detail) == ("storlet.limit.new", 422, "d")
    assert (error.legacy_get, error.legacy_put) == (503, 500)


@pytest.mark.parametrize("message", [{}, {"code": None, "retry_after": "soon"}, {"more": 1}])
def test_a_message_with_missing_or_odd_fields_is_our_defect(message: dict[str, Any]) -> None:
    error = errors.from_message(message)
    assert (error.status, error.code, error.retry_after) == (500, "internal", None)
