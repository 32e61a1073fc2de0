//! A storage node's description of a stream, sent to a sender that asks (section 5 of
//! docs/spec/storage-link.md): a frame file without frames.

use catchment_frame::{FileHeader, FileReader, FrameError, close_behind};
use catchment_storage::Resumable;
use catchment_wire::session::{Encoder, Fields as _};
use catchment_wire::storage_link::{LEFT_BYTES_MAX, LEFT_PARTS_MAX, Left, LeftPart};

/// What there is of a stream.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// Empty if nothing is.
    file: Vec<u8>,
    has_ended: bool,
    /// For how long nothing had come when it was looked at.
    pub(crate) age_ns: u64,
    frames: u64,
    events: u64,
    file_bytes: u64,
}

impl Description {
    /// That of a stream whose files have such headers, and were closed as `from`; whether it has
    /// ended, and for how long nothing had come.
    ///
    /// # Errors
    /// A description that cannot be made, or is too long.
    pub(crate) fn of(
        header: &FileHeader,
        from: &Resumable,
        (has_ended, age_ns): (bool, u64),
    ) -> Result<Self, String> {
        let place = from.places.first().ok_or("nothing was looked at")?;
        // The last one is of whoever goes on, and is its own to make.
        let superseded =
            from.superseded.split_last().map_or(&[][..], |(_, before)| before).to_vec();
        let epoch = from.epoch.saturating_sub(1);
        let header = FileHeader { epoch, superseded, locator: false, ..header.clone() };
        let mut file = header.encode();
        let failed = |error: FrameError| format!("cannot say what there is: {error}");
        let reader = FileReader::open(&file).map_err(failed)?;
        let closing = close_behind(&reader, 0, (&place.ledger, &place.ledger), &from.positions);
        let closing = closing.map_err(failed)?;
        drop(reader);
        file.resize(closing.offset as usize, 0);
        file.extend_from_slice(&closing.bytes);
        if file.len() as u64 > LEFT_BYTES_MAX {
            let bytes = file.len();
            return Err(format!("cannot say what there is in {LEFT_BYTES_MAX} bytes, but {bytes}"));
        }
        let (frames, events, file_bytes) = (place.frames, place.events, place.bytes);
        Ok(Self { file, has_ended, age_ns, frames, events, file_bytes })
    }

    /// Writes the message with its bytes from `offset` on to the beginning of `out`. Returns its
    /// length, and where the next one goes on, if one follows.
    pub(crate) fn encode(
        &self,
        (out, number): (&mut [u8], u32),
        offset: usize,
    ) -> (usize, Option<usize>) {
        let fixed = Left {
            log: 0,
            bytes: self.file.len() as u32,
            offset: offset as u32,
            flags: if self.has_ended { Left::ENDED } else { 0 },
            age_ns: self.age_ns,
            frames: self.frames,
            events: self.events,
            file_bytes: self.file_bytes,
        };
        let mut message = Encoder::begin(out, number, &fixed);
        let rest = self.file.get(offset..).unwrap_or_default();
        for part in rest.chunks(LeftPart::BYTES).take(LEFT_PARTS_MAX as usize) {
            let mut bytes = [0; LeftPart::BYTES];
            bytes[..part.len()].copy_from_slice(part);
            assert!(message.push(&LeftPart { bytes }), "as many as fit");
        }
        let next = offset + LEFT_PARTS_MAX as usize * LeftPart::BYTES;
        (message.finish("", &[]), (next < self.file.len()).then_some(next))
    }
}
