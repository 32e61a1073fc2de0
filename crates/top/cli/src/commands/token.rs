//! `catchment token`: access tokens of a node.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use catchment_console::{Exit, Out, Table, complain};
use catchment_control::{Role, TokenError, TokenFile, audit_command, own_folder};
use serde_json::json;

/// Adds, lists and revokes access tokens; a running node applies the change within a second.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the runs
    #[arg(long, global = true, default_value = "runs", value_name = "FOLDER")]
    folder: PathBuf,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create a token; it is shown only once and stored as a hash
    Add {
        /// Its name
        name: String,
        /// Its role: viewer, operator, admin, or source for a front-end
        #[arg(long)]
        role: Role,
        /// Of the role source: the front-ends that it admits, as "crate-*"
        #[arg(long, value_name = "PATTERN")]
        senders: Option<String>,
    },
    /// List the tokens' names and roles
    List,
    /// Revoke a token
    Revoke {
        /// Its name
        name: String,
    },
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let runs = arguments.folder.as_path();
    let folder = own_folder(runs);
    let file = TokenFile::in_folder(&folder);
    if !matches!(arguments.action, Action::List) {
        own(&arguments.folder)?;
    }
    match arguments.action {
        Action::Add { name, role, senders } => {
            let added = file.add_for(&name, role, senders.as_deref());
            let noted = note(&folder, format!("add token {name:?} as {}", role.name()), &added);
            let token = added?;
            if out.json {
                out.object(&json!({ "name": name, "role": role, "token": token }))?;
            }
            out.say(&token)?;
            // On stderr, so that standard output holds the token alone.
            complain(format_args!("it counts for the node whose runs are in {}", runs.display()));
            noted?;
        }
        Action::List => {
            let tokens = file.read()?;
            if out.json {
                let plain = tokens.iter().map(|token| {
                    json!({ "name": token.name, "role": token.role, "created": token.created })
                });
                out.object(&plain.collect::<Vec<_>>())?;
            }
            let mut table = Table::new(&["name", "role", "created"]);
            for token in &tokens {
                table.row([token.name.as_str(), token.role.name(), &token.created]);
            }
            for line in table.lines() {
                out.say(line)?;
            }
        }
        Action::Revoke { name } => {
            let revoked = file.revoke(&name);
            let noted = note(&folder, format!("revoke token {name:?}"), &revoked);
            revoked?;
            out.say(format_args!("The token {name:?} is revoked."))?;
            noted?;
        }
    }
    Ok(Exit::Done)
}

/// The node could not read files of another user in its folder.
fn own(runs: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(found) = std::fs::metadata(runs) else { return Ok(()) };
    // SAFETY: it takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    anyhow::ensure!(
        found.uid() == user,
        "{} belongs to user {}, whose node could not read what user {user} writes: do it as that user",
        runs.display(),
        found.uid()
    );
    Ok(())
}

/// Enters the operation in the node's audit log. A refused operation does not create the node's
/// folder.
fn note<T>(folder: &Path, what: String, result: &Result<T, TokenError>) -> anyhow::Result<()> {
    let result = match result {
        Ok(_) => "done".to_owned(),
        Err(_) if !folder.exists() => return Ok(()),
        Err(error) => format!("refused: {error}"),
    };
    audit_command(folder, what, result).context("it is done, but not in the audit log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_are_made_and_taken_away_here_are_in_the_audit_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut out = Out::nowhere(false);
        let mut token = |action| {
            let folder = folder.path().to_owned();
            run(Arguments { folder, action }, &mut out)
        };
        token(Action::Add { name: "a".into(), role: Role::Viewer, senders: None }).unwrap();
        token(Action::Add { name: "a".into(), role: Role::Admin, senders: None }).unwrap_err();
        token(Action::Revoke { name: "a".into() }).unwrap();
        let log = own_folder(folder.path()).join("audit.jsonl");
        let text = std::fs::read_to_string(log).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [added, refused, revoked] = &lines[..] else { panic!("{text}") };
        assert_eq!(
            (&added["what"], &added["result"]),
            (&json!("add token \"a\" as viewer"), &json!("done"))
        );
        assert!(refused["result"].as_str().unwrap().starts_with("refused: there is a token"));
        assert_eq!(
            (&revoked["what"], &revoked["result"]),
            (&json!("revoke token \"a\""), &json!("done"))
        );
        assert!(added["who"].as_str().unwrap().starts_with("user "), "{added}");
    }
}
