"""The Python environments of a cluster's workers: whether they have what our tasks need, found out before a task runs.

An environment that travels: the package and what it needs as an archive that Spark unpacks beside every executor.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from indextables.config.release import VERSION
from indextables.errors import NotFoundError, UnsupportedError
from indextables.model.report import Report
from indextables.spark.settings import has_jvm

_NEEDED = ("msgspec", "numpy", "obstore", "pyarrow", "tantivy")
_checked: WeakSet[SparkContext] = WeakSet()


def check_workers(spark: SparkSession) -> None:
    """Raise UnsupportedError, before anything else runs there, if the Python of a worker lacks what tasks need.

    It says which interpreter on which host lacks what. Looked at once; workers on this machine are this very Python.
    """
    context = spark.sparkContext if has_jvm(spark) else None
    if context is None or context in _checked:
        return
    if not str(context.master).startswith(("local[", "local-cluster")) and str(context.master) != "local":
        places = max(2, int(context.defaultParallelism))
        found = context.parallelize(range(places), places).mapPartitions(_look_for(_NEEDED)).collect()
        lacking = {f"{python} on {host} {_lacks(versions)}" for host, python, versions in found if _lacks(versions)}
        if lacking:
            raise UnsupportedError(
                f"Workers cannot run tasks of IndexTables {VERSION}: {'; '.join(sorted(lacking))}.",
                hint="Send an environment along (`indextables pack-env`, then --archives env.tar.gz#env and "
                "PYSPARK_PYTHON=./env/bin/python), or install indextables for the Python that spark.pyspark.python names "
                "on every host.",
                workers=sorted(lacking),
            )
    _checked.add(context)


def _look_for(names: tuple[str, ...]) -> Callable[[Iterable[int]], Iterator[tuple[str, str, dict[str, str | None]]]]:
    def look(_: Iterable[int]) -> Iterator[tuple[str, str, dict[str, str | None]]]:
        # It travels by value: what it needs must be in any Python.
        import socket  # noqa: PLC0415
        import sys  # noqa: PLC0415
        from importlib import import_module  # noqa: PLC0415
        from importlib.util import find_spec  # noqa: PLC0415

        versions = {name: "" if find_spec(name) else None for name in names}
        ours = find_spec("indextables") and import_module("indextables.config.release").VERSION
        yield socket.gethostname(), sys.executable, {"indextables": ours or None, **versions}

    return look


def _lacks(versions: Mapping[str, str | None]) -> str:
    missing = [name for name, version in versions.items() if version is None]
    other = versions["indextables"]
    told = [f"has no {', '.join(missing)}"] if missing else []
    told += [f"has indextables {other}"] if other not in (None, VERSION) else []
    return " and ".join(told)


class PackedEnvironment(Report, frozen=True):
    """An archive of an environment: where it is, the interpreter that hosts must have, and what is in it."""

    path: str
    python: str
    packages: list[str]
    size_bytes: int


def pack_environment(
    out: str | Path, *, packages: Sequence[str] = (), python: str | None = None, level: int = 6
) -> PackedEnvironment:
    """Write the archive `out` (tar.gz) with this package, what it needs, and the installed `packages` with what those need.

    Unpacked anywhere it is a virtual environment of the interpreter `python`, which every host must have at that place; if
    not given, it is the one that runs this. PySpark is not in it: hosts of a cluster have Spark's own. `level` is gzip's.
    Raises NotFoundError for a package that is not installed here.

        pack_environment("env.tar.gz", packages=["scikit-learn"])
    """
    chosen: dict[str, Distribution] = {}
    for name in ("indextables", "pandas", *packages):
        _collect(name, chosen)
    interpreter = Path(python) if python else Path(sys.executable).resolve()
    lib = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    path = Path(out)
    partial = path.with_name(path.name + ".part")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=level) as archive:
            _add_text(archive, "pyvenv.cfg", f"home = {interpreter.parent}\ninclude-system-site-packages = false\n")
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
    """A distribution and those that it needs. One that is needed on another system only need not be here."""
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
    """The files of a distribution, each with its place among the packages; of an editable one also those of its source."""
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
