"""Times as people write them: dates of a scale, instants in UTC, open ends, and conversions."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import catchment
from fixtures import Golden
from written import NS, Written, counting, write_run

RATE = 10
UTC_S = 1_800_000_000  # 2027-01-15T08:00:00 UTC
SCALES = {"utc": UTC_S, "tai": UTC_S + 37, "gps": UTC_S + 37 - 19 - 315_964_800}


@pytest.fixture(params=SCALES)
def channel(request: pytest.FixtureRequest, tmp_path: Path) -> catchment.Channel:
    """A hundred seconds from that moment on, in each time scale."""
    first = SCALES[request.param] * RATE
    written = Written("X", (RATE, 1), [(first, counting(0, 100 * RATE))], request.param)
    return catchment.open(write_run(tmp_path / "run.catch", written)).channel("X")


INSTANTS: list[Any] = [
    "2027-01-15T08:00:10Z",
    "2027-01-15 09:00:10.000+01:00",
    datetime(2027, 1, 15, 8, 0, 10, tzinfo=UTC),
    datetime(2027, 1, 15, 3, 0, 10, tzinfo=timezone(timedelta(hours=-5))),
    pd.Timestamp("2027-01-15T08:00:10", tz="UTC"),
]


@pytest.mark.parametrize("instant", INSTANTS, ids=str)
def test_a_time_with_a_zone_is_an_instant(channel: catchment.Channel, instant: Any) -> None:  # noqa: ANN401
    assert channel.numpy(instant)[0] == 10 * RATE
    assert len(channel.numpy(None, instant)) == 10 * RATE


def test_a_time_without_a_zone_is_one_of_the_channels_scale(channel: catchment.Channel) -> None:
    start = channel.xarray()["time"].to_numpy()[0]
    later = start + np.timedelta64(10, "s")
    whole = later.astype("datetime64[s]")
    forms: list[Any] = [later, whole, str(later), str(whole), whole.item(), pd.Timestamp(later)]
    forms += [channel.start_ns and channel.start_ns + 10 * NS, np.int64(channel.times()[10 * RATE])]
    for form in forms:
        assert channel.numpy(form)[0] == 10 * RATE, form
    exact = pd.Timestamp(int(later.view(np.int64)) + 1, unit="ns")
    assert channel.numpy(exact)[0] == 10 * RATE + 1
    day = start.astype("datetime64[D]")
    assert len(channel.numpy(day, day + 1, gaps="join")) == 100 * RATE


OPEN: list[Any] = [
    "9999-12-31",
    "9999-12-31T23:59:59Z",
    np.datetime64("2500-01-01"),
    np.datetime64(10**9, "Y"),
    datetime.max,  # noqa: DTZ901 (with and without a zone)
    datetime(9999, 12, 31, tzinfo=UTC),
    date.max,
    2**63,
    2**70,
]


@pytest.mark.parametrize("end", OPEN, ids=str)
def test_ends_beyond_what_nanoseconds_hold_are_open(channel: catchment.Channel, end: Any) -> None:  # noqa: ANN401
    assert len(channel.numpy(None, end)) == 100 * RATE
    assert len(channel.numpy(channel.start_ns, end)) == 100 * RATE
    assert len(channel.numpy(channel.start_ns, end, gaps="join")) == 100 * RATE
    assert len(channel.numpy(end)) == 0
    assert len(channel.times(None, end)) == 100 * RATE


EARLY: list[Any] = [
    "0001-01-01",
    np.datetime64("1500-01-01"),
    np.datetime64(-(10**9), "Y"),
    date.min,
    -5,
    "1900-01-01T00:00Z",
    "1970-01-01T00:00:00Z",
    datetime.min.replace(tzinfo=UTC),
]


@pytest.mark.parametrize("start", EARLY, ids=str)
def test_starts_before_the_epoch_are_open(channel: catchment.Channel, start: Any) -> None:  # noqa: ANN401
    assert len(channel.numpy(start)) == 100 * RATE
    assert len(channel.numpy(None, start)) == 0


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (np.datetime64("NaT"), ValueError),
        (pd.NaT, ValueError),
        ("NaT", ValueError),
        ("yesterday", ValueError),
        ("2027", ValueError),
        ("2016-12-31T23:59:61Z", ValueError),
        (1.5, TypeError),
        (True, TypeError),
        (np.timedelta64(5, "s"), TypeError),
    ],
    ids=str,
)
def test_what_is_no_time_is_refused(
    channel: catchment.Channel,
    wrong: Any,  # noqa: ANN401
    error: type[Exception],
) -> None:
    for read in (channel.numpy, channel.times, channel.xarray):
        with pytest.raises(error):
            read(wrong)
        with pytest.raises(error):
            read(None, wrong)


@pytest.mark.parametrize("seconds", [1, UTC_S, np.int64(UTC_S), 10**12 - 1])
def test_seconds_are_refused_where_all_data_are_later(
    channel: catchment.Channel,
    seconds: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    message = "less than 17 minutes after the epoch, before all data: times are in nanoseconds"
    for read in (channel.numpy, channel.times, channel.xarray, channel.segments):
        with pytest.raises(ValueError, match=message):
            read(seconds, seconds + 100)
        with pytest.raises(ValueError, match=message):
            read(None, seconds)
        assert len(read(0, 2**63)) == len(read())
    assert len(channel.times(10**12)) == 100 * RATE
    # Data that begin at the epoch have such times.
    early = Written("X", (RATE, 1), [(0, counting(0, 100 * RATE))])
    with catchment.open(write_run(tmp_path / "early.catch", early)) as run:
        assert run["X"].numpy(1, 10**9).tolist() == list(range(1, RATE))


def test_no_times_are_converted_to_none() -> None:
    floats: Any = np.empty(0)
    found = catchment.convert_time([], "gps", "utc")
    assert found.dtype == np.int64
    assert found.shape == (0,)
    with pytest.raises(TypeError, match="expected nanoseconds as integers"):
        catchment.convert_time(floats, "gps", "utc")


def test_events_are_chosen_by_the_same_times(closed_golden: Golden) -> None:
    with catchment.open(closed_golden.path) as run:
        source, count = run["board-0"], len(run.events)
        start = run.events.times[:1].view("datetime64[ns]")[0]
        for end in (*OPEN, None):
            assert len(source.fragments(time=(start, end))) == count
            assert len(source.fragments(time=(end, None))) == (count if end is None else 0)
        zoned = f"{start}Z"
        assert len(source.fragments(time=(zoned, None))) == count
        assert len(source.fragments(time=(None, zoned))) == 0
        with pytest.raises(ValueError, match="NaT"):
            source.fragments(time=(np.datetime64("NaT"), None))
        for seconds in ((UTC_S, None), (None, UTC_S)):
            with pytest.raises(ValueError, match="times are in nanoseconds, seconds times"):
                source.fragments(time=seconds)
            with pytest.raises(ValueError, match="times are in nanoseconds, seconds times"):
                run.to_arrow(None, *seconds)


KNOWN = [  # UTC (POSIX), TAI, GPS in seconds
    (315_964_800, 315_964_819, 0),
    (1_126_259_462 + 315_964_783, 1_126_259_462 + 315_964_819, 1_126_259_462),
    (1_483_228_799, 1_483_228_835, 1_167_264_016),
    (1_483_228_800, 1_483_228_837, 1_167_264_018),
    (1_715_964_782, 1_715_964_819, 1_400_000_000),
]


@pytest.mark.parametrize("source", range(3))
@pytest.mark.parametrize("target", range(3))
def test_known_instants_are_the_same_in_all_scales(source: int, target: int) -> None:
    names: Any = ("utc", "tai", "gps")
    scales = (names[source], names[target])
    table = np.array(KNOWN)[:, [source, target]] * NS + 7
    for times in (table[:, 0], table[:, 0].astype(np.uint64), table[:, 0].copy(order="F")):
        found = catchment.convert_time(times, *scales)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, table[:, 1])
    one: int = catchment.convert_time(int(table[-1, 0]), *scales)
    assert type(one) is int
    assert one == table[-1, 1]
    grid = catchment.convert_time(table[:4, 0].reshape(2, 2), *scales)
    np.testing.assert_array_equal(grid, table[:4, 1].reshape(2, 2))
    dates = [_dates(table[:, index], names[scale]) for index, scale in enumerate((source, target))]
    np.testing.assert_array_equal(catchment.convert_time(dates[0], *scales), dates[1])
    single = catchment.convert_time(dates[0][0], *scales)
    assert isinstance(single, np.datetime64)
    assert single == dates[1][0]


def _dates(times: Any, scale: str) -> Any:  # noqa: ANN401
    epoch = np.datetime64("1980-01-06" if scale == "gps" else "1970-01-01", "ns")
    return epoch + times.astype("timedelta64[ns]")


def test_a_leap_second_has_the_utc_time_of_the_second_after_it() -> None:
    leap, after = 1_167_264_017 * NS, 1_167_264_018 * NS
    utc = catchment.convert_time(np.array([leap, after]), "gps", "utc")
    assert utc.tolist() == [1_483_228_800 * NS] * 2
    assert catchment.convert_time(int(utc[0]), "utc", "gps") == after
    assert np.datetime64("2026-01-01") < catchment.LEAP_SECONDS_KNOWN_UNTIL


@pytest.mark.parametrize(
    ("times", "scales", "message"),
    [
        (5, ("utc", "tai"), "before 1972"),
        (np.datetime64("1971-12-31T23:59:59"), ("tai", "utc"), "before 1972"),
        (63_072_009 * NS, ("tai", "utc"), "before 1972"),
        (np.datetime64("1980-01-05"), ("utc", "gps"), "GPS time begins"),
        (-1, ("tai", "gps"), "before the scale begins"),
        (2**63 - 1, ("gps", "tai"), "beyond what int64 holds"),
        (2**63, ("gps", "tai"), "more than int64 holds"),
        (np.datetime64("NaT"), ("tai", "utc"), "NaT"),
        (np.datetime64("2500-01-01"), ("tai", "utc"), "do not hold"),
        (0, ("tai", "local"), "expected a time scale"),
    ],
)
def test_what_cannot_be_converted_is_refused(
    times: Any,  # noqa: ANN401
    scales: Any,  # noqa: ANN401
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        catchment.convert_time(times, *scales)
    with pytest.raises(TypeError, match="expected nanoseconds"):
        catchment.convert_time(1.5, "tai", "utc")  # type: ignore[call-overload]


def test_an_events_time_finds_the_samples_around_it(channel: catchment.Channel) -> None:
    """The time of an event is UTC, whatever the channel's scale is."""
    event_ns = (UTC_S + 50) * NS
    around = np.array([event_ns - NS, event_ns + NS])
    start, stop = catchment.convert_time(around, "utc", channel.time_scale).tolist()
    assert channel.numpy(start, stop).tolist() == list(range(49 * RATE, 51 * RATE))
    array = channel.xarray(start, stop, time_scale="utc")
    assert array["time"].attrs["time_scale"] == array.attrs["time_scale"] == "utc"
    assert array["time"].to_numpy()[RATE] == np.datetime64(event_ns, "ns")
    own = channel.xarray(start, stop)
    assert own.attrs["time_scale"] == channel.time_scale
    assert math.isclose(float(own.sum()), float(array.sum()))
