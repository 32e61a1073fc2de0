//! What a front-end reports of itself: its counters, settings, alarms and status. The newest value
//! of each replaces the one before, and all of them are told to each recorder anew.
//! docs/spec/session.md, section 9.

use std::collections::BTreeMap;
use std::sync::Arc;

use catchment_wire::session::{NONE, Report, Text, Value, ValueKind, ValueType};
use parking_lot::Mutex;

use crate::control::Outbox;

/// Names that a front-end may report.
const NAMES_MAX: usize = 500;
/// The bytes of a text.
const TEXT_BYTES_MAX: usize = 1_024;
/// Records of one message, with each ping: a recorder takes 100 a second.
const RECORDS: usize = 40;

/// What a front-end reports of itself. Any thread may use it.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    by_name: BTreeMap<String, Entry>,
    status: (String, bool),
    /// How often something was reported.
    made: u64,
    /// The name that was told last: the next one goes first.
    last: String,
}

struct Entry {
    report: Reported,
    /// The number of the report that said it.
    made: u64,
    is_new: bool,
}

#[derive(Clone, PartialEq)]
enum Reported {
    Counter(Reading, String),
    Setting(Setting),
    Alarm(Option<String>),
}

/// A value that is reported.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// True or false.
    Bool(bool),
    /// Signed.
    I64(i64),
    /// Unsigned.
    U64(u64),
    /// Floating point.
    F64(f64),
    /// A text of at most 1,024 bytes.
    Text(String),
}

/// Something that a front-end is set to.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The value.
    pub value: Reading,
    /// Its unit, at most 32 bytes.
    pub unit: String,
    /// The lowest and the highest value, of the value's type; none: no bounds.
    pub bounds: Option<(Reading, Reading)>,
    /// Whether it can be set from the page: a front-end with callbacks is asked then.
    pub is_writable: bool,
}

/// A report that cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Its name.
    #[error("the name {0:?} is not 1 to 64 of letters, digits, `-`, `_`, `.`")]
    Name(String),
    /// Its unit or text.
    #[error("{of} has at most {bytes_max} bytes and no zero in it")]
    Text {
        /// Which one.
        of: &'static str,
        /// Its bytes at most.
        bytes_max: usize,
    },
    /// There are very many.
    #[error("a front-end reports at most {NAMES_MAX} names")]
    TooMany,
    /// Bounds of another type than the value.
    #[error("the bounds of {0:?} are not of the type of its value")]
    Bounds(String),
}

impl Reports {
    /// Tells a count of something.
    ///
    /// # Errors
    /// What does not fit into a message.
    pub fn counter(&self, name: &str, value: u64, unit: &str) -> Result<(), ReportError> {
        check_unit(unit)?;
        self.put(name, Reported::Counter(Reading::U64(value), unit.to_owned()))
    }

    /// Tells what something is set to, and what it can be set to.
    ///
    /// # Errors
    /// What does not fit into a message.
    pub fn setting(&self, name: &str, setting: Setting) -> Result<(), ReportError> {
        check_unit(&setting.unit)?;
        check_reading(&setting.value)?;
        let kind = setting.value.kind();
        let fits = |(low, high): &(Reading, Reading)| low.kind() == kind && high.kind() == kind;
        if !setting.bounds.as_ref().is_none_or(fits) {
            return Err(ReportError::Bounds(name.to_owned()));
        }
        self.put(name, Reported::Setting(setting))
    }

    /// Raises an alarm, with a sentence for the shifter, or ends it.
    ///
    /// # Errors
    /// What does not fit into a message.
    pub fn alarm(&self, name: &str, text: Option<&str>) -> Result<(), ReportError> {
        text.map_or(Ok(()), |text| check_text("the sentence of an alarm", text))?;
        self.put(name, Reported::Alarm(text.map(str::to_owned)))
    }

    /// Tells a line of status.
    ///
    /// # Errors
    /// What does not fit into a message.
    pub fn status(&self, text: &str) -> Result<(), ReportError> {
        check_text("a line of status", text)?;
        let mut table = self.0.lock();
        if table.status.0 != text {
            table.status = (text.to_owned(), true);
        }
        Ok(())
    }

    /// The present value of a setting, for a front-end without callbacks.
    pub fn reading(&self, name: &str) -> Option<Reading> {
        match &self.0.lock().by_name.get(name)?.report {
            Reported::Setting(setting) => Some(setting.value.clone()),
            Reported::Counter(..) | Reported::Alarm(_) => None,
        }
    }

    fn put(&self, name: &str, report: Reported) -> Result<(), ReportError> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !(1..=64).contains(&name.len()) || !name.bytes().all(is_letter) {
            return Err(ReportError::Name(name.to_owned()));
        }
        let mut table = self.0.lock();
        let made = table.made + 1;
        let count = table.by_name.len();
        match table.by_name.get_mut(name) {
            Some(entry) => {
                let is_new = entry.is_new || entry.report != report;
                *entry = Entry { report, made, is_new };
            }
            None if count >= NAMES_MAX => return Err(ReportError::TooMany),
            None => {
                table.by_name.insert(name.to_owned(), Entry { report, made, is_new: true });
            }
        }
        table.made = made;
        Ok(())
    }

    /// How often something was reported.
    pub(crate) fn made(&self) -> u64 {
        self.0.lock().made
    }

    /// A setting was set from the page. What the front-end has said of it since `before` reports
    /// were made is what it is set to.
    pub(crate) fn set(&self, name: &str, text: &str, before: u64) {
        let mut table = self.0.lock();
        let Some(Entry { report: Reported::Setting(setting), is_new, made }) =
            table.by_name.get_mut(name)
        else {
            return;
        };
        if *made <= before
            && let Some(value) = setting.value.parse(text)
        {
            (setting.value, *is_new) = (value, true);
        }
    }

    /// Another recorder has everything to learn.
    pub(crate) fn renew(&self) {
        let mut table = self.0.lock();
        table.status.1 = !table.status.0.is_empty();
        table.by_name.values_mut().for_each(|entry| entry.is_new = true);
    }

    /// Puts what is new into the outbox: those without a text in one message, and the next one with
    /// a text. To be called twice a second at most.
    pub(crate) fn fill(&self, outbox: &mut Outbox) {
        let mut table = self.0.lock();
        let Table { by_name, status, last, .. } = &mut *table;
        if std::mem::take(&mut status.1) {
            let record = value(ValueKind::STATUS, "", ("", 0), &Reading::Text(String::new()));
            outbox.record(&Report {}, &record, &status.0);
        }
        let plain = by_name.iter_mut().filter(|(_, entry)| entry.is_new);
        let mut plain = plain.filter(|(_, entry)| entry.report.text().is_none()).peekable();
        if plain.peek().is_some() {
            outbox.records(
                &Report {},
                plain.take(RECORDS).map(|(name, entry)| {
                    entry.is_new = false;
                    entry.report.record(name)
                }),
            );
        }
        let with_text =
            |(_, entry): &(&String, &mut Entry)| entry.is_new && entry.report.text().is_some();
        let mut behind = by_name.range_mut(last.clone()..).filter(|(name, _)| *name != last);
        let next = behind.find(with_text);
        let next = match next {
            Some((name, entry)) => Some((name.clone(), entry)),
            None => by_name.iter_mut().find(with_text).map(|(name, entry)| (name.clone(), entry)),
        };
        if let Some((name, entry)) = next {
            entry.is_new = false;
            let text = entry.report.text().unwrap_or_default();
            outbox.record(&Report {}, &entry.report.record(&name), text);
            *last = name;
        }
    }
}

impl Reported {
    /// The text of its message, of which it is the only record then.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Counter(value, _) => value.text(),
            Self::Setting(setting) => setting.value.text(),
            Self::Alarm(text) => Some(text.as_deref().unwrap_or_default()),
        }
    }

    fn record(&self, name: &str) -> Value {
        match self {
            Self::Counter(reading, unit) => value(ValueKind::COUNTER, name, (unit, 0), reading),
            Self::Setting(Setting { value: reading, unit, bounds, is_writable }) => {
                let flags = if *is_writable { Value::WRITABLE } else { 0 };
                let record = value(ValueKind::SETTING, name, (unit, flags), reading);
                let none = ([0; 8], [0; 8]);
                let (min, max) =
                    bounds.as_ref().map_or(none, |(low, high)| (low.bytes(), high.bytes()));
                Value { min, max, ..record }
            }
            Self::Alarm(text) => {
                let flags = if text.is_some() { Value::RAISED } else { 0 };
                value(ValueKind::ALARM, name, ("", flags), &Reading::Bool(text.is_some()))
            }
        }
    }
}

impl Reading {
    fn kind(&self) -> ValueType {
        match self {
            Self::Bool(_) => ValueType::BOOL,
            Self::I64(_) => ValueType::I64,
            Self::U64(_) => ValueType::U64,
            Self::F64(_) => ValueType::F64,
            Self::Text(_) => ValueType::TEXT,
        }
    }

    fn bytes(&self) -> [u8; 8] {
        match self {
            Self::Bool(value) => u64::from(*value).to_le_bytes(),
            Self::I64(value) => value.to_le_bytes(),
            Self::U64(value) => value.to_le_bytes(),
            Self::F64(value) => value.to_le_bytes(),
            Self::Text(_) => [0; 8],
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A value of the same type, from its text.
    fn parse(&self, text: &str) -> Option<Self> {
        match self {
            Self::Bool(_) => text.parse().ok().map(Self::Bool),
            Self::I64(_) => text.parse().ok().map(Self::I64),
            Self::U64(_) => text.parse().ok().map(Self::U64),
            Self::F64(_) => text.parse().ok().map(Self::F64),
            Self::Text(_) => Some(Self::Text(text.to_owned())),
        }
    }
}

fn value(kind: ValueKind, name: &str, (unit, flags): (&str, u16), reading: &Reading) -> Value {
    let (value_type, value) = (reading.kind(), reading.bytes());
    let (log, min, max) = (NONE, [0; 8], [0; 8]);
    let unit = Text::new(unit).expect("it is checked");
    let name = Text::new(name).expect("it is checked");
    Value { kind, value_type, flags, log, value, min, max, unit, name }
}

fn check_unit(unit: &str) -> Result<(), ReportError> {
    let is_one = Text::<32>::new(unit).is_some();
    if is_one { Ok(()) } else { Err(ReportError::Text { of: "a unit", bytes_max: 32 }) }
}

fn check_reading(reading: &Reading) -> Result<(), ReportError> {
    reading.text().map_or(Ok(()), |text| check_text("a text", text))
}

fn check_text(of: &'static str, text: &str) -> Result<(), ReportError> {
    let fits = text.len() <= TEXT_BYTES_MAX && !text.contains('\0');
    if fits { Ok(()) } else { Err(ReportError::Text { of, bytes_max: TEXT_BYTES_MAX }) }
}

impl std::fmt::Debug for Reports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}
