//! A stream of which a folder has failed and cannot be ended: what is said of it, and where it goes
//! on.

use super::*;

/// The answer to a sender that asks, once the files of the stream are closed.
fn asked(address: SocketAddr) -> Sender {
    let ask = || Sender::connect_with(address, 9, (0, 1 << 62), StreamLog::ASKS);
    let is_later =
        |one: &Sender| matches!(one.refused(), Some(ByeReason::LATER | ByeReason::NAME_IN_USE));
    std::iter::repeat_with(ask).find(|one| !is_later(one)).expect("an answer")
}

#[test]
fn who_asks_is_told_at_once_that_a_folder_that_was_left_out_has_a_part_and_its_sender_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (node, control) = two_folders(folder.path(), 1 << 30);
    let address = node.address();
    let mut sender = Sender::admitted(address, 1, 0, 8);
    let generation = sender.generation();
    sender.attach(address);
    (0..3).for_each(|sequence| sender.frame(sequence, generation));
    sender.wait_durable(3);
    let [first, second, away] = ["first", "second", "away"].map(|name| folder.path().join(name));
    std::fs::rename(&first, &away).unwrap();
    control.fail_writes(Some(libc::EIO));
    sender.frame(3, generation);
    sender.read_until(|one| one.bye.is_some());
    assert_eq!(sender.refused(), Some(ByeReason::LATER));
    let go_on = |next: u64| {
        let mut sender = Sender::admitted(address, 1, generation, 8);
        assert_eq!(sender.grant.unwrap().next, next);
        sender.attach(address);
        sender.frame(next, generation);
        sender.wait_durable(next + 1);
        sender
    };
    drop(go_on(3));
    let refused = asked(address).bye.expect("it is refused");
    assert_eq!((refused.reason, refused.retry_ms), (ByeReason::UNKNOWN, 0));
    // What its last writer knew is right, although its files were closed for the one who asked.
    let mut sender = go_on(4);
    sender.send(&Data::Close(Close { log: 0, sequence: 5 }));
    sender.wait_durable(6);
    drop(sender);
    node.stop().unwrap();
    std::fs::rename(&away, &first).unwrap();
    let [first, second] = [first, second].map(|one| one.join(NAME));
    assert_eq!((numbers(&first), numbers(&second)), (vec![0, 1, 2], vec![3, 4]));
    assert!(Run::open(&second).unwrap().ended());
}

#[test]
fn who_asks_is_told_what_there_is_where_a_folder_that_was_left_out_has_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (node, control) = two_folders(folder.path(), 1 << 30);
    let address = node.address();
    let mut sender = Sender::admitted(address, 1, 0, 8);
    let generation = sender.generation();
    sender.attach(address);
    control.fail_syncs(Some(libc::EIO));
    sender.frame(0, generation);
    sender.read_until(|one| one.bye.is_some());
    assert_eq!(sender.refused(), Some(ByeReason::LATER));
    // The file of which nothing is durable is gone with its disk.
    let [first, away] = ["first", "away"].map(|name| folder.path().join(name));
    std::fs::rename(&first, &away).unwrap();
    let mut sender = Sender::admitted(address, 1, generation, 8);
    assert_eq!(sender.grant.unwrap().next, 0);
    sender.attach(address);
    (0..2).for_each(|sequence| sender.frame(sequence, generation));
    sender.wait_durable(2);
    drop(sender);
    let asking = Sender::asking(address, 9);
    let left = asking.left.unwrap();
    assert_eq!((left.flags, left.frames, asking.grant.unwrap().next), (0, 2, 2));
    drop(asking);
    node.stop().unwrap();
    // The other folder has them in a file with another number.
    assert!(away.join(NAME).join("run-00000.catch").is_file());
    let second = folder.path().join("second").join(NAME);
    assert!(second.join("run-00001.catch").is_file());
}
