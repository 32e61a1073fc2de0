//! What the recorder's tests share: a recorder of few sources in a folder of its own, and senders.
#![allow(dead_code, reason = "each test file uses its part of it")]

pub mod detector;
pub mod front_end;
pub mod links;
pub mod stepped;

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use catchment_fixtures::{free_ports, sender_to};
use catchment_model::{Entry, SourceId};
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, SourceConfig};
use catchment_storage::Run;
use catchment_wire::hadtu::{ByteOrder, PacketEncoder, SUB_EVENT_DECODING, SubEventHeader};

/// Sources named s0, s1, .. on ports that the system chooses.
pub fn sources(count: u32) -> Vec<SourceConfig> {
    (0..count)
        .map(|source| SourceConfig {
            id: Some(0x8000 + source),
            ..SourceConfig::new(format!("s{source}"), "127.0.0.1:0".parse().unwrap())
        })
        .collect()
}

/// So many addresses that are free, for ports that are opened again.
pub fn free(count: u16) -> Vec<SocketAddr> {
    let first = free_ports(count);
    (first..first + count).map(|port| ([127, 0, 0, 1], port).into()).collect()
}

/// A recorder of that many sources with little memory.
pub fn config(folder: &Path, source_count: u32) -> RecorderConfig {
    let mut config = RecorderConfig::new(folder.to_owned(), sources(source_count));
    config.memory_bytes = 256 << 20;
    config.write.buffer_bytes = 1 << 20;
    config.write.preallocate_bytes = 4 << 20;
    config
}

/// One connected socket per source.
pub fn senders(recorder: &Recorder) -> Vec<UdpSocket> {
    recorder.addresses().iter().map(|&address| sender_to(address)).collect()
}

/// A packet of sub-events with these trigger numbers and payloads.
pub fn packet(source: u32, order: ByteOrder, sub_events: &[(u32, &[u8])]) -> Vec<u8> {
    let mut buffer = vec![0; 65_507];
    let mut encoder = PacketEncoder::begin(&mut buffer, order);
    for &(number, payload) in sub_events {
        let header = SubEventHeader {
            id: 0x8000 + source,
            error: false,
            trigger_number: number,
            trigger_tag: 7,
            decoding: SUB_EVENT_DECODING,
        };
        assert!(encoder.push(&header, payload), "fits");
    }
    let bytes = encoder.finish();
    buffer.truncate(bytes);
    buffer
}

/// Every recorded fragment, by event and source.
pub fn fragments(run: &Run) -> BTreeMap<u64, BTreeMap<u32, Vec<u8>>> {
    let mut events: BTreeMap<u64, BTreeMap<u32, Vec<u8>>> = BTreeMap::new();
    for frame in 0..run.frames().len() {
        for &key in run.events(frame).unwrap().keys() {
            assert!(events.insert(key, BTreeMap::new()).is_none(), "event {key} stands twice");
        }
        for source in 0..run.sources().len() as u32 {
            let column = run.fragments(frame, SourceId(source)).unwrap();
            for (row, &key) in column.events().keys().iter().enumerate() {
                if let Some(fragment) = column.fragment(row) {
                    events.get_mut(&key).unwrap().insert(source, fragment.to_vec());
                }
            }
        }
    }
    events
}

/// One count of all sources together.
pub fn total(summary: &RunSummary, entry: Entry) -> u64 {
    summary.last.ledger.total()[entry]
}
