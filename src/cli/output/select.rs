//! Which rows are printed, and in which order: `--sort-by` and `--filter`.

use super::{Cell, Listing, Printer};
use crate::cli::exit::Failure;

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

impl Filter {
    /// True when some row of a listing fulfils every condition. A column that is not there is an error.
    pub fn any(&self, listing: &Listing) -> Result<bool, Failure> {
        let mut at = Vec::new();
        for condition in &self.0 {
            at.push((Printer::index(listing, &condition.key)?, condition));
        }
        Ok(listing
            .rows
            .iter()
            .any(|row| at.iter().all(|(i, condition)| condition.holds(&row[*i]))))
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
    /// True for a row that it lets pass; an unknown column is a wrong usage.
    pub fn keeps(&self, listing: &Listing, row: &[Cell]) -> Result<bool, Failure> {
        for condition in &self.0 {
            let at = Printer::index(listing, &condition.key)?;
            if !condition.holds(&row[at]) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Condition {
    pub(super) fn holds(&self, cell: &Cell) -> bool {
        let text = cell.raw();
        let order = || match (cell.number(), self.value.parse::<f64>()) {
            (Some(a), Ok(b)) => a.partial_cmp(&b),
            (None, _) if matches!(cell, Cell::Unknown) => None,
            _ => Some(text.as_str().cmp(self.value.as_str())),
        };
        let has = || text.to_lowercase().contains(&self.value.to_lowercase());
        let same = || order() == Some(std::cmp::Ordering::Equal) || text == self.value;
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
}
