"""The command `catchment`, which the package installs."""

import sys

from catchment._native import run_command


def main() -> int:
    """Run the command line with this process's arguments and return its exit code."""
    return run_command(sys.argv)
