//! The codecs, for numcodecs, Zarr and tests.

use catchment_codec::{Codec, Coding, ColumnEncoder, Element, decode_column, raw_bytes_of};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Encodes bytes with `coding`, whatever it saves, and names the codec that decodes them.
#[pyfunction]
pub(crate) fn encode<'py>(
    py: Python<'py>,
    coding: &str,
    element: &str,
    raw: PyReadonlyArray1<'py, u8>,
) -> PyResult<(String, Bound<'py, PyArray1<u8>>)> {
    let coding: Coding = coding.parse().map_err(wrong)?;
    let element: Element = element.parse().map_err(wrong)?;
    let raw = raw.as_slice()?;
    let (codec, stored) = py.detach(|| {
        let mut encoder = ColumnEncoder::new();
        match encoder.encode_always(coding, element, raw) {
            Some(stored) => (coding.for_element(element).codec(), stored.to_vec()),
            None => (Codec::None, raw.to_vec()),
        }
    });
    Ok((codec.to_string(), stored.into_pyarray(py)))
}

/// Encodes integers, or what has as many bytes, with `for`.
#[pyfunction]
pub(crate) fn for_encode<'py>(
    py: Python<'py>,
    raw: PyReadonlyArray1<'py, u8>,
    element_bytes: usize,
    signed: bool,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let element = match (element_bytes, signed) {
        (1, false) => Element::U8,
        (1, true) => Element::I8,
        (2, false) => Element::U16,
        (2, true) => Element::I16,
        (4, false) => Element::U32,
        (4, true) => Element::I32,
        (8, false) => Element::U64,
        (8, true) => Element::I64,
        _ => return Err(wrong(format!("elements of 1, 2, 4 or 8 bytes, not {element_bytes}"))),
    };
    let raw = raw.as_slice()?;
    let stored = py.detach(|| {
        ColumnEncoder::new().encode_always(Coding::For, element, raw).map(<[u8]>::to_vec)
    });
    let stored = stored.ok_or_else(|| wrong("more bytes than a column may have"))?;
    Ok(stored.into_pyarray(py))
}

/// Decodes what `for_encode` made, or a column of the codec `for`.
#[pyfunction]
pub(crate) fn for_decode<'py>(
    py: Python<'py>,
    stored: PyReadonlyArray1<'py, u8>,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let stored = stored.as_slice()?;
    let raw = py.detach(|| {
        let mut raw = Vec::new();
        let raw_bytes = raw_bytes_of(Codec::For, stored)?;
        decode_column(Codec::For, stored, raw_bytes, &mut raw)?;
        Ok::<_, catchment_codec::CodecError>(raw)
    });
    Ok(raw.map_err(wrong)?.into_pyarray(py))
}
