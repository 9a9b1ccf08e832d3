"""Errors in the terms of SQL and of options, without a Python traceback.

An error in this process is sent to the driver as a kind and a message (`error_document`), and
raised there with an error class. An error in a process that Spark has started (planning a read of a
path, a task, a stream) is reported by Spark with a traceback; `plain_errors` removes it.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from indextables.errors import IndexTablesError

P = ParamSpec("P")
T = TypeVar("T")

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
_WORDS = {
    "Write with merge_schema=True": 'Write with .option("mergeSchema", "true")',
    "Leave out where and dynamic_partitions, or change single columns with table.alter.": (
        "Leave out replaceWhere and the dynamic partitionOverwriteMode (of the write or of the session), or change single "
        "columns with ALTER TABLE."
    ),
    "merge_schema=True": '.option("mergeSchema", "true")',
    "overwrite_schema=True": "CREATE OR REPLACE TABLE ... AS SELECT",
    "create the table with indextables.write_table(path, rows) or Table.create(path, schema=...)": (
        'create the table with CREATE TABLE, or with df.write.format("indextables").mode("append").save(path)'
    ),
    "Open it with Table.open(path), or pass exist_ok=True if the same schema is meant.": (
        'Write to it with mode("append") or mode("overwrite"), or use CREATE TABLE IF NOT EXISTS.'
    ),
    "open it again with Table.open(path)": "read it again",
    "Open the table again with Table.open(path)": "Read the table again",
    "Table.open(path)": "the table again",
    "that history() shows as readable": "that DESCRIBE HISTORY shows as readable",
    "in history()": "in DESCRIBE HISTORY",
    "un verify()": "un VERIFY INDEXTABLES 'path'",
    "verify() checks": "VERIFY INDEXTABLES 'path' checks",
    "then merge() rewrites": "then MERGE SPLITS 'path' rewrites",
    "partition_by": "PARTITIONED BY",
}
"""Words of hints for Python users, and their terms in Spark."""
_OPTION = re.compile(r"open the table with options=\{'([\w.]+)': '?(\w+)'?\}")
_REPAIR = re.compile(r"Table\.repair\((?:path)?(?:, at=('[^']*'))?\)")
_SET = re.compile(r"update_metadata\(options=\{([^}]*)\}\)")
_UNSET = re.compile(r"update_metadata\(unset=\(?([^)]*?),?\)?\)")
_UNTAG = re.compile(r"untag\(('[^']*'|name)\)")


def in_sparks_words(error: IndexTablesError) -> str:
    """Return the message of an error with its hint, with Python's arguments in Spark's terms."""
    return _translate(str(error))


def error_document(error: IndexTablesError) -> str:
    """Return an error as the document that is sent to the driver."""
    return json.dumps({"error": error.kind.upper(), "message": in_sparks_words(error)})


def plain_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method that Spark calls in a process of its own: our errors are reported there
    without traceback.
    """
    if inspect.isgeneratorfunction(function):
        generate = cast(Callable[P, Iterator[Any]], function)

        @wraps(generate)
        def generated(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
            try:
                yield from generate(*args, **kwargs)
            except IndexTablesError as error:
                _make_plain(error)
                raise

        return cast(Callable[P, T], generated)

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except IndexTablesError as error:
            _make_plain(error)
            raise

    return called


def _make_plain(error: IndexTablesError) -> None:
    if not _is_sparks_process():
        return
    # Spark's worker looks at this when it tells of the error, and ends after it: no other error is
    # meant.
    os.environ[_HIDE_TRACEBACK] = "1"
    error.message, error.hint = _translate(error.message), _translate(error.hint)


def _is_sparks_process() -> bool:
    """Return whether Spark has started this process to plan or to run a task."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return str(getattr(main, "name", "")).startswith("pyspark.")


def _translate(text: str) -> str:
    for words, sparks in _WORDS.items():
        text = text.replace(words, sparks)
    text = _OPTION.sub(lambda match: f"SET spark.indextables.{match[1]} = {match[2].lower()}", text)
    text = _REPAIR.sub(lambda match: _repair(match[1]), text)
    text = _SET.sub(
        lambda match: f"{_ALTER} SET TBLPROPERTIES ({match[1].replace(': ', ' = ')})", text
    )
    text = _UNSET.sub(lambda match: f"{_ALTER} UNSET TBLPROPERTIES ({match[1]})", text)
    return _UNTAG.sub(lambda match: f"UNTAG INDEXTABLES 'path' {match[1]}", text)


_ALTER = "ALTER TABLE indextables.`path`"


def _repair(place: str | None) -> str:
    statement = "REPAIR INDEXFILES TRANSACTION LOG 'path'"
    if place is None:
        return statement
    return f"{statement} AT LOCATION {place}"
