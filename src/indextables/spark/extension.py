"""The extension in a session: our statements and search operators in its SQL, and reads that this
process plans.

Our statements run in this process, the one that started Spark's driver, so that they see its caches
and its background jobs, and so that the large ones can put Spark's workers to work. They do so over
Spark Connect too, where the server does not have the extension. A read is planned here in the form
in which Spark keeps what a planner process says.

Search operators in anybody's SQL are rewritten as function calls, which every SQL parser
understands:

    message TEXTSEARCH 'a AND b'    textsearch(message , 'a AND b')
    level FIELDMATCH 'ERROR'        fieldmatch(level , 'ERROR')
    message indexquery 'a AND b'    indexquery(message , 'a AND b')
    * TEXTSEARCH 'a'                indexqueryall(  'a')
    * FIELDMATCH 'a'                fieldmatchall(  'a')
    _indexall indexquery 'a'        indexqueryall(  'a')

This is a lexer's work, never a regular expression's: whatever stands in a string, a comment, a hint
or backquotes is left as it is, and so is every character outside of a rewritten operator, comments
and line ends between its parts included.

An operator is a bare word (in any case) with a column before it and a text after it. A column is a name in parts
(`t.a`, `` `a b`.c ``) that is not itself the end of something longer (`x:a`, `x::a`, `f(x).a`) and no keyword; `*` counts
where an expression begins, not between two factors. A text is one or more strings, or a parameter (`:name`, `?`). All
else is left to whoever parses the SQL, which then says what is wrong with it.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import StructType

from indextables.commands import Command, Session, TableName, parse
from indextables.commands.statement import R, TableReference
from indextables.errors import (
    IndexTablesError,
    InvalidInputError,
    UnsupportedError,
    nearest,
    show_value,
)
from indextables.metrics import Sample
from indextables.model.predicate import Predicate
from indextables.model.predicate.tokens import (
    block_comment_end,
    dollar_string_end,
    identifier_end,
    line_comment_end,
    string_end,
    word_end,
)
from indextables.model.schema import normalize, schema_to_json
from indextables.operations.merge import MergeReport
from indextables.operations.purge import PurgeReport
from indextables.operations.verify import VerifyReport
from indextables.spark import upkeep
from indextables.spark.catalog import native_rows, session_answer
from indextables.spark.compat import capabilities, pack_read
from indextables.spark.error_texts import error_document
from indextables.spark.executors import executors, run_on_executors
from indextables.spark.functions import register_bucket_functions, register_table_functions
from indextables.spark.jvm import PACKAGE, describe_java, java_classes
from indextables.spark.requests import (
    CatalogCall,
    Correction,
    DriverRequest,
    ReadFilters,
    ReadPlan,
    ReadRows,
    ReadSize,
    RowChangeCall,
    StatementColumns,
    StatementRows,
    TableFrame,
    parse_request,
)
from indextables.spark.row_statements import change_rows
from indextables.spark.schemas import path_in, readable
from indextables.spark.settings import has_jvm, session_settings
from indextables.spark.source.datasource import DefaultSource, register_source
from indextables.spark.source.reader import TableReader

OPERATORS = {"TEXTSEARCH": "textsearch", "FIELDMATCH": "fieldmatch", "INDEXQUERY": "indexquery"}
"""The operators and their functions."""
EVERYWHERE = {
    "TEXTSEARCH": "indexqueryall",
    "FIELDMATCH": "fieldmatchall",
    "INDEXQUERY": "indexqueryall",
}
"""Their functions without a column: words of text columns, or whole values of the others."""
_EVERY_COLUMN = "_INDEXALL"
_BEFORE_AN_EXPRESSION = frozenset(
    """ALL AND ANY AS BETWEEN BY CASE DISTINCT ELSE EXISTS FILTER FROM HAVING IN IS JOIN LIKE NOT ON OR QUALIFY SELECT
    SET SOME THEN UNION USING VALUES WHEN WHERE WITH""".split()  # noqa: SIM905
)
"""Keywords after which an expression may begin; none of them is a column."""
_STOPPED = re.compile(r"at or near '([^']*)'")
"""Position in an error of Spark's parser."""
_JOINS_TO_THE_LEFT = frozenset(".:@$")


@dataclass(frozen=True)
class _Word:
    """A token of SQL: a word, a quoted name, a string, or any other character."""

    kind: str
    start: int
    end: int
    text: str

    @property
    def upper(self) -> str:
        if self.kind == "word" and self.text.isascii():
            return self.text.upper()
        return ""

    def is_sign(self, signs: str | frozenset[str]) -> bool:
        return self.kind == "sign" and self.text in signs


_Edit = tuple[int, int, str]
"""A position in the text and its replacement."""


def rewrite_operators(sql: str) -> str:
    """Rewrite search operators as calls. Returns the same text if there are none, or if its quotes
    do not close.
    """
    upper = sql.upper()
    if not any(operator in upper for operator in OPERATORS):
        return sql
    words = _words(sql)
    parts: list[str] = []
    at = 0
    for start, end, text in _edits(words or []):
        parts += [sql[at:start], text]
        at = end
    return "".join([*parts, sql[at:]])


def _edits(words: list[_Word]) -> Iterator[_Edit]:
    """Return the edits from left to right."""
    for index, operator in enumerate(words):
        function = OPERATORS.get(operator.upper)
        if function and index:
            end = _text_end(words, index + 1)
        else:
            end = None
        if end is None:
            continue
        last = words[index - 1]
        first = _column_start(words, index - 1)
        if _is_every_column(words, index - 1):
            yield last.start, last.end, f"{EVERYWHERE[operator.upper]}("
            yield operator.start, operator.end, ""
        elif first is not None:
            yield words[first].start, words[first].start, f"{function}("
            yield operator.start, operator.end, ","
        else:
            continue
        yield end, end, ")"


def wrong_operand(sql: str, why: str) -> str | None:
    """Return a correction of SQL that Spark has refused at an operator without a text after it, or
    None.
    """
    stopped = _STOPPED.search(why)
    words = _words(sql) or []
    for index in range(1, len(words) - 1):
        operator, operand = words[index], words[index + 1]
        function = OPERATORS.get(operator.upper)
        if function is None or stopped is None or _text_end(words, index + 1) is not None:
            continue
        everywhere, first = _is_every_column(words, index - 1), _column_start(words, index - 1)
        if stopped[1] not in (operator.text, operand.text) or not (everywhere or first is not None):
            continue
        if everywhere or first is None:
            column = "*"
        else:
            column = sql[words[first].start : words[index - 1].end]
        if column == "*":
            call = f"{EVERYWHERE[operator.upper]}("
        else:
            call = f"{function}({column}, "
        return (
            f"{operator.text} needs a text in quotes on its right, and there is {show_value(operand.text)}. "
            f"Write {column} {operator.text} 'words'; for a text that is computed: {call}concat('wo', 'rds')). "
            "It must not depend on a row."
        )
    return None


_ALIKE = 0.8
"""Similarity above which a word counts as a misspelt operator."""


def correct_operator(sql: str, why: str) -> str | None:
    """Return what to write instead of SQL that Spark has refused, if it stopped at a misspelt
    operator.

    Args:
        sql: The statement or expression, as the caller wrote it.
        why: The message of Spark's parser.
    """
    stopped = _STOPPED.search(why)
    words = _words(sql) or []
    for index in range(1, len(words) - 1):
        for length in (1, 2):
            spelt = words[index : index + length]
            operator = _find_meant_operator(spelt)
            end = _text_end(words, index + length)
            everywhere, first = _is_every_column(words, index - 1), _column_start(words, index - 1)
            if (
                operator is None
                or end is None
                or not (everywhere or first is not None)
                or stopped is None
            ):
                continue
            # Spark's parser stops at the word, or at the text (shown as '') or parameter if the
            # word can be an alias.
            if stopped[1] not in (*[word.text for word in spelt], "", words[index + length].text):
                continue
            written = sql[spelt[0].start : spelt[-1].end]
            column = "*"
            if first is not None and not everywhere:
                column = sql[words[first].start : words[index - 1].end]
            text = sql[words[index + length].start : end]
            return f"There is no operator {show_value(written)}. Write {column} {operator} {text}."
    return None


def _find_meant_operator(spelt: list[_Word]) -> str | None:
    """Return the operator that one misspelt word, or two words, mean, or None."""
    joined = "".join(word.upper for word in spelt).replace("_", "")
    if not all(word.upper for word in spelt) or spelt[0].upper in OPERATORS:
        return None
    if joined in OPERATORS:
        return joined
    if len(spelt) > 1:
        return None
    return next(iter(nearest(joined, OPERATORS, cutoff=_ALIKE)), None)


def _text_end(words: list[_Word], index: int) -> int | None:
    """Return where the text after an operator ends, or None."""
    last = index
    while last < len(words) and words[last].kind == "string":
        last += 1
    if last > index:
        return words[last - 1].end
    if index < len(words) and words[index].is_sign("?"):
        return words[index].end
    named = index + 1 < len(words) and words[index].is_sign(":") and words[index + 1].kind == "word"
    if named:
        return words[index + 1].end
    return None


def _column_start(words: list[_Word], last: int) -> int | None:
    """Return the index of the first word of the column that ends at a word, or None."""
    first = last
    if not _is_name(words[first]):
        return None
    while first >= 2 and words[first - 1].is_sign(".") and _is_name(words[first - 2]):
        first -= 2
    if first > 0 and words[first - 1].is_sign(_JOINS_TO_THE_LEFT):
        return None
    if first == last and words[first].upper in _BEFORE_AN_EXPRESSION:
        return None
    return first


def _is_name(word: _Word) -> bool:
    return word.kind == "quoted" or (word.kind == "word" and not word.text[0].isdigit())


def _is_every_column(words: list[_Word], index: int) -> bool:
    before = words[index - 1] if index > 0 else None
    begins = before is None or before.is_sign("(,") or before.upper in _BEFORE_AN_EXPRESSION
    return begins and (words[index].is_sign("*") or words[index].upper == _EVERY_COLUMN)


def _words(sql: str) -> list[_Word] | None:
    """Return the tokens in order, or None if a string, a comment or a quoted name does not end."""
    words: list[_Word] = []
    at = 0
    while at < len(sql):
        kind, end = _piece(sql, at)
        if end is None:
            return None
        if kind:
            words.append(_Word(kind, at, end, sql[at:end]))
        at = end
    return words


def _piece(sql: str, at: int) -> tuple[str, int | None]:
    """Return kind and end of the token at a position; the kind is empty for white space and
    comments.
    """
    letter = sql[at]
    if letter.isspace():
        return "", at + 1
    if sql.startswith("--", at):
        return "", line_comment_end(sql, at)
    if sql.startswith("/*", at):
        return "", block_comment_end(sql, at)
    if letter in "'\"":
        return "string", string_end(sql, at, raw=False)
    if letter == "`":
        return "quoted", identifier_end(sql, at)
    if letter == "$":
        end = dollar_string_end(sql, at)
        if end == at:
            return ("sign", at + 1)
        return ("string", end)
    end = word_end(sql, at)
    if end == at:
        return "sign", at + 1
    if sql[at:end].upper() == "R" and sql[end : end + 1] in ("'", '"'):
        return "string", string_end(sql, end, raw=True)
    return "word", end


logger = logging.getLogger(__name__)


_sized: OrderedDict[tuple[str, ...], TableReader] = OrderedDict()
"""Reads whose size was just requested: if their rows follow, they are already planned."""
_MAX_SIZED = 16


def read_size(schema_json: str, options: Mapping[str, str]) -> bytes | None:
    """Return how much a read returns; None if that is not known."""
    try:
        reader = _reader(schema_json, options)
        size = str(reader.size()).encode()
    except Exception:
        logger.debug("the size of a read is not known", exc_info=True)
        return None
    _sized[_key(schema_json, options)] = reader
    while len(_sized) > _MAX_SIZED:
        _sized.popitem(last=False)
    return size


def read_filters(schema_json: str, options: Mapping[str, str]) -> bytes | None:
    """Return which filters a read applies exactly; None if that is not known."""
    try:
        return str(_reader(schema_json, options).exact_filters()).encode()
    except Exception:
        logger.debug("the filters of a read are not known", exc_info=True)
        return None


def read_rows(schema_json: str, options: Mapping[str, str]) -> bytes:
    """Return the rows of a small read."""
    reader = _sized.pop(_key(schema_json, options), None) or _reader(schema_json, options)
    return reader.answer()


def _key(schema_json: str, options: Mapping[str, str]) -> tuple[str, ...]:
    pairs = sorted(options.items())
    return (
        schema_json,
        *(text for key, value in pairs if key != "thorough" for text in (key, value)),
    )


def _reader(schema_json: str, options: Mapping[str, str]) -> TableReader:
    reader = DefaultSource(dict(options)).reader(StructType.fromJson(json.loads(schema_json)))
    assert isinstance(reader, TableReader)
    return reader


def plan_read(schema_json: str, options: Mapping[str, str]) -> bytes | None:
    """Return what the tasks of a read do; None if it cannot be planned: Spark then asks a process
    of its own.
    """
    schema = StructType.fromJson(json.loads(schema_json))
    try:
        return pack_read(DefaultSource(dict(options)).reader(schema), schema)
    except Exception:
        logger.debug("a read was not planned here", exc_info=True)
        return None


@dataclass(frozen=True)
class SparkStatements(Session):
    """A session whose workers run long operations."""

    spark: SparkSession | None = None

    def capabilities(self) -> Mapping[str, str]:
        """Return what the version of Spark decides."""
        return capabilities()

    def engine_versions(self) -> Mapping[str, str]:
        """Return the versions of the running Spark and its Java; without a session, those of the
        Java that a session would start.
        """
        if self.spark is None:
            return {"java": describe_java()}
        versions = {"spark": self.spark.version}
        if has_jvm(self.spark):
            jvm: Any = self.spark._jvm
            versions["java"] = str(jvm.System.getProperty("java.version"))
        return versions

    def merge(
        self,
        table: TableReference,
        *,
        target_size: int | None = None,
        where: Predicate | None = None,
        max_dest_splits: int | None = None,
        max_source_splits: int | None = None,
        order_by: Sequence[str] | None = None,
        rewrite: bool = False,
        dry_run: bool = False,
    ) -> MergeReport:
        return upkeep.merge(
            self._spark,
            self.path(table),
            target_size=target_size,
            where=None if where is None else str(where),
            max_dest_splits=max_dest_splits,
            max_source_splits=max_source_splits,
            order_by=order_by,
            rewrite=rewrite,
            dry_run=dry_run,
            options=self.options,
        )

    def purge(
        self,
        table: TableReference,
        *,
        older_than_hours: int | None = None,
        log_retention_hours: int | None = None,
        dry_run: bool = False,
    ) -> PurgeReport:
        return upkeep.purge(
            self._spark,
            self.path(table),
            older_than_hours=older_than_hours,
            log_retention_hours=log_retention_hours,
            dry_run=dry_run,
            options=self.options,
        )

    def verify(self, table: TableReference, *, full: bool) -> VerifyReport:
        if not full:
            return super().verify(table, full=False)
        return upkeep.verify(self._spark, self.path(table), full=True, options=self.options)

    def on_every_executor(self, work: Callable[[list[Sample]], R]) -> list[tuple[str, str, R]]:
        chosen = executors(self._spark)
        if chosen:
            found = run_on_executors(self._spark, chosen, work)
        else:
            found = []
        there = [(executor.id, executor.host, result) for executor, result in found]
        return [*super().on_every_executor(work), *there]

    @property
    def _spark(self) -> SparkSession:
        assert self.spark is not None
        return self.spark


def parse_command(sql: str) -> Command:
    """Parse a statement; it must be one of ours."""
    command = parse(sql)
    if command is None:
        raise InvalidInputError(f"Not a statement of IndexTables: {sql!r}.")
    return command


def spark_columns(command: Command) -> StructType:
    """Return the columns of a command's rows as a Spark schema."""
    return readable(schema_to_json(normalize(command.columns)))


def run_statement(spark: SparkSession, sql: str) -> DataFrame:
    """Run one of our statements and return its rows."""
    command = parse_command(sql)
    rows = command.run(SparkStatements(session_settings(spark), partial(path_of, spark), spark))
    return spark.createDataFrame(rows, spark_columns(command))


def path_of(spark: SparkSession, name: TableName) -> str:
    """Return the location of the table behind a view or a catalog table."""
    if not has_jvm(spark):
        return path_in_schema(spark, name)
    try:
        return str(java_classes(spark).call("TablePaths", "of", spark._jsparkSession, str(name)))
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        reason = str(cause.getMessage()).splitlines()[0]
        hint = "Give the table's path in quotes."
        raise InvalidInputError(
            f"{name} cannot be used here: {reason}", hint=hint, name=".".join(name.parts)
        ) from None


def path_in_schema(spark: SparkSession, name: TableName) -> str:
    """Return the location recorded in a schema, for a session without access to the driver."""
    try:
        path = path_in(spark.table(str(name)).schema)
    except AnalysisException as error:
        path, reason = None, str(error).splitlines()[0]
    else:
        reason = "it does not say which table it reads."
    if path is not None:
        return path
    hint = "Give the table's path in quotes."
    raise InvalidInputError(
        f"{name} cannot be used here: {reason}", hint=hint, name=".".join(name.parts)
    )


def answer_or_error(answer: Callable[[], Any]) -> Any:
    """Return an answer, or a Spark exception that the driver raises again unchanged."""
    try:
        return answer()
    except CapturedException as error:
        if error._origin is None:  # PySpark 4.0 keeps only the text of what a worker raised
            return error_document(IndexTablesError(str(error)))
        return error._origin
    except IndexTablesError as error:
        return error_document(error)
    except Exception as error:
        logger.exception("a request of the driver failed")
        return error_document(IndexTablesError(f"{type(error).__name__}: {error}"))


def native_frame(spark: SparkSession, path: str, frame: str) -> Any:
    """Return the rows of a version as the driver's DataFrame of Spark's own scan."""
    rows = native_rows(spark, path, frame)
    if rows is None:
        return None
    return rows._jdf


def change_of_rows(spark: SparkSession, request: RowChangeCall, plan: Any) -> str:
    """Carry out a DELETE, UPDATE or MERGE INTO and return its report as JSON."""
    report = change_rows(spark, request.path, request.name, plan)
    return json.dumps(
        {
            "updated": report.updated_rows,
            "deleted": report.deleted_rows,
            "inserted": report.inserted_rows,
        }
    )


def correct(sql: str, reason: str) -> str | None:
    """Return what to write instead of SQL that Spark refuses for a reason; None if there is nothing
    to say.
    """
    try:
        if parse(sql) is not None:
            return ""
    except IndexTablesError as error:
        return str(error)
    return wrong_operand(sql, reason) or correct_operator(sql, reason)


def _session_of(session: Any) -> SparkSession:
    return SparkSession(SparkContext.getOrCreate(), session)


def serve_driver() -> None:
    """Serve as the Python process of a driver without one (`java/PythonDriver.java`) until the
    driver ends.
    """
    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark gives it no types
    running = gateway.jvm.JavaSparkContext.fromSparkContext(
        gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    )
    context = SparkContext(gateway=gateway, jsc=running, conf=SparkConf(_jconf=running.getConf()))
    default = gateway.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
    if default.isDefined():
        session = default.get()
    else:
        session = gateway.jvm.SparkSession.builder().getOrCreate()
    install(SparkSession(context, session))
    sys.stdin.buffer.read()  # until the driver closes its end


class StatementDriver:
    """Python's end of the extension: the driver calls it with a session and a request."""

    def apply(self, subject: Any, text: str) -> Any:
        """Answer a request: bytes, a text or a DataFrame of the driver; an error is a document or a
        Java exception.
        """
        request = parse_request(text)
        if isinstance(request, ReadPlan):
            return plan_read(request.schema, request.options)
        if isinstance(request, ReadSize):
            return read_size(request.schema, request.options)
        if isinstance(request, ReadFilters):
            return read_filters(request.schema, request.options)
        if isinstance(request, Correction):
            return correct(request.sql, request.reason)
        return answer_or_error(partial(self._answer, subject, request))

    @staticmethod
    def _answer(subject: Any, request: DriverRequest) -> Any:
        if isinstance(request, ReadRows):
            return read_rows(request.schema, request.options)
        if isinstance(request, StatementColumns):
            return spark_columns(parse_command(request.sql)).json()
        if isinstance(request, RowChangeCall):
            return change_of_rows(_session_of(subject._1()), request, subject._2())
        if isinstance(request, CatalogCall) and request.verb == "write":
            spark = _session_of(subject._1())
            return session_answer(
                spark, request.verb, request.arguments, ClassicDataFrame(subject._2(), spark)
            )
        spark = _session_of(subject)
        if isinstance(request, CatalogCall):
            return session_answer(spark, request.verb, request.arguments, None)
        if isinstance(request, TableFrame):
            return native_frame(spark, request.path, request.frame)
        if isinstance(request, StatementRows):
            return run_statement(spark, request.sql)._jdf
        return register(spark)

    class Java:
        """Declares the Java interface for py4j."""

        implements = ("java.util.function.BiFunction",)


_ALTERNATIVES = {
    "CREATE": "Write with indextables.spark.write(df, path), then CREATE TEMPORARY VIEW v USING "
    "indextables OPTIONS (path '...').",
    "ALTER": "Change columns with Table.open(path).alter.",
    "DESCRIBE": "Write DESCRIBE INDEXTABLES HISTORY '/path'.",
    "RESTORE": "Write RESTORE INDEXTABLES '/path' TO VERSION n.",
    "DELETE": "Delete with indextables.spark.delete(spark, path, where=...).",
    "UPDATE": "Update with Table.open(path).update(set=..., where=...).",
    "MERGE": "Merge with Table.open(path).upsert(rows, on=[...]).",
}
"""What to call instead of a statement that a server refuses, by its first word."""
_OTHER_ALTERNATIVE = (
    "Read and append through a view: CREATE TEMPORARY VIEW v USING indextables OPTIONS "
    "(path '...'); search with its option query or with indextables.spark.search()."
)
_WITH_THE_JAR = "Or start the server with the jar that `indextables jar` builds."
_FUNCTIONS = "|".join([*OPERATORS.values(), *EVERYWHERE.values()])
_OUR_NAMES = re.compile(rf"`({_FUNCTIONS})`|\bindextables\b")
"""What Spark's refusal mentions if it is about our format or one of our search functions."""
_CREATES_A_TABLE = re.compile(
    r"(CREATE( OR REPLACE)?|REPLACE)( EXTERNAL)? TABLE\b.* USING INDEXTABLES\b"
)
_DELTA_STATEMENT = re.compile(r"RESTORE TABLE |DESC(RIBE)? HISTORY ")
"""Statements that the extension adds, and that Spark's own grammar does not have."""


def sql(
    spark: SparkSession,
    statement: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    **kwargs: Any,
) -> DataFrame:
    """Run SQL in a session of any kind, statements of IndexTables included.

    With the extension this is `spark.sql`. Over Spark Connect, on a server that does not have it,
    statements of IndexTables run in this process with the help of the server's workers.

    Args:
        spark: The session.
        statement: The SQL text.
        args: As for `spark.sql`.
        kwargs: As for `spark.sql`.

    Raises:
        UnsupportedError: The SQL needs the extension; the error names what to call instead.

    Example:
        its.sql(spark, "DESCRIBE INDEXTABLES STATE '/data/logs'").show()
    """
    if has_jvm(spark):
        install(spark)
    if has_jvm(spark) or server_has_extension(spark):
        return spark.sql(statement, args, **kwargs)  # type: ignore[arg-type]  # PySpark asks for a dict or a list
    return _client_sql(spark, type(spark).sql.__get__(spark), statement, args, **kwargs)


def _client_sql(
    spark: SparkSession,
    plain: Callable[..., DataFrame],
    statement: str,
    args: Any = None,
    **kwargs: Any,
) -> DataFrame:
    """Run a statement of ours in this process, any other by `plain`, the session's own method."""
    if parse(statement) is not None:
        return run_statement(spark, statement)
    if rewrite_operators(statement) != statement:
        raise UnsupportedError(
            "Search operators in SQL need the extension in the Spark Connect server.",
            hint="Search with indextables.spark.search() or the option query, or start the server "
            "with the jar that `indextables jar` builds.",
        )
    words = [word.upper for word in _words(statement) or []]
    first = words[0] if words else ""
    if _CREATES_A_TABLE.match(" ".join(words)):
        # Spark would accept it, and keep an entry without a path that nothing can read.
        raise UnsupportedError(
            "CREATE TABLE ... USING indextables needs the extension in the Spark Connect server.",
            hint=f"{_ALTERNATIVES['CREATE']} {_WITH_THE_JAR}",
        )
    try:
        return plain(statement, args, **kwargs)
    except PySparkException as error:
        text = str(error).strip().partition("JVM stacktrace")[0]
        is_ours = _OUR_NAMES.search(text) or _DELTA_STATEMENT.match(" ".join(words))
        if "PYTHON_DATA_SOURCE_ERROR" in text or not is_ours:
            raise
        reason = text.partition("\n")[0]
        raise UnsupportedError(
            f"This statement needs the extension in the Spark Connect server: {reason}",
            hint=f"{_ALTERNATIVES.get(first, _OTHER_ALTERNATIVE)} {_WITH_THE_JAR}",
        ) from error


def install_in_python(spark: SparkSession) -> None:
    """Make `spark.sql()` of this session run our statements, unless the server does. Idempotent."""
    if getattr(spark.sql, "__func__", None) is None or server_has_extension(spark):
        return
    method: Any = spark.sql

    def sql(
        sqlQuery: str,  # noqa: N803
        args: dict[str, Any] | list[Any] | None = None,
        **kwargs: Any,
    ) -> DataFrame:
        return _client_sql(spark, method, sqlQuery, args, **kwargs)

    vars(spark)["sql"] = sql  # before the method of its class, for this session alone
    logger.warning(
        "This Spark Connect server does not have the IndexTables extension: statements run in this process, search goes "
        "by indextables.spark.search() or the option query, and filters are not pushed into the data source."
    )


_extended_servers: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


def server_has_extension(spark: SparkSession) -> bool:
    """Whether SQL on the server knows our functions: asked once per session, and nothing is run."""
    if spark not in _extended_servers:
        try:
            plain = type(spark).sql.__get__(spark)
            _extended_servers[spark] = len(plain("SELECT indexqueryall('x')").schema) == 1
        except AnalysisException:
            _extended_servers[spark] = False
    return _extended_servers[spark]


_contexts_with_driver: WeakSet[SparkContext] = WeakSet()
"""Contexts whose driver can call this process."""


def install(spark: SparkSession) -> None:
    """Install the statements and search operators in a session; repeated calls do nothing.

    Sessions that are made from it afterwards (`spark.newSession()`) have them too. Over Spark
    Connect, if the server lacks the extension, statements run in this process and the operators are
    refused.

    Args:
        spark: The session.

    Example:
        its.install(spark); spark.sql("DESCRIBE INDEXTABLES HISTORY '/data/logs'").show()
    """
    register(spark)
    _answer_other_extension(spark)
    if not has_jvm(spark):
        install_in_python(spark)
        return
    context = spark.sparkContext
    driver = None
    if context not in _contexts_with_driver:
        gateway: Any = context._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # PySpark gives it no types
        driver = StatementDriver()
        _contexts_with_driver.add(context)
    classes = java_classes(spark)
    classes.call("Extension", "install", spark._jsparkSession, driver)
    if classes.are_sparks:
        install_catalogs(spark)


JVM_EXTENSION = "io.indextables.extensions.IndexTablesSparkExtensions"
"""What clusters of IndexTables for the JVM have in `spark.sql.extensions`."""


def _answer_other_extension(spark: SparkSession) -> None:
    """Say what to write instead of IndexTables for the JVM's class, which Spark has only warned of
    that it cannot be found.
    """
    if JVM_EXTENSION in str(spark.conf.get("spark.sql.extensions", "") or ""):
        logger.warning(
            "spark.sql.extensions names %s of IndexTables for the JVM, which is not used. This session has the statements "
            "and operators already; leave the setting out, or write %s.Extension with the jar that `indextables jar` builds.",
            JVM_EXTENSION,
            PACKAGE,
        )


CATALOGS = {
    "spark.sql.catalog.spark_catalog": f"{PACKAGE}.SessionCatalog",
    "spark.sql.catalog.indextables": f"{PACKAGE}.WarehouseCatalog",
}
"""The catalogs of a session: tables by name next to those of other formats, and tables by path."""


def install_catalogs(spark: SparkSession) -> None:
    """Register the table catalogs in a session, unless it has other catalogs of these names."""
    context: Any = spark.sparkContext._jsc.sc().conf()
    for key, implementation in CATALOGS.items():
        if spark.conf.get(key, None) in (None, "builtin", implementation):
            spark.conf.set(key, implementation)
            context.set(key, implementation)


def register(spark: SparkSession) -> None:
    """Register `format("indextables")` and the functions `indextables_...` in a session.

    Args:
        spark: The session.
    """
    register_source(spark)
    register_bucket_functions(spark)
    register_table_functions(spark)
