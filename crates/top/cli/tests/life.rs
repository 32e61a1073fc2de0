//! The long life of a node: signals, the service manager, alarms' actions, full disks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

use crate::support;
use catchment_fixtures::{SmallDisk, wait_while};
use serde_json::Value;
use support::{catchment, json, only_run, output, stderr, stdout};

/// Three emulated sources, recorded in small frames. Neither a fast machine nor a slow one comes to
/// the limits of requests and of the time to end in.
const EMULATED: &str = r#"
[control]
emulate = true
requests_per_second = 1000000
drain = "1 h"
[frame]
time = "50 ms"
[memory]
budget = "256 MiB"
[write]
buffer_bytes = "1 MiB"
preallocate_bytes = "1 MiB"
[emulator]
preset = "hades-90"
rate = "500 Hz"
[[source_groups]]
group = "small"
count = 3
address = "127.0.0.1:0"
first_sub_event_id = 0x8000
"#;

/// A node that serves, and is killed when this is dropped.
pub(crate) struct Node {
    folder: PathBuf,
    child: Child,
    pub(crate) url: String,
    _lines: BufReader<ChildStdout>,
}

impl Node {
    pub(crate) fn start(folder: &Path, text: &str, environment: &[(&str, &str)]) -> Self {
        Self::prepared(folder, text, |command| {
            command.envs(environment.iter().copied());
        })
    }

    pub(crate) fn prepared(folder: &Path, text: &str, prepare: impl FnOnce(&mut Command)) -> Self {
        std::fs::write(folder.join("node.toml"), text).unwrap();
        let mut command = catchment(folder, &["run", "node.toml", "--listen", "127.0.0.1:0"]);
        prepare(&mut command);
        Self::begin(folder, command)
    }

    fn begin(folder: &Path, mut command: Command) -> Self {
        command.stderr(std::fs::File::create(folder.join("node.log")).unwrap());
        let (child, lines, line) = support::printed(command, "Serving ");
        let url = line.trim().strip_prefix("Serving ").unwrap().trim_end_matches('/').to_owned();
        Self { folder: folder.to_owned(), child, url, _lines: lines }
    }

    /// One that has recorded something.
    fn recording(folder: &Path, text: &str) -> Self {
        let node = Self::start(folder, text, &[]);
        node.until(|state| state["run"]["events"].as_u64() > Some(0));
        node
    }

    /// With a pause: others have work to do, too.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> Value {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let printed =
            output(&self.folder, &[&["ctl", "--url", &self.url, "--json"], arguments].concat());
        serde_json::from_slice(&printed.stdout).unwrap_or_else(|_| {
            panic!("{arguments:?}: {}", String::from_utf8_lossy(&printed.stderr))
        })
    }

    /// Looks until something is so.
    #[track_caller]
    pub(crate) fn until(&self, reached: impl Fn(&Value) -> bool) -> Value {
        let mut state = Value::Null;
        wait_while(|| {
            state = self.ctl(&["state"]);
            !reached(&state)
        });
        state
    }

    /// The value of a metric.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = get(&format!("{}/metrics", self.url)).1;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the process is our child, and not waited for yet.
        let sent = unsafe { libc::kill(self.child.id() as i32, signal) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    }

    pub(crate) fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("node.log")).unwrap()
    }

    /// Stops one thread, as a disk does that does not answer. None, with the reason printed, where
    /// that is not permitted.
    fn hang(&self, name: &str) -> Option<Hung> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // Another thread may end meanwhile.
        let named = |path: &Path| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
        };
        let path = tasks.map(|task| task.unwrap().path()).find(|path| named(path)).unwrap();
        let thread: i32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: it stops a thread of our child, and touches no memory.
        if unsafe { libc::ptrace(libc::PTRACE_ATTACH, thread, none, none) } != 0 {
            println!("not run: cannot stop a thread: {}", std::io::Error::last_os_error());
            return None;
        }
        let hung = Hung(thread);
        assert!(libc::WIFSTOPPED(hung.wait()));
        Some(hung)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A thread that is stopped until its process ends.
struct Hung(i32);

impl Hung {
    /// Waits until it has stopped, or has ended.
    fn wait(&self) -> i32 {
        let mut status = 0;
        // SAFETY: the place is valid to write to.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL) };
        assert_eq!(waited, self.0, "{}", std::io::Error::last_os_error());
        status
    }
}

pub(crate) fn get(url: &str) -> (u16, String) {
    answer(agent().get(url).call())
}

fn agent() -> ureq::Agent {
    ureq::Agent::new_with_config(ureq::Agent::config_builder().http_status_as_error(false).build())
}

fn answer(sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> (u16, String) {
    let mut response = sent.unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

fn shown(folder: &Path, number: &str) -> Value {
    json(folder, &["catalog", "show", number, "--json"], 0)
}

#[test]
fn sigterm_ends_the_run_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let node = Node::recording(folder, EMULATED);
    node.signal(libc::SIGTERM);
    assert_eq!(node.ended().code(), Some(0));
    let run = shown(folder, "1");
    assert_eq!((&run["state"], &run["loss_count"]), (&"complete".into(), &0.into()), "{run}");
    assert!(run["ended"].is_string() && run["events"].as_u64() > Some(0), "{run}");
    stdout(folder, &["audit", only_run(folder).to_str().unwrap()], 0);
}

#[test]
fn a_second_sigterm_ends_the_program_at_once_and_the_run_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let node = Node::recording(folder, EMULATED);
    let Some(hung) = node.hang("write") else { return };
    node.signal(libc::SIGTERM);
    // The emulator has ended by then.
    node.until(|state| {
        let waiting_for = serde_json::json!(["node/recorder"]);
        let under_way = &state["under_way"];
        under_way["command"] == "shutdown" && under_way["waiting_for"] == waiting_for
    });
    node.signal(libc::SIGTERM);
    assert!(!libc::WIFSTOPPED(hung.wait()));
    assert_eq!(node.ended().code(), Some(128 + libc::SIGTERM));

    // Whoever looks at it first looks what came of it.
    let run = shown(folder, "1");
    assert_eq!(run["state"], "interrupted");
    let [events, received] = [&run["events"], &run["ledger"]["fragments_received"]];
    assert!(received.as_u64() >= events.as_u64().map(|events| 3 * events), "{run}");
    assert!(events.as_u64() > Some(0) && run["loss_count"].is_u64(), "{run}");
    // What was in memory is gone and left no trace in the files: that they were not ended tells it.
    let audit = output(folder, &["audit", only_run(folder).to_str().unwrap(), "--json"]);
    let audit: Value = serde_json::from_slice(&audit.stdout).unwrap();
    assert_eq!(audit["closing"], "killed", "{audit}");
}

#[test]
fn a_disk_that_hangs_does_not_keep_the_program_from_ending() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Longer than a source may be silent.
    let node = Node::recording(folder, &EMULATED.replace("1 h", "6 s"));
    let Some(hung) = node.hang("write") else { return };
    node.signal(libc::SIGTERM);
    assert!(!libc::WIFSTOPPED(hung.wait()));
    let log = node.log();
    assert!(log.contains("a device's thread hangs"), "{log}");
    // Its sources send nothing since they were told to: nobody is called for that.
    assert!(!log.contains("is silent"), "{log}");
    assert_eq!(node.ended().code(), Some(1));
    assert_eq!(shown(folder, "1")["state"], "interrupted");
}

#[test]
fn a_limit_of_file_sizes_is_a_fault_of_the_disk_and_not_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fast = EMULATED.replace("500 Hz", "4 kHz");
    let node = Node::prepared(folder, &fast, |command| {
        let limit = libc::rlimit { rlim_cur: 4 << 20, rlim_max: 4 << 20 };
        let set = move || {
            // SAFETY: the limit is valid to read; the call is one that is safe after a fork.
            match unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: it does nothing but that call.
        unsafe { command.pre_exec(set) };
    });
    while !node.log().contains("File too large") {
        node.ctl(&["state"]);
    }
    node.signal(libc::SIGTERM);
    assert_eq!(node.log().matches("panicked").count(), 0);
    assert_eq!(node.ended().code(), Some(3));
    let run = shown(folder, "1");
    assert!(run["events"].as_u64() > Some(0), "{run}");
}

#[test]
fn a_run_that_ends_in_fault_is_not_said_to_go_on() {
    let Some(disk) = SmallDisk::in_memory("size=32m") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let runs = disk.path().join("runs");
    let node = Node::recording(folder, &format!("[run]\nfolder = {runs:?}\n{EMULATED}"));
    node.until(|state| {
        disk.fill();
        state["state"] == "fault"
    });
    node.signal(libc::SIGTERM);
    let log = folder.join("node.log");
    assert_eq!(node.ended().code(), Some(3));
    let log = std::fs::read_to_string(log).unwrap();
    let (_, after) = log.rsplit_once("recording is in fault").expect("the fault");
    assert!(after.contains("the run has ended"), "{log}");
    assert!(!after.contains("recording goes on"), "{log}");
}

#[test]
fn an_emulator_in_the_configuration_sends_nothing_unless_somebody_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let quiet = EMULATED.replace("emulate = true\n", "");
    let node = Node::start(folder, &quiet, &[]);
    let state = node.until(|state| state["run"]["seconds"].as_f64() > Some(1.0));
    assert_eq!((&state["emulated"], &state["run"]["emulated"]), (&false.into(), &false.into()));
    assert_eq!(state["run"]["events"], 0, "{state}");
    let devices = node.ctl(&["devices"]);
    assert!(!devices.to_string().contains("node/emulator"), "{devices}");
    assert!(node.log().contains("[emulator] is not used: only --emulate"), "{}", node.log());
    // Nor can a configuration that is sent over the network make it emulate.
    std::fs::write(folder.join("node.toml"), EMULATED).unwrap();
    let reload = stderr(folder, &["ctl", "--url", &node.url, "reload"], 1);
    assert!(reload.contains("needs a new start of the program"), "{reload}");
    node.signal(libc::SIGTERM);
    assert!(node.ended().success());

    std::fs::write(folder.join("node.toml"), &quiet).unwrap();
    let run = ["run", "node.toml", "--listen", "127.0.0.1:0", "--emulate"];
    let node = Node::begin(folder, catchment(folder, &run));
    let state = node.until(|state| state["run"]["events"].as_u64() > Some(0));
    assert_eq!((&state["emulated"], &state["run"]["emulated"]), (&true.into(), &true.into()));
    let printed = stdout(folder, &["ctl", "--url", &node.url, "state"], 0);
    assert!(printed.contains("EMULATED: the node sends these data itself"), "{printed}");
    let runs = node.ctl(&["runs"]);
    let emulated = |run: usize| runs["runs"][run]["emulated"].clone();
    assert_eq!((emulated(0), emulated(1)), (true.into(), false.into()), "{runs}");
    node.signal(libc::SIGTERM);
    assert!(node.ended().success());
    for (number, emulated) in [("1", false), ("2", true)] {
        let run = shown(folder, number);
        assert_eq!(run["emulated"], emulated, "{run}");
        let path = folder.join("runs").join(run["folder"].as_str().unwrap());
        let inspected = json(folder, &["inspect", path.to_str().unwrap(), "--json"], 0);
        assert_eq!(inspected["emulated"], emulated, "{inspected}");
        let printed = stdout(folder, &["inspect", path.to_str().unwrap()], 0);
        assert_eq!(printed.contains("EMULATED"), emulated, "{printed}");
    }
    let listed = stdout(folder, &["catalog", "ls"], 0);
    assert_eq!(listed.matches("EMULATED").count(), 1, "{listed}");
}

#[test]
fn a_recorder_without_a_node_emulates_its_sources_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = &EMULATED[EMULATED.find("[frame]").unwrap()..];
    std::fs::write(folder.join("plain.toml"), text).unwrap();
    let run = |arguments: &[&str]| {
        let run = [&["run", "plain.toml", "--seconds", "1", "--json"], arguments].concat();
        json(folder, &run, 0)
    };
    assert_eq!(run(&[])["counts"]["events_recorded"], 0);
    assert!(run(&["--emulate"])["counts"]["events_recorded"].as_u64() > Some(0));
    assert_eq!(shown(folder, "1")["emulated"], false);
    assert_eq!(shown(folder, "2")["emulated"], true);

    let real = text.replace("[emulator]\npreset = \"hades-90\"\nrate = \"500 Hz\"\n", "");
    std::fs::write(folder.join("real.toml"), &real).unwrap();
    let printed = stderr(folder, &["run", "real.toml", "--emulate"], 2);
    assert!(printed.contains("--emulate: expected [emulator] in real.toml, got none"), "{printed}");
    let key = format!("[control]\nemulate = true\n{real}");
    std::fs::write(folder.join("key.toml"), key).unwrap();
    let printed = stderr(folder, &["run", "key.toml"], 2);
    assert!(printed.contains("key.toml:2:11: control.emulate: expected [emulator]"), "{printed}");
}

#[test]
fn sighup_reads_the_configuration_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let node = Node::recording(folder, EMULATED);
    let present = || node.ctl(&["config"])["present"].clone();
    assert_eq!(present(), 1);
    let alarm = "[[alarms]]\nname = \"mine\"\nquantity = \"disk.free_bytes\"\nabove = 0\n";
    std::fs::write(folder.join("node.toml"), format!("{EMULATED}{alarm}")).unwrap();
    node.signal(libc::SIGHUP);
    // Rules count at once.
    let mine =
        |list: &Value| list["alarms"].as_array().unwrap().iter().any(|a| a["name"] == "mine");
    while !mine(&node.ctl(&["alarms"])) {}
    assert_eq!(present(), 2);

    std::fs::write(folder.join("node.toml"), "[frame]\ntime = \"no time\"\n").unwrap();
    node.signal(libc::SIGHUP);
    while !node.log().contains("configuration not reloaded") {
        node.ctl(&["state"]);
    }
    assert_eq!(present(), 2);
    // The run goes on all the while.
    assert_eq!(node.ctl(&["state"])["run"]["number"], 1);
}

#[test]
fn the_service_manager_is_told_of_readiness_life_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = folder.join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let next = || {
        let mut message = [0; 256];
        let bytes = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..bytes].to_vec()).unwrap()
    };
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "100000")];
    let node = Node::start(folder, EMULATED, &environment);
    let (mut ready, mut alive) = (false, 0);
    while !ready || alive < 3 {
        match next().as_str() {
            "READY=1" => ready = true,
            "WATCHDOG=1" => alive += 1,
            other => panic!("{other}"),
        }
    }
    node.signal(libc::SIGTERM);
    let last = std::iter::repeat_with(next).find(|message| message != "WATCHDOG=1").unwrap();
    assert!(last.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC="), "{last}");
    assert_eq!(node.ended().code(), Some(0));
}

#[test]
fn the_unit_file_is_what_systemd_takes() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/catchment.service");
    let text = std::fs::read_to_string(unit).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The program is not where it will be installed.
    let here = text.replace("/usr/bin/catchment", env!("CARGO_BIN_EXE_catchment"));
    assert_ne!(here, text);
    let unit = folder.path().join("catchment.service");
    std::fs::write(&unit, here).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&unit).output() {
        Err(error) => println!("not run: systemd-analyze: {error}"),
        Ok(printed) => {
            let message = String::from_utf8_lossy(&printed.stderr);
            assert!(
                printed.status.success() && !message.contains("catchment.service:"),
                "{message}"
            );
        }
    }
}

/// Reads one request, answers it, and returns its body.
fn served(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = Vec::new();
    let body = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
            });
            if body.len() >= length.expect("a length") {
                assert!(head.starts_with("POST /hook "), "{head}");
                break body.to_owned();
            }
        }
        let mut piece = [0; 4_096];
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "{text}");
        bytes.extend_from_slice(&piece[..read]);
    };
    stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
    body
}

#[test]
fn actions_of_alarms_are_done_and_one_that_hangs_holds_up_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [hook, silent] = [0, 1].map(|index| listeners[index].local_addr().unwrap());
    let actions = format!(
        r#"{EMULATED}
[[alarms]]
name = "mine"
quantity = "disk.free_bytes"
above = 0
severity = "info"
actions = ["tell", "hook", "broken", "missing", "slow", "hangs"]
[[actions]]
name = "tell"
command = ["sh", "-c", "cat > alarm.new && mv alarm.new alarm.json"]
[[actions]]
name = "hook"
webhook = "http://{hook}/hook"
timeout = "10 min"
[[actions]]
name = "broken"
command = ["false"]
[[actions]]
name = "missing"
command = ["./there-is-no-such-program"]
[[actions]]
name = "slow"
command = ["sleep", "600"]
timeout = "50 ms"
[[actions]]
name = "hangs"
webhook = "http://{silent}/"
timeout = "10 min"
"#
    );
    let node = Node::recording(folder, &actions);
    let posted: Value = serde_json::from_str(&served(&listeners[0])).unwrap();
    assert_eq!(posted["alarm"]["name"], "mine", "{posted}");
    assert!(posted["alarm"]["value"].as_f64() > Some(0.0), "{posted}");
    // It was done before: one action at a time, in their order.
    let printed = std::fs::read_to_string(folder.join("alarm.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), posted);

    let failed = || node.metric("catchment_alarm_actions_failed_total");
    while failed() < 3.0 {
        node.ctl(&["alarms"]);
    }
    assert_eq!(failed(), 3.0);
    let _unanswered: (TcpStream, _) = listeners[1].accept().unwrap();
    // One that hangs is waited for neither by the API, nor by the run, nor by the end.
    let events = node.ctl(&["state"])["run"]["events"].as_u64();
    node.until(|state| state["run"]["events"].as_u64() > events);
    node.signal(libc::SIGTERM);
    assert_eq!(node.ended().code(), Some(0));
    let log = std::fs::read_to_string(folder.join("node.log")).unwrap();
    assert!(log.contains("are not done, and given up"), "{log}");
}

#[test]
fn ctl_ends_with_the_codes_that_all_commands_have() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let unreachable = ["ctl", "--url", "http://127.0.0.1:9", "state"];
    assert!(stderr(folder, &unreachable, 1).contains("no answer from"));
    stderr(folder, &["ctl", "--url", "127.0.0.1:9", "state"], 2);
    let text = "[memory]\nbudget = \"256 MiB\"\n[control]\nstart = \"manual\"\n\
        [[sources]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\n";
    let node = Node::start(folder, text, &[]);
    let ctl = |arguments: &[&'static str]| [&["ctl", "--url", &node.url], arguments].concat();
    assert!(stdout(folder, &ctl(&["state"]), 0).starts_with("no run"));
    assert!(stderr(folder, &ctl(&["pause"]), 1).contains("refused"));
    assert!(stdout(folder, &ctl(&["start"]), 0).starts_with("start: done, recording, run 1"));
    stdout(folder, &ctl(&["state"]), 0);
    let address = node.ctl(&["sources"])["sources"][0]["address"].as_str().unwrap().to_owned();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(b"no packet of any protocol", address).unwrap();
    node.until(|state| state["loss"]["count"].as_u64() > Some(0));
    let printed = stdout(folder, &ctl(&["state"]), 3);
    assert!(printed.contains("1 lost"), "{printed}");
}

/// A packet of one event, whose sender marks it as broken.
fn broken_packet(number: u32) -> Vec<u8> {
    use catchment_wire::hadtu::{ByteOrder, SUB_EVENT_DECODING, SubEventHeader};
    let header = SubEventHeader {
        id: 1,
        error: true,
        trigger_number: number,
        trigger_tag: 1,
        decoding: SUB_EVENT_DECODING,
    };
    crate::support::packet(ByteOrder::Big, &header, &[1, 2, 3])
}

#[test]
fn bad_data_are_said_everywhere_and_the_program_ends_with_3() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = "[memory]\nbudget = \"256 MiB\"\n[control]\nstart = \"manual\"\n\
        [frame]\ntime = \"100 ms\"\n[[sources]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\n";
    let node = Node::start(folder, text, &[]);
    stdout(folder, &["ctl", "--url", &node.url, "start"], 0);
    let address = node.ctl(&["sources"])["sources"][0]["address"].as_str().unwrap().to_owned();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let number = std::cell::Cell::new(0);
    let state = node.until(|state| {
        number.set(number.get() + 1);
        sender.send_to(&broken_packet(number.get()), &address).unwrap();
        state["verdict"]["level"] == "heavy_bad_data"
    });
    assert_eq!(state["verdict"]["bad_share"], 1.0, "{state}");
    assert_eq!(
        (&state["loss"]["count"], &state["sources"]["with_bad_data"]),
        (&0.into(), &1.into())
    );
    let printed = stdout(folder, &["ctl", "--url", &node.url, "state"], 3);
    assert!(printed.contains("marked broken by their sender"), "{printed}");
    assert!(node.metric("catchment_bad_fragments_total{reason=\"fragments_bad_sender\"}") > 0.0);
    stdout(folder, &["ctl", "--url", &node.url, "stop"], 0);
    let listed = stdout(folder, &["catalog", "ls"], 0);
    assert!(listed.contains("ended, with bad data"), "{listed}");
    let run = shown(folder, "1");
    assert!(run["bad_count"].as_u64() > Some(0) && run["loss_count"] == 0, "{run}");
    let audited = stdout(folder, &["audit", only_run(folder).to_str().unwrap()], 3);
    assert!(audited.contains("Some of the recorded data are bad"), "{audited}");
    assert!(audited.contains("nothing was lost"), "{audited}");
    node.signal(libc::SIGTERM);
    assert_eq!(node.ended().code(), Some(3));
}

#[test]
fn connections_leave_the_descriptors_that_files_need() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = EMULATED.replace("[write]", "[write]\nfile_time = \"200 ms\"");
    std::fs::write(folder.join("node.toml"), text).unwrap();
    let mut command = catchment(folder, &["run", "node.toml", "--listen", "127.0.0.1:0"]);
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: setrlimit may be called between fork and exec, and the limit is a value of its own.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let node = Node::begin(folder, command);
    node.until(|state| state["run"]["events"].as_u64() > Some(0));
    let address = node.url.strip_prefix("http://").unwrap();
    let connections: Vec<TcpStream> =
        (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
    let run = only_run(folder);
    let files = || {
        let names = std::fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|found| found == "catch")).count()
    };
    let before = files();
    wait_while(|| files() < before + 5);
    drop(connections);
    // Until the node has seen that they are gone.
    while !output(folder, &["ctl", "--url", &node.url, "state"]).status.success() {}
    assert!(node.metric("catchment_http_connections_refused_total") > 0.0);
    node.signal(libc::SIGTERM);
    let log = std::fs::read_to_string(folder.join("node.log")).unwrap();
    assert_eq!(node.ended().code(), Some(0), "{log}");
    assert!(!log.contains("Too many open files"), "{log}");
}

#[test]
fn a_full_disk_keeps_nobody_from_looking_at_the_runs() {
    let Some(disk) = SmallDisk::in_memory("size=32m") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let runs = disk.path().join("runs");
    let text = format!("[run]\nfolder = {runs:?}\n{EMULATED}").replace("500 Hz", "4 kHz");
    let node = Node::recording(folder, &text);
    let path = format!("{}/api/v1/runs", node.url);
    node.until(|state| {
        disk.fill();
        let (status, list) = get(&path);
        assert_eq!(status, 200, "{list}");
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list["runs"][0]["number"], 1);
        state["state"] == "fault"
    });
    // What cannot be written is refused, with the reason. (A file that is cut makes room for once.)
    let comment = |text: &str| {
        let body = serde_json::json!({ "remark": text }).to_string();
        answer(agent().patch(format!("{path}/1")).content_type("application/json").send(body))
    };
    let (status, problem) = loop {
        disk.fill();
        let (status, problem) = comment("full");
        if status != 200 {
            break (status, problem);
        }
    };
    assert!(status == 507 && problem.contains("disk of the catalogue is full"), "{problem}");
    disk.fill();
    let printed = stdout(folder, &["ctl", "--url", &node.url, "stop"], 0);
    assert!(printed.contains("run 1"), "{printed}");
    disk.fill();
    // Whether it could be entered or waits: the run's end is told.
    let run: Value = serde_json::from_str(&get(&format!("{path}/1")).1).unwrap();
    assert_eq!(run["state"], "fault", "{run}");
    assert!(run["ended"].is_string() && run["loss_count"].as_u64() > Some(0), "{run}");
    disk.make_room();
    let catalog = ["catalog", "--folder", runs.to_str().unwrap(), "show", "1", "--json"];
    while json(folder, &catalog, 0)["state"] != "fault" {}
    assert_eq!(comment("mended").0, 200);
    let message = json(folder, &catalog, 0)["remarks"].as_array().unwrap().last().cloned().unwrap();
    assert_eq!((&message["text"], &message["kind"]), (&"mended".into(), &"remark".into()));
    node.signal(libc::SIGTERM);
    assert_eq!(node.ended().code(), Some(3));
}

#[test]
fn a_demo_can_be_looked_at_and_not_be_touched() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Longer than anything takes, and no more on disk than in a minute of 500 Hz.
    let demo = ["demo", "--seconds", "3600", "--rate", "8"];
    let mut child = catchment(folder, &demo).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let url =
        lines.find_map(|line| line.strip_prefix("Look at it in a browser: ").map(String::from));
    let url = url.unwrap();
    let state = |printed: &Output| -> Value { serde_json::from_slice(&printed.stdout).unwrap() };
    let mut printed = output(folder, &["ctl", "--url", &url, "state", "--json"]);
    while state(&printed)["verdict"]["level"] == "not_recording" {
        // Whoever asks without a pause is refused, on a machine that is fast enough: at most every
        // hundredth of a second.
        std::thread::sleep(std::time::Duration::from_millis(20));
        printed = output(folder, &["ctl", "--url", &url, "state", "--json"]);
    }
    let state = state(&printed);
    assert_eq!((&state["state"], &state["run"]["number"]), (&"recording".into(), &1.into()));
    assert_eq!(state["commands"], serde_json::json!([]));
    let refused = stderr(folder, &["ctl", "--url", &url, "stop"], 1);
    assert!(refused.contains("only looked at"), "{refused}");
    child.kill().unwrap();
    child.wait().unwrap();
}
