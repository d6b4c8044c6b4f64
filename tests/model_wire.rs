//! The model room against a real HTTP server: field cases of streams, retries, rate limits and
//! connections, by their numbers.

#[path = "it/support/model_server/mod.rs"]
mod model_server;
#[path = "model_wire/support.rs"]
mod support;

#[path = "model_wire/connections.rs"]
mod connections;
#[path = "model_wire/failures.rs"]
mod failures;
#[path = "model_wire/kept.rs"]
mod kept;
#[path = "model_wire/live.rs"]
mod live;
#[path = "model_wire/official.rs"]
mod official;
#[path = "model_wire/requests.rs"]
mod requests;
#[path = "model_wire/streams.rs"]
mod streams;
