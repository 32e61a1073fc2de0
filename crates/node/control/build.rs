//! Embeds the built page, if there is one, in the program: a list of `include_bytes!`.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../web/dist");
    let mut paths = Vec::new();
    // Cargo can only watch existing files, and the page may be built later. If the folder cannot be
    // made, nothing will be built in it either.
    if std::fs::create_dir_all(&dist).is_ok() {
        println!("cargo::rerun-if-changed={}", dist.display());
        collect(&dist, &mut paths)?;
    }
    paths.sort();
    let mut code = String::from("const FILES: &[File] = &[\n");
    for path in &paths {
        let bytes = std::fs::read(path)?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let tag = format!("\"{:016x}\"", hasher.finish());
        let name = path.strip_prefix(&dist).unwrap_or(path).display().to_string();
        let path = path.display().to_string();
        writeln!(
            code,
            "    File {{ path: {name:?}, bytes: include_bytes!({path:?}), tag: {tag:?} }},"
        )
        .map_err(std::io::Error::other)?;
    }
    code += "];\n";
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    std::fs::write(PathBuf::from(out).join("page.rs"), code)?;
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}
