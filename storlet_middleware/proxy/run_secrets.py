"""The secrets of the storlets of one run: which of them each step has, and their values.

A storlet has the secrets that its owner has declared for it, for every caller that may run it.  A
parameter of the type ``secret`` names a further one; :mod:`~.permissions` refuses such a name from
a caller that does not own the account.

Values are read when the run begins, and belong to its steps.
"""

from __future__ import annotations

from typing import Any

from storlet_middleware import errors, names
from storlet_middleware.account_secrets.store import SecretStore
from storlet_middleware.bundle import manifest
from storlet_middleware.errors import BadRequest, Unprocessable
from storlet_middleware.proxy.requested_steps import RequestedStep
from storlet_middleware.wsgi.swift_paths import SwiftPath


def used_by(step: RequestedStep) -> tuple[str, ...]:
    """The names of the secrets that a resolved step uses, each once."""
    named = manifest.secrets_named(step.storlet.parameters, step.settings.parameters)
    return tuple(dict.fromkeys((*step.storlet.secrets, *named)))


def fetch(store: SecretStore, environ: dict[str, Any], step: RequestedStep) -> None:
    """Give a resolved step its secrets.

    :param environ: of the client's request.
    :raises StorletError: one is not set, or cannot be read.
    """
    storlet = step.storlet
    if not storlet.secrets and not storlet.parameters:
        step.secrets = {}
        return
    used = used_by(step)
    if len(used) > names.MOST_SECRETS:
        raise BadRequest(
            f"storlet {step.request.storlet} would have {len(used)} secrets: at most"
            f" {names.MOST_SECRETS} are allowed"
        )
    step.secrets = {name: _value(store, environ, step, name) for name in used}


def _value(store: SecretStore, environ: dict[str, Any], step: RequestedStep, name: str) -> bytes:
    request = step.request
    value = store.value(environ, SwiftPath(request.version, request.account), name)
    if value is None:
        raise Unprocessable(
            f"storlet {request.storlet} uses the secret {name}, which is not set: the owner of"
            f" the account sets it with 'storlet secret set {name}'",
            code=errors.STORLET_SECRET,
        )
    return value
