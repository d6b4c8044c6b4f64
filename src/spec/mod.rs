//! The task spec: what a person wrote, read whole, checked whole, with every fault placed.

pub mod fault;
pub mod yaml;
