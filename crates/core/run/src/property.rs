//! Properties of devices: JSON Schema out, checked values in.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The most properties that a device has.
pub const PROPERTIES_MAX: usize = 256;
/// The longest text that a property takes, in bytes.
pub const TEXT_BYTES_MAX: usize = 4_096;

/// What a value can be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Yes or no.
    Boolean,
    /// A whole number.
    Integer,
    /// A finite number.
    Number,
    /// At most 4,096 bytes.
    Text,
    /// One of these words.
    Choice(Vec<String>),
}

/// One property of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Property {
    /// Its name, snake_case, the unit last: `socket_buffer_bytes`.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
    /// The unit for people: `bytes`.
    pub unit: Option<String>,
    /// What it is.
    pub description: String,
    /// Whether it can be set while the device lives.
    pub writable: bool,
    /// The least value of a number.
    pub minimum: Option<f64>,
    /// The greatest value of a number.
    pub maximum: Option<f64>,
}

/// All properties of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Schema {
    title: String,
    properties: Vec<Property>,
}

/// What is wrong with properties or with values for them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PropertyError {
    /// Names that are the same, empty or too many; bounds the wrong way round or no numbers.
    #[error("the property {name}: {reason}")]
    Schema {
        /// Which.
        name: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// There is none of that name.
    #[error("there is no property {name}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It only says how things are.
    #[error("{name} can be read only")]
    ReadOnly {
        /// The name.
        name: String,
    },
    /// A value of another kind.
    #[error("{name} must be {expected}, not {got}")]
    Kind {
        /// The name.
        name: String,
        /// What it must be.
        expected: String,
        /// What was given, shortened.
        got: String,
    },
    /// A number beyond the bounds.
    #[error("{name} must be {bounds}, not {got}")]
    Range {
        /// The name.
        name: String,
        /// The bounds.
        bounds: String,
        /// What was given.
        got: f64,
    },
}

impl Property {
    /// A property that can only be read.
    pub fn new(name: &str, kind: Kind, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            unit: None,
            description: description.to_owned(),
            writable: false,
            minimum: None,
            maximum: None,
        }
    }

    /// With a unit.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        self.unit = Some(unit.to_owned());
        self
    }

    /// That can be set.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.writable = true;
        self
    }

    /// With bounds, both included.
    #[must_use]
    pub fn range(mut self, minimum: f64, maximum: f64) -> Self {
        (self.minimum, self.maximum) = (Some(minimum), Some(maximum));
        self
    }

    /// Checks a value for it.
    ///
    /// # Errors
    /// Another kind of value, or beyond the bounds.
    pub fn check(&self, value: &Value) -> Result<(), PropertyError> {
        let fits = match &self.kind {
            Kind::Boolean => value.is_boolean(),
            Kind::Integer => value.is_i64() || value.is_u64(),
            Kind::Number => value.is_number(),
            Kind::Text => value.as_str().is_some_and(|text| text.len() <= TEXT_BYTES_MAX),
            Kind::Choice(words) => {
                value.as_str().is_some_and(|text| words.iter().any(|word| word == text))
            }
        };
        if !fits {
            let expected = self.kind.words();
            let got = value.to_string().chars().take(64).collect();
            return Err(PropertyError::Kind { name: self.name.clone(), expected, got });
        }
        let Some(number) = value.as_f64() else { return Ok(()) };
        let low = self.minimum.is_some_and(|minimum| number < minimum);
        let high = self.maximum.is_some_and(|maximum| number > maximum);
        if low || high {
            let bounds = match (self.minimum, self.maximum) {
                (Some(low), Some(high)) => format!("from {low} to {high}"),
                (Some(low), None) => format!("{low} or more"),
                (None, high) => format!("{} or less", high.unwrap_or(f64::INFINITY)),
            };
            return Err(PropertyError::Range { name: self.name.clone(), bounds, got: number });
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let mut schema = Map::new();
        schema.insert("description".into(), json!(self.description));
        match &self.kind {
            Kind::Boolean => schema.insert("type".into(), json!("boolean")),
            Kind::Integer => schema.insert("type".into(), json!("integer")),
            Kind::Number => schema.insert("type".into(), json!("number")),
            Kind::Text => {
                schema.insert("maxLength".into(), json!(TEXT_BYTES_MAX));
                schema.insert("type".into(), json!("string"))
            }
            Kind::Choice(words) => schema.insert("enum".into(), json!(words)),
        };
        if !self.writable {
            schema.insert("readOnly".into(), json!(true));
        }
        let bounds = [("minimum", self.minimum), ("maximum", self.maximum)];
        for (word, bound) in bounds {
            if let Some(bound) = bound {
                schema.insert(word.into(), number(bound));
            }
        }
        if let Some(unit) = &self.unit {
            schema.insert("unit".into(), json!(unit));
        }
        Value::Object(schema)
    }

    fn error(&self, reason: &'static str) -> PropertyError {
        PropertyError::Schema { name: self.name.clone(), reason }
    }
}

impl Kind {
    fn words(&self) -> String {
        match self {
            Self::Boolean => "true or false".to_owned(),
            Self::Integer => "a whole number".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Text => format!("a text of at most {TEXT_BYTES_MAX} bytes"),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }
}

impl Schema {
    /// The properties of the device that `title` names.
    ///
    /// # Errors
    /// Too many, an empty name, a name twice, bounds of what is no number or that leave nothing, a
    /// choice of nothing.
    pub fn new(title: &str, properties: Vec<Property>) -> Result<Self, PropertyError> {
        for (index, property) in properties.iter().enumerate() {
            let bounds = [property.minimum, property.maximum];
            let (low, high) = (bounds[0].unwrap_or(f64::MIN), bounds[1].unwrap_or(f64::MAX));
            let is_number = matches!(property.kind, Kind::Integer | Kind::Number);
            if index >= PROPERTIES_MAX {
                return Err(property.error("there are more than 256"));
            }
            if property.name.is_empty() {
                return Err(property.error("it has no name"));
            }
            if properties[..index].iter().any(|other| other.name == property.name) {
                return Err(property.error("it is there twice"));
            }
            if !is_number && bounds.iter().any(Option::is_some) {
                return Err(property.error("only numbers have bounds"));
            }
            if !(low.is_finite() && high.is_finite() && low <= high) {
                return Err(property.error("its bounds leave nothing"));
            }
            if matches!(&property.kind, Kind::Choice(words) if words.is_empty()) {
                return Err(property.error("it has nothing to choose from"));
            }
        }
        Ok(Self { title: title.to_owned(), properties })
    }

    /// The properties.
    pub fn properties(&self) -> &[Property] {
        &self.properties
    }

    /// As JSON Schema 2020-12. Units stand in the annotation `unit`.
    pub fn json(&self) -> Value {
        let properties: Map<String, Value> =
            self.properties.iter().map(|one| (one.name.clone(), one.json())).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self.title,
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }

    /// Checks values that are to be set, all before any is.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn check(&self, values: &Map<String, Value>) -> Result<(), PropertyError> {
        for (name, value) in values {
            let property = self.properties.iter().find(|property| property.name == *name);
            let Some(property) = property else {
                return Err(PropertyError::Unknown { name: name.chars().take(64).collect() });
            };
            if !property.writable {
                return Err(PropertyError::ReadOnly { name: name.clone() });
            }
            property.check(value)?;
        }
        Ok(())
    }
}

/// A whole number without a decimal point, as people write bounds.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() <= 2_f64.powi(53) {
        json!(value as i64)
    } else {
        json!(value)
    }
}
