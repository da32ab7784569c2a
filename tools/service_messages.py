"""Write the classes of the service messages from ``service.proto``: ``python -m tools.service_messages``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCE = Path(__file__).parent.parent / "src"
PROTO = SOURCE / "hopline" / "cluster" / "messages" / "service.proto"


def generate() -> dict[Path, str]:
    """Return the text of each file that the protobuf compiler makes."""
    with TemporaryDirectory() as folder:
        arguments = [f"--proto_path={SOURCE}", f"--python_out={folder}", f"--pyi_out={folder}", str(PROTO)]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments], check=True)  # noqa: S603
        made = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {SOURCE / path.relative_to(folder): path.read_text(encoding="utf-8") for path in made}


if __name__ == "__main__":
    for path, text in generate().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(Path.cwd())}")
