//! Sources that say what their fragments are.

use crate::support;
use catchment_fixtures::wait_while;
use catchment_frame::{Dtype, PayloadType};
use catchment_model::Entry;
use catchment_recorder::Recorder;
use catchment_wire::hadtu::ByteOrder;
use support::{config, packet, senders};

#[test]
fn big_endian_words_of_a_payload_that_is_read_as_little_endian_are_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 4);
    let payload = |dtype| PayloadType {
        dtype,
        shape: Vec::new(),
        skip: 16,
        record_bytes: 0,
        fields: Vec::new(),
    };
    config.sources[0].payload = Some(payload(Dtype::U32));
    config.sources[1].payload = Some(payload(Dtype::U32));
    config.sources[2].payload = Some(payload(Dtype::U8));
    let recorder = Recorder::start(config).unwrap();
    let orders = [ByteOrder::Big, ByteOrder::Little, ByteOrder::Big, ByteOrder::Big];
    for (index, (sender, order)) in senders(&recorder).iter().zip(orders).enumerate() {
        for event in 1..11 {
            sender.send(&packet(index as u32, order, &[(event, &[0, 0, 0, 1])])).unwrap();
        }
    }
    let received = || recorder.snapshot().ledger.total()[Entry::FragmentsReceived];
    wait_while(|| received() < 40);
    let summary = recorder.stop().unwrap();
    let warnings = summary.last.warnings.iter().filter(|text| text.contains("endian"));
    let expected = "source s0: its fragments are big-endian, but its payload is read as \
                    little-endian: the bytes of each u32 come out in the wrong order";
    assert_eq!(warnings.collect::<Vec<_>>(), [expected]);
    assert!(!summary.last.ledger.balance().lost_data());
}
