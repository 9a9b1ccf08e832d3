"""The generated parts of the documentation: settings, errors, statements, verbs and commands, from
the code itself.

A page says where a part goes with a line `<!-- generated: NAME -->`; the part stands behind it, up
to `<!-- end of NAME -->`. `python -m tools.reference` writes all of them anew (`make api` does),
and a test compares. So pages are whole wherever they are read.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import indextables.spark as its
from indextables import AddAction, Table, errors, sql, write_table
from indextables.commands.delta import NotOffered
from indextables.commands.parser import STATEMENTS, form, parse
from indextables.commands.statement import Command
from indextables.config import GROUPS
from indextables.config.jvm_names import ALIASES, NO_EFFECT, REFUSED, REFUSED_KINDS
from indextables.config.registry import Setting, list_settings
from indextables.inspect.inspection import DetailReport, MetricsReport
from indextables.log.checkpoint.checkpointer import CheckpointReport, StateReport
from indextables.log.transaction import Transaction
from indextables.metrics import FAMILIES, PREFIX
from indextables.model.report import Report
from indextables.operations.alter import Alteration
from indextables.operations.companion_sync import SourceStatus, SyncReport
from indextables.operations.delete import DeleteReport
from indextables.operations.drop_partitions import DropReport
from indextables.operations.erase import EraseReport
from indextables.operations.merge import MergeReport
from indextables.operations.purge import PurgeReport
from indextables.operations.rebuild import RepairReport
from indextables.operations.reindex import ReindexReport
from indextables.operations.restore import RestoreReport
from indextables.operations.truncate import TruncateReport
from indextables.operations.update import UpdateReport
from indextables.operations.upsert import UpsertReport
from indextables.operations.verify import VerifyReport
from indextables.query.explain import ScanReport
from indextables.spark.source.options import OWN
from indextables.table.administration import DowngradeReport
from indextables.table.frames import ParquetView
from indextables.web.report import report_html, write_report
from tests.api import spark_verbs
from tests.api.spark_verbs import SparkChange
from tests.api.verbs import CHANGES, READS, Change
from tests.conformance.promises import promises
from tools.command_line import command_line, exit_codes
from tools.compatibility import compatibility

DOCS = Path(__file__).parents[1] / "docs"
MARK = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.M)
_PART = re.compile(r"^<!-- generated: ([a-z-]+) -->\n(?:(?s:.*?)^<!-- end of \1 -->\n)?", re.M)
SPARK_CHANGES = {"Spark function": spark_verbs.FUNCTIONS, "Spark command": spark_verbs.COMMANDS}
SPARK_READS = {
    "Spark function": {f"its.{name}" for name in spark_verbs.FUNCTIONS_THAT_READ},
    "Spark command": spark_verbs.OTHER_COMMANDS,
}
REPORTS: tuple[type[Report], ...] = (
    MergeReport,
    ReindexReport,
    PurgeReport,
    EraseReport,
    TruncateReport,
    DropReport,
    RestoreReport,
    DeleteReport,
    UpdateReport,
    UpsertReport,
    ParquetView,
    VerifyReport,
    SyncReport,
    SourceStatus,
    RepairReport,
    CheckpointReport,
    StateReport,
    ScanReport,
    MetricsReport,
    DetailReport,
    DowngradeReport,
)


def settings() -> str:
    """Every setting, by the group that receives it."""
    return "\n".join(_setting_group(group) for group in GROUPS)


def jvm_names() -> str:
    """Settings of the JVM engine that have another name here or no effect, and its kinds of index
    that are not offered.
    """
    renamed = [[f"`{key}`", f"`{alias.target}`"] for key, alias in ALIASES.items()]
    idle = [[f"`{key}`", f"no effect: {reason}"] for key, reason in NO_EFFECT.items()]
    fixed = [[f"`{key}`", f"`false` is refused: {reason}"] for key, reason in REFUSED.items()]
    kinds = [
        [f"`indexing.typemap.*` = `{kind}`", f"refused; write {way_out}"]
        for kind, way_out in REFUSED_KINDS.items()
    ]
    return _table(["key there", "here"], [*renamed, *idle, *fixed, *kinds])


def _setting_group(group: type) -> str:
    head = f"### {_spaced(group.__name__.removesuffix('Settings'))}\n\n{inspect.getdoc(group)}\n"
    rows = [
        [
            f"`{s.key}`",
            _default(s),
            _cell(str(s.type.allowed)),
            "table" if s.in_table else "caller",
            _cell(s.doc),
        ]
        for s in list_settings(group)
    ]
    return f"{head}\n{_table(['key', 'default', 'allowed', 'decided by', 'what it does'], rows)}\n"


def _default(found: Setting) -> str:
    if found.secret:
        return "(secret)"
    return "" if found.default in (None, "", (), {}) else f"`{found.default}`"


def error_tree() -> str:
    """Every error: its place in the tree, its kind, what it means and what it tells the caller to
    do.
    """
    found = [
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.IndexTablesError)
    ]
    order = sorted(found, key=lambda cls: [c.__name__ for c in reversed(cls.__mro__)])
    rows = [
        [*(f"`{name}`" for name in (c.__name__, c.__mro__[1].__name__, c.kind)), *_told(c)]
        for c in order
    ]
    return _table(["error", "is a", "kind", "what happened", "what it says to do"], rows)


def _told(error: type[errors.IndexTablesError]) -> list[str]:
    return [_cell(inspect.getdoc(error) or ""), _cell(error.default_hint)]


def statements() -> str:
    """Every statement: how it is written, and the columns of its rows."""
    return "\n".join(_statement(lead) for lead, kind in STATEMENTS.items() if kind.offered)


def not_offered() -> str:
    """Every statement that is known only to be refused."""
    rows = [
        [f"`{lead}`", f"{why['reason']}. {why['way_out']}"]
        for lead, why in NotOffered.leads.items()
    ]
    return _table(["statement", "why not, and what instead"], rows)


def _statement(lead: str) -> str:
    command = command_of(lead)
    columns = ", ".join(f"`{f.name}`" for f in command.columns)
    return f"### {lead}\n\n{inspect.getdoc(command)}\n\n```text\n{form(lead)}\n```\n\nColumns: {columns}\n"


def command_of(lead: str) -> type[Command]:
    """The command that a statement becomes, found by reading the shortest statement of its kind."""
    needs = {
        "DROP INDEXTABLES PARTITIONS FROM": "'p' WHERE a = 1",
        "ERASE FROM": "'p' WHERE a = 1",
        "TAG INDEXTABLES": "'p' AS 'release-7'",
        "UNTAG INDEXTABLES": "'p' 'release-7'",
        "RESTORE INDEXTABLES": "'p' TO VERSION 1",
        "RESTORE TABLE": "'p' TO VERSION AS OF 1",
    }
    table = "'p'" if STATEMENTS[lead].usage().startswith("'path'") else ""
    command = parse(f"{lead} {needs.get(lead, table)}")
    assert command is not None, lead
    return type(command)


def table_verbs() -> str:
    """Every public verb of `Table`, by the class that declares it."""
    parts = []
    handle, *others = [cls for cls in reversed(Table.__mro__) if cls is not object]
    for cls in (handle, *reversed(others)):
        own = [
            (name, member)
            for name, member in vars(cls).items()
            if not name.startswith("_") and _is_verb(member)
        ]
        if own:
            parts.append(f"### {inspect.getdoc(cls)}\n" if cls is not Table else "")
            parts += [_member(name, member) for name, member in own]
    changes = [
        (name, member) for name, member in vars(Alteration).items() if not name.startswith("_")
    ]
    parts.append(f"### {inspect.getdoc(Alteration)}\n")
    parts += [_function(f"t.alter.{name}", member, level=4) for name, member in changes]
    return "\n".join(parts)


def _is_verb(member: Any) -> bool:
    return isinstance(member, property | classmethod) or inspect.isfunction(member)


def _member(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"#### `t.{name}`\n\n{inspect.getdoc(member)}\n"
    function = member.__func__ if isinstance(member, classmethod) else member
    return _function(
        f"{'Table' if isinstance(member, classmethod) else 't'}.{name}", function, level=4
    )


def _function(shown: str, function: Callable[..., Any], *, level: int = 3) -> str:
    signature = inspect.signature(function)
    given = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    returns = str(signature.return_annotation).replace("'", "")
    text = f"{shown}{signature.replace(parameters=given, return_annotation=inspect.Signature.empty)}".replace(
        "'", '"'
    )
    text = re.sub(r'(: )"([^"]*)"', r"\1\2", text)
    text = re.sub(r"<function (\w+) at \w+>", r"\1", text)
    head = f"{'#' * level} `{shown.rpartition('.')[2]}`"
    described = docstring_as_markdown(inspect.getdoc(function) or "")
    return f"{head}\n\n```text\n{_folded(text)} -> {returns}\n```\n\n{described}\n"


def docstring_as_markdown(text: str) -> str:
    """Return a docstring in Google form as markdown: arguments and errors as lists, the example as
    code.
    """
    parts = re.split(r"^(Args|Returns|Raises|Example):\n", text, flags=re.MULTILINE)
    shown = [parts[0].strip()]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = inspect.cleandoc(body)
        if title == "Example":
            shown.append(f"```text\n{lines}\n```")
        elif title == "Returns":
            shown.append(f"**Returns**: {' '.join(lines.split())}")
        else:
            shown.append(f"**{'Arguments' if title == 'Args' else title}**\n\n{_entries(lines)}")
    return "\n\n".join(shown)


def _entries(lines: str) -> str:
    """Return `name: text` entries, whose further lines are indented, as a list."""
    entries = re.split(r"\n(?=\S)", lines)
    named = (" ".join(entry.split()).partition(": ") for entry in entries)
    return "\n".join(f"- `{name}`: {text}" for name, _, text in named)


def _folded(signature: str) -> str:
    if len(signature) < 90:
        return signature
    head, _, rest = signature.partition("(")
    return f"{head}(\n    " + ",\n    ".join(_arguments(rest.removesuffix(")"))) + "\n)"


def _arguments(text: str) -> Iterator[str]:
    """The arguments of a signature: cut at commas that stand in no bracket."""
    depth, at = 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            yield text[at:index].strip()
            at = index + 1
    yield text[at:].strip()


def spark_functions() -> str:
    """Every function of `indextables.spark`."""
    return "\n".join(_function(f"its.{name}", getattr(its, name)) for name in its.__all__)


def spark_options() -> str:
    """The options of the data source that are not settings."""
    return ", ".join(f"`{name}`" for name in OWN)


def other_functions() -> str:
    """Document the functions outside of `Table`."""
    names: dict[str, Callable[..., Any]] = {
        "write_table": write_table,
        "sql": sql,
        "write_report": write_report,
        "report_html": report_html,
    }
    return "\n".join(_function(name, function) for name, function in names.items())


def log_values() -> str:
    """What a transaction takes."""
    verbs = [
        (n, m)
        for n, m in vars(Transaction).items()
        if inspect.isfunction(m) and not n.startswith("_")
    ]
    shown = "\n".join(_function(f"tx.{name}", member, level=4) for name, member in verbs)
    rows = [[f"`{name}`", f"`{kind}`"] for name, kind in AddAction.__annotations__.items()]
    return f"{shown}\n#### `AddAction`\n\n{inspect.getdoc(AddAction)}\n\n{_table(['field', 'type'], rows)}\n"


def metrics() -> str:
    """Every metric: its name, what it counts, its labels."""
    rows = [
        [
            f"`{PREFIX}{f.name}`",
            f.help + (" A sum and a count." if f.timer else ""),
            ", ".join(f.labels),
        ]
        for f in FAMILIES.values()
    ]
    return _table(["metric", "what it counts", "labels"], rows)


def conformance() -> str:
    """Every promise of the specification, what is done, and the test that shows it."""
    rows = [
        [
            r.text,
            _cell(r.promise),
            r.how,
            _cell(". ".join(t for t in (r.done, r.why) if t)),
            _tests(r.test),
        ]
        for r in promises()
    ]
    return _table(["text", "promise", "how", "what is done, and why", "shown by"], rows)


def verbs() -> str:
    """Every verb, statement and command, and what is tested of each that changes a table."""
    head = ["verb", "by", "writer protocol", "another table at the path", "interrupted"]
    rows = []
    for way, changes in CHANGES.items():
        for change in changes:
            identity = "refused" if change.is_held else "opened by its path"
            rows.append([f"`{change.name}`", way, *_checks(change, identity)])
    for spark_way, spark_changes in SPARK_CHANGES.items():
        for spark_change in spark_changes:
            identity = "there is none" if spark_change.creates else "refused"
            shown = f"`{spark_change.name}`"
            if spark_change.statement:
                shown += f": {_beginning(spark_change.statement)}"
            rows.append([shown, spark_way, *_checks(spark_change, identity)])
    classified = {**READS, **SPARK_READS}
    reads = [
        f"**{way}**: {', '.join(f'`{name}`' for name in sorted(names))}."
        for way, names in classified.items()
    ]
    refused = ", ".join(f"`{name}`" for name in sorted(spark_verbs.REFUSED))
    return (
        _table(head, rows)
        + "\nThese change no table.\n\n"
        + "\n\n".join(reads)
        + f"\n\nThese commands of Spark are refused, and change nothing: {refused}.\n"
    )


def _checks(change: Change | SparkChange, identity: str) -> list[str]:
    """The three columns of what is checked of a verb."""
    protocol = "refuses a table that exists" if change.creates else "checked"
    again = "runs again" if change.is_repeatable else "runs again if it had not taken effect"
    if change.drops:
        again = "the next call ends it"
    return [protocol, identity, again]


def _beginning(statement: str) -> str:
    """The words of a statement that name the command."""
    words = re.findall(r"\b[A-Z]{2,}\b", statement.partition("(")[0].partition(" SELECT")[0])
    return " ".join(words)


def _tests(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def reports() -> str:
    """Every report and its fields."""
    return "\n".join(
        f"#### `{cls.__name__}`\n\n{inspect.getdoc(cls)}\n\n{_fields(cls)}\n" for cls in REPORTS
    )


def _fields(cls: type[Report]) -> str:
    return "Fields: " + ", ".join(f"`{name}`" for name in cls.__struct_fields__)


def decisions() -> str:
    """The pages of decisions, by number."""
    pages = sorted((DOCS / "adr").glob("0*.md"))
    return "".join(
        f"- [{page.read_text('utf-8').splitlines()[0].lstrip('# ')}]({page.name})\n"
        for page in pages
    )


def _spaced(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


PARTS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "not-offered": not_offered,
    "jvm-names": jvm_names,
    "errors": error_tree,
    "statements": statements,
    "metrics": metrics,
    "conformance": conformance,
    "verbs": verbs,
    "table-verbs": table_verbs,
    "spark-functions": spark_functions,
    "spark-options": spark_options,
    "other-functions": other_functions,
    "log-values": log_values,
    "reports": reports,
    "command-line": command_line,
    "exit-codes": exit_codes,
    "decisions": decisions,
    "compatibility": compatibility,
}


def with_parts(markdown: str) -> str:
    """A page with its generated parts as they are now; a mark that names no part is an error."""

    def part(mark: re.Match[str]) -> str:
        name = mark[1]
        return f"<!-- generated: {name} -->\n\n{PARTS[name]().strip()}\n\n<!-- end of {name} -->\n"

    return _PART.sub(part, markdown)


def main() -> None:
    """Write the parts of every page anew."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if MARK.search(text):
            page.write_text(with_parts(text), encoding="utf-8")


if __name__ == "__main__":
    main()
