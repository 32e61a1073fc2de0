//! The values of a block: read byte by byte, and as lines for people.

use super::declaration::{Block, Field, FieldKind, Role};

/// The first fields of a block as lines, those that `is_known`. A value of several parts is one
/// line, where its first part is. Of the block there are its bytes, where they begin in the
/// datagram, and whether it is big-endian.
pub(super) fn lines(
    block: &Block,
    until: usize,
    (bytes, offset, is_big): (&[u8], usize, bool),
    is_known: impl Fn(&Field) -> bool,
) -> Vec<String> {
    let place = |field: &Field| {
        let (first, bits) = field.range();
        let at = begin(field, bytes) + offset;
        format!("byte {at}, bits {first} to {}", first + bits - 1)
    };
    let mut lines = Vec::new();
    for (index, field) in block.fields[..until].iter().enumerate() {
        let got = value(field, bytes, is_big);
        let line = match field.kind {
            FieldKind::Each(value) => format!("  each {value:#x}: in all words of the body"),
            _ if !is_known(field) => continue,
            FieldKind::Equals(value) => format!("  equals {value:#x}: {got:#x}, {}", place(field)),
            FieldKind::Choose(value) => format!("  choose {value:#x}: {got:#x}, {}", place(field)),
            FieldKind::Is(role @ Role::Checksum { .. }) => {
                format!("  {}: {got} ({got:#x}), {}", role.name(), place(field))
            }
            FieldKind::Is(role) => {
                let name = role.name();
                let is_it = |one: &Field| one.role().is_some_and(|one| one.name() == name);
                let parts: Vec<&Field> = block.with(name).collect();
                let is_whole = parts.iter().all(|part| is_known(part));
                if block.fields[..index].iter().any(is_it) || !is_whole {
                    continue;
                }
                let got = whole(block, name, bytes, is_big);
                let meant = meant(block, role, got, (bytes, is_big));
                let places: Vec<String> = parts.iter().map(|part| place(part)).collect();
                let places = places.join("; ");
                format!("  {name}: {got} ({got:#x}){meant}, {places}")
            }
        };
        lines.push(line);
    }
    lines
}

/// What a value is in bytes or in nanoseconds, if it counts something else.
fn meant(block: &Block, role: Role, got: u64, (bytes, is_big): (&[u8], bool)) -> String {
    let [got, ns] = [got, 1_000_000_000].map(i128::from);
    match role {
        Role::Length { unit, plus } if (unit, plus) != (1, 0) => {
            format!(", {} bytes", got * i128::from(unit) + i128::from(plus))
        }
        Role::Position { unit } | Role::Total { unit } if unit != 1 => {
            format!(", {} bytes", got * i128::from(unit))
        }
        Role::Time { rate_hz: Some(rate) } => {
            let seconds = whole(block, "seconds", bytes, is_big);
            let with = if block.has("seconds") { " with the seconds" } else { "" };
            format!(", {} ns{with}", i128::from(seconds) * ns + got * ns / i128::from(rate.max(1)))
        }
        _ => String::new(),
    }
}

pub(super) fn begin(field: &Field, block: &[u8]) -> usize {
    let end = if field.at < 0 { block.len() } else { 0 };
    end.saturating_add_signed(field.at as isize)
}

/// A value of a block, which may have several parts; 0 if there is none.
pub(super) fn whole(block: &Block, name: &str, bytes: &[u8], is_big: bool) -> u64 {
    let mut to = 0;
    block.with(name).fold(0, |number, field| {
        let part = value(field, bytes, is_big) << to;
        to += field.range().1;
        number | part
    })
}

/// A field's bits, byte by byte: another way than that of the loads, so that each tests the other.
pub(super) fn value(field: &Field, block: &[u8], is_big: bool) -> u64 {
    let begin = begin(field, block);
    let word = block.get(begin..begin + field.width as usize).unwrap_or_default();
    let add = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
    let word = match is_big {
        true => word.iter().fold(0, add),
        false => word.iter().rev().fold(0, add),
    };
    let (first, bits) = field.range();
    (word >> first) & (u64::MAX >> (64 - bits))
}
