//! The recorder: receive, build, make frames and write them, with every fragment in the ledger.
//!
//! ```text
//! sockets -> receive-N -> descriptors -> build -> cuts -> frames -> columns -> write -> files
//!      (receive.rs)                   (build.rs)       (frames.rs) <-> encode-N  (target.rs)
//!               payload -> chunks (pool.rs) -----------------------------^
//! ```
//!
//! Payload is copied twice: from the receive buffer into its source's chunk, and from there into an
//! aligned disk buffer. Everything between handles descriptors.

mod accept;
mod admission;
mod agents;
mod assembly;
mod beginning;
mod budget;
mod buffer_times;
mod build;
mod builder_config;
mod channel_frames;
mod check;
mod column_bytes;
mod commander;
mod config;
mod counts;
mod destinations;
mod file;
mod file_limits;
mod file_list;
mod file_steps;
mod folders;
mod forward_wait;
mod frame_counts;
mod frame_feed;
mod frames;
mod front_end_moves;
mod front_ends;
mod in_files;
mod ingest;
mod intake;
mod interrupted;
mod judge;
mod link_access;
mod link_keys;
mod link_log;
mod link_message;
mod link_positions;
mod link_reserve;
mod link_samples;
mod link_session;
mod link_window;
mod links;
mod live;
mod live_folder;
mod live_link;
mod live_offsets;
mod live_progress;
mod live_target;
mod live_warnings;
mod locations;
mod lowered;
mod match_rule;
mod node_asking;
mod node_left;
mod node_shares;
mod nothing;
mod parts;
mod pool;
mod populate;
mod preflight;
mod receive;
mod recorder;
mod run_files;
mod run_gate;
mod run_line;
mod schema;
mod selection;
mod senders;
mod sessions;
mod settlement;
mod sizes;
mod slices;
mod sockets;
mod spill;
mod spill_counts;
mod standby;
mod store_feed;
mod store_link;
mod store_nodes;
mod store_target;
mod tape;
mod target;
mod target_config;
mod target_ledger;
mod target_queue;
mod throttle;
mod train_room;
mod trend_agent;
mod unread;
mod wiring;
mod write_config;

pub use accept::{ADMITTED, Accept, AdmittedSource};
pub use catchment_net::{LinkAccess, SharedTokens, TlsRule, Tokens};
pub use link_access::Listener;

pub use assembly::{Assembly, AssemblyParts, TargetStore, TrendParts};
pub use budget::SystemMemory;
pub use config::{
    BuildConfig, ConfigError, EncodeConfig, FrameConfig, ReceiveConfig, RecorderConfig,
    SourceConfig,
};
pub use counts::Counts;
pub use forward_wait::ForwardWait;
pub use frame_feed::FrameFeed;
pub use front_end_moves::{Move, Way};
pub use front_ends::{
    Change, FrontEnd, FrontEnds, HeldAtRunEnd, Report, Scalar, SettingChanged, Stage,
};
pub use links::{ChannelConfig, LinkConfig, slice_ns_default};
pub use live::{
    Alignment, Fill, MalformedPacket, Observer, RunSummary, Snapshot, State, TargetSnapshot,
};
pub use live_folder::FolderSnapshot;
pub use live_link::{ABANDON_REASONS, LinkCounts};
pub use live_progress::{Delay, LinkProgress};
pub use live_warnings::PastWarning;
pub use match_rule::{MatchRule, SourceClock, TimeOffset, TimeRule};
pub use node_left::NodeQuestion;
pub use preflight::{Arrivals, Arrived, Preflight};
pub use recorder::{Recorder, RecorderError};
pub use senders::Stranger;
pub use sizes::Sizes;
pub use spill::SpillConfig;
pub use spill::forward::{Forwarding, SpillState};
pub use spill::forwarded::{EnterForwarded, Forwarded};
pub use spill_counts::{HandedOver, SpillReport};
pub use standby::{Standby, Standing};
pub use store_nodes::NodeShare;
pub use target_config::{NodeConfig, Place, TargetConfig};
pub use trend_agent::TrendStore;
pub use wiring::{Bind, Endpoint};
pub use write_config::{
    LINK_FRAME_TIME_NS, LINK_SYNC_BYTES, LINK_SYNC_NS, WriteConfig, link_buffers, link_frame_bytes,
};
