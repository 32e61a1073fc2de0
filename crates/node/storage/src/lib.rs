//! Recorded runs on disk: open, read, verify, repair and audit them.
//!
//! A [`Run`] is a folder of frame files, one of them, or several folders of one run, read as one
//! sequence of events. It reads any state of the files: closed ones by their TOC, others by walking
//! from frame to frame, so a run whose recorder was killed reads as well as one that ended.
//! [`verify`] checks every checksum, [`audit`] recomputes the ledger from the columns, [`repair`]
//! closes the files of a killed recorder.
//!
//! Everything in a file is checked before it is used; errors are [`StorageError`]s that name file,
//! frame, column and source.

mod ahead;
mod apart;
mod audit;
mod base;
mod cache;
mod channels;
mod checked;
mod column;
mod copies;
mod error;
mod event_reader;
mod events_buffer;
mod fetch;
mod folders;
mod follow;
mod frame_copy;
mod frame_index;
mod left_out;
mod leftovers;
mod memory;
mod merge;
mod merge_trends;
mod open;
mod parallel;
mod reduce;
mod reframe;
mod regroup;
mod repair;
mod restore;
mod resume;
mod run;
mod run_files;
mod superseded;
mod trend;
mod trend_files;
mod trend_mend;
mod trend_writer;
mod verify;
mod waiting;
mod whole;
mod write;

pub use audit::{
    AuditReport, Closing, Difference, FolderAudit, Open, Verdict, audit, ledger_so_far, recompute,
};
pub use catchment_frame::{
    ChannelInfo, Codings, ColumnCoding, Pattern, PatternError, SampleRun, Span,
};
pub use channels::{Channel, Piece, Segment, Select};
pub use column::{ColumnStorage, FragmentColumn, FragmentRows, FrameEvents, Validity};
pub use copies::DamagedCopy;
pub use error::StorageError;
pub use event_reader::{FragmentPart, SelectEvents};
pub use folders::MissingFrames;
pub use follow::{Follow, Followed};
pub use leftovers::{Leftovers, remove_leftovers};
pub use memory::{InUse, give_back};
pub use merge::{MergeReport, merge};
pub use open::{EXTENSION, FileProblem};
pub use reduce::{ReduceOptions, ReduceReport, Reduction, Selection, reduce};
pub use reframe::{Done, Rebuilt, ReframeOptions, reframe};
pub use repair::{FileRepair, Outcome, RepairReport, repair};
pub use resume::{
    CaughtUp, Copies, Elsewhere, Interrupted, PartLeft, Resumable, ResumedPlace, RunPlace,
};
pub use run::{EventCounts, FileInfo, Frame, Run, RunOptions};
pub use run_files::Refreshed;
pub use trend::{TREND_SUFFIXES, Trend, TrendKind};
pub use trend_files::{NewTrends, ROWS_WAITING, TrendFiles, TrendFilesReport, TrendLengths};
pub use trend_mend::{TrendMend, mend_trends};
pub use trend_writer::{TrendOptions, TrendReport, TrendWriter, make_trends, replace_trends};
pub use verify::{Problem, Progress, VerifyReport, verify};
pub use whole::{Extent, list_locations, list_removed, run_locations};
pub use write::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, EventFrame, EventSource, Growing, Make,
    MakeBytes, MakeSamples, NewRun, RunWriter, StoredColumn, WriteOptions, WriteReport,
};
