//! Files: aligned direct writes with several in flight, positioned reads, and a disk that fails on purpose.
