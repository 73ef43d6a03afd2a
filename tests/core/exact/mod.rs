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

/// M/D/c, mean wait. The number present, observed every `service`, is a Markov chain: all requests in service at the
/// start of an interval have left at its end, and no others have.
pub fn mdc_wait(rate: f64, service: f64, servers: usize) -> f64 {
    let present = stationary(
        600,
        |x| x.saturating_sub(servers),
        &[poisson(rate * service)],
        |_| 0,
    );
    let waiting: f64 = present
        .iter()
        .enumerate()
        .map(|(x, p)| x.saturating_sub(servers) as f64 * p)
        .sum();
    waiting / rate
}

/// M/D/c, the share of requests that wait at most `time` (Franx, "A simple solution for the M/D/c waiting time
/// distribution", 2001). All terms are positive, unlike those of Erlang's sum.
pub fn mdc_wait_within(rate: f64, service: f64, servers: usize, time: f64) -> f64 {
    let present = stationary(
        600,
        |x| x.saturating_sub(servers),
        &[poisson(rate * service)],
        |_| 0,
    );
    let queue_at_most = |waiting: usize| {
        present[..=(servers + waiting).min(present.len() - 1)]
            .iter()
            .sum::<f64>()
    };
    let intervals = (time / service).floor() as usize + 1;
    let mean = rate * (intervals as f64 * service - time);
    let most = intervals * servers - 1;
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

/// Inoue (arXiv 1912.06322): a bound of the mean latency without a cap, for a service of `alpha` b + `tau`.
pub fn inoue_bound(rate: f64, alpha: f64, tau: f64) -> f64 {
    let load = rate * alpha;
    1.5 * tau / (1.0 - load) + alpha * (load + 2.0) / (2.0 * (1.0 - load * load))
}
