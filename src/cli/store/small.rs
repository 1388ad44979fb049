//! `rmq store checkpoint` and `rmq store config`: the small files.

use clap::Args;

use super::{Place, int};
use crate::cli::exit::{self, Failure};
use crate::cli::output::{Cell, Detail, Listing, col, wide};
use crate::cli::session::Session;
use crate::inspect::{Store, TableFile, TableState, tables};

/// `rmq store config`
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    place: Place,
    /// Print the content of this table, as a broker would load it
    #[arg(value_name = "TABLE")]
    table: Option<String>,
}

/// Shows the checkpoint.
pub fn checkpoint(session: &Session, store: &Store) -> Result<(), Failure> {
    let Some(found) = store.checkpoint()? else {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("there is no checkpoint in {}", store.root().display()),
        )
        .because("After a crash a broker without one reads the whole log."));
    };
    session.printer.print_detail(Detail {
        kind: "Checkpoint",
        fields: vec![
            ("log_flushed_to", Cell::time(Some(found.physic_msg_timestamp))),
            ("queues_flushed_to", Cell::time(Some(found.logics_msg_timestamp))),
            ("index_flushed_to", Cell::time(Some(found.index_msg_timestamp))),
            ("recover_from", Cell::time(Some(found.recover_from()))),
            ("master_flushed_offset", found.master_flushed_offset.into()),
            ("confirm_offset", found.confirm_phy_offset.into()),
        ],
        ..Detail::default()
    })
}

/// The tables as rows.
pub fn listing(tables: &[TableFile]) -> Listing {
    let mut listing = Listing::new(
        "StoreTableList",
        &[
            col("name"),
            col("state"),
            col("backup"),
            col("entries"),
            col("data_version"),
            wide("size"),
            col("note"),
        ],
    );
    for table in tables {
        let note = match (&table.state, &table.backup) {
            (TableState::Broken(reason), backup) if backup.is_good() => {
                Cell::from(format!("{reason}; a broker loads the .bak"))
            }
            (TableState::Broken(reason), _) => reason.as_str().into(),
            (TableState::Missing | TableState::Empty, backup) if backup.is_good() => {
                "a broker loads the .bak".into()
            }
            _ => Cell::Unknown,
        };
        listing.push(vec![
            table.name.as_str().into(),
            table.state.name().into(),
            table.backup.name().into(),
            table.entries().map_or(Cell::Unknown, Cell::from),
            table.version().map_or(Cell::Unknown, Cell::from),
            table.bytes.map_or(Cell::Unknown, int),
            note,
        ]);
    }
    listing
}

/// Shows the tables, or the content of one.
pub fn config(session: &Session, args: &ConfigArgs) -> Result<(), Failure> {
    let store = args.place.open()?;
    let found = tables(&store)?;
    if let Some(name) = &args.table {
        return content(&found, name);
    }
    let verdict = verdict(&found);
    session.printer.print(listing(&found))?;
    verdict
}

fn verdict(found: &[TableFile]) -> Result<(), Failure> {
    let bad: Vec<&str> = found
        .iter()
        .filter(|table| !table.state.is_good())
        .map(|table| table.name.as_str())
        .collect();
    if bad.is_empty() {
        return Ok(());
    }
    let is_lost = found.iter().any(|table| table.content().is_none());
    let exit = if is_lost { exit::ERRORS } else { exit::WARNINGS };
    Err(Failure::new(exit, format!("not loadable: {}", bad.join(", "))))
}

fn content(found: &[TableFile], name: &str) -> Result<(), Failure> {
    let bare = |name: &str| name.trim_end_matches(".json").to_owned();
    let Some(table) = found
        .iter()
        .find(|table| table.name == name || bare(&table.name) == bare(name))
    else {
        let known: Vec<&str> = found.iter().map(|table| table.name.as_str()).collect();
        return Err(Failure::new(exit::NOT_FOUND, format!("there is no table {name}"))
            .because(format!("There are: {}.", known.join(", "))));
    };
    let Some(content) = table.content() else {
        return Err(Failure::new(
            exit::ERRORS,
            format!("neither {} nor its .bak can be loaded", table.name),
        ));
    };
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, content).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
