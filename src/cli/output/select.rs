//! Which rows are printed, and in which order: `--sort-by` and `--filter`.

use super::table::human;
use super::value::{self, Kind};
use super::{Cell, Listing, Printer};
use crate::cli::exit::Failure;
use crate::cli::time::Zone;

/// `--sort-by col[:desc]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortBy {
    pub(super) key: String,
    pub(super) descending: bool,
}

impl std::str::FromStr for SortBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, order) = text.split_once(':').unwrap_or((text, "asc"));
        match order {
            "asc" | "desc" if !key.is_empty() => Ok(Self {
                key: key.to_ascii_lowercase(),
                descending: order == "desc",
            }),
            _ => Err(format!("\"{text}\" is not COLUMN[:desc]")),
        }
    }
}

/// `--filter 'name~ORDERS && lag>100'`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(pub(super) Vec<Condition>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) key: String,
    op: &'static str,
    value: String,
}

impl std::str::FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split("&&")
            .map(|part| {
                // Two-character operators first, and the leftmost operator wins: values may contain others.
                let (at, op) = ["!=", "!~", ">=", "<=", "=", "~", ">", "<"]
                    .into_iter()
                    .filter_map(|op| part.find(op).map(|at| (at, op)))
                    .min_by_key(|(at, op)| (*at, std::cmp::Reverse(op.len())))
                    .ok_or_else(|| {
                        format!(
                            "\"{}\" is not a condition; use COLUMN OP VALUE with = != ~ !~ > >= < <=",
                            part.trim()
                        )
                    })?;
                let value = &part[at + op.len()..];
                // `=>` is no operator, and hardly a value: one that begins so stands in quotes.
                if let Some(more) = value.chars().next().filter(|c| "=!<>~".contains(*c)) {
                    let meant = match (op, more) {
                        ("=", '>' | '<') => format!("{more}="),
                        ("=", '!' | '~') => format!("{more}"),
                        _ => op.to_owned(),
                    };
                    return Err(format!(
                        "\"{op}{more}\" in \"{}\" is not an operator; use {meant}, or quote a value that begins so",
                        part.trim()
                    ));
                }
                Ok(Condition {
                    key: part[..at].trim().to_ascii_lowercase(),
                    op,
                    value: value.trim().trim_matches('\'').to_owned(),
                })
            })
            .collect::<Result<_, String>>()
            .map(Self)
    }
}

/// As it is written, so that it reads back.
impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, condition) in self.0.iter().enumerate() {
            let and = if i == 0 { "" } else { " && " };
            write!(f, "{and}{}{}'{}'", condition.key, condition.op, condition.value)?;
        }
        Ok(())
    }
}

impl Filter {
    /// True when some row of a listing fulfils every condition. A column that is not there is an error.
    pub fn any(&self, listing: &Listing, zone: &Zone) -> Result<bool, Failure> {
        let mut rows = listing.rows.iter().collect();
        self.retain(listing, &mut rows, zone)?;
        Ok(!rows.is_empty())
    }

    /// True for a row that it lets pass; an unknown column is a wrong usage, and so is a value that is none of its column.
    pub fn keeps(&self, listing: &Listing, row: &[Cell], zone: &Zone) -> Result<bool, Failure> {
        let row = row.to_vec();
        let mut rows = vec![&row];
        self.retain(listing, &mut rows, zone)?;
        Ok(!rows.is_empty())
    }

    /// Leaves the rows that fulfil every condition. Every value is looked at before a row goes, so that a slip is told
    /// whatever the other conditions say.
    pub(super) fn retain(
        &self,
        listing: &Listing,
        rows: &mut Vec<&Vec<Cell>>,
        zone: &Zone,
    ) -> Result<(), Failure> {
        let mut at = Vec::new();
        for condition in &self.0 {
            let i = Printer::index(listing, &condition.key)?;
            let key = listing.columns[i].key;
            condition.check(key, rows.iter().map(|row| &row[i]), zone)?;
            at.push((i, key, condition));
        }
        rows.retain(|row| {
            at.iter()
                .all(|(i, key, condition)| condition.holds(key, &row[*i], zone))
        });
        Ok(())
    }
}

impl Condition {
    /// Refuses a value that is none of its column: it would fit no row, and an empty answer looks like a true one.
    fn check<'a>(
        &self,
        key: &str,
        cells: impl Iterator<Item = &'a Cell>,
        zone: &Zone,
    ) -> Result<(), Failure> {
        // A part of a text is looked for, or cells that say nothing.
        if self.op.ends_with('~') || (self.is_unknown() && matches!(self.op, "=" | "!=")) {
            return Ok(());
        }
        let mut wrong = None;
        for cell in cells {
            match value::kind(key, cell) {
                // A column of several types has values that are texts.
                Some(Kind::Text) => return Ok(()),
                Some(kind) if value::read(kind, &self.value, zone).is_none() => wrong = Some(kind),
                _ => {}
            }
        }
        match wrong {
            Some(kind) => Err(Failure::usage(format!(
                "\"{}\" is no value of the column {key}; use {}",
                self.value,
                kind.forms()
            ))),
            None => Ok(()),
        }
    }

    fn is_unknown(&self) -> bool {
        matches!(self.value.as_str(), "" | "-")
    }

    fn holds(&self, key: &str, cell: &Cell, zone: &Zone) -> bool {
        let (raw, shown) = (cell.raw(), cell.text(zone));
        let order = || match value::kind(key, cell)? {
            Kind::Text => Some(raw.as_str().cmp(self.value.as_str())),
            kind => value::number(cell)?.partial_cmp(&value::read(kind, &self.value, zone)?),
        };
        let has = || {
            let part = self.value.to_lowercase();
            [&raw, &shown]
                .iter()
                .any(|text| text.to_lowercase().contains(&part))
        };
        // What is printed is the value too, rounded as it may be.
        let same = || {
            order() == Some(std::cmp::Ordering::Equal)
                || [&raw, &shown].contains(&&self.value)
                || matches!(cell, Cell::Int(v) if human(*v) == self.value)
        };
        match self.op {
            "=" => same(),
            "!=" => !same(),
            "~" => has(),
            "!~" => !has(),
            ">" => order().is_some_and(std::cmp::Ordering::is_gt),
            ">=" => order().is_some_and(std::cmp::Ordering::is_ge),
            "<" => order().is_some_and(std::cmp::Ordering::is_lt),
            _ => order().is_some_and(std::cmp::Ordering::is_le),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_operator_is_no_value() {
        for (text, meant) in [
            ("lag=>12", ">="),
            ("lag =< 12", "<="),
            ("lag==12", "="),
            ("name=~x", "~"),
            ("lag><12", ">"),
            ("lag<>12", "<"),
            ("name~a && lag=>12", ">="),
        ] {
            let told = text.parse::<Filter>().unwrap_err();
            assert!(told.contains(&format!("use {meant},")), "{text}: {told}");
        }
        // Quoted it is a value, and so it is printed.
        let quoted: Filter = "name='=>x'".parse().unwrap();
        assert_eq!(quoted.to_string().parse(), Ok(quoted));
        for good in ["lag>=12", "lag<=-1", "name!=a", "name!~b", "k=a=b"] {
            assert!(good.parse::<Filter>().is_ok(), "{good}");
        }
    }

    /// §4: a filter takes what the table prints.
    #[test]
    fn a_value_is_read_as_its_column_prints_it() {
        use super::super::{Format, col, tests::printer};
        let columns = ["disk", "stored", "order", "count", "lag_time_ms", "bytes"].map(col);
        let mut listing = Listing::new("Rows", &columns);
        listing.push(vec![
            Cell::Ratio(0.4391),
            Cell::Time(1_795_973_628_318),
            true.into(),
            1500.into(),
            Cell::Span(400_000),
            (3 << 20).into(),
        ]);
        listing.push(vec![
            Cell::Ratio(0.1),
            Cell::Time(1_700_000_000_000),
            false.into(),
            12.into(),
            Cell::Span(90_000_000),
            12.into(),
        ]);
        let kept = |text: &str| {
            let mut p = printer(Format::Csv);
            p.filter = Some(text.parse().unwrap());
            p.arrange(listing.clone()).map(|kept| {
                kept.rows
                    .iter()
                    .map(|row| row[3].raw())
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        for (text, rows) in [
            ("DISK > 40%", "1500"),
            ("disk = 44%", "1500"),
            ("disk < 0.4", "12"),
            ("STORED > 2026-11-29 17:33:48", "1500"),
            ("stored = 2026-11-29 17:33:48.318", "1500"),
            ("stored_ms < 1795973628318", "12"),
            ("stored < -1h && stored > 2025-01-01", ""),
            ("ORDER = yes", "1500"),
            ("order = FALSE", "12"),
            ("order ~ ye", "1500"),
            ("count > 1k", "1500"),
            ("count = 1.50k", "1500"),
            ("LAG_TIME > 10m", "12"),
            ("lag_time_ms = 1d 1h", "12"),
            ("lag_time = 6m 40s", "1500"),
            ("lag_time <= 400000", "1500"),
            ("bytes >= 3MiB", "1500"),
            ("count != -", "12 1500"),
        ] {
            if !text.contains("-1h") {
                assert_eq!(kept(text).unwrap(), rows, "{text}");
            } else {
                assert!(kept(text).is_ok(), "{text}");
            }
        }
        for text in [
            "disk > 40",
            "disk > half",
            "stored > yesterday",
            "stored > latest",
            "order = ja",
            "count > many",
            "count > 4%",
            "count > 5m",
            "lag_time > 5 apples",
            "count > -",
            "count < 3 && order = ja",
        ] {
            let failure = kept(text).unwrap_err();
            assert_eq!(failure.exit, crate::cli::exit::USAGE, "{text}");
        }
    }
}
