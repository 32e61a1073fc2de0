//! Recorded runs on disk: open, read, verify, repair and audit them.
