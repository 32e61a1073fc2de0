"""A run that the installed command recorded."""

import numpy as np

import catchment
from fixtures import Recorded


def test_a_recorded_run_reads_back_whole(recorded: Recorded) -> None:
    with catchment.open(recorded.path) as run:
        assert run.status == "ended"
        assert run.problems == []
        assert len(run.sources) == 90
        keys = run.events.keys
        assert len(keys) == len(run.events) >= 400
        assert (np.diff(keys.astype(np.int64)) > 0).all()
        assert (run.events.flags == 0).all()
        assert run.events.incomplete == 0
        ledger = run.ledger
        assert ledger.balanced
        assert not ledger.lost_data
        assert ledger.bad_data == 0
        assert not ledger.recomputed
        assert ledger.total["fragments_recorded"] == 90 * len(keys)


def test_rates_and_sizes_are_those_of_the_preset(recorded: Recorded) -> None:
    with catchment.open(recorded.path) as run:
        groups: dict[str, list[float]] = {}
        for source in run.sources.values():
            sizes = np.diff(source.fragments().offsets.astype(np.int64))
            assert (sizes > 0).all()
            # One fragment in a thousand is huge: the median does not see it.
            groups.setdefault(source.group, []).append(float(np.median(sizes)))
        means = sorted((round(float(np.mean(sizes))), len(sizes)) for sizes in groups.values())
        assert [count for _, count in means] == [60, 20, 10]
        for (mean, _), expected in zip(means, (116, 338, 1170), strict=True):
            assert abs(mean - expected) < 0.15 * expected


def test_frames_and_single_events_say_the_same(recorded: Recorded) -> None:
    with catchment.open(recorded.path) as run:
        source = run[45]
        rows = 0
        for frame in run.frames():
            fragments = frame[45]
            rows += len(fragments)
            for row in range(0, len(frame), 97):
                event = source.event(int(frame.keys[row]))
                same = fragments[row]
                assert event is not None
                assert same is not None
                assert np.array_equal(event, same)
        assert rows == len(run.events)


def test_a_recorded_run_has_trends_of_its_counters(recorded: Recorded) -> None:
    with catchment.open(recorded.path) as run:
        trend = run.trend("catchment:packets_received")
        assert trend is not None
        assert trend.time_scale == "utc"
        assert (np.diff(trend.times) == 10**9).all()
        assert (np.diff(trend.max) >= 0).all()
        assert trend.max[-1] == run.ledger.total["packets_received"]
        minutes = run.trend("catchment:packets_received", "minute")
        assert minutes is not None
        assert minutes.n.sum() == trend.n.sum()
        name = run.sources[45].name
        of_source = run.trend(f"catchment:{name}:fragments_recorded")
        assert of_source is not None
        assert of_source.max[-1] == len(run.events)


def test_a_recorded_run_verifies_and_balances(recorded: Recorded) -> None:
    assert catchment.verify(recorded.path).intact
    report = catchment.audit(recorded.path)
    assert (report.verdict, report.closing) == ("balanced", "ended")
    assert (report.differences, report.unexplained, report.problems) == ((), (), ())


def test_the_configuration_is_in_the_run(recorded: Recorded) -> None:
    with catchment.open(recorded.path) as run:
        assert run.config_text
        assert isinstance(run.config, dict)
