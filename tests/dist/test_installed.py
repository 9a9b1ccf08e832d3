"""What `make dist` builds, installed into empty environments and used there, away from the sources.

Each extra is installed alone, and the README is run in an environment that has just what it names.
"""

from __future__ import annotations

import os
import re
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
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def environment(folder: Path, *requirements: object) -> Path:
    """The programs of a new environment that holds these requirements and what they need."""
    run(UV, "venv", "--quiet", "--python", sys.executable, folder / "env", cwd=folder)
    run(
        UV,
        "pip",
        "install",
        "--quiet",
        "--python",
        folder / "env" / "bin" / "python",
        *requirements,
        cwd=folder,
    )
    return folder / "env" / "bin"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    out = tmp_path_factory.mktemp("dist")
    run(UV, "build", "--quiet", "--python", sys.executable, "--out-dir", out, cwd=ROOT)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def test_the_wheel_holds_both_packages_and_what_they_read(built: tuple[Path, Path]) -> None:
    names = set(zipfile.ZipFile(built[0]).namelist())
    sources = {
        p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*") if p.is_file()
    }
    assert {n for n in sources if "__pycache__" not in n} <= names
    assert "pyspark_indextables/__init__.py" in names
    assert "indextables/py.typed" in names
    with tarfile.open(built[1]) as sdist:
        assert any(n.endswith("/tests/dist/test_installed.py") for n in sdist.getnames())


def test_the_library_works_where_nothing_else_is_installed(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    programs = environment(tmp_path, built[0])
    assert run(programs / "python", "-c", PROGRAM, cwd=tmp_path).startswith("0.")
    without = subprocess.run(
        [programs / "indextables"], capture_output=True, text=True, check=False
    )
    assert (
        without.returncode,
        "indextables[cli]" in without.stderr,
        "Traceback" in without.stderr,
    ) == (1, True, False)


CALLS = {
    "spark": "import indextables.spark; indextables.spark.session",
    "plots": "table.plot.sizes()",
    "duckdb": "table.to_duckdb()",
    "delta": "indextables.Table.companion('index', source='none', format='delta')",
    "hdfs": "indextables.open_table('hdfs://127.0.0.1:1/logs')",
    "otel": "from indextables import metrics; metrics.to_opentelemetry()",
    "otlp": "from indextables.web import otlp; list(otlp.parse_logs(b'', otlp.PROTOBUF))",
    "web": "import sys; sys.argv[1:] = ['serve', 'none']; from indextables.cli.__main__ import main; main()",
    "mcp": "import sys; sys.argv[1:] = ['mcp', 'none']; from indextables.cli.__main__ import main; main()",
    "java": "import indextables.spark; print(indextables.spark.session(master='local[1]').range(3).count())",
}
"""A call that needs an extra. The commands of `web` and `mcp` need `cli` as well, and `java` is for
`spark`.
"""
BASE = {"web": "cli", "otlp": "web", "mcp": "cli", "java": "spark"}
TABLE = """
import indextables
table = indextables.write_table("logs", [{"message": "gateway timeout"}], text=["message"], mode="overwrite")
"""


def call(programs: Path, extra: str, folder: Path) -> str:
    """What the call of an extra prints, without a Java that is installed elsewhere."""
    env = {
        key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PYTHONPATH")
    }
    words = [programs / "python", "-c", TABLE + CALLS[extra]]
    found = subprocess.run(
        list(map(str, words)),
        cwd=folder,
        env={**env, "PATH": str(programs)},
        capture_output=True,
        text=True,
    )
    return str(found.stdout + found.stderr)


@pytest.mark.parametrize("extra", CALLS)
def test_an_extra_alone_works_and_a_call_without_it_names_it(
    built: tuple[Path, Path], tmp_path: Path, extra: str
) -> None:
    base = BASE.get(extra)
    programs = environment(
        tmp_path, f"indextables{f'[{base}]' if base else ''} @ {built[0].as_uri()}"
    )
    assert f"indextables[{extra}]" in call(programs, extra, tmp_path)
    chosen = ",".join(filter(None, (base, extra)))
    run(
        UV,
        "pip",
        "install",
        "--quiet",
        "--python",
        programs / "python",
        f"indextables[{chosen}] @ {built[0].as_uri()}",
        cwd=tmp_path,
    )
    printed = call(programs, extra, tmp_path)
    assert f"indextables[{extra}]" not in printed
    expected = {
        "hdfs": "Connection refused",
        "web": "none",
        "mcp": "none",
        "delta": "none",
        "java": "3",
    }.get(extra, "")
    assert expected in printed
    assert expected or not printed, "a call that works prints nothing"


@pytest.mark.parametrize("extra", ["web", "mcp"])
def test_a_service_without_the_command_line_names_its_extra(
    built: tuple[Path, Path], tmp_path: Path, extra: str
) -> None:
    programs = environment(tmp_path, f"indextables[{extra}] @ {built[0].as_uri()}")
    found = subprocess.run(
        [programs / "indextables", "serve"], capture_output=True, text=True, check=False
    )
    assert (found.returncode, "indextables[cli]" in found.stderr) == (1, True)


def test_the_readme_runs_with_the_extras_that_it_names(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r'pip install "\.\[([\w,]+)\]"', text)
    assert named
    extras = ",".join(named)
    programs = environment(tmp_path, f"indextables[{extras}] @ {built[0].as_uri()}")
    folder = tmp_path / "reader"
    folder.mkdir()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [programs / "python", "-m", "tests.support.read_pages", ROOT / "README.md"]
    done = subprocess.run(
        list(map(str, words)), cwd=folder, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]


def test_the_command_line_works_from_the_sdist(built: tuple[Path, Path], tmp_path: Path) -> None:
    programs = environment(tmp_path, f"indextables[cli] @ {built[1].as_uri()}")
    (tmp_path / "rows.jsonl").write_text('{"level":"ERROR","message":"gateway timeout"}\n')
    command = programs / "indextables"
    run(command, "append", "logs", "rows.jsonl", "--create", "--text", "message", cwd=tmp_path)
    assert "<b>timeout</b>" in run(command, "search", "logs", "timeout", "--json", cwd=tmp_path)
    run(command, "report", "logs", "-o", "report.html", cwd=tmp_path)
    assert run(command, "--version", cwd=tmp_path).startswith("indextables 0.")
