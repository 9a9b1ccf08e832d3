"""Settings of the session as a task sees them.

A planner process is not told the session's settings unless the extension is installed; a task is. What a task can still
follow it follows, what its planner should have known is an error: a setting is never ignored in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace
from pyspark import TaskContext

from indextables import config
from indextables.config import PREFIX, Settings
from indextables.config.indexing import IndexingSettings
from indextables.config.registry import SettingsGroup, declared
from indextables.errors import InvalidInputError
from indextables.spark.session_settings import bare
from indextables.spark.table_write import PlannedWrite

G = TypeVar("G", bound=SettingsGroup)


def task_properties() -> Mapping[str, str]:
    """The settings of the session, and what else Spark tells a task."""
    context = TaskContext.get()
    return {} if context is None else dict(context._localProperties or {})


def unknown_to_planner(planned: PlannedWrite, properties: Mapping[str, str]) -> dict[str, str]:
    """The session's settings that the options do not have."""
    known = {key.lower() for key in planned.request.settings}
    session = {bare(key): value for key, value in properties.items() if key.lower().startswith(PREFIX)}
    return {key: value for key, value in session.items() if key.lower() not in known}


def under_session(planned: PlannedWrite, session: Mapping[str, str]) -> PlannedWrite:
    """The write as further settings of the session want it."""
    if not session:
        return planned
    given = config.resolve(options=session)
    late = [key for key in session if config.REGISTRY.find(key)[0].group is IndexingSettings]
    if late:
        raise InvalidInputError(
            f"The session's setting {PREFIX}{late[0]} did not reach the writer in time.",
            hint="Call indextables.spark.install(spark) once, write with indextables.spark.write(), or pass it as an option.",
            key=late[0],
        )
    plan = planned.rows.plan
    task = replace(plan.task, splits=_changed(plan.task.splits, given), stats=_changed(plan.task.stats, given))
    return replace(planned, rows=replace(planned.rows, plan=replace(plan, task=task)))


def _changed(group: G, given: Settings) -> G:
    told = given.given()
    return replace(group, **{s.field_name: given[s.key] for s in declared(type(group)) if s.key in told})
