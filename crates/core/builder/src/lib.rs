//! Event building: pure decisions on descriptors, in virtual time.
