"""Images of three SDKs, made of what is on this machine, and a ``docker`` for them.

The program that starts a harness in a container is Beam's own, built from its Go module. Needs
``podman``, ``runc`` and ``go``, and the rights of root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from java_program import class_path

NEEDED: Final = ("podman", "runc", "go", "javac")
PYTHON_IMAGE: Final = "sparkdrain-python:1"
JAVA_IMAGE: Final = "sparkdrain-java:1"
GO_IMAGE: Final = "sparkdrain-go:1"
_GO: Final = Path(__file__).with_name("go")
_BOOT: Final = "github.com/apache/beam/sdks/v2/{}/container"
_HOME: Final = "opt/apache/beam"
_PROGRAMS: Final = ("bash", "env", "uname", "sed", "dirname", "readlink")
# What Spark itself needs is not for harnesses.
_NOT_COPIED: Final = shutil.ignore_patterns("pyspark", "test", "tests", "__pycache__", "*.jsa")
_DOCKER: Final = """#!/bin/bash
# What podman needs where no engine is set up.
echo "$@" >> {storage}.told
if [ "$1" = run ]; then
  shift
  set -- run --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 \\
    --mount type=tmpfs,destination=/sys "$@"
fi
exec podman --runtime runc --root {storage} --runroot {storage}/run "$@"
"""


class Engine:
    """A ``docker`` that is podman, with its own storage.

    Args:
        home: a folder for the program, and for images.
    """

    def __init__(self, home: Path) -> None:
        self.path = path = home / "bin"
        """A folder that has it alone."""
        self.flag = f"--spark_conf=spark.executorEnv.PATH={path}:{os.environ['PATH']}"
        """Has executors find it."""
        self._home = home
        path.mkdir()
        self._program = docker = path / "docker"
        docker.write_text(_DOCKER.format(storage=home / "storage"))
        docker.chmod(0o755)

    def times_run(self, image: str) -> int:
        """How many containers of an image were run."""
        told = Path(f"{self._home / 'storage'}.told").read_text().splitlines()
        return sum(line.startswith("run ") and f" {image} " in line for line in told)

    def running(self) -> list[str]:
        """The names of containers that run."""
        return self._docker("ps", "--format={{.Names}}").split()

    def make_python(self) -> None:
        """Make ``PYTHON_IMAGE``: this Python with all of its packages."""
        root = self._root("python")
        for prefix in {sys.base_prefix, sys.prefix}:
            # Links in it lead to what is copied too.
            shutil.copytree(
                prefix, root / prefix[1:], symlinks=True, ignore=_NOT_COPIED, dirs_exist_ok=True
            )
        self._add_libraries(root)
        path = f"{sys.prefix}/bin:/usr/bin:/bin"
        variables = [f"PATH={path}", "RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT=1", "IN_IMAGE=python"]
        self._import(root, PYTHON_IMAGE, variables)

    def make_java(self) -> None:
        """Make ``JAVA_IMAGE``: this Java with the harness of Beam's Java SDK."""
        root = self._root("java")
        java = Path(os.path.realpath(shutil.which("java") or "")).parents[1]
        # Settings of Debian's Java are elsewhere: links are followed.
        shutil.copytree(
            java, root / str(java)[1:], ignore=_NOT_COPIED, ignore_dangling_symlinks=True
        )
        (root / _HOME / "options").mkdir()
        jars = root / _HOME / "jars"
        jars.mkdir()
        for jar in class_path():
            # The names under which Beam's program looks for them.
            plain = re.sub(r"-\d[\w.]*(-jre)?\.jar$", ".jar", jar.name)
            shutil.copy(jar, jars / plain)
        self._add_libraries(root)
        self._import(root, JAVA_IMAGE, [f"PATH={java}/bin:/usr/bin:/bin", "IN_IMAGE=java"])

    def make_go(self) -> None:
        """Make ``GO_IMAGE``, which has nothing but the program that starts a worker binary."""
        self._import(self._root("go"), GO_IMAGE, ["PATH=/usr/bin:/bin", "IN_IMAGE=go"])

    def close(self) -> None:
        """Remove all containers and images."""
        subprocess.run([self._program, "system", "reset", "--force"], check=False)

    def _docker(self, *arguments: str) -> str:
        command = [str(self._program), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _root(self, sdk: str) -> Path:
        """A root file system with Beam's program, and little else."""
        root = self._home / f"root-{sdk}"
        for folder in (
            _HOME,
            "tmp",
            "sys",
            "proc",
            "dev",
            "etc",
            "usr/bin",
            "usr/lib",
            "usr/lib64",
        ):
            (root / folder).mkdir(parents=True)
        for folder in ("bin", "lib", "lib64"):
            (root / folder).symlink_to(f"usr/{folder}")
        (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
        for program in _PROGRAMS:
            shutil.copy(shutil.which(program) or "", root / "usr" / "bin")
        subprocess.run(
            ["go", "build", "-o", root / _HOME / "boot", _BOOT.format(sdk)],
            cwd=_GO,
            env={**os.environ, "CGO_ENABLED": "0"},
            check=True,
        )
        return root

    def _add_libraries(self, root: Path) -> None:
        """Copy the shared libraries that programs and libraries in a file system need."""
        files = [str(file) for file in root.rglob("*") if _is_elf(file)]
        told = subprocess.run(["ldd", *files], check=False, capture_output=True, text=True).stdout
        for library in set(re.findall(r"\s(/(?:usr/)?lib(?:64)?/\S*) \(0x", told)):
            target = root / os.path.realpath(os.path.dirname(library))[1:]
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)

    def _import(self, root: Path, image: str, variables: list[str]) -> None:
        archive = self._home / "image.tar"
        subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
        changes = [f"--change=ENV {each}" for each in variables]
        start = f'--change=ENTRYPOINT ["/{_HOME}/boot"]'
        self._docker("import", *changes, start, str(archive), image)
        archive.unlink()
        shutil.rmtree(root)


def _is_elf(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as head:
        return head.read(4) == b"\x7fELF"
