"""Version files: one JSON object per line, each with one key that names the action."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from indextables.errors import BadFileError
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
from indextables.model.partition_text import is_doubtful, meant
from indextables.wire.compression import deflate, inflate

A = TypeVar("A", bound=LogAction)
_ACTION_TYPES = {key: cls for cls, key in ACTION_KEYS.items()}
_FIELDS = {cls: {f.encode_name for f in msgspec.structs.fields(cls)} for cls in ACTION_KEYS}
_TEXT_MAPS = ("partitionValues", "minValues", "maxValues")


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """The usual line, decoded in one go; what does not fit goes the slow way, which keeps unknown keys and fields."""

    add: AddAction | None = None
    remove: RemoveAction | None = None
    commitInfo: CommitInfo | None = None  # noqa: N815
    metaData: MetadataAction | None = None  # noqa: N815
    protocol: ProtocolAction | None = None
    txn: TxnAction | None = None
    mergeskip: SkipAction | None = None

    def action(self) -> LogAction | None:
        return (
            self.add or self.remove or self.commitInfo or self.metaData or self.protocol or self.txn or self.mergeskip
        )


_fast = msgspec.json.Decoder(_Line)
_encoder = msgspec.json.Encoder()


def encode(actions: Iterable[LogAction], *, compress: bool = True) -> bytes:
    """The bytes of a version file, gzip by default."""
    plain = b"".join(line for action in actions for line in (encode_action(action), b"\n"))
    return deflate(plain) if compress else plain


def encode_action(action: LogAction) -> bytes:
    """One action as its JSON line, without the line end."""
    if isinstance(action, UnknownAction):
        return _encoder.encode({action.key: action.value})
    key = ACTION_KEYS[type(action)]
    if not action.unknown:
        return b'{"%s":%s}' % (key.encode(), _encoder.encode(action))
    fields: dict[str, Any] = msgspec.to_builtins(action)
    fields.update(fields.pop(UNKNOWN_FIELD))
    return _encoder.encode({key: fields})


def decode(data: bytes, *, path: str) -> list[LogAction]:
    """The actions of a version file. Empty, cut short or garbled is a BadFileError that names the path and the line."""
    plain = inflate(data, path=path)
    actions = _decode_at_once(plain)
    if actions is None:
        lines = plain.split(b"\n")
        actions = [_decode_slowly(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]
    if not actions:
        raise BadFileError(f"{path} is empty: a version file holds at least one action.", path=path)
    return [as_meant(action) for action in actions]


def as_meant(action: A) -> A:
    """The action with the partition values that its writer means (see `model.partition_text`)."""
    if not isinstance(action, AddAction | RemoveAction) or not action.partition_values:
        return action
    if not any(is_doubtful(value) for value in action.partition_values.values()):
        return action
    low, high = (action.min_values, action.max_values) if isinstance(action, AddAction) else (None, None)
    values = meant(action.path, action.partition_values, low or {}, high or {})
    return msgspec.structs.replace(action, partition_values=values)


def _decode_at_once(plain: bytes) -> list[LogAction] | None:
    """Every line in one go, which is what almost every file allows; None if one of them needs a closer look."""
    try:
        actions = [line.action() for line in _fast.decode_lines(plain)]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if None in actions else actions  # type: ignore[return-value]


def _decode_slowly(line: bytes, path: str, number: int) -> LogAction:
    """A line with unknown keys or fields, or with values another writer spelt differently."""
    try:
        content = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad_line(path, number, line, str(error)) from error
    if not isinstance(content, dict):
        raise _bad_line(path, number, line, "a line holds one JSON object")
    known = [key for key in content if key in _ACTION_TYPES and content[key] is not None]
    if not known:
        key = next(iter(content), "")
        return UnknownAction(key=key, value=content.get(key))
    try:
        return action_from_fields(known[0], content[known[0]])
    except (msgspec.ValidationError, AttributeError) as error:
        raise _bad_line(path, number, line, str(error)) from error


def action_from_fields(key: str, fields: dict[str, Any]) -> Action:
    """The action of a JSON object already parsed; unknown fields are kept, null maps and non-text values tolerated."""
    cls = _ACTION_TYPES[key]
    names = _FIELDS[cls]
    known = {k: v for k, v in fields.items() if k in names and k != UNKNOWN_FIELD}
    for name in _TEXT_MAPS:
        if isinstance(known.get(name), dict):
            known[name] = _text_map(known[name], keep_null=name == "partitionValues")
    for name in [k for k, v in known.items() if v is None]:
        del known[name]
    unknown = {k: v for k, v in fields.items() if k not in names}
    action: Action = msgspec.convert(known, cls)
    return msgspec.structs.replace(action, unknown=unknown) if unknown else action


def _text_map(values: dict[str, Any], *, keep_null: bool) -> dict[str, str | None]:
    shown = {k: v if isinstance(v, str) or v is None else msgspec.json.encode(v).decode() for k, v in values.items()}
    return shown if keep_null else {k: v for k, v in shown.items() if v is not None}


def _bad_line(path: str, number: int, line: bytes, why: str) -> BadFileError:
    start = line[:80].decode("utf-8", "replace")
    return BadFileError(f"{path}, line {number}, cannot be read ({why}): {start!r}.", path=path, line=number, why=why)
