"""Every header, metadata key and container name, each written once.

Three name spaces that are never mixed:

* client headers: ``X-Run-Storlet`` and the ``X-Storlet-*`` names in :data:`CLIENT_HEADERS`; any other ``X-Storlet-*``
  is refused by name, because a header that is silently ignored looks as if it had worked;
* backend headers: ``X-Backend-Storlet-*``; Swift's gatekeeper strips ``X-Backend-*`` from what clients send and receive;
* stored metadata: ``X-Object-Meta-Storlet-*`` of storlets and dependencies (set by the tenant), and
  ``X-{Account,Container,Object}-Sysmeta-Storlet-*`` for what no client may forge.
"""

from __future__ import annotations

from typing import Final

# --- client -> proxy ---------------------------------------------------------------------------------------------
RUN_STORLET: Final = "X-Run-Storlet"
RUN_ON_PROXY: Final = "X-Storlet-Run-On-Proxy"
PARAMETER_PREFIX: Final = "X-Storlet-Parameter-"
RANGE: Final = "X-Storlet-Range"
EXTRA_RESOURCES: Final = "X-Storlet-Extra-Resources"
GENERATE_LOG: Final = "X-Storlet-Generate-Log"
GRANT_USER: Final = "X-Storlet-Container-Read"
GRANT_STORLET: Final = "X-Storlet-Name"
#: ``X-Storlet-Limit-Memory`` and the like: names of :data:`storlet_middleware.engine.limits.TABLE`; they lower, never raise.
LIMIT_PREFIX: Final = "X-Storlet-Limit-"
REVOKE_USER: Final = "X-Remove-Storlet-Container-Read"

#: Present on an upload of rules: its warnings have been read and are meant.
RULES_ACCEPT_WARNINGS: Final = "X-Storlet-Rules-Accept-Warnings"
#: Says what the rules would do with a request, in place of doing it.
EXPLAIN: Final = "X-Storlet-Explain"
EXPLAIN_KEY: Final = "HTTP_X_STORLET_EXPLAIN"

#: Headers that may come with ``X-Run-Storlet`` (a name that ends in ``-`` is a prefix).
CLIENT_HEADERS: Final = (RUN_ON_PROXY, PARAMETER_PREFIX, RANGE, EXTRA_RESOURCES, GENERATE_LOG, LIMIT_PREFIX)

# --- proxy -> client ---------------------------------------------------------------------------------------------
INVOCATION: Final = "X-Storlet-Invocation"
RAN_ON: Final = "X-Storlet-Ran-On"
ERROR: Final = "X-Storlet-Error"
USAGE: Final = "X-Storlet-Usage"
INPUT_RANGE: Final = "Storlet-Input-Range"
GENERATED_FROM: Final = "X-Storlet-Generated-From"
GENERATED_FROM_ACCOUNT: Final = "X-Storlet-Generated-From-Account"
GENERATED_FROM_LAST_MODIFIED: Final = "X-Storlet-Generated-From-Last-Modified"
GRANTS: Final = "X-Storlet-Container-Read"
#: The name of the rule that decided.
RULE: Final = "X-Storlet-Rule"
#: Of an upload of rules: under which name this version of them is kept.
RULES_VERSION: Final = "X-Storlet-Rules-Version"

# --- proxy <-> object node ---------------------------------------------------------------------------------------
#: Request: the description of the invocation as one line of ASCII JSON.
BACKEND_INVOCATION: Final = "X-Backend-Storlet-Invocation"
#: Request: present when a full node may say so instead of letting the invocation wait; value: replica or proxy.
BACKEND_OVERFLOW: Final = "X-Backend-Storlet-Overflow"
#: Answer: why the node did not run the storlet; see :mod:`storlet_middleware.backend.refusals`.
BACKEND_REFUSAL: Final = "X-Backend-Storlet-Refusal"
#: Answer: present when the body is frames; its value is the version of the frame format.
BACKEND_RUN: Final = "X-Backend-Storlet-Run"

# --- stored ------------------------------------------------------------------------------------------------------
OBJECT_META: Final = "X-Object-Meta-"
STORLET_META: Final = "X-Object-Meta-Storlet-"
ACCOUNT_ENABLED: Final = "storlet-enabled"  # key of X-Account-Meta-Storlet-Enabled in Swift's account info
META_LANGUAGE: Final = STORLET_META + "Language"
META_LANGUAGE_VERSION: Final = STORLET_META + "Language-Version"
META_INTERFACE_VERSION: Final = STORLET_META + "Interface-Version"
META_OBJECT_METADATA: Final = STORLET_META + "Object-Metadata"
META_MAIN: Final = STORLET_META + "Main"
META_DEPENDENCY: Final = STORLET_META + "Dependency"
META_DEPENDENCY_VERSION: Final = STORLET_META + "Dependency-Version"
META_DEPENDENCY_PERMISSIONS: Final = STORLET_META + "Dependency-Permissions"
#: Prefix of one system metadata item a grant: who may read the container's objects through which storlet.
CONTAINER_GRANT: Final = "X-Container-Sysmeta-Storlet-Grant-"
#: Which rules are in force in an account; see :mod:`storlet_middleware.ruleset.pointer`.
ACCOUNT_RULES: Final = "X-Account-Sysmeta-Storlet-Rules"
#: The rule whose storlet made what is stored, and which says what undoes that.
REVERSE_SYSMETA: Final = "X-Object-Sysmeta-Storlet-Reverse"

#: ``swift.source`` of every request that we make: shown in Swift's access log.
SWIFT_SOURCE: Final = "ST"
