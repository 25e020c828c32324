"""The lines of an error: its text, the id of the run, and the next command to try."""

from __future__ import annotations

from storlet_client.cli.output import explained, legible
from storlet_client.diagnosis.check import command
from storlet_client.errors import (
    BrokenAnswer,
    ConfigurationError,
    LoginFailed,
    Refused,
    StorletsError,
    Unreachable,
)

#: The error of OpenSSL for a certificate that is not trusted.
_UNTRUSTED = "certificate verify failed"
_TRUST = "trust the certificate with --os-cacert FILE or OS_CACERT, or correct the URL"
_CONNECT = "check the URL of the login (OS_AUTH_URL, ST_AUTH, clouds.yaml) and the network"
#: The next command to try, by error code.
_ADVICE = {
    "storlet.not_found": "see storlets and versions: storlet list, storlet versions NAME",
    # The request is named by its source.
    "target.not_found": "see what is there, and what you may do: storlet doctor CONTAINER",
    "access.rule": "see the decision: storlet rules decide METHOD CONTAINER/OBJECT",
    "registration.check": "the old code, if any, stays in use: correct the new code, deploy again",
    "registration.invalid": "see the options: storlet deploy --help",
}


def lines_of(error: StorletsError, begin: str = "storlet: ") -> list[str]:
    """The lines of an error, legible on a terminal.

    :param begin: of each fault.
    """
    faults = error.faults if isinstance(error, ConfigurationError) else (str(error),)
    lines = [explained(begin + fault) for fault in faults]
    if isinstance(error, (Refused, BrokenAnswer)) and error.invocation:
        lines.append(legible(f"  invocation {error.invocation}"))
    advice = _advice(error)
    if advice:
        lines.append(legible(f"  {advice}"))
    return lines


def _advice(error: StorletsError) -> str:
    """The next step; empty if the text of the error has it."""
    if isinstance(error, Refused):
        return _advice_of_answer(error)
    if isinstance(error, BrokenAnswer):
        if error.invocation:
            return f"the output so far is not complete; {_record_of(error.invocation)}"
        return "the output so far is not complete; repeat the command"
    if isinstance(error, LoginFailed):
        return "storlet --help has the ways to log in"
    if isinstance(error, Unreachable):
        return _TRUST if _UNTRUSTED in str(error) else _CONNECT
    return ""


def _record_of(invocation: str) -> str:
    return f"see its record, some seconds after the run: storlet show-run {invocation}"


def _advice_of_answer(error: Refused) -> str:
    if "disabled for storlets" in error.message:
        return "enable them: storlet enable"
    if error.status == 401:
        return "log in again, or check the account: storlet doctor"
    if error.code in _ADVICE:
        return _ADVICE[error.code]
    if error.code.startswith("storlet.") and error.invocation:
        return _record_of(error.invocation)
    return _advice_by_status(error)


def _advice_by_status(error: Refused) -> str:
    if error.status in {403, 404}:
        place = error.request.partition(" ")[2]
        is_path = place != "account" and "://" not in place
        named = command("storlet", "doctor", *([place] if is_path else []))
        return f"see what is there, and what you may do: {named}"
    if error.status in {429, 503}:
        return "the cluster is busy: repeat the command later"
    if error.status >= 500:
        transaction = error.transaction or "unknown"
        return f"if it fails again, contact the operator of the cluster: transaction {transaction}"
    return ""
