"""Clients of the S3 API: paths are ``bucket/key``, requests are signed here."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Final
from urllib.parse import quote

from tests.support.http import Answer, Client

#: Parts of a query that are signed.
_SIGNED: Final = (
    "delete",
    "partNumber",
    "select",
    "select-type",
    "tagging",
    "uploadId",
    "uploads",
    "versionId",
    "versions",
)
_NAMESPACE: Final = "{http://s3.amazonaws.com/doc/2006-03-01/}"


@dataclass(frozen=True)
class User:
    """One user of tempauth (``account:user``), whose buckets are the containers of the account;
    ``url`` is the proxy's."""

    url: str
    user: str
    key: str


class S3(User):
    """Requests are signed with version 2."""

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        query: str = "",
        body: bytes = b"",
    ) -> Answer:
        """``query`` is already quoted, its words are in alphabetical order."""
        resource, sent = (
            "/" + quote(path),
            {"Date": formatdate(time.time(), usegmt=True)} | dict(headers or {}),
        )
        known = sorted((key.lower(), value) for key, value in sent.items())
        amazon = "".join(f"{key}:{value}\n" for key, value in known if key.startswith("x-amz-"))
        signed = "&".join(word for word in query.split("&") if word.partition("=")[0] in _SIGNED)
        kind = dict(known).get("content-type", "")
        text = (
            f"{method}\n\n{kind}\n{sent['Date']}\n{amazon}{resource}{'?' if signed else ''}{signed}"
        )
        signature = base64.b64encode(hmac.digest(self.key.encode(), text.encode(), "sha1")).decode()
        sent["Authorization"] = f"AWS {self.user}:{signature}"
        return Client(self.url, "").request(method, path, sent, query=query, body=body)


class S3V4(User):
    """Requests are signed with version 4, and the signature covers all headers that are given, as
    SDKs do.
    """

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        query: str = "",
        body: bytes = b"",
        sha256: str = "",
    ) -> Answer:
        """``query`` is already quoted, its words are in alphabetical order and have each a ``=``.

        :param sha256: sent as the body's hash instead of the right one.
        """
        client, now = Client(self.url, ""), datetime.now(tz=UTC)
        payload = sha256 or hashlib.sha256(body).hexdigest()
        sent = {
            "host": f"{client.version_url.host}:{client.version_url.port}",
            "x-amz-date": f"{now:%Y%m%dT%H%M%SZ}",
            "x-amz-content-sha256": payload,
        } | {key.lower(): value for key, value in (headers or {}).items()}
        names = ";".join(sorted(sent))
        lines = "".join(f"{key}:{value}\n" for key, value in sorted(sent.items()))
        canonical = f"{method}\n/{quote(path)}\n{query}\n{lines}\n{names}\n{payload}"
        scope = f"{now:%Y%m%d}/us-east-1/s3/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        key = b"AWS4" + self.key.encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        text = f"AWS4-HMAC-SHA256\n{sent['x-amz-date']}\n{scope}\n{digest}"
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        sent["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.user}/{scope}, SignedHeaders={names},"
            f" Signature={signature}"
        )
        return client.request(method, path, sent, query=query, body=body)


def element(answer: Answer, path: str) -> str:
    """The text of an element of the answer; empty when there is none."""
    steps = "/".join(_NAMESPACE + step for step in path.split("/"))
    root = ET.fromstring(answer.body)  # noqa: S314 - of our own cluster
    found = root.find(steps)
    return ((found.text if found is not None else root.findtext(path)) or "").strip()
