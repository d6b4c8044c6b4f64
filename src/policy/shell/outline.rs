//! The shape of a script in a few lines, for `policy explain`.

use super::parse::{parse, word_at};
use super::token::{Lexed, Refusal, short};
use brush_parser::ast;

/// One line per construct and command, indented by depth.
pub fn outline(lexed: &Lexed) -> Result<Vec<String>, Refusal> {
    let program = parse(lexed)?;
    let mut outline = Outline { lexed, lines: Vec::new() };
    for list in &program.complete_commands {
        outline.list(list, 0);
    }
    Ok(outline.lines)
}

struct Outline<'a> {
    lexed: &'a Lexed,
    lines: Vec<String>,
}

impl Outline<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        if self.lines.len() < 200 {
            self.lines.push(format!("{}{}", "  ".repeat(depth), short(text)));
        }
    }

    fn list(&mut self, list: &ast::CompoundList, depth: usize) {
        for ast::CompoundListItem(and_or, separator) in &list.0 {
            self.pipeline(&and_or.first, "", depth);
            for more in &and_or.additional {
                match more {
                    ast::AndOr::And(pipeline) => self.pipeline(pipeline, "&& ", depth),
                    ast::AndOr::Or(pipeline) => self.pipeline(pipeline, "|| ", depth),
                }
            }
            if matches!(separator, ast::SeparatorOperator::Async) {
                self.line(depth, "& (in the background)");
            }
        }
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline, lead: &str, depth: usize) {
        let lead = if pipeline.bang { format!("{lead}! ") } else { lead.to_owned() };
        for (index, command) in pipeline.seq.iter().enumerate() {
            let lead = if index == 0 { lead.clone() } else { "| ".to_owned() };
            self.command(command, &lead, depth);
        }
    }

    fn command(&mut self, command: &ast::Command, lead: &str, depth: usize) {
        match command {
            ast::Command::Simple(simple) => {
                let words = self.simple(simple);
                self.line(depth, &format!("{lead}{words}"));
            }
            ast::Command::Compound(compound, redirects) => {
                let to = redirects.as_ref().map_or("", |_| " (redirected)");
                self.compound(compound, lead, to, depth);
            }
            ast::Command::Function(_) => self.line(depth, &format!("{lead}function")),
            ast::Command::ExtendedTest(..) => self.line(depth, &format!("{lead}[[ … ]]")),
        }
    }

    fn simple(&self, simple: &ast::SimpleCommand) -> String {
        let mut words: Vec<String> = Vec::new();
        let raw = |word: &ast::Word| {
            word_at(self.lexed, word.loc.as_ref()).map(|word| word.raw.clone()).unwrap_or_default()
        };
        let items = |list: &[ast::CommandPrefixOrSuffixItem], words: &mut Vec<String>| {
            for item in list {
                match item {
                    ast::CommandPrefixOrSuffixItem::Word(word)
                    | ast::CommandPrefixOrSuffixItem::AssignmentWord(_, word) => {
                        words.push(raw(word));
                    }
                    ast::CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                        words.push(self.redirect(redirect));
                    }
                    ast::CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {
                        words.push("<(…)".into());
                    }
                }
            }
        };
        if let Some(prefix) = &simple.prefix {
            items(&prefix.0, &mut words);
        }
        if let Some(name) = &simple.word_or_name {
            words.push(raw(name));
        }
        if let Some(suffix) = &simple.suffix {
            items(&suffix.0, &mut words);
        }
        words.join(" ")
    }

    fn redirect(&self, redirect: &ast::IoRedirect) -> String {
        use ast::{IoFileRedirectKind as Kind, IoFileRedirectTarget as Target, IoRedirect};
        let raw = |word: &ast::Word| {
            word_at(self.lexed, word.loc.as_ref()).map(|word| word.raw.clone()).unwrap_or_default()
        };
        let number = |fd: &Option<i32>| fd.map(|fd| fd.to_string()).unwrap_or_default();
        match redirect {
            IoRedirect::File(fd, kind, target) => {
                let sign = match kind {
                    Kind::Read => "<",
                    Kind::Write => ">",
                    Kind::Append => ">>",
                    Kind::ReadAndWrite => "<>",
                    Kind::Clobber => ">|",
                    Kind::DuplicateInput => "<&",
                    Kind::DuplicateOutput => ">&",
                };
                let to = match target {
                    Target::Filename(word) | Target::Duplicate(word) => raw(word),
                    Target::Fd(fd) => fd.to_string(),
                    Target::ProcessSubstitution(..) => "(…)".into(),
                };
                format!("{}{sign}{to}", number(fd))
            }
            IoRedirect::HereDocument(fd, _) => format!("{}<<(document)", number(fd)),
            IoRedirect::HereString(fd, word) => format!("{}<<<{}", number(fd), raw(word)),
            IoRedirect::OutputAndError(word, append) => {
                format!("{}{}", if *append { "&>>" } else { "&>" }, raw(word))
            }
        }
    }

    fn compound(&mut self, compound: &ast::CompoundCommand, lead: &str, to: &str, depth: usize) {
        use ast::CompoundCommand as Compound;
        match compound {
            Compound::BraceGroup(group) => {
                self.line(depth, &format!("{lead}group{to}"));
                self.list(&group.list, depth + 1);
            }
            Compound::Subshell(subshell) => {
                self.line(depth, &format!("{lead}subshell{to}"));
                self.list(&subshell.list, depth + 1);
            }
            Compound::IfClause(clause) => {
                self.line(depth, &format!("{lead}if{to}"));
                self.list(&clause.condition, depth + 1);
                self.line(depth, "then");
                self.list(&clause.then, depth + 1);
                for branch in clause.elses.iter().flatten() {
                    self.line(depth, if branch.condition.is_some() { "elif" } else { "else" });
                    if let Some(condition) = &branch.condition {
                        self.list(condition, depth + 1);
                        self.line(depth, "then");
                    }
                    self.list(&branch.body, depth + 1);
                }
            }
            Compound::ForClause(clause) => {
                let values: Vec<String> = clause
                    .values
                    .iter()
                    .flatten()
                    .filter_map(|word| word_at(self.lexed, word.loc.as_ref()))
                    .map(|word| word.raw.clone())
                    .collect();
                let head =
                    format!("{lead}for {} in {}{to}", clause.variable_name, values.join(" "));
                self.line(depth, &head);
                self.list(&clause.body.list, depth + 1);
            }
            Compound::WhileClause(clause) | Compound::UntilClause(clause) => {
                self.line(depth, &format!("{lead}loop while{to}"));
                self.list(&clause.0, depth + 1);
                self.line(depth, "do");
                self.list(&clause.1.list, depth + 1);
            }
            Compound::CaseClause(clause) => {
                self.line(depth, &format!("{lead}case{to}"));
                for item in clause.cases.iter().filter_map(|item| item.cmd.as_ref()) {
                    self.line(depth, "when");
                    self.list(item, depth + 1);
                }
            }
            Compound::Arithmetic(_) | Compound::ArithmeticForClause(_) => {
                self.line(depth, &format!("{lead}arithmetic"));
            }
            Compound::Coprocess(_) => self.line(depth, &format!("{lead}coprocess")),
        }
    }
}
