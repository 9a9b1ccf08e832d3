"""A test for each cell of the table in `model/conflicts.py`, against real commits of both sides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from indextables import Table
from indextables.errors import ConflictError
from indextables.log.transaction import Changes, RowDeletion
from indextables.model.conflicts import Operation
from indextables.model.predicate import bind, parse
from indextables.model.schema import schema_to_json
from indextables.model.snapshot import Snapshot
from indextables.storage.local import LocalStore
from indextables.storage.vector_files import VectorWriter
from tests.support.tables import SCHEMA, append, create_on, live, merge, open_on, split

Act = Callable[[Table], object]


def everything(snapshot: Snapshot) -> pa.Table:
    return snapshot.all_files


def named(*names: str) -> Callable[[Snapshot], pa.Table]:
    def select(snapshot: Snapshot) -> pa.Table:
        files = snapshot.all_files
        wanted = pa.array(
            [p.split("/")[-1].removesuffix(".split") in names for p in files["path"].to_pylist()]
        )
        return files.filter(wanted)

    return select


def commit(table: Table, changes: Changes) -> int | None:
    return table.handle.commit(changes)


def overwrite(name: str) -> Act:
    return lambda t: commit(
        t, Changes(Operation.OVERWRITE, adds=[split(name)], selected=everything)
    )


def replace_where(name: str) -> Act:
    return lambda t: commit(
        t, Changes(Operation.REPLACE_WHERE, adds=[split(name)], selected=named("s1", "theirs"))
    )


def drop(name: str) -> Act:
    return lambda t: commit(t, Changes(Operation.DROP, selected=named("s1", "theirs")))


def rewrite(name: str) -> Act:
    def run(table: Table) -> object:
        with table.transaction(operation=Operation.DELETE, check_splits=False) as tx:
            tx.remove("splits/s1.split")
            tx.add(split(name))
        return tx.version

    return run


def restore(name: str) -> Act:
    def back_to_s2(snapshot: Snapshot) -> pa.Table:
        files = snapshot.all_files
        return files.filter(pa.array([p != "splits/s2.split" for p in files["path"].to_pylist()]))

    return lambda t: commit(t, Changes(Operation.RESTORE, selected=back_to_s2, metadata=t.metadata))


def rename(name: str) -> Act:
    return lambda t: t.update_metadata(name=name)


def add_column(name: str) -> Act:
    import msgspec

    wider = SCHEMA.append(pa.field("extra", pa.string()))
    return lambda t: commit(
        t,
        Changes(
            Operation.METADATA,
            metadata=msgspec.structs.replace(t.metadata, schema_string=schema_to_json(wider)),
        ),
    )


def skip(name: str) -> Act:
    def run(table: Table) -> object:
        with table.transaction(operation=Operation.SKIP) as tx:
            tx.skip("splits/s1.split", reason="broken")
        return tx.version

    return run


def delete_row(name: str, *, row: int | None = None, adds: bool = False) -> Act:
    """A deletion of one row of s1, by a vector: another one for each side, unless it is told which."""
    place = ("ours", "theirs").index(name) if row is None else row

    def run(table: Table) -> object:
        return commit(
            table,
            Changes(
                Operation.UPSERT if adds else Operation.DELETE,
                adds=[split(name)] if adds else [],
                deletions=[RowDeletion("splits/s1.split", np.array([place]), 10)],
                writer=VectorWriter(table.handle.log.store),
                keys=bind(parse("id = 7"), SCHEMA) if adds else None,
            ),
        )

    return run


ACTS: dict[str, Callable[[str], Act]] = {
    "rows": delete_row,
    "same row": lambda name: delete_row(name, row=5),
    "upsert": lambda name: delete_row(name, adds=True),
    "append": lambda name: lambda t: append(t, name),
    "overwrite": overwrite,
    "replace": replace_where,
    "merge": lambda name: lambda t: merge(t, ["s1", "s2"], name),
    "drop": drop,
    "delete": rewrite,
    "rename": rename,
    "schema": add_column,
    "restore": restore,
    "skip": skip,
}
S = {"s1", "s2"}
X = None

# ours -> theirs -> what is live afterwards if ours goes through; X: ours is refused and theirs
# stands alone.
TABLE: dict[str, dict[str, set[str] | None]] = {
    "append": {
        "append": S | {"theirs", "ours"},
        "overwrite": {"theirs", "ours"},
        "replace": {"s2", "theirs", "ours"},
        "merge": {"theirs", "ours"},
        "drop": {"s2", "ours"},
        "delete": {"s2", "theirs", "ours"},
        "rename": S | {"ours"},
        "schema": X,
        "restore": {"s2", "ours"},
        "skip": S | {"ours"},
    },
    "overwrite": {
        **{
            key: {"ours"}
            for key in [
                "append",
                "overwrite",
                "replace",
                "merge",
                "drop",
                "delete",
                "rename",
                "skip",
            ]
        },
        "schema": X,
        "restore": {"ours"},
    },
    "replace": {
        "append": {"s2", "ours"},
        "overwrite": {"ours"},
        "replace": {"s2", "ours"},
        "merge": {"ours"},
        "drop": {"s2", "ours"},
        "delete": {"s2", "ours"},
        "rename": {"s2", "ours"},
        "schema": X,
        "restore": {"s2", "ours"},
        "skip": {"s2", "ours"},
    },
    "merge": {
        "append": {"theirs", "ours"},
        **dict.fromkeys(
            ["overwrite", "replace", "merge", "drop", "delete", "restore", "schema"], X
        ),
        "rename": {"ours"},
        "skip": {"ours"},
    },
    "drop": {
        "append": {"s2"},
        "overwrite": set(),
        "replace": {"s2"},
        "merge": set(),
        "drop": {"s2"},
        "delete": {"s2"},
        "rename": {"s2"},
        "schema": {"s2"},
        "restore": {"s2"},
        "skip": {"s2"},
    },
    "delete": {
        "append": {"s2", "theirs", "ours"},
        **dict.fromkeys(
            ["overwrite", "replace", "merge", "drop", "delete", "restore", "schema"], X
        ),
        "rename": {"s2", "ours"},
        "skip": {"s2", "ours"},
    },
    "rename": {
        "append": S | {"theirs"},
        "overwrite": {"theirs"},
        "replace": {"s2", "theirs"},
        "merge": {"theirs"},
        "drop": {"s2"},
        "delete": {"s2", "theirs"},
        "rename": X,
        "schema": X,
        "restore": X,
        "skip": S,
    },
    "restore": {
        "append": {"s2"},
        "overwrite": set(),
        "replace": {"s2"},
        "merge": set(),
        "drop": {"s2"},
        "delete": {"s2"},
        "rename": X,
        "schema": X,
        "restore": X,
        "skip": {"s2"},
    },
    "skip": {
        "append": S | {"theirs"},
        "overwrite": {"theirs"},
        "replace": {"s2", "theirs"},
        "merge": {"theirs"},
        "drop": {"s2"},
        "delete": {"s2", "theirs"},
        "rename": S,
        "schema": S,
        "restore": {"s2"},
        "skip": S,
    },
}


GONE = ["overwrite", "replace", "merge", "drop", "delete", "restore"]
ROWS: dict[str, dict[str, set[str] | None]] = {
    "append": {"rows": S | {"ours"}, "upsert": S | {"theirs", "ours"}},
    "overwrite": {"rows": {"ours"}, "upsert": {"ours"}},
    "replace": {"rows": {"s2", "ours"}, "upsert": {"s2", "ours"}},
    "merge": {"rows": X, "upsert": X},
    "drop": {"rows": {"s2"}, "upsert": {"s2"}},
    "delete": {"rows": X, "upsert": X},
    "rename": {"rows": S, "upsert": S | {"theirs"}},
    "restore": {"rows": {"s2"}, "upsert": {"s2"}},
    "skip": {"rows": S, "upsert": S | {"theirs"}},
    "same row": {"same row": X, "rows": S},
    "rows": {
        **dict.fromkeys(GONE, X),
        "append": S | {"theirs"},
        "rename": S,
        "schema": S,
        "skip": S,
        "rows": S,
        "upsert": S | {"theirs"},
    },
    "upsert": {
        **dict.fromkeys([*GONE, "append", "schema", "upsert"], X),
        "rename": S | {"ours"},
        "skip": S | {"ours"},
        "rows": S | {"ours"},
    },
}
"""Deletions of rows that leave their split where it is, and with them rows that come in by keys."""
TABLE = {ours: {**TABLE.get(ours, {}), **ROWS.get(ours, {})} for ours in {**TABLE, **ROWS}}


@pytest.mark.parametrize(("ours", "theirs"), [(o, t) for o, row in TABLE.items() for t in row])
def test_cell(tmp_path: object, ours: str, theirs: str) -> None:
    store = LocalStore(str(tmp_path))
    mine = create_on(store)
    append(mine, "s1", "s2")
    others = open_on(store)
    ACTS[theirs]("theirs")(others)
    others = open_on(store)
    expected = TABLE[ours][theirs]
    if expected is None:
        with pytest.raises(ConflictError, match=f"conflicts with version {others.version}"):
            ACTS[ours]("ours")(mine)
        expected = live(others)
        assert open_on(store).version == others.version
    else:
        ACTS[ours]("ours")(mine)
        assert mine.version > others.version or ours == "drop"
    assert live(open_on(store)) == expected


def test_two_skips_of_one_split_count_on(tmp_path: object) -> None:
    store = LocalStore(str(tmp_path))
    mine = create_on(store)
    append(mine, "s1")
    others = open_on(store)
    skip("x")(others)
    skip("x")(mine)
    assert open_on(store).skipped_files().column("skip_count").to_pylist() == [2]


def test_the_same_path_cannot_be_added_by_two_writers(tmp_path: object) -> None:
    store = LocalStore(str(tmp_path))
    mine = create_on(store)
    append(open_on(store), "same")
    with pytest.raises(ConflictError, match=r"same\.split is already part of the table"):
        append(mine, "same")
