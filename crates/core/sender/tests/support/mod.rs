//! A sender and a recorder in virtual time, with a wire between them that tests cut, hold and
//! chop.

use std::collections::BTreeMap;

use catchment_sender::testing::TestRecorder;
use catchment_sender::{
    Action, Connection, Fragment, Push, SenderConfig, SenderSession, SourceConfig, Step,
};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MS: u64 = 1_000_000;

/// Both ends, and what is between them.
pub(crate) struct Wire {
    pub sender: SenderSession,
    pub recorder: TestRecorder,
    pub now_ns: u64,
    /// Nothing passes, in either direction, and nobody is told.
    pub is_silent: bool,
    /// Bytes that pass at a time; 0: all.
    pub piece: usize,
    /// Connections are cut when so many more bytes of the sender, or of the recorder, have passed.
    pub cut_after: [Option<u64>; 2],
    /// What the session asked for beside connections.
    pub actions: Vec<Action>,
    /// How often a control connection was made.
    pub connects: usize,
    connections: BTreeMap<Connection, usize>,
    /// What sockets took of data connections that are held.
    unread: BTreeMap<usize, Vec<u8>>,
    next: usize,
}

/// What a socket takes that nobody reads.
const SOCKET_BYTES: usize = 20_000;

/// A sender `camera` with these sources.
pub(crate) fn config(sources: Vec<SourceConfig>) -> SenderConfig {
    SenderConfig { name: "camera".to_owned(), sources, ..SenderConfig::default() }
}

/// A sender `camera` with one source of small fragments, and a ring of so many bytes.
pub(crate) fn camera(buffer_bytes: u64) -> SenderConfig {
    let source = SourceConfig { fragment_bytes_max: 65_536, ..SourceConfig::default() };
    SenderConfig { buffer_bytes, ..config(vec![source]) }
}

impl Wire {
    pub fn new(config: SenderConfig) -> Self {
        Self {
            sender: SenderSession::new(config, 5, 1).expect("a configuration"),
            recorder: TestRecorder::default(),
            now_ns: 0,
            is_silent: false,
            piece: 0,
            cut_after: [None; 2],
            actions: Vec::new(),
            connects: 0,
            connections: BTreeMap::new(),
            unread: BTreeMap::new(),
            next: 0,
        }
    }

    /// One that is open.
    pub fn open(config: SenderConfig) -> Self {
        let mut wire = Self::new(config);
        wire.settle();
        assert!(wire.recorder.is_attached());
        wire
    }

    /// Appends a fragment that is accepted.
    pub fn push(&mut self, log: u32, key: u64, bytes: &[u8]) {
        let pushed = self.sender.push(log, Fragment::new(key, bytes)).expect("it is allowed");
        assert_eq!(pushed, Push::Accepted);
    }

    /// Lets pass what there is, without time.
    pub fn settle(&mut self) {
        while self.pass() {}
    }

    /// Lets pass what there is, without time, until something holds.
    pub fn settle_until(&mut self, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            assert!(self.pass(), "it does not come to hold");
        }
    }

    /// Lets time pass, and what comes with it.
    pub fn pass_time(&mut self, time_ns: u64) {
        let end_ns = self.now_ns + time_ns;
        loop {
            self.settle();
            if self.now_ns == end_ns {
                return;
            }
            let step = self.sender.work(self.now_ns);
            assert_eq!(step.action, None, "all is done");
            assert!(step.wake_at_ns > self.now_ns, "it does not ask to be called at once");
            self.now_ns = step.wake_at_ns.min(end_ns);
        }
    }

    /// Lets time pass until something holds, for a minute at most.
    pub fn pass_until(&mut self, holds: impl Fn(&Self) -> bool) {
        for _ in 0..6_000 {
            if holds(self) {
                return;
            }
            self.pass_time(10 * MS);
        }
        panic!("it does not come to hold");
    }

    /// Cuts all connections; both ends see it.
    pub fn cut(&mut self) {
        self.recorder.cut();
        for (connection, id) in std::mem::take(&mut self.connections) {
            self.recorder.closed(id);
            self.sender.closed(self.now_ns, connection, "cut");
        }
    }

    /// A data connection ends before the others.
    pub fn cut_data(&mut self, number: u16) {
        let connection = Connection::Data(number);
        let id = self.connections.remove(&connection).expect("it is open");
        self.recorder.closed(id);
        self.sender.closed(self.now_ns, connection, "the data connection was cut");
    }

    /// Does what both ends want to do now. Returns whether there was anything.
    fn pass(&mut self) -> bool {
        let mut has_passed = self.act();
        let connections: Vec<(Connection, usize)> =
            self.connections.iter().map(|(connection, id)| (*connection, *id)).collect();
        for (connection, id) in connections {
            if !self.connections.contains_key(&connection) {
                continue;
            }
            let is_held = self.recorder.is_held && matches!(connection, Connection::Data(_));
            // A socket that is full is still asked.
            let unread = self.unread.get(&id).map_or(0, Vec::len);
            let max = match (self.is_silent, is_held) {
                (true, _) => 0,
                (false, true) => SOCKET_BYTES - unread,
                (false, false) => self.bytes_max(0),
            };
            let slices = self.sender.transmit(self.now_ns, connection).0;
            let bytes: Vec<u8> = slices.into_iter().flatten().copied().take(max).collect();
            self.sender.sent(connection, bytes.len());
            has_passed |= !bytes.is_empty();
            if is_held {
                self.unread.entry(id).or_default().extend(bytes);
            } else {
                self.pass_bytes(0, bytes.len());
                let unread = self.unread.remove(&id).unwrap_or_default();
                self.recorder.received(id, &unread);
                self.recorder.received(id, &bytes);
            }
            if self.is_silent {
                continue;
            }
            let max = self.bytes_max(1);
            let outgoing = self.recorder.outgoing(id);
            let bytes: Vec<u8> = outgoing
                .map(|outgoing| outgoing.drain(..outgoing.len().min(max)).collect())
                .unwrap_or_default();
            self.pass_bytes(1, bytes.len());
            has_passed |= !bytes.is_empty();
            // A fault is kept as the reason of the break, which tests look at.
            let _fault = self.sender.received(self.now_ns, &bytes);
            if self.cut_after.contains(&Some(0)) {
                self.cut_after = [None; 2];
                self.cut();
                return true;
            }
            let is_over = self.recorder.outgoing(id).is_none_or(|outgoing| outgoing.is_empty());
            if is_over && self.recorder.is_closing(id) && self.connections.contains_key(&connection)
            {
                self.connections.remove(&connection);
                self.recorder.closed(id);
                self.sender.closed(self.now_ns, connection, "the recorder has closed");
                return true;
            }
        }
        has_passed
    }

    /// How much may pass now in one direction.
    fn bytes_max(&self, direction: usize) -> usize {
        let piece = if self.piece > 0 { self.piece } else { usize::MAX };
        self.cut_after[direction].map_or(piece, |left| piece.min(left as usize))
    }

    fn pass_bytes(&mut self, direction: usize, bytes: usize) {
        if let Some(left) = &mut self.cut_after[direction] {
            *left -= bytes as u64;
        }
    }

    fn act(&mut self) -> bool {
        let mut has_acted = false;
        loop {
            let Step { action, .. } = self.sender.work(self.now_ns);
            let Some(action) = action else { return has_acted };
            has_acted = true;
            match action {
                Action::Connect(connection) => {
                    self.connects += usize::from(connection == Connection::Control);
                    self.connections.insert(connection, self.next);
                    self.recorder.opened(self.next);
                    self.next += 1;
                    self.sender.opened(self.now_ns, connection);
                }
                Action::Close => {
                    for id in std::mem::take(&mut self.connections).into_values() {
                        self.recorder.closed(id);
                    }
                }
                action => self.actions.push(action),
            }
        }
    }
}
