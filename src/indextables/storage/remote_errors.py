"""What a failed obstore call means, in the words of our error tree and without anybody's secrets.

obstore says the kind of a failure with a class for some and only with text for others (every failed listing is a
`GenericError`), so the status and the store's own code are read from the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from indextables.errors import (
    AccessDeniedError,
    BadFileError,
    IndexTablesError,
    NotFoundError,
    StorageError,
    ThrottledError,
    UnavailableError,
)

# Everything obstore raises for a request: its own tree, and these of Python's.
FAILURES = (BaseError, OSError, ValueError)

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]{1,80})</Code>")
_CODE_OF_ONE = re.compile(r"\(code: (\w+)\)")  # one object of a bulk deletion; Azure writes the status there
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_RETRIES = re.compile(r"after (\d+) retries")
_NO_CONTAINER = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"}
_SLOW_DOWN = {"SlowDown", "ServerBusy", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests"}
_DENIED = {"AccessDenied", "AuthorizationFailure", "AuthenticationFailed"}
_STORE_FAILED = {"RequestTimeout", "OperationTimedOut", "InternalError", "ServiceUnavailable"}
_SIGNATURE = re.compile(r"((?:sig|signature|token|secret|password|key)=)[^&\s\"<]+", re.IGNORECASE)


class Failure(Struct, frozen=True):
    """One failed request: the HTTP status if there was an answer, the store's code, and how often it was repeated."""

    status: int | None
    code: str
    retries: int
    reason: str
    missing: bool
    exists: bool
    denied: bool
    sent: bool

    @property
    def no_container(self) -> bool:
        """The bucket or container itself is not there: nothing could be looked for."""
        return self.code in _NO_CONTAINER

    @property
    def throttled(self) -> bool:
        """The store asked to slow down."""
        return self.status == 429 or self.code in _SLOW_DOWN

    @property
    def unavailable(self) -> bool:
        """No answer, or one that blames the store."""
        if self.status is None and not self.code:
            return self.sent and not (self.missing or self.exists or self.denied)
        return (self.status or 0) >= 500 or self.status == 408 or self.code in _STORE_FAILED

    @property
    def refused_for_certain(self) -> bool:
        """The store refused the only request that was made. After a repeat an earlier one may have taken effect."""
        return self.retries == 0 and not (self.throttled or self.unavailable)

    def without_container(self) -> Failure:
        """The same failure, its 404 read as a missing container: an object need not be there to be written."""
        return replace(self, code=self.code if self.no_container else "NoSuchBucket")


def read_failure(error: BaseException, secrets: Iterable[str]) -> Failure:
    """What an exception of obstore says."""
    text = str(error)
    summary = text.partition("\n\nDebug source")[0]
    status, retries = _STATUS.search(summary), _RETRIES.search(summary)
    found = _CODE.search(text) or _CODE_OF_ONE.search(summary)
    code = found[1] if found else ""
    number = int(status[1]) if status else int(code) if code.isdigit() else None
    return Failure(
        status=number,
        code=code,
        retries=int(retries[1]) if retries else 0,
        reason=_hidden(_reason(summary, text), secrets),
        missing=isinstance(error, FileNotFoundError) or number == 404,
        exists=isinstance(error, (AlreadyExistsError, PreconditionError)),
        denied=isinstance(error, (PermissionDeniedError, UnauthenticatedError))
        or number in (401, 403)
        or code in _DENIED,
        sent="builder error" not in summary and not isinstance(error, ValueError),
    )


def to_error(failure: Failure, *, verb: str, url: str, path: str) -> IndexTablesError:
    """The error of ours that a failed request becomes."""
    place = f"{url}/{path}" if path else url
    message = f"Cannot {verb} {place}: {failure.reason}"
    context: dict[str, Any] = {"path": path, "url": url, "status": failure.status, "code": failure.code}
    if failure.no_container:
        return StorageError(message, hint="Create the bucket or container, or correct its name.", **context)
    if failure.missing:
        return NotFoundError(f"There is no object {place}.", **context)
    if failure.denied:
        return AccessDeniedError(message, **context)
    if failure.throttled:
        return ThrottledError(message, **context)
    if failure.status == 416 or "Wanted range" in failure.reason:
        return BadFileError(f"{place} is shorter than the range that was asked for.", **context)
    if not failure.sent:
        hint = "Check the endpoint; plain http needs aws.allowHttp=true."
        return StorageError(message, hint=hint, **context)
    if failure.unavailable:
        return UnavailableError(message, **context)
    return StorageError(message, **context)


def _reason(summary: str, text: str) -> str:
    """What the store said, in one line: its status, code and message, or else the last clause of obstore's summary."""
    status, code, message, retries = (p.search(text) for p in (_STATUS, _CODE, _MESSAGE, _RETRIES))
    said = f"{code[1]}: {message[1]}" if code and message else summary.rpartition(" - ")[2]
    answer = " ".join((f"{status[1]} {said}" if status and code else said).split())
    repeated = f" (after {retries[1]} retries)" if retries else ""
    return f"{answer[:400].rstrip(' .')}{repeated}."


def _hidden(line: str, secrets: Iterable[str]) -> str:
    """A text without secrets and signatures."""
    line = _SIGNATURE.sub(r"\1<hidden>", line)
    for secret in secrets:
        line = line.replace(secret, "<hidden>")
    return line
