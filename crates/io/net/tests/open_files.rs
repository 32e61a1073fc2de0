//! A process that has no descriptor left for a connection. It stands alone, since the limit is that
//! of the whole process.

use std::fs::File;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use catchment_agent::{Flow, Ingress as _, Received};
use catchment_net::{TcpConfig, TcpReceiver, raise_open_files};

/// Nothing takes so long: reached only when what was sent never comes.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// Lets the process open no descriptor from that number on.
fn limit_open_files(files: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid place to write to, then a valid limit.
    let results = unsafe {
        let read = libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = files;
        [read, libc::setrlimit(libc::RLIMIT_NOFILE, &limit)]
    };
    assert_eq!(results, [0, 0]);
}

#[test]
fn a_connection_that_cannot_be_taken_waits_without_waking_anyone() {
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let mut receiver = TcpReceiver::bind(&[address], TcpConfig::default()).unwrap();
    let _client = TcpStream::connect(receiver.local_addr(0)).unwrap();
    let next = File::open("/dev/null").unwrap().as_raw_fd();
    limit_open_files(next as u64);
    assert!(receiver.readiness().wait(PATIENCE));
    assert_eq!(receiver.poll(&mut |_| panic!("it was taken")), Received::default());
    let (port, error) = receiver.take_error().unwrap();
    assert_eq!(port, Some(0));
    assert!(error.starts_with(&format!("port {}: ", receiver.local_addr(0))), "{error}");
    // Tried again at every poll, and reported once.
    for _ in 0..3 {
        assert!(!receiver.readiness().wait(Duration::ZERO));
        assert_eq!(receiver.poll(&mut |_| panic!("it was taken")), Received::default());
        assert_eq!(receiver.take_error(), None);
    }
    raise_open_files();
    assert_eq!(receiver.poll(&mut |_| Flow::Taken).arrivals, 1);
    assert_eq!((receiver.connections(), receiver.take_error()), (1, None));
    // And the port is watched again.
    let _second = TcpStream::connect(receiver.local_addr(0)).unwrap();
    assert!(receiver.readiness().wait(PATIENCE));
    assert_eq!(receiver.poll(&mut |_| Flow::Taken).arrivals, 1);
}
