//! Several targets of a node, on the command line.

use crate::life::Node;
use crate::support::stdout;

const SOURCE: &str = "[memory]\nbudget = \"256 MiB\"\n\
    [[sources]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\n";

/// What `ctl state` prints of targets.
fn printed(targets: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let node = Node::start(folder, &format!("{SOURCE}{targets}"), &[]);
    node.until(|state| state["run"].is_object() && state["targets"][0]["state"] == "recording");
    let text = stdout(folder, &["ctl", "--url", &node.url, "state"], 0);
    text.lines().filter(|line| line.starts_with("Target ")).map(str::to_owned).collect()
}

#[test]
fn the_state_has_a_line_for_each_of_several_targets_and_none_for_one() {
    let several = "[[targets]]\nname = \"raid\"\nfolder = \"runs\"\n\
        [[targets]]\nname = \"mirror\"\nfolder = \"copies\"\nrole = \"best-effort\"\n\
        [[targets]]\nname = \"nothing\"\nkind = \"none\"\nrole = \"best-effort\"\n";
    let lines = printed(several);
    let [raid, mirror, nothing] = &lines[..] else { panic!("{lines:?}") };
    assert!(raid.starts_with("Target raid (required): recording, 0 B/s, "), "{raid}");
    assert!(raid.contains(" in runs, queue 0 % of "), "{raid}");
    assert!(raid.ends_with(", 0 fragments recorded, 0 durable"), "{raid}");
    assert!(mirror.starts_with("Target mirror (best effort): recording, "), "{mirror}");
    assert!(nothing.contains(" 0 B nowhere, "), "{nothing}");
    assert!(printed("").is_empty());
}
