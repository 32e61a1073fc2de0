//! How full the sockets' buffers are is seen from outside, while there are sockets.

use crate::support;
use catchment_recorder::Recorder;
use support::{config, packet, senders};

#[test]
fn buffers_are_looked_at_from_outside_until_the_run_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 3);
    config.links = support::links::config(folder.path()).links;
    config.frame.duration_ns = 4_000_000_000;
    config.receive.threads = 2;
    let addresses = support::free(4);
    for (source, address) in config.sources.iter_mut().zip(&addresses) {
        source.address = *address;
    }
    config.links[0].address = addresses[3];
    let recorder = Recorder::start(config.clone()).unwrap();
    let observer = recorder.observer();
    let packet = packet(1, catchment_wire::hadtu::ByteOrder::Big, &[(1, &[1, 2, 3])]);
    senders(&recorder)[1].send(&packet).unwrap();
    let fills = observer.socket_fills();
    assert_eq!(fills.len(), 4);
    assert!(fills.iter().flatten().all(|fill| (0.0..=1.0).contains(fill)), "{fills:?}");
    // Somebody who never stops looking keeps no port from the next run.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                observer.socket_fills();
            }
        });
        recorder.stop().unwrap();
        let next = Recorder::start(config);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(next.unwrap());
    });
    assert_eq!(observer.socket_fills(), [None; 4]);
}
