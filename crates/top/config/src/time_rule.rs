//! Settings of building by time that can do nothing beside the others. They are refused in a file
//! that someone starts from, not in the configuration of a run that has been recorded: one of
//! another time may have them.

use catchment_builder::{Flooding, SourceRole, WindowKind};
use catchment_recorder::RecorderConfig;

use crate::locate::{ConfigFileError, Located};
use crate::low::Low;

/// Refuses the first setting that has no effect.
pub(crate) fn check_effects(
    located: &Located<'_>,
    low: &Low,
    recorder: &RecorderConfig,
) -> Result<(), ConfigFileError> {
    let Some(time) = recorder.time_config() else { return Ok(()) };
    let rule = &low.build.time;
    let refuse = |key: &str, expected: &str, got: &str| {
        Err(located.expected(&format!("build.time.{key}"), expected, got))
    };
    if rule.span_ns_max.is_some() && rule.kind == WindowKind::First {
        return refuse("span_max", "kind = \"gap\" beside it", "\"first\"");
    }
    if rule.flooding == Flooding::Open && time.coincidence < 2 {
        let got = time.coincidence.to_string();
        return refuse("flooding", "a coincidence of 2 or more beside it", &got);
    }
    let enabled = recorder.sources.iter().enumerate().filter(|(_, one)| one.role.is_enabled());
    let all_open = enabled.map(|(index, _)| index).all(|index| time.opens(index));
    if rule.before_ns.is_some_and(|ns| ns > 0) && all_open && recorder.accept.is_empty() {
        return refuse("before", "openers that leave out a source beside it", "all sources");
    }
    let sources = low.sources.iter().map(|one| (one.role, one.lag));
    let sources = sources.enumerate().map(|(index, one)| (format!("sources[{index}]"), one));
    let groups = low.source_groups.iter().map(|one| (one.role, one.lag));
    let groups = groups.enumerate().map(|(index, one)| (format!("source_groups[{index}]"), one));
    for (path, (role, lag)) in sources.chain(groups) {
        let role = match role {
            SourceRole::Required => "\"required\"",
            SourceRole::Optional => "\"optional\"",
            SourceRole::Sparse | SourceRole::Disabled => continue,
        };
        if lag.is_some() {
            let key = format!("{path}.lag");
            return Err(located.expected(&key, "role = \"sparse\" beside it", role));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
