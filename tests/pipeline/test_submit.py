from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_what_spark_submit_is_given_is_the_commands_hopline_pipeline_and_export() -> None:
    asked = [sys.executable, "-m", "hopline", "pipeline", "submit-path"]
    path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    assert [file.name for file in Path(path).parent.glob("*.py")] == ["hopline_pipeline.py"]
    told = subprocess.run([sys.executable, path, "run", "--help"], capture_output=True, text=True, check=True)
    assert "pipeline run" in told.stdout
    told = subprocess.run([sys.executable, path, "export", "--help"], capture_output=True, text=True, check=True)
    assert "--zipkin" in told.stdout
