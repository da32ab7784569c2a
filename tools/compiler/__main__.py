"""Write the compiled codecs."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

# The codecs that are there may be stale or broken, and are not needed for making new ones.
stand_in = ModuleType("hopline.wire.compiled")
vars(stand_in).update({table: defaultdict(lambda: None) for table in ("ENCODERS", "DECODERS", "VIEWS", "META_VIEWS")})
sys.modules[stand_in.__name__] = stand_in

from tools.compiler.modules import TARGET, generate  # noqa: E402

TARGET.mkdir(exist_ok=True)
for path, text in generate().items():
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path.relative_to(Path.cwd())}")
