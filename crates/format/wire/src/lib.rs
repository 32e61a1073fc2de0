//! Wire protocols, one file each: pure functions from bytes to fragments and back.
