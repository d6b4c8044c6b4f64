//! Reading a script the way bash reads it, or not at all.
//!
//! Three steps, each stricter than bash: `lex` splits the text into tokens by bash's own rules and
//! refuses whatever could be read in two ways; the grammar of brush-parser makes a syntax tree of
//! the tokens; `walk` visits it by an allowlist of node kinds and hands every simple command to the
//! judge, in the state that it would run in. The grammar sees placeholders for words, so no text of
//! the script can drive it into a corner.

mod builtins;
mod changes;
mod lex;
mod outline;
mod parse;
mod quote;
mod simple;
mod state;
mod token;
mod walk;

pub use builtins::{Builtin, builtin, check_grammar};
pub use lex::lex;
pub use outline::outline;
pub use token::{Lexed, Piece, Refusal, Word};
pub use walk::{Access, Judge, Simple, walk};
