//! Rules for encoding a column.

use std::sync::Arc;

use catchment_codec::{Auto, Coding, ColumnEncoder, Element};
use catchment_frame::ColumnCoding;
use parking_lot::Mutex;

/// How to encode one column.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The type of its elements.
    pub element: Element,
    /// The choice of its coding.
    pub rule: Rule,
    /// The level to which this is applied.
    pub level: Level,
}

/// The choice of a column's coding.
#[derive(Clone, Debug)]
pub enum Rule {
    /// A fixed coding.
    Fixed(Coding),
    /// The one that suits the data, chosen together by columns of one kind, frame after frame.
    Auto(AutoState),
}

/// The state of `auto` for one kind of columns. Clones share the state.
#[derive(Clone, Debug)]
pub struct AutoState(Arc<Mutex<Auto>>);

impl Rule {
    /// The rule for columns of such elements, with its own state.
    pub fn of(coding: ColumnCoding, element: Element) -> Self {
        match coding {
            ColumnCoding::Fixed(coding) => Self::Fixed(coding),
            ColumnCoding::Portable => Self::Fixed(Coding::portable(element)),
            ColumnCoding::Auto => Self::Auto(AutoState::new(element)),
        }
    }
}

impl AutoState {
    /// A state for columns of such elements, before the first.
    pub fn new(element: Element) -> Self {
        Self(Arc::new(Mutex::new(Auto::new(element))))
    }

    /// Makes the next column try the codings again.
    pub fn begin_file(&self) {
        self.0.lock().begin_file();
    }
}

/// How much of the configured compression is applied: less if there is no time for it. The greater
/// of two levels compresses less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// As configured by the rule.
    #[default]
    AsAsked,
    /// One step cheaper.
    Cheaper,
    /// Nothing is compressed.
    None,
}

impl Level {
    /// The level with that number, as from `level as u8`.
    pub(crate) fn of(number: u8) -> Self {
        match number {
            0 => Self::AsAsked,
            1 => Self::Cheaper,
            _ => Self::None,
        }
    }
}

impl Ask {
    /// The complete rule for a column of such elements.
    pub fn new(element: Element, rule: Rule) -> Self {
        Self { element, rule, level: Level::AsAsked }
    }

    /// Whether the rule asks for any compression.
    pub fn compresses(&self) -> bool {
        match &self.rule {
            Rule::Fixed(coding) => coding.for_element(self.element) != Coding::None,
            Rule::Auto(_) => true,
        }
    }

    /// The coding of a rule that names one; none if `auto` chooses.
    pub fn fixed(&self) -> Coding {
        match &self.rule {
            Rule::Fixed(coding) => coding.for_element(self.element),
            Rule::Auto(_) => Coding::None,
        }
    }

    /// Whether the result can only be the raw bytes, so that they need not be gathered.
    pub(crate) fn is_raw(&self) -> bool {
        let auto_stays_raw = || match &self.rule {
            Rule::Fixed(_) => false,
            Rule::Auto(state) => state.0.lock().stays_raw(),
        };
        self.level == Level::None || !self.compresses() || auto_stays_raw()
    }

    /// The coding for these bytes, and whether it is less than configured.
    pub(crate) fn coding(
        &self,
        encoder: &mut ColumnEncoder,
        raw: &[u8],
        free_cpu_share: f32,
    ) -> (Coding, bool) {
        let asked = match &self.rule {
            Rule::Fixed(coding) => coding.for_element(self.element),
            // Columns that stay raw do not determine what it would be.
            Rule::Auto(_) if self.level == Level::None => return (Coding::None, true),
            Rule::Auto(state) => state.0.lock().choose(encoder, raw, free_cpu_share),
        };
        let coding = match self.level {
            Level::AsAsked => asked,
            Level::Cheaper => asked.cheaper(self.element),
            Level::None => Coding::None,
        };
        (coding, coding != asked)
    }
}
