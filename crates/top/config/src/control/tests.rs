use std::path::Path;

use super::*;
use crate::check;

const SOURCE: &str = "[[sources]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\n";

#[test]
fn a_node_is_controlled_as_its_file_says() {
    let text = format!(
        "[control]\nlisten = \"127.0.0.1:0\"\ntls = \"self-made\"\nstart = \"manual\"\n\
         drain = \"3 s\"\nlog = \"json\"\n{SOURCE}\n\
         [[alarms]]\nname = \"hot\"\nquantity = \"source.*.loss_per_second\"\nabove = 10\n\
         clear_at = 5\nseverity = \"critical\"\nactions = [\"mail\"]\n\
         [[actions]]\nname = \"mail\"\ncommand = [\"mail\", \"-s\", \"x\"]\n"
    );
    let high = check(Path::new("x.toml"), &text).unwrap();
    let control = high.control.unwrap();
    assert_eq!(control.settings.tls, Tls::SelfMade);
    assert_eq!(control.settings.start, Start::Manual);
    assert_eq!(control.settings.drain, Duration::from_secs(3));
    assert_eq!(control.settings.actions.len(), 1);
    let condition = Condition::Above { threshold: 10.0, clear_at: 5.0 };
    assert_eq!((high.rules[0].condition, high.rules.len()), (condition, 1));
    assert!(check(Path::new("x.toml"), SOURCE).unwrap().control.is_none());
}

#[test]
fn heavy_loss_and_texts_of_many_sources_are_as_the_file_says() {
    let text = |share: &str, critical_at: &str| {
        format!(
            "[control]\nheavy_loss_share = {share}\n{SOURCE}[[alarms]]\nname = \"x\"\n\
             quantity = \"source.*.loss_per_second\"\nabove = 10\n\
             critical_at = {critical_at}\ntext_many = \"{{things}} lose data\"\n"
        )
    };
    let high = check(Path::new("x.toml"), &text("0.2", "100")).unwrap();
    assert_eq!(high.control.unwrap().settings.heavy_loss_share, 0.2);
    assert_eq!(high.rules[0].critical_at, Some(100.0));
    assert_eq!(high.rules[0].text_many.as_deref(), Some("{things} lose data"));
    let none = check(Path::new("x.toml"), &format!("[control]\n{SOURCE}")).unwrap();
    assert_eq!(none.control.unwrap().settings.heavy_loss_share, 0.05);
    for (share, critical_at) in [("0", "100"), ("1.5", "100"), ("nan", "100"), ("0.2", "9")] {
        assert!(check(Path::new("x.toml"), &text(share, critical_at)).is_err());
    }
}

#[test]
fn alarms_on_what_no_node_reads_are_refused_with_what_was_meant() {
    let check = |quantity: &str| {
        let alarm = format!("[[alarms]]\nname = \"x\"\nquantity = \"{quantity}\"\nabove = 1\n");
        check(Path::new("x.toml"), &format!("{alarm}{SOURCE}"))
    };
    for known in known_quantities() {
        check(&known.name).unwrap();
        let property = known.name.strip_prefix("device.*.");
        let thing = property.map_or("a", |property| devices_with(property)[0]);
        check(&known.name.replace('*', thing)).unwrap();
    }
    for (quantity, expected) in [
        ("eventz_per_sekond", "did you mean events_per_second"),
        ("events_incomplet", "did you mean events_incomplete"),
        ("hours_left", "did you mean disk.hours_left"),
        ("source.a.loss_per_secnd", "did you mean source.*.loss_per_second"),
        ("source.b.loss_per_second", "expected a source of this file or *, got \"b\""),
        ("disk.x.hours_left", "unknown quantity"),
        ("device.writ.written_bytes", "expected write or *, got \"writ\"; did you mean write?"),
    ] {
        let error = check(quantity).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.place, Some((3, 12)), "{error}");
    }
}

#[test]
fn what_cannot_be_is_said_with_its_place() {
    for (text, expected) in [
        ("[control]\nlissten = \"127.0.0.1:1\"\n", "did you mean listen"),
        ("[control]\nnames = [\"a:1\"]\n", "names of hosts"),
        ("[control]\ndrain = \"2 h\"\n", ":2:9: control.drain: expected 1 ms to 1 h, got 2 h"),
        (
            "[control]\ntls = \"on\"\n",
            ":2:7: expected \"off\", \"self-made\" or { certificate = FILE, key = FILE }, \
             got \"on\"",
        ),
        ("[control]\ntls = true\n", "boolean `true`, expected \"off\", \"self-made\" or {"),
        ("[control]\ntls = { key = \"k\" }\n", "the key \"certificate\" is missing here"),
        ("[control]\ntls = { kye = \"k\" }\n", "unknown key \"kye\"; did you mean key?"),
        ("[[alarms]]\nname = \"x\"\nquantity = \"fault\"\n", "exactly one of"),
        ("[[alarms]]\nname = \"x\"\nquantity = \"fault\"\nabove = 1\nclear_at = 2\n", "clear"),
        ("[[alarms]]\nname = \"x\"\nquantity = \"a.\"\nabove = 1\n", "no quantity"),
        (
            "[[alarms]]\nname = \"x\"\nquantity = \"fault\"\nabove = 1\nactions = [\"b\"]\n",
            "[[actions]]",
        ),
        ("[[actions]]\nname = \"x\"\n", "either command"),
    ] {
        let error = check(Path::new("x.toml"), &format!("{text}{SOURCE}")).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.place.is_some(), "{error}");
    }
}
