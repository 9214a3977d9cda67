"""`python -m bundlectl`."""

import sys

try:
    from bundlectl.cli import main
except Exception as error:  # whatever a damaged file of the runtime gives
    sys.exit(
        f"error: {sys.prefix}: damaged, the program can't be loaded ({error})\n"
        "  mend: sh install.sh repair, from the bundle's medium"
    )
sys.exit(main())
