"""Proposals: changes that want to become a version, and the plan each of them makes on top of a snapshot.

`TakeoverProposal` wraps another proposal and raises the protocol of a table that an older release or another
engine could otherwise continue to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from indextables.config import bare_key
from indextables.config.indexing import DEFAULT_OPERATOR
from indextables.model.actions import AddAction, CommitInfo, LogAction, MetadataAction, ProtocolAction
from indextables.model.conflicts import Intent, Operation
from indextables.model.protocol import default_operator, is_shared, names_parquet_splits, take_over, with_mapping
from indextables.model.snapshot import Snapshot


class Plan(Struct, frozen=True):
    """What a commit would write on top of a snapshot. No actions: there is nothing to do."""

    actions: Sequence[LogAction]
    info: CommitInfo


class Proposal(Protocol):
    """A change that wants to become a version."""

    @property
    def intent(self) -> Intent:
        """What it wants, as far as others could stand in its way."""
        ...

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        """What it would write on top of a snapshot; called again on a newer one when others were first."""
        ...


class TakeoverProposal(Struct, frozen=True):
    """A proposal that also raises the protocol: of a table that another engine could go on writing beside us, and where
    its splits have what older releases do not know. A query means the same after it, which the table records."""

    proposal: Proposal
    raises_old: bool = True
    """Whether protocol 1 to 3 is raised too; not in a table that is kept readable for older engines."""

    @property
    def intent(self) -> Intent:
        """What the proposal wants."""
        return self.proposal.intent

    def plan(self, snapshot: Snapshot, *, now_ms: int) -> Plan:
        """Its plan, with the protocol that the table needs from then on."""
        planned = self.proposal.plan(snapshot, now_ms=now_ms)
        own = [a for a in planned.actions if isinstance(a, ProtocolAction)]
        before = protocol = own[-1] if own else snapshot.header.protocol
        current = snapshot.header.protocol
        is_old = self.raises_old and not names_parquet_splits(current)
        if planned.actions and (is_shared(current) or (is_old and planned.info.operation != Operation.PROTOCOL)):
            protocol = take_over(protocol)
        for mapping in {a.doc_mapping_json for a in planned.actions if isinstance(a, AddAction)}:
            protocol = with_mapping(protocol, mapping or "")
        given = next((a for a in planned.actions if isinstance(a, MetadataAction)), snapshot.metadata)
        metadata = with_operator(given, snapshot.header.protocol, protocol)
        if protocol is before and metadata is given:
            return planned
        rest = [a for a in planned.actions if not isinstance(a, ProtocolAction) and a is not given]
        head = [protocol] if metadata is snapshot.metadata else [protocol, metadata]
        return msgspec.structs.replace(planned, actions=[*head, *rest])


def with_operator(metadata: MetadataAction, before: ProtocolAction, after: ProtocolAction) -> MetadataAction:
    """Metadata of one protocol as it is under another: it records what words side by side mean, where that would change."""
    configuration, meaning = metadata.configuration or {}, default_operator(before)
    if meaning == default_operator(after) or DEFAULT_OPERATOR.lower() in {bare_key(k).lower() for k in configuration}:
        return metadata
    return msgspec.structs.replace(metadata, configuration={**configuration, DEFAULT_OPERATOR: meaning})
