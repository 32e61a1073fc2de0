//! A front-end that takes longer for one fragment than a source may be silent, in virtual time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use catchment_model::Entry;
use catchment_recorder::SourceConfig;
use catchment_storage::Verdict;

use crate::support;
use crate::support::front_end::{fragments, parts};
use crate::support::stepped::Stepped;

#[test]
fn a_source_of_which_parts_come_is_not_silent() {
    let mut config = support::detector::small_frames("".as_ref(), None);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let source = |name: &str| SourceConfig::over_session(name, address);
    config.sources = vec![source("trigger"), source("camera")];
    config.build.timeout_ns = 200_000_000;
    let mut run = Stepped::begin(&config);
    let [trigger, camera] = ["trigger", "camera"].map(|name| run.open_session(name));
    // The first message of a data connection is the one that says whose it is.
    run.write(trigger, &fragments(1, 0, 0, &[(0, &[1])]));
    run.write(camera, &fragments(1, 0, 0, &[(0, &[1])]));
    let picture = vec![7; 40 * 1_000];
    let messages = parts(2, 0, 1, 1, &picture, 1_000);
    let each = messages.len() / 40;
    for key in 1..=1_000_u64 {
        run.write(trigger, &fragments(1 + key as u32, 0, key, &[(key, &[1])]));
        if key % 25 == 0 {
            let part = (key / 25 - 1) as usize;
            run.write(camera, &messages[part * each..][..each]);
        }
        run.pass(1);
    }
    run.pass(5);
    run.sent(1 + 1_000 + 2);
    let last = run.end();
    assert!(!last.warnings.iter().any(|text| text.contains("do not wait")), "{last:?}");
    let camera = &last.ledger.sources[1];
    let counts = [Entry::FragmentsLate, Entry::FragmentsRecorded, Entry::FragmentsMissing];
    assert_eq!(counts.map(|entry| camera[entry]), [0, 2, 1_001 - 2]);
    assert_eq!(run.read().1.verdict, Verdict::DataLost);
}
