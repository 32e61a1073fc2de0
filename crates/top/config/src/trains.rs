//! The layout of trains: `[trains]`.

use catchment_model::units::Size;
use catchment_wire::trains::{MarkField, MarkPlace, TrainSettings, Trains};

use crate::locate::{ConfigFileError, Located};
use crate::low::ByteOrderLow;

/// The table.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TrainsLow {
    train_bytes: Option<Size>,
    payload_bytes: Option<u32>,
    mark: Option<MarkLow>,
    fields: Option<Vec<FieldLow>>,
    frame_bytes: Option<u32>,
    flags_bytes: Option<u32>,
    packet_bytes: Option<u32>,
    byte_order: Option<ByteOrderLow>,
    adler32_at: Option<u64>,
    holes: HolesLow,
    holes_bytes_max: Option<Size>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum MarkLow {
    Trailer,
    Header,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum FieldLow {
    Frame,
    Flags,
    Packet,
}

/// What becomes of trains of which packets are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum HolesLow {
    #[default]
    Keep,
    Drop,
}

/// The protocol of trains with the settings of a file.
pub(crate) fn trains(located: &Located<'_>, low: &TrainsLow) -> Result<Trains, ConfigFileError> {
    let mut settings = TrainSettings::default();
    crate::set(&mut settings.train_bytes, low.train_bytes.map(|size| size.0));
    crate::set(&mut settings.payload_bytes, low.payload_bytes);
    crate::set(&mut settings.frame_bytes, low.frame_bytes);
    crate::set(&mut settings.flags_bytes, low.flags_bytes);
    crate::set(&mut settings.packet_bytes, low.packet_bytes);
    crate::set(&mut settings.byte_order, low.byte_order.map(Into::into));
    settings.adler32_at = low.adler32_at;
    let mark = low.mark.map(|mark| match mark {
        MarkLow::Trailer => MarkPlace::Trailer,
        MarkLow::Header => MarkPlace::Header,
    });
    crate::set(&mut settings.mark, mark);
    if let Some(fields) = &low.fields {
        let field = |field: &FieldLow| match field {
            FieldLow::Frame => MarkField::Frame,
            FieldLow::Flags => MarkField::Flags,
            FieldLow::Packet => MarkField::Packet,
        };
        let fields: Vec<MarkField> = fields.iter().map(field).collect();
        let count = fields.len();
        settings.fields = fields.try_into().map_err(|_| {
            let message = format!("expected frame, flags and packet, each once, got {count} names");
            located.error("trains.fields", message)
        })?;
    }
    let most = settings.train_bytes;
    settings.holes_bytes_max = match (low.holes, low.holes_bytes_max.map(|size| size.0)) {
        (HolesLow::Drop, None) => Some(0),
        (HolesLow::Drop, Some(_)) => {
            let message = "expected it with holes = \"keep\", got holes = \"drop\"";
            return Err(located.error("trains.holes_bytes_max", message));
        }
        (HolesLow::Keep, Some(bytes)) if bytes == 0 || bytes >= most => {
            let message = format!("expected 1 B to less than a train's {most}, got {bytes}");
            return Err(located.error("trains.holes_bytes_max", message));
        }
        (HolesLow::Keep, bytes) => bytes,
    };
    Trains::new(settings).map_err(|error| {
        // The quotient of two keys is bounded by a third.
        let key = error.key.split(' ').next().unwrap_or(error.key);
        located.expected(&format!("trains.{key}"), &error.expected, &error.got.to_string())
    })
}
