//! The policy: a pure decision on a concrete action. No I/O; what must be looked up is handed in.

mod permit;

pub use permit::{Attributes, Command, ExecPermit, Network, Origin, ReadPermit, WritePermit};
