//! What front-ends say of their settings, as remarks of the run: all that one in it is set to, and
//! each change, whether it is reported or said among the data.

use std::collections::BTreeMap;

use catchment_recorder::{FrontEnd, Report, Scalar, SettingChanged};

use crate::front_ends::json_of;

/// Remarks of changes in a run that nobody has asked for. The catalogue keeps more than that, for
/// what people write.
const CHANGES_MAX: usize = 400;

/// What the remarks of a run say of settings so far.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// The run's number; none before it has started.
    run: Option<u64>,
    front_ends: BTreeMap<String, BTreeMap<String, Setting>>,
    /// Remarks of changes so far.
    changes: usize,
}

/// What was said of a setting last.
#[derive(Debug)]
struct Setting {
    value: Scalar,
    /// What it was before it was changed from here: its front-end may report that for a while.
    before: Option<Scalar>,
}

impl Stored {
    /// A run has started.
    pub(crate) fn begin(&mut self, run: u64) {
        *self = Self { run: Some(run), ..Self::default() };
    }

    /// A setting was changed from here, which another remark says.
    pub(crate) fn changed(&mut self, front_end: &str, setting: &str, value: &Scalar) {
        let of_it = self.front_ends.get_mut(front_end).and_then(|all| all.get_mut(setting));
        if let Some(one) = of_it {
            one.before = Some(std::mem::replace(&mut one.value, value.clone()));
        }
    }

    /// Remarks of what is new in the reports of front-ends, each with who says it.
    pub(crate) fn remarks(
        &mut self,
        run: u64,
        list: &BTreeMap<String, FrontEnd>,
    ) -> Vec<(String, String)> {
        if self.run != Some(run) {
            return Vec::new();
        }
        let mut remarks = Vec::new();
        for (name, one) in list.iter().filter(|(_, one)| one.is_connected && one.in_run) {
            let is_first = !self.front_ends.contains_key(name);
            let settings: Vec<String> = self.new_of(name, one);
            if settings.is_empty() {
                continue;
            }
            let settings = settings.join(", ");
            match is_first {
                true => remarks.push((name.clone(), format!("settings of {name}: {settings}"))),
                false => remarks.extend(self.change(name, format!("{name}: {settings}"))),
            }
        }
        remarks
    }

    /// Remarks of changes that were said among the data, and of how many were too many.
    pub(crate) fn remarks_of_said(
        &mut self,
        run: u64,
        (said, unsaid): (Vec<SettingChanged>, u64),
    ) -> Vec<(String, String)> {
        if self.run != Some(run) {
            return Vec::new();
        }
        let mut remarks = Vec::new();
        for SettingChanged { front_end, text, behind, others } in said {
            let of_source = |(source, key): &(String, Option<u64>)| match key {
                Some(key) => format!("behind {key} of {source}"),
                None => format!("before the first of {source}"),
            };
            let mut sources: Vec<String> = behind.iter().map(of_source).collect();
            if others > 0 {
                sources.push(format!("and of {others} other sources"));
            }
            let text = format!("{front_end}: {text} {}", sources.join(", "));
            remarks.extend(self.change(&front_end, text));
        }
        if unsaid > 0 {
            let text = format!("{unsaid} changes of settings among the data came too fast");
            remarks.extend(self.change("node", text));
        }
        remarks
    }

    /// The settings of a front-end that no remark has yet.
    fn new_of(&mut self, name: &str, one: &FrontEnd) -> Vec<String> {
        let mut new = Vec::new();
        for (setting, report) in &one.reports {
            let Report::Setting { value, unit, .. } = report else { continue };
            let stored = self.front_ends.entry(name.to_owned()).or_default();
            match stored.get_mut(setting) {
                Some(one) if one.value == *value => one.before = None,
                Some(one) if one.before.as_ref() == Some(value) => {}
                _ => {
                    let space = if unit.is_empty() { "" } else { " " };
                    new.push(format!("{setting} = {}{space}{unit}", json_of(value)));
                    let now = Setting { value: value.clone(), before: None };
                    stored.insert(setting.clone(), now);
                }
            }
        }
        new
    }

    /// A remark of a change, as long as there are not too many.
    fn change(&mut self, who: &str, text: String) -> Option<(String, String)> {
        self.changes += 1;
        match self.changes {
            ..=CHANGES_MAX => Some((who.to_owned(), text)),
            at if at == CHANGES_MAX + 1 => {
                Some((who.to_owned(), "further changes of settings are no remarks".to_owned()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(gain: f64, in_run: bool) -> BTreeMap<String, FrontEnd> {
        let (value, unit) = (Scalar::F64(gain), "dB".to_owned());
        let gain = Report::Setting { value, unit, bounds: None, is_writable: true };
        let reports = [("gain".to_owned(), gain)].into();
        let mut one = FrontEnd::default();
        (one.is_connected, one.in_run, one.reports) = (true, in_run, reports);
        [("camera".to_owned(), one)].into()
    }

    fn texts(remarks: Vec<(String, String)>) -> Vec<String> {
        remarks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn settings_of_one_that_comes_in_the_run_are_stored_and_each_change_once() {
        let mut stored = Stored::default();
        assert!(stored.remarks(7, &list(2.0, true)).is_empty(), "it has not started");
        stored.begin(7);
        assert!(stored.remarks(7, &list(2.0, false)).is_empty());
        let mut of = |gain| texts(stored.remarks(7, &list(gain, true)));
        assert_eq!(of(2.0), ["settings of camera: gain = 2.0 dB"]);
        assert!(of(2.0).is_empty());
        assert_eq!(of(9.0), ["camera: gain = 9.0 dB"]);
    }

    #[test]
    fn a_change_that_was_asked_for_is_said_once_also_if_it_is_reported_later() {
        let mut stored = Stored::default();
        stored.begin(7);
        assert_eq!(stored.remarks(7, &list(2.0, true)).len(), 1);
        stored.changed("camera", "gain", &Scalar::F64(7.5));
        for gain in [2.0, 7.5, 7.5] {
            assert!(stored.remarks(7, &list(gain, true)).is_empty(), "{gain}");
        }
        assert_eq!(texts(stored.remarks(7, &list(2.0, true))), ["camera: gain = 2.0 dB"]);
    }

    #[test]
    fn what_is_said_among_the_data_is_stored_with_the_keys_up_to_a_number_of_remarks() {
        let mut stored = Stored::default();
        stored.begin(7);
        let said = SettingChanged {
            front_end: "camera".to_owned(),
            text: "threshold=17 mV".to_owned(),
            behind: vec![("left".to_owned(), Some(49)), ("right".to_owned(), None)],
            others: 3,
        };
        let text = "camera: threshold=17 mV behind 49 of left, before the first of right, \
                    and of 3 other sources";
        let mut of =
            |count, unsaid| texts(stored.remarks_of_said(7, (vec![said.clone(); count], unsaid)));
        assert_eq!(of(1, 5), [text, "5 changes of settings among the data came too fast"]);
        let rest = of(2 * CHANGES_MAX, 0);
        assert_eq!(rest.len(), CHANGES_MAX - 1);
        assert!(rest.last().is_some_and(|last| last.starts_with("further changes")), "{rest:?}");
        assert!(of(1, 0).is_empty());
    }
}
