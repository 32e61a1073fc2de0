"""What can go wrong, as exceptions. What the system refuses is an `OSError`, as everywhere."""


class CatchmentError(Exception):
    """The base of this package's own exceptions."""


class FileError(CatchmentError):
    """A file that is damaged, cut short or no frame file, or files that do not belong together.

    The message names the file and, where it is known, frame, column and source. Whatever else is in
    the files can still be read.
    """


class CatalogError(CatchmentError):
    """A catalogue of runs that is damaged or newer than this package, or a run that it lacks."""


class RunClosedError(CatchmentError, ValueError):
    """The run was closed by `close` or at the end of its `with` block."""


class _UnknownError(CatchmentError, KeyError):
    # A KeyError shows its message in quotes; this one is a sentence.
    __str__ = Exception.__str__


class UnknownEventError(_UnknownError):
    """The run has no event with that key."""


class UnknownSourceError(_UnknownError):
    """The run has no source of that name or number."""


class UnknownChannelError(_UnknownError):
    """The run has no channel of that name."""


class GapError(CatchmentError, ValueError):
    """In a range that was to be one array samples are missing, or time goes back.

    `Channel.segments` gives what was recorded.
    """


class FrontendError(CatchmentError):
    """A front-end that is not admitted, or that has ended."""


class NotConfirmedError(FrontendError):
    """A front-end was closed before everything was durable.

    `count` is how many fragments, marks and abandoned fragments are not confirmed.
    """

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} items are not confirmed by the recorder")
        self.count = count


class DamageWarning(UserWarning):
    """Something that is missing or cannot be read is left out of a result."""
