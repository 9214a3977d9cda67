"""`python -m bundlectl`."""

import sys

from bundlectl.cli import main

sys.exit(main())
