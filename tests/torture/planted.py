"""Bugs that are planted into the code, one at a time, and the tests that find each of them.

`python -m tests.torture.planted` runs the named tests with each bug and reports which test found it
after how many seconds. A bug that no test finds is a failure, and so is one whose place in the
source is not there any more. The rules of `tests.torture.rules` are the other half of the
catalogue: each is switched off by `make test`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, to_builtins

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
VARIABLE = "PLANTED_BUG"
MODEL, TABLE, LOG = "tests/unit/model", "tests/unit/table", "tests/unit/log"
SPLITS, OPERATIONS = "tests/unit/splits", "tests/unit/operations"


class MissingTargetError(Exception):
    """The source that a bug replaces is not there, or is there more than once."""


class Bug(Struct, frozen=True):
    """What is replaced in the source of one function, and the tests that must fail then.

    The source is compared as `ast.unparse` writes it, so that line breaks and quotes do not matter.
    """

    kind: str
    function: str
    """Module and qualified name, separated by a colon."""
    old: str
    new: str
    tests: tuple[str, ...]

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the function by one with the bug. Raises MissingTargetError."""
        owner, name, module = self._target()
        kind = owner.__dict__.get(name) if isinstance(owner, type) else None
        plain = getattr(kind, "__func__", kind) or getattr(owner, name)
        plain = (
            getattr(plain, "func", None) or getattr(plain, "fget", None) or inspect.unwrap(plain)
        )
        source = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(plain))))
        old, new = self.old.replace('"', "'"), self.new.replace('"', "'")
        if source.count(old) != 1:
            raise MissingTargetError(
                f"{self.function} holds {old!r} {source.count(old)} times, not once:\n{source}"
            )
        space = dict(vars(module)) if isinstance(owner, type) else vars(module)
        before = vars(module).get(name)
        exec(
            compile(
                "from __future__ import annotations\n" + source.replace(old, new), "planted", "exec"
            ),
            space,
        )
        planted = space[name]
        if not isinstance(owner, type):
            vars(module)[name] = before
        for found in [owner] if isinstance(owner, type) else _users(before):
            patch.setattr(found, name, planted)

    def _target(self) -> tuple[Any, str, Any]:
        path, _, qualified = self.function.partition(":")
        try:
            module = importlib.import_module(path)
            owner = module
            *outer, name = qualified.split(".")
            for part in outer:
                owner = getattr(owner, part)
            getattr(owner, name)
        except (ImportError, AttributeError) as error:
            raise MissingTargetError(f"{self.function} is not there: {error}") from error
        return owner, name, module


def _users(function: Any) -> Iterator[Any]:
    """The modules that know a function by its own name."""
    for module in list(sys.modules.values()):
        if vars(module).get(function.__name__) is function:
            yield module


DELETION_VECTOR = "indextables.model.deletion_vector"
CONFLICTS = "indextables.model.conflicts"
PRUNING = "indextables.model.pruning"
SPLIT = "indextables.splits.read.table_split"
VECTOR_TESTS = (f"{MODEL}/test_deletion_vector.py",)
MASK_TESTS = (f"{OPERATIONS}/test_deletion_vectors.py", f"{TABLE}/test_row_changes.py")
CONFLICT_TESTS = (f"{MODEL}/test_conflict_rules.py", f"{MODEL}/test_conflicts.py")
PRUNING_TESTS = (f"{MODEL}/test_pruning.py", "tests/model/test_skipping_never_drops_a_match.py")

BUGS: dict[str, Bug] = {
    # Arithmetic of deletion vectors.
    "V1": Bug(
        "vector arithmetic",
        f"{DELETION_VECTOR}:_container",
        "first, last - first",
        "first, last - first - (last > first)",
        VECTOR_TESTS,
    ),
    "V2": Bug(
        "vector arithmetic",
        f"{DELETION_VECTOR}:_decode",
        "(key << 16) + low",
        "(key << 15) + low",
        VECTOR_TESTS,
    ),
    "V3": Bug(
        "vector arithmetic",
        f"{DELETION_VECTOR}:vectors_of",
        "at += _ENTRY.size + len(body)",
        "at += len(body)",
        VECTOR_TESTS,
    ),
    "V4": Bug(
        "vector arithmetic",
        f"{DELETION_VECTOR}:VectorPlace.rows",
        " or zlib.crc32(body) != checksum",
        "",
        VECTOR_TESTS,
    ),
    "V5": Bug(
        "vector arithmetic",
        f"{DELETION_VECTOR}:decode_rows",
        "(np.diff(rows) > 0).all()",
        "True",
        VECTOR_TESTS,
    ),
    # Masks of living rows.
    "M1": Bug(
        "masks", f"{SPLIT}:row_mask", "alive[rows] = False", "alive[rows[1:]] = False", MASK_TESTS
    ),
    "M2": Bug(
        "masks",
        f"{SPLIT}:TableSplit._in_file",
        "self.mask.living[np.asarray(rows)]",
        "rows",
        MASK_TESTS,
    ),
    "M3": Bug(
        "masks",
        f"{SPLIT}:TableSplit.may_match",
        "possible[self.mask.living]",
        "possible[: len(self.mask.living)]",
        MASK_TESTS,
    ),
    "M4": Bug(
        "masks",
        f"{SPLIT}:TableSplit.group_bounds",
        "np.searchsorted(self.mask.living, starts)",
        "starts",
        MASK_TESTS,
    ),
    "M5": Bug(
        "masks",
        "indextables.splits.index.values:keep_living",
        "np.cumsum(alive)[rows] - 1",
        "rows",
        (f"{SPLITS}/search/test_long_terms.py",),
    ),
    "M6": Bug(
        "masks", f"{SPLIT}:TableSplit.term_count", "self.mask is not None or ", "", MASK_TESTS
    ),
    "M7": Bug("masks", f"{SPLIT}:TableSplit.places", "self.mask.living[rows]", "rows", MASK_TESTS),
    "M8": Bug(
        "masks",
        f"{SPLIT}:row_mask",
        "int(rows[-1]) >= stored",
        "int(rows[-1]) > stored",
        MASK_TESTS,
    ),
    # Pruning, and nulls.
    "P1": Bug(
        "pruning",
        f"{PRUNING}:_Possible._decide",
        "_every if isinstance(tree, And) is outcome else _any",
        "_every",
        PRUNING_TESTS,
    ),
    "P2": Bug(
        "pruning",
        f"{PRUNING}:_Possible._decide",
        "self._decide(tree.child, not outcome)",
        "~self._decide(tree.child, outcome)",
        PRUNING_TESTS,
    ),
    "P3": Bug(
        "null handling",
        f"{PRUNING}:_Possible._decide",
        "if isinstance(tree, IsNull) is outcome:",
        "if isinstance(tree, IsNull):",
        PRUNING_TESTS,
    ),
    "P4": Bug(
        "null handling", f"{PRUNING}:all_match", " | possible.null(bound)", "", PRUNING_TESTS
    ),
    "P5": Bug("pruning", f"{PRUNING}:_certain_bounds", "if agrees:", "if True:", PRUNING_TESTS),
    "P6": Bug(
        "null handling",
        f"{PRUNING}:_Possible._decide",
        " & column_range.can_value",
        "",
        PRUNING_TESTS,
    ),
    "P7": Bug(
        "pruning", f"{PRUNING}:_mask", "mask[rows] = True", "mask[rows[:-1]] = True", PRUNING_TESTS
    ),
    # Rules of conflicts.
    "K1": Bug(
        "conflict rules",
        f"{CONFLICTS}:_others_of_version",
        "(intent.replaces | intent.masks) &",
        "intent.replaces &",
        CONFLICT_TESTS,
    ),
    "K2": Bug(
        "conflict rules",
        f"{CONFLICTS}:_others_of_version",
        "if theirs.vectors[path] != intent.vectors.get(path)",
        "if False",
        CONFLICT_TESTS,
    ),
    "K3": Bug(
        "conflict rules",
        f"{CONFLICTS}:_others_of_version",
        "doubled=intent.adds & theirs.added_paths",
        "doubled=frozenset()",
        CONFLICT_TESTS,
    ),
    "K4": Bug(
        "conflict rules",
        f"{CONFLICTS}:_others_of_version",
        "intent.adds & theirs.removed_paths if is_purge else frozenset()",
        "frozenset()",
        CONFLICT_TESTS,
    ),
    "K5": Bug(
        "conflict rules", f"{CONFLICTS}:_may_hold", "not files.num_rows", "True", CONFLICT_TESTS
    ),
    "K6": Bug(
        "conflict rules",
        f"{CONFLICTS}:layout",
        "tuple(metadata.partition_columns or ())",
        "()",
        CONFLICT_TESTS,
    ),
    "K7": Bug("id comparison", f"{CONFLICTS}:descends", "last[0] in ids", "True", CONFLICT_TESTS),
    "K8": Bug(
        "conflict rules",
        f"{CONFLICTS}:_others_of_snapshots",
        "live[path] != intent.vectors.get(path, before.get(path))",
        "False",
        CONFLICT_TESTS,
    ),
    "K9": Bug(
        "conflict rules",
        f"{CONFLICTS}:_others_of_snapshots",
        "(intent.replaces | intent.masks) - live.keys()",
        "frozenset()",
        CONFLICT_TESTS,
    ),
    "K10": Bug(
        "conflict rules",
        f"{CONFLICTS}:_decide",
        "intent.reindexes and others.has_new_files",
        "False",
        CONFLICT_TESTS,
    ),
    "K11": Bug(
        "conflict rules",
        f"{CONFLICTS}:_decide",
        "intent.sets_metadata and changes_metadata",
        "False",
        CONFLICT_TESTS,
    ),
    "K12": Bug(
        "conflict rules",
        f"{CONFLICTS}:_decide",
        "intent.writes_data and other_layout",
        "False",
        CONFLICT_TESTS,
    ),
    "K13": Bug(
        "conflict rules",
        f"{CONFLICTS}:_arrivals",
        "theirs.info.operation == Operation.RESTORE",
        "False",
        CONFLICT_TESTS,
    ),
    # Caches.
    "I1": Bug(
        "cache invalidation",
        "indextables.log.own_commits:OwnCommits.add",
        "self._counts[table] += 1",
        "self._counts[table] += 0",
        (f"{LOG}/test_own_commits.py",),
    ),
    "I2": Bug(
        "cache invalidation",
        "indextables.log.own_commits:table_key",
        "os.path.realpath(local_path)",
        "str(local_path)",
        (f"{LOG}/test_own_commits.py",),
    ),
    "I3": Bug(
        "cache invalidation",
        "indextables.log.own_commits:_append_byte",
        'file.write(b".")',
        'file.write(b"")',
        (f"{LOG}/test_own_commits.py",),
    ),
    # Identity.
    "T1": Bug(
        "identity checks",
        "indextables.log.checkpoint.identity:check_is_there",
        "_is_transaction_of(existing.info.txn_id or None, header)",
        "True",
        (f"{TABLE}/test_removed_tables.py",),
    ),
    "T2": Bug(
        "id comparison",
        "indextables.log.checkpoint.identity:is_of_another_table",
        "not is_same_table(own.id, ids[0])",
        "False",
        (f"{TABLE}/test_removed_tables.py",),
    ),
    "T3": Bug(
        "identity checks",
        "indextables.log.checkpoint.identity:without_strangers",
        "if failure is None:",
        "if True:",
        (f"{TABLE}/test_removed_tables.py",),
    ),
    # Cleaning.
    "D1": Bug(
        "ordering of deletes",
        "indextables.log.cleaning:Cleaner._delete",
        "for file in batch:",
        "for file in reversed(batch):",
        (f"{LOG}/test_cleaning.py",),
    ),
    "D2": Bug(
        "cover proofs",
        "indextables.log.cleaning:Cleaner._still_covered",
        "all((info is not None and is_same_object(info, listed) for info, listed in found))",
        "True",
        (f"{TABLE}/test_removed_tables.py", f"{LOG}/test_cleaning.py"),
    ),
    "D3": Bug(
        "cover proofs",
        "indextables.log.cleaning:Cleaner._reason_to_stop",
        "self.store.head(log_files.DROPPED) is not None",
        "False",
        (f"{TABLE}/test_drop_table.py",),
    ),
    "D4": Bug(
        "ordering of deletes",
        "indextables.operations.drop_table:run",
        " and info.path != log_files.DROPPED",
        "",
        (f"{TABLE}/test_drop_table.py",),
    ),
    "D5": Bug(
        "cover proofs",
        "indextables.log.cleaning:_FilesByKind.keep",
        "v <= top or v in listing.states",
        "True",
        (f"{TABLE}/test_removed_tables.py",),
    ),
    "D6": Bug(
        "identity checks",
        "indextables.operations.drop_table:_check_marker",
        "store.head(log_files.DROPPED) is None",
        "False",
        (f"{TABLE}/test_drop_table.py",),
    ),
    "D7": Bug(
        "identity checks",
        "indextables.operations.drop_table:_check_unchanged",
        "found is None or not is_same_object(found, newest)",
        "False",
        (f"{TABLE}/test_drop_table.py",),
    ),
    # Words.
    "W1": Bug(
        "search",
        "indextables.splits.query.terms:joined",
        "default=0) + 1",
        "default=0)",
        (f"{SPLITS}/query/test_terms.py", f"{SPLITS}/search"),
    ),
    "W2": Bug(
        "search",
        "indextables.splits.query.terms:has_row",
        "candidates & starts",
        "candidates | starts",
        (f"{SPLITS}/query/test_terms.py", f"{SPLITS}/search"),
    ),
}


def pytest_configure() -> None:
    """Plant the bug that the environment names: this module is a plugin of pytest."""
    if VARIABLE in os.environ:
        BUGS[os.environ[VARIABLE]].plant(pytest.MonkeyPatch())


class Finding(Struct, frozen=True):
    """The test that found a bug, and after how many seconds."""

    bug: str
    kind: str
    function: str
    found_by: str | None
    seconds: float


def find(name: str) -> Finding:
    """Run the tests of a bug with it, until the first one fails."""
    bug = BUGS[name]
    begun = time.monotonic()
    call = [
        sys.executable,
        "-m",
        "pytest",
        *bug.tests,
        "-x",
        "-q",
        "-n",
        "0",
        "-m",
        "not slow",
        "--tb=no",
        "-rf",
    ]
    call += ["-p", "no:cacheprovider", "-p", "tests.torture.planted"]
    ended = subprocess.run(
        call, cwd=ROOT, env={**os.environ, VARIABLE: name}, capture_output=True, text=True
    )
    failed = re.search(r"^FAILED (.+?)(?: - |$)", ended.stdout, re.M)
    if ended.returncode not in (0, 1):
        raise RuntimeError(
            f"the tests of {name} did not run: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"
        )
    return Finding(
        name,
        bug.kind,
        bug.function,
        failed[1] if failed else None,
        round(time.monotonic() - begun, 1),
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture.planted", description="Plant bugs and find them."
    )
    parser.add_argument("bugs", nargs="*", help="all, unless some are named")
    found = []
    for name in parser.parse_args().bugs or BUGS:
        found.append(find(name))
        print(
            f"{name:4} {found[-1].kind:20} {found[-1].seconds:6.1f} s  {found[-1].found_by or 'NOT FOUND'}",
            flush=True,
        )
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "planted-bugs.json").write_text(
        json.dumps(to_builtins(found), indent=1), encoding="utf-8"
    )
    return 0 if all(finding.found_by for finding in found) else 1


if __name__ == "__main__":
    sys.exit(main())
