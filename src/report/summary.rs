//! `summary.md`: a run for people who read it in a browser. The outcome first, then why.
//!
//! Text from outside is escaped, so that it can neither break the layout nor add to it.

use super::result::{Check, Denial, HookRuns, ResultRecord};
use super::text::{cut_middle, many_lines, one_line};
use crate::clock;
use crate::rollout::{CheckPhase, Masker};
use std::fmt::Write as _;
use std::time::Duration;

const MAX_FILES: usize = 200;
const MAX_DENIALS: usize = 50;
const MAX_MESSAGE: usize = 16 << 10;
const MAX_TAIL: usize = 4 << 10;
const MAX_CELL: usize = 300;

/// The whole summary.
pub fn render(record: &ResultRecord, final_message: Option<&str>, masker: &Masker) -> String {
    let page = Page { masker };
    let mut out = String::with_capacity(4096);
    page.head(&mut out, record);
    page.checks(&mut out, &record.checks);
    page.files(&mut out, record);
    page.denials(&mut out, &record.denials);
    page.hooks(&mut out, &record.hooks);
    page.message(&mut out, final_message);
    page.figures(&mut out, record);
    out
}

struct Page<'a> {
    masker: &'a Masker,
}

/// Writing into a String cannot fail; this keeps the call sites short.
macro_rules! add {
    ($out:expr, $($arg:tt)*) => { let _ = writeln!($out, $($arg)*); };
}

impl Page<'_> {
    fn text(&self, text: &str, max: usize) -> String {
        escape(&one_line(&self.masker.mask(text), max))
    }

    fn head(&self, out: &mut String, record: &ResultRecord) {
        let ending = &record.ending;
        let status = ending.exit_status().map_or("not ended".to_owned(), |s| format!("exit {s}"));
        add!(out, "## turnkey: {} ({status})\n", escape(ending.state()));
        if !ending.message().is_empty() {
            add!(out, "{}\n", self.text(ending.message(), 2000));
        }
        if !ending.reason().is_empty() {
            add!(out, "Reason: {}\n", self.text(ending.reason(), 100));
        }
        if !ending.hint().is_empty() {
            add!(out, "What now: {}\n", self.text(ending.hint(), 2000));
        }
        for warning in &record.warnings {
            add!(out, "Warning: {}\n", self.text(warning, 1000));
        }
    }

    fn checks(&self, out: &mut String, checks: &[Check]) {
        if checks.is_empty() {
            return;
        }
        add!(out, "### Checks\n");
        add!(out, "| check | where | attempt | result | exit | time |");
        add!(out, "| --- | --- | --- | --- | --- | --- |");
        for check in checks {
            let place = match check.phase {
                CheckPhase::Baseline => "before the Turn",
                CheckPhase::Workspace => "workspace",
                CheckPhase::CleanCheckout => "clean checkout",
            };
            let result = match (check.passed, check.timed_out) {
                (true, _) => "passed",
                (false, true) => "**timed out**",
                (false, false) => "**failed**",
            };
            let exit = check.exit_code.map_or("none".to_owned(), |code| code.to_string());
            let took = clock::human(Duration::from_millis(check.duration_ms));
            let name = self.text(&check.name, MAX_CELL);
            let attempt = check.attempt;
            add!(out, "| {name} | {place} | {attempt} | {result} | {exit} | {took} |");
        }
        out.push('\n');
        let last = checks.iter().map(|check| check.attempt).max();
        for check in checks {
            let shown = !check.passed && check.phase != CheckPhase::Baseline;
            if shown && Some(check.attempt) == last && !check.output_tail.is_empty() {
                add!(out, "<details><summary>Output of {}</summary>\n", self.html(&check.name));
                self.block(out, &check.output_tail, MAX_TAIL);
                add!(out, "</details>\n");
            }
        }
    }

    fn files(&self, out: &mut String, record: &ResultRecord) {
        add!(out, "### Changed files\n");
        if record.changed_files.is_empty() {
            add!(out, "None.\n");
            return;
        }
        add!(out, "| file | change | + | - | by |");
        add!(out, "| --- | --- | --- | --- | --- |");
        for file in record.changed_files.iter().take(MAX_FILES) {
            let mut path = self.text(&file.path, MAX_CELL);
            if let Some(from) = &file.renamed_from {
                path = format!("{path} (was {})", self.text(from, MAX_CELL));
            }
            let status = file.status.as_str().replace('_', " ");
            let by = self.text(&file.by.join(", "), 120);
            add!(out, "| {path} | {status} | {} | {} | {by} |", file.added, file.removed);
        }
        more(out, record.changed_files.len(), MAX_FILES, "files");
        for note in &record.not_in_diff {
            add!(out, "Not in the diff: {}\n", self.text(note, MAX_CELL));
        }
    }

    fn denials(&self, out: &mut String, denials: &[Denial]) {
        if denials.is_empty() {
            return;
        }
        add!(out, "### Denied\n");
        add!(out, "| step | action | rule | reason |");
        add!(out, "| --- | --- | --- | --- |");
        for denial in denials.iter().take(MAX_DENIALS) {
            let action = self.text(&denial.action, MAX_CELL);
            let rule = self.text(&denial.rule.to_string(), MAX_CELL);
            let reason = self.text(&denial.reason, MAX_CELL);
            add!(out, "| {} | {action} | {rule} | {reason} |", denial.step);
        }
        more(out, denials.len(), MAX_DENIALS, "denials");
    }

    fn hooks(&self, out: &mut String, hooks: &[HookRuns]) {
        if hooks.is_empty() {
            return;
        }
        add!(out, "### Hooks\n");
        add!(out, "| hook | command | runs | denials | errors | time |");
        add!(out, "| --- | --- | --- | --- | --- | --- |");
        for hook in hooks {
            let name = self.text(&hook.hook, MAX_CELL);
            let command = self.text(&hook.command, MAX_CELL);
            let (times, denials, errors) = (hook.times, hook.denials, hook.errors);
            let took = clock::human(Duration::from_millis(hook.duration_ms));
            add!(out, "| {name} | {command} | {times} | {denials} | {errors} | {took} |");
        }
        out.push('\n');
    }

    fn message(&self, out: &mut String, message: Option<&str>) {
        let Some(message) = message.filter(|message| !message.trim().is_empty()) else {
            return;
        };
        add!(out, "### Final message\n");
        self.block(out, message, MAX_MESSAGE);
    }

    fn figures(&self, out: &mut String, record: &ResultRecord) {
        let usage = &record.usage;
        let calls = &record.tool_calls;
        add!(out, "### Figures\n");
        add!(out, "| | |");
        add!(out, "| --- | --- |");
        if let Some(model) = &record.model {
            add!(out, "| model | {} |", self.text(model, 200));
        }
        add!(out, "| time | {} |", clock::human(Duration::from_millis(record.duration_ms)));
        add!(out, "| steps | {} |", record.steps);
        let (total, failed, denied) = (calls.total, calls.failed, calls.denied);
        add!(out, "| tool calls | {total} ({failed} failed, {denied} denied) |");
        add!(
            out,
            "| tokens | {} in ({} cached), {} out ({} reasoning) |",
            usage.input_tokens,
            usage.cached_input_tokens,
            usage.output_tokens,
            usage.reasoning_output_tokens
        );
        if let Some(cost) = &record.cost {
            add!(out, "| cost | {:.4} |", cost.amount);
        }
        add!(out, "| run | {} |", self.text(&record.run, 100));
        if !record.artifacts.directory.is_empty() {
            add!(out, "| artifacts | {} |", self.text(&record.artifacts.directory, 1000));
        }
    }

    /// Text as it stands, in a fence longer than any run of backticks in it.
    fn block(&self, out: &mut String, text: &str, max: usize) {
        let masked = self.masker.mask(text);
        let cut = cut_middle(&masked, max);
        let text = many_lines(&cut);
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        add!(out, "{fence}text\n{}\n{fence}\n", text.trim_end_matches('\n'));
    }

    /// One line inside a tag: neither markup nor Markdown.
    fn html(&self, text: &str) -> String {
        let line = one_line(&self.masker.mask(text), MAX_CELL);
        let mut html = String::with_capacity(line.len());
        for character in line.chars() {
            if character.is_ascii_punctuation() && !matches!(character, '-' | '.' | ',' | '/') {
                let _ = write!(html, "&#{};", u32::from(character));
                if character == '@' {
                    html.push_str("<!-- -->");
                }
            } else {
                html.push(character);
            }
        }
        html
    }
}

fn more(out: &mut String, count: usize, listed: usize, what: &str) {
    out.push('\n');
    if count > listed {
        add!(out, "And {} more {what}.\n", count - listed);
    }
}

/// Makes one line of text mean itself in Markdown, in a table cell too.
fn escape(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len() + 8);
    let mut in_number = true;
    for (at, character) in line.chars().enumerate() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // No mention of a person, no link to a mail address; an entity would not prevent that.
            '@' => escaped.push_str("@<!-- -->"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '+' | '!' | '|'
            | '~' | '$' | '^' => {
                escaped.push('\\');
                escaped.push(character);
            }
            // A list item or a line under a heading, if it stands first.
            '-' | '=' | ':' if at == 0 => {
                escaped.push('\\');
                escaped.push(character);
            }
            '.' if in_number => escaped.push_str("\\."),
            // No link made of plain text.
            '/' if escaped.ends_with(':') => escaped.push_str("\\/"),
            _ => escaped.push(character),
        }
        in_number &= character.is_ascii_digit();
    }
    escaped.replace("www.", "www\\.").replace("WWW.", "WWW\\.")
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn text_means_itself_in_markdown() {
        let cases = [
            ("plain text, src/a.rs:3", "plain text, src/a.rs:3"),
            ("| a | <b> & `c`", "\\| a \\| &lt;b&gt; &amp; \\`c\\`"),
            ("# head *x* _y_ [l](u)", "\\# head \\*x\\* \\_y\\_ \\[l\\]\\(u\\)"),
            ("- item", "\\- item"),
            ("1. item", "1\\. item"),
            ("v1.2", "v1.2"),
            ("see https://a.b and www.c.d @me", "see https:\\//a.b and www\\.c.d @<!-- -->me"),
        ];
        for (text, want) in cases {
            assert_eq!(escape(text), want, "{text}");
        }
    }
}
