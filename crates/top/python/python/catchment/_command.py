"""The command `catchment`, which the package installs."""

import signal
import sys

from catchment._native import run_command


def main() -> int:
    """Run the command line with this process's arguments and return its exit code."""
    # Ctrl-C is the program's: Python's own handler would raise when a run has ended in order.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(sys.argv)
