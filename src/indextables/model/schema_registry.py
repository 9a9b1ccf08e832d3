"""Schema deduplication: a doc mapping is stored once under a hash of its canonical form, and files
name the hash.

Registries have bare hashes here. In a table's configuration the keys have the prefix
`docMappingSchema.`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.model.actions import AddAction, LogAction, MetadataAction, ProtocolAction

KEY_PREFIX = "docMappingSchema."
HASH_LENGTH = 16
RECORDED_SINCE = 3
"""The protocol version from which readers resolve a doc mapping that a split only names."""
_REF, _JSON = "doc_mapping_ref", "doc_mapping_json"


@lru_cache(maxsize=32)
def schema_hash(doc_mapping_json: str) -> str:
    """Return the hash of a doc mapping: equal for texts that differ only in spacing, key order or
    the order of named items.
    """
    digest = hashlib.sha256(
        _canonical_text(doc_mapping_json).encode("utf-8", "surrogatepass")
    ).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")[:HASH_LENGTH]


def _canonical_text(doc_mapping_json: str) -> str:
    canonical = _canonical(json.loads(doc_mapping_json))
    return json.dumps(canonical, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [_canonical(item) for item in value]
    if items and all(
        isinstance(item, dict) and isinstance(item.get("name"), str) for item in items
    ):
        return sorted(items, key=lambda item: str(item["name"]))
    return items


def bare_registry(entries: Mapping[str, str]) -> dict[str, str]:
    """Return a registry of a state with bare hashes as keys."""
    return {key.removeprefix(KEY_PREFIX): text for key, text in entries.items()}


def registry_of(configuration: Mapping[str, str] | None) -> dict[str, str]:
    """Return the registry in a table's configuration."""
    return bare_registry(
        {key: text for key, text in (configuration or {}).items() if key.startswith(KEY_PREFIX)}
    )


def without_registry(metadata: MetadataAction) -> MetadataAction:
    """Return metadata without the doc mappings in its configuration: only what users and settings
    declare.
    """
    configuration = {
        key: text
        for key, text in (metadata.configuration or {}).items()
        if not key.startswith(KEY_PREFIX)
    }
    return msgspec.structs.replace(metadata, configuration=configuration)


def record_mappings(
    actions: Iterable[LogAction], metadata: MetadataAction, protocol: ProtocolAction
) -> tuple[LogAction, ...]:
    """Return the actions of a version with each doc mapping stored once, in the metadata, and named
    by its splits.

    A mapping that `metadata` lacks is added by a metaData action of the same version; existing ones
    stay. A mapping that is not JSON stays inline. Readers of an older protocol do not resolve
    names: for them splits keep the mapping next to its hash.
    """
    written = [_with_canonical_ref(action) for action in actions]
    if protocol.min_reader_version < RECORDED_SINCE:
        return tuple(written)
    mappings = {
        k: text for k, text in (metadata.configuration or {}).items() if k.startswith(KEY_PREFIX)
    }
    grown = dict(mappings)
    for place, action in enumerate(written):
        if isinstance(action, AddAction) and action.doc_mapping_json is not None:
            ref = _hash_or(action.doc_mapping_json, "")
            if ref:
                grown.setdefault(KEY_PREFIX + ref, action.doc_mapping_json)
                written[place] = msgspec.structs.replace(
                    action, doc_mapping_json=None, doc_mapping_ref=ref
                )
    places = [place for place, action in enumerate(written) if isinstance(action, MetadataAction)]
    if not places and grown != mappings:
        first = next((p for p, a in enumerate(written) if isinstance(a, AddAction)), 0)
        written.insert(first, metadata)
        places = [first]
    for place in places:
        own = written[place]
        assert isinstance(own, MetadataAction)
        written[place] = msgspec.structs.replace(
            own, configuration={**(own.configuration or {}), **grown}
        )
    return tuple(written)


def _with_canonical_ref(action: LogAction) -> LogAction:
    """Return an action whose doc mapping, if it has one, is named by its canonical hash."""
    if not isinstance(action, AddAction) or action.doc_mapping_json is None:
        return action
    ref = _hash_or(action.doc_mapping_json, action.doc_mapping_ref or "")
    return msgspec.structs.replace(action, doc_mapping_ref=ref or None)


def deduplicate_mappings(
    files: pa.Table, registry: Mapping[str, str]
) -> tuple[pa.Table, dict[str, str]]:
    """Move the inline doc mappings of files into the registry. A mapping that is not JSON stays
    inline.
    """
    grown = dict(registry)
    inline = files.column(_JSON)
    if inline.null_count == len(inline):
        return files, grown
    hashes: dict[str, str] = {}
    for text in pc.unique(inline.drop_null()).to_pylist():
        try:
            hashes[text] = schema_hash(text)
        except (ValueError, RecursionError):
            continue
        grown.setdefault(hashes[text], text)
    refs = _mapped_names(inline, hashes)
    # Taken by position: a conditional would leave the large texts in memory, unseen under the
    # nulls.
    rows = pc.if_else(
        refs.is_valid(), pa.scalar(None, pa.int64()), pa.array(np.arange(len(inline)))
    )
    return _with_mappings(files, inline.take(rows), pc.coalesce(refs, files.column(_REF))), grown


def with_mappings(actions: Iterable[AddAction], registry: Mapping[str, str]) -> list[AddAction]:
    """Fill in the doc mappings that splits only name. Splits with the same mapping share one text."""
    completed = []
    for action in actions:
        text = registry.get(action.doc_mapping_ref or "")
        bare = action.doc_mapping_json is None and text is not None
        completed.append(msgspec.structs.replace(action, doc_mapping_json=text) if bare else action)
    return completed


def renames(registry: Mapping[str, str], *, threshold: int) -> dict[str, str]:
    """Return the canonical hash for each hash, if the registry has more than `threshold` entries.

    Equal mappings that were hashed before their order was defined become one entry.
    """
    if len(registry) <= threshold:
        return {}
    return {
        old: new
        for old, new in ((ref, _hash_or(text, ref)) for ref, text in registry.items())
        if old != new
    }


def rename_mappings(files: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Return the files with the new hashes of their doc mappings."""
    if not names:
        return files
    refs = files.column(_REF)
    return _with_mappings(files, files.column(_JSON), pc.coalesce(_mapped_names(refs, names), refs))


def in_use(files: pa.Table) -> set[str]:
    """Return the hashes that the files name."""
    return {ref for ref in pc.unique(files.column(_REF)).to_pylist() if ref is not None}


def _hash_or(text: str, fallback: str) -> str:
    try:
        return schema_hash(text)
    except (ValueError, RecursionError):
        return fallback


def _mapped_names(texts: pa.ChunkedArray, names: Mapping[str, str]) -> pa.ChunkedArray:
    """Return each text's value in `names`, null if it has none."""
    positions = pc.index_in(texts, value_set=pa.array(list(names), pa.string()))
    return pa.array(list(names.values()), pa.string()).take(positions.combine_chunks())


def _with_mappings(files: pa.Table, inline: Any, refs: Any) -> pa.Table:
    for name, column in ((_JSON, inline), (_REF, refs)):
        at = files.schema.get_field_index(name)
        files = files.set_column(at, files.schema.field(at), column)
    return files
