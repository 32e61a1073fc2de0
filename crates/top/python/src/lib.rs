//! The Python package catchment: its native module.
