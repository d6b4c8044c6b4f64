//! Identifiers. New ones are UUIDv7, so that they sort by the time they were made.

use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// A new id; later ones sort after earlier ones.
            pub fn new() -> Self {
                Self(Uuid::now_v7().to_string())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

id!(
    /// One invocation of the binary; names the run folder.
    RunId
);
id!(
    /// The long-lived state that a later run can resume.
    SessionId
);
id!(
    /// One complete unit of responsibility for one user request.
    TurnId
);
id!(
    /// One Op put into a Session; every Event carries the id of the Op it answers.
    SubmissionId
);
id!(
    /// One tool call, as the model named it. Never made by us except for repairs.
    CallId
);

/// A stable id for something that has none, derived from what it stands for (UUIDv5), so that the
/// same repair of the same history is the same bytes every time.
pub fn synthetic_id(namespace: &str, name: &str) -> String {
    let space = Uuid::new_v5(&Uuid::NAMESPACE_OID, namespace.as_bytes());
    Uuid::new_v5(&space, name.as_bytes()).to_string()
}
