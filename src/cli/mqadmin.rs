//! `rmq mqadmin NAME …`: the old tool's commands, translated and then run as ours.
//!
//! A table says for each old name which options it had and what arguments of `rmq` they stand for. Those arguments go
//! through the same grammar as any others: there is no second implementation behind the old names.

mod given;
mod groups;
mod messages;
mod servers;
mod topics;

use std::io::IsTerminal as _;

use clap::{Args, FromArgMatches as _};

use super::exit::{self, Failure};
use super::session::Global;
use super::{Cli, quoted};
use crate::client::similar;
use given::{Given, Line};

/// `rmq mqadmin`
#[derive(Debug, Clone, Args)]
pub struct MqadminArgs {
    /// Do not print the rmq command that is run
    #[arg(long)]
    no_hint: bool,
    /// mqadmin's command, in any case, and its options; help lists the commands; rmq's own options stand before mqadmin
    #[arg(
        value_name = "NAME [OPTIONS]",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    line: Vec<String>,
}

/// Where a translated command finds a password.
const SECRET: &str = "RMQ_MQADMIN_PASSWORD";

/// One option of an old command: short name, long name, whether a value follows.
type OldOption = (&'static str, &'static str, bool);

/// One old command.
pub struct Old {
    /// Its name in mqadmin.
    name: &'static str,
    /// Its options, without `-h` and `-n`.
    options: &'static [OldOption],
    /// The `rmq` command that it stands for.
    line: fn(&Given<'_>) -> Result<Line, Failure>,
}

/// All old commands, by subject.
fn table() -> impl Iterator<Item = &'static Old> {
    [topics::TABLE, groups::TABLE, messages::TABLE, servers::TABLE]
        .into_iter()
        .flatten()
}

/// mqadmin compares names without case.
fn find(name: &str) -> Result<&'static Old, Failure> {
    table()
        .find(|old| old.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| {
            let near = similar(name, table().map(|old| old.name));
            let failure = Failure::usage(format!("mqadmin has no command \"{name}\""));
            let failure = match near.as_slice() {
                [] => failure,
                near => failure.because(format!("Similar: {}.", near.join(", "))),
            };
            failure.hint("rmq mqadmin help, which lists its commands")
        })
}

/// The names of mqadmin's commands, in the order of the alphabet.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = table().map(|old| old.name).collect();
    names.sort_by_key(|name| name.to_lowercase());
    names
}

/// `rmq mqadmin help`: every name, a few in a line.
fn print_names() -> Result<(), Failure> {
    use std::io::Write as _;
    let names = names();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0) + 2;
    let mut out = std::io::stdout().lock();
    writeln!(out, "Commands of mqadmin that rmq mqadmin runs, in any case:")?;
    for line in names.chunks(3) {
        let line: String = line.iter().map(|name| format!("{name:width$}")).collect();
        writeln!(out, "  {}", line.trim_end())?;
    }
    writeln!(
        out,
        "rmq mqadmin help NAME shows the options of one; running it shows the rmq command that it is now."
    )?;
    Ok(())
}

/// The options of an old command with their long names.
fn usage(old: &Old) -> String {
    let options: Vec<String> = [("n", "namesrvAddr", true)]
        .iter()
        .chain(old.options)
        .map(|(short, long, value)| format!("  -{short}, --{long}{}", if *value { " VALUE" } else { "" }))
        .collect();
    format!("mqadmin {} took these options:\n{}", old.name, options.join("\n"))
}

/// `rmq mqadmin help NAME`: the options of an old command and the form of the new one, as far as it has one.
fn help(old: &Old) -> String {
    let mut text = usage(old);
    match (old.line)(&Given::form(old)) {
        Ok(line) => {
            let command = words_of_command(&line.words);
            text.push_str(&format!("\nIt is now:\n  rmq {}", line.words.join(" ")));
            text.push_str(&format!("\nrmq {command} --help shows all that it takes."));
        }
        // It has no counterpart, or one that depends on the values; running it says which.
        Err(failure) => text.push_str(&format!("\n{}", failure.text())),
    }
    text
}

/// The command that a line begins with, without its arguments.
fn words_of_command(words: &[String]) -> String {
    let mut at = super::command();
    let mut path = Vec::new();
    for word in words {
        let Some(next) = at.find_subcommand(word).cloned() else {
            break;
        };
        path.push(word.as_str());
        at = next;
    }
    path.join(" ")
}

/// The old command whose help is asked for: `help NAME` or `NAME -h`.
fn asked_for_help(words: &[String]) -> Result<Option<&'static Old>, Failure> {
    match words {
        [first, name, ..] if first == "help" => find(name).map(Some),
        [name, rest @ ..] if rest.iter().any(|word| word == "-h" || word == "--help") => find(name).map(Some),
        _ => Ok(None),
    }
}

/// Runs the command that an old line stands for.
pub fn run(global: Global, args: &MqadminArgs) -> Result<(), Failure> {
    if let [only] = args.line.as_slice()
        && ["help", "-h", "--help"].contains(&only.as_str())
    {
        return print_names();
    }
    if let Some(old) = asked_for_help(&args.line)? {
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), "{}", help(old))?;
        return Ok(());
    }
    let (cli, words, secret) = translate(global, args)?;
    let Some(secret) = secret else {
        return super::dispatch(cli);
    };
    // The password goes over in the environment of the same program: no flag of ours takes one.
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .args(std::env::args().skip(1).take_while(|word| word != "mqadmin"))
        .args(&words[1..])
        .env(SECRET, secret);
    if let Some(servers) = &cli.global.namesrv {
        command.arg(format!("--namesrv={servers}"));
    }
    if cli.global.yes == Some(None) {
        command.arg("--yes");
    }
    Err(command.exec().into())
}

/// The command that an old line stands for, its words, and a password that they leave out.
fn translate(global: Global, args: &MqadminArgs) -> Result<(Cli, Vec<String>, Option<String>), Failure> {
    let (name, rest) = match args.line.split_first() {
        Some(parts) => parts,
        None => return Err(Failure::usage("a command of mqadmin is missing")),
    };
    let old = find(name)?;
    let given = Given::read(old, rest).map_err(|failure| failure.because(usage(old)))?;
    let line = (old.line)(&given).map_err(|failure| match failure.hint {
        None if failure.exit == exit::USAGE => failure
            .because(usage(old))
            .hint(format!("rmq mqadmin help {}", old.name)),
        _ => failure,
    })?;
    let mut words = vec!["rmq".to_owned()];
    words.extend(line.words.iter().cloned());
    let matches = super::command().try_get_matches_from(&words);
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let mut cli = parsed.map_err(|e| {
        Failure::usage(format!(
            "{} cannot be run: {}",
            shown(&words),
            e.to_string().trim_start_matches("error: ").trim()
        ))
    })?;
    let servers = servers(&global, given.namesrv.as_deref());
    let own = std::mem::replace(&mut cli.global, global);
    let global = &mut cli.global;
    global.namesrv = given.namesrv.clone().or(global.namesrv.take());
    global.filter = own.filter.or(global.filter.take());
    global.dry_run |= own.dry_run;
    global.bridged = true;
    // The environment is in both; only what stands in the line counts for more than the outer flags.
    if line.words.iter().any(|word| word == "--timeout") {
        global.timeout = own.timeout;
    }
    // mqadmin never asked, so a script with its commands has nobody to answer.
    let unasked = line.changes && global.yes.is_none() && !std::io::stdin().is_terminal();
    if unasked {
        global.yes = Some(None);
    }
    if !args.no_hint && !global.quiet {
        let mut text = shown(&words);
        text.push_str(&servers);
        if unasked {
            text.push_str(" --yes");
        }
        talk(&format!("mqadmin {} is now: {text}", old.name));
        for note in &line.notes {
            talk(&format!("note: {note}"));
        }
    }
    Ok((cli, words, line.secret))
}

/// What says which servers a line is about, so that the new one asks the same: what stands in the environment does so too.
fn servers(outer: &Global, given: Option<&str>) -> String {
    let from = |variable: &str| std::env::var(variable).ok();
    let outer_servers = outer
        .namesrv
        .as_ref()
        .filter(|v| from("RMQ_NAMESRV").as_ref() != Some(*v));
    let servers = given.or(outer_servers.map(String::as_str));
    let context = outer
        .context
        .as_ref()
        .filter(|v| from("RMQ_CONTEXT").as_ref() != Some(*v));
    let mut text = String::new();
    for (flag, value) in [("-n", servers), ("--context", context.map(String::as_str))] {
        if let Some(value) = value {
            text.push_str(&format!(" {flag} {}", quoted(value)));
        }
    }
    text
}

fn shown(words: &[String]) -> String {
    words
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}

fn talk(text: &str) {
    use std::io::Write as _;
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The failure for an old command that `rmq` has none for.
fn none(name: &str, why: &str) -> Failure {
    Failure::new(
        exit::UNSUPPORTED,
        format!("mqadmin {name} has no counterpart in rmq"),
    )
    .because(why)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Commands of rmq that an old name stands for and that are not in the grammar yet.
    const MISSING: &[&str] = &[];

    /// Old names without a counterpart of one form.
    const NO_FORM: &[&str] = &[
        "updateOrderConf",
        "setCommitLogReadAheadMode",
        "exportMetadataInRocksDB",
        "rocksDBConfigToJson",
    ];

    /// A value for an option; what it is does not matter to the grammar.
    fn value_of(name: &str, short: &str, long: &str) -> &'static str {
        match (name, short) {
            ("getConsumerConfig" | "updateSubGroup" | "deleteSubGroup", "g") => "CG_ORDERS",
            ("setConsumeMode", "m") => "POP",
            ("updateOrderConf", "m") => "put",
            ("updateOrderConf", "v") => "broker-a:4;broker-b:4",
            ("updateTopic", "a") => "+message.type=FIFO",
            ("updateSubGroup", "attributes") => "+a=1",
            (_, "c") if long.starts_with("charset") => "GBK",
            ("updateSubGroup", "p") => r#"{"type":"EXPONENTIAL"}"#,
            ("cleanBrokerMetadata", "b") => "2",
            ("createUser" | "updateUser", "t") => "Normal",
            ("updateUser", "s") => "disable",
            ("createAcl" | "updateAcl", "a") => "Pub,Sub",
            ("createAcl" | "updateAcl" | "deleteAcl", "r") => "Topic:T",
            ("checkRocksdbCqWriteProgress", "cf") => "now",
            (_, "t") if long == "configType" => "topics",
            ("createAcl" | "updateAcl", "s") => "User:alice",
            ("createAcl" | "updateAcl", "d") => "Allow",
            ("createAcl" | "updateAcl", "i") => "10.0.0.0/8",
            ("setCommitLogReadAheadMode", "m") => "0",
            ("exportPopRecord", "d") => "false",
            ("allocateMQ", "i") => "10.0.0.1,10.0.0.2",
            ("consumerStatus" | "getConsumerStatus", "i") => "10.0.0.9@1",
            ("copyAcl" | "copyUser", "f" | "t") => "10.0.0.1:10911",
            ("DecodeMessageId", _) => "7F00000100002A9F0000000000000346",
            ("brokerConsumeStats", "o") => "false",
            ("wipeWritePerm" | "addWritePerm", "b") => "broker-a",
            ("removeBroker", "b") => "C1:broker-a:0",
            ("producer" | "addBroker" | "removeBroker", "b" | "c") => "10.0.0.1:10911",
            (_, "s" | "b" | "e") if long.to_lowercase().contains("timestamp") => "now",
            (_, "f") if long == "force" => "true",
            _ => match long.trim() {
                "brokerAddr" | "broker" | "controllerAddress" => "10.0.0.1:10911",
                "readQueueNums"
                | "writeQueueNums"
                | "amount"
                | "size"
                | "count"
                | "queue"
                | "queueId"
                | "index"
                | "offset"
                | "qid"
                | "MessageNumber"
                | "maxNum"
                | "interval"
                | "messageSize"
                | "level"
                | "timeoutMillis"
                | "retryQueueNums"
                | "retryMaxTimes"
                | "brokerId"
                | "threshold"
                | "whichBrokerWhenConsumeSlowly"
                | "popShareQueueNum" => "7",
                "perm" => "6",
                "order"
                | "unit"
                | "hasUnitSub"
                | "consumeEnable"
                | "consumeFromMinEnable"
                | "printBody"
                | "print msg"
                | "consumeBroadcastEnable"
                | "consumeMessageOrderly"
                | "showClientIP"
                | "notifyConsumerIdsChanged"
                | "removeOffset"
                | "jsonEnable" => "true",
                _ => "X",
            },
        }
    }

    /// A line with every required option.
    fn example(old: &Old) -> Vec<String> {
        let mut words = Vec::new();
        for (short, long, has_value) in old.options {
            // Options that exclude each other, or choose another command, are tried one by one below.
            if matches!(
                (old.name, *short),
                (_, "c") if old.options.iter().any(|(s, _, _)| *s == "b") && old.name != "electMaster"
                    && old.name != "consumeMessage" && old.name != "queryMsgByUniqueKey" && *long != "maxNum"
                    && *long != "tags" && *long != "charsetName " && *long != "count" && *long != "brokerContainerAddr"
            ) {
                continue;
            }
            words.push(format!("-{short}"));
            if *has_value {
                words.push(value_of(old.name, short, long).to_owned());
            }
        }
        words
    }

    fn parses(old: &Old, words: &[String]) -> Result<String, String> {
        let given = Given::read(old, words).map_err(|e| e.text())?;
        let line = match (old.line)(&given) {
            Ok(line) => line,
            Err(failure) if failure.exit == exit::UNSUPPORTED => return Ok(String::new()),
            Err(failure) => return Err(failure.text()),
        };
        let mut argv = vec!["rmq".to_owned()];
        argv.extend(line.words);
        let text = argv.join(" ");
        match super::super::command().try_get_matches_from(&argv) {
            Ok(_) => Ok(text),
            Err(e) => Err(format!(
                "{text}: {}",
                e.to_string().lines().next().unwrap_or_default()
            )),
        }
    }

    #[test]
    fn every_old_name_is_a_line_that_our_grammar_parses() {
        let mut wrong = Vec::new();
        for old in table() {
            let all = example(old);
            // Each option that excludes others alone with the required ones, too.
            let mut lines = vec![all.clone()];
            if old.options.iter().any(|(s, _, _)| *s == "c") && old.options.iter().any(|(s, _, _)| *s == "b")
            {
                let mut other = Vec::new();
                let mut skip = false;
                for word in &all {
                    if skip {
                        skip = false;
                        continue;
                    }
                    if word == "-b" {
                        skip = true;
                        continue;
                    }
                    other.push(word.clone());
                }
                other.extend(["-c".to_owned(), "C1".to_owned()]);
                lines.push(other);
            }
            for (i, words) in lines.iter().enumerate() {
                if let Err(why) = parses(old, words) {
                    // Only the first line must read: the second may leave out what the command needs.
                    if i == 0 && !MISSING.contains(&old.name) {
                        wrong.push(format!("{}: {why}", old.name));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// The line of some options, each with a value that is not mqadmin's default; `None` where it is refused.
    fn line_of(old: &Old, options: &[&OldOption]) -> Option<Line> {
        let mut words = Vec::new();
        for (short, long, has_value) in options {
            words.push(format!("-{short}"));
            if *has_value {
                let value = match (old.name, *short) {
                    ("brokerConsumeStats", "o")
                    | ("exportPopRecord", "d")
                    | ("printMsgByQueue", "p" | "d" | "f")
                    | ("queryMsgById", "s")
                    | ("sendMessage", "m")
                    | (_, "fr") => "true",
                    ("printMsg", "d") => "false",
                    _ => value_of(old.name, short, long),
                };
                words.push(value.to_owned());
            }
        }
        let given = Given::read(old, &words).unwrap();
        (old.line)(&given).ok()
    }

    /// Nothing of an old line is left out without a word: it could be what keeps a change small.
    #[test]
    fn no_option_of_an_old_line_is_dropped_in_silence() {
        let mut dropped = BTreeSet::new();
        for old in table() {
            let all: Vec<&OldOption> = old.options.iter().filter(|(short, _, _)| *short != "n").collect();
            // What cannot be left away.
            let mut least = all.clone();
            for option in &all {
                let without: Vec<&OldOption> = least.iter().copied().filter(|o| o != option).collect();
                if line_of(old, &without).is_some() {
                    least = without;
                }
            }
            let mut check = |before: Vec<&OldOption>, option: &OldOption| {
                let mut with = before.clone();
                with.extend(old.options.iter().filter(|o| *o == option));
                let Some(line) = line_of(old, &with) else { return };
                let without = line_of(old, &before);
                let same = without.is_some_and(|w| {
                    (&w.words, &w.notes, &w.secret) == (&line.words, &line.notes, &line.secret)
                });
                let told = line
                    .notes
                    .iter()
                    .any(|note| note.contains(&format!("-{}", option.0)));
                if same && !told {
                    let beside: Vec<&str> = before.iter().map(|o| o.0).collect();
                    dropped.insert(format!("{} -{} beside {}", old.name, option.0, beside.join(" ")));
                }
            };
            let rest: Vec<&OldOption> = all.iter().copied().filter(|o| !least.contains(o)).collect();
            for option in &rest {
                check(least.clone(), option);
                check(all.iter().copied().filter(|o| o != option).collect(), option);
                for other in rest.iter().filter(|other| other != &option) {
                    let mut two = least.clone();
                    two.push(other);
                    check(two, option);
                }
            }
        }
        assert!(dropped.is_empty(), "{dropped:#?}");
    }

    #[test]
    fn a_reset_of_one_queue_is_one_of_one_queue() {
        let line = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            parses(find("resetOffsetByTime").unwrap(), &words)
        };
        let group = "rmq group reset CG --topic T";
        for (words, wanted) in [
            (
                "-g CG -t T -b 10.0.0.1:10911 -q 3 -s 2026-11-29#16:00:00:000",
                "--queue 10.0.0.1:10911/3 --to 2026-11-29#16:00:00:000 --broker 10.0.0.1:10911 --execute",
            ),
            (
                "-g CG -t T -b 10.0.0.1:10911 -q 3 -o 0 -s now",
                "--queue 10.0.0.1:10911/3=0 --broker 10.0.0.1:10911 --execute",
            ),
            ("-g CG -t T -s -1", "--to latest --execute"),
            ("-g CG -t T -s 0 -c C1", "--to earliest --execute --cluster C1"),
        ] {
            assert_eq!(line(words), Ok(format!("{group} {wanted}")), "{words}");
        }
        for wrong in [
            "-g CG -t T -s now -b 10.0.0.1:10911",
            "-g CG -t T -s now -q 3",
            "-g CG -t T -s now -o 3",
            "-g CG -t T -s -1 -b 10.0.0.1:10911 -q 3",
        ] {
            assert!(line(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_names_of_mqadmin_are_there_once() {
        let names: BTreeSet<String> = table().map(|old| old.name.to_lowercase()).collect();
        assert_eq!(names.len(), 93);
        assert_eq!(table().count(), 93);
    }

    #[test]
    fn an_old_line_is_read_as_commons_cli_reads_it() {
        let old = find("UPDATETOPIC").unwrap();
        for line in [
            "-t T -c C1 -p 4 -n a:1",
            "--topic T --clusterName C1 --perm 4 --namesrvAddr a:1",
            "-t=T -c=C1 -p=4 -n=a:1",
            "--topic=T --clusterName=C1 --perm=4 -na:1",
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let given = Given::read(old, &words).unwrap();
            assert_eq!(given.namesrv.as_deref(), Some("a:1"), "{line}");
            let line = (old.line)(&given).unwrap();
            assert_eq!(
                line.words.join(" "),
                "topic update T --create --cluster C1 --perm 4"
            );
        }
        for bad in ["-t", "-z 1", "-c C1", "-t T -c C1 stray"] {
            let words: Vec<String> = bad.split(' ').map(str::to_owned).collect();
            let read = Given::read(old, &words).and_then(|given| (old.line)(&given));
            assert_eq!(read.err().map(|f| f.exit), Some(exit::USAGE), "{bad}");
        }
    }

    /// F15: mqadmin declared -mf and looked for -f.
    #[test]
    fn static_topics_have_their_commands() {
        for (words, wanted) in [
            (
                "updateStaticTopic -t T -qn 8 -c C1",
                "static-topic update T --queues 8 --create --cluster C1",
            ),
            (
                "updateStaticTopic -t T -qn 8 -b broker-a,broker-b",
                "static-topic update T --queues 8 --create --broker broker-a,broker-b",
            ),
            (
                "updateStaticTopic -t T -qn 8 -b broker-a -mf /tmp/T.after -fr true",
                "static-topic update T --map-file /tmp/T.after --force-replace",
            ),
            (
                "remappingStaticTopic -t T -b broker-b",
                "static-topic remap T --broker broker-b",
            ),
            (
                "remappingStaticTopic -t T -c C1,C2 -mf /tmp/T.after",
                "static-topic remap T --map-file /tmp/T.after",
            ),
        ] {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            assert_eq!(
                parses(find(&words[0]).unwrap(), &words[1..]).unwrap(),
                format!("rmq {wanted}")
            );
        }
    }

    #[test]
    fn help_of_an_old_name_has_its_options_and_the_new_form() {
        for line in ["help UPDATETOPIC", "updateTopic -h", "updateTopic -t T --help"] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let old = asked_for_help(&words).unwrap().expect(line);
            let text = help(old);
            assert!(text.contains("\n  -p, --perm VALUE\n"), "{text}");
            assert!(
                text.contains("\nIt is now:\n  rmq topic update TOPIC --create\n"),
                "{text}"
            );
            assert!(
                text.ends_with("rmq topic update --help shows all that it takes."),
                "{text}"
            );
        }
        let unknown = asked_for_help(&["help".into(), "topicLst".into()]);
        assert_eq!(unknown.err().map(|f| f.exit), Some(exit::USAGE));
        let without: Vec<&str> = table()
            .filter(|old| !help(old).contains("\nIt is now:\n"))
            .map(|old| old.name)
            .collect();
        assert_eq!(without, NO_FORM);
    }

    #[test]
    fn an_unknown_name_offers_the_near_ones() {
        let failure = find("topicLst").err().unwrap();
        assert!(failure.text().contains("topicList"), "{failure:?}");
        assert!(failure.text().contains("Try: rmq mqadmin help"), "{failure:?}");
        assert_eq!(names().len(), 93);
    }
}
