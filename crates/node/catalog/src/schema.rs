//! The database: where it stands, its tables, and its versions.
//!
//! `PRAGMA user_version` is the number of migrations that made it. A migration is never changed
//! once released: what is needed later is another one. Opening runs those that are missing, in one
//! transaction; a version above [`SCHEMA_VERSION`] is refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::catalog::highest;
use crate::error::CatalogError;
use crate::facts;
use crate::lock::PATIENCE;
use crate::step::step;
use crate::{CATALOG_FILE, CATALOG_FOLDER};

/// The version that this program writes.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// "CTMT": identifies the database for `file` and other programs.
const APPLICATION_ID: i32 = 0x4354_4d54;

/// Where a catalogue's files are.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// The folder of the runs.
    pub(crate) data: PathBuf,
}

impl Paths {
    pub(crate) fn new(data: &Path) -> Self {
        Self { data: data.to_owned() }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.data.join(CATALOG_FOLDER)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.file(CATALOG_FILE)
    }

    /// A rebuilt catalogue that is not complete.
    pub(crate) fn new_database(&self) -> PathBuf {
        self.file("catalog.sqlite.new")
    }

    /// A rebuilt catalogue that is complete and about to replace the old one.
    pub(crate) fn ready_database(&self) -> PathBuf {
        self.file("catalog.sqlite.ready")
    }

    /// The one that was there before the last rebuild.
    pub(crate) fn former_database(&self) -> PathBuf {
        self.file("catalog.sqlite.before-rebuild")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.file("catalog.lock")
    }

    /// Locked by who wants the catalogue alone.
    pub(crate) fn wanted(&self) -> PathBuf {
        self.file("catalog.wanted")
    }

    pub(crate) fn numbers(&self) -> PathBuf {
        self.file("highest-run-number")
    }

    pub(crate) fn numbers_new(&self) -> PathBuf {
        self.file("highest-run-number.new")
    }

    pub(crate) fn numbers_lock(&self) -> PathBuf {
        self.file("highest-run-number.lock")
    }

    pub(crate) fn live_folder(&self) -> PathBuf {
        self.file("live")
    }

    pub(crate) fn live(&self, number: u64) -> PathBuf {
        self.live_folder().join(number.to_string())
    }

    /// What the catalogue could not be told yet.
    pub(crate) fn pending_folder(&self) -> PathBuf {
        self.file("pending")
    }

    pub(crate) fn pending(&self, number: u64) -> PathBuf {
        self.pending_folder().join(format!("{number}.json"))
    }

    pub(crate) fn pending_lock(&self) -> PathBuf {
        self.file("pending.lock")
    }

    /// The name of a run's folder in the data folder; elsewhere, its whole path.
    pub(crate) fn folder_name(&self, folder: &Path) -> String {
        let inside = folder.parent().is_some_and(|parent| facts::same(parent, &self.data));
        match folder.file_name() {
            Some(name) if inside => name.to_string_lossy().into_owned(),
            _ => folder.to_string_lossy().into_owned(),
        }
    }

    /// Makes the folders.
    pub(crate) fn make(&self) -> Result<(), CatalogError> {
        let live = self.live_folder();
        std::fs::create_dir_all(&live).map_err(CatalogError::system("make", &live))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }
}

/// SQLite's own files beside a database: the log that is not merged yet, and the index of it.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes a database that no other process sees yet: if the machine stops, it is made again.
pub(crate) fn create(path: &Path) -> Result<Connection, CatalogError> {
    let error = |source| CatalogError::sqlite(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = connect(path, flags).map_err(error)?;
    connection.pragma_update(None, "synchronous", "OFF").map_err(error)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(error)?;
    migrate(&mut connection, path, SCHEMA_VERSION)?;
    Ok(connection)
}

/// Opens a database to read and write, and brings an older one up to date.
pub(crate) fn open(path: &Path, patience: Duration) -> Result<Connection, CatalogError> {
    let error = |source| CatalogError::sqlite(path, source);
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(error)?;
    connection.busy_timeout(patience).map_err(error)?;
    // Before anything is changed: it may be another program's.
    let version = catalog_version(&connection, path)?;
    // A log beside the database: readers never wait, and a commit is one sync. Where the file
    // system cannot share memory, SQLite stays with what it has.
    let no_row = |_: &rusqlite::Row<'_>| Ok(());
    connection.pragma_update_and_check(None, "journal_mode", "WAL", no_row).map_err(error)?;
    // A number that was returned must still be taken after a power cut.
    connection.pragma_update(None, "synchronous", "FULL").map_err(error)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(error)?;
    if version < SCHEMA_VERSION {
        migrate(&mut connection, path, SCHEMA_VERSION)?;
    }
    Ok(connection)
}

/// A database that is not to be changed.
pub(crate) struct ForReading {
    pub(crate) connection: Connection,
    /// Its version, which may be an older one.
    pub(crate) version: i64,
    /// Whether others can write it meanwhile, and what they write is seen.
    pub(crate) shared: bool,
}

/// The highest number that a database says was given, if it can be read at once.
pub(crate) fn highest_number(path: &Path) -> Option<u64> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    connection.busy_timeout(Duration::ZERO).ok()?;
    highest(&connection).ok()
}

/// Opens a database that is not to be changed.
pub(crate) fn open_for_reading(path: &Path) -> Result<ForReading, CatalogError> {
    let error = |source| CatalogError::sqlite(path, source);
    let read = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let first = connect(path, read).map_err(error).and_then(|connection| {
        let version = catalog_version(&connection, path)?;
        Ok(ForReading { connection, version, shared: true })
    });
    match first {
        // On a full disk, or in a folder that cannot be written, the log's index cannot be made.
        Err(CatalogError::Database { .. }) => {}
        other => return other,
    }
    if let Ok(alone) = open_without_index(path) {
        return Ok(alone);
    }
    // Nobody writes the database either: it is read as it lies.
    let connection = connect(&unchanging(path), read | OpenFlags::SQLITE_OPEN_URI);
    let connection = connection.map_err(error)?;
    let version = catalog_version(&connection, path)?;
    Ok(ForReading { connection, version, shared: false })
}

/// Opens a database whose log's index has no room on the disk: held alone, the index is in memory.
/// Its log, of which a full disk may have kept some from being merged, is read with it.
fn open_without_index(path: &Path) -> Result<ForReading, CatalogError> {
    let error = |source| CatalogError::sqlite(path, source);
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(error)?;
    let no_row = |_: &rusqlite::Row<'_>| Ok(());
    connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", no_row).map_err(error)?;
    let version = catalog_version(&connection, path)?;
    connection.pragma_update(None, "query_only", true).map_err(error)?;
    Ok(ForReading { connection, version, shared: false })
}

fn unchanging(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{escaped}?immutable=1").into()
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    #[cfg_attr(not(test), expect(unused_mut, reason = "tests watch it"))]
    let mut connection = Connection::open_with_flags(path, flags)?;
    #[cfg(test)]
    crate::step::watch(&mut connection);
    connection.busy_timeout(PATIENCE)?;
    // The file is untrusted: it may be damaged, or crafted.
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    // SQLite's own knows no letters beyond ASCII.
    connection.create_scalar_function("folded", 1, flags, |context| {
        Ok(context.get::<Option<String>>(0)?.unwrap_or_default().to_lowercase())
    })?;
    Ok(connection)
}

/// The version of a catalogue; one is never seen before its tables are made.
fn catalog_version(connection: &Connection, path: &Path) -> Result<i64, CatalogError> {
    match version(connection, path)? {
        0 => Err(CatalogError::Damaged { path: path.to_owned(), problem: "it is empty".into() }),
        version => Ok(version),
    }
}

/// The version of a database that is a catalogue or to become one; 0 if it is empty.
fn version(connection: &Connection, path: &Path) -> Result<i64, CatalogError> {
    let error = |source| CatalogError::sqlite(path, source);
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let version = number("user_version").map_err(error)?;
    let application = number("application_id").map_err(error)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(error)?;
    let empty = version == 0 && application == 0 && tables == 0;
    if !empty && application != i64::from(APPLICATION_ID) {
        let problem = "it is another program's database".to_owned();
        return Err(CatalogError::Damaged { path: path.to_owned(), problem });
    }
    if version > SCHEMA_VERSION {
        let (path, known) = (path.to_owned(), SCHEMA_VERSION);
        return Err(CatalogError::Newer { path, got: version, known });
    }
    if version < 0 || (version == 0 && !empty) {
        let problem = format!("it says that it is version {version}");
        return Err(CatalogError::Damaged { path: path.to_owned(), problem });
    }
    Ok(version)
}

/// Runs the migrations that are missing up to a version.
pub(crate) fn migrate(
    connection: &mut Connection,
    path: &Path,
    until: i64,
) -> Result<(), CatalogError> {
    let error = |source| CatalogError::sqlite(path, source);
    let transaction = begin(connection).map_err(error)?;
    // Another process may have been faster.
    let from = version(&transaction, path)?;
    for migration in MIGRATIONS.iter().take(until as usize).skip(from as usize) {
        transaction.execute_batch(migration).map_err(error)?;
        step();
    }
    if from < until {
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(error)?;
        transaction.pragma_update(None, "user_version", until).map_err(error)?;
    }
    transaction.commit().map_err(error)
}

/// A transaction that will write: it waits for other writers now, not in the middle.
pub(crate) fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// What makes a database of each version from the one before. Times are nanoseconds since 1970
/// (UTC); numbers that the files have as unsigned are stored with the same 64 bits.
const MIGRATIONS: &[&str] = &[
    // 1: runs, their ledgers, configurations.
    "CREATE TABLE numbers (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        highest INTEGER NOT NULL
    ) STRICT;
    INSERT INTO numbers VALUES (1, 0);
    CREATE TABLE configurations (
        version INTEGER PRIMARY KEY,
        sha256 TEXT NOT NULL UNIQUE,
        text TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        who TEXT NOT NULL
    ) STRICT;
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY CHECK (number > 0),
        id TEXT UNIQUE,
        folder TEXT,
        number_in_files INTEGER,
        taken_ns INTEGER NOT NULL,
        started_ns INTEGER,
        ended_ns INTEGER,
        who TEXT NOT NULL,
        comment TEXT NOT NULL,
        configuration INTEGER REFERENCES configurations (version),
        state TEXT NOT NULL,
        reason TEXT,
        quality TEXT NOT NULL,
        events INTEGER,
        fragments INTEGER,
        bytes INTEGER,
        frames INTEGER,
        files INTEGER,
        loss INTEGER
    ) STRICT;
    CREATE INDEX runs_open ON runs (state) WHERE state IN ('starting', 'recording');
    CREATE TABLE ledger (
        run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
        entry TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (run, entry)
    ) STRICT, WITHOUT ROWID;",
    // 2: what the runs lie in.
    "CREATE TABLE files (
        run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
        place INTEGER NOT NULL,
        name TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        frames INTEGER NOT NULL,
        events INTEGER NOT NULL,
        closed INTEGER NOT NULL,
        PRIMARY KEY (run, place)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE frames (
        run INTEGER NOT NULL,
        file INTEGER NOT NULL,
        kind TEXT NOT NULL,
        first INTEGER NOT NULL,
        count INTEGER NOT NULL,
        time_first_ns INTEGER NOT NULL,
        time_last_ns INTEGER NOT NULL,
        key_first INTEGER NOT NULL,
        key_last INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (run, file, kind, first),
        FOREIGN KEY (run, file) REFERENCES files (run, place) ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE copies (
        run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
        file INTEGER NOT NULL,
        place TEXT NOT NULL,
        checksum TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        made_ns INTEGER NOT NULL,
        checked_ns INTEGER,
        PRIMARY KEY (run, file, place)
    ) STRICT, WITHOUT ROWID;",
    // 3: which runs are emulated.
    "ALTER TABLE runs ADD COLUMN emulated INTEGER NOT NULL DEFAULT 0;",
    // 4: remarks. Of a comment that was there nobody knows who wrote it: anybody could replace it.
    "CREATE TABLE remarks (
        run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
        time_ns INTEGER NOT NULL,
        kind TEXT NOT NULL,
        who TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (run, time_ns, kind, who, text)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO remarks SELECT number, coalesce(started_ns, taken_ns), 'comment', '', comment
        FROM runs WHERE comment <> '';",
    // 5: where a run's frames were sent.
    "CREATE TABLE locations (
        run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        target TEXT NOT NULL,
        kind TEXT NOT NULL,
        address TEXT NOT NULL,
        name TEXT NOT NULL,
        required INTEGER NOT NULL,
        frames INTEGER,
        bytes INTEGER,
        first_frame INTEGER,
        last_frame INTEGER,
        files TEXT NOT NULL,
        PRIMARY KEY (run, number)
    ) STRICT, WITHOUT ROWID;",
    // 6: which frames are in which files of a storage node.
    "ALTER TABLE locations ADD COLUMN file_frames TEXT NOT NULL DEFAULT '[]';",
    // 7: what became of each source's fragments in each target.
    "CREATE TABLE target_sources (
        run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        target TEXT NOT NULL,
        source TEXT NOT NULL,
        entries TEXT NOT NULL,
        PRIMARY KEY (run, number)
    ) STRICT, WITHOUT ROWID;",
];
