//! How long the buffers of senders are to last: what is in them is durable before they are full.
//!
//! A fragment of an event is durable when its frame was cut by its age and a sync was behind it. A
//! frame of channels is cut when it covers its duration, and by its age a quarter later.

use crate::config::RecorderConfig;

/// What a buffer is to last beyond the age of a frame and the interval of syncs.
const SPARE_NS: u64 = 200_000_000;
/// Frames of channels for which a buffer is to last: one is filled while one is written.
const CHANNEL_FRAMES: u64 = 2;

/// How long buffers are to last, by what is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BufferTimes {
    events_ms: u32,
    channels_ms: u32,
}

impl BufferTimes {
    pub(crate) fn of(config: &RecorderConfig) -> Self {
        let events_ns = config.frame.time_ns.saturating_add(config.write.sync_interval_ns);
        let ms = |ns: u64| ns.div_ceil(1_000_000).try_into().unwrap_or(u32::MAX);
        Self {
            events_ms: ms(events_ns.saturating_add(SPARE_NS)),
            channels_ms: ms(config.channel_frame_ns().saturating_mul(CHANNEL_FRAMES)),
        }
    }

    /// How long those of a front-end are to last, or of a link of channels.
    pub(crate) fn of_sender(self, is_link: bool) -> u32 {
        if is_link { self.channels_ms } else { self.events_ms }
    }
}

#[cfg(test)]
mod tests {
    use catchment_frame::Dtype;
    use catchment_model::SampleRate;
    use catchment_wire::session::Release;

    use super::*;
    use crate::front_ends::{FrontEnd, FrontEnds};
    use crate::links::{ChannelConfig, LinkConfig};

    /// What is said of a buffer that lasts so long.
    fn short(front_ends: &FrontEnds, (is_link, buffer_ms): (bool, u32)) -> Option<String> {
        front_ends.tell("camera", |one| {
            (one.is_connected, one.is_link, one.buffer_ms) = (true, is_link, buffer_ms);
        });
        front_ends.list()["camera"].buffer_short()
    }

    #[test]
    fn a_buffer_is_too_small_that_fills_before_what_is_in_it_is_durable() {
        let mut config = RecorderConfig::new("".into(), Vec::new());
        (config.frame.time_ns, config.write.sync_interval_ns) = (250_000_000, 20_000_000);
        let front_ends = FrontEnds::new(&config);
        let short = |buffer_ms| short(&front_ends, (false, buffer_ms));
        let too_small = "it lasts 469 ms, and data take up to 470 ms to be durable";
        assert_eq!(short(469).as_deref(), Some(too_small));
        assert_eq!((short(470), short(0)), (None, None), "it does not say how long");
        // Another configuration's frames are older.
        config.frame.time_ns = 1_000_000_000;
        front_ends.enter(&config, true);
        assert!(short(470).is_some());
        front_ends.tell("camera", |one| one.begin(false, Release::Taken));
        assert_eq!(short(470), None, "it keeps nothing until it is durable");
        front_ends.tell("camera", |one| one.begin(false, Release::Durable));
        assert!(short(470).is_some());
        front_ends.tell("camera", FrontEnd::leave);
        assert_eq!(front_ends.list()["camera"].buffer_short(), None, "it is not there");
    }

    #[test]
    fn a_buffer_of_a_link_is_to_last_for_two_frames_of_channels() {
        let mut config = RecorderConfig::new("".into(), Vec::new());
        config.frame.duration_ns = 10_000_000_000;
        let front_ends = FrontEnds::new(&config);
        let short = |buffer_ms| short(&front_ends, (true, buffer_ms));
        let too_small = "it lasts 19999 ms, and data take up to 20000 ms to be durable";
        assert_eq!(short(19_999).as_deref(), Some(too_small));
        assert_eq!((short(20_000), short(0)), (None, None));
        // Frames of a high rate reach their size before.
        let channel =
            ChannelConfig::new("fast", Dtype::F64, SampleRate::new(1_000_000, 1).unwrap());
        let address = "127.0.0.1:7300".parse().unwrap();
        config.links = vec![LinkConfig::new("camera", address, vec![channel])];
        config.frame.channel_bytes = 8_000_000;
        front_ends.enter(&config, true);
        assert!(short(1_999).is_some());
        assert_eq!(short(2_000), None);
    }
}
