//! Makes text from outside safe to print: names, messages and comments from files, configurations
//! and the network.
//!
//! A terminal obeys control characters, and Unicode's format controls reorder or hide neighbouring
//! text. All printed or logged text is escaped by [`printable`] where it is written; [`name_fault`]
//! refuses names that people choose before they get into a file.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The longest name of a source, a link, a channel, a group or an alarm.
pub const NAME_BYTES_MAX: usize = 255;

/// Whether a character controls the display of text: C0, DEL and C1, Unicode's line separators, its
/// direction controls, and invisible characters. The two joiners, which some scripts need, are
/// text.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text on one line of a terminal or a log: control characters as `\n`, `\t` or `\u{1b}`.
/// Escapes already in the text are not changed.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_control, |text, c| text.extend(c.escape_default()))
}

/// As [`printable`], for a text of several lines: line feeds and tabs stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| is_control(c) && !['\n', '\t'].contains(&c);
    escaped(text, obeyed, |text, c| text.extend(c.escape_default()))
}

/// As [`printable`], for JSON, without changing its value: control characters other than white
/// space, which stays, can only be inside its strings.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| is_control(c) && !['\n', '\r', '\t'].contains(&c);
    escaped(text, obeyed, |text, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            write!(text, "\\u{unit:04x}").ok();
        }
    })
}

/// The expected and the actual form of a name that is not allowed: empty, longer than
/// [`NAME_BYTES_MAX`], or with control characters.
pub fn name_fault(name: &str) -> Option<(String, String)> {
    if name.is_empty() {
        return Some(("a name".into(), "\"\"".into()));
    }
    label_fault(name)
}

/// As [`name_fault`], for text that may be empty, such as a unit.
pub fn label_fault(text: &str) -> Option<(String, String)> {
    if text.len() > NAME_BYTES_MAX {
        let expected = format!("at most {NAME_BYTES_MAX} bytes");
        return Some((expected, format!("{} bytes", text.len())));
    }
    control_fault(text)
}

/// As [`name_fault`], for text with its own bound.
pub fn control_fault(text: &str) -> Option<(String, String)> {
    let bad = text.chars().find(|&c| is_control(c))?;
    let expected = "no control characters".to_owned();
    Some((expected, format!("{} in \"{}\"", bad.escape_default(), printable(text))))
}

fn escaped(
    text: &str,
    obeyed: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.chars().any(&obeyed) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if obeyed(c) { escape(&mut safe, c) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        let text = "a\x1b[2Jb\nc\td\0\u{9b}e\u{202e}f\u{2028}g\x7f";
        let safe = r"a\u{1b}[2Jb\nc\td\u{0}\u{9b}e\u{202e}f\u{2028}g\u{7f}";
        assert_eq!(printable(text), safe);
        assert_eq!(printable(safe), safe, "escaping twice changes nothing");
        assert_eq!(printable_lines("a\n\tb\r\x1b"), "a\n\tb\\r\\u{1b}");
        for text in ["", "H1:LSC-DARM \\ µm", "پی\u{200c}دی‌اف", "\u{1f52d}"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn names_that_are_no_plain_text_are_refused() {
        let fault =
            |name: &str| name_fault(name).map(|(expected, got)| format!("{expected}, {got}"));
        assert_eq!(fault("X1:DET-µ 1").as_deref(), None);
        assert_eq!(fault(&"n".repeat(NAME_BYTES_MAX)), None);
        assert_eq!(fault("").as_deref(), Some("a name, \"\""));
        assert_eq!(fault(&"n".repeat(10_000)).unwrap(), "at most 255 bytes, 10000 bytes");
        assert_eq!(fault("a\x1b").unwrap(), r#"no control characters, \u{1b} in "a\u{1b}""#);
        for bad in ["\0", "a\nb", "\u{202e}a", "\u{200b}", "\u{e0041}"] {
            assert!(fault(bad).is_some_and(|fault| fault.starts_with("no control")), "{bad:?}");
        }
        assert_eq!(label_fault(""), None);
    }
}
