//! The requests and responses of the HTTP API, as types: the OpenAPI document is made from them.
//!
//! Times are RFC 3339 in UTC, durations are seconds, counts are numbers.

mod data;
mod requests;
mod state;
mod store;
mod stored;

pub use data::{
    Alarm, AlarmList, Audit, AuditLine, ConfigurationList, ConfigurationVersion, FileFrames,
    Health, History, LogLine, LogList, Remark, Run, RunLedger, RunList, RunLocation, Sample,
    SampleAnswer, SampleArray, SampleChannel, SampleHistogram, Series, TargetSource,
};
pub use requests::{
    Acknowledge, AcknowledgeAll, CommandRequest, CommandResult, LogIn, NewConfiguration, NewToken,
    RunChange, Session, TokenInfo, TokenList, TokenMade,
};
pub use state::{
    AlarmCounts, BeyondBin, CommandOffer, Device, DeviceList, Disk, Flow, LinkState, Loss,
    NodeInfo, OffsetsState, Queue, Rates, RunNow, SourceCounts, SourceList, SourceState, Spill,
    State, Target, TargetFolder, TargetNode, UnderWay, Verdict,
};
pub use store::{Store, StoreFolder, StoreFrames, StoreStream, StoreSyncs};
pub use stored::{
    StoredColumn, StoredColumns, StoredFile, StoredFiles, StoredFrame, StoredFrames, StoredList,
    StoredRun,
};
