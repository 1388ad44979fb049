//! See the module list of `protocol`.
