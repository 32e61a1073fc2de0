"""Read what Catchment recorded."""

from catchment._native import __version__

__all__ = ["__version__"]
