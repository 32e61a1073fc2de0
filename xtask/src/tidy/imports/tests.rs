use super::*;

fn package(folder: &str, dependencies: &[(&str, bool)]) -> Package {
    let name = match folder.rsplit_once('/') {
        Some((_, name)) => format!("catchment-{name}"),
        None => folder.to_owned(),
    };
    let dependencies =
        dependencies.iter().map(|&(name, dev)| Dependency { name: name.to_owned(), dev });
    Package {
        name,
        folder: folder.to_owned(),
        manifest: "[lints]\nworkspace = true\n".to_owned(),
        dependencies: dependencies.collect(),
    }
}

fn workspace(folder: &str, dependencies: &[(&str, bool)]) -> Vec<String> {
    let mut packages = vec![package(folder, dependencies)];
    for other in [
        "crates/top/bench",
        "crates/top/cli",
        "crates/top/config",
        "crates/top/console",
        "crates/top/python",
        "crates/node/recorder",
        "crates/node/emulator",
        "crates/core/builder",
        "crates/core/trends",
        "crates/io/net",
        "crates/io/disk",
        "crates/format/wire",
        "crates/format/frame",
        "crates/base/model",
        "crates/testing/sim",
        "clients/rust",
        "xtask",
    ] {
        if other != folder {
            packages.push(package(other, &[]));
        }
    }
    check(&packages).iter().map(ToString::to_string).collect()
}

#[test]
fn downward_dependencies_pass() {
    assert!(workspace("crates/top/cli", &[("catchment-model", false)]).is_empty());
    assert!(workspace("crates/node/recorder", &[("catchment-disk", false)]).is_empty());
    assert!(workspace("crates/core/builder", &[("catchment-wire", false)]).is_empty());
    assert!(workspace("crates/io/net", &[("catchment-model", false)]).is_empty());
}

#[test]
fn upward_dependency_is_found() {
    let found = workspace("crates/base/model", &[("catchment-wire", false)]);
    assert_eq!(
        found,
        ["crates/base/model: depends on `catchment-wire`: base -> format is not downwards"]
    );
    assert_eq!(workspace("crates/base/model", &[("catchment-cli", true)]).len(), 1);
}

#[test]
fn core_and_io_may_not_see_each_other() {
    assert_eq!(workspace("crates/core/builder", &[("catchment-net", false)]).len(), 1);
    assert_eq!(workspace("crates/io/net", &[("catchment-builder", false)]).len(), 1);
}

#[test]
fn clients_stand_between_nodes_and_core() {
    assert!(workspace("clients/rust", &[("catchment-builder", false)]).is_empty());
    assert!(workspace("crates/node/emulator", &[("catchment-rust", false)]).is_empty());
    assert_eq!(workspace("clients/rust", &[("catchment-recorder", false)]).len(), 1);
    assert_eq!(workspace("crates/core/builder", &[("catchment-rust", false)]).len(), 1);
}

#[test]
fn dependency_within_a_floor_is_found_unless_it_is_listed() {
    assert_eq!(workspace("crates/core/builder", &[("catchment-trends", false)]).len(), 1);
    assert_eq!(workspace("crates/io/net", &[("catchment-disk", true)]).len(), 1);
    assert!(workspace("crates/top/python", &[("catchment-cli", false)]).is_empty());
    assert_eq!(workspace("crates/top/cli", &[("catchment-python", false)]).len(), 1);
    assert!(workspace("crates/top/cli", &[("catchment-bench", false)]).is_empty());
    assert_eq!(workspace("crates/top/bench", &[("catchment-cli", false)]).len(), 1);
    assert_eq!(workspace("crates/top/config", &[("catchment-console", false)]).len(), 1);
}

#[test]
fn exception_for_tests_does_not_reach_the_product() {
    assert!(workspace("crates/node/recorder", &[("catchment-emulator", true)]).is_empty());
    assert_eq!(workspace("crates/node/recorder", &[("catchment-emulator", false)]).len(), 1);
}

#[test]
fn testing_floor_is_for_tests_alone() {
    assert!(workspace("crates/base/model", &[("catchment-sim", true)]).is_empty());
    assert_eq!(workspace("crates/node/recorder", &[("catchment-sim", false)]).len(), 1);
    assert!(workspace("crates/testing/sim", &[("catchment-recorder", false)]).is_empty());
}

#[test]
fn sockets_files_and_threads_of_others_are_kept_out_of_core_and_format() {
    assert_eq!(workspace("crates/core/builder", &[("libc", false)]).len(), 1);
    assert_eq!(workspace("crates/format/frame", &[("tokio", false)]).len(), 1);
    assert!(workspace("crates/format/frame", &[("tempfile", true)]).is_empty());
    assert!(workspace("crates/io/net", &[("libc", false)]).is_empty());
}

#[test]
fn anyhow_is_for_the_command_line_alone() {
    assert_eq!(workspace("crates/node/recorder", &[("anyhow", false)]).len(), 1);
    assert!(workspace("crates/top/cli", &[("anyhow", false)]).is_empty());
    assert_eq!(workspace("crates/top/console", &[("anyhow", false)]).len(), 1);
}

#[test]
fn xtask_and_the_product_do_not_depend_on_each_other() {
    assert_eq!(workspace("crates/top/cli", &[("xtask", false)]).len(), 1);
    assert_eq!(workspace("xtask", &[("catchment-model", false)]).len(), 1);
}

#[test]
fn misplaced_package_is_found() {
    assert_eq!(workspace("crates/attic/model", &[]).len(), 1);
    assert_eq!(workspace("crates/model", &[]).len(), 1);
    let mut renamed = package("crates/base/model", &[]);
    renamed.name = "model".to_owned();
    assert_eq!(check(&[renamed]).len(), 1);
}

#[test]
fn package_without_the_lints_is_found() {
    let mut bare = package("crates/base/model", &[]);
    bare.manifest.clear();
    assert_eq!(check(&[bare]).len(), 1);
}
