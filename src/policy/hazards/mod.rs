//! What programs can do besides what their name says: options that run, write or reconfigure.
//!
//! One table per program, as data; a rule that wants a hazard must spell it out.

pub mod names;
