//! How a column is to be encoded.

use std::sync::Arc;

use catchment_codec::{Auto, Coding, ColumnEncoder, Element};
use catchment_frame::ColumnCoding;
use parking_lot::Mutex;

/// How one column is to be encoded.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What its bytes are.
    pub element: Element,
    /// Which coding it gets.
    pub rule: Rule,
    /// How much of that is done.
    pub level: Level,
}

/// Which coding a column gets.
#[derive(Clone, Debug)]
pub enum Rule {
    /// Always this one.
    Fixed(Coding),
    /// The one that suits the data, which columns of one kind, frame after frame, find together.
    Auto(AutoState),
}

/// What `auto` knows of one kind of columns. Clones are the same state.
#[derive(Clone, Debug)]
pub struct AutoState(Arc<Mutex<Auto>>);

impl Rule {
    /// The rule for columns of such elements, with a state of its own.
    pub fn of(coding: ColumnCoding, element: Element) -> Self {
        match coding {
            ColumnCoding::Fixed(coding) => Self::Fixed(coding),
            ColumnCoding::Portable => Self::Fixed(Coding::portable(element)),
            ColumnCoding::Auto => Self::Auto(AutoState::new(element)),
        }
    }
}

impl AutoState {
    /// A state for columns of such elements, which has seen none.
    pub fn new(element: Element) -> Self {
        Self(Arc::new(Mutex::new(Auto::new(element))))
    }

    /// Has the next column tried anew.
    pub fn begin_file(&self) {
        self.0.lock().begin_file();
    }
}

/// How much of the asked compression is done: less, where there is no time for it. The greater of
/// two levels does less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// As the rule says.
    #[default]
    AsAsked,
    /// One step cheaper.
    Cheaper,
    /// Nothing is compressed.
    None,
}

impl Level {
    /// The level of that number, as `level as u8` gives it.
    pub(crate) fn of(number: u8) -> Self {
        match number {
            0 => Self::AsAsked,
            1 => Self::Cheaper,
            _ => Self::None,
        }
    }
}

impl Ask {
    /// All that a rule says, for a column of such elements.
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

    /// The coding of a rule that names one; none where `auto` is to choose.
    pub fn fixed(&self) -> Coding {
        match &self.rule {
            Rule::Fixed(coding) => coding.for_element(self.element),
            Rule::Auto(_) => Coding::None,
        }
    }

    /// Whether nothing can come out but the raw bytes, so that they need not be gathered.
    pub(crate) fn is_raw(&self) -> bool {
        let auto_stays_raw = || match &self.rule {
            Rule::Fixed(_) => false,
            Rule::Auto(state) => state.0.lock().stays_raw(),
        };
        self.level == Level::None || !self.compresses() || auto_stays_raw()
    }

    /// The coding for these bytes, and whether it is less than was asked for.
    pub(crate) fn coding(
        &self,
        encoder: &mut ColumnEncoder,
        raw: &[u8],
        free_cpu_share: f32,
    ) -> (Coding, bool) {
        let asked = match &self.rule {
            Rule::Fixed(coding) => coding.for_element(self.element),
            // What it would be is not found out for columns that stay raw.
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
