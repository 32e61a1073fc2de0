//! What a command could not read and left out: a line each on stderr, and the exit code.

use catchment_console::{Exit, complain};
use catchment_model::units::grouped;
use catchment_storage::Run;

/// Reports what of a run is missing or damaged, as far as opening it shows: what is read lacks
/// that. Of a run that is being recorded, nothing is missing yet.
pub(crate) fn report_damage(run: &Run) -> Exit {
    // What is damaged in one of several folders is read from another if no frame is missing.
    let is_whole = run.paths().len() > 1 && run.ended() && run.frames_missing() == 0;
    let damage = if run.being_recorded() || is_whole { Vec::new() } else { run.damage() };
    report_left_out(&damage)
}

/// Reports what was left out, a line for each, of many the first ones and how many more.
pub(crate) fn report_left_out(lines: &[String]) -> Exit {
    let shown = shortened(lines);
    shown.for_each(|line| complain(format_args!("left out: {line}")));
    if lines.is_empty() { Exit::Done } else { Exit::Loss }
}

/// The first of many lines, and how many more there are.
pub(crate) fn shortened(lines: &[String]) -> impl Iterator<Item = String> {
    let shown = if lines.len() > LINES_MAX + 1 { LINES_MAX } else { lines.len() };
    let more = lines.len() - shown;
    let more = (more > 0).then(|| format!("and {} more", grouped(more as u64)));
    lines[..shown].iter().cloned().chain(more)
}

/// Lines of what was left out that are shown; those who read JSON get all.
const LINES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_the_first_are_shown_and_how_many_more() {
        let lines = |count: usize| (0..count).map(|line| line.to_string()).collect::<Vec<_>>();
        assert_eq!(shortened(&lines(21)).count(), 21, "one more is no shorter");
        let shown: Vec<_> = shortened(&lines(1_020)).collect();
        assert_eq!(
            (shown.len(), shown[19].as_str(), shown[20].as_str()),
            (21, "19", "and 1,000 more")
        );
    }
}
