//! The machine that a bench runs on, as its report names it.

use serde::Serialize;

/// The facts of the machine that stand in a report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) system: String,
    pub(crate) version: &'static str,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
        let system =
            format!("{} {}", std::env::consts::OS, read("/proc/sys/kernel/osrelease").trim());
        Self {
            cpu: cpu.unwrap_or_else(|| std::env::consts::ARCH.into()),
            cpus: catchment_net::cpus().len(),
            memory_bytes: catchment_recorder::SystemMemory::now().limit_bytes(),
            system,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let memory = self.memory_bytes as f64 / f64::from(1 << 30);
        let (cpus, cpu, system) = (self.cpus, &self.cpu, &self.system);
        write!(f, "{cpus} CPUs ({cpu}), {memory:.0} GiB, {system}, catchment {}", self.version)
    }
}
