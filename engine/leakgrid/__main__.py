"""``python -m leakgrid`` is the command line."""

import sys

from leakgrid.cli import main

sys.exit(main())
