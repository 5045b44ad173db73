"""`python -m unspool.cli` is the `unspool` command."""

import sys

from unspool.cli import main

sys.exit(main())
