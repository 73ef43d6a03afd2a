//! A cost table from the CSV file that Triton's perf_analyzer writes with `-f`.
//!
//! One client at a time (concurrency 1) with requests of b rows makes the server run batches of exactly b, so their
//! compute time is the time of a batch. With more clients the server may join requests, and the size is unknown.

use std::collections::BTreeMap;

use crate::base::error::{Error, Result, refuse_if};
use crate::base::units::Nanos;
use crate::core::cost::table::MAX_BATCH;
use crate::core::workload::row_names;

/// The time of each batch size, and the rows that could not be used, each with the reason.
#[derive(Debug, Default)]
pub struct MeasuredTimes {
    pub times: BTreeMap<u32, Nanos>,
    pub unused: Vec<String>,
}

impl MeasuredTimes {
    /// Adds the rows of a file. `batch` is the size of all requests in a file without a column `Batch Size`.
    ///
    /// # Errors
    /// The file has no compute times of the server, or no batch sizes.
    pub fn add(&mut self, text: &str, name: &str, batch: Option<u32>) -> Result<()> {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let header = reader
            .headers()
            .map_err(|error| Error::input(format!("{name}: {error}")))?
            .clone();
        let column = |wanted: &[&str]| {
            header
                .iter()
                .position(|name| wanted.contains(&name.to_lowercase().as_str()))
        };
        let missing = |what: &str| Error::input(format!("{name}: line 1: no column {what}"));
        let infer = column(&["server compute infer", "server compute"]).ok_or_else(|| {
            missing("Server Compute Infer; run perf_analyzer against Triton with -f")
        })?;
        let sizes = column(&["batch size", "batch"]);
        if sizes.is_none() && batch.is_none() {
            return Err(missing(
                "Batch Size; add it, or write SIZE=FILE for a file with requests of one size",
            ));
        }
        let clients = column(&["concurrency"])
            .ok_or_else(|| missing("Concurrency; measure with --concurrency-range 1"))?;
        let [input, output] =
            ["server compute input", "server compute output"].map(|name| column(&[name]));
        for (record, line) in reader.records().zip(2..) {
            let record =
                record.map_err(|error| Error::input(format!("{name}: line {line}: {error}")))?;
            let number = |column: usize| {
                let text = record.get(column).unwrap_or_default();
                let number = text
                    .parse()
                    .ok()
                    .filter(|number: &f64| number.is_finite() && *number >= 0.0);
                number.ok_or_else(|| {
                    format!("{}: \"{text}\" is not a number, 0 or more", &header[column])
                })
            };
            let read = || -> Result<(u32, Nanos), String> {
                let size = sizes.map_or(Ok(batch.unwrap_or_default().into()), number)?;
                refuse_if(
                    size < 1.0 || size.fract() != 0.0 || size > f64::from(MAX_BATCH),
                    || format!("the batch size {size} is not a whole number from 1 to {MAX_BATCH}"),
                )?;
                let clients = number(clients)?;
                refuse_if(clients != 1.0, || {
                    format!("at a concurrency of {clients} the server may join requests of {size}")
                })?;
                let micros = [input, Some(infer), output]
                    .into_iter()
                    .flatten()
                    .map(number)
                    .sum::<Result<f64, String>>()?;
                refuse_if(!(micros > 0.0 && micros < 1e12), || {
                    format!("a compute time of {micros} µs")
                })?;
                let size = size as u32;
                refuse_if(self.times.contains_key(&size), || {
                    format!("the batch size {size} has a row already")
                })?;
                Ok((size, Nanos::round(micros * 1e3)))
            };
            match read() {
                Ok((size, time)) => drop(self.times.insert(size, time)),
                Err(reason) => self.unused.push(format!("{name}: line {line}: {reason}")),
            }
        }
        Ok(())
    }

    /// The times as a cost table for one cell.
    ///
    /// # Errors
    /// No row could be used, or the cell can't have this name.
    pub fn table(&self, cell: &str) -> Result<String> {
        if self.times.is_empty() {
            let rows = self.unused.join("\n");
            return Err(Error::input(format!(
                "no row can be used; measure with --concurrency-range 1\n{rows}"
            )));
        }
        if cell.is_empty() || cell.contains([',', '"', '#', '\n', '\r']) {
            return Err(Error::input(format!(
                "{cell:?}: the name of a cell has no comma, quote, # or line break"
            )));
        }
        row_names::refuse_reserved(cell).map_err(Error::Input)?;
        let rows = self
            .times
            .iter()
            .map(|(batch, time)| format!("{cell},{batch},{}\n", time.0));
        Ok(format!("cell,batch,ns\n{}", rows.collect::<String>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute \
                          Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency";

    #[test]
    fn rows_of_one_client_are_times_of_batches() {
        let text = format!(
            "Batch Size,{HEADER}\n1,1,90,1,1,60,20,1000.5,4,0,1100\n8,1,400,1,1,60,20,3000,4,0,3100\n\
             8,4,500,1,1,900,20,5000,4,0,6000\n0,1,1,1,1,1,1,1,1,1,1\n16,1,1,1,1,1,x,1,1,1,1\n"
        );
        let mut measured = MeasuredTimes::default();
        measured.add(&text, "p.csv", None).unwrap();
        assert_eq!(
            measured.table("bert").unwrap(),
            "cell,batch,ns\nbert,1,1024500\nbert,8,3024000\n"
        );
        assert_eq!(
            measured.unused,
            [
                "p.csv: line 4: at a concurrency of 4 the server may join requests of 8",
                "p.csv: line 5: the batch size 0 is not a whole number from 1 to 1048576",
                "p.csv: line 6: Server Compute Input: \"x\" is not a number, 0 or more",
            ]
        );
        measured
            .add(
                &format!("{HEADER}\n1,90,1,1,60,0,700,0,0,1\n"),
                "q.csv",
                Some(4),
            )
            .unwrap();
        assert_eq!(measured.times[&4], Nanos(700_000));
    }

    #[test]
    fn a_negative_time_is_not_used() {
        let mut measured = MeasuredTimes::default();
        let rows = "Batch Size,Concurrency,Server Compute Input,Server Compute Infer\n1,1,-5,1000\n2,1,5,1000\n";
        measured.add(rows, "p.csv", None).unwrap();
        assert_eq!(
            measured.unused,
            ["p.csv: line 2: Server Compute Input: \"-5\" is not a number, 0 or more"]
        );
        assert_eq!(measured.times.len(), 1);
    }

    #[test]
    fn files_without_the_columns_are_refused() {
        for (text, batch, message) in [
            (
                "a,b\n1,2\n",
                None,
                "f: line 1: no column Server Compute Infer",
            ),
            (HEADER, None, "f: line 1: no column Batch Size"),
            (
                "Request Rate,Server Compute Infer\n1,2\n",
                Some(1),
                "f: line 1: no column Concurrency",
            ),
        ] {
            let error = MeasuredTimes::default()
                .add(text, "f", batch)
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(message), "{error}");
        }
        let measured = MeasuredTimes {
            times: [(1, Nanos(5))].into(),
            unused: Vec::new(),
        };
        for (cell, message) in [
            (
                "a,b",
                "\"a,b\": the name of a cell has no comma, quote, # or line break",
            ),
            (
                "task",
                "\"task\" has a meaning of its own in cost tables; take another",
            ),
            (
                "bert.demand",
                "\"bert.demand\" has a meaning of its own in cost tables; take another",
            ),
        ] {
            assert_eq!(measured.table(cell).unwrap_err().to_string(), message);
        }
        assert!(
            MeasuredTimes::default()
                .table("a")
                .unwrap_err()
                .to_string()
                .contains("no row can be used")
        );
    }
}
