//! Links over sessions (docs/spec/session.md, section 11): what was told to be durable of their
//! packets, compared with the samples in the files.

use crate::logs::ItemKind;
use crate::plan::Selected;
use crate::positions::counts_out;
use crate::recorded::Recorded;
use crate::world::Outcome;

/// Checks that the parts of a link's packets that were told to be durable in the run of that number
/// are in its files, or counted out there.
///
/// # Errors
/// More are not.
pub(crate) fn durable(
    outcome: &Outcome,
    (recorded, selected): (&Recorded, &Selected),
    (source, number): (usize, usize),
) -> Result<(), String> {
    let plan = &outcome.plan;
    let Some(link) = source.checked_sub(plan.sources.len()) else { return Ok(()) };
    let of_link = &plan.links[link];
    let has = |channel: usize, slice: u64| {
        let sent = of_link.channels[channel].samples_of(slice, of_link.slice_ns);
        recorded.has_samples((link, channel), &sent)
    };
    let sessions = outcome.front_ends.iter().flat_map(|front_end| &front_end.sessions);
    let logs = sessions.flat_map(|session| &session.logs).filter(|log| log.source == source);
    let mut absent = 0;
    for (log, told) in logs.filter_map(|log| Some((log, log.told.get(&number)?))) {
        for (_, kind) in log.within(told.begin, told.durable) {
            let ItemKind::Packet { slice, part } = kind else { continue };
            let first = part * of_link.channels_per_packet;
            let own = first..(first + of_link.channels_per_packet).min(of_link.channels.len());
            let selected = own.filter(|&channel| selected.channels[link][channel]);
            absent += selected.filter(|&channel| !has(channel, slice)).count() as u64;
        }
    }
    let of_source = recorded.increments.iter().filter(|((one, _), _)| *one == source);
    let counted: u64 = of_source.map(|((_, name), &count)| counts_out(name, count)).sum();
    match absent > counted {
        true => Err(format!(
            "source {source}: {absent} parts of packets that are durable are in no file, {counted} \
             are counted"
        )),
        false => Ok(()),
    }
}
