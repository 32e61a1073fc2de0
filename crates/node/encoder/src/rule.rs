//! How a column is to be encoded.

use catchment_codec::{Coding, Element};

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
}

/// How much of the asked compression is done: less, where there is no time for it.
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

impl Ask {
    /// Whether nothing can come out but the raw bytes, so that they need not be gathered.
    pub(crate) fn is_raw(&self) -> bool {
        self.level == Level::None || matches!(self.rule, Rule::Fixed(Coding::None))
    }

    /// The coding for these bytes, and whether it is less than was asked for.
    pub(crate) fn coding(&self, _raw: &[u8], _free_cpu_share: f32) -> (Coding, bool) {
        let Rule::Fixed(asked) = self.rule;
        let coding = match self.level {
            Level::AsAsked => asked,
            Level::Cheaper => asked.cheaper(self.element),
            Level::None => Coding::None,
        };
        (coding, coding != asked)
    }
}
