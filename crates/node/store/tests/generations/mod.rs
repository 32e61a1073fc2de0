//! A sender that says what a test tells it to, message by message: which of several writers of a
//! stream is heard, and what becomes of a frame that comes twice.

mod left_out;
mod liars;
mod unopened;

use catchment_fixtures::hadtu_sources;
use catchment_frame::{
    DealtPart, EntryNames, FileHeader, FileReader, FrameKind, Numbering, Schema,
};
use catchment_model::RunId;
use catchment_wire::session::{
    Attach, Bye, ByeReason, CONTROL, CONTROL_BYTES_MAX, Connection, Control, Encoder, Fields,
    Grant, Hello, Log, Logs, Ping, Preamble, Release, Service, Stage, Text, Welcome, parse,
};
use catchment_wire::storage_link::{Close, Data, End, Frame, Left, Open, StreamGrant, StreamLog};

use super::*;

const RUN: [u8; 16] = [7; 16];
const NAME: &str = "run";

/// A session of the stream, with its connections.
struct Sender {
    control: TcpStream,
    data: Option<TcpStream>,
    received: Vec<u8>,
    /// Messages read and written of control, and written of data.
    read: u32,
    written: u32,
    items: u32,
    welcome: Option<Welcome>,
    grant: Option<Grant>,
    bye: Option<Bye>,
    /// Why it was refused.
    why: String,
    /// What was said to be taken and durable last.
    taken: u64,
    durable: u64,
    /// What there is of the stream, as far as it was said.
    left: Option<Left>,
    file: Vec<u8>,
}

fn preamble(connection: Connection) -> [u8; 16] {
    Preamble {
        session_min: 1,
        session_max: 1,
        service: Service::Storage,
        service_min: 1,
        service_max: 1,
        connection,
    }
    .encode()
}

impl Sender {
    /// Says hello as that session, which was granted that generation before and holds frames below
    /// `made`. Reads until it is granted one, or refused.
    fn connect(address: SocketAddr, session: u64, generation: u64, made: u64) -> Self {
        Self::connect_with(address, session, (generation, made), 0)
    }

    /// The same, with such flags of the stream.
    fn connect_with(
        address: SocketAddr,
        session: u64,
        (generation, made): (u64, u64),
        flags: u32,
    ) -> Self {
        let hello = Hello {
            session,
            run: RUN,
            features: 0,
            buffer_bytes: 1 << 20,
            skew_bytes: 0,
            buffer_ms: 0,
            log_count: 1,
            data_connections: 1,
            release: Release::Durable,
            flags: 0,
            stage: Stage::None,
            stage_run: 0,
            command: 0,
            name: Text::new(NAME).unwrap(),
            program: Text::new("test").unwrap(),
        };
        let mut service = [0; 40];
        StreamLog { stream: 0, variant: 0, generation, flags }.write(&mut service);
        let name = Text::new("").unwrap();
        let log = Log { log: 0, connection: 0, first: 0, made, service, name };
        let mut sender = Self {
            control: TcpStream::connect(address).unwrap(),
            data: None,
            received: Vec::new(),
            read: 0,
            written: 0,
            items: 0,
            welcome: None,
            grant: None,
            bye: None,
            why: String::new(),
            taken: 0,
            durable: 0,
            left: None,
            file: Vec::new(),
        };
        sender.control.write_all(&preamble(Connection::Control)).unwrap();
        sender.say(|out, number| Encoder::begin(out, number, &hello).finish("", &[]));
        sender.say(|out, number| {
            let mut logs = Encoder::begin(out, number, &Logs {});
            assert!(logs.push(&log));
            logs.finish("", &[])
        });
        let mut answer = [0; 16];
        sender.control.read_exact(&mut answer).unwrap();
        assert_eq!(answer, preamble(Connection::Control));
        sender.read_until(|one| one.grant.is_some() || one.bye.is_some());
        sender
    }

    /// The same, until its stream has a writer and nobody else is heard.
    fn admitted(address: SocketAddr, session: u64, generation: u64, made: u64) -> Self {
        Self::admitted_with(address, session, (generation, made), 0)
    }

    /// One that asks what there is of the stream, and was told.
    fn asking(address: SocketAddr, session: u64) -> Self {
        let mut sender = Self::admitted_with(address, session, (0, 1 << 62), StreamLog::ASKS);
        let is_whole = |left: &Left, file: &[u8]| file.len() >= left.bytes as usize;
        sender.read_until(|one| one.left.is_some_and(|left| is_whole(&left, &one.file)));
        let bytes = sender.left.map_or(0, |left| left.bytes as usize);
        sender.file.truncate(bytes);
        sender
    }

    fn admitted_with(address: SocketAddr, session: u64, log: (u64, u64), flags: u32) -> Self {
        loop {
            let sender = Self::connect_with(address, session, log, flags);
            match sender.refused() {
                Some(ByeReason::LATER | ByeReason::NAME_IN_USE) => {}
                other => {
                    assert_eq!(other, None);
                    return sender;
                }
            }
        }
    }

    fn refused(&self) -> Option<ByeReason> {
        self.bye.map(|bye| bye.reason)
    }

    fn generation(&self) -> u64 {
        let grant = self.grant.expect("it was granted one");
        StreamGrant::read(&grant.service).unwrap().generation
    }

    fn say(&mut self, encode: impl FnOnce(&mut [u8], u32) -> usize) {
        let mut message = vec![0; CONTROL_BYTES_MAX as usize];
        let bytes = encode(&mut message, self.written);
        self.written += 1;
        self.control.write_all(&message[..bytes]).unwrap();
    }

    fn send(&mut self, message: &Data<'_>) {
        let mut out = vec![0; 1 << 16];
        let bytes = message.encode(self.items, &mut out);
        self.items += 1;
        self.data.as_ref().expect("it is attached").write_all(&out[..bytes]).unwrap();
    }

    /// Opens the data connection, and describes the stream's files.
    fn attach(&mut self, address: SocketAddr) {
        self.attach_with(address, None);
    }

    /// The same, of one of several nodes, if it is one.
    fn attach_with(&mut self, address: SocketAddr, part: Option<DealtPart>) {
        let Welcome { session, ticket, .. } = self.welcome.expect("it is welcome");
        let mut data = TcpStream::connect(address).unwrap();
        data.write_all(&preamble(Connection::Data)).unwrap();
        self.data = Some(data);
        self.send(&Data::Attach(Attach { session, ticket, connection: 0 }));
        let header = header(part);
        let open = Open { log: 0, header_bytes: header.len() as u32, offset: 0 };
        self.send(&Data::Open(open, &header));
    }

    /// Sends a frame without columns, which stands for one that was not kept.
    fn frame(&mut self, sequence: u64, generation: u64) {
        self.item(sequence, generation, 0);
    }

    /// The same, as that item of a stream that is dealt.
    fn item(&mut self, sequence: u64, generation: u64, item: u32) {
        let frame = Frame {
            log: 0,
            kind: FrameKind::SKIPPED.number(),
            flags: 0,
            sequence,
            generation,
            rows: 1,
            time_first_ns: 0,
            time_last_ns: 0,
            key_first: 0,
            key_last: 0,
            first_slice: 0,
            slice_count: 0,
            epoch: 0,
            columns_max: 0,
            item,
            numbers: 1,
            bytes_max: 0,
        };
        self.send(&Data::Frame(frame));
        self.send(&Data::End(End { log: 0, columns: 0, sequence }, &[]));
    }

    fn read_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            let Some(message) = parse(&self.received, self.read, CONTROL).unwrap() else {
                let mut bytes = [0; 4_096];
                let count = self.control.read(&mut bytes).unwrap();
                assert!(count > 0, "control ended");
                self.received.extend_from_slice(&bytes[..count]);
                continue;
            };
            let used = message.used;
            match Control::read(&message).unwrap().unwrap() {
                Control::Welcome(welcome) => self.welcome = Some(welcome),
                Control::Grants(grants) => self.grant = grants.iter().next(),
                Control::Positions(_, logs) => {
                    for log in logs.iter() {
                        (self.taken, self.durable) = (log.taken, log.durable);
                    }
                }
                Control::Bye(bye, why) => (self.bye, self.why) = (Some(bye), why.to_owned()),
                Control::Files(..) => {}
                Control::Left(left, parts) => {
                    assert_eq!(left.offset as usize, self.file.len());
                    self.left = Some(left);
                    parts.iter().for_each(|part| self.file.extend(part.bytes));
                }
                other => panic!("{other:?}"),
            }
            self.read += 1;
            self.received.drain(..used);
        }
    }

    /// Pings until it is told that items below that number are durable.
    fn wait_durable(&mut self, items: u64) {
        while self.durable < items {
            self.say(|out, number| {
                Encoder::begin(out, number, &Ping { cookie: 1 }).finish("", &[])
            });
            let read = self.read;
            self.read_until(|one| one.read > read);
        }
    }
}

fn header(part: Option<DealtPart>) -> Vec<u8> {
    FileHeader {
        run: RunId(RUN),
        run_number: 1,
        file_index: 0,
        file_id: 0,
        created_ns: 0,
        writer: String::new(),
        config: String::new(),
        emulated: false,
        schema: Schema::events(hadtu_sources(1, |_| true)).into(),
        ledger_entries: EntryNames::default(),
        locator: true,
        numbering: Numbering::Run,
        variant: 0,
        target: part.map(|part| format!("nodes:{}", part.number)),
        part,
        stream: 0,
        epoch: 0,
        superseded: Vec::new(),
        base: None,
    }
    .encode()
}

/// The numbers of the frames that the node has, in its order, of all its files.
fn stored(folder: &Path) -> Vec<u64> {
    let folder = folder.join("stored").join(NAME);
    assert!(verify(&Run::open(&folder).unwrap(), |_| {}).is_intact());
    numbers(&folder)
}

/// The numbers of the frames in a stream's folder, in the order of its files.
fn numbers(folder: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|found| found == "catch")).collect();
    files.sort();
    let mut numbers = Vec::new();
    for file in files {
        let reader = FileReader::open(std::fs::read(file).unwrap()).unwrap();
        numbers.extend(reader.frames().iter().map(|frame| frame.info.sequence));
    }
    numbers
}

#[test]
fn a_frame_that_comes_again_is_counted_and_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let mut sender = Sender::admitted(node.address(), 1, 0, 4);
    let generation = sender.generation();
    sender.attach(node.address());
    for sequence in [0, 1, 0, 1, 2] {
        sender.frame(sequence, generation);
    }
    sender.wait_durable(3);
    // What is durable is a repeat, too: it may come over another connection.
    drop(sender);
    let mut sender = Sender::admitted(node.address(), 1, generation, 4);
    assert_eq!(sender.grant.unwrap().next, 3);
    sender.attach(node.address());
    for sequence in [1, 2] {
        sender.frame(sequence, generation);
    }
    sender.send(&Data::Close(Close { log: 0, sequence: 3 }));
    sender.wait_durable(4);
    drop(sender);
    let counts = node.stop().unwrap();
    assert_eq!((counts.frames_taken, counts.frames_repeated), (3, 4));
    assert_eq!((counts.faults, counts.frames_unfit), (0, 0));
    assert_eq!(stored(folder.path()), [0, 1, 2]);
}

#[test]
fn the_older_of_two_writers_of_a_stream_is_refused_also_by_a_node_that_was_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), free())).unwrap();
    let address = node.address();
    let mut older = Sender::admitted(address, 1, 0, 8);
    let old = older.generation();
    older.attach(address);
    older.frame(0, old);
    older.wait_durable(1);
    drop(older);
    // The recorder was started again, and knows of no generation.
    let mut newer = Sender::admitted(address, 2, 0, 8);
    let new = newer.generation();
    assert!(new > old && newer.grant.unwrap().next == 1, "{new} {old}");
    newer.attach(address);
    newer.frame(1, new);
    newer.wait_durable(2);
    // The one that was believed dead says hello, while the other one is there.
    assert_eq!(Sender::connect(address, 1, old, 8).refused(), Some(ByeReason::SUPERSEDED));
    newer.frame(2, new);
    newer.wait_durable(3);
    // A frame of it is none that can be taken, over whatever connection.
    newer.frame(3, old);
    newer.read_until(|one| one.bye.is_some());
    assert_eq!(newer.refused(), Some(ByeReason::MALFORMED));
    drop(newer);
    let counts = node.stop().unwrap();
    assert_eq!((counts.frames_superseded, counts.frames_taken), (1, 3));
    assert_eq!(counts.refusals.get("superseded"), Some(&1), "{:?}", counts.refusals);
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    let refused = || match Sender::connect(address, 1, old, 8).refused() {
        Some(ByeReason::LATER) => None,
        other => Some(other),
    };
    let answer = std::iter::repeat_with(refused).find_map(|answer| answer).unwrap();
    assert_eq!(answer, Some(ByeReason::SUPERSEDED));
    let newest = Sender::admitted(address, 3, 0, 8);
    assert!(newest.generation() > new);
    drop(newest);
    node.stop().unwrap();
    assert_eq!(stored(folder.path()), [0, 1, 2]);
}

#[test]
fn who_asks_is_told_what_there_is_of_a_stream_whose_sender_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let address = node.address();
    let nothing = Sender::asking(address, 9);
    assert_eq!((nothing.left.unwrap().bytes, nothing.grant.unwrap().next), (0, 0));
    drop(nothing);
    let mut sender = Sender::admitted(address, 1, 0, 8);
    sender.attach(address);
    (0..3).for_each(|sequence| sender.frame(sequence, sender.generation()));
    sender.wait_durable(3);
    let ask = |session| Sender::connect_with(address, session, (0, 1 << 62), StreamLog::ASKS);
    assert_eq!(ask(9).refused(), Some(ByeReason::NAME_IN_USE), "another one is heard");
    drop(sender);
    let mut generations = Vec::new();
    for session in [9, 10] {
        let asking = Sender::asking(address, session);
        let left = asking.left.unwrap();
        assert_eq!((left.flags, left.frames, asking.grant.unwrap().next), (0, 3, 3));
        assert!(left.file_bytes > 0);
        let reader = FileReader::open(&asking.file).unwrap();
        assert_eq!((reader.header().run, reader.header().epoch), (RunId(RUN), 0));
        assert!(reader.closed() && reader.frames().is_empty());
        assert_eq!(reader.frames_ledger().unwrap().unwrap().sources.len(), 1);
        generations.push(asking.generation());
    }
    assert!(generations[0] < generations[1], "{generations:?}");
    // Another one goes on behind that, and ends the stream.
    let mut next = Sender::admitted(address, 2, 0, 8);
    assert!(next.grant.unwrap().next == 3 && next.generation() > generations[1]);
    next.attach(address);
    next.frame(3, next.generation());
    next.send(&Data::Close(Close { log: 0, sequence: 4 }));
    next.wait_durable(5);
    drop(next);
    let ended = Sender::asking(address, 11).left.unwrap();
    assert_eq!((ended.flags, ended.frames), (Left::ENDED, 4));
    // A stream that has ended is not cut.
    let cuts = StreamLog::ASKS | StreamLog::CUTS;
    let mut answers =
        std::iter::repeat_with(|| Sender::connect_with(address, 13, (0, 2), cuts).refused());
    let is_later = |answer: &Option<ByeReason>| {
        matches!(answer, Some(ByeReason::NAME_IN_USE | ByeReason::LATER))
    };
    let answer = answers.find(|answer| !is_later(answer));
    assert_eq!(answer, Some(Some(ByeReason::UNKNOWN)));
    // Nobody cuts without asking, and only of parts some frames are summed up.
    let sums = StreamLog::ASKS | StreamLog::SUMS;
    for flags in [StreamLog::CUTS, StreamLog::SUMS, sums, 13, 14, 15, 16, u32::MAX] {
        let refused = Sender::connect_with(address, 12, (0, 8), flags);
        assert_eq!(refused.refused(), Some(ByeReason::MALFORMED), "{flags}");
    }
    node.stop().unwrap();
    assert_eq!(stored(folder.path()), [0, 1, 2, 3]);
}

#[test]
fn who_asks_has_what_is_beyond_the_end_of_its_run_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let address = node.address();
    let mut sender = Sender::admitted(address, 1, 0, 8);
    sender.attach(address);
    (0..5).for_each(|sequence| sender.frame(sequence, sender.generation()));
    sender.wait_durable(5);
    drop(sender);
    let cuts = StreamLog::ASKS | StreamLog::CUTS;
    let next = |session, made, flags| {
        let mut asking = Sender::admitted_with(address, session, (0, made), flags);
        asking.read_until(|one| one.left.is_some());
        (asking.grant.unwrap().next, asking.left.unwrap().frames)
    };
    // Also after an answer, and again.
    assert_eq!(next(2, 1 << 62, StreamLog::ASKS), (5, 5));
    assert_eq!(next(3, 3, cuts), (3, 3));
    assert_eq!(next(4, 3, cuts), (3, 3));
    assert_eq!(next(5, 4, cuts), (3, 3), "there are no more");
    let mut next = Sender::admitted(address, 6, 0, 8);
    assert_eq!(next.grant.unwrap().next, 3);
    next.attach(address);
    next.frame(3, next.generation());
    next.wait_durable(4);
    drop(next);
    node.stop().unwrap();
    assert_eq!(stored(folder.path()), [0, 1, 2, 3]);
    let kept = folder.path().join("stored").join(NAME).join(format!("{NAME}-00000.superseded"));
    assert!(kept.is_file(), "what was cut off is kept");
}

#[test]
fn one_of_several_nodes_says_which_frames_it_has_and_is_cut_at_an_item() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let address = node.address();
    let part = Some(DealtPart { number: 0, count: 2, first_item: 0 });
    let mut sender = Sender::admitted_with(address, 1, (0, 8), StreamLog::DEALT);
    sender.attach_with(address, part);
    for (item, sequence) in (0..).zip([0, 1, 4, 5, 2, 7]) {
        sender.item(sequence, sender.generation(), item);
    }
    sender.wait_durable(6);
    drop(sender);
    const ASKS: u32 = StreamLog::DEALT | StreamLog::ASKS;
    // The next item, the numbers of frames in the order of items, and how many are counted.
    let ask = |session, made, flags| {
        let mut asking = Sender::admitted_with(address, session, (0, made), flags);
        asking.read_until(|one| one.left.is_some_and(|left| one.file.len() >= left.bytes as usize));
        let word = |at: usize| u64::from_le_bytes(asking.file[8 * at..][..8].try_into().unwrap());
        let count = word(0) as usize;
        let numbers: Vec<_> = (0..count).map(|at| (word(2 * at + 1), word(2 * at + 2))).collect();
        (asking.grant.unwrap().next, numbers, asking.left.unwrap().frames)
    };
    let all = vec![(0, 1), (4, 5), (2, 2), (7, 7)];
    for session in [2, 3] {
        assert_eq!(ask(session, 1 << 62, ASKS), (6, all.clone(), 6));
    }
    assert_eq!(ask(4, 3, ASKS | StreamLog::SUMS), (6, all, 3));
    let left = vec![(0, 1), (4, 4)];
    for session in [5, 6] {
        assert_eq!(ask(session, 5, ASKS | StreamLog::CUTS), (3, left.clone(), 3));
    }
    assert_eq!(ask(7, 5, ASKS | StreamLog::SUMS), (3, left, 3));
    let mut next = Sender::admitted_with(address, 8, (0, 8), StreamLog::DEALT);
    assert_eq!(next.grant.unwrap().next, 3);
    next.attach_with(address, part);
    next.item(2, next.generation(), 3);
    next.wait_durable(4);
    drop(next);
    node.stop().unwrap();
    assert_eq!(numbers(&folder.path().join("stored").join(NAME)), [0, 1, 4, 2]);
}

#[test]
fn a_frame_that_one_of_several_nodes_has_as_two_items_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let address = node.address();
    let part = Some(DealtPart { number: 0, count: 2, first_item: 0 });
    let mut sender = Sender::admitted_with(address, 1, (0, 16), StreamLog::DEALT);
    sender.attach_with(address, part);
    // Left out, it is not asked what it had, and gets 3 to 5 again.
    for (item, sequence) in (0..).zip([0, 1, 2, 3, 4, 5, 6, 3, 4, 5]) {
        sender.item(sequence, sender.generation(), item);
    }
    sender.wait_durable(10);
    drop(sender);
    const ASKS: u32 = StreamLog::DEALT | StreamLog::ASKS;
    for (session, made, flags, frames) in
        [(2, 1 << 62, ASKS, 7), (3, 5, ASKS | StreamLog::SUMS, 5), (4, 1 << 62, ASKS, 7)]
    {
        let mut asking = Sender::admitted_with(address, session, (0, made), flags);
        asking.read_until(|one| one.left.is_some());
        assert_eq!((asking.grant.unwrap().next, asking.left.unwrap().frames), (10, frames));
    }
    node.stop().unwrap();
}

#[test]
fn a_node_that_was_started_again_says_what_there_is_and_how_old_that_is() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let address = node.address();
    let mut sender = Sender::admitted(address, 1, 0, 8);
    sender.attach(address);
    sender.frame(0, sender.generation());
    sender.wait_durable(1);
    drop(sender);
    node.stop().unwrap();
    let files = std::fs::read_dir(folder.path().join("stored").join(NAME)).unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(1_000);
    for file in files {
        let file = std::fs::File::options().write(true).open(file.unwrap().path()).unwrap();
        file.set_modified(old).unwrap();
    }
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    let asking = Sender::asking(address, 2);
    let left = asking.left.unwrap();
    assert_eq!((left.frames, asking.grant.unwrap().next), (1, 1));
    assert!(left.age_ns >= 1_000_000_000_000, "{} ns", left.age_ns);
    drop(asking);
    node.stop().unwrap();
}

#[test]
fn a_sender_with_three_faults_between_which_nothing_was_taken_is_told_not_to_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let address = node.address();
    let (mut generation, mut retries_ms) = (0, Vec::new());
    for life in 0..6 {
        let mut sender = Sender::admitted(address, 1, generation, 8);
        generation = sender.generation();
        sender.attach(address);
        if life == 2 {
            sender.frame(0, generation);
            sender.wait_durable(1);
        }
        sender.frame(7, generation);
        sender.read_until(|one| one.bye.is_some());
        assert_eq!(sender.refused(), Some(ByeReason::MALFORMED));
        retries_ms.push(sender.bye.unwrap().retry_ms);
    }
    assert_eq!(retries_ms, [1_000, 1_000, 1_000, 1_000, 0, 0]);
    assert_eq!(node.stop().unwrap().faults, 6);
}
