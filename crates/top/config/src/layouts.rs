//! Declared layouts: `[[layouts]]`.

use std::fmt;

use catchment_builder::NUMBER_BITS_MAX;
use catchment_model::units::{Size, deserialize_text};
use catchment_wire::Protocol as _;
use catchment_wire::layouts::{
    Block, ChecksumKind, Field, FieldKind, Layout, Layouts, Order, Recorded, Role,
};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor};

use crate::locate::{ConfigFileError, Located};

/// One of the tables.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LayoutLow {
    name: String,
    #[serde(default)]
    transport: TransportLow,
    #[serde(default)]
    order: OrderLow,
    #[serde(default)]
    fragment: FragmentLow,
    packet: PacketLow,
    #[serde(default)]
    record: Vec<RecordLow>,
}

/// The layout of a source, or those of which its packets have one.
#[derive(Debug)]
pub(crate) struct LayoutNames(pub(crate) Vec<String>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum TransportLow {
    #[default]
    Datagrams,
    Stream,
}

#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum FragmentLow {
    #[default]
    Record,
    Body,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PacketLow {
    #[serde(default)]
    head: u32,
    #[serde(default)]
    tail: u32,
    align: Option<u32>,
    bytes: Option<Size>,
    bytes_max: Option<Size>,
    #[serde(default)]
    skip: bool,
    #[serde(default)]
    skip_rest: bool,
    #[serde(default)]
    fields: Vec<FieldLow>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordLow {
    #[serde(default)]
    name: String,
    #[serde(default)]
    head: u32,
    #[serde(default)]
    tail: u32,
    align: Option<u32>,
    bytes: Option<Size>,
    bytes_max: Option<Size>,
    #[serde(default)]
    skip: bool,
    #[serde(default)]
    fields: Vec<FieldLow>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldLow {
    at: i64,
    width: Option<u32>,
    bits: Option<BitsLow>,
    is: Option<RoleLow>,
    equals: Option<u64>,
    choose: Option<u64>,
    each: Option<u64>,
    unit: Option<u64>,
    plus: Option<i64>,
    rate: Option<ClockRate>,
    kind: Option<KindLow>,
    from: Option<i64>,
    to: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum RoleLow {
    Length,
    Count,
    Sequence,
    Source,
    Tag,
    Broken,
    Groups,
    Key,
    Time,
    Seconds,
    Position,
    Total,
    Checksum,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindLow {
    Crc32c,
    Crc32,
    Sum32,
    Xor32,
    Copy,
}

/// A bit, or the first and the last.
#[derive(Clone, Copy, Debug)]
struct BitsLow([u32; 2]);

/// Ticks per second.
#[derive(Clone, Copy, Debug)]
struct ClockRate(u64);

#[derive(Clone, Copy, Debug)]
struct OrderLow(Order);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Detected {
    at: u32,
    mask: u32,
    equals: u32,
}

/// The protocols of all layouts of a file.
pub(crate) fn layouts(
    located: &Located<'_>,
    low: &[LayoutLow],
) -> Result<Vec<Layouts>, ConfigFileError> {
    if low.len() > LAYOUTS_MAX {
        let (most, got) = (format!("at most {LAYOUTS_MAX}"), low.len().to_string());
        return Err(located.expected("layouts", &most, &got));
    }
    let mut all: Vec<Layouts> = Vec::new();
    for (index, low) in low.iter().enumerate() {
        let path = format!("layouts[{index}]");
        if low.name.is_empty() || all.iter().any(|other| other.layout().name == low.name) {
            let got = format!("{:?}", low.name);
            return Err(located.expected(&format!("{path}.name"), "a name of its own", &got));
        }
        let layout = layout(located, &path, low)?;
        let made = Layouts::new(layout).map_err(|error| {
            let key =
                if error.key.is_empty() { path.clone() } else { format!("{path}.{}", error.key) };
            located.error(&key, error.message)
        });
        all.push(made?);
    }
    Ok(all)
}

fn layout(located: &Located<'_>, path: &str, low: &LayoutLow) -> Result<Layout, ConfigFileError> {
    let fields = |path: String, low: &[FieldLow]| -> Result<Vec<Field>, ConfigFileError> {
        let paths = (0..low.len()).map(|index| format!("{path}.fields[{index}]"));
        paths.zip(low).map(|(path, low)| field(located, &path, low)).collect()
    };
    let PacketLow { head, tail, align, bytes, bytes_max, skip, skip_rest, .. } = low.packet;
    let block = Block {
        head,
        tail,
        align: align.unwrap_or(1),
        bytes: bytes.map(u64::from),
        bytes_max: bytes_max.map(u64::from),
        skip,
        skip_rest,
        fields: fields(format!("{path}.packet"), &low.packet.fields)?,
        ..Block::default()
    };
    let mut records = Vec::new();
    for (index, low) in low.record.iter().enumerate() {
        let &RecordLow { head, tail, align, bytes, bytes_max, skip, .. } = low;
        records.push(Block {
            name: low.name.clone(),
            head,
            tail,
            align: align.unwrap_or(1),
            bytes: bytes.map(u64::from),
            bytes_max: bytes_max.map(u64::from),
            skip,
            fields: fields(format!("{path}.record[{index}]"), &low.fields)?,
            ..Block::default()
        });
    }
    let recorded = match low.fragment {
        FragmentLow::Record => Recorded::Whole,
        FragmentLow::Body => Recorded::Body,
    };
    Ok(Layout {
        name: low.name.clone(),
        is_stream: low.transport == TransportLow::Stream,
        order: low.order.0,
        packet: block,
        records,
        recorded,
    })
}

fn field(located: &Located<'_>, path: &str, low: &FieldLow) -> Result<Field, ConfigFileError> {
    let given = [
        ("is", low.is.is_some()),
        ("equals", low.equals.is_some()),
        ("choose", low.choose.is_some()),
        ("each", low.each.is_some()),
    ];
    let given: Vec<&str> =
        given.iter().filter(|(_, is_given)| *is_given).map(|one| one.0).collect();
    if given.len() != 1 {
        let got = if given.is_empty() { "none".to_owned() } else { given.join(" and ") };
        return Err(located.expected(path, "exactly one of is, equals, choose, each", &got));
    }
    let of_roles = [
        ("unit", &[RoleLow::Length, RoleLow::Position, RoleLow::Total][..], low.unit.is_some()),
        ("plus", &[RoleLow::Length], low.plus.is_some()),
        ("rate", &[RoleLow::Time], low.rate.is_some()),
        ("kind", &[RoleLow::Checksum], low.kind.is_some()),
        ("from", &[RoleLow::Checksum], low.from.is_some()),
        ("to", &[RoleLow::Checksum], low.to.is_some()),
    ];
    for (key, roles, is_given) in of_roles {
        if is_given && !low.is.is_some_and(|is| roles.contains(&is)) {
            let names =
                roles.iter().map(|role| format!("{:?}", format!("{role:?}").to_lowercase()));
            let names: Vec<String> = names.collect();
            let message = format!("expected it with is = {} alone", names.join(" or "));
            return Err(located.error(&format!("{path}.{key}"), message));
        }
    }
    let kind = match (low.is, low.equals, low.choose, low.each) {
        (Some(role), ..) => FieldKind::Is(self::role(located, path, low, role)?),
        (_, Some(value), ..) => FieldKind::Equals(value),
        (_, _, Some(value), _) => FieldKind::Choose(value),
        (_, _, _, each) => FieldKind::Each(each.unwrap_or_default()),
    };
    let bits = low.bits.map(|bits| bits.0);
    Ok(Field { at: low.at, width: low.width.unwrap_or(4), bits, kind })
}

fn role(
    located: &Located<'_>,
    path: &str,
    low: &FieldLow,
    role: RoleLow,
) -> Result<Role, ConfigFileError> {
    Ok(match role {
        RoleLow::Length => {
            Role::Length { unit: low.unit.unwrap_or(1), plus: low.plus.unwrap_or(0) }
        }
        RoleLow::Count => Role::Count,
        RoleLow::Sequence => Role::Sequence,
        RoleLow::Source => Role::Source,
        RoleLow::Tag => Role::Tag,
        RoleLow::Broken => Role::Broken,
        RoleLow::Groups => Role::Groups,
        RoleLow::Key => Role::Key,
        RoleLow::Time => Role::Time { rate_hz: low.rate.map(|rate| rate.0) },
        RoleLow::Seconds => Role::Seconds,
        RoleLow::Position => Role::Position { unit: low.unit.unwrap_or(1) },
        RoleLow::Total => Role::Total { unit: low.unit.unwrap_or(1) },
        RoleLow::Checksum => {
            let kind = match low.kind {
                Some(KindLow::Crc32c) => ChecksumKind::Crc32c,
                Some(KindLow::Crc32) => ChecksumKind::Crc32,
                Some(KindLow::Sum32) => ChecksumKind::Sum32,
                Some(KindLow::Xor32) => ChecksumKind::Xor32,
                Some(KindLow::Copy) => ChecksumKind::Copy,
                None => return Err(located.expected(path, "kind with checksum", "none")),
            };
            Role::Checksum { kind, from: low.from.unwrap_or(0), to: low.to }
        }
    })
}

/// The layout that a source names at `key`, as its protocol.
pub(crate) fn of_source<'a>(
    located: &Located<'_>,
    key: &str,
    name: Option<&str>,
    all: &'a [Layouts],
) -> Result<&'a Layouts, ConfigFileError> {
    let found = name.and_then(|name| all.iter().find(|one| one.layout().name == name));
    let Some(layouts) = found else {
        let names: Vec<&str> = all.iter().map(|one| one.layout().name.as_str()).collect();
        let expected = match names.is_empty() {
            true => "one of [[layouts]], of which there is none".to_owned(),
            false => format!("the name of one of [[layouts]], {}", names.join(" or ")),
        };
        let got = name.map_or_else(|| "none".to_owned(), |name| format!("{name:?}"));
        return Err(located.expected(key, &expected, &got));
    };
    // Packets that are no fragments have no keys.
    if layouts.layout().packet.skip || layouts.clock_hz().is_some() {
        return Ok(layouts);
    }
    let bits = layouts.number_bits();
    if bits > NUMBER_BITS_MAX {
        let name = name.unwrap_or_default();
        let message =
            format!("expected keys of at most {NUMBER_BITS_MAX} bits, {name:?} has {bits}");
        return Err(located.error(key, message));
    }
    Ok(layouts)
}

impl Default for OrderLow {
    fn default() -> Self {
        Self(Order::Little)
    }
}

impl<'de> Deserialize<'de> for OrderLow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrderVisitor;
        impl<'de> Visitor<'de> for OrderVisitor {
            type Value = OrderLow;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"little\", \"big\" or { at = BYTE, mask = BITS, equals = VALUE }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<OrderLow, E> {
                match text {
                    "little" => Ok(OrderLow(Order::Little)),
                    "big" => Ok(OrderLow(Order::Big)),
                    _ => {
                        let expected: &dyn de::Expected = &self;
                        Err(E::custom(format!("expected {expected}, got {text:?}")))
                    }
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OrderLow, A::Error> {
                let detected = Detected::deserialize(MapAccessDeserializer::new(map))?;
                let Detected { at, mask, equals } = detected;
                Ok(OrderLow(Order::Detected { at, mask, equals }))
            }
        }
        deserializer.deserialize_any(OrderVisitor)
    }
}

impl<'de> Deserialize<'de> for LayoutNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamesVisitor;
        impl<'de> Visitor<'de> for NamesVisitor {
            type Value = LayoutNames;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a layout's name, or a list of such names")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<LayoutNames, E> {
                Ok(LayoutNames(vec![name.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<LayoutNames, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(LayoutNames)
            }
        }
        deserializer.deserialize_any(NamesVisitor)
    }
}

impl<'de> Deserialize<'de> for BitsLow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BitsVisitor;
        impl<'de> Visitor<'de> for BitsVisitor {
            type Value = BitsLow;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bits: a bit's number, or the first and the last, such as [8, 31]")
            }

            fn visit_i64<E: de::Error>(self, bit: i64) -> Result<BitsLow, E> {
                let bit = u32::try_from(bit);
                let bit =
                    bit.map_err(|_| E::invalid_value(Unexpected::Other("a negative bit"), &self));
                bit.map(|bit| BitsLow([bit, bit]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<BitsLow, A::Error> {
                let wrong = || de::Error::invalid_type(Unexpected::Seq, &self);
                let first = list.next_element()?.ok_or_else(wrong)?;
                let last = list.next_element()?.ok_or_else(wrong)?;
                match list.next_element::<u32>()? {
                    None => Ok(BitsLow([first, last])),
                    Some(_) => Err(wrong()),
                }
            }
        }
        deserializer.deserialize_any(BitsVisitor)
    }
}

impl std::str::FromStr for ClockRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!("expected a clock rate such as \"125 MHz\", a whole number of Hz, got {text:?}")
        };
        let units = [("THz", 1e12), ("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0)];
        let number = |&(unit, scale): &(&str, f64)| {
            Some(text.trim().strip_suffix(unit)?.trim().parse::<f64>().ok()? * scale)
        };
        let hz = units.iter().find_map(number).ok_or_else(expected)?;
        let whole = hz.round();
        // Below 10^12, a whole number of Hz differs from what was written by less than this.
        let is_exact = (hz - whole).abs() < 1e-3;
        let fits = is_exact && (1.0..=1e12).contains(&whole);
        fits.then_some(Self(whole as u64)).ok_or_else(expected)
    }
}

impl<'de> Deserialize<'de> for ClockRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a clock rate such as \"125 MHz\", a whole number of Hz";
        deserialize_text(deserializer, expected, |_| None)
    }
}

/// Layouts of one file.
const LAYOUTS_MAX: usize = 64;

#[cfg(test)]
mod tests;
