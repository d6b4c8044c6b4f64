//! What a loop changes, found before its body is judged: those variables, and perhaps the folder,
//! are unknown from the first round on.

use super::parse::word_at;
use super::token::{Lexed, Word};
use brush_parser::ast;

/// What a loop's body changes, found before it is judged.
#[derive(Default)]
pub struct Changes {
    pub names: Vec<String>,
    pub folder: bool,
}

impl Changes {
    pub fn list(&mut self, lexed: &Lexed, list: &ast::CompoundList) {
        for ast::CompoundListItem(and_or, _) in &list.0 {
            self.pipeline(lexed, &and_or.first);
            for more in &and_or.additional {
                match more {
                    ast::AndOr::And(pipeline) | ast::AndOr::Or(pipeline) => {
                        self.pipeline(lexed, pipeline);
                    }
                }
            }
        }
    }

    fn pipeline(&mut self, lexed: &Lexed, pipeline: &ast::Pipeline) {
        for command in &pipeline.seq {
            match command {
                ast::Command::Simple(simple) => self.simple(lexed, simple),
                ast::Command::Compound(compound, _) => self.compound(lexed, compound),
                _ => {}
            }
        }
    }

    fn compound(&mut self, lexed: &Lexed, compound: &ast::CompoundCommand) {
        match compound {
            ast::CompoundCommand::BraceGroup(group) => self.list(lexed, &group.list),
            ast::CompoundCommand::ForClause(clause) => {
                self.names.push(clause.variable_name.clone());
                self.list(lexed, &clause.body.list);
            }
            ast::CompoundCommand::WhileClause(clause)
            | ast::CompoundCommand::UntilClause(clause) => {
                self.list(lexed, &clause.0);
                self.list(lexed, &clause.1.list);
            }
            ast::CompoundCommand::IfClause(clause) => {
                self.list(lexed, &clause.condition);
                self.list(lexed, &clause.then);
                for branch in clause.elses.iter().flatten() {
                    if let Some(condition) = &branch.condition {
                        self.list(lexed, condition);
                    }
                    self.list(lexed, &branch.body);
                }
            }
            ast::CompoundCommand::CaseClause(clause) => {
                for item in &clause.cases {
                    if let Some(body) = &item.cmd {
                        self.list(lexed, body);
                    }
                }
            }
            // A subshell keeps its changes to itself; the others are refused.
            _ => {}
        }
    }

    fn simple(&mut self, lexed: &Lexed, simple: &ast::SimpleCommand) {
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        for item in prefix.chain(suffix) {
            match item {
                ast::CommandPrefixOrSuffixItem::AssignmentWord(_, word)
                | ast::CommandPrefixOrSuffixItem::Word(word) => {
                    let Some(word) = word_at(lexed, word.loc.as_ref()) else { continue };
                    // An operand of `read` or `export` is a name as well; one too many is harmless.
                    let name = word.assigned_name().map(|(name, _)| name.to_owned());
                    self.names.extend(name.or_else(|| word.literal()));
                }
                _ => {}
            }
        }
        let name = simple.word_or_name.as_ref().and_then(|name| word_at(lexed, name.loc.as_ref()));
        match name.and_then(Word::literal) {
            Some(name) => {
                self.folder |=
                    matches!(name.as_str(), "cd" | "pushd" | "popd" | "command" | "builtin")
            }
            // A command word from an expansion is refused anyway.
            None => self.folder |= simple.word_or_name.is_some(),
        }
    }
}
