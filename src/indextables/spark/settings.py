"""Settings of a session: every `spark.indextables.*` key below explicit options, and the Python of
its workers.

Store settings of Spark's own file systems (`spark.hadoop.fs.s3a.access.key`) apply to us too,
unless the session has our settings for that kind of store. `check_workers` tests before a task runs
whether the Python environments of a cluster's workers have what our tasks need; `pack_environment`
creates a portable one, as an archive that Spark unpacks next to every executor.
"""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from indextables.config import PREFIX, REGISTRY, VERSION, is_setting
from indextables.config.indexing import TIME_ZONE
from indextables.config.registry import is_news
from indextables.errors import NotFoundError, UnknownOptionError, UnsupportedError
from indextables.model.arguments import argument_error
from indextables.model.report import Report

logger = logging.getLogger(__name__)
_writers: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def session_settings(spark: SparkSession) -> dict[str, str]:
    """Return the `spark.indextables.*` settings of a session."""
    if has_jvm(spark):
        everything = _all_in_one_call(spark)
    else:
        everything = spark.conf.getAll
    if SESSION_ZONE not in everything:
        everything = {**everything, SESSION_ZONE: _machine_zone(spark)}
    return known_settings(everything)


SESSION_ZONE = "spark.sql.session.timeZone"
_zones: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def _machine_zone(spark: SparkSession) -> str:
    """Return the time zone of a session without one: that of its driver's machine."""
    if spark not in _zones:
        _zones[spark] = str(spark.conf.get(SESSION_ZONE))
    return _zones[spark]


def known_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of a conf that are our settings, and warn of similar unknown ones."""
    ours = {key: value for key, value in properties.items() if key.lower().startswith(PREFIX)}
    known = {
        key: value
        for key, value in ours.items()
        if is_setting(key) or unknown_in_session(bare(key))
    }
    zone = properties.get(SESSION_ZONE)
    of_session = {} if zone is None else {PREFIX + TIME_ZONE: zone}
    return {**file_system_settings(properties, known), **of_session, **known}


HADOOP = "spark.hadoop.fs."
_S3A = {
    "s3a.access.key": "aws.accessKey",
    "s3a.secret.key": "aws.secretKey",
    "s3a.session.token": "aws.sessionToken",
    "s3a.endpoint.region": "aws.region",
    "s3a.path.style.access": "aws.pathStyleAccess",
}
_AZURE = {"azure.account.key.": "azure.accountKey", "azure.sas.fixed.token.": "azure.sasToken"}


def file_system_settings(
    properties: Mapping[str, str], given: Mapping[str, object]
) -> dict[str, str]:
    """Return the store settings of Spark's file systems as our settings.

    A kind of store with settings in `given` is left out completely, so that halves of two
    credentials are not mixed.
    """
    told = {
        key[len(HADOOP) :]: value for key, value in properties.items() if key.startswith(HADOOP)
    }
    found = {ours: told[key] for key, ours in _S3A.items() if told.get(key)}
    endpoint = told.get("s3a.endpoint")
    if endpoint:
        plain = told.get("s3a.connection.ssl.enabled", "true").lower() == "false"
        if "://" in endpoint:
            address = endpoint
        else:
            address = f"{'http' if plain else 'https'}://{endpoint}"
        found |= {
            "aws.endpoint": address,
            "aws.allowHttp": str(address.startswith("http://")).lower(),
        }
    for prefix, ours in _AZURE.items():
        keys = [key for key in told if key.startswith(prefix)]
        if len(keys) == 1:  # with several accounts one setting cannot say which
            found |= {
                ours: told[keys[0]],
                "azure.accountName": keys[0].removeprefix(prefix).split(".")[0],
            }
    keyfile = told.get("gs.auth.service.account.json.keyfile")
    if keyfile:
        found["gcp.serviceAccountKey"] = keyfile
    kinds = {bare(key).split(".")[0].lower() for key in given}
    return {key: value for key, value in found.items() if key.split(".")[0] not in kinds}


def unknown_in_session(name: str) -> bool:
    """Warn once of an unknown key in a Spark conf, which may belong to another engine. It is left
    out.
    """
    if is_news("unknown", name.lower()):
        try:
            REGISTRY.find(name)
        except UnknownOptionError as error:
            logger.warning("The session's %s%s is left out. %s", PREFIX, name, error)
    return False


def _all_in_one_call(spark: SparkSession) -> dict[str, str]:
    """Return all settings as one text, because `spark.conf.getAll` calls the driver several times
    per setting.
    """
    context = spark.sparkContext
    if context not in _writers:
        gateway: Any = context._gateway
        _writers[context] = gateway.jvm.com.fasterxml.jackson.databind.ObjectMapper()
    settings: dict[str, str] = json.loads(
        _writers[context].writeValueAsString(spark._jsparkSession.conf().getAllAsJava())
    )
    return settings


def with_session(spark: SparkSession, options: Mapping[str, object] | None) -> dict[str, object]:
    """Return options over the session's settings. An option overrides the same key of the session."""
    settings = {bare(key): value for key, value in session_settings(spark).items()}
    return {**settings, **{bare(key): value for key, value in (options or {}).items()}}


def bare(key: str) -> str:
    """Return a key without its optional prefix."""
    if key.lower().startswith(PREFIX):
        return key[len(PREFIX) :]
    return key


def source_options(
    spark: SparkSession, options: Mapping[str, object] | None, own: Mapping[str, object | None]
) -> dict[str, str]:
    """Return options for the data source: the caller's, the request's, and if necessary the
    session's settings.

    With access to the driver the extension passes the session's settings, so that no plan shows
    them.
    """
    if has_jvm(spark):
        settings = dict(options or {})
    else:
        settings = with_session(spark, options)
    requests = {key: value for key, value in own.items() if value is not None}
    return {key: _text(value) for key, value in {**settings, **requests}.items()}


def session_of(df: DataFrame) -> SparkSession:
    """Return the session of a DataFrame; anything else cannot be written."""
    if not isinstance(df, DataFrame):
        raise argument_error(
            "df", "a Spark DataFrame", df, hint="Make one with spark.createDataFrame(...)."
        )
    return df.sparkSession


def has_jvm(spark: SparkSession) -> bool:
    """Return whether this process has access to the driver, without Spark Connect."""
    return hasattr(spark, "_jsparkSession")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return json.dumps(list(value))
    return str(value)


_NEEDED = ("msgspec", "numpy", "obstore", "pyarrow", "tantivy")
_checked: WeakSet[SparkContext] = WeakSet()


def check_workers(spark: SparkSession) -> None:
    """Raise UnsupportedError if the Python of a worker lacks what tasks need, naming interpreter,
    host and package.

    Checked once per session; workers on this machine use this Python.
    """
    context = spark.sparkContext if has_jvm(spark) else None
    if context is None or context in _checked:
        return
    if (
        not str(context.master).startswith(("local[", "local-cluster"))
        and str(context.master) != "local"
    ):
        places = max(2, int(context.defaultParallelism))
        found = (
            context.parallelize(range(places), places).mapPartitions(_look_for(_NEEDED)).collect()
        )
        lacking = {
            f"{python} on {host} {_lacks(versions)}"
            for host, python, versions in found
            if _lacks(versions)
        }
        if lacking:
            raise UnsupportedError(
                f"Workers cannot run tasks of IndexTables {VERSION}: {'; '.join(sorted(lacking))}.",
                hint="Send an environment along (`indextables pack-env`, then --archives env.tar.gz#env and "
                "PYSPARK_PYTHON=./env/bin/python), or install indextables for the Python that spark.pyspark.python names "
                "on every host.",
                workers=sorted(lacking),
            )
    _checked.add(context)


def _look_for(
    names: tuple[str, ...],
) -> Callable[[Iterable[int]], Iterator[tuple[str, str, dict[str, str | None]]]]:
    def look(_: Iterable[int]) -> Iterator[tuple[str, str, dict[str, str | None]]]:
        # It travels by value: what it needs must be in any Python.
        import socket  # noqa: PLC0415
        import sys  # noqa: PLC0415
        from importlib import import_module  # noqa: PLC0415
        from importlib.util import find_spec  # noqa: PLC0415

        versions = {name: "" if find_spec(name) else None for name in names}
        ours = find_spec("indextables") and import_module("indextables").__version__
        yield socket.gethostname(), sys.executable, {"indextables": ours or None, **versions}

    return look


def _lacks(versions: Mapping[str, str | None]) -> str:
    missing = [name for name, version in versions.items() if version is None]
    other = versions["indextables"]
    told = [f"has no {', '.join(missing)}"] if missing else []
    told += [f"has indextables {other}"] if other not in (None, VERSION) else []
    return " and ".join(told)


class PackedEnvironment(Report, frozen=True):
    """A packed environment: its path, the interpreter that hosts must have, and its content."""

    path: str
    python: str
    packages: list[str]
    size_bytes: int


def pack_environment(
    out: str | Path, *, packages: Sequence[str] = (), python: str | None = None, level: int = 6
) -> PackedEnvironment:
    """Write the archive `out` (tar.gz) with this package, what it needs, and the installed
    `packages` with what those need.

    Unpacked anywhere it is a virtual environment of the interpreter `python`, which every host must
    have at that place; if not given, it is the one that runs this. PySpark is not in it: hosts of a
    cluster have Spark's own. `level` is gzip's. Raises NotFoundError for a package that is not
    installed here.

        pack_environment("env.tar.gz", packages=["scikit-learn"])
    """
    chosen: dict[str, Distribution] = {}
    for name in ("indextables", "pandas", *packages):
        _collect(name, chosen)
    if python:
        interpreter = Path(python)
    else:
        interpreter = Path(sys.executable).resolve()
    lib = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    path = Path(out)
    partial = path.with_name(path.name + ".part")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=level) as archive:
            _add_text(
                archive,
                "pyvenv.cfg",
                f"home = {interpreter.parent}\ninclude-system-site-packages = false\n",
            )
            for name in ("python", "python3"):
                _add_link(archive, f"bin/{name}", str(interpreter))
            for each in chosen.values():
                for source, target in _files(each):
                    archive.add(source, f"{lib}/{target}", recursive=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    names = sorted(f"{each.name} {each.version}" for each in chosen.values())
    return PackedEnvironment(str(path), str(interpreter), names, path.stat().st_size)


_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LEFT_OUT = {"pyspark", "py4j"}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _collect(name: str, chosen: dict[str, Distribution], *, optional: bool = False) -> None:
    """Collect a distribution and its dependencies. Those for other systems need not be installed."""
    key = _canonical(name)
    if key in chosen or key in _LEFT_OUT:
        return
    try:
        found = distribution(name)
    except PackageNotFoundError:
        if optional:
            return
        hint = "Install it in this environment, then pack again."
        raise NotFoundError(f"{name} is not installed here.", hint=hint, package=name) from None
    chosen[key] = found
    for requirement in found.requires or []:
        wanted, _, marker = requirement.partition(";")
        match = _NAME.match(wanted.strip())
        if match and "extra" not in marker:
            _collect(match[0], chosen, optional=bool(marker))


def _files(found: Distribution) -> Iterator[tuple[Path, str]]:
    """Return the files of a distribution with their paths among the packages; of an editable one
    also its source.
    """
    for file in found.files or []:
        if file.parts[0] == ".." or "__pycache__" in file.parts:
            continue
        source = Path(str(file.locate()))
        if file.suffix == ".pth" and _is_editable(found):
            for line in source.read_text("utf-8").splitlines():
                yield from _sources(found, Path(line.strip()))
        elif source.is_file():
            yield source, file.as_posix()


def _is_editable(found: Distribution) -> bool:
    told = json.loads(found.read_text("direct_url.json") or "{}")
    return bool(told.get("dir_info", {}).get("editable"))


def _sources(found: Distribution, folder: Path) -> Iterator[tuple[Path, str]]:
    if not folder.is_dir():
        raise UnsupportedError(
            f"{found.name} is installed as editable in a way that cannot be packed.",
            hint=f"Install it without -e: pip install {folder}.",
            package=found.name,
        )
    for source in sorted(folder.rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            yield source, source.relative_to(folder).as_posix()


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text.encode())
    archive.addfile(entry, io.BytesIO(text.encode()))


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o755
    archive.addfile(entry)
