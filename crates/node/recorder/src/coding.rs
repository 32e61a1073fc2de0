//! How columns are encoded: rules, and how much of them there is time for.

use std::fmt;
use std::str::FromStr;

use catchment_codec::UnknownCoding;
use catchment_encoder::{AutoState, Coding, Element, Level, Rule};
use catchment_frame::Dtype;
use catchment_telemetry::FillLevel;

/// Which coding columns get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CodingRule {
    /// Always this one.
    Fixed(Coding),
    /// What other programs decode, too, by the type of the data: [`Coding::portable`].
    Portable,
    /// Each column the one that suits its data, by trials.
    Auto,
}

impl CodingRule {
    /// Nothing is compressed.
    pub const NONE: Self = Self::Fixed(Coding::None);

    /// The rule for one column, with a state of its own.
    pub(crate) fn for_column(self, element: Element) -> Rule {
        match self {
            Self::Fixed(coding) => Rule::Fixed(coding),
            Self::Portable => Rule::Fixed(Coding::portable(element)),
            Self::Auto => Rule::Auto(AutoState::new(element)),
        }
    }
}

impl FromStr for CodingRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "portable" => Ok(Self::Portable),
            other => other.parse().map(Self::Fixed).map_err(|error: UnknownCoding| {
                format!("{error}, or portable or auto; got {text:?}")
            }),
        }
    }
}

impl fmt::Display for CodingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(coding) => coding.fmt(f),
            Self::Portable => f.write_str("portable"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// The codecs' word for a type.
pub(crate) fn element_of(dtype: Dtype) -> Element {
    match dtype {
        Dtype::U16 => Element::U16,
        Dtype::U32 => Element::U32,
        Dtype::U64 => Element::U64,
        Dtype::I8 => Element::I8,
        Dtype::I16 => Element::I16,
        Dtype::I32 => Element::I32,
        Dtype::I64 => Element::I64,
        Dtype::F32 | Dtype::C64 => Element::F32,
        Dtype::F64 | Dtype::C128 => Element::F64,
        Dtype::U8 => Element::U8,
        _ => Element::Bytes,
    }
}

/// How much compression there is time for, from what waits: the less room is left, the less is done.
/// It comes back at half the level at which it went, so that it does not flutter.
#[derive(Debug, Default)]
pub(crate) struct Lowering {
    level: Level,
}

impl Lowering {
    /// The level for what is encoded now, when so many of so many bytes are waiting.
    pub(crate) fn level(&mut self, waiting: u64, room: u64) -> Level {
        let percent = waiting.saturating_mul(100) / room.max(1);
        self.level = match self.level {
            _ if percent >= NONE_FROM_PERCENT => Level::None,
            Level::None if percent >= NONE_FROM_PERCENT / 2 => Level::None,
            _ if percent >= CHEAPER_FROM_PERCENT => Level::Cheaper,
            Level::None | Level::Cheaper if percent >= CHEAPER_FROM_PERCENT / 2 => Level::Cheaper,
            _ => Level::AsAsked,
        };
        self.level
    }
}

/// Whether so little waits that all that was asked for can be done.
pub(crate) fn has_time(waiting: &FillLevel) -> bool {
    waiting.level().saturating_mul(100) / waiting.capacity().max(1) < CHEAPER_FROM_PERCENT
}

const CHEAPER_FROM_PERCENT: u64 = 25;
const NONE_FROM_PERCENT: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_goes_step_by_step_and_comes_back_later() {
        let mut lowering = Lowering::default();
        let mut level = |percent| lowering.level(percent, 100);
        let (asked, cheaper, none) = (Level::AsAsked, Level::Cheaper, Level::None);
        assert_eq!([0, 24, 25, 20, 13].map(&mut level), [asked, asked, cheaper, cheaper, cheaper]);
        assert_eq!([11, 24, 49].map(&mut level), [asked, asked, cheaper]);
        assert_eq!([50, 30, 25, 24, 11].map(&mut level), [none, none, none, cheaper, asked]);
        assert_eq!([90, 5].map(&mut level), [none, asked]);
    }

    #[test]
    fn there_is_time_as_long_as_nothing_would_be_compressed_less() {
        let waiting = FillLevel::new("frames waiting", 1_000);
        assert!(has_time(&waiting));
        waiting.put(249);
        assert!(has_time(&waiting) && Lowering::default().level(249, 1_000) == Level::AsAsked);
        waiting.put(1);
        assert!(!has_time(&waiting) && Lowering::default().level(250, 1_000) == Level::Cheaper);
    }
}
