//! What an alarm says: a rule's text with its words filled in, and numbers and times for people.

use catchment_model::units::grouped;

use crate::rule::{Condition, Rule};

/// How many things a text names.
const NAMED: usize = 3;

/// What a text is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The things that are wrong; one without a name where the quantity is of no thing.
    pub(crate) names: &'a [&'a str],
    /// How many there are that could be.
    pub(crate) total: usize,
    /// Their group.
    pub(crate) group: Option<&'a str>,
    /// What they are: `source`.
    pub(crate) family: &'a str,
}

impl Rule {
    /// The rule's text with its words filled in.
    pub(crate) fn words(&self, subject: &Subject<'_>, value: Option<f64>) -> String {
        let hours = self.quantity.as_str().ends_with("hours_left")
            && !matches!(self.condition, Condition::NoChange { .. });
        let seconds = |value: f64| if hours { value * 3_600.0 } else { value };
        let with = |say: fn(f64) -> String| value.map_or_else(|| "?".to_owned(), say);
        let time = value.map_or_else(|| "?".to_owned(), |value| time(seconds(value)));
        let is_zero = value.is_some_and(|value| seconds(value) < ZERO_BELOW);
        let text = match (&self.text_zero, &self.text_many, subject.names) {
            (Some(zero), _, _) if is_zero => zero,
            (_, Some(many), [_, _, ..]) => many,
            _ => &self.text,
        };
        // Of no thing: its place goes, and the space behind it.
        let nameless = matches!(subject.names, [] | [""]);
        let text = match nameless {
            true => text.replace("{source} ", "").replace("{source}", ""),
            false => text.clone(),
        };
        let filled = filled(&text, |word| match word {
            "value" => Some(with(short)),
            "time" => Some(time.clone()),
            "percent" => Some(with(percent)),
            "threshold" => Some(short(self.condition.threshold())),
            "source" | "sources" => Some(listed(subject.names)),
            "things" => Some(subject.things()),
            _ => None,
        });
        if text.starts_with("{things}") { capitalised(&filled) } else { filled }
    }
}

impl Subject<'_> {
    /// How many of how many: `58 of 60 sources in small`.
    fn things(&self) -> String {
        let (count, total) = (self.names.len(), self.total);
        let (of, total) = match count == total {
            true => ("all".to_owned(), total),
            false => (format!("{} of", grouped(count as u64)), total),
        };
        let plural = if total == 1 { "" } else { "s" };
        let group = self.group.map(|group| format!(" in {group}")).unwrap_or_default();
        format!("{of} {} {}{plural}{group}", grouped(total as u64), self.family)
    }
}

/// A share of one for people; what is not nothing does not read as nothing.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        ..0.001 => "less than 0.001 %".to_owned(),
        value @ ..0.1 => format!("{value:.3} %"),
        value @ ..1.0 => format!("{value:.2} %"),
        value @ ..10.0 => format!("{value:.1} %"),
        value if value > 99.5 && share < 1.0 => "more than 99 %".to_owned(),
        value => format!("{value:.0} %"),
    }
}

/// The first of them, and how many more there are.
fn listed(names: &[&str]) -> String {
    match names.len().saturating_sub(NAMED) {
        // Where one more would be told by its number its name is as short.
        0 | 1 => names.join(", "),
        more => format!("{} and {} more", names[..NAMED].join(", "), grouped(more as u64)),
    }
}

/// A text with what stands for its `{word}`s; once, since what is filled in may look like one, too.
fn filled(text: &str, word: impl Fn(&str) -> Option<String>) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('{') {
        filled += before;
        let found = behind.split_once('}').and_then(|(name, rest)| Some((word(name)?, rest)));
        rest = match found {
            Some((text, rest)) => {
                filled += &text;
                rest
            }
            None => {
                filled.push('{');
                behind
            }
        };
    }
    filled + rest
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A time for people.
fn time(seconds: f64) -> String {
    match seconds {
        ..1.0 => "less than 1 s".to_owned(),
        ..120.0 => format!("{:.0} s", seconds.floor()),
        ..7_200.0 => format!("{:.0} min", (seconds / 60.0).floor()),
        ..172_800.0 => format!("{:.1} hours", seconds / 3_600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

fn signed_grouped(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", grouped(value.abs().round() as u64))
}

/// A number for people: three digits.
fn short(value: f64) -> String {
    let magnitude = value.abs();
    let (value, unit) = match magnitude {
        0.0 => return "0".to_owned(),
        ..1e-6 => return format!("{}0.000001", if value < 0.0 { "above -" } else { "below " }),
        1e3..1e7 => return signed_grouped(value),
        ..1e3 => (value, ""),
        ..1e9 => (value / 1e6, " M"),
        ..1e12 => (value / 1e9, " G"),
        ..1e15 => (value / 1e12, " T"),
        _ => return format!("{value:.2e}"),
    };
    let digits = 2 - (value.abs().log10().floor() as i32).clamp(-6, 2);
    let mut text = format!("{value:.0$}", digits.max(0) as usize);
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    text + unit
}

/// Below this a measure counts as zero (of a time: seconds).
const ZERO_BELOW: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_as_a_person_writes_them() {
        let numbers = [0.0, 12.34, 1_234_567.0, 1e7, -2.5e9, 0.000_928, 3e-9, 0.85, f64::MAX];
        let expected =
            ["0", "12.3", "1,234,567", "10 M", "-2.5 G", "0.000928", "below 0.000001", "0.85"];
        for (number, expected) in numbers.into_iter().zip(expected) {
            assert_eq!(short(number), expected);
        }
        let times = [0.2, 3.34, 119.9, 120.0, 8_640.0, 1e6, f64::INFINITY];
        let expected = ["less than 1 s", "3 s", "119 s", "2 min", "2.4 hours", "11.6 days"];
        for (seconds, expected) in times.into_iter().zip(expected) {
            assert_eq!(time(seconds), expected);
        }
    }

    fn one<'a>(names: &'a [&'a str]) -> Subject<'a> {
        Subject { names, total: 1, group: None, family: "source" }
    }

    #[test]
    fn how_long_the_disk_lasts_is_told_in_units_of_its_size_and_a_full_one_says_what_to_do() {
        let rules = crate::default_rules(1_000_000_000, 0.05);
        let disk = rules.iter().find(|rule| rule.name == "disk_space").unwrap();
        let words = |hours| disk.words(&one(&[""]), Some(hours));
        assert_eq!(words(9.28e-4), "Disk will be full in 3 s");
        assert_eq!(words(0.75), "Disk will be full in 45 min");
        assert_eq!(words(0.0), "Disk is full: make room, and it is written again by itself");
        assert_eq!(words(1e-4), words(0.0));
        let queue = rules.iter().find(|rule| rule.name == "queue_full").unwrap();
        assert_eq!(queue.words(&one(&["segments"]), Some(0.85)), "Queue segments is 85 % full");
        let rate = crate::Quantity::new("events_per_second").unwrap();
        let low = Rule::new("low_rate", rate, Condition::Below { threshold: 5.0, clear_at: 6.0 });
        assert_eq!(low.words(&one(&[""]), Some(4.25)), "low rate: 4.25 (limit 5)");
    }

    #[test]
    fn many_things_are_counted_and_a_few_of_them_named() {
        let rules = crate::default_rules(1_000_000_000, 0.05);
        let silent = rules.iter().find(|rule| rule.name == "source_silent").unwrap();
        let names = ["a", "b", "{value}", "d", "e"];
        let subject =
            |names, total| Subject { names, total, group: Some("small"), family: "source" };
        let words = |count, total| silent.words(&subject(&names[..count], total), Some(12.0));
        assert_eq!(words(1, 60), "a is silent: no packet for 12 s");
        assert_eq!(
            words(5, 60),
            "5 of 60 sources in small are silent: a, b, {value} and 2 more (no packet for up to 12 s)"
        );
        assert_eq!(
            words(4, 4),
            "All 4 sources in small are silent: a, b, {value}, d (no packet for up to 12 s)"
        );
        let other = Rule { text_many: None, text: "{source}: {value}{x".into(), ..silent.clone() };
        let text = other.words(&subject(&names, 5), Some(1_234.0));
        assert_eq!(text, "a, b, {value} and 2 more: 1,234{x");
    }

    #[test]
    fn shares_that_are_not_nothing_do_not_read_as_nothing() {
        let shares = [0.0, 1e-9, 0.000_34, 0.005_1, 0.034, 0.91, 0.997, 1.0].map(percent);
        let expected = [
            "0 %",
            "less than 0.001 %",
            "0.034 %",
            "0.51 %",
            "3.4 %",
            "91 %",
            "more than 99 %",
            "100 %",
        ];
        assert_eq!(shares, expected);
    }
}
