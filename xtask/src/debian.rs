//! Debian's packages that tests need, installed where this process may.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use anyhow::Result;

use crate::process::{output, succeed};

/// Whether packages can be installed here: by root, on a machine that has `apt-get`.
pub fn may_install() -> bool {
    let root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    root && Command::new("apt-get").arg("--version").output().is_ok()
}

/// Installs packages. Steps run beside each other, and `apt-get` does not wait for another one.
pub fn install(packages: &[&str]) -> Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    succeed(Command::new("apt-get").args(["update", "--quiet"]))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--quiet", "--no-install-recommends"]);
    install.args(packages);
    succeed(install.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Installs OpenSSL, for TLS of the library in C, if it is missing. Where that cannot be, its tests
/// are skipped, and say so.
pub fn openssl() -> Result<()> {
    let has_headers = Path::new("/usr/include/openssl/ssl.h").exists();
    let has_command = Command::new("openssl").arg("version").output().is_ok();
    if (has_headers && has_command) || !may_install() {
        return Ok(());
    }
    install(&["libssl-dev", "openssl"])
}
