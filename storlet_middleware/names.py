"""Every header, metadata key and container name: one row each, and a constant with its name.

Three name spaces that are never mixed:

* client headers: ``X-Run-Storlet`` and the ``X-Storlet-*`` names.  Any other ``X-Storlet-*`` header
  is refused by name, because a header that is ignored looks as if it had worked;
* backend headers: ``X-Backend-Storlet-*``, between servers only.  Swift's gatekeeper strips
  ``X-Backend-*`` from what clients send and receive;
* stored metadata: ``X-Object-Meta-Storlet-*`` of storlets and dependencies, which the tenant sets,
  and ``X-{Account,Container,Object}-Sysmeta-Storlet-*``, which no client can set.

To add a header, add one row: :data:`CLIENT_HEADERS`, the refusal of unknown names and the reference
page follow from it.  A name that ends in ``-`` is a prefix."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from storlet_daemon.protocol.messages import SERVICES
from storlet_daemon.runtimes.table import LANGUAGES


@functools.lru_cache(maxsize=1024)
def environ_key(header: str) -> str:
    """The key of a request header, or of a prefix of some, in a WSGI environment."""
    return "HTTP_" + header.upper().replace("-", "_")


@functools.lru_cache(maxsize=1024)
def header_of(key: str) -> str:
    """The request header of a key in a WSGI environment, in HTTP spelling."""
    return key.removeprefix("HTTP_").replace("_", "-").title()


class Scope(Enum):
    """Where a header is used."""

    RUN = "client request, with X-Run-Storlet"
    REQUEST = "client request"
    ANSWER = "answer to a client"
    BACKEND_REQUEST = "request of a proxy server to an object server"
    BACKEND_ANSWER = "answer of an object server to a proxy server"
    STORLET = "metadata of a storlet"
    DEPENDENCY = "metadata of a dependency"
    ACCOUNT = "metadata of an account"
    SYSTEM = "system metadata"


@dataclass(frozen=True)
class Header:
    """One row; ``value`` is the form of the value."""

    name: str
    scope: Scope
    value: str
    help: str


#: Every header, in the order of this file.
TABLE: Final[list[Header]] = []


def _header(name: str, scope: Scope, value: str, meaning: str) -> str:
    TABLE.append(Header(name, scope, value, meaning))
    return name


# fmt: off
# --- client -> proxy ------------------------------------------------------------------------------
RUN_STORLET: Final = _header(
    "X-Run-Storlet", Scope.REQUEST, "name",
    "run this storlet on the object of the request")
RUN_ON_PROXY: Final = _header(
    "X-Storlet-Run-On-Proxy", Scope.RUN, "empty",
    "run the storlet at the proxy server")
PARAMETER_PREFIX: Final = _header(
    "X-Storlet-Parameter-", Scope.RUN, "key:value",
    "a parameter of the storlet; the name of the header does not matter")
RANGE: Final = _header(
    "X-Storlet-Range", Scope.RUN, "bytes=a-b",
    "the range of the object that the storlet reads; several ranges are several inputs")
EXTRA_RESOURCES: Final = _header(
    "X-Storlet-Extra-Resources", Scope.RUN, "/container/object, ...",
    "further inputs of the same account")
OUTPUT: Final = _header(
    "X-Storlet-Output", Scope.RUN, "/container/object, ...",
    "objects of the same account in which the storlet's further outputs are stored")
GENERATE_LOG: Final = _header(
    "X-Storlet-Generate-Log", Scope.RUN, "boolean",
    "store what the storlet logs as an object")
IF_VERSION: Final = _header(
    "X-Storlet-If-Version", Scope.RUN, "hash of a version",
    "run only this version of the storlet, by its hash in the record of a run; else 412")
IF_RESOURCES: Final = _header(
    "X-Storlet-If-Resources", Scope.RUN, "ETag, ...",
    "read only further inputs with these ETags, one for each extra resource; else 412")
LIMIT_PREFIX: Final = _header(
    "X-Storlet-Limit-", Scope.RUN, "number with unit",
    "lowers a limit of this invocation, never raises it; the limits have a table of their own")
GRANT_USER: Final = _header(
    "X-Storlet-Container-Read", Scope.REQUEST, "user",
    "POST of a container: let this user read its objects through one storlet only")
GRANT_STORLET: Final = _header(
    "X-Storlet-Name", Scope.REQUEST, "name",
    "the storlet of a grant that is given or removed")
REVOKE_USER: Final = _header(
    "X-Remove-Storlet-Container-Read", Scope.REQUEST, "user",
    "POST of a container: remove a grant")
RULES_ACCEPT_WARNINGS: Final = _header(
    "X-Storlet-Rules-Accept-Warnings", Scope.REQUEST, "any",
    "upload of rules: accept them although the check has warnings")
EXPLAIN: Final = _header(
    "X-Storlet-Explain", Scope.REQUEST, "any",
    "answer what the rules would do with the request, and do nothing else")
CHECK: Final = _header(
    "X-Storlet-Check", Scope.REQUEST, "true | false",
    "PUT or POST of a storlet: load its code in a sandbox before it takes effect")

# --- proxy -> client ------------------------------------------------------------------------------
INVOCATION: Final = _header(
    "X-Storlet-Invocation", Scope.ANSWER, "id",
    "the invocation; also the name of its log")
RAN_ON: Final = _header(
    "X-Storlet-Ran-On", Scope.ANSWER, "object | proxy",
    "the placement; of several storlets the placement of each")
ERROR: Final = _header(
    "X-Storlet-Error", Scope.ANSWER, "error code",
    "why the request failed; the error codes have a table of their own")
USAGE: Final = _header(
    "X-Storlet-Usage", Scope.ANSWER, "key=value;...",
    "CPU time, peak memory and bytes of the invocation")
BUNDLE_NUMBER: Final = _header(
    "X-Storlet-Version", Scope.ANSWER, "number",
    "upload or rollback of a bundle: the version that is current now")
LOG_LOST: Final = _header(
    "X-Storlet-Log-Lost", Scope.ANSWER, "true",
    "PUT and COPY: the requested log could not be stored; the object is stored")
INPUT_RANGE: Final = _header(
    "Storlet-Input-Range", Scope.ANSWER, "bytes a-b/size",
    "the range of the object that the storlet read")
GENERATED_FROM: Final = _header(
    "X-Storlet-Generated-From", Scope.ANSWER, "container/object",
    "the source of a copy")
GENERATED_FROM_ACCOUNT: Final = _header(
    "X-Storlet-Generated-From-Account", Scope.ANSWER, "account",
    "the account of the source of a copy")
GENERATED_FROM_LAST_MODIFIED: Final = _header(
    "X-Storlet-Generated-From-Last-Modified", Scope.ANSWER, "HTTP date",
    "the time of the source of a copy")
GRANTS: Final = _header(
    "X-Storlet-Container-Read", Scope.ANSWER, "list",
    "HEAD and GET of a container by its owner: the grants")
WARNING: Final = _header(
    "X-Storlet-Warning", Scope.ANSWER, "text",
    "POST of a grant: it is stored, and cannot have an effect as it is")
RULE: Final = _header(
    "X-Storlet-Rule", Scope.ANSWER, "rule name",
    "the rule that decided")
RUNS_NEXT: Final = _header(
    "X-Storlet-Runs-Next", Scope.ANSWER, "marker",
    "records of runs: there may be more, from this marker on")
RULES_VERSION: Final = _header(
    "X-Storlet-Rules-Version", Scope.ANSWER, "ruleset version",
    "the name under which uploaded rules are kept")

# --- proxy <-> object node ------------------------------------------------------------------------
BACKEND_INVOCATION: Final = _header(
    "X-Backend-Storlet-Invocation", Scope.BACKEND_REQUEST, "JSON, one line of ASCII",
    "the description of the invocation")
BACKEND_OVERFLOW: Final = _header(
    "X-Backend-Storlet-Overflow", Scope.BACKEND_REQUEST, "replica | proxy",
    "a full node may refuse instead of queueing the invocation")
BACKEND_AVOID: Final = _header(
    "X-Backend-Storlet-Avoid", Scope.BACKEND_REQUEST, "node, ...",
    "nodes that could not run storlets lately: each refuses, so that Swift queries another replica")
BACKEND_REFUSAL: Final = _header(
    "X-Backend-Storlet-Refusal", Scope.BACKEND_ANSWER, "full | resume | unable | version",
    "why the node did not run the storlet")
BACKEND_RUN: Final = _header(
    "X-Backend-Storlet-Run", Scope.BACKEND_ANSWER, "number",
    "the body is frames; the value is the version of the frame format")

# --- stored ---------------------------------------------------------------------------------------
STORLET_META: Final = "X-Object-Meta-Storlet-"
META_LANGUAGE: Final = _header(
    STORLET_META + "Language", Scope.STORLET, " | ".join(row.name for row in LANGUAGES),
    "the language of the storlet; mandatory")
META_LANGUAGE_VERSION: Final = _header(
    STORLET_META + "Language-Version", Scope.STORLET, "number",
    f"the version of {' or '.join(row.title for row in LANGUAGES if row.has_version)}")
META_INTERFACE_VERSION: Final = _header(
    STORLET_META + "Interface-Version", Scope.STORLET, "number",
    "mandatory, and not interpreted")
META_OBJECT_METADATA: Final = _header(
    STORLET_META + "Object-Metadata", Scope.STORLET, "any",
    "mandatory, and not interpreted")
META_MAIN: Final = _header(
    STORLET_META + "Main", Scope.STORLET, "module.Class | class | file | file:function",
    "the entry point; mandatory")
META_DEPENDENCY: Final = _header(
    STORLET_META + "Dependency", Scope.STORLET, "names, with commas",
    "the dependencies of the storlet")
META_ARGUMENTS: Final = _header(
    STORLET_META + "Arguments", Scope.STORLET, "words, as in a shell",
    "the arguments of a native program; nothing in them is expanded")
META_INPUT_TYPE: Final = _header(
    STORLET_META + "Input-Type", Scope.STORLET, "content types, with commas",
    "the content types that the storlet accepts; the check of rules uses them")
META_OUTPUT_TYPE: Final = _header(
    STORLET_META + "Output-Type", Scope.STORLET, "content type",
    "the content type of the storlet's output; the check of rules uses it")
META_RECORDS: Final = _header(
    STORLET_META + "Records", Scope.STORLET, "all | failures | none",
    "the runs of this storlet that are recorded, instead of the account's choice")
META_SERVICES: Final = _header(
    STORLET_META + "Services", Scope.STORLET, ", ".join(SERVICES),
    "the operations on the store that the storlet may use while it runs; none if it is not set")
META_SECRETS: Final = _header(
    STORLET_META + "Secrets", Scope.STORLET, "names, with commas",
    "the secrets of the account that the storlet uses; none if it is not set")
META_INPUT: Final = _header(
    STORLET_META + "Input", Scope.STORLET, "seekable",
    "the storlet seeks in its inputs; without it, inputs are streams")
META_RANGES: Final = _header(
    STORLET_META + "Ranges", Scope.STORLET, "true | false",
    "the storlet can give a range of its output, for a Range where a rule runs it; false if it is"
    " not set")
META_DEPENDENCY_VERSION: Final = _header(
    STORLET_META + "Dependency-Version", Scope.DEPENDENCY, "text",
    "mandatory, and not interpreted")
META_DEPENDENCY_PERMISSIONS: Final = _header(
    STORLET_META + "Dependency-Permissions", Scope.DEPENDENCY, "octal",
    "file mode in the sandbox; 0700 makes it executable")
ACCOUNT_RECORDS: Final = _header(
    "X-Account-Meta-Storlet-Records", Scope.ACCOUNT, "all | failures | none",
    "the runs of the account that are recorded; failures if it is not set")
ACCOUNT_LIBRARY: Final = _header(
    "X-Account-Meta-Storlet-Library", Scope.ACCOUNT, "all | users | owners | none",
    "the callers that may run storlets of the library (std:...); users, which are all callers with"
    " a login, if it is not set")
ACCOUNT_CHECK: Final = _header(
    "X-Account-Meta-Storlet-Check", Scope.ACCOUNT, "true | false",
    "whether uploads of storlets without X-Storlet-Check are checked; false if it is not set")
BUNDLE_SYSMETA: Final = _header(
    "X-Object-Sysmeta-Storlet-Bundle-", Scope.SYSTEM, "JSON",
    "a piece of what a proxy verified of a bundle: version number, hash, manifest")
BUNDLE_VERSIONS: Final = _header(
    "X-Object-Sysmeta-Storlet-Versions", Scope.SYSTEM, "JSON",
    "the versions of a bundle that are kept")
CONTAINER_GRANT: Final = _header(
    "X-Container-Sysmeta-Storlet-Grant-", Scope.SYSTEM, "JSON",
    "one grant: a user who may read the container's objects, and the storlet to read them through")
ACCOUNT_RULES: Final = _header(
    "X-Account-Sysmeta-Storlet-Rules", Scope.SYSTEM, "text",
    "the ruleset version in force; see storlet_middleware.ruleset.pointer")
ACCOUNT_FOLLOWED: Final = _header(
    "X-Account-Sysmeta-Storlet-Followed-Until", Scope.SYSTEM, "seconds since 1970",
    "until then, log lines of running storlets of the account are stored for their followers")
RECORDS_SYSMETA: Final = _header(
    "X-Object-Sysmeta-Storlet-Records", Scope.SYSTEM, "true",
    "the object was written by this filter and holds records of runs, or lines of their logs")
REVERSE_SYSMETA: Final = _header(
    "X-Object-Sysmeta-Storlet-Reverse", Scope.SYSTEM, "JSON",
    "the rule whose storlet made the object, with the storlet that reverses it")
# fmt: on

#: Headers that may come with ``X-Run-Storlet``.
CLIENT_HEADERS: Final = tuple(row.name for row in TABLE if row.scope is Scope.RUN)
#: Key of :data:`EXPLAIN` in a WSGI environment.
EXPLAIN_KEY: Final = environ_key(EXPLAIN)
OBJECT_META: Final = "X-Object-Meta-"
#: Key of ``X-Account-Meta-Storlet-Enabled`` in Swift's account info.
ACCOUNT_ENABLED: Final = "storlet-enabled"
#: ``swift.source`` of every request of this package, shown in Swift's access log.
SWIFT_SOURCE: Final = "ST"

BUNDLE_SUFFIX: Final = ".storlet"
#: Objects of the storlet container below this prefix are versions of bundles.  No plain storlet has
#: such a name, because it becomes a file.
BUNDLE_OBJECTS: Final = "versions/"
#: The beginning of the names of the system library.  No object of an account is a storlet of such a
#: name: the colon is not allowed there.
LIBRARY: Final = "std:"
#: The members of the library that run several storlets.
SEQUENCE: Final = "std:sequence"
DISTRIBUTED: Final = "std:distributed"
FLOWS: Final = (SEQUENCE, DISTRIBUTED)
#: The default of ``[library] distributed_spool_dir``, below ``[sandbox] state_dir``.
SPOOL_FOLDER: Final = "spool"
#: Parameter of the query of a GET of an account that lists the library.
LIBRARY_QUERY: Final = "storlet-library"
#: Parameters of a query: of a POST that makes a version current, of a GET that lists versions.
VERSION_QUERY: Final = "storlet-version"
VERSIONS_QUERY: Final = "storlet-versions"
#: Parameter of the query of a request of an account for its secrets; its value is a name.
SECRETS_QUERY: Final = "storlet-secrets"
_SECRET_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
#: The most secrets that one storlet declares.
MOST_SECRETS: Final = 8
_BUNDLE_NAME: Final = re.compile(r"([a-z][a-z0-9_-]{0,62})(?:@([1-9][0-9]{0,8}))?")


# A request has one name of a storlet, for which these functions are called several times.
@functools.lru_cache(maxsize=1024)
def bundle_of(storlet: str) -> tuple[str, int] | None:
    """Name and version number (0: the current one) of a storlet that is a bundle.

    ``None`` for a plain storlet, whose name always has a dot: the two name spaces do not meet.
    """
    match = _BUNDLE_NAME.fullmatch(storlet)
    return (match[1], int(match[2] or 0)) if match else None


def secret_name_fault(name: str) -> str:
    """Why ``name`` cannot be the name of a secret; empty if it can."""
    if _SECRET_NAME.fullmatch(name):
        return ""
    return "want the name of a secret: a lower-case letter, then at most 62 of a-z, 0-9 and '-'"


@functools.lru_cache(maxsize=1024)
def is_library(storlet: str) -> bool:
    """Whether the name is one of the system library."""
    return storlet.startswith(LIBRARY)


@functools.lru_cache(maxsize=1024)
def object_of(storlet: str) -> str:
    """The object in the storlet container that the name of a storlet refers to."""
    bundle = bundle_of(storlet)
    return bundle[0] + BUNDLE_SUFFIX if bundle else storlet
