//! The cells' equations in float64, one unit at a time. Gates are the products, to which the biases are still to be added.

use super::memory::Memory;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The gates of a row: those of one kind stand together.
pub struct Gates<'a> {
    pub product: &'a [f64],
    pub bias: &'a Memory<f32>,
    pub hidden: usize,
}

impl Gates<'_> {
    /// A gate of a unit with its bias.
    fn of(&self, gate: usize, unit: usize) -> f64 {
        let at = gate * self.hidden + unit;
        self.product[at] + f64::from(self.bias[at])
    }

    fn each(&self, of_unit: impl Fn(usize) -> [f64; 2]) -> Vec<f64> {
        let units: Vec<[f64; 2]> = (0..self.hidden).map(of_unit).collect();
        units
            .iter()
            .map(|[h, _]| *h)
            .chain(units.iter().map(|[_, c]| *c))
            .collect()
    }

    /// \[h|c\] of an LSTM, from its c.
    pub fn lstm(&self, c: &[f32]) -> Vec<f64> {
        self.each(|k| {
            let [i, f, o] = [0, 1, 3].map(|gate| sigmoid(self.of(gate, k)));
            let c = f * f64::from(c[k]) + i * self.of(2, k).tanh();
            [o * c.tanh(), c]
        })
    }

    /// \[h|c\] of a node in a tree whose children leave `kept` of their c, a number for each unit.
    pub fn node(&self, kept: &[f64]) -> Vec<f64> {
        self.each(|k| {
            let [i, o] = [0, 1].map(|gate| sigmoid(self.of(gate, k)));
            let c = kept[k] + i * self.of(2, k).tanh();
            [o * c.tanh(), c]
        })
    }

    /// What the child behind a gate leaves of its c.
    pub fn kept(&self, gate: usize, c: &[f32]) -> Vec<f64> {
        (0..self.hidden)
            .map(|k| sigmoid(self.of(gate, k)) * f64::from(c[k]))
            .collect()
    }

    /// The h of a GRU that the reset gate leaves.
    pub fn reset(&self, h: &[f32]) -> Vec<f64> {
        self.kept(0, h)
    }

    /// h of a GRU, from its h and the product of the candidate.
    pub fn gru(&self, candidate: &[f64], h: &[f32]) -> Vec<f64> {
        let of_unit = |k: usize| {
            let z = sigmoid(self.of(1, k));
            let n = (candidate[k] + f64::from(self.bias[2 * self.hidden + k])).tanh();
            (1.0 - z) * n + z * f64::from(h[k])
        };
        (0..self.hidden).map(of_unit).collect()
    }
}
