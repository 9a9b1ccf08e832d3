"""What `make dist` builds, installed into empty environments and used there, away from the sources."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
PROGRAM = """
import pyarrow as pa
from indextables import Table, __version__
schema = pa.schema([("level", pa.string()), ("message", pa.string())])
logs = Table.create("logs", schema=schema, options={"indexing.typemap.message": "text"})
logs.append(pa.table({"level": ["INFO", "ERROR"], "message": ["all is well", "gateway timeout"]}))
logs.append(pa.table({"level": ["INFO"], "message": ["all clear"]}))
logs.merge()
assert logs.search("timeout", limit=1).to_pylist()[0]["level"] == "ERROR"
assert Table.open("logs", version=1).count() == 2
assert logs.verify(full=True).healthy
print(__version__)
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*words: object, cwd: Path) -> str:
    done = subprocess.run(list(map(str, words)), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def environment(folder: Path, *requirements: object) -> Path:
    """The programs of a new environment that holds these requirements and what they need."""
    run(UV, "venv", "--quiet", "--python", sys.executable, folder / "env", cwd=folder)
    run(UV, "pip", "install", "--quiet", "--python", folder / "env" / "bin" / "python", *requirements, cwd=folder)
    return folder / "env" / "bin"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    out = tmp_path_factory.mktemp("dist")
    run(UV, "build", "--quiet", "--python", sys.executable, "--out-dir", out, cwd=ROOT)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def test_the_wheel_holds_both_packages_and_what_they_read(built: tuple[Path, Path]) -> None:
    names = set(zipfile.ZipFile(built[0]).namelist())
    sources = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*") if p.is_file()}
    assert {n for n in sources if "__pycache__" not in n} <= names
    assert "pyspark_indextables/__init__.py" in names
    assert "indextables/py.typed" in names
    with tarfile.open(built[1]) as sdist:
        assert any(n.endswith("/tests/dist/test_installed.py") for n in sdist.getnames())


def test_the_library_works_where_nothing_else_is_installed(built: tuple[Path, Path], tmp_path: Path) -> None:
    programs = environment(tmp_path, built[0])
    assert run(programs / "python", "-c", PROGRAM, cwd=tmp_path).startswith("0.")
    without = subprocess.run([programs / "indextables"], capture_output=True, text=True, check=False)
    assert (without.returncode, "indextables[cli]" in without.stderr, "Traceback" in without.stderr) == (1, True, False)


def test_the_command_line_works_from_the_sdist(built: tuple[Path, Path], tmp_path: Path) -> None:
    programs = environment(tmp_path, f"indextables[cli] @ {built[1].as_uri()}")
    (tmp_path / "rows.jsonl").write_text('{"level":"ERROR","message":"gateway timeout"}\n')
    command = programs / "indextables"
    run(command, "append", "logs", "rows.jsonl", "--create", "--text", "message", cwd=tmp_path)
    assert "<b>timeout</b>" in run(command, "search", "logs", "timeout", "--json", cwd=tmp_path)
    run(command, "report", "logs", "-o", "report.html", cwd=tmp_path)
    assert run(command, "--version", cwd=tmp_path).startswith("indextables 0.")
