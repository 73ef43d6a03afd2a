//! Whether a network fits in this machine's memory.

use super::compute::{reads, writes};
use super::tensor;
use crate::error::{Error, Result};
use crate::workload::dnn::{Dnn, Work};

/// Bytes of a number.
const FLOAT: u128 = size_of::<f32>() as u128;

/// Refuses a network that is larger than the memory that is free, where the system says how much that is.
///
/// # Errors
/// Begins with `model`; says what it takes, and what there is.
pub fn fits(network: &Dnn) -> Result<()> {
    within(network, available().unwrap_or(u128::MAX))
}

fn within(network: &Dnn, available: u128) -> Result<()> {
    let works = || network.distinct().iter().map(|operator| operator.form.at(network.most_tokens().unwrap_or(0)));
    let tensors = || network.distinct().iter().filter_map(tensor).map(|(_, shape)| shape.map(|n| n as u128));
    let sizes = || tensors().map(|[outputs, inputs]| outputs * inputs * FLOAT);
    // The largest stands beside its packed form once.
    let weights = sizes().sum::<u128>() + sizes().max().unwrap_or(0);
    // An operator reads one activation and writes another; products of a query's own matrices are brought together one by one.
    let of_query = |work: Work| {
        let matrices = u128::from(reads(&work)) / u128::from(work.count.max(1));
        (u128::from(reads(&work)) + u128::from(writes(&work)) + matrices) * FLOAT
    };
    let query = works().map(of_query).max().unwrap_or(0);
    if weights + query <= available {
        return Ok(());
    }
    Err(Error::input(format!(
        "model: dnn:{} needs {} for its weights and {} for a query, and {} of memory are free; take a smaller network, or run it \
         with batchlab sim",
        network.given(),
        gibibytes(weights),
        gibibytes(query),
        gibibytes(available)
    )))
}

fn gibibytes(bytes: u128) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// The bytes that Linux could give away without swapping; `None` where it does not say so, or where there is no Linux.
fn available() -> Option<u128> {
    let said = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = said.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u128 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_network_that_is_too_large_is_refused_with_its_size() {
        let text =
            "shape,fixed\nname,kind,rows,inner,columns,elements\nwide,matmul,1,1024,524288,1\nlast,memory,,,,4096\n";
        let network = Dnn::parse("n.csv", Path::new("n.csv"), text).unwrap();
        assert!(within(&network, 5 << 30).is_ok(), "4 GiB: 2 for the weights, and 2 while they are packed");
        assert_eq!(
            within(&network, 4 << 30).unwrap_err().to_string(),
            "model: dnn:n.csv needs 4.0 GiB for its weights and 0.0 GiB for a query, and 4.0 GiB of memory are free; take a \
             smaller network, or run it with batchlab sim"
        );
        if cfg!(target_os = "linux") {
            assert!(available().is_some_and(|bytes| bytes > 1 << 20));
        }
    }
}
