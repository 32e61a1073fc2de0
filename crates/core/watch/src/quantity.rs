//! Quantities that alarms look at, and where their values come from.

use std::collections::BTreeMap;
use std::fmt;

/// The longest name of a quantity in bytes.
pub const QUANTITY_BYTES_MAX: usize = 256;
/// Quantities of a source that are causes of losses, by their ends.
const CAUSES: [&str; 3] = [".last_packet_seconds", ".out_of_step", ".flooding"];

/// The name of a quantity: `events_per_second`, `disk.hours_left`, of one thing of many
/// `source.rich-03.loss_per_second`, or of all of them `source.*.loss_per_second`. With two dots or
/// more the first part is the family, the last the quantity, and what is between the thing's name,
/// which may have dots itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    text: String,
    of: Of,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Of {
    Itself,
    One { family: String, thing: String, name: String },
    Each { family: String, name: String },
}

/// Not the name of a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no quantity: such as events_per_second, disk.hours_left, source.*.loss_per_second"
)]
pub struct QuantityError {
    /// The beginning of what was given.
    pub text: String,
}

/// Values of quantities at one moment, put in by name.
#[derive(Clone, Debug, Default)]
pub struct ReadingTable {
    plain: BTreeMap<String, f64>,
    // By family and name, then by thing.
    things: BTreeMap<(String, String), BTreeMap<String, f64>>,
    // By family, then by thing.
    groups: BTreeMap<String, BTreeMap<String, String>>,
}

impl Quantity {
    /// Takes a name apart.
    ///
    /// # Errors
    /// It is empty, too long, has an empty part or a `*` that is not a part by itself in the
    /// middle.
    pub fn new(text: impl Into<String>) -> Result<Self, QuantityError> {
        let text = text.into();
        let of = if text.len() <= QUANTITY_BYTES_MAX { Self::parse(&text) } else { None };
        match of {
            Some(of) => Ok(Self { text, of }),
            None => Err(QuantityError { text: text.chars().take(64).collect() }),
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is read of many things.
    pub fn is_of_each(&self) -> bool {
        matches!(self.of, Of::Each { .. })
    }

    /// The thing that it is read of, if it is one; otherwise nothing.
    pub fn thing(&self) -> &str {
        match &self.of {
            Of::One { thing, .. } => thing,
            Of::Itself | Of::Each { .. } => "",
        }
    }

    /// Its name with `*` for the thing that it is read of, if there is one.
    pub fn kind(&self) -> String {
        match &self.of {
            Of::One { family, name, .. } | Of::Each { family, name } => {
                format!("{family}.*.{name}")
            }
            Of::Itself => self.text.clone(),
        }
    }

    /// What the things that it is read of are: `source`, `queue`, `target`, `device`,
    /// `front_end`, `folder`, `stream`; otherwise nothing.
    pub fn family(&self) -> &str {
        match &self.of {
            Of::One { family, .. } | Of::Each { family, .. } => family,
            Of::Itself => "",
        }
    }

    /// Where it stands among causes and effects: a cause before what it leads to. A full disk stops
    /// the files, queues fill, data are lost.
    pub(crate) fn cause_rank(&self) -> u8 {
        let family = self.family();
        match self.text.as_str() {
            text if text.starts_with("disk.") || text == "fault" => 0,
            "rows_recorded" => 1,
            "sources_silent" => 2,
            text if CAUSES.iter().any(|end| text.ends_with(end)) => 2,
            _ if ["target", "folder"].contains(&family) => 0,
            _ if family == "stream" => 1,
            _ if family == "front_end" => 1,
            _ if family == "queue" => 3,
            text if text.contains("loss") || text.contains("fragments_") => 5,
            "bad_share" => 5,
            _ => 4,
        }
    }

    fn parse(text: &str) -> Option<Of> {
        let word = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        let (family, rest) = match text.split_once('.') {
            None => return word(text).then_some(Of::Itself),
            Some(parts) => parts,
        };
        let Some((thing, name)) = rest.rsplit_once('.') else {
            return (word(family) && word(rest)).then_some(Of::Itself);
        };
        if !(word(family) && word(name)) || thing.is_empty() {
            return None;
        }
        let (family, name) = (family.to_owned(), name.to_owned());
        match thing {
            "*" => Some(Of::Each { family, name }),
            thing if thing.contains('*') => None,
            thing => Some(Of::One { family, thing: thing.to_owned(), name }),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ReadingTable {
    /// Puts in a quantity of nothing else: `disk.hours_left`.
    pub fn set(&mut self, name: &str, value: f64) {
        self.plain.insert(name.to_owned(), value);
    }

    /// Puts in a quantity of one thing: `source`, `rich-03`, `loss_per_second`.
    pub fn set_of(&mut self, family: &str, thing: &str, name: &str, value: f64) {
        let key = (family.to_owned(), name.to_owned());
        self.things.entry(key).or_default().insert(thing.to_owned(), value);
    }

    /// Puts in a quantity of many things.
    pub fn set_each<'a>(
        &mut self,
        family: &str,
        name: &str,
        values: impl Iterator<Item = (&'a str, f64)>,
    ) {
        let things = self.things.entry((family.to_owned(), name.to_owned())).or_default();
        things.extend(values.map(|(thing, value)| (thing.to_owned(), value)));
    }

    /// Says which group a thing is in.
    pub fn set_group(&mut self, family: &str, thing: &str, group: &str) {
        let groups = self.groups.entry(family.to_owned()).or_default();
        groups.insert(thing.to_owned(), group.to_owned());
    }

    /// What is in it, with `*` for things: `disk.hours_left`, `source.*.loss_per_second`.
    pub fn kinds(&self) -> impl Iterator<Item = String> {
        let things = self.things.keys().map(|(family, name)| format!("{family}.*.{name}"));
        self.plain.keys().cloned().chain(things)
    }

    /// Takes all values out; groups stay.
    pub fn clear(&mut self) {
        self.plain.clear();
        self.things.clear();
    }

    /// Calls `visit` with each thing that the quantity is read of (an empty name if it is of none)
    /// and the value. Not called for what cannot be read now.
    pub fn each(&self, quantity: &Quantity, visit: &mut dyn FnMut(&str, f64)) {
        match &quantity.of {
            Of::Itself => {
                if let Some(&value) = self.plain.get(&quantity.text) {
                    visit("", value);
                }
            }
            Of::One { family, thing, name } => {
                let things = self.things.get(&(family.clone(), name.clone()));
                if let Some(&value) = things.and_then(|things| things.get(thing)) {
                    visit(thing, value);
                }
            }
            Of::Each { family, name } => {
                let things = self.things.get(&(family.clone(), name.clone()));
                things.into_iter().flatten().for_each(|(thing, &value)| visit(thing, value));
            }
        }
    }

    /// The group that a thing is in, of a family such as `source`; none where there are no groups.
    pub(crate) fn group(&self, family: &str, thing: &str) -> Option<&str> {
        self.groups.get(family)?.get(thing).map(String::as_str)
    }
}
