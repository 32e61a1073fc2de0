//! The machine that commands run on: its CPUs, its free disk, its name in a report.

use std::path::Path;

use serde::Serialize;

/// What a bench says of the machine.
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
            cpus: cpus().len(),
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

/// The CPUs that this process may run on.
pub(crate) fn cpus() -> Vec<usize> {
    // SAFETY: a CPU set is plain bits, for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the size is that of the set that the pointer is valid for.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    if result != 0 {
        return vec![0];
    }
    // SAFETY: the indices are below the set's size.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Bytes that can be written below a folder, or where it will be made.
///
/// # Errors
/// The system's, where no part of the path can be asked.
pub(crate) fn free_bytes(folder: &Path) -> std::io::Result<u64> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    catchment_disk::free_bytes(existing)
}

/// Refuses what the disk has no room for.
///
/// # Errors
/// That there is too little, with both figures.
pub(crate) fn need_space(folder: &Path, bytes: u64) -> anyhow::Result<()> {
    use catchment_model::units::Bytes;
    let free = free_bytes(folder)?;
    anyhow::ensure!(
        free >= bytes,
        "{} has {} free, but this writes about {}: choose another folder, fewer seconds or a lower rate",
        folder.display(),
        Bytes(free),
        Bytes(bytes)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_yet_to_be_made_has_the_space_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(&folder.path().join("a/b/c")).unwrap() > 0);
        assert!(need_space(folder.path(), u64::MAX).is_err());
        assert!(need_space(folder.path(), 1).is_ok());
        assert!(!cpus().is_empty());
    }
}
