"""The pictures of a life of a table, drawn from one that lives it: `python -m tools.table_life`
writes assets/life-*.svg.

A box is a split, as wide as its rows; rows that a deletion vector names are pale, and a split that
the version does not hold any more, but whose file is still there, is a dashed outline.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from indextables import Table
from indextables.model.report import pluralize
from indextables.web.svg import Markup, drawing, element, label, rect

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
_WIDTH, _LEFT, _ROW, _PER_ROW, _GAP = 860.0, 20.0, 34.0, 0.85, 8.0
_STYLE = Markup(
    "<style>text{font:13px system-ui,sans-serif;fill:#5b6675}.name{fill:#1c2430;font-weight:600}"
    ".live{fill:#2a6fc9}.deleted{fill:#a9c6ee}.gone{fill:none;stroke:#8b95a1;stroke-dasharray:4 3}.on{fill:#fff}"
    ".paper{fill:#fff}.log{fill:#f5f7f9;stroke:#dfe3e8}</style>"
)


def _append(count: int) -> Callable[[Table], object]:
    return lambda table: table.append(
        pa.table({"n": range(count), "word": [f"word {n}" for n in range(count)]})
    )


STAGES: dict[str, tuple[str, tuple[Callable[[Table], object], ...]]] = {
    "append": (
        "Four appends make four splits",
        (_append(120), _append(90), _append(60), _append(150)),
    ),
    "delete": ("A delete names rows and writes no split", (lambda t: t.delete(where="n < 8"),)),
    "merge": ("A merge writes one split of four", (lambda t: t.merge(target_size="1G"),)),
    "mistake": (
        "A mistake: all rows are overwritten",
        (lambda t: t.overwrite(pa.table({"n": [1], "word": ["oops"]})),),
    ),
    "restore": (
        "The way back: a version names the old split again",
        (lambda t: t.restore(version=t.version - 1),),
    ),
    "purge": ("A purge deletes the files that no version needs", (lambda t: _purge(t),)),
}


def _purge(table: Table) -> None:
    table.truncate_time_travel()
    table.purge(older_than_hours=0, log_retention_hours=0)


def picture(title: str, table: Table, known: dict[str, tuple[int, int]]) -> Markup:
    """The table as it is: the versions of its log, its splits, and files that are left of older
    versions.
    """
    live = {row["path"]: row for row in table.files().to_pylist()}
    for path, row in live.items():
        rows = known.get(path, (row["num_records"], 0))[0]
        known[path] = rows, rows - row["num_records"]
    there = [path for path in known if (Path(table.path) / path).exists()]
    shapes = [
        _STYLE,
        rect(0, 0, _WIDTH, 150, class_="paper"),
        label(_LEFT, 24, title, class_="name"),
    ]
    x = _LEFT
    for version in sorted(table.history().column("version").to_pylist()):
        shapes += [
            rect(x, 38, 38, 22, class_="log", rx=3),
            label(x + 19, 53, f"v{version}", text_anchor="middle"),
        ]
        x += 44
    x = _LEFT
    for path in there:
        rows, deleted = known[path]
        wide = max(34.0, rows * _PER_ROW)
        shapes.append(rect(x, 76, wide, _ROW, class_="live" if path in live else "gone", rx=4))
        if path in live and deleted:
            shapes.append(
                rect(x + wide - deleted * _PER_ROW, 76, deleted * _PER_ROW, _ROW, class_="deleted")
            )
        shapes.append(
            label(
                x + 8,
                98,
                f"{rows - deleted if path in live else rows}",
                class_="on" if path in live else None,
            )
        )
        x += wide + _GAP
    words = f"{pluralize(table.count(), 'row')} in {len(live)} {'split' if len(live) == 1 else 'splits'}"
    left = len(there) - len(live)
    shapes.append(
        label(
            _LEFT,
            134,
            words
            + (
                f", {left} more {'file' if left == 1 else 'files'} for older versions"
                if left
                else ""
            ),
        )
    )
    return drawing(_WIDTH, 150, element("g", *shapes), title=title)


def main() -> None:
    """Live it, and draw each stage."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"indexing.typemap.word": "text", "purge.retentionCheckEnabled": "false"}
        schema = pa.schema([("n", pa.int64()), ("word", pa.string())])
        table = Table.create(f"{folder}/t", schema=schema, options=options)
        known: dict[str, tuple[int, int]] = {}
        for name, (title, deeds) in STAGES.items():
            for deed in deeds:
                deed(table)
            table = Table.open(table.path, options=options)
            (ASSETS / f"life-{name}.svg").write_text(
                picture(title, table, known) + "\n", encoding="utf-8"
            )


if __name__ == "__main__":
    main()
