//! What Zarr (format 2) is told of an array.

use catchment_frame::{Codec, Dtype};
use catchment_model::TimeScale;
use serde_json::{Value, json};

/// The element type in numpy's words, and what stands where there is no sample. None where numpy
/// has no such type.
pub(super) fn element(dtype: Dtype) -> Option<(&'static str, Value)> {
    let fill = match dtype {
        Dtype::U8 => json!(u8::MAX),
        Dtype::U16 => json!(u16::MAX),
        Dtype::U32 => json!(u32::MAX),
        Dtype::U64 => json!(u64::MAX),
        Dtype::I8 => json!(i8::MIN),
        Dtype::I16 => json!(i16::MIN),
        Dtype::I32 => json!(i32::MIN),
        Dtype::I64 => json!(i64::MIN),
        Dtype::C64 | Dtype::C128 => json!(["NaN", "NaN"]),
        _ => json!("NaN"),
    };
    Some((dtype.numpy()?, fill))
}

/// The bytes of a chunk without samples: the fill value, all over.
pub(super) fn fill(dtype: Dtype, bytes: usize) -> Vec<u8> {
    let one: &[u8] = match dtype {
        Dtype::I8 => &i8::MIN.to_le_bytes(),
        Dtype::I16 => &i16::MIN.to_le_bytes(),
        Dtype::I32 => &i32::MIN.to_le_bytes(),
        Dtype::I64 => &i64::MIN.to_le_bytes(),
        Dtype::F32 | Dtype::C64 => &f32::NAN.to_le_bytes(),
        Dtype::F64 | Dtype::C128 => &f64::NAN.to_le_bytes(),
        _ => &[0xff],
    };
    one.iter().copied().cycle().take(bytes).collect()
}

/// The codec of numcodecs that reads what a codec stored; none for raw bytes. Only its `id` matters
/// for reading; the other keys are what numcodecs wants to see.
pub(super) fn compressor(codec: Codec) -> Option<Value> {
    Some(match codec {
        Codec::Lz4 => json!({"id": "lz4", "acceleration": 1}),
        Codec::Zstd => json!({"id": "zstd", "level": 1}),
        Codec::Blosc => {
            json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 2, "blocksize": 0})
        }
        Codec::Pcodec => json!({"id": "pcodec", "level": 8}),
        Codec::For => json!({"id": "catchment-for"}),
        Codec::None | Codec::Base | Codec::Unknown(_) => return None,
    })
}

/// Whether plain xarray reads it: what every installation of numcodecs has.
pub(super) fn is_plain(codec: Codec) -> bool {
    matches!(codec, Codec::None | Codec::Lz4 | Codec::Zstd | Codec::Blosc)
}

/// An array's metadata: its `.zarray`.
pub(super) struct Array {
    pub(super) dtype: &'static str,
    pub(super) fill_value: Value,
    pub(super) shape: Vec<u64>,
    pub(super) chunks: Vec<u64>,
    /// In the order of encoding.
    pub(super) codecs: Vec<Value>,
}

impl Array {
    pub(super) fn json(&self) -> Value {
        json!({
            "zarr_format": 2,
            "shape": self.shape,
            "chunks": self.chunks,
            "dtype": self.dtype,
            // All codecs as filters, as kerchunk does: the same to Zarr, and what VirtualiZarr
            // takes.
            "compressor": null,
            "filters": if self.codecs.is_empty() { Value::Null } else { json!(self.codecs) },
            "fill_value": self.fill_value,
            "order": "C",
        })
    }
}

/// How xarray decodes times. It knows no leap seconds: a separate attribute names the time scale.
pub(super) fn time_attributes(dimension: &str, scale: TimeScale) -> Value {
    let since = match scale {
        TimeScale::Gps => "nanoseconds since 1980-01-06",
        TimeScale::Tai | TimeScale::Utc => "nanoseconds since 1970-01-01",
    };
    json!({
        "_ARRAY_DIMENSIONS": [dimension],
        "units": since,
        "calendar": "proleptic_gregorian",
        "standard_name": "time",
        "time_scale": scale.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_values_of_missing_samples_agree() {
        assert_eq!(fill(Dtype::I16, 4), [0x00, 0x80, 0x00, 0x80]);
        assert_eq!(fill(Dtype::U16, 2), u16::MAX.to_le_bytes());
        assert_eq!(element(Dtype::I16).expect("numpy has it").1, json!(-32_768));
        assert!(f32::from_le_bytes(fill(Dtype::C64, 8)[4..].try_into().expect("four")).is_nan());
        assert!(element(Dtype::Bits).is_none());
    }
}
