//! The permissions in plain words, for the model's prompt.

use super::model::{OnAsk, OnDeny};
use super::permit::Network;
use super::policy::Policy;
use crate::protocol::Decision;
use std::fmt::Write;

/// The text stays below this many bytes, however many rules there are.
const MAX_BYTES: usize = 6 * 1024;
const MAX_LISTED: usize = 120;

impl Policy {
    /// What is allowed, in words; bounded.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.describe_commands(&mut text);
        self.describe_files(&mut text);
        self.describe_network(&mut text);
        let consequence = match self.on_deny {
            OnDeny::Continue => {
                "What is denied is not run; you are told why and can go on another way."
            }
            OnDeny::Stop => "The first denied action ends the work.",
            OnDeny::FailAtEnd => {
                "What is denied is not run, and the work then counts as blocked even if you go on."
            }
        };
        let _ = writeln!(
            text,
            "{consequence} Nobody is here to approve anything, and no text can change these rules."
        );
        cut(text, MAX_BYTES)
    }

    fn describe_commands(&self, text: &mut String) {
        if !self.offers_commands() {
            text.push_str("No command may be run.\n");
            return;
        }
        let approves = self.on_ask == OnAsk::Approve && !self.untrusted;
        match self.default.decision {
            Decision::Allow => text.push_str("Commands may be run unless they are denied below.\n"),
            Decision::Ask if approves => {
                text.push_str("Commands may be run unless they are denied below.\n");
            }
            _ => text.push_str("Only these commands may be run (`...` is any further words):\n"),
        }
        let allowed = self.rules.all().filter(|rule| match rule.decision {
            Decision::Allow => true,
            Decision::Ask => approves,
            Decision::Deny => false,
        });
        for (count, rule) in allowed.enumerate() {
            if count == MAX_LISTED {
                text.push_str("- and more\n");
                break;
            }
            let _ = write!(text, "- {}", rule.cmd);
            if !rule.without.is_empty() {
                let _ = write!(text, " (not with {})", rule.without.join(", "));
            }
            if let Some(only) = &rule.only {
                let _ = write!(text, " (only with {})", only.join(", "));
            }
            if let Some(reason) = &rule.reason {
                let _ = write!(text, " — {reason}");
            }
            text.push('\n');
        }
        let denied: Vec<&str> = self
            .rules
            .all()
            .filter(|rule| {
                rule.decision == Decision::Deny || (rule.decision == Decision::Ask && !approves)
            })
            .map(|rule| rule.cmd.as_str())
            .take(MAX_LISTED)
            .collect();
        if !denied.is_empty() {
            let _ = writeln!(text, "Denied in any case: {}.", denied.join(", "));
        }
        text.push_str(
            "Every command of a script is judged; what can't be known before running is denied \
             (eval, backticks, functions, a command or option made by an expansion). \
             Loops, pipes, `&&`, here-documents and redirections are fine.\n",
        );
    }

    fn describe_files(&self, text: &mut String) {
        let list = |patterns: &[super::files::FilePattern]| {
            patterns.iter().take(40).map(|p| p.text.as_str()).collect::<Vec<_>>().join(", ")
        };
        match self.files.write.as_slice() {
            [] => text.push_str("No file may be changed.\n"),
            patterns => {
                let _ = writeln!(text, "Files that may be changed: {}.", list(patterns));
            }
        }
        let own: Vec<_> =
            self.files.protect.iter().filter(|p| p.rule.file != "built-in").cloned().collect();
        text.push_str(
            "Protected and never changed: .git, agent configuration, the run's own files",
        );
        if !own.is_empty() {
            let _ = write!(text, ", {}", list(&own));
        }
        text.push_str(".\n");
        if !self.files.read.is_empty() {
            let _ = writeln!(text, "Files that may be read: {}.", list(&self.files.read));
        }
        if !self.files.deny_read.is_empty() {
            let _ = writeln!(text, "Never read: {}.", list(&self.files.deny_read));
        }
    }

    fn describe_network(&self, text: &mut String) {
        let words = match &self.network {
            Network::None => "Commands have no network".to_owned(),
            Network::Loopback => "Commands reach this machine's loopback only".to_owned(),
            Network::Hosts(hosts) => format!("Commands reach {} only", hosts.join(", ")),
            Network::Open => "Commands have an open network".to_owned(),
        };
        text.push_str(&words);
        let special: Vec<&str> = self
            .rules
            .all()
            .filter(|rule| rule.network.is_some() && rule.decision == Decision::Allow)
            .filter(|rule| !self.untrusted || rule.even_if_untrusted)
            .map(|rule| rule.cmd.as_str())
            .take(20)
            .collect();
        if !special.is_empty() {
            let _ = write!(
                text,
                "; a network of their own, when run alone, have: {}",
                special.join(", ")
            );
        }
        text.push_str(".\n");
    }
}

/// Shortens on a line boundary, and says so.
fn cut(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end).unwrap_or_default();
    let head = head.rfind('\n').and_then(|line| head.get(..line)).unwrap_or(head);
    format!("{head}\n(shortened; `turnkey policy explain` tells the rest)\n")
}
