//! Names of sources and channels as people give them: by themselves, or by patterns.

use catchment_console::UsageError;
use catchment_model::near_matches;
use catchment_storage::{Pattern, Run};

/// The channels of a run that fit one of the patterns, in the run's order; all of them without one.
///
/// # Errors
/// A pattern that fits none, or a run without channels.
pub(crate) fn channels(run: &Run, patterns: &[Pattern]) -> anyhow::Result<Vec<usize>> {
    let names: Vec<&str> = run.channels().iter().map(|info| info.name.as_str()).collect();
    if names.is_empty() {
        anyhow::bail!(UsageError(format!("{} has no channels", run.path().display())));
    }
    for pattern in patterns.iter().filter(|one| !names.iter().any(|name| one.fits(name))) {
        let others = run.channels_not_stored().iter();
        let other = others.map(|info| info.name.as_str()).find(|name| pattern.fits(name));
        other.map_or(Ok(()), |name| run.check_channel_stored(name))?;
    }
    check(patterns, &names)?;
    let all = patterns.is_empty();
    let fits = |name: &str| all || patterns.iter().any(|pattern| pattern.fits(name));
    Ok((0..names.len()).filter(|&index| fits(names[index])).collect())
}

/// Refuses patterns that fit no channel.
pub(crate) fn check<'a>(
    patterns: impl IntoIterator<Item = &'a Pattern>,
    channels: &[&str],
) -> anyhow::Result<()> {
    for pattern in patterns {
        if !channels.iter().any(|name| pattern.fits(name)) {
            return Err(unknown("channel", pattern.as_str(), channels));
        }
    }
    Ok(())
}

/// The message for a name or pattern without a match.
pub(crate) fn unknown(what: &str, name: &str, names: &[&str]) -> anyhow::Error {
    let near = near_matches(name, names).join(" or ");
    let hint = if near.is_empty() { String::new() } else { format!("; did you mean {near}?") };
    let count = names.len();
    UsageError(format!("no {what} matches {name:?} (the input has {count}){hint}")).into()
}
