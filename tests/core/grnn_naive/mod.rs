//! GRNN's performance model from its equations only: integers where possible, fractions compared by
//! cross-multiplication, powers by another law. It contains the Titan V's constants as printed in the paper.

/// A valid mapping and its cost.
pub struct Configuration {
    pub width: u64,
    pub height: u64,
    pub groups: u64,
    pub size: u64,
    pub barriers: u64,
    pub blocks: u64,
    pub cost: f64,
}

/// All valid mappings, in any order. `uneven` includes those whose threads are not a multiple of 128.
pub fn naive(lstm: bool, hidden: u64, batch: u64, widest: u64, uneven: bool) -> Vec<Configuration> {
    all(lstm, [hidden, hidden, 80], batch, widest, uneven)
}

/// Those of a layer of several LSTM layers that run at once: dot products cover input and state, and the layer has a
/// share of the multiprocessors. Tiles divide the state evenly.
pub fn naive_layer(hidden: u64, batch: u64, layers: u64) -> Vec<Configuration> {
    let mut valid = all(true, [hidden, 2 * hidden, 80 / layers], batch, 64, false);
    valid.retain(|one| hidden.is_multiple_of(one.width));
    valid
}

/// `sizes`: the width of the state, the length of a dot product, and the multiprocessors.
fn all(lstm: bool, sizes: [u64; 3], batch: u64, widest: u64, uneven: bool) -> Vec<Configuration> {
    let gates = if lstm { 4 } else { 2 };
    let mut valid = Vec::new();
    for size in [1, 2, 4, 8, 16, 32] {
        for groups in 1..=gates * widest {
            let threads = groups * size;
            if threads > 1024 || (!uneven && !threads.is_multiple_of(128)) {
                continue;
            }
            for width in (1..=widest).filter(|width| (gates * width).is_multiple_of(groups)) {
                for height in (1..=batch).filter(|height| batch.is_multiple_of(*height)) {
                    for barriers in if lstm { 1..=1 } else { 1..=2 } {
                        let one = Configuration {
                            width,
                            height,
                            groups,
                            size,
                            barriers,
                            blocks: 0,
                            cost: 0.0,
                        };
                        valid.extend(one.checked(lstm, sizes, batch));
                    }
                }
            }
        }
    }
    valid
}

impl Configuration {
    /// With its blocks and its cost, if it is valid.
    fn checked(mut self, lstm: bool, sizes: [u64; 3], batch: u64) -> Option<Configuration> {
        let [state, hidden, processors] = sizes;
        let gates = if lstm { 4 } else { 2 };
        let threads = self.groups * self.size;
        let outputs = self.width * gates / self.groups;
        self.blocks = state.div_ceil(self.width) * (batch / self.height);
        // The weights of a thread, times twice the size of a group.
        let scale = 2 * self.size;
        let weights = match (lstm, self.barriers) {
            (true, _) => 2 * outputs * hidden,
            (false, 2) => 3 * outputs * hidden,
            (false, _) => 2 * outputs * hidden + scale * self.width * hidden.div_ceil(threads),
        };
        let fits = weights <= 224 * scale && (weights + 32 * scale) * threads <= 65_536 * scale;
        (self.blocks <= processors && fits && outputs * self.height <= self.size).then(|| {
            self.cost = self.priced(lstm, hidden as f64, [outputs, threads, processors]);
            self
        })
    }

    fn priced(&self, lstm: bool, hidden: f64, [outputs, threads, processors]: [u64; 3]) -> f64 {
        let double = self.barriers == 2;
        let (width, height, size) = (self.width as f64, self.height as f64, self.size as f64);
        let warps = threads.div_ceil(128);

        let numbers = match (lstm, double) {
            (true, _) => 1.0,
            (false, true) => 2.0,
            (false, false) => 1.0 + hidden / width,
        };
        let sharing = if 2 * self.blocks < processors {
            1.0
        } else if self.blocks < processors {
            2.0
        } else {
            3.0
        };
        let memory = numbers * sharing * hidden * height / 64.0;

        // a^log2(x) = x^log2(a).
        let each = match (warps * outputs) as f64 {
            both if both <= 8.0 => {
                (warps as f64).powf(1.6f64.log2()) * (outputs as f64).powf(1.33f64.log2())
            }
            both => both * 4.7 / 8.0,
        };
        let product = each * height * hidden / size;
        let product = match (lstm, double) {
            (true, _) => product,
            (false, true) => 1.5 * product,
            (false, false) => product + width + hidden / width,
        };

        let steps = [1.0, 2.0, 3.0, 4.0, 5.0, 5.0][self.size.trailing_zeros() as usize];
        let values = (warps * outputs * self.height) as f64;
        let stretch = if values < 12.0 {
            (values * 1.03f64.ln()).exp()
        } else {
            (8.0 * 1.03f64.ln()).exp() * values / 12.0
        };
        let reduction = 7.0 * steps * stretch * if lstm { 1.0 } else { 2.0 };

        cents(memory) + reduction + cents(product) + if double { 200.0 } else { 0.0 }
    }
}

fn cents(number: f64) -> f64 {
    (number * 100.0).round_ties_even() / 100.0
}
