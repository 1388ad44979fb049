//! One object: its fields, and the tables that belong to it.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Cell, Choice, Filter, Format, Listing, Printer, SortBy, col, item, metrics};
use crate::cli::exit::Failure;

/// Kind of a table of names and their values.
pub const PROPERTIES: &str = "Properties";

/// One object: named values, and tables that belong to it.
#[derive(Debug, Clone, Default)]
pub struct Detail {
    /// JSON kind, such as `Broker`.
    pub kind: &'static str,
    /// Key and value, in order.
    pub fields: Vec<(&'static str, Cell)>,
    /// Tables under their JSON key.
    pub tables: Vec<(&'static str, Listing)>,
    /// Targets that failed.
    pub errors: Vec<Failure>,
}

impl Detail {
    /// The fields as the one row of a table.
    pub fn field_row(&self) -> Listing {
        let (keys, cells): (Vec<_>, Vec<_>) = self.fields.iter().cloned().unzip();
        let mut listing = Listing {
            kind: self.kind,
            columns: keys.into_iter().map(col).collect(),
            ..Listing::default()
        };
        listing.push(cells);
        listing
    }
}

impl Filter {
    fn fits(&self, listing: &Listing) -> bool {
        self.0.iter().all(|condition| has(listing, &condition.key))
    }
}

impl Detail {
    fn has_field(&self, key: &str) -> bool {
        self.fields.iter().any(|(field, _)| same_key(field, key))
    }
}

/// A field by its JSON name or without the unit, in either case.
fn same_key(field: &str, key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    field.trim_end_matches("_ms") == key.trim_end_matches("_ms")
}

fn has(listing: &Listing, key: &str) -> bool {
    listing.position(key).is_some()
}

impl Printer {
    /// Filter, order and columns on a table that has what they name; another one stays as it is.
    fn arrange_table(&self, listing: Listing) -> Result<Listing, Failure> {
        let named = self.columns.iter().flatten().map(|key| key.to_ascii_lowercase());
        let columns: Vec<String> = named.filter(|key| has(&listing, key)).collect();
        let choice = Choice {
            filter: self.filter.as_ref().filter(|filter| filter.fits(&listing)),
            sort: self.sort.as_ref().filter(|sort| has(&listing, &sort.key)),
            // Of a name and its value neither stands alone.
            columns: (!columns.is_empty() && listing.kind != PROPERTIES).then_some(columns),
        };
        self.arrange_by(choice, listing)
    }

    /// What is chosen must be in some table, or it was a slip.
    fn check_choice(&self, details: &[Detail]) -> Result<(), Failure> {
        let tables = || {
            details
                .iter()
                .flat_map(|detail| &detail.tables)
                .map(|(_, table)| table)
        };
        let known =
            |key: &str| tables().any(|table| has(table, key)) || details.iter().any(|d| d.has_field(key));
        let missing = |what: &str| {
            let names: BTreeSet<&str> = tables().flat_map(|t| t.columns.iter().map(|c| c.key)).collect();
            let names: Vec<&str> = names.into_iter().collect();
            Failure::usage(match names.as_slice() {
                [] => format!("there is no table with {what} here, only fields"),
                names => format!("no table here has {what}; the columns are {}", names.join(", ")),
            })
        };
        if let Some(filter) = &self.filter
            && !tables().any(|table| filter.fits(table))
        {
            let keys: Vec<&str> = filter.0.iter().map(|condition| condition.key.as_str()).collect();
            return Err(missing(&format!("\"{}\"", keys.join("\" and \""))));
        }
        let sort = self.sort.iter().map(|SortBy { key, .. }| key.clone());
        if let Some(key) = sort
            .into_iter()
            .find(|key| !tables().any(|table| has(table, key)))
        {
            return Err(missing(&format!("a column \"{key}\"")));
        }
        let mut columns = self.columns.iter().flatten().map(|key| key.to_ascii_lowercase());
        match columns.find(|key| !known(key)) {
            Some(key) => {
                let fields: BTreeSet<&str> = details
                    .iter()
                    .flat_map(|d| d.fields.iter().map(|f| f.0))
                    .collect();
                let fields: Vec<&str> = fields.into_iter().collect();
                let mut failure = missing(&format!("a column \"{key}\""));
                failure.what = format!("{}; the fields are {}", failure.what, fields.join(", "));
                Err(failure)
            }
            None => Ok(()),
        }
    }

    /// Writes one object to `out`.
    pub fn write_detail(&self, detail: Detail, out: &mut dyn Write) -> Result<(), Failure> {
        self.check_choice(std::slice::from_ref(&detail))?;
        self.write_checked(detail, out)
    }

    /// The fields that are chosen. Who chooses fields and no column of a table gets no table.
    fn chosen(&self, mut detail: Detail) -> Detail {
        let Some(columns) = &self.columns else {
            return detail;
        };
        if !columns.iter().any(|key| detail.has_field(key)) {
            return detail;
        }
        if !columns
            .iter()
            .any(|key| detail.tables.iter().any(|(_, table)| has(table, key)))
        {
            detail.tables.clear();
        }
        detail.fields = columns
            .iter()
            .filter_map(|key| {
                detail
                    .fields
                    .iter()
                    .find(|(field, _)| same_key(field, key))
                    .cloned()
            })
            .collect();
        detail
    }

    fn write_checked(&self, detail: Detail, out: &mut dyn Write) -> Result<(), Failure> {
        let detail = match self.format {
            // A document chooses for each of its objects.
            Format::Json => detail,
            _ => self.chosen(detail),
        };
        match self.format {
            Format::Table | Format::Wide => {
                let width = detail.fields.iter().map(|f| f.0.len()).max().unwrap_or(0);
                for (key, cell) in &detail.fields {
                    writeln!(out, "{key:width$}  {}", cell.text(&self.zone))?;
                }
                for (key, listing) in detail.tables {
                    let listing = self.arrange_table(listing)?;
                    if !listing.rows.is_empty() {
                        writeln!(out, "\n{key}")?;
                        out.write_all(self.table(&listing).as_bytes())?;
                    }
                }
            }
            Format::Json | Format::Jsonl => {
                if self.format == Format::Jsonl {
                    let object = self.object(detail.fields, detail.tables)?;
                    serde_json::to_writer(&mut *out, &object).map_err(io::Error::from)?;
                    out.write_all(b"\n")?;
                } else {
                    self.write_documents(vec![detail], out)?;
                }
            }
            Format::Csv => {
                let mut csv = csv::Writer::from_writer(&mut *out);
                if self.headers {
                    csv.write_record(["field", "value"]).map_err(io::Error::from)?;
                }
                for (key, cell) in &detail.fields {
                    csv.write_record([*key, &cell.raw()]).map_err(io::Error::from)?;
                }
                csv.flush()?;
                drop(csv);
                for (key, listing) in detail.tables {
                    let mut listing = self.arrange_table(listing)?;
                    if !listing.rows.is_empty() {
                        // A blank line, and rows that say which table they are of.
                        listing.columns.insert(0, col("table"));
                        for row in &mut listing.rows {
                            row.insert(0, key.into());
                        }
                        out.write_all(b"\n")?;
                        self.csv(&listing, out)?;
                    }
                }
            }
            Format::Name => {
                if let Some((_, cell)) = detail.fields.first() {
                    writeln!(out, "{}", cell.raw())?;
                }
            }
            Format::Prometheus => {
                metrics(&detail.field_row(), out)?;
            }
        }
        Ok(())
    }

    /// The fields and tables of one object as JSON.
    fn object(
        &self,
        fields: Vec<(&'static str, Cell)>,
        tables: Vec<(&'static str, Listing)>,
    ) -> Result<Value, Failure> {
        let mut object = Map::new();
        for (key, cell) in &fields {
            cell.json(key, &mut object);
        }
        for (key, listing) in tables {
            let listing = self.arrange_table(listing)?;
            object.insert(key.to_owned(), nested(&listing));
        }
        Ok(Value::Object(object))
    }

    /// Writes objects of one kind as one JSON document.
    fn write_documents(&self, details: Vec<Detail>, out: &mut dyn Write) -> Result<(), Failure> {
        let kind = details.first().map_or("", |detail| detail.kind);
        let (mut items, mut errors) = (Vec::new(), Vec::new());
        for detail in details {
            let detail = self.chosen(detail);
            items.push(self.object(detail.fields, detail.tables)?);
            errors.extend(detail.errors);
        }
        let document = self.envelope(kind, items, Map::new(), &errors);
        serde_json::to_writer_pretty(&mut *out, &document).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        Ok(())
    }

    /// Prints objects of one kind on stdout; as JSON they are one document.
    pub fn print_details(&self, details: Vec<Detail>) -> Result<(), Failure> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        self.write_details(details, &mut out)?;
        out.flush()?;
        Ok(())
    }

    /// Writes objects of one kind to `out`.
    pub fn write_details(&self, details: Vec<Detail>, out: &mut dyn Write) -> Result<(), Failure> {
        self.check_choice(&details)?;
        if self.format == Format::Json {
            return self.write_documents(details, out);
        }
        for (i, detail) in details.into_iter().enumerate() {
            if i > 0 && self.format == Format::Csv {
                out.write_all(b"\n")?;
            }
            self.write_checked(detail, out)?;
        }
        Ok(())
    }

    /// Prints one object on stdout.
    pub fn print_detail(&self, detail: Detail) -> Result<(), Failure> {
        if let Some(desk) = &self.desk {
            let mut text = Vec::new();
            self.write_detail(detail, &mut text)?;
            desk.say(&String::from_utf8_lossy(&text));
            return Ok(());
        }
        let mut out = io::BufWriter::new(io::stdout().lock());
        self.write_detail(detail, &mut out)?;
        out.flush()?;
        Ok(())
    }
}

/// A table of a detail: properties are an object, as they are in a row.
fn nested(listing: &Listing) -> Value {
    if listing.kind == PROPERTIES {
        let pairs = listing.rows.iter().filter_map(|row| match row.as_slice() {
            [Cell::Text(key), value] => Some((key.clone(), json!(value.raw()))),
            _ => None,
        });
        return Value::Object(pairs.collect());
    }
    let rows = listing.rows.iter().map(|row| item(&listing.columns, row));
    Value::Array(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::tests::printer;

    fn detail() -> Detail {
        let mut queues = Listing::new("Queues", &[col("broker"), col("queue"), col("lag")]);
        queues.push(vec!["a".into(), 0.into(), 7.into()]);
        queues.push(vec!["b".into(), 1.into(), 9.into()]);
        let mut clients = Listing::new("Clients", &[col("client")]);
        clients.push(vec!["x,y".into()]);
        Detail {
            kind: "Group",
            fields: vec![("name", "CG".into())],
            tables: vec![("queues", queues), ("clients", clients)],
            ..Detail::default()
        }
    }

    fn text(printer: &Printer) -> Result<String, Failure> {
        let mut out = Vec::new();
        printer.write_detail(detail(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_choice_is_of_the_tables_that_have_it() {
        let mut p = printer(Format::Table);
        p.filter = Some("lag>8".parse().unwrap());
        p.columns = Some(vec!["LAG".into(), "broker".into()]);
        assert_eq!(
            text(&p).unwrap(),
            "name  CG\n\nqueues\nLAG  BROKER\n  9  b\n\nclients\nCLIENT\nx,y\n"
        );
        p.columns = None;
        p.sort = Some("lag:desc".parse().unwrap());
        p.filter = None;
        p.format = Format::Json;
        let value: Value = serde_json::from_str(&text(&p).unwrap()).unwrap();
        assert_eq!(value["items"][0]["queues"][0]["lag"], 9);
        assert_eq!(value["items"][0]["clients"][0]["client"], "x,y");
        let wrong: [fn(&mut Printer); 3] = [
            |p| p.columns = Some(vec!["nope".into()]),
            |p| p.sort = Some("nope".parse().unwrap()),
            // No one table has both.
            |p| p.filter = Some("lag>8 && client~x".parse().unwrap()),
        ];
        for choose in wrong {
            let mut p = printer(Format::Table);
            choose(&mut p);
            let failure = text(&p).unwrap_err();
            assert_eq!(failure.exit, crate::cli::exit::USAGE);
        }
    }

    #[test]
    fn fields_can_be_chosen_as_columns_are() {
        let mut p = printer(Format::Table);
        p.columns = Some(vec!["NAME".into()]);
        assert_eq!(text(&p).unwrap(), "name  CG\n");
        p.columns = Some(vec!["name".into(), "client".into()]);
        assert!(text(&p).unwrap().contains("CLIENT\n"));
        p.format = Format::Json;
        p.columns = Some(vec!["name".into()]);
        let value: Value = serde_json::from_str(&text(&p).unwrap()).unwrap();
        assert_eq!(value["items"][0], json!({"name": "CG"}));
    }

    #[test]
    fn csv_has_the_fields_and_the_tables() {
        assert_eq!(
            text(&printer(Format::Csv)).unwrap(),
            "field,value\nname,CG\n\ntable,broker,queue,lag\nqueues,a,0,7\nqueues,b,1,9\n\n\
             table,client\nclients,\"x,y\"\n"
        );
    }

    #[test]
    fn properties_are_an_object() {
        let mut properties = Listing::new(PROPERTIES, &[col("property"), col("value")]);
        properties.push(vec!["KEYS".into(), "a b".into()]);
        let detail = Detail {
            kind: "Message",
            tables: vec![("properties", properties)],
            ..Detail::default()
        };
        let mut out = Vec::new();
        printer(Format::Json).write_detail(detail, &mut out).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["items"][0]["properties"], json!({"KEYS": "a b"}));
    }
}
