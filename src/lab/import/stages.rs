//! A network in stages from a cost table of whole batches, for policies that run networks stage by stage.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::base::error::{Error, Result, refuse_if};
use crate::core::cost::table::CostTable;
use crate::core::workload::input::{self, fields};
use crate::core::workload::row_names;

/// The most stages.
const MOST: usize = 1_000;
/// The largest share of a stage, so that the sum of all is finite.
const LARGEST_SHARE: f64 = 1e9;

/// A network of stages that share the time of one cell.
#[derive(Debug)]
pub struct StagedNetwork {
    /// The network's file (`dnn:FILE.csv`).
    pub network: String,
    /// Its cost table: the rows of the cell, divided, and all rows of other cells.
    pub costs: String,
}

impl StagedNetwork {
    /// Divides the rows of a cell in the text of a cost table. `shares` has the relative time of each stage. The times of
    /// the stages add up to that of the cell, to the nanosecond.
    ///
    /// # Errors
    /// The table is wrong, it has no rows of the cell, it has rows that a stage would have, or the shares are no numbers
    /// above 0 and up to 10^9.
    pub fn divide(text: &str, name: &str, cell: &str, shares: &[f64]) -> Result<StagedNetwork> {
        refuse_if(shares.is_empty() || shares.len() > MOST, || {
            Error::input(format!(
                "--shares: {} stages; a network has from 1 to {MOST}",
                shares.len()
            ))
        })?;
        for share in shares {
            refuse_if(!(*share > 0.0 && *share <= LARGEST_SHARE), || {
                Error::input(format!(
                    "--shares: {share:?} is not a share; a share is a number above 0, up to {LARGEST_SHARE:e}"
                ))
            })?;
        }
        let sum: f64 = shares.iter().sum();
        CostTable::parse(text, name)?;
        let mut lines = input::lines(text);
        let (_, header) = lines.next().expect("a table that was read has a header");
        let header = fields(header);
        let place = |column: &str| header.iter().position(|name| name == column);
        let (Some(cells), Some(batches), Some(times)) =
            (place("cell"), place("batch"), place("ns"))
        else {
            return Err(Error::input(format!(
                "{name}: iterations of a language model have no stages"
            )));
        };
        let inputs = place("input");
        let mut known = BTreeSet::new();
        let mut most_input = 0;
        let mut costs = format!(
            "# The rows of {cell} in {name}, divided into {} stages\ncell,batch,ns{}\n",
            shares.len(),
            if inputs.is_some() { ",input" } else { "" }
        );
        for (_, line) in lines {
            let row = fields(line);
            let input: u32 = inputs.map_or(0, |place| row[place].parse().unwrap_or(0));
            let mut add = |cell: &str, ns: u64| {
                let batch = &row[batches];
                let written = match inputs {
                    Some(_) => writeln!(costs, "{cell},{batch},{ns},{input}"),
                    None => writeln!(costs, "{cell},{batch},{ns}"),
                };
                written.expect("a text takes all");
            };
            let time: u64 = row[times].parse().expect("a table that was read has times");
            known.insert(row[cells].to_string());
            if row[cells] != *cell {
                add(&row[cells], time);
                continue;
            }
            most_input = most_input.max(input);
            let mut before = 0;
            let mut reached = 0.0;
            for (number, share) in (1..).zip(shares) {
                reached += share;
                let end = (time as f64 * (reached / sum)).round() as u64;
                // Above 2^53 ns the product may be rounded up beyond the time.
                let end = if number == shares.len() {
                    time
                } else {
                    end.min(time)
                };
                add(&stage_name(number), end - before);
                before = end;
            }
        }
        refuse_if(!known.contains(cell), || {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            Error::input(format!(
                "{name}: no rows for the cell \"{cell}\"; the table has: {}",
                known.join(", ")
            ))
        })?;
        if let Some(part) = known.iter().find(|other| {
            row_names::refuse_reserved(other).is_err() && other.starts_with(&format!("{cell}."))
        }) {
            return Err(Error::input(format!(
                "{name}: the rows \"{part}\" can't be divided into stages; remove them"
            )));
        }
        for number in 1..=shares.len() {
            let stage = stage_name(number);
            let rows = known
                .iter()
                .find(|other| *other != cell && other.split('.').next() == Some(stage.as_str()));
            if let Some(rows) = rows {
                return Err(Error::input(format!(
                    "{name}: has rows \"{rows}\" already, and a stage becomes \"{stage}\"; rename them"
                )));
            }
        }
        let shape = match most_input {
            0 => "shape,fixed".to_string(),
            most => format!("shape,tokens,{most}"),
        };
        let mut network =
            format!("# The stages of {cell}, whose times are in a cost table\n{shape}\n");
        network += "name,kind,elements\n";
        for number in 1..=shares.len() {
            network += &format!("{},memory,1\n", stage_name(number));
        }
        Ok(StagedNetwork { network, costs })
    }
}

fn stage_name(number: usize) -> String {
    format!("stage{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_add_up_to_the_cell() {
        let table = "cell,batch,ns,stddev_ns\nresnet50,1,10,0\nresnet50,8,101,5\ntask,1,3,0\n";
        let staged = StagedNetwork::divide(table, "t.csv", "resnet50", &[1.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            staged.costs,
            "# The rows of resnet50 in t.csv, divided into 3 stages\ncell,batch,ns\nstage1,1,3\nstage2,1,2\nstage3,1,5\n\
             stage1,8,25\nstage2,8,26\nstage3,8,50\ntask,1,3\n"
        );
        assert_eq!(
            staged.network,
            "# The stages of resnet50, whose times are in a cost table\nshape,fixed\nname,kind,elements\n\
             stage1,memory,1\nstage2,memory,1\nstage3,memory,1\n"
        );
        let table = "cell,batch,ns,input\nbert,1,10,64\nbert,1,20,128\n";
        let staged = StagedNetwork::divide(table, "t.csv", "bert", &[1.0, 1.0]).unwrap();
        assert!(staged.network.contains("shape,tokens,128\n"));
        assert!(staged.costs.ends_with("stage1,1,10,128\nstage2,1,10,128\n"));
    }

    #[test]
    fn the_longest_times_are_divided() {
        let shares = [1e9, 1e9, 1e-9];
        for time in [u64::MAX, (1 << 53) + 1, (1 << 60) - 1] {
            let table = format!("cell,batch,ns\nnet,1,{time}\n");
            let staged = StagedNetwork::divide(&table, "t.csv", "net", &shares).unwrap();
            let stages = staged.costs.lines().skip(2);
            let times = stages.map(|row| row.rsplit_once(',').unwrap().1.parse::<u64>().unwrap());
            assert_eq!(times.map(u128::from).sum::<u128>(), time.into());
        }
    }

    #[test]
    fn mistakes_are_named() {
        let table = "cell,batch,ns\nresnet50,1,10\n";
        for (text, cell, shares, message) in [
            (
                table,
                "bert",
                &[1.0][..],
                "t.csv: no rows for the cell \"bert\"; the table has: resnet50",
            ),
            (
                table,
                "resnet50",
                &[1.0, 0.0],
                "--shares: 0.0 is not a share; a share is a number above 0, up to 1e9",
            ),
            (
                table,
                "resnet50",
                &[1e308, 1e308],
                "--shares: 1e308 is not a share; a share is a number above 0, up to 1e9",
            ),
            (
                table,
                "resnet50",
                &[],
                "--shares: 0 stages; a network has from 1 to 1000",
            ),
            (
                "cell,batch,ns\nresnet50,1,1.5\n",
                "resnet50",
                &[1.0],
                "t.csv:2: ns: \"1.5\" is not a whole number of nanoseconds, 0 or more; 1.5 ms are 1500000",
            ),
            (
                "cell,tokens,context,ns\nllm,1,1,10\n",
                "llm",
                &[1.0],
                "t.csv: iterations of a language model have no stages",
            ),
            (
                "cell,batch,ns\nnet,1,10\nstage2,1,5\n",
                "net",
                &[1.0, 1.0],
                "t.csv: has rows \"stage2\" already, and a stage becomes \"stage2\"; rename them",
            ),
        ] {
            let error = StagedNetwork::divide(text, "t.csv", cell, shares).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
