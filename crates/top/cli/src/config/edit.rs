//! Changes one value in a configuration's text; comments and order stay.

/// The text with `key = value` in the table of that name; a value that is there is replaced.
///
/// # Errors
/// The text has no such table with a line of its own.
pub(crate) fn set(text: &str, table: &str, key: &str, value: &str) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let words = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    let header = format!("[{table}]");
    let begin = lines.iter().position(|line| words(line) == header);
    let begin = begin.ok_or_else(|| format!("the configuration has no line {header}"))? + 1;
    let rest = &lines[begin..];
    let count = rest.iter().position(|line| words(line).starts_with('[')).unwrap_or(rest.len());
    let is_key = |line: &String| words(line).split_once('=').is_some_and(|(k, _)| k.trim() == key);
    let line = format!("{key} = {value}");
    match lines[begin..begin + count].iter().position(is_key) {
        Some(place) => lines[begin + place] = line,
        None => lines.insert(begin, line),
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::set;

    #[test]
    fn a_value_is_replaced_or_added_in_its_table_only() {
        let text =
            "rate = 1\n[emulator] # ours\nseed = 2\nrate = \"4 kHz\" # fast\n[frame]\nrate = 3";
        let changed = set(text, "emulator", "rate", "50").unwrap();
        assert_eq!(
            changed,
            "rate = 1\n[emulator] # ours\nseed = 2\nrate = 50\n[frame]\nrate = 3\n"
        );
        let added = set("[emulator]", "emulator", "seed", "7").unwrap();
        assert_eq!(added, "[emulator]\nseed = 7\n");
        assert!(set("emulator = {}", "emulator", "seed", "7").is_err());
    }
}
