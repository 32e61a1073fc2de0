//! The Python package catchment: its native module.

use pyo3::prelude::*;

/// What `catchment._native` holds; the package's Python files give it its public names.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    /// Runs the command line with `args`, the program's name first, and returns its exit code.
    #[pyfunction]
    fn run_command(args: Vec<String>) -> PyResult<i32> {
        let _ = args;
        Err(pyo3::exceptions::PyNotImplementedError::new_err("the command line is not wired yet"))
    }
}
