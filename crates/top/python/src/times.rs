//! Times: from one scale to another, and from what people write.

use catchment_model::{LEAP_SECONDS_KNOWN_UNTIL_UTC_NS, Moment, TimeScale, UTC_BEGINS_NS};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::views::signed_time;

/// The nanoseconds of a time scale that a text means.
#[pyfunction]
pub(crate) fn parse_time(text: &str, scale: &str) -> PyResult<u64> {
    let scale = scale_of(scale)?;
    match text.parse() {
        Ok(Moment::Ns(_)) => {
            let message = format!("{text:?}: nanoseconds are given as int, a year as a date");
            Err(PyValueError::new_err(message))
        }
        Ok(moment) => Ok(moment.in_scale(scale)),
        Err(error) => Err(PyValueError::new_err(error.to_string())),
    }
}

/// The nanoseconds of a time scale at a date of its own, given in nanoseconds since 1970, or at an
/// instant in UTC.
#[pyfunction]
pub(crate) fn date_in_scale(since_1970_ns: u64, is_instant: bool, scale: &str) -> PyResult<u64> {
    let ns = i128::from(since_1970_ns);
    let moment = if is_instant { Moment::Instant(ns) } else { Moment::Date(ns) };
    Ok(moment.in_scale(scale_of(scale)?))
}

/// Times of one scale in another: nanoseconds since the scales' epochs.
#[pyfunction]
pub(crate) fn convert_times<'py>(
    py: Python<'py>,
    times: PyReadonlyArray1<'py, i64>,
    from: &str,
    to: &str,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let (from, to) = (scale_of(from)?, scale_of(to)?);
    let times = times.as_slice()?;
    let converted: Result<Vec<i64>, (i64, &str)> = py.detach(|| {
        times.iter().map(|&time| convert(time, from, to).map_err(|why| (time, why))).collect()
    });
    let refused = |(time, why): (i64, &str)| {
        PyValueError::new_err(format!("{time} ns of {from} cannot be converted to {to}: {why}"))
    };
    Ok(PyArray1::from_vec(py, converted.map_err(refused)?))
}

fn convert(time: i64, from: TimeScale, to: TimeScale) -> Result<i64, &'static str> {
    let Ok(time_ns) = u64::try_from(time) else { return Err("it is before the scale begins") };
    if from == to {
        return Ok(time);
    }
    let utc = from == TimeScale::Utc || to == TimeScale::Utc;
    if utc && from.to_utc_ns(time_ns) < UTC_BEGINS_NS {
        return Err("before 1972 UTC differed from TAI by parts of a second");
    }
    if to == TimeScale::Gps && from.to_tai_ns(time_ns) < TimeScale::Gps.to_tai_ns(0) {
        return Err("GPS time begins at 1980-01-06");
    }
    match signed_time(from.convert_ns(to, time_ns)) {
        i64::MAX => Err("it is beyond what int64 holds"),
        converted => Ok(converted),
    }
}

/// Until when leap seconds are known: nanoseconds since 1970, UTC.
pub(crate) const LEAP_SECONDS_KNOWN_UNTIL_NS: u64 = LEAP_SECONDS_KNOWN_UNTIL_UTC_NS;

fn scale_of(text: &str) -> PyResult<TimeScale> {
    text.parse()
        .map_err(|error: catchment_model::TimeScaleError| PyValueError::new_err(error.to_string()))
}
