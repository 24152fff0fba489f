"""`python -m tapebook` is the command line."""

import sys

from tapebook.surfaces.cli import main

sys.exit(main())
