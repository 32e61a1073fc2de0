//! A node and an emulator as processes, whose files are verified and deleted.

use crate::support::{free_ports, json};

#[test]
fn files_are_verified_and_deleted_as_they_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, port) = (folder.path(), free_ports(1));
    // A run that was there before is not the soak's.
    let earlier = folder.join("runs/run-earlier/run-earlier-00000.catch");
    std::fs::create_dir_all(earlier.parent().unwrap()).unwrap();
    std::fs::write(&earlier, "of somebody else").unwrap();
    let text = format!(
        "[run]\nfolder = \"runs\"\n[trends]\nenabled = false\n[frame]\ncodec = \"none\"\n\
         [write]\nfile_bytes = \"64 MiB\"\n[[listen]]\naddress = \"127.0.0.1:{port}\"\n\
         [[sources]]\nname = \"dummy-0\"\nvia = \"link\"\n",
    );
    std::fs::write(folder.join("node.toml"), text).unwrap();
    let what = ["soak", "node.toml", "--out", "results", "--json", "--verify-every", "2", "--"];
    let to = format!("127.0.0.1:{port}");
    let sent = ["midas-dummy", "--to", &to, "--bytes", "1 MB", "--events", "200"];
    let soaked = json(folder, &[&what[..], &sent].concat(), 0);
    let figures = &soaked["figures"];
    assert_eq!(figures["emulator"]["fragments"], 200);
    assert_eq!(figures["ledger"]["fragments_recorded"], 200);
    assert_eq!((&figures["balanced"], &figures["lost_data"]), (&true.into(), &false.into()));
    assert_eq!(figures["problems"], serde_json::json!([]));
    assert_eq!(figures["first"]["present"], 1);
    let files = figures["files"].as_u64().unwrap();
    assert!(files > 2 && figures["file_bytes"].as_u64() > Some(200_000_000), "{figures}");
    assert_eq!(figures["verified"], files.div_ceil(2));
    let left = std::fs::read_dir(folder.join("runs")).unwrap().map(|entry| entry.unwrap().path());
    let is_run = |path: &std::path::PathBuf| path.display().to_string().contains("/run-");
    assert_eq!(left.filter(is_run).collect::<Vec<_>>(), [earlier.parent().unwrap()]);
    assert!(folder.join("results/soak-node.md").exists() && earlier.exists());
}
