"""The page of Spark internals names every class that is not a public API of Spark."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
JAVA = ROOT / "src" / "indextables" / "spark" / "java"
PACKAGES = (
    *(
        "api.python",
        "broadcast",
        "sql.catalyst",
        "sql.classic",
        "sql.errors",
        "sql.execution",
        "sql.internal",
    ),
)
IMPORT = re.compile(r"^import org\.(?:apache\.spark|roaringbitmap)\.([\w$.]+);", re.MULTILINE)


def test_the_page_names_every_internal_class_that_the_java_sources_import() -> None:
    page = (ROOT / "docs" / "explain" / "spark-internals.md").read_text("utf-8")
    named = set(re.findall(r"[\w$]+", page))
    paths = {
        path for file in JAVA.rglob("*.java") for path in IMPORT.findall(file.read_text("utf-8"))
    }
    imported = {
        path.rsplit(".", 1)[-1] for path in paths if path.startswith(PACKAGES) or "." not in path
    }
    imported -= {"QueryContext", "SparkConf", "SparkRuntimeException", "SparkThrowable"}
    assert len(imported) > 80
    assert imported <= named, sorted(imported - named)
