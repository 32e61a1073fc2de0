//! Messages of sessions and of the event link: the golden messages that docs/spec/golden.py makes
//! from the tables of the specifications, decoded and encoded.

use catchment_wire::channel_link::{self, Data as PacketData, Samples};
use catchment_wire::event_link::{
    self, ABANDONED_MAX, AbandonReason, Data, FRAGMENT_RECORD_BYTES_MIN, FragmentRecord, Fragments,
    Heartbeat, KeyKind, Mark, MarkKind, Presence, SourceGrant, SourceLog, fragments,
};
use catchment_wire::link::Packet;
use catchment_wire::session::{
    Answer, AnswerKind, Attach, Bounds, Bye, ByeReason, CONTROL, Command, Connection, Control,
    Encoder, Fields, Grant, GrantAnswer, Hello, LOGS_MAX, Log, LogPing, LogPositions, Logs,
    Message, Ping, Positions, Preamble, RECORDS_MAX, Release, Report, RunState, SEQUENCE_END,
    Service, Stage, TEXT_BYTES_MAX, Text, Value, ValueKind, ValueType, Welcome, parse,
};
use catchment_wire::storage_link::{self, Data as Stored, Files, StoredFiles};

const DATA: Bounds = event_link::bounds(131_064);

/// All bytes of a connection of an exchange, by the golden file's heading of it.
struct Golden {
    who: String,
    bytes: Vec<u8>,
}

impl Golden {
    fn is_data(&self) -> bool {
        self.who.contains("data")
    }

    fn is_of_storage(&self) -> bool {
        self.who.contains("storage")
    }

    fn is_of_channels(&self) -> bool {
        self.who.contains("channels")
    }

    fn bounds(&self) -> Bounds {
        match self.is_data() {
            _ if self.is_of_channels() => channel_link::BOUNDS,
            _ if self.is_of_storage() => storage_link::BOUNDS,
            true => DATA,
            false => CONTROL,
        }
    }

    /// Its preamble, if it begins with one, and the bytes behind it.
    fn messages(&self) -> (Option<Preamble>, &[u8]) {
        match Preamble::parse(&self.bytes) {
            Ok(preamble) => (preamble, &self.bytes[16..]),
            Err(_) => (None, &self.bytes),
        }
    }
}

fn golden(text: &str) -> Vec<Golden> {
    let mut connections: Vec<Golden> = Vec::new();
    for line in text.lines() {
        if let Some(who) = line.strip_prefix("## ") {
            connections.push(Golden { who: who.to_owned(), bytes: Vec::new() });
        } else if !line.starts_with('#') {
            connections.last_mut().expect("a heading").bytes.extend(unhex(line));
        }
    }
    connections
}

pub(crate) fn unhex(line: &str) -> impl Iterator<Item = u8> {
    (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).expect("hex"))
}

fn all_golden() -> Vec<Golden> {
    let files = [HELLO, FRAGMENTS, RESUME, OTHERS, CHANNELS, STORAGE];
    files.into_iter().flat_map(golden).collect()
}

const HELLO: &str = include_str!("golden/hello.hex");
const FRAGMENTS: &str = include_str!("golden/fragments.hex");
const RESUME: &str = include_str!("golden/resume.hex");
const OTHERS: &str = include_str!("golden/others.hex");
const CHANNELS: &str = include_str!("golden/channels.hex");
const STORAGE: &str = include_str!("golden/storage.hex");

/// The messages of a connection, with their numbers.
fn messages(golden: &Golden) -> Vec<(u32, Message<'_>)> {
    let (_, mut rest) = golden.messages();
    let mut number = u32::from_le_bytes(*rest[12..].first_chunk().unwrap());
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let message = parse(rest, number, golden.bounds()).unwrap().expect("a whole message");
        messages.push((number, message));
        (rest, number) = (&rest[message.used..], number + 1);
    }
    messages
}

fn controls(golden: &Golden) -> Vec<Control<'_>> {
    messages(golden).iter().filter_map(|(_, message)| Control::read(message).unwrap()).collect()
}

fn data(golden: &Golden) -> Vec<Data<'_>> {
    messages(golden).iter().filter_map(|(_, message)| Data::read(message).unwrap()).collect()
}

fn packets<'a>(message: &Message<'a>) -> channel_link::Data<'a> {
    channel_link::Data::read(message).unwrap().expect("a type that is known")
}

#[test]
fn items_of_a_channel_link_are_packets_and_its_signs_of_life_take_no_sequence() {
    let golden = &golden(CHANNELS)[0];
    let read: Vec<_> = messages(golden).iter().map(|(_, message)| packets(message)).collect();
    let [PacketData::Samples(first, packet), heartbeat, last] = read[..] else {
        panic!("three messages of samples");
    };
    assert_eq!((first, Samples::is_item(packet)), (Samples { log: 0, sequence: 11 }, true));
    let packet = Packet::parse(packet).unwrap();
    assert_eq!((packet.header().sequence, packet.header().slice), (11, 1_000));
    assert_eq!(packet.entries().next().map(|entry| entry.samples), Some(&b"12345"[..]));
    for (sign, bytes) in [(heartbeat, 48), (last, 0)] {
        let PacketData::Samples(fixed, packet) = sign else { panic!("samples") };
        assert_eq!((fixed.sequence, packet.len(), Samples::is_item(packet)), (12, bytes, false));
    }
}

fn stored<'a>(message: &Message<'a>) -> storage_link::Data<'a> {
    storage_link::Data::read(message).unwrap().expect("a type that is known")
}

#[test]
fn a_frame_is_its_header_columns_in_parts_and_an_end_with_its_counts() {
    let golden = &golden(STORAGE)[0];
    let read: Vec<_> = messages(golden).iter().map(|(_, message)| stored(message)).collect();
    let [open, frame, first, second, end, close, alive] = read[..] else { panic!("{read:?}") };
    let Stored::Open(open, header) = open else { panic!("{open:?}") };
    assert_eq!((open.header_bytes, open.offset, header), (6, 0, &b"header"[..]));
    let Stored::Frame(frame) = frame else { panic!("{frame:?}") };
    assert_eq!((frame.kind, frame.sequence, frame.numbers, frame.rows), (5, 40, 2, 2));
    assert_eq!((frame.generation, frame.epoch, frame.bytes_max), (1, 3, 1_000));
    let (Stored::Column(one, begin), Stored::Column(two, rest)) = (first, second) else {
        panic!("{first:?}, {second:?}");
    };
    assert_eq!((one.offset, begin.len(), one.crc32c), (0, 20, 0));
    assert_eq!((two.offset, rest.len(), two.crc32c), (20, 12, 0x1234_5678));
    assert_eq!(one, storage_link::Column { offset: 0, crc32c: 0, ..two });
    let Stored::End(end, records) = end else { panic!("{end:?}") };
    assert_eq!((end.columns, records), (1, &[begin, rest].concat()[..]));
    assert_eq!(close, Stored::Close(storage_link::Close { log: 0, sequence: 42 }));
    assert_eq!(alive, Stored::Alive);
}

#[test]
fn a_node_says_which_frames_are_in_which_files() {
    let exchange = golden(STORAGE);
    let controls = controls(&exchange[1]);
    let [Control::Files(Files { log: 0, files: 3 }, records), left @ ..] = &controls[..] else {
        panic!("files")
    };
    let one = StoredFiles { first_file: 0, last_file: 0, files: 1, first_frame: 0, last_frame: 9 };
    let two =
        StoredFiles { first_file: 2, last_file: 3, files: 2, first_frame: 20, last_frame: 39 };
    assert!(records.iter().eq([one, two]));
    let [Control::Left(left, parts), Control::Left(nothing, no_parts)] = left else {
        panic!("what it has of a stream, and that it has nothing")
    };
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes).collect();
    assert_eq!((left.bytes, left.offset, left.flags, left.frames), (40, 0, 0, 30));
    assert_eq!((left.age_ns, left.events, left.file_bytes), (3_000_000_000, 2_000, 1 << 20));
    assert!(bytes[..40].iter().copied().eq(0..40) && bytes[40..] == [0; 24]);
    assert_eq!((nothing.bytes, no_parts.iter().count()), (0, 0));
}

#[test]
fn a_packet_is_no_longer_than_a_datagram_and_no_item_has_the_last_sequence() {
    let read = |sequence, bytes: usize| {
        let samples = PacketData::Samples(Samples { log: 0, sequence }, &[7; 65_536][..bytes]);
        let mut out = vec![0; 70_000];
        let bytes = samples.encode(0, &mut out);
        let message = parse(&out[..bytes], 0, channel_link::BOUNDS).unwrap().expect("it is whole");
        PacketData::read(&message).map(drop).map_err(|fault| fault.name())
    };
    assert_eq!((read(0, 65_507), read(0, 65_508)), (Ok(()), Err("length")));
    assert_eq!((read(SEQUENCE_END, 0), read(SEQUENCE_END, 1)), (Ok(()), Err("bound")));
}

#[test]
fn every_golden_message_is_encoded_as_it_was() {
    let mut count = 0;
    for golden in all_golden() {
        let (preamble, mut rest) = golden.messages();
        if let Some(preamble) = preamble {
            assert_eq!(preamble.encode(), golden.bytes[..16]);
            let kind = if golden.is_data() { Connection::Data } else { Connection::Control };
            assert_eq!((preamble.service, preamble.connection), (Service::Events, kind));
            assert_eq!((preamble.session_min, preamble.session_max), (1, 1));
        }
        let is_later = golden.who.contains("later");
        for (number, message) in messages(&golden) {
            let mut out = vec![0xee; message.used];
            let bytes = match golden.is_data() {
                _ if golden.is_of_channels() => packets(&message).encode(number, &mut out).into(),
                _ if golden.is_of_storage() => stored(&message).encode(number, &mut out).into(),
                true => Data::read(&message).unwrap().map(|data| data.encode(number, &mut out)),
                false => Control::read(&message).unwrap().map(|ping| ping.encode(number, &mut out)),
            };
            let is_same = bytes == Some(message.used) && out == rest[..message.used];
            assert_eq!(is_same, !is_later, "{}, message {number}", golden.who);
            (rest, count) = (&rest[message.used..], count + 1);
        }
    }
    assert_eq!(count, 53);
}

#[test]
fn every_truncation_of_a_golden_message_needs_more_bytes() {
    for golden in all_golden() {
        let (_, mut rest) = golden.messages();
        for (number, message) in messages(&golden) {
            for bytes in 0..message.used {
                let cut = parse(&rest[..bytes], number, golden.bounds());
                assert!(matches!(cut, Ok(None)), "{}: {bytes} of {message:?}", golden.who);
            }
            rest = &rest[message.used..];
        }
    }
    for bytes in 0..16 {
        assert_eq!(Preamble::parse(&golden(HELLO)[0].bytes[..bytes]), Ok(None));
    }
}

/// As a receiver does that gets one byte at a time.
#[test]
fn the_same_messages_come_byte_by_byte() {
    for golden in all_golden() {
        let (_, stream) = golden.messages();
        let all = messages(&golden);
        let (mut buffer, mut found) = (Vec::new(), 0);
        for &byte in stream {
            buffer.push(byte);
            let number = all[0].0 + found;
            if let Some(message) = parse(&buffer, number, golden.bounds()).unwrap() {
                let expected = &all[found as usize].1;
                assert_eq!(message.used, buffer.len());
                assert_eq!(
                    (message.kind, message.text, message.body),
                    (expected.kind, expected.text, expected.body)
                );
                found += 1;
                buffer.clear();
            }
        }
        assert_eq!((found as usize, buffer.len()), (all.len(), 0), "{}", golden.who);
    }
}

#[test]
fn the_hello_and_its_answer_say_what_the_page_says() {
    let exchange = golden(HELLO);
    let [Control::Hello(hello, token), Control::Logs(logs)] = controls(&exchange[0])[..] else {
        panic!("hello and logs");
    };
    let expected = Hello {
        session: 0x5eed_0000_0000_0007,
        run: [0; 16],
        features: 0,
        buffer_bytes: 64 << 20,
        skew_bytes: 0,
        buffer_ms: 640,
        log_count: 1,
        data_connections: 1,
        release: Release::Durable,
        flags: Hello::ANSWERS,
        stage: Stage::None,
        stage_run: 0,
        command: 0,
        name: Text::new("camera").unwrap(),
        program: Text::new("example 1.0").unwrap(),
    };
    assert_eq!((hello, token), (expected, "catchment_0123abcd"));
    let camera = SourceLog {
        fragment_bytes_max: 1 << 20,
        groups: 0,
        flags: SourceLog::MARKS,
        key_kind: KeyKind::Number,
        key_bits: 64,
        presence: Presence::Configured,
        dtype: 2,
        begin: u64::MAX,
    };
    let mut service = [0; SourceLog::BYTES];
    camera.write(&mut service);
    let name = Text::new("").unwrap();
    let log = Log { log: 0, connection: 0, first: 0, made: 0, service, name };
    assert!(logs.iter().eq([log]));
    assert_eq!(SourceLog::read(&service), Ok(camera));

    let [Control::Welcome(welcome), Control::Grants(grants)] = controls(&exchange[1])[..] else {
        panic!("welcome and grants");
    };
    let expected = Welcome {
        session: hello.session,
        run: std::array::from_fn(|index| 0x10 + index as u8),
        ticket: std::array::from_fn(|index| 0xa0 + index as u8),
        run_number: 42,
        stream: 0,
        epoch: 0,
        state: RunState::Recording,
        features: 0,
        command: 0,
        ping_ms: 500,
        silence_ms: 2_500,
        skew_bytes: 0,
        message_bytes_max: 131_064,
        log_count: 1,
    };
    assert_eq!(welcome, expected);
    let grant = grants.iter().next().unwrap();
    let SourceGrant { fragment_bytes_max } = SourceGrant::read(&grant.service).unwrap();
    let Grant { log, answer, reason, next, durable, source, .. } = grant;
    assert_eq!((log, answer, reason), (0, GrantAnswer::Joins, ByeReason::DONE));
    assert_eq!((next, durable, source, fragment_bytes_max), (0, 0, 3, 1 << 20));
}

#[test]
fn fragments_of_one_message_follow_each_other_in_its_body() {
    let exchange = golden(FRAGMENTS);
    let [Data::Fragments(fixed, records, body)] = data(&exchange[0])[..] else { panic!() };
    assert_eq!(fixed, Fragments { log: 0, sequence: 1_000 });
    let got: Vec<(u64, &[u8], u8, u8)> = fragments(records, body)
        .map(|(record, bytes)| (record.key, bytes, record.tag, record.flags))
        .collect();
    let expected: [(u64, &[u8], u8, u8); 3] =
        [(17, b"hello", 0, 0), (18, b"", 0, 0), (20, b"abcd", 2, 1)];
    assert_eq!(got, expected);
}

#[test]
fn the_messages_of_a_resume_say_what_the_page_says() {
    let exchange = golden(RESUME);
    let [Control::Hello(hello, ""), Control::Logs(logs)] = controls(&exchange[0])[..] else {
        panic!("hello without a token, and logs");
    };
    let log = logs.iter().next().unwrap();
    assert_eq!((hello.command, log.first, log.made), (2, 1_000, 1_004));
    let [Control::Bye(bye, text)] = controls(&exchange[1])[..] else { panic!("bye") };
    let expected = Bye { reason: ByeReason::LATER, retry_ms: 200, detail: 0 };
    assert_eq!((bye, text), (expected, "repairing run 42"));
    let data = exchange.iter().find(|one| one.is_data()).map(data).unwrap();
    let [Data::Attach(Attach { session, ticket, connection: 0 }), Data::Fragments(..)] = data[..]
    else {
        panic!("attach, and what is not durable");
    };
    assert_eq!((session, ticket[0]), (hello.session, 0xb0));
    let last = controls(exchange.last().unwrap());
    let [Control::Positions(positions, logs)] = last[..] else { panic!("positions") };
    let mut received = [0; 16];
    received[0] = 152;
    assert_eq!(positions, Positions { cookie: 0, epoch: 1, unread: 0, received });
    let expected = LogPositions { log: 0, flags: 0, taken: 1_004, durable: 1_004 };
    assert!(logs.iter().eq([expected]));
}

#[test]
fn commands_answers_and_reports_are_read() {
    let others = golden(OTHERS);
    let commands = controls(&others[0]);
    let Control::Command(start, no_settings, "") = commands[0] else { panic!("start") };
    assert!(no_settings.is_empty());
    let Command { number, run_number, kind, .. } = start;
    assert_eq!((number, run_number, kind), (3, 42, event_link::CommandKind::START.0));
    let Control::Command(_, settings, "dark") = commands[1] else { panic!("set") };
    let gain = Value {
        kind: ValueKind::SETTING,
        value_type: ValueType::U64,
        flags: Value::WRITABLE,
        log: u32::MAX,
        value: 5_u64.to_le_bytes(),
        min: 1_u64.to_le_bytes(),
        max: 9_u64.to_le_bytes(),
        unit: Text::new("dB").unwrap(),
        name: Text::new("gain").unwrap(),
    };
    assert_eq!((settings.len(), settings.iter().next()), (2, Some(gain)));

    let sent = controls(&others[1]);
    let refused = Answer { number: 3, answer: AnswerKind::Refused };
    assert_eq!(sent[0], Control::Answer(refused, "no trigger: hv is off"));
    assert_eq!(sent[1], Control::Answer(Answer { number: 4, answer: AnswerKind::Done }, ""));
    let Control::Report(values, "") = sent[2] else { panic!("two values") };
    let names: Vec<String> = values.iter().map(|value| value.name.as_str().to_owned()).collect();
    assert_eq!(names, ["triggers", "gain"]);
    let Control::Report(alarm, "61 °C") = sent[3] else { panic!("an alarm") };
    let alarm = alarm.iter().next().unwrap();
    assert_eq!((alarm.kind, alarm.flags, alarm.log), (ValueKind::ALARM, Value::RAISED, 0));
    let Control::Ping(Ping { cookie: 2 }, logs) = sent[4] else { panic!("a ping alone") };
    assert!(logs.is_empty());
    assert_eq!(sent[5], Control::Bye(Bye { reason: ByeReason::DONE, retry_ms: 0, detail: 3 }, ""));
}

#[test]
fn parts_marks_and_heartbeats_are_read() {
    let others = golden(OTHERS);
    let sent = data(others.last().unwrap());
    assert!(matches!(sent[0], Data::Heartbeat(sources) if sources.is_empty()));
    let Data::Heartbeat(sources) = sent[1] else { panic!("a heartbeat") };
    let flags = Heartbeat::IDLE | Heartbeat::LOW_WATER;
    let idle = Heartbeat { log: 0, flags, sequence: 1_012, low_water: 40 };
    assert!(sources.iter().eq([idle, Heartbeat { log: 1, flags: 0, sequence: 12, low_water: 0 }]));
    let Data::Fragments(_, records, b"xy") = sent[2] else { panic!("with groups") };
    let record = FragmentRecord { key: 5, bytes: 2, tag: 1, flags: 0, groups: 0b101 };
    assert_eq!(records.iter().next(), Some(record));
    let (Data::Part(first, begin), Data::Part(last, b"last")) = (sent[3], sent[4]) else {
        panic!("two parts");
    };
    assert_eq!((first.position, begin.len(), last.position), (0, 4_096, 4_096));
    assert_eq!((last.fragment_bytes, last.sequence, last.groups), (4_100, 12, 2));

    let marks: Vec<(Mark, &str)> = sent[5..]
        .iter()
        .map(|data| if let Data::Mark(mark, text) = data { (*mark, *text) } else { panic!() })
        .collect();
    let kinds: Vec<MarkKind> = marks.iter().map(|(mark, _)| mark.kind).collect();
    use MarkKind::{Abandoned, Begin, End, Numbering, Setting};
    assert_eq!(kinds, [Begin, End, Abandoned, Numbering, Setting]);
    assert_eq!((marks[0].0.run_number, marks[1].0.key_last), (42, 30));
    let (abandoned, text) = marks[2];
    let Mark { reason, count, key, key_last, flags, .. } = abandoned;
    assert_eq!((reason, count), (AbandonReason::BUFFER, 3));
    assert_eq!((key, key_last, flags, text), (31, 33, Mark::KEYS, "the ring was full"));
    assert_eq!(marks[4].1, "gain=5");
}

#[test]
fn a_skew_is_asked_for_and_as_much_of_it_granted_as_there_is() {
    let others = golden(OTHERS);
    let with_skew = others.iter().filter(|one| one.who.contains("skew")).flat_map(controls);
    let skews: Vec<u64> = with_skew
        .filter_map(|control| match control {
            Control::Hello(hello, _) => Some(hello.skew_bytes),
            Control::Welcome(welcome) => Some(welcome.skew_bytes),
            _ => None,
        })
        .collect();
    assert_eq!(skews, [1 << 30, 4 << 20]);
}

#[test]
fn what_a_later_minor_version_adds_is_passed_over() {
    let others = golden(OTHERS);
    let later = others.iter().find(|one| one.who.contains("later")).unwrap();
    let all = messages(later);
    let Ok(Some(Control::Ping(ping, logs))) = Control::read(&all[0].1) else { panic!("a ping") };
    assert_eq!(ping, Ping { cookie: 3 });
    let log = LogPing { log: 0, flags: LogPing::FULL, made: 1_004, held_bytes: 7 };
    assert!(logs.iter().eq([log]));
    assert_eq!(all[1].1.kind, 0x8014);
    assert_eq!(Control::read(&all[1].1), Ok(None));
}

#[test]
fn values_that_are_not_known_keep_their_numbers() {
    assert_eq!(ByeReason::LATER.to_string(), "later");
    assert_eq!((ByeReason(99).to_string(), ByeReason(99).name()), ("99".to_owned(), None));
    assert_eq!(AbandonReason(0).name(), None);
}

#[test]
fn texts_fit_their_fields_or_are_none() {
    assert_eq!(Text::<4>::new("abcd").unwrap().as_str(), "abcd");
    assert_eq!(Text::<4>::new("°C").unwrap().as_str(), "°C");
    assert_eq!((Text::<4>::new("abcde"), Text::<4>::new("a\0b")), (None, None));
}

/// Whole tables of a session, and a fragment of its records at their most.
#[test]
fn a_message_has_as_many_records_as_the_page_says() {
    let text = Text::new("").unwrap();
    let log = Log { log: 0, connection: 0, first: 0, made: 0, service: [0; 40], name: text };
    let mut buffer = vec![0; 16_384];
    let mut encoder = Encoder::begin(&mut buffer, 0, &Logs {});
    let count = (0..LOGS_MAX).take_while(|&index| encoder.push(&Log { log: index, ..log })).count();
    let bytes = encoder.finish("", &[]);
    let message = parse(&buffer[..bytes], 0, CONTROL).unwrap().expect("whole");
    let Ok(Some(Control::Logs(logs))) = Control::read(&message) else { panic!("logs") };
    assert_eq!((count, logs.len()), (127, 127));
    assert!(logs.iter().map(|log| log.log).eq(0..127));

    let mut buffer = vec![0; 131_064];
    let fixed = Fragments { log: 0, sequence: 0 };
    let mut encoder = Encoder::begin(&mut buffer, 0, &fixed);
    let record = FragmentRecord { key: 1, bytes: 1, tag: 0, flags: 0, groups: 0 };
    let count = (0..5_000).take_while(|_| encoder.push_short(&record, 16)).count();
    let bytes = encoder.finish("", &[7; 4_096]);
    let message = parse(&buffer[..bytes], 0, DATA).unwrap().expect("whole");
    let Ok(Some(Data::Fragments(_, records, body))) = Data::read(&message) else { panic!() };
    assert_eq!((count, records.len()), (RECORDS_MAX as usize, RECORDS_MAX as usize));
    assert!(fragments(records, body).all(|(_, bytes)| bytes == [7]));
}

#[test]
fn messages_and_values_at_their_bounds_are_read() {
    let mut control = vec![0; 16_384];
    let value = Value {
        kind: ValueKind::ALARM,
        value_type: ValueType::TEXT,
        flags: 0,
        log: 0,
        value: [0; 8],
        min: [0; 8],
        max: [0; 8],
        unit: Text::new("").unwrap(),
        name: Text::new(&"n".repeat(64)).unwrap(),
    };
    let mut encoder = Encoder::begin(&mut control, u32::MAX, &Report {});
    assert_eq!((0..200).take_while(|_| encoder.push(&value)).count(), 127);
    let text = "t".repeat(104);
    assert_eq!(encoder.finish(&text, &[]), 16_384);
    let message = parse(&control, u32::MAX, CONTROL).unwrap().expect("whole");
    let Ok(Some(Control::Report(values, got))) = Control::read(&message) else { panic!("report") };
    assert_eq!((values.len(), got), (127, &*text));

    let mut data = vec![0; 131_064];
    let last = Fragments { log: 0, sequence: SEQUENCE_END - 1 };
    let mut encoder = Encoder::begin(&mut data, 0, &last);
    let record = FragmentRecord { key: u64::MAX, bytes: 131_008, tag: 255, flags: 3, groups: 0 };
    assert!(encoder.push_short(&record, FRAGMENT_RECORD_BYTES_MIN));
    assert_eq!(encoder.finish("", &[1; 131_008]), 131_064);
    let message = parse(&data, 0, DATA).unwrap().expect("whole");
    assert!(matches!(Data::read(&message), Ok(Some(Data::Fragments(fixed, ..))) if fixed == last));

    let range = Mark {
        log: 0,
        kind: MarkKind::Abandoned,
        reason: AbandonReason::BUSY,
        sequence: SEQUENCE_END - ABANDONED_MAX,
        count: ABANDONED_MAX,
        key: 0,
        key_last: u64::MAX,
        flags: 0,
        run_number: 0,
    };
    let text = "x".repeat(TEXT_BYTES_MAX);
    let used = Data::Mark(range, &text).encode(7, &mut data);
    let message = parse(&data[..used], 7, DATA).unwrap().expect("whole");
    assert_eq!(Data::read(&message), Ok(Some(Data::Mark(range, &text))));
}
