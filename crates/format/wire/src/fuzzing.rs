//! Properties that hold for every input, in one function per decoder: called by the fuzz targets,
//! and by the tests with the seed corpus and mutated packets.

use crate::channel_link;
use crate::event_link::{self, Data};
use crate::hadtu::{
    ByteOrder, PACKET_BYTES_MIN, Packet, PacketEncoder, SUB_EVENT_HEADER_BYTES, SubEventHeader,
};
use crate::layouts::{Description, example_counted, example_layouts, example_variants};
use crate::link;
use crate::session::{self, Bounds, CONTROL, Control, Fault, HEADER_BYTES, Message, Preamble};
use crate::storage_link;
use crate::trains::Trains;
use crate::{PARTS_MAX, Part, Protocol, Transport};

/// Decodes `data` with a protocol and checks what receivers rely on: either parts lie within the
/// datagram and within their fragments, or there are none and a reason of the protocol.
///
/// # Panics
/// A defect of the decoder.
pub fn fuzz_decoder(protocol: &dyn Protocol, data: &[u8]) {
    let mut decoder = protocol.decoder();
    let mut parts: Vec<Part> = Vec::new();
    match decoder.decode(0, data, &mut parts) {
        Ok(decoded) => {
            let is_datagram = protocol.transport() == Transport::Datagrams;
            let message = if is_datagram { data.len() } else { decoded.used };
            assert!(message <= data.len() && parts.len() <= PARTS_MAX);
            for part in &parts {
                let end = u64::from(part.offset) + u64::from(part.bytes);
                assert!(end <= message as u64, "{part:?} is beyond {message} bytes");
                let end = part.position.checked_add(part.bytes.into());
                assert!(end.is_some_and(|end| end <= part.fragment_bytes), "{part:?}");
            }
        }
        Err(reason) => {
            assert!(reason < protocol.reasons().len() && parts.is_empty());
            assert!(!decoder.explain(data).is_empty());
        }
    }
}

/// Parses `data` as a hadtu packet and checks the properties of every accepted packet: the
/// sub-events lie within it, without overlap, and re-encode to a packet with the same ones.
///
/// # Panics
/// A defect of the decoder or the encoder.
pub fn fuzz_packet(data: &[u8]) {
    fuzz_decoder(&crate::hadtu::Hadtu, data);
    let Ok(packet) = Packet::parse(data) else { return };
    assert!(data.len() >= PACKET_BYTES_MIN);
    let mut parts = Vec::new();
    crate::hadtu::Hadtu.decoder().decode(0, data, &mut parts).expect("it was parsed");
    assert!(parts.len() == packet.sub_event_count());
    for (part, sub_event) in parts.iter().zip(packet.sub_events()) {
        let begin = part.offset as usize;
        assert_eq!(&data[begin..begin + part.bytes as usize], sub_event.bytes);
        assert_eq!((part.number, part.id), (sub_event.trigger_number.into(), sub_event.id));
        let error = part.flags & crate::PartFlags::SENDER_ERROR != 0;
        assert_eq!((part.tag, error), (sub_event.trigger_tag, sub_event.error));
    }
    let mut buffer = vec![0; data.len()];
    let mut encoder = PacketEncoder::begin(&mut buffer, ByteOrder::Little);
    let mut count = 0;
    let mut end = data.as_ptr() as usize + 8;
    for sub_event in packet.sub_events() {
        let begin = sub_event.bytes.as_ptr() as usize;
        assert_eq!(begin, end);
        end = begin + sub_event.bytes.len().next_multiple_of(8);
        assert_eq!(sub_event.payload().len() + SUB_EVENT_HEADER_BYTES, sub_event.bytes.len());
        assert!(sub_event.trigger_number < 1 << 24 && sub_event.id < 1 << 31);
        let header = SubEventHeader {
            decoding: sub_event.decoding,
            id: sub_event.id,
            error: sub_event.error,
            trigger_number: sub_event.trigger_number,
            trigger_tag: sub_event.trigger_tag,
        };
        assert!(encoder.push(&header, sub_event.payload()) || data.len() > 65_507);
        count += 1;
    }
    assert_eq!(count, packet.sub_event_count());
    assert_eq!(end, data.as_ptr() as usize + data.len() - 32);
    if data.len() > 65_507 {
        return;
    }
    let bytes = encoder.finish();
    assert_eq!(bytes, data.len());
    let again = Packet::parse(&buffer).expect("an encoded packet is one");
    assert!(again.sub_events().zip(packet.sub_events()).all(|(a, b)| {
        (a.id, a.error, a.trigger_number, a.trigger_tag, a.decoding, a.payload())
            == (b.id, b.error, b.trigger_number, b.trigger_tag, b.decoding, b.payload())
    }));
}

/// Decodes `data` as a packet of two layouts of trains, and encodes what is accepted again: the
/// same bytes, but for padding and flags without a meaning.
///
/// # Panics
/// A defect of the decoder or the encoder.
pub fn fuzz_train(data: &[u8]) {
    for trains in train_layouts() {
        fuzz_decoder(&trains, data);
        let mut parts = Vec::new();
        if trains.decoder().decode(0, data, &mut parts).is_err() {
            continue;
        }
        let [part] = parts[..] else { panic!("a packet has one part, got {parts:?}") };
        let payload = &data[part.offset as usize..][..part.bytes as usize];
        let packet = part.position / u64::from(trains.settings().payload_bytes);
        let mut buffer = vec![0xee; trains.packet_bytes()];
        let fill = |room: &mut [u8]| room.copy_from_slice(payload);
        let bytes = trains.encode((part.number, packet), &mut buffer, fill);
        let mut again = Vec::new();
        trains.decoder().decode(0, &buffer[..bytes], &mut again).expect("an encoded packet is one");
        assert_eq!((again[0].number, again[0].position), (part.number, part.position));
        assert_eq!(&buffer[again[0].offset as usize..][..payload.len()], payload);
    }
}

/// The layouts of the golden packets.
#[doc(hidden)]
pub fn train_layouts() -> [Trains; 2] {
    use crate::trains::{MarkField, MarkPlace, TrainSettings};
    let trailer = TrainSettings { train_bytes: 20, payload_bytes: 8, ..TrainSettings::default() };
    let header = TrainSettings {
        mark: MarkPlace::Header,
        fields: [MarkField::Packet, MarkField::Frame, MarkField::Flags],
        frame_bytes: 8,
        flags_bytes: 4,
        packet_bytes: 2,
        byte_order: ByteOrder::Big,
        ..trailer.clone()
    };
    [trailer, header].map(|settings| Trains::new(settings).expect("within their bounds"))
}

/// Decodes `data` by each of the declared layouts of the examples. It is described as it is
/// decoded: what is accepted without anything left over, and its fragments do not overlap.
///
/// # Panics
/// A defect of the decoder.
pub fn fuzz_layout(data: &[u8]) {
    for layouts in example_layouts().into_iter().chain([example_counted()]) {
        fuzz_described(&layouts, &layouts.describe(data), data);
    }
    let variants = example_variants();
    fuzz_described(&variants, &variants.describe(data), data);
}

fn fuzz_described(protocol: &dyn Protocol, description: &Description, data: &[u8]) {
    fuzz_decoder(protocol, data);
    let mut parts = Vec::new();
    let decoded = protocol.decoder().decode(0, data, &mut parts);
    let reason = decoded.err().map(|reason| protocol.reasons()[reason].name);
    assert_eq!(description.refused.as_ref().map(|(name, _)| *name), reason);
    assert_eq!(description.fragments, parts.len());
    assert!(description.refused.is_some() || description.left_over == 0);
    for pair in parts.windows(2) {
        assert!(pair[0].offset + pair[0].bytes <= pair[1].offset, "{parts:?}");
    }
}

/// Parses `data` as a packet of a channel link and checks the properties of every accepted packet:
/// the entries fill it without overlap, and re-encode to a packet with the same ones.
///
/// # Panics
/// A defect of the decoder or the encoder.
pub fn fuzz_link(data: &[u8]) {
    let Ok(packet) = link::Packet::parse(data) else { return };
    let mut offset = link::HEADER_BYTES + packet.entry_count() * link::ENTRY_BYTES;
    let mut count = 0;
    for entry in packet.entries() {
        assert_eq!(entry.samples.as_ptr() as usize, data.as_ptr() as usize + offset);
        offset += entry.samples.len().next_multiple_of(8);
        count += 1;
    }
    assert_eq!((count, offset), (packet.entry_count(), data.len()));
    if data.len() > 65_507 {
        return;
    }
    let mut buffer = vec![0xee; data.len()];
    let mut encoder = link::PacketEncoder::begin(&mut buffer, packet.header());
    for link::Entry { channel, first_sample, samples } in packet.entries() {
        let bytes = samples.len() as u32;
        assert!(encoder.push(&link::EntryHeader { channel, first_sample, bytes }));
    }
    let mut entries = packet.entries();
    let bytes = encoder.finish_with(|_, out| {
        out.copy_from_slice(entries.next().expect("as many as were pushed").samples);
    });
    assert_eq!(bytes, data.len());
    let again = link::Packet::parse(&buffer).expect("an encoded packet is one");
    assert_eq!(again.header(), packet.header());
    assert!(again.entries().eq(packet.entries()));
}

/// Reads `data` as the bytes of a control connection, behind a preamble or not, and checks the
/// properties of every message: it is one only when all its bytes are there, and its encoding reads
/// the same. Returns how many there are.
///
/// # Errors
/// The fault that ends them, which has a name and a sentence.
///
/// # Panics
/// A defect of the parser or the encoder.
pub fn fuzz_session(data: &[u8]) -> Result<u32, Fault> {
    fuzz_messages(data, CONTROL, |message, number, buffer| {
        let Some(control) = Control::read(message)? else { return Ok(()) };
        let bytes = control.encode(number, buffer);
        let again = session::parse(&buffer[..bytes], number, CONTROL)?.expect("it is whole");
        assert_eq!((again.used, Control::read(&again)?), (bytes, Some(control)));
        Ok(())
    })
}

/// Reads `data` as the bytes of a data connection of events, as [`fuzz_session`]. The fragments of
/// a message fill its body.
///
/// # Errors
/// As [`fuzz_session`].
///
/// # Panics
/// A defect of the parser or the encoder.
pub fn fuzz_events(data: &[u8]) -> Result<u32, Fault> {
    let bounds = event_link::bounds(131_064);
    fuzz_messages(data, bounds, |message, number, buffer| {
        let Some(data) = Data::read(message)? else { return Ok(()) };
        if let Data::Fragments(_, records, body) = data {
            let fragments = event_link::fragments(records, body);
            let sizes: Vec<usize> = fragments.map(|(_, bytes)| bytes.len()).collect();
            assert_eq!((sizes.len(), sizes.iter().sum()), (records.len(), body.len()));
        }
        let bytes = data.encode(number, buffer);
        let again = session::parse(&buffer[..bytes], number, bounds)?.expect("it is whole");
        assert_eq!((again.used, Data::read(&again)?), (bytes, Some(data)));
        Ok(())
    })
}

/// Reads `data` as the bytes of a data connection of channels, as [`fuzz_session`].
///
/// # Errors
/// As [`fuzz_session`].
///
/// # Panics
/// A defect of the parser or the encoder.
pub fn fuzz_channels(data: &[u8]) -> Result<u32, Fault> {
    let bounds = channel_link::BOUNDS;
    fuzz_messages(data, bounds, |message, number, buffer| {
        let Some(data) = channel_link::Data::read(message)? else { return Ok(()) };
        let bytes = data.encode(number, buffer);
        let again = session::parse(&buffer[..bytes], number, bounds)?.expect("it is whole");
        assert_eq!((again.used, channel_link::Data::read(&again)?), (bytes, Some(data)));
        Ok(())
    })
}

/// The same of a data connection of frames.
///
/// # Errors
/// As [`fuzz_session`].
///
/// # Panics
/// A defect of the parser or the encoder.
pub fn fuzz_storage(data: &[u8]) -> Result<u32, Fault> {
    let bounds = storage_link::BOUNDS;
    fuzz_messages(data, bounds, |message, number, buffer| {
        let Some(data) = storage_link::Data::read(message)? else { return Ok(()) };
        let bytes = data.encode(number, buffer);
        let again = session::parse(&buffer[..bytes], number, bounds)?.expect("it is whole");
        assert_eq!((again.used, storage_link::Data::read(&again)?), (bytes, Some(data)));
        Ok(())
    })
}

/// Reads a connection's messages, numbered from the first one's number on. `check` reads each, and
/// encodes it into a buffer of the same length.
fn fuzz_messages(
    data: &[u8],
    bounds: Bounds,
    check: impl Fn(&Message<'_>, u32, &mut [u8]) -> Result<(), Fault>,
) -> Result<u32, Fault> {
    let preamble = Preamble::parse(data).ok().flatten();
    let mut rest = data;
    if let Some(preamble) = preamble {
        rest = &data[preamble.encode().len()..];
        assert_eq!(Preamble::parse(&preamble.encode()), Ok(Some(preamble)));
    }
    let number = rest.get(12..16).and_then(|bytes| bytes.first_chunk());
    let first = number.map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let mut count = 0;
    let result = loop {
        let number = first.wrapping_add(count);
        let message = match session::parse(rest, number, bounds) {
            Ok(Some(message)) => message,
            Ok(None) => break Ok(count),
            Err(fault) => break Err(fault),
        };
        assert!(message.used >= HEADER_BYTES && message.used.is_multiple_of(8));
        for bytes in [0, HEADER_BYTES, message.used / 2, message.used - 1] {
            assert!(matches!(session::parse(&rest[..bytes], number, bounds), Ok(None)));
        }
        // Of the body nothing is needed.
        let at = message.body_at();
        assert!(matches!(session::parse_head(&rest[..at - 1], number, bounds), Ok(None)));
        for bytes in [at, (at + message.used) / 2] {
            let head = session::parse_head(&rest[..bytes], number, bounds)?.expect("it is there");
            let body = &message.body[..message.body.len().min(bytes - at)];
            assert_eq!((head.used, head.body_at(), head.body), (message.used, at, body));
        }
        let mut buffer = vec![0xee; message.used];
        if let Err(fault) = check(&message, number, &mut buffer) {
            break Err(fault);
        }
        rest = &rest[message.used..];
        count += 1;
    };
    if let Err(fault) = &result {
        assert!(!fault.name().is_empty() && !fault.to_string().is_empty());
    }
    result
}
