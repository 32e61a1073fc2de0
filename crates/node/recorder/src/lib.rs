//! The recorder: receive, build, cut frames and write them, with every fragment in the ledger.
