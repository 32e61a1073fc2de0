//! `catchment token`: who may ask a node for what.

use std::path::PathBuf;

use catchment_control::{Role, TokenFile, own_folder};
use serde_json::json;

use crate::output::{Exit, Out, Table};

/// Adds, lists and revokes tokens; a node that runs sees it within a second.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the runs
    #[arg(long, global = true, default_value = "runs", value_name = "FOLDER")]
    folder: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a token; it is shown this once, and kept as a hash
    Add {
        /// What to call it
        name: String,
        /// viewer, operator or admin
        #[arg(long)]
        role: Role,
    },
    /// The tokens, without what they are
    List,
    /// Take a token away
    Revoke {
        /// Its name
        name: String,
    },
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let file = TokenFile::in_folder(&own_folder(&arguments.folder));
    match arguments.what {
        What::Add { name, role } => {
            let token = file.add(&name, role)?;
            if out.json {
                out.object(&json!({ "name": name, "role": role, "token": token }))?;
            }
            out.say(&token)?;
        }
        What::List => {
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
        What::Revoke { name } => {
            file.revoke(&name)?;
            out.say(format_args!("The token {name:?} is revoked."))?;
        }
    }
    Ok(Exit::Done)
}
