use super::*;

fn section(name: &str, text: &str) -> Section {
    Section { name: name.to_owned(), text: text.to_owned() }
}

#[test]
fn a_step_replaces_its_section_and_no_other() {
    let of_seeds = "Seeds.\n\n`sim`: passed.\n\n    0 failed: []\n";
    let first = page("", "2 CPUs", section("seeds", of_seeds));
    let text = "Network.\n\n`test`: FAILED.\n\n    # a line\n    ## another\n\n    and behind\n";
    let both = page(&first, "2 CPUs", section("network", text));
    let [network, seeds] = ["## network", "## seeds"].map(|head| both.find(head).unwrap());
    assert!(network < seeds, "in the order of the steps: {both}");
    assert!(both.starts_with("# make test-long\n\nMachine: 2 CPUs.\n\n"), "{both}");
    assert!(both.contains(of_seeds) && both.contains(text), "{both}");
    // Again, it is the same page.
    assert_eq!(page(&both, "2 CPUs", section("network", text)), both);
    let passed = page(&both, "2 CPUs", section("network", "Network: passed.\n"));
    assert!(passed.contains(of_seeds) && !passed.contains("FAILED"), "{passed}");
    assert_eq!(passed.matches("## network").count(), 1);
}

#[test]
fn another_machine_is_named_where_it_ran_a_step() {
    let first = page("", "2 CPUs", section("seeds", "Seeds.\n"));
    let both = page(&first, "4 CPUs", section("fuzz", "Fuzzed.\n"));
    assert!(both.contains("\nMachine: 2 CPUs.\n\nOne step"), "{both}");
    assert!(both.contains("## fuzz\n\nMachine: 4 CPUs.\n\nFuzzed.\n"), "{both}");
}

#[test]
fn a_step_that_is_none_any_more_leaves_the_page() {
    let former = "# make test-long\n\nMachine: 2 CPUs.\n\nX\n\n## retired\n\nIt passed.\n";
    assert!(!page(former, "2 CPUs", section("fuzz", "Fuzzed.\n")).contains("retired"));
}

#[test]
fn figures_are_what_follows_their_first_line_and_never_too_many() {
    let text = "compiles\nrunning 1 test\nold\nrunning 2 tests\n1.5 MB/s\nok\n\n";
    let begins = |line: &str| line.starts_with("running ");
    assert_eq!(figures(text, begins, 40), ["running 2 tests", "1.5 MB/s", "ok"]);
    // What never began them shows how it ended.
    assert_eq!(figures("one\ntwo\nthree\n", begins, 2), ["two", "three"]);
    let long = (0..100).map(|line| format!("line {line}\n")).collect::<String>();
    let shown = figures(&long, |line| line == "line 5", 40);
    assert_eq!((shown.len(), &*shown[0], &*shown[30]), (41, "line 5", "... 55 lines"));
    assert_eq!((&*shown[29], &*shown[31], &*shown[40]), ("line 34", "line 90", "line 99"));
    assert!(figures("", begins, 40).is_empty());
}

#[test]
fn what_a_command_prints_is_shown_and_kept_also_where_it_fails() {
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run_shown(&mut command).unwrap()
    };
    let (text, result) = shell("echo said; echo complained >&2; exit 3");
    assert_eq!(text, "said\ncomplained\n");
    assert!(result.unwrap_err().to_string().starts_with("exit status: 3"));
    assert!(shell("true").1.is_ok());
}

#[test]
fn steps_have_names_of_their_own_and_an_unknown_one_is_refused() {
    let mut names = STEPS.map(|step| step.name).to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), STEPS.len());
    let error = run(&["sedes".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("`sedes`") && error.contains("seeds-by-time"), "{error}");
}
