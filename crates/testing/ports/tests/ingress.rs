//! What arrives, from queues.

use catchment_agent::{Flow, Ingress as _};
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
