//! Who listens for front-ends while there is no run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_recorder::{AdmittedSource, RecorderConfig, Standing};

use super::Recording;
use crate::configuration::Configuration;
use crate::own_folder;
use crate::security::{self, roles::Role, tls::TlsError};

impl Recording {
    /// Listens for front-ends while there is no run.
    pub(super) fn listen(&mut self, configuration: &Arc<Configuration>) {
        let is_same =
            |(_, by): &(Option<Standing>, Arc<Configuration>)| Arc::ptr_eq(by, configuration);
        if self.awaits_first || self.standing.as_ref().is_some_and(is_same) {
            return;
        }
        let config = &configuration.recorder;
        if config.check().is_err() {
            return;
        }
        // What stands leaves its listeners to the next.
        self.standing = None;
        let completed = self.completed(config).map_err(|error| error.to_string());
        let stood = completed.and_then(|config| {
            self.run_status.standby.stand(&config).map_err(|error| error.to_string())
        });
        let unheard = match &stood {
            Ok(standing) => standing.unheard().to_vec(),
            Err(error) => {
                // Front-ends at a listener that nothing serves would wait for nothing.
                self.run_status.standby.clear();
                vec![("any address".to_owned(), error.clone())]
            }
        };
        let mut unheard_before = self.run_status.unheard.lock();
        for (address, error) in unheard.iter().filter(|one| !unheard_before.contains(one)) {
            tracing::warn!(address, error, "no listener for front-ends between runs");
        }
        *unheard_before = unheard;
        if let Ok(standing) = &stood {
            *self.run_status.listeners.lock() = standing.addresses().to_vec();
        }
        self.standing = Some((stood.ok(), Arc::clone(configuration)));
    }

    /// Tries again to listen where that has failed.
    pub(super) fn listen_again(&mut self) {
        let is_deaf = |(standing, _): &mut (Option<Standing>, _)| {
            standing.as_ref().is_none_or(|standing| !standing.unheard().is_empty())
        };
        if let Some((standing, configuration)) = self.standing.take_if(is_deaf) {
            drop(standing);
            self.listen(&configuration);
        }
    }

    /// The configuration of a run that begins now: with the sources of the front-ends that were
    /// admitted, and are connected.
    ///
    /// # Errors
    /// Why it cannot be recorded with them. If no source opens its events, others may come.
    pub(super) fn with_admitted(
        &self,
        base: &Arc<Configuration>,
    ) -> Result<Arc<Configuration>, String> {
        let tried = self.run_status.front_ends().admitted();
        // They may be configured by now.
        let configured: BTreeSet<&str> =
            base.recorder.sources.iter().map(|source| &*source.name).collect();
        let is_new = |one: &&AdmittedSource| !configured.contains(one.name.as_str());
        let admitted: Vec<AdmittedSource> = tried.iter().filter(is_new).cloned().collect();
        let configuration = match admitted.is_empty() {
            true => Arc::clone(base),
            false => Arc::new(self.with_sources(base, &admitted)?),
        };
        let checked = configuration.recorder.check_run();
        *self.run_status.tried.lock() = tried;
        self.run_status.lacks_sources.store(checked.is_err(), Relaxed);
        checked.map(|()| configuration).map_err(|error| error.to_string())
    }

    /// A configuration with sources that were admitted beside its own.
    fn with_sources(
        &self,
        base: &Configuration,
        admitted: &[AdmittedSource],
    ) -> Result<Configuration, String> {
        let configure = &self.shared.configure;
        let text = configure.with_admitted(&base.recorder.text, admitted)?;
        configure.check(&text).map_err(|fault| {
            let count = admitted.len();
            format!("with {count} sources of front-ends that were admitted: {}", fault.message)
        })
    }

    /// The run that begins has taken the listeners over, or could not be armed.
    pub(super) fn leave_listeners(&mut self) {
        self.standing = None;
        self.run_status.unheard.lock().clear();
    }

    /// The configuration of a recorder, with what this node has for front-ends and for the run's
    /// end.
    pub(super) fn completed(&self, config: &RecorderConfig) -> Result<RecorderConfig, TlsError> {
        let (mut access, mut listeners) = (config.access.clone(), config.listeners.clone());
        if let Some(address) = config.first_listener() {
            let further = listeners.iter_mut().map(|one| (one.address, &mut one.access));
            let mut all: Vec<_> = std::iter::once((address, &mut access)).chain(further).collect();
            let (shared, own_folder) = (&self.shared, own_folder(&config.folder));
            let (settings, tokens) = (&shared.settings, &shared.tokens);
            security::complete(&mut all, settings, tokens, &own_folder, Role::Source)?;
        }
        let (standby, end_wait_ns) = (Some(self.run_status.standby.clone()), self.end_wait_ns());
        Ok(RecorderConfig { access, listeners, standby, end_wait_ns, ..config.clone() })
    }

    /// How long the end of a run waits for a storage node that takes nothing.
    fn end_wait_ns(&self) -> u64 {
        let drain_ns = self.shared.settings.drain.as_nanos();
        RecorderConfig::end_wait_of(u64::try_from(drain_ns).unwrap_or(u64::MAX))
    }
}
