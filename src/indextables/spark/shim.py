"""The Java part of the extension: text that comes with the package, compiled inside the running driver.

Spark ships a compiler for its own generated code (Janino). It compiles ours too, in less than a second: no JDK, no build
step, no jar. The classes live in the driver alone; executors never see them.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.udf import _wrap_function

from indextables.spark.session_settings import has_jvm
from indextables.spark.source.datasource import DefaultSource

PACKAGE = "indextables"
_IMPORT = re.compile(r"^import [\w.$]+;\n", re.MULTILINE)
_PACKAGE_LINE = f"package {PACKAGE};\n"

_compiled: WeakKeyDictionary[SparkContext, JavaClasses] = WeakKeyDictionary()


class JavaClasses:
    """The classes of the extension in one driver."""

    def __init__(self, context: SparkContext) -> None:
        gateway: Any = context._gateway
        self._gateway = gateway
        jvm = gateway.jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(one_unit(java_sources()))
        self._loader = compiler.getClassLoader()

    def call(self, name: str, method: str, *arguments: object) -> Any:
        """Call a static method of a class. The class is not known to the gateway by name, hence by reflection."""
        loaded = self._loader.loadClass(f"{PACKAGE}.{name}")
        found = next(m for m in loaded.getMethods() if m.getName() == method)
        boxed = self._gateway.new_array(self._gateway.jvm.java.lang.Object, len(arguments))
        for place, argument in enumerate(arguments):
            boxed[place] = argument
        return found.invoke(None, boxed)


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


def install(spark: SparkSession) -> None:
    """Make the extension ready in a session; once is enough, more often does no harm."""
    register(spark)


def register(spark: SparkSession) -> None:
    """Make `format("indextables")` known to a session.

    Spark finds it without this too. But then the session's `spark.indextables.*` settings do not reach its planner.
    """
    if not has_jvm(spark):
        spark.dataSource.register(DefaultSource)
        return
    source = _wrap_function(spark.sparkContext, DefaultSource)
    java_classes(spark).call("SessionSource", "register", spark._jsparkSession, source)
