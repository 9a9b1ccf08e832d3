"""A bucket in memory that answers the XML requests of S3 and Google Cloud Storage, as far as our
stores make them.

One request is answered at a time and nothing is awaited in between, so a conditional write is
atomic.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import count

from msgspec import Struct, field


class Request(Struct, frozen=True):
    """One request to the bucket; the key is empty for requests to the bucket itself."""

    method: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


class Answer(Struct, frozen=True):
    """What the bucket says."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class StoredObject(Struct, frozen=True):
    """An object, when it was written, and its generation, which grows with every write."""

    data: bytes
    written: datetime
    generation: int

    @property
    def etag(self) -> str:
        """The tag that S3 would give."""
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'

    @property
    def headers(self) -> dict[str, str]:
        """What every answer about the object carries."""
        modified = format_datetime(self.written, usegmt=True)
        return {
            "ETag": self.etag,
            "Last-Modified": modified,
            "x-goog-generation": str(self.generation),
        }


def refusal(status: int, code: str) -> Answer:
    """An answer that says no, in the form of S3."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code} by the test server</Message></Error>"
    return Answer(status, body.encode(), {"Content-Type": "application/xml"})


class XmlBucket:
    """The objects, by key, and the answers to requests about them. Those whose keys are `locked`
    cannot be deleted.
    """

    def __init__(self, *, page_size: int = 1000) -> None:
        self.objects: dict[str, StoredObject] = {}
        self.locked: set[str] = set()
        self._page_size = page_size
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._numbers = count(1)

    def answer(self, request: Request, *, hides: int = 0) -> Answer:
        """Do what the request asks and say what came of it; a listing may hide so many of the
        newest objects.
        """
        if not request.key:
            return (
                self._delete_many(request)
                if request.method == "POST"
                else self._list(request.query, hides)
            )
        if request.method == "PUT":
            return self._put(request)
        if request.method == "POST":
            return self._multipart(request)
        if request.method == "DELETE":
            return self._delete(request)
        return self._read(request)

    def _store(self, key: str, data: bytes) -> StoredObject:
        self.objects[key] = StoredObject(data, datetime.now(UTC), next(self._numbers))
        return self.objects[key]

    def _refused(self, request: Request) -> bool:
        """Whether a condition of the request, `only if absent`, does not hold."""
        only_new = (
            request.headers.get("If-None-Match") == "*"
            or request.headers.get("x-goog-if-generation-match") == "0"
        )
        return only_new and request.key in self.objects

    def _put(self, request: Request) -> Answer:
        if "uploadId" in request.query:
            self._uploads[request.query["uploadId"]][int(request.query["partNumber"])] = (
                request.body
            )
            return Answer(200, headers={"ETag": f'"{len(request.body)}"'})
        if self._refused(request):
            return refusal(412, "PreconditionFailed")
        return Answer(200, headers=self._store(request.key, request.body).headers)

    def _multipart(self, request: Request) -> Answer:
        key = html.escape(request.key)
        if "uploads" in request.query:
            upload = f"upload-{next(self._numbers)}"
            self._uploads[upload] = {}
            names = f"<Bucket>b</Bucket><Key>{key}</Key><UploadId>{upload}</UploadId>"
            return _xml("InitiateMultipartUploadResult", names)
        if self._refused(request):
            return refusal(412, "PreconditionFailed")
        parts = self._uploads.pop(request.query["uploadId"])
        stored = self._store(request.key, b"".join(parts[number] for number in sorted(parts)))
        names = f"<Bucket>b</Bucket><Key>{key}</Key><ETag>{html.escape(stored.etag)}</ETag>"
        return _xml("CompleteMultipartUploadResult", names, stored.headers)

    def _delete(self, request: Request) -> Answer:
        if "uploadId" in request.query:
            self._uploads.pop(request.query["uploadId"], None)
            return Answer(204)
        found = self.objects.pop(request.key, None)
        # S3 is asked to delete many at a time; a single deletion comes from Google's client, and
        # Google says 404.
        return Answer(204) if found else refusal(404, "NoSuchKey")

    def _delete_many(self, request: Request) -> Answer:
        keys = [
            html.unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", request.body.decode())
        ]
        told = ""
        for key in keys:
            name = f"<Key>{html.escape(key)}</Key>"
            if key in self.locked:
                told += f"<Error>{name}<Code>AccessDenied</Code><Message>locked</Message></Error>"
            else:
                self.objects.pop(key, None)
                told += f"<Deleted>{name}</Deleted>"
        return _xml("DeleteResult", told)

    def _read(self, request: Request) -> Answer:
        stored = self.objects.get(request.key)
        if stored is None:
            return refusal(404, "NoSuchKey")
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        if wanted is None:
            return Answer(200, stored.data, stored.headers)
        start, end = int(wanted[1]), int(wanted[2] or len(stored.data) - 1) + 1
        if start >= len(stored.data):
            return refusal(416, "InvalidRange")
        part = stored.data[start:end]
        span = f"bytes {start}-{start + len(part) - 1}/{len(stored.data)}"
        return Answer(206, part, {**stored.headers, "Content-Range": span})

    def _list(self, query: Mapping[str, str], hides: int) -> Answer:
        prefix = query.get("prefix", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        hidden = (
            sorted(self.objects, key=lambda key: self.objects[key].generation)[-hides:]
            if hides
            else []
        )
        keys = sorted(
            key
            for key in self.objects
            if key.startswith(prefix) and key > after and key not in hidden
        )
        page, more = keys[: self._page_size], len(keys) > self._page_size
        inner = f"<Name>b</Name><KeyCount>{len(page)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>"
        if more:
            inner += f"<NextContinuationToken>{html.escape(page[-1])}</NextContinuationToken>"
        return _xml("ListBucketResult", inner + "".join(self._listed(key) for key in page))

    def _listed(self, key: str) -> str:
        stored = self.objects[key]
        modified = stored.written.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        facts = f"<LastModified>{modified}</LastModified><ETag>{html.escape(stored.etag)}</ETag>"
        size = f"<Size>{len(stored.data)}</Size><Generation>{stored.generation}</Generation>"
        return f"<Contents><Key>{html.escape(key)}</Key>{facts}{size}</Contents>"


def _xml(tag: str, inner: str, headers: Mapping[str, str] | None = None) -> Answer:
    body = f"<?xml version='1.0' encoding='UTF-8'?><{tag}>{inner}</{tag}>"
    return Answer(200, body.encode(), {**(headers or {}), "Content-Type": "application/xml"})
