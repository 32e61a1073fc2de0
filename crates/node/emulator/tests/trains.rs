//! Feeders of trains: every byte follows from seed and train, and the packets carry it.

use std::net::UdpSocket;
use std::time::Duration;

use catchment_emulator::{EmulatorThread, Images, TrainConfig, TrainContent, TrainReport};
use catchment_wire::trains::{Checksum, TrainSettings, Trains};
use catchment_wire::{Part, Protocol as _};

const IMAGES: Images = Images { pulses: 3, y: 20, x: 40 };

fn config(nodes: &[UdpSocket]) -> TrainConfig {
    TrainConfig {
        nodes: nodes.iter().map(|node| node.local_addr().unwrap()).collect(),
        images: IMAGES,
        settings: TrainSettings { payload_bytes: 1_000, ..TrainSettings::default() },
        rate_hz: Some(200.0),
        trains: Some(7),
        ..TrainConfig::default()
    }
}

fn node() -> UdpSocket {
    let node = UdpSocket::bind("127.0.0.1:0").unwrap();
    node.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    node
}

/// What a node got: of each packet its train, its part and its bytes.
type Got = Vec<(u64, Part, Vec<u8>)>;

/// Runs the feeders, and receives what each node gets.
fn run(config: &TrainConfig, nodes: &[UdpSocket]) -> (TrainReport, Vec<Got>) {
    let thread = EmulatorThread::start_trains(config.clone()).unwrap();
    catchment_fixtures::wait_while(|| !thread.observer().ended());
    let report = thread.finish().unwrap();
    assert_eq!(report.packets_unsent, 0);
    let protocol = config.protocol().unwrap();
    let mut decoder = protocol.decoder();
    // They all stand in the sockets.
    let got = nodes.iter().map(|node| {
        node.set_nonblocking(true).unwrap();
        let mut buffer = [0; 2_000];
        let next = || node.recv(&mut buffer).ok().map(|bytes| buffer[..bytes].to_vec());
        let datagrams: Vec<Vec<u8>> = std::iter::from_fn(next).collect();
        let part = |datagram: &Vec<u8>| {
            let mut parts = Vec::new();
            decoder.decode(0, datagram, &mut parts).expect("a packet");
            let begin = parts[0].offset as usize;
            let payload = datagram[begin..begin + parts[0].bytes as usize].to_vec();
            (parts[0].number, parts[0], payload)
        };
        datagrams.iter().map(part).collect()
    });
    let got = got.collect();
    (report, got)
}

fn packets_of(protocol: &Trains, content: &TrainContent, train: u64, feeder: u32) -> Vec<Vec<u8>> {
    let whole = content.train(train, feeder);
    let range = |packet| protocol.range(packet);
    let part = |packet| whole[range(packet).start as usize..range(packet).end as usize].to_vec();
    (0..protocol.packets()).map(part).collect()
}

#[test]
fn trains_of_the_reference_have_its_length_and_fields_without_gaps() {
    assert_eq!(Images::REFERENCE.train_bytes(), 1_073_754_173);
    assert_eq!(Images::REFERENCE.bytes(), 1 << 30);
    for images in [IMAGES, Images::REFERENCE] {
        let payload = images.payload_type();
        let mut end = 0;
        for field in &payload.fields {
            assert_eq!(field.offset, end, "{}", field.name);
            let one = field.dtype.bits().unwrap() / 8;
            end += one * field.shape.iter().product::<u64>();
        }
        assert_eq!((end, end), (u64::from(payload.record_bytes), images.train_bytes()));
    }
}

#[test]
fn a_train_ends_with_the_checksum_of_the_rest_and_differs_from_the_next() {
    let content = TrainContent::new(5, IMAGES);
    let (first, second) = (content.train(0, 0), content.train(1, 0));
    for train in [&first, &second] {
        let end = train.len() - 4;
        let mut sum = Checksum::default();
        sum.add(&train[..end]);
        assert_eq!(train[end..], sum.value().to_le_bytes());
        assert_eq!((&train[..4], &train[end - 25..end - 21]), (&b"XTRN"[..], &b"NRTX"[..]));
    }
    assert!(first[64..64 + 4_800] != second[64..64 + 4_800]);
    assert!(first == TrainContent::new(5, IMAGES).train(0, 0));
    assert!(first != TrainContent::new(6, IMAGES).train(0, 0));
}

#[test]
fn feeders_send_trains_to_the_nodes_in_turn() {
    let nodes = [node(), node(), node()];
    let config = TrainConfig { feeders: 2, first_train: 10, ..config(&nodes) };
    let (report, got) = run(&config, &nodes);
    assert_eq!((report.trains, report.dropped.len()), (7, 0));
    let (protocol, content) = (config.protocol().unwrap(), TrainContent::new(1, IMAGES));
    let mut count = 0;
    for (index, got) in got.iter().enumerate() {
        let mut numbers: Vec<u64> = got.iter().map(|(number, ..)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let expected = (10..17).filter(|number| number % 3 == index as u64);
        assert_eq!(numbers, expected.collect::<Vec<u64>>());
        for number in numbers {
            let expected = packets_of(&protocol, &content, number, (number % 2) as u32);
            let of_train = got.iter().filter(|(of, ..)| *of == number);
            let came: Vec<_> = of_train.map(|(_, part, bytes)| (part.position, bytes)).collect();
            let positions = (0..).step_by(1_000).zip(&expected);
            assert!(came.iter().copied().eq(positions), "train {number}");
            count += came.len() as u64;
        }
    }
    assert_eq!(report.packets, count);
}

#[test]
fn what_is_left_out_is_reported_and_nothing_else() {
    let nodes = [node()];
    let config = TrainConfig { drop_every: Some(3), ..config(&nodes) };
    let (report, got) = run(&config, &nodes);
    let trains: Vec<u64> = report.dropped.iter().map(|(train, _)| *train).collect();
    assert_eq!(trains, [2, 5]);
    let packets = config.protocol().unwrap().packets();
    let sent = |train, packet: u64| {
        got[0].iter().any(|(of, part, _)| *of == train && part.position == packet * 1_000)
    };
    for (train, packet) in (0..7).flat_map(|train| (0..packets).map(move |one| (train, one))) {
        assert_eq!(sent(train, packet), !report.dropped.contains(&(train, packet)));
    }
}

#[test]
fn what_cannot_be_sent_is_refused_by_name() {
    let refused = |change: fn(&mut TrainConfig)| {
        let mut config = config(&[node()]);
        change(&mut config);
        config.protocol().unwrap_err().key
    };
    assert_eq!(refused(|config| config.nodes.clear()), "nodes");
    assert_eq!(refused(|config| config.images.pulses = 0), "images");
    assert_eq!(refused(|config| config.feeders = 0), "feeders");
    assert_eq!(refused(|config| config.drop_every = Some(0)), "drop_every");
    assert_eq!(refused(|config| config.settings.packet_bytes = 7), "packet_bytes");
    let huge = |config: &mut TrainConfig| config.images = Images { x: 65_536, ..Images::REFERENCE };
    assert_eq!(refused(huge), "train_bytes");
}
