"""`python -m headway` is `headway`."""

import sys

from headway.cli import main

sys.exit(main())
