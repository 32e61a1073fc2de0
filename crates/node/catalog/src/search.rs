//! Searches for runs.

use catchment_model::Utc;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::SEARCH_LIMIT_MAX;
use crate::error::{CatalogError, check_text};
use crate::row::{Quality, RunRow, RunState, selected, stored};

/// Conditions on runs; the newest come first.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Words that each stand in a remark, or in comment, who, folder, identity or reason, in any
    /// case. A number also finds the run of that number.
    pub text: String,
    /// The lowest number.
    pub from: Option<u64>,
    /// Numbers below this one: that of the last run of the page before.
    pub before: Option<u64>,
    /// Runs that had not ended before.
    pub since: Option<Utc>,
    /// Runs that began before.
    pub until: Option<Utc>,
    /// What people say of their data.
    pub quality: Option<Quality>,
    /// What has become of them.
    pub state: Option<RunState>,
    /// Exactly this person.
    pub who: Option<String>,
    /// How many at most; none: [`SEARCH_LIMIT_MAX`], which is also the most.
    pub limit: Option<usize>,
}

impl Search {
    /// Refuses a text that is too long.
    pub(crate) fn check(&self) -> Result<(), CatalogError> {
        check_text("a search of", &self.text, TEXT_BYTES_MAX)
    }

    /// The runs that match, newest first; their states are not compared.
    pub(crate) fn rows(&self, connection: &Connection) -> rusqlite::Result<Vec<RunRow>> {
        let mut conditions = vec!["1".to_owned()];
        let mut values: Vec<Value> = Vec::new();
        let mut add = |condition: &str, value: Value| {
            values.push(value);
            // The one value, however often the condition has it.
            conditions.push(condition.replace('?', &format!("?{}", values.len())));
        };
        let number = |number: u64| Value::Integer(stored(number));
        if let Some(from) = self.from {
            add("number >= ?", number(from));
        }
        if let Some(before) = self.before {
            add("number < ?", number(before));
        }
        if let Some(Utc(since)) = self.since {
            // One that goes on has not ended.
            let ended = "coalesce(ended_ns, iif(state IN ('starting', 'recording'), \
                         9223372036854775807, coalesce(started_ns, taken_ns)))";
            add(&format!("{ended} >= ?"), number(since));
        }
        if let Some(Utc(until)) = self.until {
            add("coalesce(started_ns, taken_ns) < ?", number(until));
        }
        if let Some(quality) = self.quality {
            add("quality = ?", Value::Text(quality.name().to_owned()));
        }
        if let Some(who) = &self.who {
            add("who = ?", Value::Text(who.clone()));
        }
        for word in self.text.split_whitespace() {
            let contains = format!(
                "(instr(folded({TEXT}), ?) > 0 OR EXISTS (SELECT 1 FROM remarks \
                 WHERE run = number AND instr(folded({REMARK}), ?) > 0))"
            );
            // A number also means the run of that number.
            let condition = match word.parse::<u64>() {
                Ok(number) => format!("({contains} OR number = {})", stored(number)),
                Err(_) => contains,
            };
            add(&condition, Value::Text(word.to_lowercase()));
        }
        let conditions = conditions.join(" AND ");
        // Bounded: a state is compared afterwards, and may be rare.
        let rows = if self.state.is_some() { -1 } else { SEARCH_LIMIT_MAX as i64 };
        let sql = format!(
            "SELECT {} FROM runs WHERE {conditions} ORDER BY number DESC LIMIT {rows}",
            selected()
        );
        let mut select = connection.prepare(&sql)?;
        let found = select.query_map(rusqlite::params_from_iter(values), RunRow::read)?;
        found.collect()
    }
}

/// What words are looked for in; a line each, so that no word matches across two.
const TEXT: &str = "comment || char(10) || who || char(10) || coalesce(folder, '') || char(10) || \
    coalesce(id, '') || char(10) || coalesce(reason, '')";
/// And in each remark.
const REMARK: &str = "text || char(10) || who";
const TEXT_BYTES_MAX: usize = 1_024;
