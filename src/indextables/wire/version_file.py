"""Encode and decode version files. `log/commit.py` writes them to the store.

A version file has one JSON object per line, each with one key that names the action. It is plain,
gzip, or the two bytes `01 01` and gzip, as are other files of the log; the form is detected by
content, and the inflated size is limited. A version file is never changed, and an unreadable one
makes the table unreadable. Wrong values of a caller can come this far, so the bytes are decoded as
every reader will decode them, and refused if that fails (`encode_verified`) or if the file is
larger than readers inflate.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast

import msgspec

from indextables.errors import BadFileError, InvalidInputError, RefusedError
from indextables.model.actions import (
    ACTION_KEYS,
    UNKNOWN_FIELD,
    Action,
    AddAction,
    CommitInfo,
    LogAction,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    SkipAction,
    TxnAction,
    UnknownAction,
)
from indextables.model.values import intended_values, is_doubtful

GZIP_MAGIC = b"\x1f\x8b"
JVM_MARK = b"\x01\x01"
"""Prefix of IndexTables for the JVM before gzip; without it, that engine parses a compressed
version file as lines.
"""
HEADED_GZIP = JVM_MARK + GZIP_MAGIC
INFLATION_CAP_BYTES = 512 << 20


_FREE_ENTRIES = 100_000
_FREE_BYTES = 16 << 20
_UNTYPED_RATIO = 64
_PIECE_BYTES = 4 << 20
_FED_BYTES = 256 << 10


def check_entries(count: int, packed_bytes: int, *, path: str) -> None:
    """Refuse more actions or files than so few bytes can distinguish, because each has a path of
    its own.

    A small file that inflates to millions of equal entries would exhaust the memory of its readers.
    """
    if count > _FREE_ENTRIES + packed_bytes:
        message = f"{path} has {packed_bytes} bytes and claims {count} entries, which cannot all be different."
        raise BadFileError(message, path=path, entries=count, packed_bytes=packed_bytes)


def check_untyped(plain_bytes: int, packed_bytes: int, *, path: str) -> None:
    """Refuse more untyped JSON than was packed with it: decoded it takes twenty times its length."""
    if plain_bytes > _FREE_BYTES + _UNTYPED_RATIO * packed_bytes:
        message = f"{path} has {packed_bytes} bytes, of which {plain_bytes} come that no reader of the log knows."
        raise BadFileError(message, path=path, plain_bytes=plain_bytes, packed_bytes=packed_bytes)


def inflate(data: bytes, *, path: str, cap_bytes: int = INFLATION_CAP_BYTES) -> bytes:
    """Return the plain bytes of a log file of any form. A bomb, a truncated file or a flipped byte
    raises BadFileError.
    """
    packed = _gzip_in(data)
    if packed is None:
        return data
    return b"".join(_inflate_pieces(packed, path, cap_bytes, _PIECE_BYTES))


def inflate_pieces(
    data: bytes, *, path: str, cap_bytes: int = INFLATION_CAP_BYTES
) -> Iterator[bytes]:
    """Yield the plain bytes, a few MB at a time. An error may come only after the last piece."""
    packed = _gzip_in(data)
    if packed is None:
        return (data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES))
    return _inflate_pieces(packed, path, cap_bytes, _PIECE_BYTES)


def _gzip_in(data: bytes) -> memoryview | None:
    """Return the gzip stream of the file, or None if it is plain."""
    if data[:4] == HEADED_GZIP:
        packed = memoryview(data)[2:]
    else:
        packed = memoryview(data)
    if packed[:2] == GZIP_MAGIC:
        return packed
    return None


def _inflate_pieces(
    packed: memoryview, path: str, cap_bytes: int, piece_bytes: int
) -> Iterator[bytes]:
    inflater = zlib.decompressobj(wbits=31)
    size, at, waiting = 0, 0, memoryview(b"")
    while not inflater.eof:
        if not waiting:
            waiting, at = packed[at : at + _FED_BYTES], at + _FED_BYTES
        most = min(piece_bytes, cap_bytes - size)
        if not most:
            raise BadFileError(
                f"{path} inflates to more than {cap_bytes} bytes.", path=path, cap_bytes=cap_bytes
            )
        try:
            piece = inflater.decompress(waiting, most)
        except zlib.error as error:
            raise BadFileError(f"{path} is not readable gzip: {error}.", path=path) from error
        if piece:
            yield piece
        elif not waiting:
            raise BadFileError(f"{path} ends in the middle of its gzip stream.", path=path)
        size += len(piece)
        waiting = memoryview(inflater.unconsumed_tail)
    if inflater.unused_data or at < len(packed):
        raise BadFileError(f"{path} has bytes after its gzip stream.", path=path)


def deflate(data: bytes) -> bytes:
    """Compress to gzip without a timestamp: the same input gives the same output."""
    packed = Deflater()
    packed.write(data)
    return packed.finish()


class Deflater:
    """Gzip stream that is written in pieces."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(level=1, wbits=31)
        self._packed: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._packed.append(self._stream.compress(data))

    def finish(self) -> bytes:
        """Return the complete stream."""
        return b"".join([*self._packed, self._stream.flush()])


A = TypeVar("A", bound=LogAction)
_ACTION_TYPES = {key: cls for cls, key in ACTION_KEYS.items()}
_FIELDS = {cls: {f.encode_name for f in msgspec.structs.fields(cls)} for cls in ACTION_KEYS}
_TEXT_MAPS = ("partitionValues", "minValues", "maxValues")


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A usual line, decoded in one step. Other lines are decoded slowly, which keeps unknown keys
    and fields.
    """

    add: AddAction | None = None
    remove: RemoveAction | None = None
    commitInfo: msgspec.Raw = msgspec.Raw()  # noqa: N815 - in a union with None nothing at all would fit
    metaData: MetadataAction | None = None  # noqa: N815
    protocol: ProtocolAction | None = None
    txn: TxnAction | None = None
    mergeskip: SkipAction | None = None

    def action(self) -> Action | None:
        """Return the action of the line, or None if it has no known action or two."""
        action = (
            self.add or self.remove or self.metaData or self.protocol or self.txn or self.mergeskip
        )
        if action is None:
            if self.commitInfo:
                return _commit_info.decode(self.commitInfo)
            return None
        last = (
            self.mergeskip or self.txn or self.protocol or self.metaData or self.remove or self.add
        )
        if self.commitInfo or last is not action:
            return None
        return action


_LARGE_BYTES = 1 << 20
_fast = msgspec.json.Decoder(_Line)
_commit_info = msgspec.json.Decoder(CommitInfo)
_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()


def encode(actions: Iterable[LogAction], *, compress: bool = True) -> bytes:
    """Return the bytes of a version file, gzip by default."""
    plain = b"".join(line for action in actions for line in (encode_action(action), b"\n"))
    if compress:
        return deflate(plain)
    return plain


def encode_action(action: LogAction) -> bytes:
    """Return one action as its JSON line without the line end."""
    if isinstance(action, UnknownAction):
        return _encoder.encode({action.key: action.value})
    key = ACTION_KEYS[type(action)]
    if not action.unknown:
        return b'{"%s":%s}' % (key.encode(), _encoder.encode(action))
    fields: dict[str, Any] = msgspec.to_builtins(action)
    fields.update(fields.pop(UNKNOWN_FIELD))
    return _encoder.encode({key: fields})


def decode(data: bytes, *, path: str) -> list[LogAction]:
    """Decode the actions of a version file. An empty, truncated or garbled file is a BadFileError
    with path and line.
    """
    return decode_lines(inflate(data, path=path), path=path, packed_bytes=len(data))


def protocols_in(data: bytes, *, path: str) -> list[ProtocolAction]:
    """Return the protocol actions of a version file whose other lines may be unreadable; none if it
    does not inflate.
    """
    try:
        lines = inflate(data, path=path).split(b"\n")
    except BadFileError:
        return []
    found = []
    for line in lines:
        try:
            if line.lstrip().startswith(b'{"protocol"'):
                action = _decode_line(line)
            else:
                action = None
        except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, RecursionError):
            continue
        if isinstance(action, ProtocolAction):
            found.append(action)
    return found


def decode_lines(
    plain: bytes, *, path: str, packed_bytes: int, first_line: int = 1
) -> list[LogAction]:
    """Decode the actions of lines inflated from this many bytes. `first_line` is the number of the
    first one.
    """
    check_entries(plain.count(b"\n"), packed_bytes, path=path)
    actions = _decode_at_once(plain, packed_bytes)
    if actions is None:
        actions = _decode_slowly(plain, path, packed_bytes, first_line)
    if not actions:
        raise BadFileError(f"{path} is empty: a version file holds at least one action.", path=path)
    return [with_intended_values(action) for action in actions]


def with_intended_values(action: A) -> A:
    """Return the action with the partition values that its writer means (see `model.values`)."""
    if not isinstance(action, AddAction | RemoveAction) or not action.partition_values:
        return action
    if not any(is_doubtful(value) for value in action.partition_values.values()):
        return action
    low, high = (
        (action.min_values, action.max_values) if isinstance(action, AddAction) else (None, None)
    )
    values = intended_values(action.path, action.partition_values, low or {}, high or {})
    return msgspec.structs.replace(action, partition_values=values)


def _decode_at_once(plain: bytes, packed_bytes: int) -> list[LogAction] | None:
    """Decode all lines in one step, or return None if one of them needs the slow way, which has the
    same result.

    A line is one object, and a few bytes must not become millions of texts.
    """
    if len(plain) > _FREE_BYTES + _UNTYPED_RATIO * packed_bytes:
        return None
    try:
        lines = _fast.decode_lines(plain)
        # No object has a line end between two braces: so there are as many lines as objects, and
        # each has one.
        if not plain.count(b"}\n{") == plain.count(b"\n") - plain.endswith(b"\n") == len(lines) - 1:
            return None
        if sum(len(line.commitInfo) for line in lines) > _LARGE_BYTES:
            return None  # of no known shape: how much of it there may be is looked at line by line
        actions = [action for line in lines if (action := line.action()) is not None]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # Written out, for it is asked of every file of a table: no field that is not known, and no null
    # for what is empty.
    odd = [
        a
        for a in actions
        if a.unknown
        or (isinstance(a, AddAction) and a.partition_values is None)
        or (
            isinstance(a, MetadataAction)
            and (a.partition_columns is None or a.configuration is None)
        )
    ]
    if odd or len(actions) < len(lines):
        return None
    return list[LogAction](actions)


def _decode_slowly(plain: bytes, path: str, packed_bytes: int, first_line: int) -> list[LogAction]:
    """Decode lines with unknown keys or fields, or with values in another writer's spelling."""
    actions: list[LogAction] = []
    untyped = 0
    for number, line in enumerate(plain.split(b"\n"), first_line):
        if not line.strip():
            continue
        try:
            untyped += _untyped_bytes(line)
            check_untyped(untyped, packed_bytes, path=path)
            actions.append(_decode_line(line))
        except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, RecursionError) as error:
            raise _bad_line(path, number, line, str(error)) from error
    return actions


def _decode_line(line: bytes) -> LogAction:
    content = msgspec.json.decode(line)
    if not isinstance(content, dict):
        raise msgspec.ValidationError("a line holds one JSON object")
    keys = [key for key in content if key in _ACTION_TYPES and content[key] is not None]
    if not keys:
        key = next(iter(content), "")
        return UnknownAction(key=key, value=content.get(key))
    return action_from_fields(keys[0], content[keys[0]])


def _untyped_bytes(line: bytes) -> int:
    """Return how much of a line becomes an unlimited number of objects; texts and numbers keep
    about their size.
    """
    try:
        bodies = _raw_fields.decode(line).values()
        return sum(
            len(value) for body in bodies for value in _raw_values(body) if value[:1] in b"[{"
        )
    except msgspec.ValidationError:
        return len(line)


def _raw_values(body: msgspec.Raw) -> list[bytes]:
    text = bytes(body).strip()
    if text[:1] == b"{":
        return [bytes(value).strip() for value in _raw_fields.decode(text).values()]
    return [text]


def action_from_fields(key: str, fields: dict[str, Any]) -> Action:
    """Build the action of a parsed JSON object. Unknown fields are kept, null maps and non-text
    values accepted.
    """
    cls = _ACTION_TYPES[key]
    names = _FIELDS[cls]
    values = {k: v for k, v in fields.items() if k in names and k != UNKNOWN_FIELD}
    for name in _TEXT_MAPS:
        if isinstance(values.get(name), dict):
            values[name] = _text_map(values[name], keep_null=name == "partitionValues")
    for name in [k for k, v in values.items() if v is None]:
        del values[name]
    unknown = {k: v for k, v in fields.items() if k not in names}
    action: Action = msgspec.convert(values, cls)
    if unknown:
        return msgspec.structs.replace(action, unknown=unknown)
    return action


def _text_map(values: dict[str, Any], *, keep_null: bool) -> dict[str, str | None]:
    shown = {
        k: v if isinstance(v, str) or v is None else msgspec.json.encode(v).decode()
        for k, v in values.items()
    }
    if keep_null:
        return shown
    return {k: v for k, v in shown.items() if v is not None}


def _bad_line(path: str, number: int, line: bytes, why: str) -> BadFileError:
    start = line[:80].decode("utf-8", "replace")
    return BadFileError(
        f"{path}, line {number}, cannot be read ({why}): {start!r}.",
        path=path,
        line=number,
        why=why,
    )


Checked = TypeVar("Checked", bound=Action)
_HINT = "Give values of the types that the log has; nothing was written."


def encode_verified(
    actions: Iterable[LogAction],
    *,
    url: str,
    version: int,
    compress: bool = True,
    jvm_layout: bool = False,
) -> bytes:
    """Return the bytes of a readable version file. Raises InvalidInputError for an action that
    cannot be read back.

    Raises RefusedError if the file is larger than readers inflate.
    """
    written = list(actions)
    what = f"version {version} of {url}"
    lines, size = [], 0
    for action in written:
        lines.append(_encode(action, what) + b"\n")
        size += len(lines[-1])
        if size > INFLATION_CAP_BYTES:
            raise _too_large(what, len(lines), len(written))
    plain = b"".join(lines)
    try:
        decode(plain, path=what)
    except BadFileError as error:
        raise _refusal(written[error.context["line"] - 1], what, error) from error
    if not compress:
        return plain
    if jvm_layout:
        return JVM_MARK + deflate(plain)
    return deflate(plain)


def as_read_back(action: Checked, *, what: str) -> Checked:
    """Return an action as a reader of the log will see it. Raises InvalidInputError."""
    try:
        return cast(Checked, decode(_encode(action, what), path=what)[0])
    except BadFileError as error:
        raise _refusal(action, what, error) from error


def _encode(action: LogAction, what: str) -> bytes:
    try:
        return encode_action(action)
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(action, what, error) from error


def _too_large(what: str, fitting: int, count: int) -> RefusedError:
    return RefusedError(
        f"{what[0].upper()}{what[1:]} cannot be written: {fitting} of its {count} actions are more than "
        f"{INFLATION_CAP_BYTES >> 20} MiB, which is the most that readers accept of one version.",
        hint="Nothing was committed. Write in several smaller commits. What restore() cannot bring back at once can be "
        "rewritten: t.overwrite(Table.open(path, version=N).scan()).",
        cap_bytes=INFLATION_CAP_BYTES,
        actions=count,
    )


def _refusal(action: LogAction, what: str, error: Exception) -> InvalidInputError:
    if isinstance(action, Action):
        key = ACTION_KEYS[type(action)]
    else:
        key = action.key
    if isinstance(error, BadFileError):
        why = error.context["why"]
    else:
        why = str(error)
    return InvalidInputError(
        f"The {key!r} of {what} cannot be recorded: {why}.", hint=_HINT, action=key
    )
