"""Arguments that make no sense are refused by name, with what was expected."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment
from fixtures import Golden, generate
from written import NS, Written, counting, write_run

WRONG_RANGES: list[tuple[Any, type[Exception]]] = [
    ((-1, 2), ValueError),
    ((0, 2**70), ValueError),
    ((-(2**70), 5), ValueError),
    ((0, 1.5), TypeError),
    ((0, None), TypeError),
    ((1, 2, 3), TypeError),
    (5, TypeError),
]


def gappy(folder: Path, **about: Any) -> catchment.Channel:  # noqa: ANN401 (keys of the schema)
    """Ten seconds of floats at 10 Hz, of which the middle is missing."""
    pieces = [(0, counting(0, 50, "<f4")), (60, counting(60, 40, "<f4"))]
    path = write_run(folder / "run.catch", Written("X", (10, 1), pieces, **about))
    return catchment.open(path).channel("X")


@pytest.mark.parametrize(("wrong", "error"), WRONG_RANGES, ids=str)
def test_ranges_of_frames_and_samples_are_refused_by_name(
    tmp_path: Path,
    closed_golden: Golden,
    wrong: Any,  # noqa: ANN401
    error: type[Exception],
) -> None:
    channel = gappy(tmp_path)
    for name in ("samples", "frames"):
        with pytest.raises(error, match=f"^{name}=.*expected"):
            channel.segments(**{name: wrong})
    source = catchment.open(closed_golden.path)["board-0"]
    with pytest.raises(error, match=r"^frames=.*expected"):
        source.fragments(frames=wrong)


def test_ranges_are_taken_up_to_what_64_bits_hold(tmp_path: Path, closed_golden: Golden) -> None:
    channel = gappy(tmp_path)
    numbers: list[Any] = [2**64 - 1, np.int64(100)]
    for last in numbers:
        for found in (channel.segments(samples=(0, last)), channel.segments(frames=(0, last))):
            assert sum(len(segment) for segment in found) == 90
    with catchment.open(closed_golden.path) as run:
        source = run["board-0"]
        assert len(source.fragments(frames=(0, 2**64 - 1))) == len(source.fragments())


def test_a_fill_that_the_channel_cannot_hold_is_refused(tmp_path: Path) -> None:
    channel = gappy(tmp_path)
    refused: list[tuple[Any, type[Exception], str]] = [
        (1j, ValueError, "X: fill=1j is complex, the channel is float32"),
        (np.complex64(1), ValueError, "is complex"),
        ("x", TypeError, "X: fill='x' is no number"),
        ([1, 2], TypeError, "is no number"),
        (np.datetime64("2026-11-21"), TypeError, "is no number"),
    ]
    for fill, error, message in refused:
        with pytest.raises(error, match=message):
            channel.numpy(fill=fill)
    assert channel.numpy(fill=-1.5)[55] == -1.5


def test_times_to_convert_may_be_a_list() -> None:
    times = [1_800_000_000 * NS, 1_800_000_001 * NS]
    found = catchment.convert_time(times, "utc", "tai")
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.int64
    assert found.tolist() == [time + 37 * NS for time in times]
    assert catchment.convert_time(times[:1], "utc", "tai").shape == (1,)
    assert catchment.convert_time(times[0], "utc", "tai") == times[0] + 37 * NS


def test_a_table_says_why_it_cannot_hold_two_channels(tmp_path: Path) -> None:
    def pieces(*firsts: int) -> list[tuple[int, Any]]:
        return [(first, counting(first, 10)) for first in firsts]

    path = write_run(
        tmp_path / "run.catch",
        Written("A", (10, 1), pieces(0, 10)),
        Written("OTHER_GAP", (10, 1), pieces(0, 20)),
        Written("FASTER", (20, 1), pieces(0, 10)),
    )
    with catchment.open(path) as run:
        for other, why in [
            ("OTHER_GAP", "OTHER_GAP has other gaps in this range than A: .*one by one"),
            ("FASTER", "A and FASTER have 10 Hz and 20 Hz: .*choose channels of one rate"),
        ]:
            with pytest.raises(ValueError, match=why):
                run.to_arrow(["A", other])


def test_a_hole_in_a_file_is_a_problem_of_the_run(tmp_path: Path) -> None:
    pieces = [(first, counting(first, 10)) for first in (0, 10, 20)]
    path = write_run(tmp_path / "run.catch", Written("X", (10, 1), pieces))
    assert catchment.open(path).problems == []
    data = bytearray(path.read_bytes())
    second = data.index(b"CTMFRAME", data.index(b"CTMFRAME") + 1)
    data[second + 40] ^= 1
    path.write_bytes(data)
    with pytest.warns(catchment.DamageWarning, match=r"run\.catch.*and 1 more"):
        run = catchment.open(path)
    with run:
        assert len(run["X"]) == 20
        hole, frame = run.problems
        assert "run.catch" in hole
        assert frame == "1 frame is missing, by the numbers of the others"


def test_opening_a_run_without_one_of_its_files_warns(tmp_path: Path) -> None:
    path = tmp_path / "run"
    generate(path, "--file-bytes", "1 MiB")
    files = sorted(path.glob("*.catch"))
    assert len(files) >= 3
    files[1].unlink()
    with pytest.warns(catchment.DamageWarning, match="see Run.problems"):
        run = catchment.open(path)
    with run:
        assert run.problems == [
            "file 1 of the run is missing",
            "1 frame is missing, by the numbers of the others",
        ]


def test_paths_are_text_or_path_likes(closed_golden: Golden) -> None:
    class Named:
        def __fspath__(self) -> str:
            return str(closed_golden.path)

    for path in (closed_golden.path, str(closed_golden.path), Named()):
        assert catchment.open(path).status == "ended"
    wrong: list[Any] = [bytes(closed_golden.path), 5, None]
    for path in wrong:
        for call in (catchment.open, catchment.audit, catchment.verify):
            with pytest.raises(TypeError, match=r"expected a path, a str or os\.PathLike, got"):
                call(path)


@pytest.mark.parametrize("name", ["time", "X_1"])
def test_a_channel_with_the_name_of_a_dimension_is_named(tmp_path: Path, name: str) -> None:
    wide = Written("X", (10, 1), [(0, counting(0, 80).reshape(10, 8))], about={"shape": [8]})
    other = Written(name, (10, 1), [(0, counting(0, 10))])
    with catchment.open(write_run(tmp_path / "run.catch", wide, other)) as run:
        with pytest.raises(ValueError, match=f"the channel '{name}' has the name of a dimension"):
            run.to_xarray()
        assert list(run.to_xarray("X")) == ["X"]
        assert len(run[name].xarray()) == len(run[name].numpy()) == 10
        if name == "time":
            with pytest.raises(ValueError, match="the channel 'time' has the name of the column"):
                run.to_arrow()


def test_a_fill_is_compared_as_an_integer(tmp_path: Path) -> None:
    """2**63 as a float is not above the largest int64 as a float."""
    pieces = [(0, counting(0, 5, "<i8")), (6, counting(6, 4, "<i8"))]
    with catchment.open(write_run(tmp_path / "run.catch", Written("X", (1, 1), pieces))) as run:
        wrong: list[Any] = [2.0**63, -(2.0**64), np.inf]
        for fill in wrong:
            with pytest.raises(ValueError, match="is no int64"):
                run["X"].numpy(fill=fill)
        right: list[Any] = [-(2.0**63), 2**63 - 1, np.int64(-7), True]
        for fill in right:
            assert run["X"].numpy(fill=fill)[5] == fill


def test_a_budget_of_bytes_that_is_none_is_refused_by_name(closed_golden: Golden) -> None:
    for wrong in (-1, 2**70):
        with pytest.raises(ValueError, match=f"^cache_bytes={wrong}: expected a number of bytes"):
            catchment.open(closed_golden.path, cache_bytes=wrong)
    word: Any = "all"
    with pytest.raises(TypeError):
        catchment.open(closed_golden.path, cache_bytes=word)
    with catchment.open(closed_golden.path, cache_bytes=0) as run:
        assert len(run.events) > 0
