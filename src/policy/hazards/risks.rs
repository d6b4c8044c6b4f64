//! Build tools and interpreters: their whole grammar is not known here, but the options that make
//! them run something else than the project are.
//!
//! Once a build tool is allowed and its sources are writable, the model runs code of its own; from
//! there on only the sandbox holds. These tables keep the words of the command line from doing the
//! same where sources are not writable.

use super::Examined;
use crate::policy::rules::could_be;
use crate::policy::value::Value;

struct Risky {
    names: &'static [&'static str],
    /// Options, with their dashes, blanks between.
    options: &'static str,
    why: &'static str,
    /// Words that are no options and change what runs: `NAME=value`, `+toolchain`.
    assignments: bool,
    /// It runs the file it names, or its standard input; what follows belongs to that program.
    reads_program: bool,
    /// Options have one dash and a whole word (`-run`), and are never clustered.
    words: bool,
}

const RISKS: &[Risky] = &[
    Risky {
        names: &["cargo"],
        options: "--config -Z --target-dir --artifact-dir --out-dir --lockfile-path -C --registry --index",
        why: "can change what cargo runs or where it writes",
        assignments: false,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &["rustc", "rustdoc"],
        options: "-o --out-dir -C --codegen -Z --extern -L --emit --runtool --test-runtool --test-builder",
        why: "can change what is run or written",
        assignments: false,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &["make", "gmake", "bmake"],
        options: "-f --file --makefile --eval -I --include-dir -E -o --old-file -W --what-if",
        why: "can change what make runs",
        assignments: true,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &[
            "ninja", "just", "task", "rake", "invoke", "tox", "nox", "scons", "bazel", "buck2",
        ],
        options: "-f --justfile --taskfile --shell --shell-arg -C -c --command --set -r --rakefile -e --execute",
        why: "can change what is run",
        assignments: true,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &["cmake", "ctest", "meson"],
        options: "-P -E --script --toolchain -C -S --build-and-test -T --test-action --native-file --cross-file -D",
        why: "can change what is run or written",
        assignments: false,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &["npm", "npx", "pnpm", "yarn", "bun", "bunx", "corepack", "pnpx"],
        options: "--script-shell --prefix --userconfig --globalconfig -c --call --shell --node-options --git --editor --registry -g --global --location --cwd --use-yarnrc --rcfile --init-module --cafile --https-proxy --proxy -p --package -y --yes",
        why: "can change what is run, or where packages come from",
        assignments: false,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &["node", "nodejs", "deno"],
        options: "-e --eval -p --print -r --require --import --loader --experimental-loader -i --interactive --env-file --inspect --inspect-brk --prof-process --build-snapshot --openssl-config --redirect-warnings --report-dir --diagnostic-dir --cpu-prof --heap-prof --experimental-config-file --snapshot-blob -C --conditions",
        why: "runs code that the command line names",
        assignments: false,
        reads_program: true,
        words: false,
    },
    Risky {
        names: &["python", "python2", "python3", "pypy", "pypy3"],
        options: "-c -i -X -W --check-hash-based-pycs",
        why: "runs code that the command line names, or changes how it is run",
        assignments: false,
        reads_program: true,
        words: false,
    },
    Risky {
        names: &["pytest", "py.test"],
        options: "-p --rootdir -c --confcutdir --basetemp -o --override-ini --import-mode --pdb --pdbcls --trace --junitxml --junit-xml --log-file --pastebin",
        why: "loads code or writes files that the command line names",
        assignments: false,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &["pip", "pip3", "uv", "uvx", "pipx", "poetry", "pdm", "hatch"],
        options: "--index-url -i --extra-index-url --find-links -f --target -t --prefix --root --proxy --cert --python --config-settings --global-option --build-option --log --src --cache-dir --report --trusted-host --config-file --index --default-index --with --with-editable --from",
        why: "can change where packages come from or go",
        assignments: false,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &["ruff", "black", "mypy", "isort", "flake8", "pylint"],
        options: "--config --config-file --settings-path --settings-file --sp --output-file -o --junit-xml --init-hook --load-plugins --python-executable --custom-typeshed-dir --cache-dir --rcfile --tee --stdin-filename --install-types",
        why: "can load code or write files that the command line names",
        assignments: false,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &["go"],
        options: "-exec -toolexec -overlay -modfile -o -C -ldflags -gcflags -asmflags -gccgoflags -pkgdir -vettool -fix -outputdir -cpuprofile -memprofile -blockprofile -mutexprofile -trace -coverprofile -work -a",
        why: "can change what go runs or where it writes",
        assignments: false,
        reads_program: false,
        words: true,
    },
    Risky {
        names: &["mvn", "mvnw", "gradle", "gradlew", "ant", "sbt"],
        options: "-I --init-script -f --file -s --settings -gs --global-settings -t --toolchains -b --build-file -c --settings-file -p --project-dir -g --gradle-user-home -D --define -l --log-file -lib --offline-repo --include-build -P --project-prop --system-prop",
        why: "can change what the build runs",
        assignments: false,
        reads_program: false,
        words: true,
    },
    Risky {
        names: &["java"],
        options: "-agentlib -agentpath -javaagent -XX -Xrun -Xbootclasspath -cp -classpath --class-path -D --module-path -p --add-opens --patch-module --upgrade-module-path @",
        why: "can load code that the command line names",
        assignments: false,
        reads_program: true,
        words: true,
    },
    Risky {
        names: &["javac"],
        options: "-J -processor -processorpath --processor-path -d -s -h -Xplugin --module-path -p @",
        why: "can run code or write where the command line says",
        assignments: false,
        reads_program: false,
        words: true,
    },
    Risky {
        names: &["gcc", "g++", "cc", "c++", "clang", "clang++", "ld", "as", "cpp"],
        options: "-o -B -wrapper -fplugin -specs -Xlinker -Wl -Wp -Wa -save-temps -dumpdir -MF -MD @",
        why: "can run other programs or write where the command line says",
        assignments: false,
        reads_program: false,
        words: true,
    },
    Risky {
        names: &[
            "perl",
            "ruby",
            "php",
            "lua",
            "luajit",
            "Rscript",
            "R",
            "tclsh",
            "guile",
            "osascript",
            "pwsh",
            "elixir",
            "erl",
            "ghci",
            "runghc",
            "julia",
            "swift",
            "scala",
            "groovy",
            "irb",
            "sqlite3",
            "psql",
            "mysql",
        ],
        options: "-e -E -n -p -i -I -M -m -r -d -a -l -C -f --eval --command -c --file --execute",
        why: "runs code that the command line names",
        assignments: false,
        reads_program: true,
        words: false,
    },
    Risky {
        names: &["tar", "bsdtar", "gtar"],
        options: "--to-command --checkpoint-action --use-compress-program -I --info-script --new-volume-script -F --rsh-command --rmt-command -x --extract --get -c --create -r --append -u --update -A --delete --remove-files -P --absolute-names -T --files-from --one-top-level -C --directory --index-file -g --listed-incremental -S -K",
        why: "can run programs and writes files",
        assignments: false,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &["curl", "wget"],
        options: "-o --output -O --remote-name -T --upload-file -K --config -d --data --data-binary --data-raw --data-urlencode -F --form --json -c --cookie-jar -b --cookie -E --cert --key -H --header -x --proxy --preproxy --unix-socket --abstract-unix-socket -D --dump-header --trace --trace-ascii --stderr --netrc-file -n --netrc --output-dir --create-dirs --post-file --post-data --body-file --use-askpass --execute -e -i --input-file -P --directory-prefix -a --append-output --save-cookies --load-cookies --warc-file --rejected-log -r --recursive -m --mirror -B --base -w --write-out --egd-file --engine --libcurl --etag-save -X --request",
        why: "sends or writes files, or takes orders from one",
        assignments: false,
        reads_program: false,
        words: false,
    },
    Risky {
        names: &["eslint", "prettier", "tsc", "jest", "vitest", "mocha", "biome"],
        options: "--config -c --plugin --rulesdir --resolve-plugins-relative-to --parser --require -r --loader --import --outFile --outDir --outputFile -o --output-file --cache-location --format -f --build -b --globalSetup --setupFiles --testRunner --runner --resolver --transform --environment --reporters --reporter --plugin-search-dir --config-path",
        why: "loads code or writes files that the command line names",
        assignments: false,
        reads_program: false,
        words: false,
    },
];

/// Definitions that only choose what the build leaves out.
const HARMLESS: &[&str] = &[
    "-DskipTests",
    "-DskipITs",
    "-DskipTests=true",
    "-Dmaven.test.skip=true",
    "-Dtest=",
    "-Dit.test=",
    "-DfailIfNoTests=false",
    "-Dsurefire.failIfNoSpecifiedTests=false",
    "-Dstyle.color=never",
];

pub fn examine(name: &str, argv: &[Value]) -> Option<Examined> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let risky = RISKS.iter().find(|risky| {
        risky.names.contains(&name) || (!plain.is_empty() && risky.names.contains(&plain))
    })?;
    let mut out = Examined::default();
    let mut has_program = false;
    for (index, value) in argv.iter().enumerate().skip(1) {
        let text = match value {
            Value::Known(text) => text.as_str(),
            Value::Unknown(_) if value.may_be_unknown_option() => {
                out.hazard(index, format!("{} could become an option", value.display()));
                continue;
            }
            Value::Unknown(unknown) => unknown.prefix.as_str(),
        };
        if text == "--" {
            // What follows belongs to the project's own program.
            has_program |= argv.len() > index + 1;
            break;
        }
        if risky.reads_program && (!text.starts_with('-') || matches!(text, "-m" | "-jar")) {
            elsewhere(value, text, &mut out);
            if text == "-m" {
                within(argv.get(index + 1..).unwrap_or_default(), index + 1, &mut out);
            }
            has_program = true;
            break;
        }
        if text == "-" && risky.reads_program {
            out.hazard(index, format!("{name} - runs what it reads"));
        }
        option(risky, name, text, index, &mut out);
        elsewhere(value, text, &mut out);
        has_program |= is_question(text);
        if index == 1 && name == "npx" {
            within(argv.get(index..).unwrap_or_default(), index, &mut out);
        }
    }
    if risky.reads_program && !has_program {
        out.whole(format!("{name} without a file runs what it reads"));
    }
    Some(out)
}

fn option(risky: &Risky, name: &str, text: &str, index: usize, out: &mut Examined) {
    let is_old_style = index == 1 && risky.names.contains(&"tar") && !text.starts_with('-');
    let dashed = if is_old_style { format!("-{text}") } else { text.to_owned() };
    let is_harmless = HARMLESS
        .iter()
        .any(|known| *known == text || (known.ends_with('=') && text.starts_with(known)));
    if !is_harmless && risky.options.split(' ').any(|option| fits(risky, option, &dashed)) {
        out.hazard(index, format!("{name} {text} {}", risky.why));
    }
    let is_assignment = text
        .split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && !name.starts_with('-') && !name.contains('/'));
    if risky.assignments && is_assignment {
        out.hazard(index, format!("{text} {}", risky.why));
    }
    if name == "cargo" && index == 1 && text.starts_with('+') {
        out.hazard(index, format!("{text} chooses another toolchain"));
    }
}

/// A path that leaves the workspace is judged as a file that is read: code from there would run.
fn elsewhere(value: &Value, text: &str, out: &mut Examined) {
    let path = match text.split_once('=') {
        Some((name, path)) if name.starts_with('-') => path,
        _ => text,
    };
    let climbs = path.split('/').any(|part| part == "..");
    if path.starts_with('/') || climbs {
        let value = match value {
            Value::Known(_) => Value::known(path),
            Value::Unknown(_) => value.clone(),
        };
        out.files.push(super::FileUse { access: super::Access::Read, value });
    }
}

/// The program that an interpreter or a launcher starts by name has hazards of its own.
fn within(argv: &[Value], offset: usize, out: &mut Examined) {
    let Some(name) = argv.first().and_then(Value::as_known) else { return };
    if let Some(inner) = super::by_name(name, argv) {
        out.files.extend(inner.files);
        for hazard in inner.hazards {
            out.hazards.push(super::Hazard { index: hazard.index + offset, ..hazard });
        }
    }
}

fn is_question(text: &str) -> bool {
    matches!(text, "--version" | "-V" | "--help" | "-v" | "-h" | "-version")
}

fn fits(risky: &Risky, option: &str, word: &str) -> bool {
    if option == "@" {
        return word.starts_with('@');
    }
    if risky.words {
        let name = word.split('=').next().unwrap_or(word);
        // `-Dname` and `-Wl,…` carry their value glued on.
        let takes_glued =
            matches!(option, "-D" | "-P" | "-J" | "-XX" | "-Wl" | "-Wp" | "-Wa" | "-B")
                || option.starts_with("-java")
                || option.starts_with("-agent");
        return name == option
            || (name.starts_with("--") && name.get(1..) == Some(option))
            || (takes_glued && word.starts_with(option));
    }
    could_be(option, word)
}
