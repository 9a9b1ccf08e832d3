"""The Java part of the extension: text that comes with the package, compiled inside the running driver.

Spark ships a compiler for its own generated code (Janino). It compiles ours too, in about a second: no JDK, no build step,
no jar. (Servers that no Python process starts load the same classes from a jar, see `jar.py`.) The classes live in the
driver alone; executors never see them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

from indextables.config.release import VERSION
from indextables.errors import UnsupportedError

PACKAGE = "indextables"
VERSION_FILE = "META-INF/indextables-version"
"""Where the jar says which version it is of."""
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
        self._loader = sparks if version else compiled(gateway.jvm, sparks).getClassLoader()
        self._json = gateway.jvm.com.fasterxml.jackson.databind.ObjectMapper()
        self._map = gateway.jvm.java.util.HashMap().getClass()
        self._methods: dict[tuple[str, str], Any] = {}

    def call(self, name: str, method: str, *arguments: object) -> Any:
        """Call a static method of a class. The class is not known to the gateway by name, hence by reflection."""
        found = self._methods.get((name, method))
        if found is None:
            loaded = self._loader.loadClass(f"{PACKAGE}.{name}")
            found = next(m for m in loaded.getMethods() if m.getName() == method)
            self._methods[name, method] = found
        # Not an array: py4j puts no Python objects, which Java could call, into those.
        boxed = self._gateway.jvm.java.util.ArrayList()
        for argument in arguments:
            boxed.add(argument)
        return found.invoke(None, boxed.toArray())

    def text_map(self, values: Mapping[str, str]) -> Any:
        """A map of texts for Java, in one call."""
        return self._json.readValue(json.dumps(dict(values)), self._map)


def compiled(jvm: Any, parent: Any) -> Any:
    """Janino's compiler, having compiled all our classes against those that a class loader has."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(one_unit(java_sources()))
    return compiler


def version_of_jar(jvm: Any, loader: Any) -> str | None:
    """The version of our jar on Spark's class path, if it is there."""
    found = loader.getResourceAsStream(VERSION_FILE)
    if found is None:
        return None
    try:
        return str(jvm.java.lang.String(found.readAllBytes(), "UTF-8"))
    finally:
        found.close()


def java_sources() -> dict[str, str]:
    """The Java files of the package by name."""
    folder = files("indextables.spark") / "java"
    return {
        f.name: f.read_text("utf-8") for f in sorted(folder.iterdir(), key=lambda f: f.name) if f.name.endswith(".java")
    }


def one_unit(sources: dict[str, str]) -> str:
    """All files as one: the compiler takes one at a time."""
    imports = sorted({line for text in sources.values() for line in _IMPORT.findall(text)})
    bodies = [_IMPORT.sub("", text.removeprefix(_PACKAGE_LINE)) for text in sources.values()]
    return _PACKAGE_LINE + "".join(imports) + "".join(bodies)


def java_classes(spark: SparkSession) -> JavaClasses:
    """The classes of the extension in the driver of a session, compiled when first asked for."""
    context = spark.sparkContext
    if context not in _compiled:
        _compiled[context] = JavaClasses(context)
    return _compiled[context]
