//! The command line: the one binary, catchment.
