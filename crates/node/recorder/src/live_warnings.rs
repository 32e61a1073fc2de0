//! Warnings of a run: they stay, and are past when their cause is over.

use std::fmt;

use catchment_model::Utc;

use crate::live::{Live, Reported, Snapshot, WARNINGS_MAX};

/// A warning whose cause is over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PastWarning {
    /// What it said.
    pub text: String,
    /// When its cause was over.
    pub until: Utc,
}

impl fmt::Display for PastWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (was, until {} UTC)", self.text, &self.until.to_string()[11..19])
    }
}

impl Snapshot {
    /// What was warned of in the run, whether it is past or not.
    pub fn warned(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter().chain(self.past_warnings.iter().map(|past| &past.text))
    }
}

impl Live {
    /// Adds a warning, unless it is already listed or there are very many. One that was past is not
    /// any more.
    pub(crate) fn warn_once(&self, warning: String) {
        let mut reported = self.reported();
        reported.past_warnings.retain(|past| past.text != warning);
        let count = reported.warnings.len() + reported.past_warnings.len();
        if count < WARNINGS_MAX && !reported.warnings.contains(&warning) {
            reported.warnings.push(warning);
        }
    }

    /// The cause of the warnings with these words is over.
    pub(crate) fn end_warnings(&self, words: &str, now_ns: u64) {
        let Reported { warnings, past_warnings, .. } = &mut *self.reported();
        let over = warnings.extract_if(.., |one| one.contains(words));
        past_warnings.extend(over.map(|text| PastWarning { text, until: Utc(now_ns) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RecorderConfig;

    #[test]
    fn a_warning_whose_cause_is_over_says_until_when_until_it_is_back() {
        let live = Live::new(&RecorderConfig::new("".into(), Vec::new()));
        let warned = || {
            let snapshot = live.snapshot();
            let past: Vec<_> = snapshot.past_warnings.iter().map(PastWarning::to_string).collect();
            (snapshot.warnings, past)
        };
        let (text, second_ns) = ("storage node a: no route".to_owned(), 1_000_000_000);
        live.warn_once(text.clone());
        live.end_warnings("storage node a: ", 7 * second_ns);
        live.end_warnings("storage node a: ", 9 * second_ns);
        let past = "storage node a: no route (was, until 00:00:07 UTC)".to_owned();
        assert_eq!(warned(), (vec![], vec![past]));
        live.warn_once(text.clone());
        assert_eq!(warned(), (vec![text], vec![]));
    }
}
