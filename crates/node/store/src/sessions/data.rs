//! What data connections bring: the header of files, frames, their columns, and the stream's end.

use catchment_agent::{Flow, Incoming};
use catchment_wire::session::{Attach, ByeReason, Fault, Fixed as _, Message, parse_head};
use catchment_wire::storage_link::{
    self, BOUNDS, Close, Column, Data, End, Frame, LEDGER_RECORD_BYTES, Open,
};

use super::{Ended, Kind, Sessions};
use crate::frames::{Partial, Refusal, StreamHeader};
use crate::items::{Item, StoredFrame};
use crate::memory::Reserved;
use crate::receive::{Slot, Stream};
use crate::state::StreamKey;

/// The body of a message that is taken while it comes.
pub(super) struct Body {
    kind: BodyKind,
    /// Bytes that are missing, and padding behind them.
    missing: usize,
    padding: usize,
}

enum BodyKind {
    Header,
    Column,
    /// With the records so far.
    Ledger(End, Vec<u8>),
    /// Of no use.
    Dropped,
}

/// Below this, bytes come with those of the next message.
const INTO_BYTES_MIN: usize = 4 << 10;

impl Sessions {
    /// Takes the next bytes of a data connection.
    pub(super) fn take_data(&mut self, endpoint: usize, bytes: &[u8]) -> Result<Flow, Fault> {
        let Some(connection) = self.connection(endpoint) else { return Ok(Flow::Refused) };
        if let Some(body) = connection.body.take() {
            return Ok(self.take_body(endpoint, body, bytes));
        }
        let Some(message) = parse_head(bytes, connection.read, BOUNDS)? else {
            return Ok(Flow::Short);
        };
        let data = Data::read(&message)?;
        let is_attached = connection.stream.is_some();
        let flow = match data {
            Some(Data::Attach(attach)) if !is_attached => {
                if message.used > bytes.len() {
                    return Ok(Flow::Short);
                }
                self.attach(endpoint, &attach, message.used)
            }
            _ if !is_attached => return Err(Fault::Connection { got: message.kind }),
            Some(Data::Attach(_)) => return Err(Fault::Connection { got: Attach::TYPE }),
            data => self.take_message(endpoint, &message, data)?,
        };
        if let (Flow::Used(_), Some(connection)) = (flow, self.connection(endpoint)) {
            connection.read = connection.read.wrapping_add(1);
        }
        Ok(flow)
    }

    /// A data connection says whose it is.
    fn attach(&mut self, endpoint: usize, attach: &Attach, used: usize) -> Flow {
        let of_ticket = self.by_name.iter_mut().find(|(_, one)| {
            one.number == attach.session && one.ticket == attach.ticket && one.data.is_none()
        });
        let name = of_ticket.filter(|_| attach.connection == 0).map(|(name, session)| {
            session.data = Some(endpoint);
            name.clone()
        });
        let is_known = name.is_some();
        let Some(connection) = self.connection(endpoint) else { return Flow::Refused };
        (connection.stream, connection.silent_ns) = (name, 0);
        if is_known {
            return Flow::Used(used);
        }
        connection.kind = Kind::Over;
        self.state.count(|counters| &counters.faults, 1);
        Flow::Refused
    }

    /// Takes a message whose head is there.
    fn take_message(
        &mut self,
        endpoint: usize,
        message: &Message<'_>,
        data: Option<Data<'_>>,
    ) -> Result<Flow, Fault> {
        let name = self.connection(endpoint).and_then(|one| one.stream.clone()).unwrap_or_default();
        let log = match data {
            Some(Data::Open(Open { log, .. }, _) | Data::Frame(Frame { log, .. })) => log,
            Some(Data::Column(Column { log, .. }, _) | Data::End(End { log, .. }, _)) => log,
            Some(Data::Close(Close { log, .. })) => log,
            _ => 0,
        };
        if log != 0 {
            return Err(Fault::UnknownLog { got: log });
        }
        let kind = match data {
            None | Some(Data::Alive | Data::Attach(_)) => Ok(Some(BodyKind::Dropped)),
            Some(Data::Open(open, _)) => self.begin_header(&name, &open),
            Some(Data::Frame(frame)) => self.begin_frame(&name, &frame)?,
            Some(Data::Column(column, _)) => self.begin_column(&name, &column),
            Some(Data::End(end, _)) => self.begin_end(&name, end, message.body_bytes),
            Some(Data::Close(close)) => self.take_close(&name, &close)?,
        };
        let kind = match kind {
            Ok(Some(kind)) => kind,
            Ok(None) => return Ok(Flow::Held),
            Err(refusal) => {
                self.refuse(endpoint, refusal);
                return Ok(Flow::Held);
            }
        };
        let (missing, at) = (message.body_bytes, message.body_at());
        let body = Body { kind, missing, padding: missing.next_multiple_of(8) - missing };
        if missing > 0 {
            if let Some(connection) = self.connection(endpoint) {
                connection.body = Some(body);
            }
        } else if let Err(refusal) = self.end_body(endpoint, body.kind) {
            self.refuse(endpoint, refusal);
            return Ok(Flow::Held);
        }
        Ok(Flow::Used(at))
    }

    /// Ends a session for what it brought.
    fn refuse(&mut self, endpoint: usize, refusal: Refusal) {
        let ended = match refusal {
            Refusal::Corrupt(text) => {
                self.state.count(|counters| &counters.frames_corrupt, 1);
                Ended::new(ByeReason::MALFORMED, 100, 0, text)
            }
            Refusal::Unfit(text) => {
                self.state.count(|counters| &counters.frames_unfit, 1);
                Ended::new(ByeReason::DOES_NOT_FIT, 0, 0, text)
            }
            Refusal::Later(text) => {
                self.state.count(|counters| &counters.sessions_refused, 1);
                self.state.count(|counters| &counters.headers_refused, 1);
                Ended::later(text)
            }
        };
        self.end_of(endpoint, ended);
    }

    fn stream(&mut self, name: &str) -> Option<&mut Stream> {
        match self.streams.get_mut(name) {
            Some(Slot::Ready(stream)) => Some(stream),
            _ => None,
        }
    }

    fn begin_header(&mut self, name: &str, open: &Open) -> Result<Option<BodyKind>, Refusal> {
        loop {
            let (Some(session), Some(Slot::Ready(stream))) =
                (self.by_name.get_mut(name), self.streams.get(name))
            else {
                return Ok(None);
            };
            match session.header.begin(open, &self.state.headers, stream.header.is_some()) {
                // There is, once one is closed that is kept for a sender that asks again.
                Err(Refusal::Later(_)) if self.close_ended() => {}
                begun => return begun.map(|()| Some(BodyKind::Header)),
            }
        }
    }

    /// A frame begins. None while there is no room for it.
    fn begin_frame(
        &mut self,
        name: &str,
        frame: &Frame,
    ) -> Result<Result<Option<BodyKind>, Refusal>, Fault> {
        let (Some(session), Some(Slot::Ready(stream))) =
            (self.by_name.get_mut(name), self.streams.get(name))
        else {
            return Ok(Ok(None));
        };
        if frame.generation != session.generation {
            self.state.count(|counters| &counters.frames_superseded, 1);
            let (field, max, got) = ("generation", session.generation, frame.generation);
            return Err(Fault::Bound { field, min: max, max, got });
        }
        if session.frame.is_some() {
            return Err(Fault::Connection { got: Frame::TYPE });
        }
        let StreamKey { stream: number, variant, is_dealt, .. } = stream.state.key;
        // A frame has the low half of its item's count: a connection begins where the node is.
        let ahead = frame.item.wrapping_sub(stream.taken as u32) as i32;
        if is_dealt && ahead != 0 {
            let got = stream.taken.wrapping_add_signed(ahead.into());
            return Err(Fault::Sequence { expected: stream.taken, got });
        }
        let item = if is_dealt { stream.taken } else { frame.sequence };
        if item < stream.taken {
            self.state.count(|counters| &counters.frames_repeated, 1);
            session.repeats = true;
            return Ok(Ok(Some(BodyKind::Dropped)));
        }
        if item > stream.taken {
            let (expected, got) = (stream.taken, item);
            return Err(Fault::Sequence { expected, got });
        }
        let unfit = |text: String| Ok(Err(Refusal::Unfit(text)));
        let Some(header) = stream.header.as_ref().filter(|_| stream.input.is_some()) else {
            return unfit(
                "a frame comes behind the header of its files, and before the end".into(),
            );
        };
        if let Err(refusal) = Partial::check(frame, header) {
            return Ok(Err(refusal));
        }
        let (bytes, capacity) = (Partial::memory_bytes(frame), self.state.memory.capacity());
        if bytes > capacity {
            let text = format!("the buffers of a frame may take {bytes} bytes, and memory.budget");
            return unfit(format!("{text} has {capacity} for frames here"));
        }
        let room = stream.has_room().then(|| self.state.memory.reserve(bytes));
        let Some(memory) = room.flatten() else { return Ok(Ok(None)) };
        session.repeats = false;
        let end = if is_dealt { item + 1 } else { item + frame.numbers };
        let origin = (number, variant);
        session.frame = Some(Partial::new(*frame, origin, end, memory, self.now_ns));
        Ok(Ok(Some(BodyKind::Dropped)))
    }

    fn begin_column(&mut self, name: &str, column: &Column) -> Result<Option<BodyKind>, Refusal> {
        let (Some(session), Some(Slot::Ready(stream))) =
            (self.by_name.get_mut(name), self.streams.get(name))
        else {
            return Ok(None);
        };
        if session.repeats {
            return Ok(Some(BodyKind::Dropped));
        }
        let (Some(partial), Some(header)) = (&mut session.frame, &stream.header) else {
            return Err(Refusal::Unfit("a column comes without its frame".to_owned()));
        };
        if column.sequence != partial.sequence() {
            return Err(Refusal::Unfit("a column comes with another frame".to_owned()));
        }
        partial.begin_column(column, header, &self.buffers)?;
        Ok(Some(BodyKind::Column))
    }

    fn begin_end(
        &mut self,
        name: &str,
        end: End,
        bytes: usize,
    ) -> Result<Option<BodyKind>, Refusal> {
        let Some(session) = self.by_name.get_mut(name) else { return Ok(None) };
        if session.repeats {
            session.repeats = false;
            return Ok(Some(BodyKind::Dropped));
        }
        if session.frame.is_none() {
            return Err(Refusal::Unfit("a frame ends that has not begun".to_owned()));
        }
        // A body is no longer than a message.
        let records = Vec::with_capacity(bytes.next_multiple_of(LEDGER_RECORD_BYTES));
        Ok(Some(BodyKind::Ledger(end, records)))
    }

    fn take_close(
        &mut self,
        name: &str,
        close: &Close,
    ) -> Result<Result<Option<BodyKind>, Refusal>, Fault> {
        let is_within = self.by_name.get(name).is_some_and(|session| session.frame.is_some());
        let Some(stream) = self.stream(name) else { return Ok(Ok(None)) };
        if close.sequence < stream.taken {
            return Ok(Ok(Some(BodyKind::Dropped)));
        }
        if close.sequence > stream.taken || is_within {
            return Err(Fault::Sequence { expected: stream.taken, got: close.sequence });
        }
        if !stream.has_room() {
            return Ok(Ok(None));
        }
        stream.pass_on(Item::Close(close.sequence));
        stream.input = None;
        (stream.taken, stream.description) = (close.sequence + 1, None);
        Ok(Ok(Some(BodyKind::Dropped)))
    }

    /// Takes bytes of a body, and of the padding behind it.
    fn take_body(&mut self, endpoint: usize, mut body: Body, bytes: &[u8]) -> Flow {
        let now = bytes.len().min(body.missing);
        self.fill(endpoint, &mut body, now, &mut |room| room.copy_from_slice(&bytes[..now]));
        let padding = (bytes.len() - now).min(body.padding);
        if body.missing > 0 {
            let goes_into = now == bytes.len() && body.missing >= INTO_BYTES_MIN;
            self.keep(endpoint, body);
            return if goes_into { Flow::Into } else { Flow::Used(now) };
        }
        body.padding -= padding;
        if body.padding > 0 {
            self.keep(endpoint, body);
        } else if let Err(refusal) = self.end_body(endpoint, body.kind) {
            self.refuse(endpoint, refusal);
            return Flow::Held;
        }
        Flow::Used(now + padding)
    }

    fn keep(&mut self, endpoint: usize, body: Body) {
        if let Some(connection) = self.connection(endpoint) {
            connection.body = Some(body);
        }
    }

    /// The next bytes of a body, which go to where they belong.
    pub(crate) fn incoming(&mut self, endpoint: usize, source: &mut dyn Incoming) -> Flow {
        let Some(connection) = self.connection(endpoint) else { return Flow::Refused };
        match connection.kind {
            Kind::Data if connection.refusal.is_none() => {}
            // Its session has ended with its control connection, in the middle of a body.
            Kind::Over => return Flow::Refused,
            _ => return Flow::Held,
        }
        let Some(mut body) = connection.body.take() else { return Flow::Taken };
        let (missing, mut read) = (body.missing, 0);
        let wanted = missing.min(READ_BYTES);
        let mut scratch = [0; INTO_BYTES_MIN];
        match body.kind {
            BodyKind::Column => {
                let name = connection.stream.clone().unwrap_or_default();
                let session = self.by_name.get_mut(&name);
                if let Some(partial) = session.and_then(|session| session.frame.as_mut()) {
                    read = source.read(partial.room(wanted));
                    partial.filled(read);
                }
                body.missing -= read;
            }
            _ => {
                let wanted = wanted.min(scratch.len());
                read = source.read(&mut scratch[..wanted]);
                self.fill(endpoint, &mut body, read, &mut |room| {
                    room.copy_from_slice(&scratch[..read]);
                });
            }
        }
        if let Some(connection) = self.connection(endpoint) {
            connection.bytes += read as u64;
            if read > 0 {
                connection.silent_ns = 0;
            }
        }
        if body.missing > 0 || body.padding > 0 {
            let flow = if body.missing > 0 { Flow::Into } else { Flow::Taken };
            self.keep(endpoint, body);
            return flow;
        }
        if let Err(refusal) = self.end_body(endpoint, body.kind) {
            self.refuse(endpoint, refusal);
        }
        Flow::Taken
    }

    /// Has `write` put the next so many bytes of a body where they belong.
    fn fill(
        &mut self,
        endpoint: usize,
        body: &mut Body,
        bytes: usize,
        write: &mut dyn FnMut(&mut [u8]),
    ) {
        body.missing -= bytes;
        let name = self.connection(endpoint).and_then(|one| one.stream.clone()).unwrap_or_default();
        let session = self.by_name.get_mut(&name);
        match &mut body.kind {
            BodyKind::Dropped => {}
            BodyKind::Column => {
                if let Some(partial) = session.and_then(|session| session.frame.as_mut()) {
                    write(partial.room(bytes));
                    partial.filled(bytes);
                }
            }
            BodyKind::Ledger(_, records) => {
                let begin = records.len();
                records.resize(begin + bytes, 0);
                write(&mut records[begin..]);
            }
            BodyKind::Header => {
                let mut part = vec![0; bytes];
                write(&mut part);
                session.into_iter().for_each(|session| session.header.take(&part));
            }
        }
    }

    /// All of a message is there.
    fn end_body(&mut self, endpoint: usize, kind: BodyKind) -> Result<(), Refusal> {
        let name = self.connection(endpoint).and_then(|one| one.stream.clone()).unwrap_or_default();
        let (Some(session), Some(Slot::Ready(stream))) =
            (self.by_name.get_mut(&name), self.streams.get_mut(&name))
        else {
            return Ok(());
        };
        match kind {
            BodyKind::Dropped => Ok(()),
            BodyKind::Column => session.frame.as_mut().map_or(Ok(()), Partial::end_column),
            BodyKind::Header => match session.header.finish() {
                Some((bytes, memory)) => stream.describe(bytes, memory),
                None => Ok(()),
            },
            BodyKind::Ledger(end, records) => {
                let (Some(partial), Some(header)) = (session.frame.take(), &stream.header) else {
                    return Ok(());
                };
                let (bytes, begun_ns) = (partial.bytes(), partial.begun_ns());
                let frame = partial.finish(&end, &records, header)?;
                let frame = StoredFrame { taken_ns: self.now_ns, ..frame };
                stream.state.take.took(self.now_ns.saturating_sub(begun_ns));
                (stream.taken, stream.description) = (frame.end, None);
                stream.pass_on(Item::Frame(Box::new(frame)));
                self.state.count(|counters| &counters.frames_taken, 1);
                self.state.count(|counters| &counters.bytes_taken, bytes);
                Ok(())
            }
        }
    }
}

impl Stream {
    /// The header of its files has come.
    fn describe(&mut self, bytes: Vec<u8>, memory: Reserved) -> Result<(), Refusal> {
        if let Some(known) = &self.header {
            let is_same = known.is(&bytes);
            let changed = || Refusal::Unfit("the header of files has changed".to_owned());
            return is_same.then_some(()).ok_or_else(changed);
        }
        let header = StreamHeader::decode(bytes, memory)?;
        let (of, key) = (&header.header, &self.state.key);
        if (of.run.0, of.stream, of.variant) != (key.run, key.stream, key.variant) {
            return Err(Refusal::Unfit("the header of files is of another stream".to_owned()));
        }
        if of.part.is_some() != key.is_dealt {
            let text = "a stream that is dealt, and no other, has a part in the header of files";
            return Err(Refusal::Unfit(text.to_owned()));
        }
        self.pass_on(Item::Header(Box::new(header.header.clone())));
        self.header = Some(header);
        Ok(())
    }
}

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;
const _: () = assert!(storage_link::VERSION == 1, "one version is spoken");

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use catchment_agent::Waker;
    use catchment_encoder::Buffers;
    use catchment_fixtures::Random;
    use catchment_net::LinkAccess;
    use catchment_wire::session::{CONTROL, Control, parse};

    use super::super::{Changes, Connection, Said, Session};
    use super::*;
    use crate::frames::HeaderParts;
    use crate::state::{NodeState, StreamState};

    /// Bytes that nobody may read.
    #[derive(Debug)]
    struct Untouched;

    impl Incoming for Untouched {
        fn read(&mut self, _room: &mut [u8]) -> usize {
            panic!("read of a connection whose session has ended");
        }
    }

    fn sessions() -> Sessions {
        let state = Arc::new(NodeState::new(1 << 20, &[]));
        let (orders, _) = crossbeam_channel::bounded(1);
        let entropy = Box::new(Random::new(1));
        let (buffers, access) = (Buffers::new(1 << 20), LinkAccess::default());
        Sessions::new(entropy, state, orders, buffers, access)
    }

    #[test]
    fn a_column_whose_session_has_ended_is_not_read_on() {
        let mut sessions = sessions();
        sessions.open(0, None);
        let body = Body { kind: BodyKind::Column, missing: 100_000, padding: 0 };
        sessions.connections[0] =
            Some(Connection { kind: Kind::Over, body: Some(body), ..Connection::default() });
        assert_eq!(sessions.incoming(0, &mut Untouched), Flow::Refused);
    }
    /// A stream of which so many items are durable, and its session.
    fn opened(taken: u64) -> (Stream, Session) {
        let key = StreamKey {
            name: "run".to_owned(),
            run: [7; 16],
            stream: 0,
            variant: 0,
            is_dealt: true,
        };
        let stream = Stream {
            state: Arc::new(StreamState::new(key, taken)),
            input: None,
            waker: Waker::default(),
            taken,
            is_new: false,
            header: None,
            generation: 1,
            kept: None,
            idle_ns: 0,
            description: None,
            faults: (0, 0, 0),
        };
        let session = Session {
            number: 1,
            ticket: [0; 16],
            token: "".into(),
            generation: 1,
            control: 0,
            data: None,
            welcome: None,
            cookie: 0,
            said: Said::of(&stream),
            ended: None,
            description: None,
            header: HeaderParts::default(),
            frame: None,
            repeats: false,
        };
        (stream, session)
    }

    #[test]
    fn a_sender_is_told_that_no_file_of_its_stream_is_closed_any_more() {
        for (durable, told) in [(0, 0), (5, 1)] {
            let (stream, mut session) = opened(durable);
            session.said.files = 0;
            let now = Said::of(&stream);
            let (mut answer, mut written) = (Vec::new(), 0);
            for _ in 0..2 {
                let files = (now.files != session.said.files).then_some(&[][..]);
                let (is_new, received, is_held) = (true, 0, false);
                let changes = Changes { now, files, is_new, received, is_held };
                session.write(&mut answer, &mut written, changes);
            }
            let mut files = 0;
            let (mut number, mut rest) = (0, &answer[..]);
            while let Some(message) = parse(rest, number, CONTROL).unwrap() {
                if let Some(Control::Files(said, records)) = Control::read(&message).unwrap() {
                    assert_eq!((said.files, records.iter().count()), (0, 0));
                    files += 1;
                }
                (number, rest) = (number + 1, &rest[message.used..]);
            }
            assert_eq!((files, rest.len()), (told, 0), "{durable}");
        }
    }

    #[test]
    fn a_session_whose_header_has_no_memory_is_to_come_later_and_is_counted() {
        let mut sessions = sessions();
        for name in ["one", "other"] {
            let (stream, session) = opened(0);
            sessions.streams.insert(name.to_owned(), Slot::Ready(Box::new(stream)));
            sessions.by_name.insert(name.to_owned(), session);
        }
        let (kind, stream) = (Kind::Data, Some("other".to_owned()));
        sessions.connections = vec![Some(Connection { kind, stream, ..Connection::default() })];
        // Four times as much of a twelfth of 1 MiB.
        let open = Open { log: 0, header_bytes: 20_000, offset: 0 };
        assert!(sessions.begin_header("one", &open).is_ok());
        let Err(refusal) = sessions.begin_header("other", &open) else { panic!("it has room") };
        sessions.refuse(0, refusal);
        let ended = sessions.by_name["other"].ended.as_ref().and_then(|ended| ended.bye);
        assert_eq!(ended.map(|bye| bye.reason), Some(ByeReason::LATER));
        let seen = sessions.state.snapshot();
        let counts = (seen.headers_refused, seen.sessions_refused, seen.refusals["later"]);
        assert_eq!(counts, (1, 1, 1));
    }

    #[test]
    fn a_fault_names_the_whole_count_of_a_dealt_frame_that_does_not_follow() {
        let (mut sessions, taken) = (sessions(), (1 << 32) + 5);
        let (stream, session) = opened(taken);
        sessions.streams.insert("run".to_owned(), Slot::Ready(Box::new(stream)));
        sessions.by_name.insert("run".to_owned(), session);
        let mut begin = |item| {
            let frame = Frame {
                log: 0,
                kind: 0,
                flags: 0,
                sequence: 40,
                generation: 1,
                rows: 1,
                time_first_ns: 0,
                time_last_ns: 0,
                key_first: 0,
                key_last: 0,
                first_slice: 0,
                slice_count: 1,
                epoch: 0,
                columns_max: 1,
                item,
                numbers: 1,
                bytes_max: 1,
            };
            sessions.begin_frame("run", &frame).map(|begun| begun.is_err())
        };
        for (item, got) in [(9, taken + 4), (4, taken - 1), (u32::MAX, taken - 6)] {
            assert_eq!(begin(item), Err(Fault::Sequence { expected: taken, got }));
        }
        // The next one lacks no more than the header of its files.
        assert_eq!(begin(5), Ok(true));
    }
}
