mod exact;
const ALPHA: f64 = 0.1438;
const TAU: f64 = 1.8874;
fn linear(batch: usize) -> f64 { ALPHA * batch as f64 + TAU }
fn assert_close(value: f64, expected: f64, digits: f64) {
    assert!((value - expected).abs() < digits, "{value} is not {expected}");
}

/// The solvers against values that others have computed.
#[test]
fn the_solvers_give_the_published_values() {
    for (servers, rho, wait) in [
        (1, 0.5, 0.5),
        (2, 0.5, 0.176741),
        (2, 0.7, 0.493610),
        (2, 0.9, 2.146923),
        (4, 0.5, 0.049652),
        (4, 0.7, 0.189708),
        (4, 0.9, 0.999966),
    ] {
        assert_close(exact::mdc_wait(rho * servers as f64, 1.0, servers), wait, 1e-6);
    }
    for (load, latency) in [(0.1, 3.14589), (0.3, 4.22480), (0.5, 5.90186), (0.7, 9.81765)] {
        assert_close(exact::batch_latency(load / ALPHA, linear, 400, 400), latency, 1e-5);
    }
    for (cap, load, latency) in [(32, 0.5, 4.57972), (32, 0.7, 5.85989), (8, 0.5, 3.63945)] {
        let capacity = cap as f64 / linear(cap);
        assert_close(exact::batch_latency(load * capacity, linear, cap, 400), latency, 1e-5);
    }
}
