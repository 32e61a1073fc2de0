//! The memory available to the node: the machine's, and the limits of the process's control groups.
//!
//! A container, or a service with `MemoryMax`, has less than the machine, and the kernel kills
//! processes that take more. Each group from the root to the process's own sets its own limit, and
//! the least counts. `/proc/self/cgroup` names the group; in a container that path may be the
//! host's, and the group is at the root of the mount, so that both are read.

use std::path::{Component, Path, PathBuf};

use catchment_model::units::Bytes;

/// Memory in bytes, as far as the system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemMemory {
    /// The machine's memory.
    pub machine_bytes: u64,
    /// The least limit of the process's control groups; none where there is no limit.
    pub group_bytes: Option<u64>,
    /// Memory that is available now without taking it from others; none if unknown.
    pub available_bytes: Option<u64>,
}

impl SystemMemory {
    /// The memory of this process.
    pub fn now() -> Self {
        Self::of(Path::new("/"))
    }

    /// As given by the files below that folder, which stands for the root of the file system.
    pub fn of(root: &Path) -> Self {
        let meminfo = read(&root.join("proc/meminfo"));
        let line = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
        };
        let machine_bytes = line("MemTotal:").unwrap_or_else(physical_bytes);
        let mut memory =
            Self { machine_bytes, group_bytes: None, available_bytes: line("MemAvailable:") };
        for Group { folder, limits, usage } in groups(root) {
            let number = |name: &str| read(&folder.join(name)).trim().parse::<u64>().ok();
            // `max`, and the largest number that version 1 knows, are no limits.
            let limits = limits.iter().filter_map(|name| number(name));
            let Some(limit) = limits.min().filter(|limit| *limit < machine_bytes) else { continue };
            let least = memory.group_bytes.map_or(limit, |least| least.min(limit));
            memory.group_bytes = Some(least);
            // A group's usage includes the page cache, which the kernel reclaims when needed.
            let cache = read(&folder.join("memory.stat"));
            let cache = cache
                .lines()
                .find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse::<u64>().ok());
            let used = number(usage).unwrap_or(0).saturating_sub(cache.unwrap_or(0));
            let left = limit.saturating_sub(used);
            memory.available_bytes = memory.available_bytes.map(|known| known.min(left));
        }
        memory
    }

    /// The most that the process may have.
    pub fn limit_bytes(&self) -> u64 {
        self.group_bytes.map_or(self.machine_bytes, |group| group.min(self.machine_bytes))
    }

    /// A quarter of that: the default budget.
    pub fn default_budget_bytes(&self) -> u64 {
        self.limit_bytes() / 4
    }

    /// The explanation of the default budget, to be appended to its figure.
    pub fn default_words(&self) -> String {
        format!(", which is the default: a quarter of {}", self.limit_words())
    }

    /// The origin of the limit, in words.
    pub(crate) fn limit_words(&self) -> String {
        match self.group_bytes {
            Some(group) => format!("the control group's limit, {}", Bytes(group)),
            None => format!("the machine's memory, {}", Bytes(self.machine_bytes)),
        }
    }
}

/// A control group's folder, and the names of its limits and of its usage.
struct Group {
    folder: PathBuf,
    limits: &'static [&'static str],
    usage: &'static str,
}

/// The process's control groups, from the root of the mount to its own.
fn groups(root: &Path) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in read(&root.join("proc/self/cgroup")).lines() {
        // `4:memory:/path`; version 2 has no controllers: `0::/path`.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mounts, limits, usage) = match controllers {
            "" => (MOUNTS_V2, LIMITS_V2, "memory.current"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                (MOUNTS_V1, LIMITS_V1, "memory.usage_in_bytes")
            }
            _ => continue,
        };
        for mount in mounts {
            let mut folder = root.join(mount);
            groups.push(Group { folder: folder.clone(), limits, usage });
            for part in Path::new(path).components() {
                // A path that leads above the mount belongs to another namespace.
                let Component::Normal(part) = part else { continue };
                folder.push(part);
                groups.push(Group { folder: folder.clone(), limits, usage });
            }
        }
    }
    groups
}

/// A small file of the system; empty if it cannot be read.
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn physical_bytes() -> u64 {
    // SAFETY: sysconf takes no pointers.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(page).unwrap_or(0))
}

/// Where control groups of version 2 are mounted: alone, or beside those of version 1.
const MOUNTS_V2: &[&str] = &["sys/fs/cgroup", "sys/fs/cgroup/unified"];
const MOUNTS_V1: &[&str] = &["sys/fs/cgroup/memory", "sys/fs/cgroup/cpu,memory"];
/// Beyond `memory.high` the kernel slows a process down until it hardly runs.
const LIMITS_V2: &[&str] = &["memory.max", "memory.high"];
const LIMITS_V1: &[&str] = &["memory.limit_in_bytes"];

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// A root with these files, on a machine of 16 GiB of which 12 are available.
    fn root(files: &[(&str, String)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let meminfo = "MemTotal:       16777216 kB\nMemFree: 5 kB\nMemAvailable:   12582912 kB\n";
        let meminfo = [("proc/meminfo", meminfo.to_owned())];
        for (path, text) in meminfo.iter().chain(files) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn memory(files: &[(&str, String)]) -> (u64, u64) {
        let root = root(files);
        let memory = SystemMemory::of(root.path());
        assert_eq!(memory.machine_bytes, 16 * GIB);
        assert_eq!(memory.default_budget_bytes(), memory.limit_bytes() / 4);
        (memory.limit_bytes() / (1 << 20), memory.available_bytes.unwrap() / (1 << 20))
    }

    fn mib(count: u64) -> String {
        format!("{}\n", count << 20)
    }

    #[test]
    fn without_a_limit_the_machine_counts() {
        assert_eq!(memory(&[]), (16_384, 12_288));
        let cgroup = ("proc/self/cgroup", "0::/user.slice\n".to_owned());
        let none = ("sys/fs/cgroup/user.slice/memory.max", "max\n".to_owned());
        assert_eq!(memory(&[cgroup, none]), (16_384, 12_288));
        let cgroup = ("proc/self/cgroup", "4:memory:/a\n0::/\n".to_owned());
        let none = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712".into());
        assert_eq!(memory(&[cgroup, none]), (16_384, 12_288));
    }

    #[test]
    fn the_least_limit_on_the_way_to_the_process_counts() {
        let cgroup = ("proc/self/cgroup", "0::/system.slice/daq.service/inner\n".to_owned());
        let above = "sys/fs/cgroup/system.slice/memory.max";
        let own = "sys/fs/cgroup/system.slice/daq.service/memory.max";
        let high = "sys/fs/cgroup/system.slice/daq.service/memory.high";
        let cgroup = || cgroup.clone();
        assert_eq!(memory(&[cgroup(), (own, mib(1_024))]), (1_024, 1_024));
        assert_eq!(memory(&[cgroup(), (own, mib(1_024)), (above, mib(512))]), (512, 512));
        assert_eq!(memory(&[cgroup(), (own, mib(1_024)), (high, mib(700))]), (700, 700));
        // The usage of others in the group is not available, except for the page cache.
        let usage = "sys/fs/cgroup/system.slice/daq.service/memory.current";
        let stat = "sys/fs/cgroup/system.slice/daq.service/memory.stat";
        let cache = format!("anon 5\ninactive_file {}", mib(100));
        let files = [cgroup(), (own, mib(1_024)), (usage, mib(900)), (stat, cache)];
        assert_eq!(memory(&files), (1_024, 224));
    }

    #[test]
    fn version_1_is_read_alone_and_beside_version_2() {
        let cgroup = "5:cpu,cpuacct:/x\n4:memory:/docker/1f\n1:name=systemd:/y\n0::/z\n".to_owned();
        let cgroup = ("proc/self/cgroup", cgroup);
        let v1 = "sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes";
        let v2 = "sys/fs/cgroup/unified/z/memory.max";
        assert_eq!(memory(&[cgroup.clone(), (v1, mib(2_048))]).0, 2_048);
        assert_eq!(memory(&[cgroup.clone(), (v1, mib(2_048)), (v2, mib(1_000))]).0, 1_000);
        // In a container the path is the host's, and its group is the root of the mount.
        let inside = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(memory(&[cgroup, (inside, mib(256))]).0, 256);
        let cgroup = ("proc/self/cgroup", "0::/../../other\n".to_owned());
        assert_eq!(memory(&[cgroup, ("sys/fs/cgroup/memory.max", mib(128))]).0, 128);
    }
}
