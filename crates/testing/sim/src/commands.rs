//! What front-ends were told to do with a run, compared with what control asked for and with what
//! they have answered.

use std::collections::BTreeSet;

use catchment_builder::SourceRole;
use catchment_recorder::Stage;
use catchment_wire::event_link::CommandKind;

use crate::fault::{Fault, Faults};
use crate::logs::{Commanded, Session};
use crate::plan::S;
use crate::recorder::Life;
use crate::world::Outcome;

/// Checks the commands of all front-ends.
///
/// # Errors
/// A command that has no reason, or a run that has begun and should not.
pub(crate) fn check(outcome: &Outcome) -> Result<(), String> {
    for front_end in &outcome.front_ends {
        let name = &front_end.plan.name;
        for session in &front_end.sessions {
            follow(outcome, session).map_err(|why| format!("{name}: {why}"))?;
        }
        // A link's front-end delivers no source of events.
        let is_required = |&one: &usize| {
            outcome.plan.sources.get(one).is_some_and(|one| one.role == SourceRole::Required)
        };
        if front_end.plan.sources.iter().any(is_required) {
            let commands = || front_end.sessions.iter().flat_map(|session| &session.commands);
            for life in &outcome.lives {
                refusals(life, commands()).map_err(|why| format!("{name}: {why}"))?;
            }
        }
    }
    for life in outcome.lives.iter().filter(|_| outcome.plan.control.is_some()) {
        let counts = &life.last.counts;
        let recorded = counts.events_recorded + counts.slices_recorded;
        if life.control.started_ns.is_none() && recorded > 0 {
            return Err(format!("{recorded} events and slices of a run that was not started"));
        }
    }
    Ok(())
}

/// A command leads from where its sender is towards a goal that stood since the command before it.
fn follow(outcome: &Outcome, session: &Session) -> Result<(), String> {
    let faults = outcome.plan.case.faults;
    let is_prompt = !SLOW.into_iter().any(|fault| faults.has(fault));
    // Where its recorder may believe it to be.
    let mut believed = BTreeSet::from([Stage::Free]);
    // Where it is, and where it was before the last command: it may have said so just before.
    let (mut own, mut was) = (Stage::Free, Stage::Free);
    let mut before: Option<&Commanded> = None;
    for command in &session.commands {
        let &Commanded { life, number, kind, told_ns, answer } = command;
        // Settings are set wherever it is.
        if kind == CommandKind::SET {
            continue;
        }
        let last = before.filter(|before| before.life.0 == life.0);
        match last {
            None => (believed, own) = (BTreeSet::from([Stage::Free]), Stage::Free),
            // The recorder that knew it has died, and is followed by one that it tells.
            Some(last) if last.life != life => believed = BTreeSet::from([own, was]),
            Some(_) => {}
        }
        let (from, to, goals) =
            way(kind).ok_or_else(|| format!("command {number} is {kind:?}, which is none"))?;
        believed.retain(|stage| from.contains(stage));
        if believed.is_empty() {
            return Err(format!("command {number}: {kind:?} does not follow {last:?}"));
        }
        let since_ns = last.map_or(0, |last| last.told_ns);
        let control = &outcome.lives[life.0].control;
        let ends = control.goals.iter().skip(1).map(|goal| goal.0).chain([u64::MAX]);
        let stood = control.goals.iter().zip(ends);
        let stood =
            stood.filter(|((begin_ns, _), end_ns)| *begin_ns <= told_ns && *end_ns >= since_ns);
        let mut stood = stood.filter_map(|((_, goal), _)| *goal);
        if !stood.any(|goal| goals.contains(&goal)) {
            return Err(format!("command {number}: nobody has asked for {kind:?}"));
        }
        match answer {
            Some((_, false)) | None => {}
            Some((at_ns, true)) if is_prompt && at_ns - told_ns < S => {
                believed = BTreeSet::from([to]);
            }
            // Its answer may have come too late.
            Some((_, true)) => _ = believed.insert(to),
        }
        was = own;
        if answer.is_some_and(|(_, has_done)| has_done) {
            own = to;
        }
        before = Some(command);
    }
    if let Some(last) = before.filter(|_| faults == Faults::NONE)
        && last.kind != CommandKind::STOP
    {
        return Err(format!("its run has ended, and it is not told to stop after {last:?}"));
    }
    Ok(())
}

/// A front-end that the run needs has not refused, if the run was started.
fn refusals<'a>(
    life: &Life,
    commands: impl Iterator<Item = &'a Commanded> + Clone,
) -> Result<(), String> {
    for &(began_ns, ended_ns, _) in life.control.starts.iter().filter(|start| start.2) {
        let told = commands.clone().filter(|one| (began_ns..=ended_ns).contains(&one.told_ns));
        let told = told.filter(|one| one.kind != CommandKind::SET);
        let Some(last) = told.last() else { continue };
        if let Some((at_ns, false)) = last.answer
            && at_ns <= ended_ns
        {
            return Err(format!("it has refused {:?}, and the run has begun", last.kind));
        }
    }
    Ok(())
}

/// From where a command leads, where to, and the goals towards which.
fn way(kind: CommandKind) -> Option<(&'static [Stage], Stage, &'static [Stage])> {
    use Stage::{Free, Paused, Prepared, Running, Stopped};
    Some(match kind {
        CommandKind::PREPARE => (&[Free, Stopped], Prepared, &[Prepared, Running, Paused]),
        CommandKind::START => (&[Prepared], Running, &[Running, Paused]),
        CommandKind::PAUSE => (&[Running], Paused, &[Paused]),
        CommandKind::CONTINUE => (&[Paused], Running, &[Running]),
        CommandKind::STOP => (&[Running, Paused], Stopped, &[Stopped]),
        CommandKind::CANCEL => (&[Prepared], Free, &[Stopped]),
        _ => return None,
    })
}

/// Faults by which an answer may take long, or reach a recorder that has given it up.
const SLOW: [Fault; 9] = [
    Fault::Stall,
    Fault::Cut,
    Fault::HalfOpen,
    Fault::SingleBytes,
    Fault::LateAnswers,
    Fault::Noise,
    Fault::Freeze,
    Fault::Starve,
    Fault::HoldReceive,
];
