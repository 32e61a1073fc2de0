"""Read what Catchment recorded.

    import catchment

    with catchment.open("run-20260101-120000-2f8a41c3") as run:
        print(run.sources, run.ledger)
        adc = run["rich-017"].event(4711)          # one fragment, numpy uint8, no copy
        for frame in run.frames():                 # some megabytes at a time
            fragments = frame["rich-017"]
            fragments.data, fragments.offsets, frame.keys
        strain = run["L1:STRAIN"]                  # a channel
        strain.numpy(start, stop), strain.xarray(), strain.pandas(), strain.dask
        run.trend("L1:STRAIN", "minute").mean

    catchment.catalog("runs").pandas()             # what was recorded, when, by whom

Arrays of events are read-only views of the memory that a column was read into, and keep it alive.
A single fragment, or few, are copied where that memory has more than 16 times their bytes.
Only what is asked for is read, and what is read is checked: a column as a whole, a range of samples
of one that is not compressed by the checksums of its blocks. `catchment.verify`, or `catchment
inspect --verify`, checks everything.
"""

from collections.abc import Mapping

from catchment._catalog import (
    Catalog,
    CatalogCopy,
    CatalogFile,
    CatalogFileFrames,
    CatalogFrames,
    CatalogLocation,
    CatalogRun,
    catalog,
)
from catchment._channels import Channel, Piece, Segment
from catchment._control import Control, ControlConnectionError, ControlError
from catchment._errors import (
    CatalogError,
    CatchmentError,
    DamageWarning,
    FileError,
    GapError,
    RunClosedError,
    UnknownChannelError,
    UnknownEventError,
    UnknownSourceError,
)
from catchment._exports import Trend
from catchment._flags import EventFlag
from catchment._native import (
    Event,
    Events,
    Fragments,
    Frame,
    Frames,
    Header,
    Ledger,
    Run,
    Source,
    SourceLedger,
    Sources,
    __version__,
    open,  # noqa: A004 (as gzip.open and numpy's: always written catchment.open)
)
from catchment._reports import (
    AuditReport,
    DamagedCopy,
    Difference,
    FolderAudit,
    MissingFrames,
    Problem,
    Unexplained,
    VerifyReport,
    audit,
    verify,
)
from catchment._times import LEAP_SECONDS_KNOWN_UNTIL, convert_time
from catchment._trains import Trains

__all__ = [
    "LEAP_SECONDS_KNOWN_UNTIL",
    "AuditReport",
    "Catalog",
    "CatalogCopy",
    "CatalogError",
    "CatalogFile",
    "CatalogFileFrames",
    "CatalogFrames",
    "CatalogLocation",
    "CatalogRun",
    "CatchmentError",
    "Channel",
    "Control",
    "ControlConnectionError",
    "ControlError",
    "DamageWarning",
    "DamagedCopy",
    "Difference",
    "Event",
    "EventFlag",
    "Events",
    "FileError",
    "FolderAudit",
    "Fragments",
    "Frame",
    "Frames",
    "GapError",
    "Header",
    "Ledger",
    "MissingFrames",
    "Piece",
    "Problem",
    "Run",
    "RunClosedError",
    "Segment",
    "Source",
    "SourceLedger",
    "Sources",
    "Trains",
    "Trend",
    "Unexplained",
    "UnknownChannelError",
    "UnknownEventError",
    "UnknownSourceError",
    "VerifyReport",
    "__version__",
    "audit",
    "catalog",
    "convert_time",
    "open",
    "verify",
]

for _name in __all__:
    # What people see and pickle has its public name.
    if getattr(globals()[_name], "__module__", "").startswith("catchment._") and not isinstance(
        globals()[_name], type(open)
    ):
        globals()[_name].__module__ = "catchment"
for _mapping in (Run, Sources, Ledger, SourceLedger):
    Mapping.register(_mapping)
del _name, _mapping
