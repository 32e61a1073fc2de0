//! Planted defects: their patches apply to the present program.

use std::path::Path;
use std::process::Command;

#[test]
fn patches_with_planted_defects_apply() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../../..");
    if !root.join(".git").exists() {
        // A source archive has no repository to apply patches to.
        return;
    }
    // The second ones are in code that the simulator replaces; tests find them.
    let folders = [here.join("mutants"), root.join("crates/io/disk/mutants")];
    let patches = folders.iter().flat_map(|folder| folder.read_dir().expect("patches"));
    let mut paths: Vec<_> = patches.map(|patch| patch.expect("a patch").path()).collect();
    paths.sort();
    assert!(paths.len() >= 10, "{paths:?}");
    for path in paths {
        let mut check = Command::new("git");
        check.arg("-C").arg(&root).args(["apply", "--check"]).arg(&path);
        let output = check.output().expect("git");
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {why}", path.display());
    }
}
