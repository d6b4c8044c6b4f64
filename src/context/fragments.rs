//! The renderers of fragments: each turns facts into one marked message.

use crate::protocol::{Fragment, Item, Role};

/// Said first, the same in every run.
pub const BASE_INSTRUCTIONS: &str = include_str!("base.md");

/// A text cut to its cap, on a character boundary, with the cut told.
pub struct Cap;

impl Cap {
    /// The cap of a fragment from the one table.
    pub fn of(name: &str) -> usize {
        super::CAPS.iter().find(|(known, _)| *known == name).map_or(16 * 1024, |(_, cap)| *cap)
    }

    /// Keeps the head.
    pub fn head(text: &str, cap: usize) -> String {
        if text.len() <= cap {
            return text.to_owned();
        }
        let end = text.floor_char_boundary(cap);
        format!("{}\n[… {} bytes cut …]", &text[..end], text.len() - end)
    }

    /// Keeps head and tail in equal parts. A text that was cut before stays as it is: the notice of
    /// the cut may stand over the cap, so that recorded texts are the same when they are replayed.
    pub fn middle(text: &str, cap: usize) -> String {
        const NOTICE: usize = 48;
        if text.len() <= cap + NOTICE {
            return text.to_owned();
        }
        let head = text.floor_char_boundary(cap / 2);
        let tail = text.ceil_char_boundary(text.len() - cap / 2);
        format!("{}\n[… {} bytes cut …]\n{}", &text[..head], tail - head, &text[tail..])
    }
}

/// Text between markers that say what it is.
fn marked(marker: &str, text: &str) -> String {
    format!("<{marker}>\n{}\n</{marker}>", text.trim_end())
}

/// The project's own rules (AGENTS.md), `source` being the path it was read from.
pub fn project_rules(source: &str, text: &str) -> Item {
    let body = format!("From {source}:\n\n{}", Cap::head(text, Cap::of("project_rules")));
    Item::ours(Role::User, Fragment::ProjectRules, marked("project_rules", &body))
}

/// The policy in words.
pub fn permissions(words: &str) -> Item {
    let body = Cap::head(words, Cap::of("permissions"));
    Item::ours(Role::Developer, Fragment::Permissions, marked("permissions", &body))
}

/// What is true of this machine and run, and differs between runs.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentFacts {
    pub workspace: String,
    pub date: String,
    pub platform: String,
    pub shell: String,
    pub steps: u32,
    pub time: String,
}

pub fn environment(facts: &EnvironmentFacts) -> Item {
    let body = format!(
        "workspace: {}\ndate: {}\nplatform: {}\nshell: {}\nlimits of this run: {} steps, {}",
        facts.workspace, facts.date, facts.platform, facts.shell, facts.steps, facts.time
    );
    Item::ours(Role::Developer, Fragment::Environment, marked("environment", &body))
}

/// The task itself, as the operator gave it.
pub fn task(text: &str) -> Item {
    Item::ours(Role::User, Fragment::Task, text)
}

/// Data that came from outside (titles, logs), already delimited and cleaned.
pub fn untrusted(block: &str) -> Item {
    Item::ours(Role::User, Fragment::Task, block)
}

/// What failed after the model said it was done.
pub fn check_feedback(attempt: u32, attempts: u32, failures: &[String]) -> Item {
    let mut body = format!(
        "You ended the Turn, but the runner's own verification failed (feedback {attempt} of \
         {attempts}). Fix what is named here and end again with a final message.\n"
    );
    let share = Cap::of("check_feedback") / failures.len().max(1);
    for failure in failures {
        body.push_str("\n- ");
        body.push_str(&Cap::middle(failure, share));
        body.push('\n');
    }
    Item::ours(Role::User, Fragment::CheckFeedback, marked("verification", &body))
}

/// Commands that still run although the model ended the Turn, each with what it printed last.
pub fn live_processes(commands: &[String]) -> Item {
    let mut body = String::from(
        "You ended the Turn while commands that you started still run. Look at them with write_stdin \
         if you need what they do; when you end with a final message again, they are ended \
         (SIGTERM, then SIGKILL), and only then the changes of the Turn are taken down. You are told \
         this once.\n",
    );
    let share = Cap::of("processes") / commands.len().max(1);
    for command in commands {
        body.push_str("\n- ");
        body.push_str(&Cap::middle(command, share));
        body.push('\n');
    }
    Item::ours(Role::User, Fragment::Processes, marked("live_commands", &body))
}

/// What a hook of the operator's has to say; `name` is the hook.
pub fn hook(name: &str, text: &str) -> Item {
    let body = format!("From the operator's hook {name}:\n\n{}", Cap::head(text, Cap::of("hook")));
    Item::ours(Role::Developer, Fragment::Hook, marked("hook", &body))
}

/// How much of a limit is left.
pub fn budget(text: &str) -> Item {
    Item::ours(Role::Developer, Fragment::Budget, marked("budget", text))
}

/// What a model that goes on must know of the time in between.
#[derive(Debug, Clone, Default)]
pub struct Interruption {
    /// Why the Turn before was cut short; absent where it ended by itself.
    pub cut_short: Option<String>,
    /// Its final message stands, and is verified before anything else.
    pub answered: bool,
    /// What did not hold after it.
    pub unmet: Vec<String>,
    /// Calls whose effect nobody knows.
    pub unknown: Vec<String>,
    /// Calls of the last response that certainly did not begin.
    pub not_started: Vec<String>,
    /// What became of the files since, and of what.
    pub files: Vec<String>,
    /// Settings that are different now.
    pub settings: Vec<String>,
}

/// Marks in the history where a Session was taken up again.
pub fn interruption(about: &Interruption) -> Item {
    let mut body = match &about.cut_short {
        Some(why) => format!("The Turn before this was cut short ({why}). "),
        None => "The Turn before this is over. ".to_owned(),
    };
    body.push_str("This is a new Turn of the same session; nothing was run again.\n");
    if about.answered {
        body.push_str("Its final message stands: the runner verifies it now.\n");
    }
    let lists = [
        ("What did not hold at its end:", &about.unmet),
        (
            "These calls began and did not report back; whether they took effect is unknown, so look \
             before you repeat one:",
            &about.unknown,
        ),
        ("These calls did not begin:", &about.not_started),
        ("Files:", &about.files),
        ("Settings that changed:", &about.settings),
    ];
    let share = Cap::of("interruption") / lists.len();
    for (title, lines) in lists.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        let lines: String = lines.iter().map(|line| format!("\n- {line}")).collect();
        body.push_str(&format!("\n{title}{}\n", Cap::middle(&lines, share)));
    }
    Item::ours(Role::Developer, Fragment::Interruption, marked("interruption", &body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_told_and_never_break_a_character() {
        let text = "阴影".repeat(100);
        for cap in 0..40 {
            for cut in [Cap::head(&text, cap), Cap::middle(&text, cap)] {
                assert!(cut.contains("bytes cut"), "{cap}");
            }
        }
        assert_eq!(Cap::middle("short", 100), "short");
    }

    #[test]
    fn every_fragment_is_marked() {
        let Item::Message { text, fragment, .. } = project_rules("AGENTS.md", "be kind") else {
            panic!("not a message");
        };
        assert_eq!(fragment, Some(Fragment::ProjectRules));
        assert!(text.starts_with("<project_rules>\n") && text.ends_with("\n</project_rules>"));
    }
}
