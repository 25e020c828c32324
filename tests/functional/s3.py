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
    """One user of tempauth (``account:user``), or an EC2 credential of Keystone; buckets are the
    containers of its account.  ``url`` is the proxy's.
    """

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


class Signer(User):
    """Signs S3 requests in each of S3's ways; the signature covers chosen headers."""

    @property
    def _client(self) -> Client:
        return Client(self.url, "")

    @property
    def _host(self) -> str:
        return f"{self._client.version_url.host}:{self._client.version_url.port}"

    def v2_query(
        self, path: str, headers: Mapping[str, str], method: str = "GET", signed: str = ""
    ) -> Answer:
        """A presigned URL of version 2; ``headers`` are added by its user.

        :param signed: lines of the ``x-amz-*`` headers, then the sub-resource.
        """
        expires = str(int(time.time()) + 600)
        amz, _, resource = signed.rpartition("\n")
        text = f"{method}\n\n\n{expires}\n{amz and amz + chr(10)}/{quote(path)}{resource}"
        digest = hmac.digest(self.key.encode(), text.encode(), "sha1")
        query = {
            "AWSAccessKeyId": self.user,
            "Expires": expires,
            "Signature": base64.b64encode(digest).decode(),
        }
        own = {resource.removeprefix("?"): ""} if resource else {}
        return self._client.request(method, path, headers, query=own | query)

    def v4_query(self, path: str, headers: Mapping[str, str]) -> Answer:
        """A presigned URL of version 4."""
        now = datetime.now(tz=UTC)
        query = {
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{self.user}/{self._scope(now)}",
            "X-Amz-Date": f"{now:%Y%m%dT%H%M%SZ}", "X-Amz-Expires": "600", "X-Amz-SignedHeaders": "host",
        }  # fmt: skip
        text = "&".join(
            f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}"
            for key, value in sorted(query.items())
        )
        signature = self._v4(now, path, text, {"host": self._host}, "UNSIGNED-PAYLOAD")
        return self._client.get(path, headers, query=f"{text}&X-Amz-Signature={signature}")

    def v4_header(
        self, path: str, signed: Mapping[str, str], unsigned: Mapping[str, str]
    ) -> Answer:
        """An ``Authorization`` header of version 4 that covers ``signed``."""
        now, empty = datetime.now(tz=UTC), hashlib.sha256(b"").hexdigest()
        own = {"x-amz-date": f"{now:%Y%m%dT%H%M%SZ}", "x-amz-content-sha256": empty}
        covered = {"host": self._host} | own | {key.lower(): value for key, value in signed.items()}
        signature = self._v4(now, path, "", covered, empty)
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={self.user}/{self._scope(now)}, "
            f"SignedHeaders={';'.join(sorted(covered))}, Signature={signature}"
        )
        return self._client.get(path, {**own, **signed, **unsigned, "Authorization": authorization})

    def v2_header(self, path: str, headers: Mapping[str, str]) -> Answer:
        """An ``Authorization`` header of version 2, which covers ``x-amz-*`` headers only."""
        date = datetime.now(tz=UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        digest = hmac.digest(self.key.encode(), f"GET\n\n\n{date}\n/{quote(path)}".encode(), "sha1")
        authorization = f"AWS {self.user}:{base64.b64encode(digest).decode()}"
        return self._client.get(path, {"Date": date, **headers, "Authorization": authorization})

    @staticmethod
    def _scope(now: datetime) -> str:
        return f"{now:%Y%m%d}/us-east-1/s3/aws4_request"

    def _v4(
        self, now: datetime, path: str, query: str, headers: Mapping[str, str], payload: str
    ) -> str:
        lines = "".join(f"{key}:{value}\n" for key, value in sorted(headers.items()))
        canonical = f"GET\n/{quote(path)}\n{query}\n{lines}\n{';'.join(sorted(headers))}\n{payload}"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{now:%Y%m%dT%H%M%SZ}\n{self._scope(now)}\n{digest}"
        key = b"AWS4" + self.key.encode()
        for part in self._scope(now).split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def element(answer: Answer, path: str) -> str:
    """The text of an element of the answer; empty when there is none."""
    steps = "/".join(_NAMESPACE + step for step in path.split("/"))
    root = ET.fromstring(answer.body)  # noqa: S314 - of our own cluster
    found = root.find(steps)
    return ((found.text if found is not None else root.findtext(path)) or "").strip()
