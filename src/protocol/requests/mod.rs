//! One file an area; each request is a struct and one `request!` line.
