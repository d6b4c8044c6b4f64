//! Signals: the first one ends the run in order, the second one at once.

use crate::protocol::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Every signal that arrives, in order. Must be called on the runtime.
pub fn watch() -> std::io::Result<mpsc::Receiver<Signal>> {
    let (sender, receiver) = mpsc::channel(4);
    let kinds = [
        (SignalKind::hangup(), Signal::Hup),
        (SignalKind::interrupt(), Signal::Int),
        (SignalKind::terminate(), Signal::Term),
    ];
    for (kind, name) in kinds {
        let mut stream = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if sender.send(name).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(receiver)
}
