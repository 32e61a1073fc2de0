"""`python -m catchment` is the command `catchment`."""

import sys

from catchment._command import main

sys.exit(main())
