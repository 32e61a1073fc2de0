//! The frame file: encoding and decoding without I/O of its own.
