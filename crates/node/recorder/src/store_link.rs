//! The way to a storage node: the session, its two connections, and the feed that sends frames on
//! them. Who owns the frames decides where the feed goes on, and what becomes of them.

use catchment_agent::Dial;
use catchment_frame::FileFrames;
use catchment_sender::{Action, Connection, SenderState, StreamSession};
use catchment_wire::storage_link::StoredFiles;

use crate::store_feed::{DATA, Feed, Frames, Stream};

/// Bytes sent in one call.
const SENT_BYTES: usize = 4 << 20;
const CONTROL: usize = 0;

/// How a storage node is reached.
pub(crate) struct StoreLink {
    pub(crate) session: StreamSession,
    pub(crate) feed: Feed,
    pub(crate) address: String,
    /// The header of the stream's files.
    pub(crate) header: Vec<u8>,
    dial: Box<dyn Dial>,
    now_ns: u64,
    /// The data connection is there, and the feed does not know yet where to go on.
    is_attached: bool,
    trouble: Option<String>,
}

/// What has happened to the session.
pub(crate) enum Happened {
    /// Its connections are gone, for that reason if there is one. It connects again.
    Away(Option<String>),
    /// It has ended, for a reason or in order.
    Ended(Option<String>),
}

impl StoreLink {
    pub(crate) fn new(dial: Box<dyn Dial>, session: StreamSession, address: String) -> Self {
        Self {
            session,
            feed: Feed::new(),
            address,
            header: Vec::new(),
            dial,
            now_ns: 0,
            is_attached: false,
            trouble: None,
        }
    }

    /// Takes what has arrived. Returns how many bytes.
    pub(crate) fn receive(&mut self, now_ns: u64) -> usize {
        self.now_ns = now_ns;
        for number in [CONTROL, DATA] {
            match self.dial.take_outcome(number) {
                Some(Ok(())) if number == DATA => self.is_attached = true,
                Some(Ok(())) => self.session.opened(now_ns, Connection::Control),
                Some(Err(error)) => self.closed(number, &error.to_string()),
                None => {}
            }
        }
        self.read_control()
    }

    /// The number at which to go on, if the data connection waits for [`StoreLink::go_on`].
    pub(crate) fn attached(&mut self) -> Option<u64> {
        std::mem::take(&mut self.is_attached).then(|| self.session.next())
    }

    /// Begins the data connection with the frame of that index.
    pub(crate) fn go_on(&mut self, frame: usize) {
        let mut attach = Vec::new();
        self.session.attach(&mut attach);
        self.feed.open(attach, frame, self.now_ns);
        self.session.opened(self.now_ns, Connection::Data(0));
    }

    /// Does what the session asks for, and writes to the control connection. Returns how many
    /// bytes, and what has happened.
    pub(crate) fn act(&mut self) -> (usize, Option<Happened>) {
        let mut happened = None;
        loop {
            match self.session.work(self.now_ns).action {
                None => break,
                Some(Action::Connect(connection)) => self.dial.connect(number_of(connection)),
                Some(Action::Close) => {
                    self.dial.close(CONTROL);
                    self.dial.close(DATA);
                    self.feed.close();
                    self.is_attached = false;
                    happened = Some(Happened::Away(match self.session.state() {
                        SenderState::Away(why) => Some(why.to_string()),
                        _ => None,
                    }));
                }
                Some(Action::End) => {
                    happened = Some(Happened::Ended(match self.session.state() {
                        SenderState::Ended(why) => why.map(|why| why.to_string()),
                        _ => None,
                    }));
                }
                Some(_) => {}
            }
        }
        (self.write_control(), happened)
    }

    /// Sends frames, up to a number of bytes, if the session is open. Returns how many bytes.
    pub(crate) fn send(&mut self, frames: &dyn Frames, close: Option<u64>) -> usize {
        if !self.session.is_open() {
            return 0;
        }
        let stream = Stream {
            header: &self.header,
            frames,
            close,
            generation: self.session.generation(),
            alive_ns: self.session.alive_ns(),
        };
        let mut budget = SENT_BYTES;
        match self.feed.send(&mut *self.dial, &stream, self.now_ns, &mut budget) {
            Ok(bytes) => {
                self.session.data_sent(bytes);
                bytes
            }
            Err(error) => {
                self.closed(DATA, &error.to_string());
                0
            }
        }
    }

    /// Breaks the session off, for that reason. It connects again.
    pub(crate) fn interrupt(&mut self, now_ns: u64, why: &str) {
        self.session.interrupt(now_ns, why);
        self.feed.close();
        self.is_attached = false;
    }

    /// What was wrong with what the node said, once.
    pub(crate) fn take_trouble(&mut self) -> Option<String> {
        self.trouble.take()
    }

    /// Which frames are in which of the files that the node has closed, if it has said something
    /// new of that.
    pub(crate) fn closed_files(&mut self) -> Option<Vec<FileFrames>> {
        let of = |files: StoredFiles| {
            let StoredFiles { first_file, last_file, files, first_frame, last_frame } = files;
            FileFrames { first_file, last_file, files, first_frame, last_frame }
        };
        Some(self.session.take_files()?.into_iter().map(of).collect())
    }

    /// When there is something to do at the latest.
    pub(crate) fn wake_at_ns(&self) -> u64 {
        match self.session.is_open() {
            true => self.feed.wake_at_ns(self.session.alive_ns()),
            false => u64::MAX,
        }
    }

    fn closed(&mut self, number: usize, why: &str) {
        self.dial.close(number);
        let connection = match number {
            DATA => {
                self.feed.close();
                self.is_attached = false;
                Connection::Data(0)
            }
            _ => Connection::Control,
        };
        self.session.closed(self.now_ns, connection, why);
    }

    fn read_control(&mut self) -> usize {
        let mut buffer = [0; 4 << 10];
        let mut all = 0;
        while self.session.is_read() {
            match self.dial.read(CONTROL, &mut buffer) {
                Ok(0) => break,
                Ok(bytes) => {
                    all += bytes;
                    if let Err(fault) = self.session.received(self.now_ns, &buffer[..bytes]) {
                        self.trouble = Some(format!("{}: {fault}", self.address));
                    }
                }
                Err(error) => {
                    self.closed(CONTROL, &error.to_string());
                    break;
                }
            }
        }
        all
    }

    fn write_control(&mut self) -> usize {
        let mut all = 0;
        loop {
            let bytes = self.session.outgoing(self.now_ns);
            if bytes.is_empty() {
                return all;
            }
            match self.dial.write(CONTROL, &[bytes]) {
                Ok(0) => return all,
                Ok(bytes) => {
                    self.session.control_sent(bytes);
                    all += bytes;
                }
                Err(error) => {
                    self.closed(CONTROL, &error.to_string());
                    return all;
                }
            }
        }
    }
}

fn number_of(connection: Connection) -> usize {
    if connection == Connection::Control { CONTROL } else { DATA }
}
