//! One run of the catalogue, and how it is stored.

use catchment_frame::RunLocation;
use catchment_model::ledger::BAD_DATA;
use catchment_model::{Balance, Entry, Ledger, RunId, SourceLedger, Utc, named};
use rusqlite::types::Type;
use rusqlite::{Connection, Row};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::files::FileRow;
use crate::lock::is_live;
use crate::remarks::Remark;
use crate::schema::Paths;
use crate::target_sources::TargetSource;

named! {
    /// What has become of a run.
    #[derive(Default, Serialize)]
    #[serde(rename_all = "snake_case")]
    RunState {
        /// It has a number; sockets and files are not open yet.
        #[default]
        Starting = "starting",
        /// It is being recorded.
        Recording = "recording",
        /// It ended in order.
        Complete = "complete",
        /// It ended, and its files could not be written to the end.
        Fault = "fault",
        /// Its recorder is gone and did not end it.
        Interrupted = "interrupted",
        /// It did not come to a recording.
        Failed = "failed",
    }
}

impl RunState {
    /// Whether it will not change any more.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Starting | Self::Recording)
    }

    /// What becomes of a run in this state when its process is gone.
    pub(crate) fn abandoned(self) -> (Self, Option<&'static str>) {
        match self {
            Self::Starting => (Self::Failed, Some("its process ended before the run began")),
            Self::Recording => (Self::Interrupted, Some("its process ended before the run did")),
            other => (other, None),
        }
    }
}

named! {
    /// What people say of a run's data.
    #[derive(Default, Serialize)]
    #[serde(rename_all = "snake_case")]
    Quality {
        /// Nobody has said yet.
        #[default]
        Unknown = "unknown",
        /// To be used.
        Good = "good",
        /// To be looked at before it is used.
        Questionable = "questionable",
        /// Not to be used.
        Bad = "bad",
        /// Not meant to be used.
        Test = "test",
    }
}

/// A run. What is not known is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunRow {
    /// Its number, given once.
    pub number: u64,
    /// Its identity; none if it did not come to a recording.
    #[serde(serialize_with = "as_text")]
    pub id: Option<RunId>,
    /// Its folder, in the data folder; a whole path where it is elsewhere.
    pub folder: Option<String>,
    /// The number that its files say, where that is another.
    pub number_in_files: Option<u64>,
    /// When it got its number.
    pub taken: Utc,
    /// When its recording began.
    pub started: Option<Utc>,
    /// When it ended; of an interrupted run, the last that is on disk.
    pub ended: Option<Utc>,
    /// Who started it.
    pub who: String,
    /// What it was started for; what else is said of it are its remarks.
    pub comment: String,
    /// The version of its configuration.
    pub configuration: Option<u64>,
    /// Whether its data are emulated.
    pub emulated: bool,
    /// What has become of it.
    pub state: RunState,
    /// Why it is in that state.
    pub reason: Option<String>,
    /// What people say of its data.
    pub quality: Quality,
    /// Events on disk.
    pub events: Option<u64>,
    /// Fragments on disk.
    pub fragments: Option<u64>,
    /// Bytes of its files.
    pub bytes: Option<u64>,
    /// Frames of its files.
    pub frames: Option<u64>,
    /// Its files.
    pub files: Option<u64>,
    /// What was lost, in fragments and packets, as the command line counts it: 0 only if nothing
    /// was. Of a run that was interrupted, the least that was lost: nobody counted what came in at
    /// last.
    pub loss_count: Option<u64>,
    /// How often recorded fragments were bad, for each reason; none if the ledger is not known.
    pub bad_count: Option<u64>,
}

/// A run with its ledger and files.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunDetail {
    /// The run.
    #[serde(flatten)]
    pub run: RunRow,
    /// The ledger's entries that are not zero, summed over the sources; empty if the ledger is not
    /// known.
    #[serde(serialize_with = "as_map")]
    pub ledger: Vec<(String, u64)>,
    /// What was said of it, the oldest first.
    pub remarks: Vec<Remark>,
    /// Its files.
    #[serde(rename = "file_list")]
    pub file_rows: Vec<FileRow>,
    /// Where its frames were sent, by target.
    pub locations: Vec<RunLocation>,
    /// What became of its fragments in each target, if it had several or one with a spill.
    pub targets: Vec<TargetSource>,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events on disk.
    pub events: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Frames of its files.
    pub frames: u64,
    /// Its files.
    pub files: u64,
    /// The ledger, if it is known.
    pub ledger: Option<Ledger>,
}

impl Totals {
    /// What was lost, as [`RunRow::loss_count`] counts it; none if the ledger is not known.
    pub fn loss_count(&self) -> Option<u64> {
        self.ledger.as_ref().map(|ledger| loss_count(&ledger.balance()))
    }
}

/// Totals as the catalogue stores them: counts in the run's row, the ledger in rows of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredTotals {
    events: u64,
    bytes: u64,
    frames: u64,
    files: u64,
    /// Fragments on disk; none if the ledger is not known.
    pub(crate) fragments: Option<u64>,
    pub(crate) loss_count: Option<u64>,
    /// Entries that are not zero.
    ledger: Vec<(String, u64)>,
}

impl StoredTotals {
    pub(crate) fn of(totals: &Totals) -> Self {
        let sum = totals.ledger.as_ref().map(Ledger::total);
        let counts = sum.iter().flat_map(SourceLedger::iter).filter(|(_, count)| *count > 0);
        Self {
            events: totals.events,
            bytes: totals.bytes,
            frames: totals.frames,
            files: totals.files,
            fragments: sum.as_ref().map(|sum| sum[Entry::FragmentsRecorded]),
            loss_count: totals.loss_count(),
            ledger: counts.map(|(entry, count)| (entry.name().to_owned(), count)).collect(),
        }
    }

    /// Writes them. What is not known stays as it was.
    pub(crate) fn write(&self, connection: &Connection, run: u64) -> rusqlite::Result<()> {
        connection.execute(
            "UPDATE runs SET events = ?2, bytes = ?3, frames = ?4, files = ?5, \
             fragments = coalesce(?6, fragments), loss = coalesce(?7, loss) WHERE number = ?1",
            rusqlite::params![
                stored(run),
                stored(self.events),
                stored(self.bytes),
                stored(self.frames),
                stored(self.files),
                self.fragments.map(stored),
                self.loss_count.map(stored),
            ],
        )?;
        match self.fragments {
            Some(_) => put_ledger(connection, run, &self.ledger),
            None => Ok(()),
        }
    }
}

/// Fragments that the network lost, that were dropped or removed, and malformed packets. What the
/// kernel or the network dropped of packets shows as fragments too, unless it was a run's last.
fn loss_count(balance: &Balance) -> u64 {
    let seen = balance
        .fragments_lost
        .saturating_add(balance.fragments_dropped)
        .saturating_add(balance.packets_malformed)
        .saturating_add(balance.fragments_removed);
    match seen {
        0 => balance.packets_dropped_by_kernel.max(balance.packets_missing),
        _ => seen,
    }
}

/// The columns that [`RunRow::read`] reads.
pub(crate) const COLUMNS: &str = "number, id, folder, number_in_files, taken_ns, started_ns, \
    ended_ns, who, comment, configuration, state, reason, quality, events, fragments, bytes, frames, \
    files, loss, emulated";

/// What is selected of runs for [`RunRow::read`]: the columns, and what their ledgers say of bad
/// data.
pub(crate) fn selected() -> String {
    let bad = BAD_DATA.map(|entry| format!("'{entry}'")).join(", ");
    format!(
        "{COLUMNS}, (SELECT CASE WHEN fragments IS NULL THEN NULL ELSE total(count) END FROM ledger \
         WHERE run = runs.number AND entry IN ({bad})) AS bad"
    )
}

impl RunRow {
    /// A run that has just got its number.
    pub(crate) fn starting(number: u64, who: &str, taken: Utc) -> Self {
        Self { number, taken, who: who.to_owned(), ..Self::default() }
    }

    /// The row as it is stored.
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let count = |name: &str| row.get::<_, Option<i64>>(name).map(|value| value.map(out));
        let time = |name: &str| count(name).map(|ns| ns.map(Utc));
        Ok(Self {
            number: out(row.get("number")?),
            id: parsed(row, "id", |text| text.parse().ok())?,
            folder: row.get("folder")?,
            number_in_files: count("number_in_files")?,
            taken: Utc(out(row.get("taken_ns")?)),
            started: time("started_ns")?,
            ended: time("ended_ns")?,
            who: row.get("who")?,
            comment: row.get("comment")?,
            configuration: count("configuration")?,
            emulated: row.get("emulated")?,
            state: word(row, "state", RunState::from_name)?,
            reason: row.get("reason")?,
            quality: word(row, "quality", Quality::from_name)?,
            events: count("events")?,
            fragments: count("fragments")?,
            bytes: count("bytes")?,
            frames: count("frames")?,
            files: count("files")?,
            loss_count: count("loss")?,
            bad_count: row.get::<_, Option<f64>>("bad")?.map(|count| count as u64),
        })
    }

    /// What became of it, in words: its state, and of one that ended in order whether that was with
    /// loss or bad data.
    pub fn outcome(&self) -> &'static str {
        let some = |count: Option<u64>| count.is_some_and(|count| count > 0);
        match (self.state, some(self.loss_count), some(self.bad_count)) {
            (RunState::Complete, true, true) => "ended, with loss and bad data",
            (RunState::Complete, true, false) => "ended, with loss",
            (RunState::Complete, false, true) => "ended, with bad data",
            (state, ..) => state.name(),
        }
    }

    /// The row as it is now: a run whose process is gone says so, also where nobody may write it.
    pub(crate) fn seen_from(mut self, paths: &Paths) -> Self {
        if !self.state.is_final() && !is_live(paths, self.number) {
            let (state, reason) = self.state.abandoned();
            self.state = state;
            self.reason = reason.map(str::to_owned);
        }
        self
    }

    /// Writes the row as it is.
    pub(crate) fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let time = |time: Option<Utc>| time.map(|time| stored(time.0));
        let count = |count: Option<u64>| count.map(stored);
        let values = ["?"; 20].join(", ");
        let sql = format!("INSERT INTO runs ({COLUMNS}) VALUES ({values})");
        connection.execute(
            &sql,
            rusqlite::params![
                stored(self.number),
                self.id.map(|id| id.to_string()),
                self.folder,
                count(self.number_in_files),
                stored(self.taken.0),
                time(self.started),
                time(self.ended),
                self.who,
                self.comment,
                count(self.configuration),
                self.state.name(),
                self.reason,
                self.quality.name(),
                count(self.events),
                count(self.fragments),
                count(self.bytes),
                count(self.frames),
                count(self.files),
                count(self.loss_count),
                self.emulated,
            ],
        )?;
        Ok(())
    }
}

/// Replaces a run's ledger.
pub(crate) fn put_ledger(
    connection: &Connection,
    run: u64,
    entries: &[(String, u64)],
) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM ledger WHERE run = ?", [stored(run)])?;
    let mut insert = connection.prepare("INSERT OR REPLACE INTO ledger VALUES (?, ?, ?)")?;
    for (entry, count) in entries {
        insert.execute(rusqlite::params![stored(run), entry, stored(*count)])?;
    }
    Ok(())
}

/// A run's entries, in the order of the ledger.
pub(crate) fn ledger_of(connection: &Connection, run: u64) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut select = connection.prepare("SELECT entry, count FROM ledger WHERE run = ?")?;
    let rows = select.query_map([stored(run)], |row| Ok((row.get(0)?, out(row.get(1)?))))?;
    let mut entries = rows.collect::<rusqlite::Result<Vec<(String, u64)>>>()?;
    let index = |name: &str| Entry::from_name(name).map_or(usize::MAX, |entry| entry as usize);
    entries.sort_by_key(|(name, _)| index(name));
    Ok(entries)
}

/// A count or a time as SQLite stores it; beyond 2^63 there is nothing to count.
pub(crate) fn stored(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What was [`stored`].
pub(crate) fn out(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A text that must mean something.
pub(crate) fn word<T>(
    row: &Row<'_>,
    column: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let missing = || rusqlite::Error::InvalidColumnName(column.to_owned());
    parsed(row, column, parse)?.ok_or_else(missing)
}

fn parsed<T>(
    row: &Row<'_>,
    column: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    let Some(text) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    let problem = || {
        let shown: String = text.chars().take(40).collect();
        let problem = format!("{column} is {shown:?}");
        rusqlite::Error::FromSqlConversionFailure(0, Type::Text, problem.into())
    };
    parse(&text).map(Some).ok_or_else(problem)
}

fn as_text<S: Serializer>(id: &Option<RunId>, serializer: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => serializer.collect_str(id),
        None => serializer.serialize_none(),
    }
}

fn as_map<S: Serializer>(entries: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(entries.len()))?;
    for (name, count) in entries {
        map.serialize_entry(name, count)?;
    }
    map.end()
}
