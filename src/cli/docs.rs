//! `rmq man`: written from the grammar.

use std::fs;
use std::path::Path;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::exit::{CODES, Failure};

/// Writes one page a command, `rmq-config.5` and `rmq-exit-codes.7` into `dir`.
pub fn write_man_pages(dir: &Path) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::usage(format!("cannot write to {}: {e}", dir.display()));
    fs::create_dir_all(dir).map_err(failed)?;
    let mut root = super::command().disable_help_subcommand(true);
    root.build();
    pages(&root, "rmq", dir).map_err(failed)?;
    fs::write(dir.join("rmq-config.5"), config_page()).map_err(failed)?;
    fs::write(dir.join("rmq-exit-codes.7"), exit_page()).map_err(failed)
}

fn pages(command: &clap::Command, name: &str, dir: &Path) -> std::io::Result<()> {
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    let command = command
        .clone()
        .name(name.to_owned())
        .bin_name(name.replace('-', " "));
    let mut page = Vec::new();
    // No date: a page changes only when the command does.
    Man::new(command)
        .title(name.to_owned())
        .date(String::new())
        .source(concat!("rmq ", env!("CARGO_PKG_VERSION")))
        .manual("RocketMQ for operators")
        .render(&mut page)?;
    let page = String::from_utf8_lossy(&page).replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n");
    fs::write(dir.join(format!("{name}.1")), page)
}

fn head(title: &str, section: &str, about: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control(
        "TH",
        [
            title,
            section,
            "",
            concat!("rmq ", env!("CARGO_PKG_VERSION")),
            "RocketMQ for operators",
        ],
    );
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{title} - {about}"))]);
    roff
}

fn exit_page() -> String {
    let mut roff = head("rmq-exit-codes", "7", "exit codes of rmq");
    roff.control("SH", ["EXIT CODES"]);
    for (code, kind, text) in CODES {
        roff.control("TP", []);
        roff.text([bold(code.to_string())]);
        roff.text([roman(format!("{text} ({kind} in JSON errors)"))]);
    }
    roff.control("SH", ["ERRORS"]);
    roff.text([roman(
        "An error on standard error names what was asked, the server with its address, the server's response code, \
         its name and its remark, why this happens where that is known, and one next command. With -o json it is one \
         JSON object under the key error.",
    )]);
    roff.to_roff()
}

/// Keys of the configuration file with their meaning.
const CONFIG_KEYS: &[(&str, &str)] = &[
    ("current", "name of the context in use when none is named"),
    ("journal", "false turns the change journal off"),
    (
        "defaults.output",
        "output form: table, wide, json, jsonl, csv, name, prometheus",
    ),
    ("defaults.timeout", "limit of one request, such as 5s"),
    (
        "keys.ACTION",
        "key, or list of keys, of an action of the dashboard; see below",
    ),
    ("contexts.NAME.namesrv", "list of name server addresses"),
    ("contexts.NAME.cluster", "default for --cluster"),
    (
        "contexts.NAME.protected",
        "true makes every change ask for the cluster's name; only --yes=CLUSTER answers it",
    ),
    (
        "contexts.NAME.read_only",
        "true refuses every request that can change state",
    ),
    (
        "contexts.NAME.broker_map",
        "table of announced broker addresses (host, host:port, *:port or network) to addresses to dial",
    ),
    (
        "contexts.NAME.tls",
        "table: ca, cert, key (PEM files) and insecure; an empty one is TLS with this system's authorities",
    ),
    (
        "contexts.NAME.via_proxy",
        "SOCKS5 proxy, HOST:PORT, that dials name servers and brokers for us",
    ),
    (
        "contexts.NAME.access_key",
        "account that signs the requests, as --access-key",
    ),
    (
        "contexts.NAME.secret_key_file",
        "file with the account's secret; refused when others than its owner may read it",
    ),
    ("contexts.NAME.security_token_file", "file with a temporary token"),
    ("contexts.NAME.output", "output form in this context"),
    ("contexts.NAME.timeout", "limit of one request in this context"),
    (
        "contexts.NAME.colour",
        "colour of the dashboard's badge with the context's name: black, red, green, yellow, blue, magenta, cyan, white, each \
         also with bright- in front",
    ),
    (
        "contexts.NAME.interval",
        "time between two looks of the dashboard at this cluster, such as 5s",
    ),
];

/// Actions of the dashboard with what they do and the keys that they have without a configuration, in the order of the
/// key table.
fn actions() -> Vec<(&'static str, String)> {
    let mut actions: Vec<(&'static str, Vec<&'static str>, &'static str)> = Vec::new();
    for binding in crate::tui::keys::TABLE {
        let name = binding.command.action();
        let at = actions.iter().position(|(known, ..)| *known == name);
        let at = at.unwrap_or_else(|| {
            actions.push((name, Vec::new(), binding.help));
            actions.len() - 1
        });
        for key in binding.keys {
            if !actions[at].1.contains(key) {
                actions[at].1.push(key);
            }
        }
    }
    let text = |keys: &[&str], help: &str| match keys {
        [] => format!("{help} (no key)"),
        keys => format!("{help} ({})", keys.join(" ")),
    };
    let lines = actions.into_iter();
    lines
        .map(|(name, keys, help)| (name, text(&keys, help)))
        .collect()
}

/// Environment variables with their meaning.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("RMQ_NAMESRV", "as --namesrv"),
    ("NAMESRV_ADDR", "name servers when RMQ_NAMESRV is not set"),
    ("RMQ_CONTEXT", "as --context"),
    ("RMQ_CONFIG", "as --config"),
    ("RMQ_OUTPUT", "as --output"),
    ("RMQ_TIMEOUT", "as --timeout"),
    ("RMQ_CONTROLLER", "as --controller of rmq controller"),
    ("RMQ_ACCESS_KEY", "as --access-key"),
    ("RMQ_SECRET_KEY", "the account's secret"),
    (
        "ROCKETMQ_HOME",
        "its conf/tools.yml gives accessKey and secretKey when nothing else does",
    ),
    ("NO_COLOR", "no colour when set"),
];

fn config_page() -> String {
    let mut roff = head("rmq-config", "5", "configuration file of rmq");
    roff.control("SH", ["FILES"]);
    roff.text([roman(
        "~/.config/rmq/config.toml, else /etc/rmq/config.toml. Changes are recorded in \
         ~/.local/state/rmq/journal.jsonl.",
    )]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "A TOML file with named contexts. A flag wins over the environment, the environment over the context, the \
         context over [defaults]. A key that has no effect is reported.",
    )]);
    roff.control("SH", ["KEYS"]);
    for (key, text) in CONFIG_KEYS {
        roff.control("TP", []);
        roff.text([bold(*key)]);
        roff.text([roman(*text)]);
    }
    roff.control("SH", ["KEYS OF THE DASHBOARD"]);
    roff.text([roman(
        "[keys] gives an action of rmq tui other keys, by its name: quit = \"Q\" or refresh = [\"f5\", \"r\"]; an empty list \
         takes its keys away. A key is one character, enter, tab, space, backspace, delete, an arrow (up, down, left, right), \
         home, end, pgup, pgdn or f1 to f12, with ctrl-, alt- or shift- in front where wanted; a letter with shift is its \
         capital. esc, ctrl-c, ctrl-z and 1 to 9 keep their meaning. Dialogs that take text have fixed keys, shown in their \
         last line. An action that does not exist, a text that is no key and two actions of one screen on one key are errors. \
         Each action with what it does and its keys:",
    )]);
    for (action, text) in actions() {
        roff.control("TP", []);
        roff.text([bold(action)]);
        roff.text([roman(text)]);
    }
    roff.control("SH", ["THEMES OF THE DASHBOARD"]);
    roff.text([roman(
        "themes/NAME.toml beside the configuration file is the theme NAME of rmq tui. Each slot takes a colour: one of the \
         terminal's sixteen by name (black, red, green, yellow, blue, magenta, cyan, white, each also with bright- in front), \
         one of 256 by number, \"#rrggbb\", or \"default\", which is that of ordinary text: what the slots text and background \
         are where the theme sets them, else the terminal's own. base names the built-in theme that has the others (default, \
         light, safe). NO_COLOR and --no-color win. The slots:",
    )]);
    for (slot, text) in crate::tui::view::own_theme::SLOTS {
        roff.control("TP", []);
        roff.text([bold(slot)]);
        roff.text([roman(text)]);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for (key, text) in ENVIRONMENT {
        roff.control("TP", []);
        roff.text([bold(*key)]);
        roff.text([roman(*text)]);
    }
    roff.to_roff()
}
