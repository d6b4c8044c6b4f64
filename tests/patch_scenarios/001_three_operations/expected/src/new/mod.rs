//! New.

pub fn two() {}
