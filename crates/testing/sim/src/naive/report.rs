//! What the naive sender reports of itself.

use std::collections::BTreeMap;

use catchment_wire::session::{Encoder, NONE, Report, Text, Value, ValueKind, ValueType};

use super::Naive;
use crate::settings;

/// What it has reported: items of its logs, and settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) made: Vec<u64>,
    pub(super) settings: BTreeMap<String, String>,
}

impl Naive {
    /// Reports how many items each log has, by the name that the clients give to that, and each
    /// setting in a message of its own.
    pub(super) fn report(&mut self) {
        let made: Vec<u64> = self.logs.iter().map(|log| log.made).collect();
        let record = |(log, made): (u32, &u64)| Value {
            kind: ValueKind::COUNTER,
            value_type: ValueType::U64,
            flags: 0,
            log,
            value: made.to_le_bytes(),
            min: [0; 8],
            max: [0; 8],
            unit: Text::new("items").expect("a unit"),
            name: Text::new("made").expect("a name"),
        };
        self.control.message(|out, number| {
            let mut message = Encoder::begin(out, number, &Report {});
            assert!((0..).zip(&made).map(record).all(|one| message.push(&one)), "they fit");
            message.finish("", &[])
        });
        for (name, text) in &self.settings {
            let number = text.parse::<i64>().ok().filter(|_| name == settings::NUMBER);
            let record = Value {
                kind: ValueKind::SETTING,
                value_type: if number.is_some() { ValueType::I64 } else { ValueType::TEXT },
                flags: Value::WRITABLE,
                log: NONE,
                value: number.unwrap_or(0).to_le_bytes(),
                min: [0; 8],
                max: [0; 8],
                unit: Text::new("").expect("a unit"),
                name: Text::new(name).expect("a name"),
            };
            let text = if number.is_some() { "" } else { text.as_str() };
            self.control.message(|out, at| {
                let mut message = Encoder::begin(out, at, &Report {});
                assert!(message.push(&record), "it fits");
                message.finish(text, &[])
            });
        }
        self.unheard.push_back((self.cookie, Said { made, settings: self.settings.clone() }));
    }
}
