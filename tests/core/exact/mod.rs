//! Exact results of queueing theory, in any unit of time.

/// The probabilities of 0, 1, 2, … events, until they no longer matter.
fn poisson(mean: f64) -> Vec<f64> {
    let most = (mean + 12.0 * mean.sqrt() + 30.0) as usize;
    let mut log = -mean;
    (0..=most)
        .map(|k| {
            if k > 0 {
                log += mean.ln() - (k as f64).ln();
            }
            log.exp()
        })
        .collect()
}

/// The stationary distribution of a chain on `0..states` that goes from `x` to `rest(x)` plus a random number with the
/// distribution `gains[kind(x)]`. States beyond the range count as the last.
fn stationary(
    states: usize,
    rest: impl Fn(usize) -> usize,
    gains: &[Vec<f64>],
    kind: impl Fn(usize) -> usize,
) -> Vec<f64> {
    let mut now = vec![0.0; states];
    now[0] = 1.0;
    loop {
        let mut next = vec![0.0; states];
        for (x, weight) in now
            .iter()
            .enumerate()
            .filter(|(_, weight)| **weight > 1e-18)
        {
            for (k, chance) in gains[kind(x)].iter().enumerate() {
                next[(rest(x) + k).min(states - 1)] += weight * chance;
            }
        }
        let moved: f64 = next.iter().zip(&now).map(|(a, b)| (a - b).abs()).sum();
        now = next;
        if moved < 1e-13 {
            let total: f64 = now.iter().sum();
            return now.into_iter().map(|p| p / total).collect();
        }
    }
}

/// M/G/1, mean wait: Pollaczek and Khinchine, from the first two moments of the service time.
pub fn mg1_wait(rate: f64, mean: f64, second_moment: f64) -> f64 {
    rate * second_moment / (2.0 * (1.0 - rate * mean))
}

/// The waits of M/D/c. The number present, observed every `service`, is a Markov chain: all requests in service at the
/// start of an interval have left at its end, and no others have.
pub struct MdcWait {
    rate: f64,
    service: f64,
    servers: usize,
    /// The chance of each number present.
    present: Vec<f64>,
}

impl MdcWait {
    pub fn new(rate: f64, service: f64, servers: usize) -> MdcWait {
        MdcWait {
            rate,
            service,
            servers,
            present: stationary(
                600,
                |x| x.saturating_sub(servers),
                &[poisson(rate * service)],
                |_| 0,
            ),
        }
    }

    /// The mean wait.
    pub fn mean(&self) -> f64 {
        let present = self.present.iter().enumerate();
        let waiting: f64 = present
            .map(|(x, p)| x.saturating_sub(self.servers) as f64 * p)
            .sum();
        waiting / self.rate
    }

    /// The share of requests that wait at most `time` (Franx, "A simple solution for the M/D/c waiting time
    /// distribution", 2001). All terms are positive, unlike those of Erlang's sum.
    pub fn within(&self, time: f64) -> f64 {
        let queue_at_most = |waiting: usize| {
            let most = (self.servers + waiting).min(self.present.len() - 1);
            self.present[..=most].iter().sum::<f64>()
        };
        let intervals = (time / self.service).floor() as usize + 1;
        let mean = self.rate * (intervals as f64 * self.service - time);
        let most = intervals * self.servers - 1;
        let mut term = (-mean).exp();
        (0..=most)
            .map(|j| {
                if j > 0 {
                    term *= mean / j as f64;
                }
                term * queue_at_most(most - j)
            })
            .sum()
    }
}

/// M/D/c, mean wait.
pub fn mdc_wait(rate: f64, service: f64, servers: usize) -> f64 {
    MdcWait::new(rate, service, servers).mean()
}

/// M/D/c, the share of requests that wait at most `time`.
pub fn mdc_wait_within(rate: f64, service: f64, servers: usize, time: f64) -> f64 {
    MdcWait::new(rate, service, servers).within(time)
}

/// M/D/c, the highest rate at which a share `quantile` of the requests takes at most `slo`.
pub fn mdc_knee(service: f64, servers: usize, slo: f64, quantile: f64) -> f64 {
    let (mut low, mut high) = (0.0, servers as f64 / service);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if mdc_wait_within(middle, service, servers, slo - service) >= quantile {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// One server that waits for `wait_for` requests, takes all up to `cap`, and serves a batch of b in `service(b)`: mean
/// latency. The chain is the number waiting at a completion. The time that requests spend in the system during one step
/// is that of those that wait for others, of those present from the start, and of those that arrive during the service.
pub fn batch_latency(
    rate: f64,
    service: impl Fn(usize) -> f64,
    wait_for: usize,
    cap: usize,
    states: usize,
) -> f64 {
    let start = |waiting: usize| waiting.max(wait_for);
    let batch = |waiting: usize| start(waiting).min(cap);
    let gains: Vec<Vec<f64>> = (0..=cap.min(states))
        .map(|b| poisson(rate * service(b.max(1))))
        .collect();
    let waiting = stationary(states, |q| start(q) - batch(q), &gains, batch);
    let (mut spent, mut passed) = (0.0, 0.0);
    for (q, p) in waiting.iter().enumerate() {
        let h = service(batch(q));
        let before: usize = (q..wait_for).sum();
        spent += p * (before as f64 / rate + start(q) as f64 * h + rate * h * h / 2.0);
        passed += p * (h + (start(q) - q) as f64 / rate);
    }
    spent / passed / rate
}

/// The latencies of a server that takes all waiting requests, up to `cap`, and serves a batch of b in `service(b)`.
pub struct BatchLatency<F> {
    rate: f64,
    service: F,
    cap: usize,
    /// For each batch size, the chance of a service that leaves 0, 1, 2, … requests waiting.
    services: Vec<Vec<f64>>,
    /// The chance that a service follows an idle time.
    idle: f64,
    /// The mean number of requests that arrive between the ends of two services.
    passed: f64,
}

impl<F: Fn(usize) -> f64> BatchLatency<F> {
    pub fn new(rate: f64, service: F, cap: usize, states: usize) -> BatchLatency<F> {
        let start = |waiting: usize| waiting.max(1);
        let batch = |waiting: usize| start(waiting).min(cap);
        let gains: Vec<Vec<f64>> = (0..=cap)
            .map(|b| poisson(rate * service(b.max(1))))
            .collect();
        let waiting = stationary(states, |q| start(q) - batch(q), &gains, batch);
        let mut services = vec![Vec::new(); cap + 1];
        let mut passed = waiting[0];
        for (q, p) in waiting.iter().enumerate() {
            if *p > 1e-15 {
                // The numbers left behind ascend with q for each batch size.
                let left: &mut Vec<f64> = &mut services[batch(q)];
                left.resize(start(q) - batch(q) + 1, 0.0);
                left[start(q) - batch(q)] += p;
                passed += p * rate * service(batch(q));
            }
        }
        BatchLatency {
            rate,
            service,
            cap,
            services,
            idle: waiting[0],
            passed,
        }
    }

    /// The share of requests whose latency is at most `time`, by Simpson's rule over the instant of arrival in a service.
    /// Between its breakpoints the integrand is smooth.
    pub fn within(&self, time: f64) -> f64 {
        const PANELS: usize = 16;
        let mut longer = 0.0;
        if (self.service)(1) > time {
            longer += self.idle;
        }
        for (batch, left) in self.services.iter().enumerate() {
            if left.is_empty() {
                continue;
            }
            let ends = self.breakpoints((self.service)(batch), time);
            for pair in ends.windows(2) {
                let step = (pair[1] - pair[0]) / PANELS as f64;
                for node in 0..=PANELS {
                    let weight = match node {
                        0 | PANELS => 1.0,
                        _ if node % 2 == 1 => 4.0,
                        _ => 2.0,
                    };
                    // The ends belong to the inside of their interval.
                    let inside = (node as f64).clamp(1e-6, PANELS as f64 - 1e-6);
                    let rest = pair[0] + inside * step;
                    longer += self.rate * weight * step / 3.0 * self.longer(batch, rest, time);
                }
            }
        }
        1.0 - longer / self.passed
    }

    /// Where the rest of a service makes the latency of some batch exactly `time`, with both ends of the service.
    fn breakpoints(&self, service: f64, time: f64) -> Vec<f64> {
        let mut ends = vec![0.0, service];
        let full = (self.service)(self.cap);
        for batch in 1..=self.cap {
            let mut rest = time - (self.service)(batch);
            while rest > 0.0 {
                if rest < service {
                    ends.push(rest);
                }
                rest -= full;
            }
        }
        ends.sort_by(f64::total_cmp);
        ends
    }

    /// The chance of a service of this batch, and that a request that arrives `rest` before its end takes longer than
    /// `time`.
    fn longer(&self, batch: usize, rest: f64, time: f64) -> f64 {
        let before = poisson(self.rate * ((self.service)(batch) - rest));
        let left = &self.services[batch];
        let mut ahead = vec![0.0; left.len() + before.len()];
        for (a, p) in left.iter().enumerate() {
            for (b, q) in before.iter().enumerate() {
                ahead[a + b] += p * q;
            }
        }
        let mut sum = 0.0;
        for (batches, own) in ahead.chunks(self.cap).enumerate() {
            // The request's own batch starts at this time after its arrival.
            let start = rest + batches as f64 * (self.service)(self.cap);
            let smallest = (1..=self.cap).find(|size| start + (self.service)(*size) > time);
            let Some(smallest) = smallest else { continue };
            let behind = poisson(self.rate * start);
            for (place, p) in own.iter().enumerate() {
                let needed = smallest.saturating_sub(place + 1);
                let fewer: f64 = behind.iter().take(needed).sum();
                sum += p * (1.0 - fewer);
            }
        }
        sum
    }
}

/// Inoue (arXiv 1912.06322): a bound of the mean latency without a cap, for a service of `alpha` b + `tau`.
pub fn inoue_bound(rate: f64, alpha: f64, tau: f64) -> f64 {
    let load = rate * alpha;
    1.5 * tau / (1.0 - load) + alpha * (load + 2.0) / (2.0 * (1.0 - load * load))
}
