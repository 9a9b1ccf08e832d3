"""Proposals: changes that are to become a version, and the plan of each on a snapshot.

`TakeoverProposal` wraps another proposal and raises the protocol of a table that an older release
or another engine could otherwise continue to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from indextables.config import bare_key
from indextables.config.indexing import DEFAULT_OPERATOR
from indextables.model.actions import (
    AddAction,
    CommitInfo,
    LogAction,
    MetadataAction,
    ProtocolAction,
)
from indextables.model.conflicts import Intent, Operation
from indextables.model.protocol import (
    default_operator,
    is_shared,
    names_parquet_splits,
    take_over,
    with_mapping,
)
from indextables.model.snapshot import Snapshot


class Plan(Struct, frozen=True):
    """What a commit would write on a snapshot. Without actions there is nothing to do."""

    actions: Sequence[LogAction]
    info: CommitInfo


class Proposal(Protocol):
    """A change that is to become a version."""

    @property
    def intent(self) -> Intent:
        """Return what it reads and writes, for the conflict check."""
        ...

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        """Return what it would write on a snapshot; called again on a newer one after a lost race."""
        ...


class TakeoverProposal(Struct, frozen=True):
    """A proposal that also raises the protocol of a table that another engine could concurrently
    write, or whose splits have features that older releases do not know.

    The default operator of queries is recorded in the table, so that queries keep their meaning.
    """

    proposal: Proposal
    raises_old: bool = True
    """Whether protocols 1 to 3 are raised too; not in a table that is kept readable for older
    engines.
    """

    @property
    def intent(self) -> Intent:
        """Return the intent of the wrapped proposal."""
        return self.proposal.intent

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        """Return its plan with the required protocol."""
        planned = self.proposal.plan(snapshot, now_ms=now_ms)
        own = [a for a in planned.actions if isinstance(a, ProtocolAction)]
        before = protocol = own[-1] if own else snapshot.header.protocol
        current = snapshot.header.protocol
        is_old = self.raises_old and not names_parquet_splits(current)
        if planned.actions and (
            is_shared(current) or (is_old and planned.info.operation != Operation.PROTOCOL)
        ):
            protocol = take_over(protocol)
        for mapping in {a.doc_mapping_json for a in planned.actions if isinstance(a, AddAction)}:
            protocol = with_mapping(protocol, mapping or "")
        given = next(
            (a for a in planned.actions if isinstance(a, MetadataAction)), snapshot.metadata
        )
        metadata = with_operator(given, snapshot.header.protocol, protocol)
        if protocol is before and metadata is given:
            return planned
        rest = [a for a in planned.actions if not isinstance(a, ProtocolAction) and a is not given]
        head: list[LogAction] = [protocol]
        if metadata is not snapshot.metadata:
            head.append(metadata)
        return msgspec.structs.replace(planned, actions=[*head, *rest])


def with_operator(
    metadata: MetadataAction, before: ProtocolAction, after: ProtocolAction
) -> MetadataAction:
    """Return metadata for another protocol: it records the default operator of queries if that
    would change.
    """
    configuration, meaning = metadata.configuration or {}, default_operator(before)
    if meaning == default_operator(after) or DEFAULT_OPERATOR.lower() in {
        bare_key(k).lower() for k in configuration
    }:
        return metadata
    return msgspec.structs.replace(
        metadata, configuration={**configuration, DEFAULT_OPERATOR: meaning}
    )
