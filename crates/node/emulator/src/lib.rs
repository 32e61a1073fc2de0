//! Emulated detectors whose every byte can be proved.
