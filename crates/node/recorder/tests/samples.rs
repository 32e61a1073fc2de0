//! HLD files that another program wrote: their sub-events, sent as hadtu, are built into the same
//! events again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::support;
use catchment_recorder::Recorder;
use catchment_storage::Run;
use catchment_wire::hadtu::TRIGGER_NUMBER_BITS;
use support::{config, fragments, senders};

/// An event of an HLD file: the sub-events as they stand there.
type Event = Vec<Vec<u8>>;

#[test]
fn sub_events_of_sample_files_are_built_into_the_same_events() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/samples/hld");
    if !folder.is_dir() {
        // The files are not part of the repository; the test below has their like.
        println!("not run: {} is not there", folder.display());
        return;
    }
    for (name, sources, events) in
        [("hades4_be_200ev.hld", 4, 200), ("le3_k4_400ev_wrap.hld", 3, 400)]
    {
        let file = read_hld(&std::fs::read(folder.join(name)).unwrap());
        assert_eq!(file.len(), events, "{name}");
        assert_rebuilt(&file, sources);
    }
}

#[test]
fn sub_events_of_a_file_made_here_are_built_into_the_same_events() {
    for big_endian in [false, true] {
        let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let sub_event = |number: u32, source: u32| {
            let payload = vec![(number ^ source) as u8; (number % 50) as usize + source as usize];
            let head = [16 + payload.len() as u32, 0x0002_0011, 0x8000 + source, number << 8 | 3];
            [head.map(word).concat(), payload].concat()
        };
        // Across the wrap of the trigger number.
        let numbers = (0xff_ffb0..0x100_0050).map(|number| number & 0xff_ffff);
        let events: Vec<Event> = numbers
            .map(|number| (0..3).map(|source| sub_event(number, source)).collect())
            .collect();
        let file = write_hld(&events);
        assert_eq!(read_hld(&file), events);
        assert_rebuilt(&events, 3);
    }
}

fn assert_rebuilt(events: &[Event], source_count: u32) {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path(), source_count)).unwrap();
    let sockets = senders(&recorder);
    let mut queues = vec![Vec::new(); source_count as usize];
    for (index, event) in events.iter().enumerate() {
        for sub_event in event {
            let source = (header(sub_event)[2] - 0x8000) as usize;
            queues[source].extend_from_slice(sub_event);
            pad(&mut queues[source]);
        }
        // Packets of several sub-events, not the same number for all sources.
        for (source, queue) in queues.iter_mut().enumerate() {
            if index % (source + 2) == 0 || index + 1 == events.len() {
                sockets[source].send(&packed(queue)).unwrap();
                queue.clear();
            }
        }
    }
    let summary = recorder.stop().unwrap();
    let balance = summary.last.ledger.balance();
    assert!(balance.holds() && !balance.lost_data(), "{balance:?}");

    let mut expected = BTreeMap::new();
    let first = u64::from(header(&events[0][0])[3] >> 8);
    for (index, event) in events.iter().enumerate() {
        let key = first + index as u64;
        let number = header(&event[0])[3] >> 8;
        assert_eq!(key % (1 << TRIGGER_NUMBER_BITS), u64::from(number), "the file is in order");
        let by_source = event.iter().map(|bytes| (header(bytes)[2] - 0x8000, bytes.clone()));
        expected.insert(key, by_source.collect::<BTreeMap<_, _>>());
    }
    let run = Run::open(&summary.folder).unwrap();
    let got = fragments(&run);
    assert_eq!(got.len(), expected.len());
    for (key, event) in expected {
        assert_eq!(got[&key], event, "event {key}");
    }
}

/// A hadtu packet with this queue of padded sub-events, in little-endian.
fn packed(queue: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    packet.extend_from_slice(&(queue.len() as u32 + 8).to_le_bytes());
    packet.extend_from_slice(&0x0002_0001_u32.to_le_bytes());
    packet.extend_from_slice(queue);
    let trailer: Vec<u8> = (0..32).map(|index| packet[index % packet.len()]).collect();
    packet.extend_from_slice(&trailer);
    packet
}

/// A sub-event's four words, in its own order.
fn header(sub_event: &[u8]) -> [u32; 4] {
    let word = |index: usize| <[u8; 4]>::try_from(&sub_event[4 * index..4 * index + 4]).unwrap();
    let swapped = word(1)[3] != 0;
    std::array::from_fn(|index| match swapped {
        true => u32::from_be_bytes(word(index)),
        false => u32::from_le_bytes(word(index)),
    })
}

fn read_hld(bytes: &[u8]) -> Vec<Event> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut events = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = at + word(at) as usize;
        let mut event = Vec::new();
        let mut sub_event = at + 32;
        while sub_event < end {
            let size = header(&bytes[sub_event..])[0] as usize;
            event.push(bytes[sub_event..sub_event + size].to_vec());
            sub_event += size.next_multiple_of(8);
        }
        // Records of the run's start and stop have no sub-events.
        events.extend((!event.is_empty()).then_some(event));
        at = end.next_multiple_of(8);
    }
    events
}

fn write_hld(events: &[Event]) -> Vec<u8> {
    let record = |id: u32, sequence: u32, event: &Event| {
        let mut body = Vec::new();
        for sub_event in event {
            body.extend_from_slice(sub_event);
            pad(&mut body);
        }
        let head = [32 + body.len() as u32, 0x0003_0001, id, sequence, 0, 0, 1, 1];
        [head.map(u32::to_le_bytes).concat(), body].concat()
    };
    let mut file = record(0x0001_0002, 0, &Vec::new());
    for (index, event) in events.iter().enumerate() {
        file.extend(record(0x2001, index as u32 + 1, event));
    }
    file.extend(record(0x0001_0003, events.len() as u32 + 1, &Vec::new()));
    file
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}
