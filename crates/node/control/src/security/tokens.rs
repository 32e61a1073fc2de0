//! Tokens at rest: a file of names, roles and hashes.
//!
//! A token is 32 random bytes, shown once. Only its SHA-256 is stored: 256 random bits cannot be
//! guessed, however fast the hash, so a slow one (argon2, bcrypt), which protects guessable
//! passwords, would cost every request tens of milliseconds without protecting more.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catchment_frame::Pattern;
use catchment_telemetry::utc_now;
use parking_lot::Mutex;

use serde::{Deserialize, Serialize};

use super::roles::Role;
use super::{hex, random_hex};

/// How many tokens a file may hold.
pub const TOKENS_MAX: usize = 1_000;

/// A token, without its secret value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// Its name.
    pub name: String,
    /// The role of its bearer.
    pub role: Role,
    /// When it was made.
    pub created: String,
    /// SHA-256 of it, in hexadecimal.
    pub sha256: String,
    /// Of the roles *source* and *node*: a pattern of the front-ends or of the streams that it
    /// admits; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub senders: Option<String>,
}

impl TokenEntry {
    /// Whether it admits a sender of that role and name.
    fn admits(&self, role: Role, sender: &str) -> bool {
        let pattern = |text: &String| text.parse::<Pattern>().is_ok_and(|one| one.fits(sender));
        self.role == role && self.senders.as_ref().is_none_or(pattern)
    }
}

/// Why tokens could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file, or the system's random numbers.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file has invalid contents.
    #[error("{}: expected [[tokens]] with name, role, created and sha256: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The error.
        message: String,
    },
    /// An invalid name.
    #[error("expected a name of 1 to 64 letters, digits, `-`, `_` and `.`, got {name:?}")]
    Name {
        /// The name.
        name: String,
    },
    /// The name is taken.
    #[error("there is a token {name:?} already: revoke it first")]
    Taken {
        /// The name.
        name: String,
    },
    /// There is no token of that name.
    #[error("there is no token {name:?}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A pattern that is none, or that the role has no use for.
    #[error("senders: {0}")]
    Senders(String),
    /// There are too many.
    #[error("expected at most {TOKENS_MAX} tokens")]
    TooMany,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    tokens: Vec<TokenEntry>,
}

/// The file of tokens, as `catchment token` changes it.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file in a node's folder (`RUNS/.catchment`).
    pub fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join("tokens.toml") }
    }

    /// The tokens; none if there is no file.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn read(&self) -> Result<Vec<TokenEntry>, TokenError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(self.file(source)),
        };
        let parsed: Result<File, _> = toml::from_str(&text);
        let file = parsed.map_err(|error| self.format(error.message()))?;
        if file.tokens.len() > TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        Ok(file.tokens)
    }

    /// Makes a token and returns it; it cannot be shown again.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn add(&self, name: &str, role: Role) -> Result<String, TokenError> {
        self.add_for(name, role, None)
    }

    /// As [`add`](Self::add), for senders whose names fit a pattern.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn add_for(
        &self,
        name: &str,
        role: Role,
        senders: Option<&str>,
    ) -> Result<String, TokenError> {
        let fault = |text: String| TokenError::Senders(text);
        if let Some(senders) = senders {
            senders.parse::<Pattern>().map_err(|error| fault(error.to_string()))?;
            if role.is_of_person() {
                return Err(fault(format!(
                    "expected the role source or node, got {}",
                    role.name()
                )));
            }
        }
        let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if name.is_empty() || name.len() > 64 || !letters {
            return Err(TokenError::Name { name: name.into() });
        }
        let secret = random_hex::<32>().map_err(|source| self.file(source))?;
        let token = format!("catchment_{secret}");
        let _alone = self.lock()?;
        let mut tokens = self.read()?;
        if tokens.iter().any(|token| token.name == name) {
            return Err(TokenError::Taken { name: name.into() });
        }
        if tokens.len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        tokens.push(TokenEntry {
            name: name.into(),
            role,
            created: utc_now().to_string(),
            sha256: digest(&token),
            senders: senders.map(str::to_owned),
        });
        self.write(tokens)?;
        Ok(token)
    }

    /// Removes a token.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn revoke(&self, name: &str) -> Result<(), TokenError> {
        if !self.path.exists() {
            return Err(TokenError::Unknown { name: name.into() });
        }
        let _alone = self.lock()?;
        let mut tokens = self.read()?;
        let before = tokens.len();
        tokens.retain(|token| token.name != name);
        if tokens.len() == before {
            return Err(TokenError::Unknown { name: name.into() });
        }
        self.write(tokens)
    }

    /// Keeps other users and processes from changing the file until it is dropped. The lock is a
    /// separate permanent file: the file of tokens is replaced with each change.
    fn lock(&self) -> Result<std::fs::File, TokenError> {
        let lock = || {
            if let Some(folder) = self.path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(self.path.with_extension("lock"))?;
            file.lock()?;
            Ok(file)
        };
        lock().map_err(|source| self.file(source))
    }

    /// Writes a new file beside the old one and replaces the old one with it, readable only by its
    /// owner.
    fn write(&self, tokens: Vec<TokenEntry>) -> Result<(), TokenError> {
        let text = toml::to_string_pretty(&File { tokens });
        let text = text.map_err(|error| self.format(&error.to_string()))?;
        let unique = random_hex::<8>().map_err(|source| self.file(source))?;
        let next = self.path.with_extension(format!("toml.{unique}"));
        let write = || {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&next)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&next, &self.path)
        };
        write().map_err(|source| {
            // If nothing can be written, its remains may stay.
            std::fs::remove_file(&next).ok();
            self.file(source)
        })
    }

    fn file(&self, source: std::io::Error) -> TokenError {
        TokenError::File { path: self.path.clone(), source }
    }

    fn format(&self, message: &str) -> TokenError {
        TokenError::Format { path: self.path.clone(), message: message.into() }
    }

    fn stamp(&self) -> Option<(u64, i64, i64, u64)> {
        let data = std::fs::metadata(&self.path).ok()?;
        Some((data.ino(), data.mtime(), data.mtime_nsec(), data.len()))
    }
}

/// The tokens in memory. Queries never wait for the disk: a change of the file is noticed at the
/// next refresh.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) file: TokenFile,
    known: Mutex<Known>,
    /// Held while the file is being checked.
    looking: Mutex<()>,
}

#[derive(Debug)]
struct Known {
    tokens: Vec<TokenEntry>,
    stamp: Option<(u64, i64, i64, u64)>,
    ever: bool,
}

impl Tokens {
    /// Reads the file.
    ///
    /// # Errors
    /// An unreadable file: without it no client could be identified.
    pub(crate) fn open(file: TokenFile) -> Result<Self, TokenError> {
        let stamp = file.stamp();
        let tokens = file.read()?;
        let ever = stamp.is_some() || !tokens.is_empty();
        if ever && tokens.is_empty() {
            let path = file.path.display();
            tracing::warn!(%path, "all tokens were revoked: nobody comes in until one is added");
        }
        let known = Mutex::new(Known { tokens, stamp, ever });
        Ok(Self { file, known, looking: Mutex::default() })
    }

    /// Whether there are any, or ever were: neither removing the last one, which leaves an empty
    /// file, nor a restart of the program may make everyone an administrator.
    pub(crate) fn any(&self) -> bool {
        self.known.lock().ever
    }

    /// The entry of a token that opens the page and the API: a front-end's does not.
    pub(crate) fn find(&self, token: &str) -> Option<TokenEntry> {
        self.entry(token).filter(|entry| entry.role.is_of_person())
    }

    fn entry(&self, token: &str) -> Option<TokenEntry> {
        let sha256 = digest(token);
        self.known.lock().tokens.iter().find(|entry| entry.sha256 == sha256).cloned()
    }

    /// Whether an entry still exists unchanged.
    pub(crate) fn stands(&self, entry: &TokenEntry) -> bool {
        self.known.lock().tokens.contains(entry)
    }

    /// Checks the file now.
    pub(crate) fn refresh(&self) {
        let _alone = self.looking.lock();
        let stamp = self.file.stamp();
        if stamp == self.known.lock().stamp {
            return;
        }
        let read = self.file.read();
        let mut known = self.known.lock();
        match read {
            // A removed file must not make everyone an administrator: the old tokens stay until the
            // program is restarted.
            Ok(tokens) if tokens.is_empty() && stamp.is_none() => {
                tracing::warn!("the file of tokens is gone; the tokens read before stay valid");
                known.stamp = stamp;
            }
            Ok(tokens) => {
                known.ever |= stamp.is_some() || !tokens.is_empty();
                known.tokens = tokens;
                known.stamp = stamp;
            }
            Err(error) => tracing::warn!(%error, "tokens stay as they were"),
        }
    }
}

/// The tokens of those who deliver data, of one role.
pub(crate) struct SenderTokens {
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) role: Role,
}

impl catchment_net::Tokens for SenderTokens {
    fn admits(&self, token: &str, sender: &str) -> bool {
        self.tokens.entry(token).is_some_and(|entry| entry.admits(self.role, sender))
    }
}

fn digest(token: &str) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, token.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_by_what_it_is_and_kept_as_a_hash() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        assert!(!Tokens::open(file.clone()).unwrap().any());
        let token = file.add("shift", Role::Operator).unwrap();
        let tokens = Tokens::open(file.clone()).unwrap();
        let entry = tokens.find(&token).unwrap();
        assert_eq!((entry.name.as_str(), entry.role), ("shift", Role::Operator));
        assert!(tokens.find("catchment_0").is_none());
        let path = folder.path().join("tokens.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&token) && text.contains(&entry.sha256));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        file.revoke("shift").unwrap();
        tokens.refresh();
        assert!(tokens.find(&token).is_none() && !tokens.stands(&entry));
        assert!(tokens.any(), "without tokens everybody would be an administrator");
    }

    #[test]
    fn a_front_end_is_admitted_by_role_and_name() {
        use catchment_net::Tokens as _;
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let crates = file.add_for("crates", Role::Source, Some("crate-*")).unwrap();
        let any = file.add("any", Role::Source).unwrap();
        let admin = file.add("admin", Role::Admin).unwrap();
        let recorder = file.add("recorder", Role::Node).unwrap();
        let tokens = Arc::new(Tokens::open(file.clone()).unwrap());
        let all = [&crates, &any, &recorder, &admin];
        let admitted = |role| {
            let tokens = SenderTokens { tokens: Arc::clone(&tokens), role };
            all.map(|token| ["crate-007", "camera"].map(|sender| tokens.admits(token, sender)))
        };
        let no = [false; 2];
        assert_eq!(admitted(Role::Source), [[true, false], [true; 2], no, no]);
        assert_eq!(admitted(Role::Node), [no, no, [true; 2], no]);
        assert_eq!(all.map(|token| tokens.find(token).is_some()), [false, false, false, true]);
        for (role, senders) in [(Role::Viewer, "crate-*"), (Role::Source, "[")] {
            let refused = file.add_for("x", role, Some(senders));
            assert!(matches!(refused, Err(TokenError::Senders(_))), "{refused:?}");
        }
    }

    #[test]
    fn many_who_change_the_file_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        TokenFile::in_folder(path).add("old", Role::Admin).unwrap();
        std::thread::scope(|scope| {
            for number in 0..20 {
                let add =
                    move || TokenFile::in_folder(path).add(&format!("t{number}"), Role::Viewer);
                scope.spawn(move || add().unwrap());
            }
            scope.spawn(|| TokenFile::in_folder(path).revoke("old").unwrap());
        });
        let tokens = TokenFile::in_folder(path).read().unwrap();
        let mut names: Vec<&str> = tokens.iter().map(|token| token.name.as_str()).collect();
        names.sort_unstable();
        let mut expected: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let files = std::fs::read_dir(path).unwrap().count();
        assert_eq!(files, 2, "the tokens and the lock, and nothing else");
    }

    #[test]
    fn names_are_used_once_and_are_plain() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        file.add("a", Role::Viewer).unwrap();
        assert!(matches!(file.add("a", Role::Viewer), Err(TokenError::Taken { .. })));
        for bad in ["", "a b", "x\n", "é", &"x".repeat(65)] {
            assert!(matches!(file.add(bad, Role::Viewer), Err(TokenError::Name { .. })), "{bad:?}");
        }
        assert!(matches!(file.revoke("b"), Err(TokenError::Unknown { .. })));
    }

    #[test]
    fn a_file_that_disappears_opens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let token = file.add("a", Role::Viewer).unwrap();
        let tokens = Tokens::open(file).unwrap();
        std::fs::remove_file(folder.path().join("tokens.toml")).unwrap();
        tokens.refresh();
        assert!(tokens.any() && tokens.find(&token).is_some());
    }
}
