//! Where the sessions of a thread come from, where they go on, and when they wait.

use super::Intake;
use crate::standby::Home;

impl Intake {
    /// Goes on with the sessions that are at home there, and gives them back at the end.
    pub(crate) fn settle_in(&mut self, home: Home) {
        let (others, former) = (self.datagram_ports(), home.take_sessions());
        for ((_, sessions), former) in self.listeners.iter_mut().zip(former) {
            sessions.adopt(&mut self.ingest, former, others);
        }
        self.home = Some(home);
    }

    /// Has the sessions go on at home. Returns false if they have none.
    pub(crate) fn leave(&mut self) -> bool {
        let Some(home) = self.home.take_if(|home| home.is_open()) else { return false };
        let others = self.datagram_ports();
        let sessions = self.listeners.drain(..).map(|(_, mut sessions)| {
            sessions.leave(&mut self.ingest, others);
            sessions
        });
        home.put_sessions(sessions.collect());
        true
    }

    /// Has a connection of a session wait for room. Returns false if the endpoint is none.
    pub(crate) fn put_off(&mut self, endpoint: usize) -> bool {
        let Self { listeners, ingest, .. } = self;
        listeners.iter_mut().any(|(_, sessions)| sessions.put_off(ingest, endpoint))
    }

    fn datagram_ports(&self) -> usize {
        self.ports.iter().filter(|port| !port.is_connection()).count()
    }
}
