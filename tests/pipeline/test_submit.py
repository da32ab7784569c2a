from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_what_spark_submit_is_given_is_the_command_hopline_pipeline() -> None:
    asked = [sys.executable, "-m", "hopline", "pipeline", "submit-path"]
    path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    assert [file.name for file in Path(path).parent.glob("*.py")] == ["hopline_pipeline.py"]
    told = subprocess.run([sys.executable, path, "run", "--help"], capture_output=True, text=True, check=True)
    assert "pipeline run" in told.stdout
