//! Changes or removes values in a configuration's text; comments and order stay.

use toml_edit::{DocumentMut, Item, TableLike};
pub use toml_edit::{InlineTable, Value};

/// The text with `key = value` in the table of that name (`a.b`: in `b` of `a`), which must be
/// there; another value of the key is replaced.
///
/// # Errors
/// The text is no TOML, or has no such table.
pub fn set(text: &str, table: &str, key: &str, value: Value) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    let within = table_of(&mut document, table);
    let within = within.ok_or_else(|| format!("the configuration has no table {table}"))?;
    match within.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => drop(within.insert(key, Item::Value(value))),
    }
    Ok(document.to_string())
}

/// The text without these keys in the table of that name. One that is no TOML stays as it is.
pub fn without(text: &str, table: &str, keys: &[&str]) -> String {
    let Ok(mut document) = text.parse::<DocumentMut>() else { return text.to_owned() };
    if let Some(within) = table_of(&mut document, table) {
        keys.iter().for_each(|key| drop(within.remove(key)));
    }
    document.to_string()
}

fn table_of<'a>(document: &'a mut DocumentMut, path: &str) -> Option<&'a mut dyn TableLike> {
    let mut within: &mut dyn TableLike = document.as_table_mut();
    for name in path.split('.') {
        within = within.get_mut(name)?.as_table_like_mut()?;
    }
    Some(within)
}

#[cfg(test)]
mod tests {
    use super::{set, without};

    #[test]
    fn a_value_is_replaced_added_or_removed_in_its_table_only() {
        let text =
            "rate = 1\n[emulator] # ours\nseed = 2\nrate = \"4 kHz\" # fast\n\n[frame]\nrate = 3";
        let changed = set(text, "emulator", "rate", "50 Hz".into()).unwrap();
        let expected =
            "rate = 1\n[emulator] # ours\nseed = 2\nrate = \"50 Hz\" # fast\n\n[frame]\nrate = 3\n";
        assert_eq!(changed, expected);
        assert_eq!(
            set("[emulator]\n", "emulator", "seed", 7.into()).unwrap(),
            "[emulator]\nseed = 7\n"
        );
        let inline = set("emulator = { seed = 1 }\n", "emulator", "seed", 7.into()).unwrap();
        assert_eq!(inline, "emulator = { seed = 7 }\n");
        let nested = "[build]\nmatch = \"time\"\ntime.window = \"9 ns\" # short\n";
        let changed = set(nested, "build.time", "window", "1 us".into()).unwrap();
        assert_eq!(changed, nested.replace("9 ns", "1 us"));
        let both = "[build] # ours\nwindow_events = 1024\nmatch = \"time\"\nreorder_events = 8\n";
        let left = without(both, "build", &["window_events", "reorder_events"]);
        assert_eq!(left, "[build] # ours\nmatch = \"time\"\n");
        for text in ["[frame]\n", "= 1"] {
            assert_eq!(without(text, "build", &["match"]), text);
        }
        for text in ["[frame]", "emulator = 1", "= 1"] {
            assert!(set(text, "emulator", "seed", 7.into()).is_err(), "{text}");
        }
    }
}
