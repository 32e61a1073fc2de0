//! What a stranger says of a stream: a writer generation that it was not granted, and a header that
//! memory has no room for.

use super::*;

/// Says hello until it is not another sender, or the stream's opening, that keeps it away.
fn claim(address: SocketAddr, generation: u64) -> Sender {
    let connect = || Sender::connect(address, 2, generation, 8);
    let waits = |one: &Sender| {
        one.refused() == Some(ByeReason::NAME_IN_USE) || one.why.contains("is being opened")
    };
    std::iter::repeat_with(connect).find(|one| !waits(one)).unwrap()
}

#[test]
fn a_generation_that_was_not_granted_does_not_end_the_writer_that_was_granted_one() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let address = node.address();
    let mut writer = Sender::admitted(address, 1, 0, 8);
    let own = writer.generation();
    writer.attach(address);
    writer.frame(0, own);
    writer.wait_durable(1);
    for (session, claimed) in [(2, own + 1), (1, own + 1), (2, 1 << 31), (2, u64::MAX)] {
        let refused = Sender::connect(address, session, claimed, 8).refused();
        assert_eq!(refused, Some(ByeReason::NAME_IN_USE), "{session} {claimed}");
    }
    writer.frame(1, own);
    writer.wait_durable(2);
    drop(writer);
    // Nor is it believed while the writer is away.
    let liar = claim(address, own + 1);
    assert_eq!(liar.refused(), Some(ByeReason::LATER));
    assert!(liar.why.contains("generation 2 was not granted"), "{}", liar.why);
    let writer = Sender::admitted(address, 1, own, 8);
    assert_eq!((writer.generation(), writer.grant.unwrap().next), (own, 2));
    drop(writer);
    node.stop().unwrap();
}

#[test]
fn a_node_that_has_lost_its_memory_believes_a_generation_above_which_others_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), free())).unwrap();
    let address = node.address();
    let mut writer = Sender::admitted(address, 1, 0, 8);
    writer.attach(address);
    writer.frame(0, writer.generation());
    writer.wait_durable(1);
    drop(writer);
    node.stop().unwrap();
    let memory = folder.path().join("stored").join(NAME).join("generation");
    std::fs::remove_file(&memory).unwrap();
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    for claimed in [(1 << 31) + 1, u64::MAX] {
        assert_eq!(claim(address, claimed).refused(), Some(ByeReason::LATER), "{claimed}");
    }
    let writer = Sender::admitted(address, 1, 7, 8);
    assert_eq!((writer.generation(), writer.grant.unwrap().next), (7, 1));
    drop(writer);
    assert_eq!(Sender::admitted(address, 3, 0, 8).generation(), 8);
    node.stop().unwrap();
    std::fs::write(&memory, format!("{}\n", u64::MAX)).unwrap();
    let node = Node::start(store_config(folder.path(), address)).unwrap();
    let none_left = claim(address, 0);
    assert_eq!(none_left.refused(), Some(ByeReason::UNKNOWN), "{}", none_left.why);
    node.stop().unwrap();
}

#[test]
fn a_header_that_memory_never_has_room_for_is_refused_before_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(store_config(folder.path(), any())).unwrap();
    let mut sender = Sender::admitted(node.address(), 1, 0, 8);
    sender.attach(node.address());
    let open = Open { log: 0, header_bytes: 32 << 20, offset: 0 };
    sender.send(&Data::Open(open, &[0; 1_000]));
    sender.read_until(|one| one.bye.is_some());
    assert_eq!(sender.refused(), Some(ByeReason::DOES_NOT_FIT));
    assert!(sender.why.contains("for headers here"), "{}", sender.why);
    drop(sender);
    assert_eq!(node.stop().unwrap().frames_unfit, 1);
}
