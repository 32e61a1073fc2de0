//! Warnings of a run: they stay, and say when their cause is over.

use crate::live::{Live, WARNINGS_MAX};

impl Live {
    /// Adds a warning, unless it is already listed or there are very many. One that was over is not
    /// any more.
    pub(crate) fn warn_once(&self, warning: String) {
        let warnings = &mut self.reported().warnings;
        let was = |one: &&mut String| one.strip_suffix(OVER) == Some(&warning);
        if let Some(again) = warnings.iter_mut().find(was) {
            *again = warning;
        } else if warnings.len() < WARNINGS_MAX && !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// The cause of the warnings with these words is over.
    pub(crate) fn end_warnings(&self, words: &str) {
        let warnings = &mut self.reported().warnings;
        let last = |one: &&mut String| one.contains(words) && !one.ends_with(OVER);
        warnings.iter_mut().filter(last).for_each(|one| one.push_str(OVER));
    }
}

/// The end of a warning whose cause is over.
pub const OVER: &str = " (over)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RecorderConfig;

    #[test]
    fn a_warning_whose_cause_is_over_says_so_until_it_is_back() {
        let live = Live::new(&RecorderConfig::new("".into(), Vec::new()));
        let warnings = || live.snapshot().warnings;
        live.warn_once("storage node a: no route".into());
        live.end_warnings("storage node a: ");
        live.end_warnings("storage node a: ");
        assert_eq!(warnings(), ["storage node a: no route (over)"]);
        live.warn_once("storage node a: no route".into());
        assert_eq!(warnings(), ["storage node a: no route"]);
    }
}
