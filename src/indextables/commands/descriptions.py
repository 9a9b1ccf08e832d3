"""The statements that look: what a table is, what happened to it, what a process runs with."""

from __future__ import annotations

import pyarrow as pa

from indextables.commands.environment import environment
from indextables.commands.results import reported, rows, shaped
from indextables.commands.session import Session
from indextables.commands.values import (
    DescribeComponentSizes,
    DescribeEnvironment,
    DescribeHistory,
    DescribeMergeJobs,
    DescribeSkippedFiles,
    DescribeState,
    DescribeTransactionLog,
)
from indextables.upkeep.jobs import JOBS


def describe_state(command: DescribeState, session: Session) -> pa.Table:
    """DESCRIBE INDEXTABLES STATE."""
    return reported(command, session.open(command.table).state())


def describe_history(command: DescribeHistory, session: Session) -> pa.Table:
    """DESCRIBE INDEXTABLES HISTORY."""
    return shaped(command, session.open(command.table).history(limit=command.limit))


def describe_transaction_log(command: DescribeTransactionLog, session: Session) -> pa.Table:
    """DESCRIBE INDEXTABLES TRANSACTION LOG."""
    return shaped(command, session.open(command.table).log_actions(include_all=command.include_all))


def describe_skipped_files(command: DescribeSkippedFiles, session: Session) -> pa.Table:
    """DESCRIBE INDEXTABLES SKIPPED FILES."""
    return shaped(command, session.open(command.table).skipped_files())


def describe_component_sizes(command: DescribeComponentSizes, session: Session) -> pa.Table:
    """DESCRIBE INDEXTABLES COMPONENT SIZES."""
    return shaped(command, session.open(command.table).component_sizes(where=command.where))


def describe_merge_jobs(command: DescribeMergeJobs, _session: Session) -> pa.Table:
    """DESCRIBE INDEXTABLES MERGE JOBS, of this process, the latest first."""
    return rows(command, JOBS.rows())


def describe_environment(command: DescribeEnvironment, session: Session) -> pa.Table:
    """DESCRIBE INDEXTABLES ENVIRONMENT, of this process."""
    return rows(command, environment(session.options))
