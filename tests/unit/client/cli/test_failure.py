"""The lines of an error; ``test_main`` has them as a command prints them."""

from __future__ import annotations

import pytest

from storlet_client import BrokenAnswer, ConfigurationError, LoginFailed, Refused, Unreachable
from storlet_client.cli.failure import lines_of
from storlet_client.errors import StorletsError

FOLDER = "/var/lib/storlets/" + 64 * "0" + "/"
HEADERS = {"x-storlet-error": "storlet.failed", "x-storlet-invocation": "tx1-1"}
RECORD = "see its record, some seconds after the run: storlet show-run tx1-1"


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (ConfigurationError(["a", "b"]), ["storlet: a", "storlet: b"]),
        (LoginFailed("no"), ["storlet: no", "  storlet --help has the ways to log in"]),
        (
            Unreachable("https://h: certificate verify failed: unable to get local issuer"),
            [
                "storlet: https://h: certificate verify failed: unable to get local issuer",
                "  trust the certificate with --os-cacert FILE or OS_CACERT, or correct the URL",
            ],
        ),
        (
            Refused("GET c/o", 422, HEADERS, f'no\x1b\n  File "{FOLDER}a.py", line 1'),
            [
                'storlet: GET c/o: 422 storlet.failed: no\\x1b\n  File "a.py", line 1',
                "  invocation tx1-1",
                f"  {RECORD}",
            ],
        ),
        (
            BrokenAnswer("broke off", "tx1-1"),
            [
                "storlet: broke off",
                "  invocation tx1-1",
                f"  the output so far is not complete; {RECORD}",
            ],
        ),
    ],
)
def test_an_error_has_its_text_its_run_and_the_next_step(
    error: StorletsError, lines: list[str]
) -> None:
    assert lines_of(error) == lines
    assert lines_of(error, begin="")[0] == lines[0].removeprefix("storlet: ")
