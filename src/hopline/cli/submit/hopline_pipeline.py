"""``spark-submit hopline_pipeline.py …`` is ``hopline pipeline …``, and with ``export …`` it is ``hopline export …``.

It has a directory of its own because Spark puts the directory of what it submits before the standard library.
"""

import sys

from hopline.cli import main

if __name__ == "__main__":
    if sys.argv[1:2] != ["export"]:
        sys.argv[1:1] = ["pipeline"]
    main()
