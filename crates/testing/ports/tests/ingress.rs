//! What arrives, from queues.

use catchment_agent::{Flow, Ingress as _, Piece};
use catchment_ports::{QueueIngress, Queues};

#[test]
fn no_port_takes_all_room() {
    let queues = Queues::default();
    let ports: Vec<usize> = (0..3).map(|_| queues.add(8)).collect();
    let mut ingress = QueueIngress::new(&queues, ports.clone(), 6);
    let mut taken = [0; 3];
    for _ in 0..9 {
        ports.iter().for_each(|&port| while queues.send(port, vec![0]) {});
        // There is room for two in each poll.
        let mut room = 2;
        let received = ingress.poll(&mut |arrival| {
            if room == 0 {
                return Flow::Paused;
            }
            (taken[arrival.endpoint], room) = (taken[arrival.endpoint] + 1, room - 1);
            Flow::Taken
        });
        assert!(received.paused);
    }
    assert_eq!(taken, [6; 3]);
}

#[test]
fn connections_that_are_held_leave_room_for_datagrams() {
    let queues = Queues::default();
    let port = queues.add(8);
    let connections = [0, 1].map(|_| queues.connect(port, 8));
    let mut ingress = QueueIngress::new(&queues, vec![port], 6);
    let (mut taken, mut paused) = ([0; 2], false);
    for _ in 0..12 {
        while queues.send(port, vec![0]) {}
        for connection in connections {
            while queues.write(connection, &[0]) > Some(0) {}
        }
        // There is room for two in each poll. What was paused comes before anything else.
        let mut room = 2;
        let received = ingress.poll(&mut |arrival| {
            let is_datagram = match arrival.piece {
                Piece::Opened { .. } => return Flow::Taken,
                Piece::Datagrams(_) => true,
                _ => false,
            };
            assert!(is_datagram || !paused);
            paused = is_datagram && room == 0;
            if room == 0 {
                return if is_datagram { Flow::Paused } else { Flow::Held };
            }
            room -= 1;
            taken[usize::from(is_datagram)] += 1;
            Flow::Used(1)
        });
        assert_eq!(received.paused, paused);
    }
    assert!(taken[0] >= 6 && taken[1] >= 6, "{taken:?}");
}
