//! Properties that hold for every input, in one function per decoder: called by the fuzz targets,
//! and by the tests with the seed corpus and mutated packets.

use crate::hadtu::{
    ByteOrder, PACKET_BYTES_MIN, Packet, PacketEncoder, SUB_EVENT_HEADER_BYTES, SubEventHeader,
};
use crate::link;
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
