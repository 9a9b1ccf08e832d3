"""Compile the Java sources with `javac -Xlint:all` and compare what it reports with a committed
baseline.

`python -m tools.java_lint` fails on an error that the baseline does not list and on more warnings
of a kind than it allows. `python -m tools.java_lint --write` stores lower counts. Where there is no
JDK the check is skipped.

The sources are written for Janino, which has no generics. The listed errors are those of classes
that inherit from Scala classes in a way that the generics of Java do not allow; their bytecode is
right.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pyspark

from indextables.spark.compat import minor_version
from indextables.spark.jvm import java_sources

BASELINE = Path(__file__).parents[1] / "tests" / "architecture" / "java_lint_baseline.json"
_ERROR = re.compile(r"([^/\\]+\.java):\d+: error: (.*)")
_WARNING = re.compile(r"\.java:\d+: warning: \[(\w[\w-]*)\]")
_TYPE_ARGUMENTS = re.compile(r":? <.*")


def run_javac(javac: str) -> str:
    """Return what javac reports about the sources for the installed version of Spark."""
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    with tempfile.TemporaryDirectory(prefix="indextables-lint-") as folder:
        sources = Path(folder, "src")
        sources.mkdir()
        for name, text in java_sources(minor_version(pyspark.__version__)).items():
            Path(sources, name).write_text(text, encoding="utf-8")
        command = [
            javac,
            "-proc:none",
            "-Xlint:all,-path",
            "-Xmaxerrs",
            "1000",
            "-Xmaxwarns",
            "100000",
        ]
        files = sorted(map(str, sources.iterdir()))
        result = subprocess.run(
            [*command, "-d", folder, "-cp", str(jars), *files],
            capture_output=True,
            text=True,
            check=False,
        )
    return result.stdout + result.stderr


def read_version(javac: str) -> int:
    """Return the major version of a compiler."""
    answer = subprocess.run([javac, "-version"], capture_output=True, text=True, check=True)
    match = re.search(r"javac (\d+)", answer.stdout + answer.stderr)
    return int(match[1]) if match else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Type-check the Java sources.")
    parser.add_argument(
        "--write", action="store_true", help="store counts that fell as the new baseline"
    )
    write = parser.parse_args().write
    javac = shutil.which("javac")
    if javac is None:
        sys.stdout.write(
            "note: there is no javac on the PATH; the Java sources are not type-checked\n"
        )
        return 0
    report = run_javac(javac)
    errors = {f"{name}: {_TYPE_ARGUMENTS.sub('', text)}" for name, text in _ERROR.findall(report)}
    warnings = Counter(_WARNING.findall(report))
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    wrong = sorted(errors - set(baseline["errors"]))
    if read_version(javac) == baseline["javac"]:
        allowed = baseline["warnings"]
        wrong += [
            f"{count} warnings of javac [{kind}], {allowed.get(kind, 0)} are allowed"
            for kind, count in sorted(warnings.items())
            if count > allowed.get(kind, 0)
        ]
    for line in wrong:
        sys.stdout.write(f"error: {line}\n")
    if write and not wrong:
        baseline.update(errors=sorted(errors), warnings=dict(sorted(warnings.items())))
        BASELINE.write_text(json.dumps(baseline, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
