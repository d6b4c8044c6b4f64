//! The command line as it was typed. What it means is the resolver's business (`spec::resolve`).

use crate::spec::FlagValues;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Runs one Turn of a coding agent, unattended: policy, sandbox, checks, evidence, and an exit status
/// that is the truth.
#[derive(Debug, Parser)]
#[command(name = "turnkey", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one Turn.
    Exec(Box<ExecArgs>),
    /// Run a new Turn on a recorded session: after a crash, a limit, or with a follow-up.
    Resume(Box<ResumeArgs>),
    /// Run a new Turn on the history of a session, under a new session id.
    Fork(Box<ResumeArgs>),
    /// Run a recorded run again, offline, and report the first difference.
    Replay(ReplayArgs),
    /// Apply an apply_patch text to a folder: all of it or nothing.
    Patch(PatchArgs),
    /// Apply the turn diff of a run to a checkout: checked first, all of it or nothing.
    Apply(ApplyArgs),
    /// Look at the record of a run, check it, cut it back.
    Rollout {
        #[command(subcommand)]
        command: RolloutCommand,
    },
    /// Check and try out policy files.
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Check task specs.
    Spec {
        #[command(subcommand)]
        command: SpecCommand,
    },
    /// Try the hooks of a spec.
    Hook {
        #[command(subcommand)]
        command: HookCommand,
    },
    /// Try the sandbox on this machine and say, clause by clause, what holds; with --model, ask the
    /// model what works.
    Doctor(DoctorArgs),
    /// Print the completion script of a shell.
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Default, Args)]
#[command(after_help = EXIT_HELP)]
pub struct ExecArgs {
    /// What to do; "-" reads it from standard input
    pub task: Option<String>,
    /// A YAML task spec
    #[arg(short = 'f', long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
    /// Read the task from this file
    #[arg(long, value_name = "FILE")]
    pub task_file: Option<String>,
    /// A parameter of the spec (repeatable)
    #[arg(short = 'p', long = "param", value_name = "KEY=VALUE")]
    pub params: Vec<String>,
    /// Untrusted data for the task (repeatable)
    #[arg(long = "input", value_name = "KEY=VALUE|KEY=@FILE")]
    pub inputs: Vec<String>,
    /// The policy file; without one the built-in policy holds
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,
    /// The folder to work in
    #[arg(short = 'C', long, value_name = "DIR")]
    pub workspace: Option<String>,
    /// Where rollout, diff, result and summary are published at the end
    #[arg(short = 'o', long, value_name = "DIR")]
    pub artifacts: Option<String>,
    /// The model; there is no default
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub model: Option<String>,
    /// Address of the model's API
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Certificates (PEM) to trust in addition to the system's
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<String>,
    /// Print events as JSON lines on standard output
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    /// Print nothing but the final message
    #[arg(long)]
    pub quiet: bool,
    /// auto, always or never
    #[arg(long, value_name = "WHEN")]
    pub color: Option<String>,
    /// Samplings of the model at the most
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u64>,
    /// Tool calls at the most
    #[arg(long, value_name = "N")]
    pub max_tool_calls: Option<u64>,
    /// Tokens at the most, input and output together
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// Cost at the most; needs prices in the spec
    #[arg(long, value_name = "AMOUNT")]
    pub max_cost: Option<f64>,
    /// Wall-clock limit of the run: 90s, 30m, 2h
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// A command that must succeed after the Turn (repeatable)
    #[arg(long, value_name = "CMD")]
    pub verify: Vec<String>,
    /// How often failed checks are sent back to the model
    #[arg(long, value_name = "N")]
    pub verify_attempts: Option<u64>,
    /// A file that must exist at the end (repeatable)
    #[arg(long, value_name = "PATH")]
    pub require_file: Vec<String>,
    /// changes, none or any
    #[arg(long, value_name = "WHAT")]
    pub expect: Option<String>,
    /// require, best-effort or off
    #[arg(long, value_name = "MODE")]
    pub sandbox: Option<String>,
    /// none, or copy: work on a copy and leave the workspace as it is
    #[arg(long, value_name = "HOW")]
    pub isolate: Option<String>,
    /// End with status 14 where the Turn changed anything
    #[arg(long)]
    pub fail_on_changes: bool,
    /// Print what would run (settings with their sources, policy, tools, prompt) and send nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl ExecArgs {
    /// The flags for the resolver; `task` is the text that was typed or piped in.
    pub fn flags(&self, task: Option<String>) -> FlagValues {
        FlagValues {
            task,
            task_file: self.task_file.clone(),
            params: self.params.clone(),
            inputs: self.inputs.clone(),
            policy: self.policy.clone(),
            workspace: self.workspace.clone(),
            artifacts: self.artifacts.clone(),
            isolate: self.isolate.clone(),
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            ca_file: self.ca_file.clone(),
            json: self.json,
            quiet: self.quiet,
            color: self.color.clone(),
            max_steps: self.max_steps,
            max_tool_calls: self.max_tool_calls,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            timeout: self.timeout.clone(),
            verify: self.verify.clone(),
            verify_attempts: self.verify_attempts,
            require_file: self.require_file.clone(),
            expect: self.expect.clone(),
            sandbox: self.sandbox.clone(),
            fail_on_changes: self.fail_on_changes,
        }
    }
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// An artifacts folder, a rollout file, a run id, or "latest"
    pub run: String,
    /// Go on although the policy or the workspace is not the recorded one
    #[arg(long)]
    pub accept_changes: bool,
    #[command(flatten)]
    pub exec: ExecArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 no difference, 1 a difference, 2 wrong input.")]
pub struct ReplayArgs {
    /// An artifacts folder, a rollout file, a run id, or "latest"
    pub run: String,
    /// Where tool results come from: recorded, or live in a copy of the recorded start
    #[arg(long, value_name = "WHICH", default_value = "recorded")]
    pub tools: ToolsFrom,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 it is in place, 1 it does not fit and nothing was changed, 2 wrong input."
)]
pub struct PatchArgs {
    /// The patch; "-" or nothing reads it from standard input
    pub text: Option<String>,
    /// Read the patch from this file
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "text")]
    pub file: Option<PathBuf>,
    /// The folder that the paths of the patch are relative to; nothing outside of it is touched
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
    pub workspace: PathBuf,
    /// Check that it fits, and say what it would do
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 it is in place, 1 it does not fit and nothing was changed, 2 wrong input."
)]
pub struct ApplyArgs {
    /// An artifacts folder, a rollout file, a run id, or "latest"
    pub run: String,
    /// A folder of the checkout; it must hold what the run started from in the files of the diff
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
    pub workspace: PathBuf,
    /// Check that it fits, and say what it would do
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ToolsFrom {
    Recorded,
    Live,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 a run would start (with --model: the model can be used), 1 something required \
                  does not hold, 2 wrong input."
)]
pub struct DoctorArgs {
    /// The policy file; without one the built-in policy
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub policy: Option<PathBuf>,
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
    pub workspace: PathBuf,
    /// Ask this model two tiny things (a few hundred tokens): is it reached, does it stream, call
    /// tools, keep to schemas; without a name the model of the spec or of TURNKEY_MODEL
    #[arg(long, value_name = "PROVIDER/NAME", num_args = 0..=1, default_missing_value = "")]
    pub model: Option<String>,
    /// With --model: the task spec whose model is meant
    #[arg(short = 'f', long, value_name = "FILE", requires = "model")]
    pub spec: Option<PathBuf>,
    /// With --model: address of its API
    #[arg(long, value_name = "URL", requires = "model")]
    pub base_url: Option<String>,
    /// With --model: certificates (PEM) to trust in addition to the system's
    #[arg(long, value_name = "FILE", requires = "model")]
    pub ca_file: Option<String>,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl DoctorArgs {
    /// The flags for the resolver.
    pub fn flags(&self) -> FlagValues {
        FlagValues {
            model: self.model.clone().filter(|name| !name.is_empty()),
            base_url: self.base_url.clone(),
            ca_file: self.ca_file.clone(),
            ..FlagValues::default()
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// Print a run readably: steps, calls, verdicts, times.
    Show {
        /// An artifacts folder, a rollout file, a run id, or "latest"
        run: String,
        /// Print what comes as it comes, until the run ends
        #[arg(long, conflicts_with = "prompt")]
        follow: bool,
        /// Print the request of this step of the last Turn instead
        #[arg(long, value_name = "STEP")]
        prompt: Option<u32>,
        /// One JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Check that the record is whole, as far as its chain can tell.
    Verify {
        /// An artifacts folder, a rollout file, a run id, or "latest"
        run: String,
        /// Print the answer as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Replace the history by a short one, for the next Turn; no model is asked.
    Compact {
        /// An artifacts folder, a rollout file, a run id, or "latest"
        run: String,
    },
    /// Cut whole Turns off the history, for the next Turn; files stay as they are.
    Rollback {
        /// An artifacts folder, a rollout file, a run id, or "latest"
        run: String,
        /// How many Turns
        #[arg(long, value_name = "N", default_value_t = 1)]
        turns: u32,
    },
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Name every fault of a policy file.
    Check {
        /// The policy file
        file: PathBuf,
    },
    /// Run the tests that stand in a policy file.
    Test {
        /// The policy file
        file: PathBuf,
        #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
        workspace: PathBuf,
    },
    /// Say what a policy makes of a command, part by part; status 0 when it is allowed.
    Explain {
        /// The policy file; without one the built-in policy
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
        #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
        workspace: PathBuf,
        #[arg(long)]
        json: bool,
        /// Judge as a run with untrusted data would
        #[arg(long)]
        untrusted: bool,
        /// The command: one word is a script, several are a program and its words
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Print a preset.
    Show {
        /// Its name; without one the names are listed
        preset: Option<String>,
    },
    /// Print a policy to start from, for the kind of project found.
    Init {
        #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
        workspace: PathBuf,
    },
    /// Print the JSON Schema of policy files.
    Schema,
}

#[derive(Debug, Subcommand)]
pub enum SpecCommand {
    /// Name every fault of a task spec, or of the script of a scripted model.
    Check {
        /// The file; what it is shows in its keys
        file: PathBuf,
    },
    /// Print the JSON Schema of task specs.
    Schema {
        /// The schema of the scripts of scripted models instead
        #[arg(long)]
        script: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum HookCommand {
    /// Ask hooks as a run would, without a model and in a copy; status 0 when they allow.
    Test(HookTestArgs),
}

#[derive(Debug, Args)]
pub struct HookTestArgs {
    /// A point, as in "stop", or one of its hooks, as in "before_tool[1]"
    pub hook: String,
    /// The task spec that names the hooks
    #[arg(short = 'f', long, value_name = "FILE")]
    pub spec: PathBuf,
    /// What they are asked about, as a JSON object, over a sample of the point
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// Print the records, one JSON object a line
    #[arg(long)]
    pub json: bool,
}

const EXIT_HELP: &str = "\
Exit status:
  0    completed: the Turn completed; every check, expectation and required output holds
  2    invalid: arguments, spec, policy, workspace, no model; nothing ran
  10   unverified: checks, expectations or limits on change fail
  11   blocked: the policy or a hook ended it, or nothing took effect and something was denied
  12   limit_reached: steps, tool calls, tokens, cost, equal failures
  13   model_failed: the model could not be used
  14   changes_found: only with --fail-on-changes
  20   unavailable: something required could not be had (sandbox, hook, disk for the record)
  70   internal: a bug
  124  timed_out: the wall-clock limit
  129, 130, 143   interrupted: SIGHUP, SIGINT, SIGTERM";
