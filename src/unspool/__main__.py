"""`python -m unspool` is the `unspool` command."""

import sys

from unspool.cli import main

sys.exit(main())
