//! Programs that look at things. What they read is judged by `files`.

use super::table::{Operands, Risk, RiskValue, Spec};

const RUNS: &str = "runs another program";
const WRITES: &str = "writes a file";

pub const READERS: &[Spec] = &[
    Spec::reader(&["cat", "rev"], ""),
    Spec::reader(&["tac"], "-s --separator"),
    Spec::reader(
        &["nl"],
        "-b -d -f -h -i -l -n -s -v -w --body-numbering --section-delimiter --footer-numbering --header-numbering --line-increment --join-blank-lines --number-format --number-separator --starting-line-number --number-width",
    ),
    Spec::reader(&["expand", "unexpand"], "-t --tabs"),
    Spec::reader(&["fold"], "-w --width"),
    Spec::reader(&["fmt"], "-w -g -p --width --goal --prefix"),
    Spec::reader(&["paste"], "-d --delimiters"),
    Spec::reader(&["comm"], "--output-delimiter"),
    Spec::reader(&["head"], "-n -c --lines --bytes"),
    Spec::reader(
        &["tail"],
        "-n -c -s --lines --bytes --sleep-interval --pid --max-unchanged-stats",
    ),
    Spec { reads: "--files0-from", ..Spec::reader(&["wc"], "--total") },
    Spec::reader(
        &["cut"],
        "-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter",
    ),
    Spec::reader(&["join"], "-1 -2 -a -v -e -j -o -t"),
    Spec {
        optional: "w",
        ..Spec::reader(
            &["od"],
            "-A -j -N -S -t --address-radix --skip-bytes --read-bytes --format --endian",
        )
    },
    Spec {
        reads: "-f --format-file",
        ..Spec::reader(&["hexdump", "hd"], "-e -n -s --length --skip --format")
    },
    Spec::reader(&["strings"], "-n -t -e -T -s --bytes --radix --encoding --target"),
    Spec::reader(
        &["ls", "dir", "vdir"],
        "-I -w -T --hide --ignore --width --tabsize --block-size --sort --time --time-style --format --indicator-style --quoting-style",
    ),
    Spec::reader(&["stat"], "-c --format --printf"),
    Spec {
        reads: "-f -m --files-from --magic-file",
        risks: &[
            Risk { options: "-C --compile", value: RiskValue::None, why: WRITES },
            Risk {
                options: "-z -Z --uncompress --uncompress-noreport",
                value: RiskValue::None,
                why: RUNS,
            },
        ],
        ..Spec::reader(&["file"], "-F -P -e --separator --parameter --exclude")
    },
    Spec {
        reads: "-X --exclude-from --files0-from",
        ..Spec::reader(
            &["du"],
            "-d -B -t --max-depth --block-size --threshold --exclude --time-style",
        )
    },
    Spec::reader(&["df"], "-B -t -x --block-size --type --exclude-type"),
    Spec {
        risks: &[
            Risk { options: "-o", value: RiskValue::Writes, why: WRITES },
            Risk { options: "-R", value: RiskValue::None, why: WRITES },
        ],
        ..Spec::reader(
            &["tree"],
            "-L -P -I -H -T --charset --filelimit --timefmt --sort --gitfile --infofile",
        )
    },
    Spec {
        reads: "-X --exclude-from --from-file --to-file",
        risks: &[Risk { options: "-l --paginate", value: RiskValue::None, why: RUNS }],
        ..Spec::reader(
            &["diff"],
            "-U -C -W -I -x -F -S -L --width --ignore-matching-lines --exclude --label --show-function-line --starting-file --tabsize --palette --horizon-lines --line-format --old-line-format --new-line-format --unchanged-line-format",
        )
    },
    Spec::reader(&["cmp"], "-n -i --bytes --ignore-initial"),
    Spec::reader(
        &[
            "md5sum",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
            "b2sum",
            "cksum",
            "sum",
        ],
        "-l -a --length --algorithm",
    ),
    Spec::reader(
        &["column"],
        "-c -s -o -N -R -H -W -T -E -O -n -C --separator --output-separator --table-columns",
    ),
    Spec::reader(&["base64", "base32"], "-w --wrap"),
    Spec {
        operands: Operands::ReadThenWrite,
        ..Spec::reader(&["uniq"], "-f -s -w --skip-fields --skip-chars --check-chars")
    },
    Spec { operands: Operands::ReadThenWrite, ..Spec::reader(&["xxd"], "-c -g -l -n -o -R -s") },
    Spec {
        flags: "bdfgiMhnRrVcCmsuz",
        long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse version-sort check merge stable unique zero-terminated debug help version",
        values: "-k -t -S --key --field-separator --buffer-size --parallel --batch-size --sort",
        reads: "--files0-from --random-source",
        risks: &[
            Risk {
                options: "-o --output",
                value: RiskValue::Writes,
                why: "writes a file; use `> FILE`",
            },
            Risk { options: "-T --temporary-directory", value: RiskValue::Writes, why: WRITES },
            Risk { options: "--compress-program", value: RiskValue::Some, why: RUNS },
        ],
        lenient: false,
        ..Spec::reader(&["sort"], "")
    },
    Spec {
        reads: "-f --file --exclude-from",
        operands: Operands::PatternThenRead("-e -f --regexp --file"),
        ..Spec::reader(
            &["grep", "egrep", "fgrep"],
            "-e -m -A -B -C -d -D --regexp --max-count --after-context --before-context --context --include --exclude --exclude-dir --label --binary-files --directories --devices --group-separator",
        )
    },
    Spec {
        flags: "abcFhHiIlLnNopPqsSuUvVwx0.",
        long: "no-ignore no-ignore-vcs no-ignore-dot no-ignore-parent no-ignore-global no-ignore-exclude no-ignore-files hidden no-hidden ignore-case smart-case case-sensitive count count-matches files files-with-matches files-without-match fixed-strings no-fixed-strings follow heading no-heading invert-match json line-number no-line-number line-regexp line-buffered block-buffered mmap no-mmap multiline multiline-dotall no-messages null null-data only-matching passthru passthrough pcre2 pretty quiet stats text trim unicode no-unicode unrestricted vimgrep with-filename no-filename word-regexp column no-column byte-offset binary one-file-system no-config no-require-git type-list auto-hybrid-regex crlf glob-case-insensitive include-zero no-binary trace debug version help no-search-zip no-pcre2 no-json no-context-separator no-follow no-text no-trim no-stats stop-on-nonmatch",
        values: "-A -B -C -e -g -j -m -M -r -t -T -d -E --after-context --before-context --context --regexp --glob --iglob --threads --max-count --max-columns --replace --type --type-not --type-add --type-clear --max-depth --maxdepth --max-filesize --encoding --engine --color --colors --context-separator --field-context-separator --field-match-separator --path-separator --sort --sortr --dfa-size-limit --regex-size-limit --hyperlink-format",
        reads: "-f --file --ignore-file",
        risks: &[
            Risk { options: "--pre --hostname-bin", value: RiskValue::Some, why: RUNS },
            Risk { options: "--pre-glob", value: RiskValue::Some, why: RUNS },
            Risk { options: "-z --search-zip", value: RiskValue::None, why: RUNS },
        ],
        lenient: false,
        operands: Operands::PatternThenRead("-e -f --regexp --file --files --type-list"),
        ..Spec::reader(&["rg"], "")
    },
    Spec {
        flags: "HIusigFapLl0q1h",
        long: "hidden no-ignore no-ignore-vcs no-ignore-parent unrestricted case-sensitive ignore-case glob regex fixed-strings absolute-path list-details follow full-path print0 quiet show-errors prune one-file-system strip-cwd-prefix has-results version help no-hidden ignore",
        values: "-d -E -t -e -S -o -c -j --max-depth --min-depth --exact-depth --exclude --type --extension --size --changed-within --changed-before --owner --color --threads --max-results --max-buffer-time --and --format --path-separator --search-path --base-directory",
        reads: "--ignore-file",
        risks: &[Risk { options: "-x -X --exec --exec-batch", value: RiskValue::Some, why: RUNS }],
        lenient: false,
        operands: Operands::PatternThenRead(""),
        ..Spec::reader(&["fd", "fdfind"], "")
    },
    Spec {
        reads: "-f -L --from-file --library-path --run-tests",
        operands: Operands::PatternThenRead("-f --from-file"),
        pairs: "--arg --argjson",
        pair_reads: "--slurpfile --rawfile --argfile",
        ..Spec::reader(&["jq"], "--indent")
    },
];

/// Programs that work on their words and standard streams alone.
pub const TEXTS: &[Spec] = &[
    Spec::texts(
        &[
            "echo", "true", "false", "pwd", "basename", "dirname", "realpath", "readlink", "seq",
            "sleep", "expr", "whoami", "id", "uname", "nproc", "arch", "tr", "which", "yes",
            "factor", "numfmt", "tty", "groups", "locale", "getconf",
        ],
        "",
    ),
    Spec {
        reads: "-f -r --file --reference",
        risks: &[Risk { options: "-s --set", value: RiskValue::Some, why: "sets the clock" }],
        ..Spec::texts(&["date"], "-d --date --rfc-3339")
    },
    Spec {
        risks: &[Risk {
            options: "-v",
            value: RiskValue::Some,
            why: "sets a variable by a name that bash evaluates",
        }],
        stops: true,
        ..Spec::texts(&["printf"], "")
    },
    Spec::texts(&["type", "kill", "printenv", "cal"], ""),
];
