//! The verbs of git that are known here, with the options that are known to be harmless.

use super::VerbKind;
use crate::policy::hazards::table::{Operands, Risk, RiskValue, Spec};

/// Options of everything that shows differences.
macro_rules! diff_long {
    () => {
        "patch no-patch unified raw patch-with-raw indent-heuristic no-indent-heuristic minimal patience histogram anchored diff-algorithm stat stat-width stat-name-width stat-count stat-graph-width compact-summary numstat shortstat dirstat cumulative dirstat-by-file summary patch-with-stat name-only name-status color no-color color-moved no-color-moved color-moved-ws no-color-moved-ws word-diff word-diff-regex color-words no-renames rename-empty no-rename-empty check ws-error-highlight full-index binary abbrev no-abbrev break-rewrites find-renames find-copies find-copies-harder irreversible-delete diff-filter find-object pickaxe-all pickaxe-regex skip-to rotate-to relative no-relative text ignore-cr-at-eol ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines ignore-matching-lines inter-hunk-context function-context exit-code quiet no-ext-diff no-textconv ignore-submodules src-prefix dst-prefix no-prefix default-prefix line-prefix ita-invisible-in-index cc combined-all-paths merge-base cached staged base ours theirs diff-merges no-diff-merges remerge-diff root"
    };
}

/// Options of everything that walks history.
macro_rules! log_long {
    () => {
        "follow no-decorate decorate decorate-refs decorate-refs-exclude clear-decorations source mailmap no-mailmap use-mailmap no-use-mailmap full-diff log-size max-count skip since after until before since-as-filter author committer grep grep-reflog all-match invert-grep regexp-ignore-case basic-regexp extended-regexp fixed-strings perl-regexp remove-empty merges no-merges min-parents max-parents no-min-parents no-max-parents first-parent exclude-first-parent-only not all branches tags remotes glob exclude exclude-hidden reflog single-worktree ignore-missing bisect cherry-mark cherry-pick left-only right-only cherry walk-reflogs merge boundary simplify-by-decoration show-pulls full-history dense sparse simplify-merges ancestry-path date-order author-date-order topo-order reverse no-walk do-walk pretty format abbrev-commit no-abbrev-commit oneline encoding expand-tabs no-expand-tabs notes no-notes show-notes standard-notes no-standard-notes relative-date date parents children left-right graph no-graph show-linear-break count timestamp header no-commit-header commit-header no-show-signature objects objects-edge use-bitmap-index disk-usage max-age min-age"
    };
}

const RUNS: &str = "runs a program that the configuration names";
const WRITES: &str = "writes a file; use `> FILE`";

const DIFF_RISKS: &[Risk] = &[
    Risk { options: "--ext-diff --textconv", value: RiskValue::None, why: RUNS },
    Risk { options: "--output", value: RiskValue::Writes, why: WRITES },
    Risk {
        options: "--no-index",
        value: RiskValue::None,
        why: "compares files outside the repository",
    },
    Risk { options: "--submodule", value: RiskValue::None, why: "runs git in submodules" },
    Risk { options: "--show-signature", value: RiskValue::None, why: RUNS },
];

/// Shows differences and history; any operand is a revision or a path.
const SHOW: Spec = Spec {
    flags: "pusztawbWRDcmrigEFPq",
    optional: "MCBUXlO0123456789",
    long: concat!(diff_long!(), " ", log_long!()),
    values: "-S -G -I -L -n --max-count --skip --since --after --until --before --author --committer --grep --date --format --output-indicator-new --output-indicator-old --output-indicator-context --find-object --inter-hunk-context --diff-algorithm --word-diff-regex",
    risks: DIFF_RISKS,
    lenient: false,
    ..Spec::reader(
        &[
            "log",
            "show",
            "diff",
            "whatchanged",
            "rev-list",
            "diff-tree",
            "diff-index",
            "diff-files",
            "cherry",
            "range-diff",
            "reflog",
            "shortlog",
            "show-branch",
            "name-rev",
            "stash",
        ],
        "",
    )
};

const VERBS: &[Spec] = &[
    SHOW,
    Spec {
        flags: "sbvzu",
        optional: "u",
        long: "short branch show-stash porcelain long verbose untracked-files ignore-submodules ignored column no-column ahead-behind no-ahead-behind renames no-renames find-renames null",
        lenient: false,
        ..Spec::reader(&["status"], "")
    },
    Spec {
        flags: "qh",
        optional: "",
        long: "all verify quiet sq short abbrev-ref symbolic symbolic-full-name show-toplevel show-prefix show-cdup git-dir absolute-git-dir git-common-dir is-inside-work-tree is-inside-git-dir is-bare-repository is-shallow-repository branches tags remotes default revs-only no-revs flags no-flags not show-superproject-working-tree since until after before show-object-format path-format end-of-options",
        lenient: false,
        ..Spec::reader(&["rev-parse"], "")
    },
    Spec {
        flags: "cdmoiksutzvfr",
        long: "cached deleted modified others ignored stage unmerged killed directory no-empty-directory error-unmatch full-name recurse-submodules abbrev debug deduplicate eol sparse exclude-standard format",
        values: "-x --exclude --with-tree --format",
        reads: "-X --exclude-from",
        lenient: false,
        ..Spec::reader(&["ls-files"], "")
    },
    Spec {
        flags: "drtlz",
        long: "long name-only name-status object-only full-name full-tree abbrev format",
        lenient: false,
        ..Spec::reader(&["ls-tree"], "")
    },
    Spec {
        flags: "tspe",
        long: "batch batch-check batch-all-objects batch-command buffer unordered follow-symlinks mailmap no-mailmap use-mailmap filter",
        risks: &[
            Risk { options: "--textconv --filters", value: RiskValue::None, why: RUNS },
            Risk { options: "--path", value: RiskValue::Some, why: RUNS },
        ],
        lenient: false,
        ..Spec::reader(&["cat-file"], "")
    },
    Spec {
        flags: "abvniwEFPGHlLcqWozrph",
        long: "cached untracked no-exclude-standard exclude-standard recurse-submodules text ignore-case word-regexp invert-match full-name extended-regexp basic-regexp perl-regexp fixed-strings line-number column name-only files-with-matches files-without-match null only-matching count color no-color break heading show-function function-context context after-context before-context max-count threads and or not all-match quiet max-depth no-recursive recursive no-textconv files-without-match",
        values: "-e -A -B -C -m --threads --max-depth --context --after-context --before-context --max-count",
        reads: "-f",
        risks: &[
            Risk {
                options: "-O --open-files-in-pager",
                value: RiskValue::None,
                why: "runs a program",
            },
            Risk { options: "--ext-grep --textconv", value: RiskValue::None, why: RUNS },
            Risk {
                options: "--no-index",
                value: RiskValue::None,
                why: "searches outside the repository",
            },
        ],
        lenient: false,
        // A pattern is no revision, but taken for one it is harmless.
        operands: Operands::PatternThenRead("-e -f"),
        ..Spec::reader(&["grep"], "")
    },
    Spec {
        flags: "bltfnsewpkc",
        optional: "MC",
        long: "root show-stats reverse porcelain line-porcelain incremental progress no-progress score-debug show-name show-number show-email color-lines color-by-age abbrev first-parent minimal ignore-rev date encoding",
        values: "-L --date --ignore-rev",
        reads: "-S --contents --ignore-revs-file",
        lenient: false,
        ..Spec::reader(&["blame", "annotate"], "")
    },
    Spec {
        flags: "",
        long: "all tags contains debug exact-match always match exclude first-parent dirty broken abbrev candidates long",
        values: "--match --exclude --abbrev --candidates",
        lenient: false,
        ..Spec::reader(&["describe"], "")
    },
    Spec {
        flags: "avrli",
        long: "all list remotes verbose show-current color no-color column no-column contains no-contains merged no-merged points-at sort format ignore-case abbrev no-abbrev omit-empty",
        values: "--contains --no-contains --merged --no-merged --points-at --sort --format",
        lenient: false,
        ..Spec::reader(&["branch"], "")
    },
    Spec {
        flags: "lin",
        optional: "n",
        long: "list sort contains no-contains merged no-merged points-at color no-color column no-column format ignore-case omit-empty",
        values: "--sort --contains --no-contains --points-at --format",
        lenient: false,
        ..Spec::reader(&["tag"], "")
    },
    Spec { flags: "v", long: "verbose all push", lenient: false, ..Spec::reader(&["remote"], "") },
    Spec {
        flags: "lz",
        long: "get get-all get-regexp list null name-only show-origin show-scope type bool int path local default includes no-includes all",
        values: "--type --default",
        lenient: false,
        ..Spec::reader(&["config"], "")
    },
    Spec {
        flags: "asd",
        long: "all is-ancestor independent octopus fork-point shell count sort format points-at merged no-merged contains no-contains ignore-case heads tags verify hash quiet head dereference abbrev exists short exclude omit-empty exclude-existing",
        values: "--count --sort --format --points-at --exclude",
        lenient: false,
        ..Spec::reader(&["merge-base", "for-each-ref", "show-ref", "symbolic-ref"], "")
    },
    Spec {
        flags: "qvnzaH",
        long: "quiet verbose non-matching no-index stdin all cached human-readable porcelain",
        lenient: false,
        ..Spec::reader(&["check-ignore", "check-attr", "count-objects", "worktree"], "")
    },
    Spec {
        flags: "nvfuAN",
        long: "dry-run verbose force update all no-all ignore-removal no-ignore-removal intent-to-add refresh ignore-errors ignore-missing renormalize sparse chmod",
        reads: "--pathspec-from-file",
        risks: &[Risk {
            options: "-i --interactive -p --patch -e --edit",
            value: RiskValue::None,
            why: "asks or starts an editor",
        }],
        lenient: false,
        ..Spec::reader(&["add", "stage"], "")
    },
    Spec {
        flags: "aqvsnzo",
        optional: "u",
        long: "all quiet verbose signoff no-signoff no-verify allow-empty allow-empty-message amend no-edit dry-run short branch porcelain long null only include no-post-rewrite status no-status reset-author cleanup author date untracked-files no-gpg-sign ahead-behind",
        values: "-m --message --author --date --cleanup",
        reads: "-F --file -t --template --pathspec-from-file",
        risks: &[
            Risk {
                options: "-e --edit -c --reedit-message -p --patch --interactive",
                value: RiskValue::None,
                why: "asks or starts an editor",
            },
            Risk { options: "-S --gpg-sign", value: RiskValue::None, why: RUNS },
            Risk { options: "--trailer", value: RiskValue::Some, why: RUNS },
            Risk {
                options: "-C --reuse-message --fixup --squash",
                value: RiskValue::Some,
                why: "rewrites history",
            },
        ],
        lenient: false,
        ..Spec::reader(&["commit"], "")
    },
    Spec {
        flags: "SWq",
        long: "staged worktree quiet progress no-progress ignore-unmerged ours theirs source no-overlay overlay",
        values: "-s --source",
        risks: &[Risk { options: "-p --patch", value: RiskValue::None, why: "asks" }],
        lenient: false,
        operands: Operands::Write,
        ..Spec::reader(&["restore"], "")
    },
    Spec {
        flags: "nrfq",
        long: "dry-run cached force quiet ignore-unmatch sparse",
        reads: "--pathspec-from-file",
        lenient: false,
        operands: Operands::Replace,
        ..Spec::reader(&["rm"], "")
    },
    Spec {
        flags: "fknv",
        long: "force dry-run verbose sparse",
        lenient: false,
        operands: Operands::Move,
        ..Spec::reader(&["mv"], "")
    },
];

pub fn spec(verb: &str) -> Option<&'static Spec> {
    VERBS.iter().find(|spec| spec.names.contains(&verb))
}

/// What the verb does with the repository.
pub fn kind(verb: &str) -> VerbKind {
    match verb {
        "branch" | "tag" | "remote" | "config" | "stash" | "reflog" | "worktree"
        | "symbolic-ref" | "show-branch" => VerbKind::Either,
        "add" | "stage" | "commit" | "restore" | "rm" | "mv" => VerbKind::Changes,
        _ if spec(verb).is_some() => VerbKind::Looks,
        _ => VerbKind::Changes,
    }
}
