//! The figures and tables.

use super::measured::{FIRST, Measured, OF_ALL, OF_GRNN, Series, Size};
use super::model::Model;
use super::paper::{
    self, MAPPINGS, NETWORK_BATCHES, NETWORKS, PAPER, PEAK, PEAK_CPU, PaperMapping, STEPS, by_size,
    column, cost_and_rank, full, measured_by_size, size,
};
use crate::core::cost::grnn::{Mapping, RecurrentCell, Rnn};
use crate::core::cost::roofline::Roofline;
use crate::lab::results::columns::name_of;
use crate::papers::findings::mean;
use crate::papers::lab::{Column, Study, columns};

/// Bars that claims look up.
pub const MODEL: &str = "GRNN, model";
pub const SINGLE: &str = "one, model";
pub const DOUBLE: &str = "two, model";
const TRADITIONAL: &str = "traditional, data sheet";

/// A paper's system.
fn of_paper(&(name, times): &paper::Times) -> Column {
    full(name, |place| times[place])
}

/// Table 1.
pub fn latencies(model: &Model, own: &Measured) -> Study {
    let both = [RecurrentCell::Lstm, RecurrentCell::Gru];
    let drawing = |cell: RecurrentCell| {
        let ours = |place| model.sequence(size(cell, place));
        let (papers, others) = paper::table_1(cell).split_first().expect("GRNN's own");
        let mut series = vec![
            full(MODEL, ours),
            of_paper(papers),
            full("model, without PCIe", |place| {
                ours(place) - paper::bus(place)
            }),
            full("paper, without PCIe", |place| {
                papers.1[place] - paper::bus(place)
            }),
        ];
        series.extend(others.iter().map(of_paper));
        by_size(&cell.name().to_uppercase(), &series)
    };
    let measured =
        both.map(|cell| measured_by_size(own, cell, &cell.name().to_uppercase(), |_, ms| ms));
    Study::new(
        both.map(drawing).into_iter().chain(measured),
        own.note(OF_ALL),
    )
}

/// Table 2.
pub fn mappings(model: &Model, own: &Measured) -> Study {
    let table = Size {
        cell: RecurrentCell::Lstm,
        hidden: 256,
        batch: 20,
        steps: STEPS,
    };
    let (ranked, _) = model.ranked(table);
    let mapping = |row: usize| {
        let PaperMapping {
            groups, group_size, ..
        } = MAPPINGS[row];
        Mapping {
            tile_width: 32,
            tile_height: 2,
            groups,
            group_size,
        }
    };
    let place = |row| {
        ranked
            .iter()
            .position(|one| one.mapping == mapping(row))
            .expect("the mapping is valid")
    };
    let measured = |row| own.mapping(Rnn::Lstm, mapping(row), table);
    let column = |name: &str, value: &dyn Fn(usize) -> Option<f64>| -> Column {
        (name.into(), (0..MAPPINGS.len()).map(value).collect())
    };
    let costs = vec![
        column(MODEL, &|row| Some(ranked[place(row)].cost.total())),
        column(PAPER, &|row| Some(cost_and_rank(row)[0])),
    ];
    let gpu = own.short();
    let ranks = vec![
        column(MODEL, &|row| Some((place(row) + 1) as f64)),
        column(PAPER, &|row| Some(cost_and_rank(row)[1])),
        column(&format!("model, {gpu}"), &|row| {
            Some(measured(row)?.0.into())
        }),
    ];
    let times = vec![
        column(MODEL, &|row| Some(model.mapped(&ranked[place(row)], STEPS))),
        column(PAPER, &|row| Some(MAPPINGS[row].ms)),
        column(&format!("GRNN, {gpu}"), &|row| Some(measured(row)?.1)),
    ];
    let note = own.note("ranks are those on that GPU.");
    let groups = MAPPINGS.map(|one| format!("{}×{}", one.groups, one.group_size));
    Study::new(
        [costs, ranks, times].map(|series| columns(&[""], &groups, &series)),
        note,
    )
}

/// Table 3.
pub fn synchronisations(model: &Model, own: &Measured) -> Study {
    let both = [
        (SINGLE, Rnn::GruSingle, paper::SINGLE),
        (DOUBLE, Rnn::GruDouble, paper::DOUBLE),
    ];
    let of_model = |kernel, place| model.kernel(kernel, size(RecurrentCell::Gru, place));
    let costs = both.map(|(name, kernel, _)| full(name, |place| of_model(kernel, place)[0]));
    let times = both.map(|(name, kernel, paper)| {
        [
            full(name, |place| of_model(kernel, place)[1]),
            of_paper(&paper),
        ]
    });
    let gpu = own.short();
    let measured = [("one", Rnn::GruSingle), ("two", Rnn::GruDouble)].map(|(count, kernel)| {
        column(format!("{count}, {gpu}"), |place| {
            own.fastest(kernel, size(RecurrentCell::Gru, place))
        })
    });
    let times: Vec<Column> = times.into_iter().flatten().chain(measured).collect();
    let note = own.note("the fastest mapping of each kernel.");
    Study::new([by_size("GRU", &costs), by_size("GRU", &times)], note)
}

/// Figure 3.
pub fn libraries(model: &Model, own: &Measured) -> Study {
    let traditional = full(TRADITIONAL, |place| {
        model.traditional(size(RecurrentCell::Lstm, place))
    });
    let libraries = paper::table_1(RecurrentCell::Lstm)[1..]
        .iter()
        .map(of_paper);
    let series: Vec<Column> = [traditional].into_iter().chain(libraries).collect();
    let measured = measured_by_size(own, RecurrentCell::Lstm, "State", |_, ms| ms);
    Study::new([by_size("State", &series), measured], own.note(OF_ALL))
}

/// Figures 11 and 12: over DeepCPU.
pub fn over_cpu(cell: RecurrentCell, model: &Model, own: &Measured) -> Study {
    let ((_, cpu), papers) = paper::table_1(cell).split_last().expect("DeepCPU's");
    let over = |place: usize, ms: f64| cpu[place] / ms;
    let ours = full(MODEL, |place| {
        over(place, model.sequence(size(cell, place)))
    });
    let papers = papers
        .iter()
        .map(|(name, times)| full(*name, |place| over(place, times[place])));
    let series: Vec<Column> = [ours].into_iter().chain(papers).collect();
    let note = "What was measured is over DeepCPU too, on the paper's processors: its times are those of Table 1. It is without \
                PCIe. PyTorch asks cuDNN for persistent kernels in float32 only at hidden sizes up to 192, so wider states have \
                none.\n";
    Study::new(
        [
            by_size("State", &series),
            measured_by_size(own, cell, "State", over),
        ],
        note.to_string() + &own.note(OF_ALL),
    )
}

/// Figure 13.
pub fn throughput(model: &Model, own: &Measured) -> Study {
    let share = |place: usize, ms: f64, peak: f64| {
        let Size {
            hidden,
            batch,
            steps,
            ..
        } = size(RecurrentCell::Lstm, place);
        let [hidden, batch, steps] = [hidden, batch, steps].map(f64::from);
        // Four gates' products with input and state.
        100.0 * (2.0 * 8.0 * hidden * hidden * batch * steps) / (ms * 1e6 * peak)
    };
    // A slice of a GPU does not have the whole's peak.
    let is_whole = |sheet: &Roofline| sheet.multiprocessors == u64::from(own.multiprocessors);
    let sheet = Roofline::of_gpu(&own.gpu).filter(|(_, sheet)| is_whole(sheet));
    let known = |(name, times): paper::Times, peak| {
        full(name, move |place| share(place, times[place], peak))
    };
    let mut series = vec![
        full(MODEL, |place| {
            share(
                place,
                model.sequence(size(RecurrentCell::Lstm, place)),
                PEAK,
            )
        }),
        known(paper::LSTM, PEAK),
        known(paper::LSTM_CPU, PEAK_CPU),
    ];
    if let Some((_, sheet)) = &sheet {
        let peak = sheet.unit.peak_gflops as f64;
        series.push(column(own.label(Series::Grnn), |place| {
            own.ms(Series::Grnn, size(RecurrentCell::Lstm, place))
                .map(|ms| share(place, ms, peak))
        }));
    }
    let mean_share = |(_, times): paper::Times, peak| {
        mean(
            &(0..9)
                .map(|place| share(place, times[place], peak))
                .collect::<Vec<_>>(),
        )
    };
    let note = format!(
        "By Table 1 the means are {:.1} % for GRNN and {:.1} % for DeepCPU; the paper's text has 15.7 % and 12.6 %.\n",
        mean_share(paper::LSTM, PEAK),
        mean_share(paper::LSTM_CPU, PEAK_CPU)
    );
    let of_own = match sheet {
        None => {
            format!(
                "{} measures, but no device file says the peak of the {}.\n",
                own.file.display(),
                own.name()
            )
        }
        Some((file, sheet)) => format!(
            "The peak of the {} is that of scenarios/devices/{file}.toml in float32, {} operations in a nanosecond.\n{}",
            own.gpu,
            sheet.unit.peak_gflops,
            own.note(OF_GRNN)
        ),
    };
    Study::new([by_size("State", &series)], note + &of_own)
}

/// Figure 14.
pub fn spread(model: &Model, own: &Measured) -> Study {
    let ranked: Vec<Vec<f64>> = (0..9)
        .map(|place| {
            let (ranked, _) = model.ranked(size(RecurrentCell::Lstm, place));
            ranked
                .iter()
                .map(|one| one.cost.total() / ranked[0].cost.total())
                .collect()
        })
        .collect();
    let series = [
        full("fifth", |place| {
            ranked[place][4.min(ranked[place].len() - 1)]
        }),
        full("median", |place| ranked[place][ranked[place].len() / 2]),
        full("last", |place| ranked[place][ranked[place].len() - 1]),
    ];
    let regret = |place| own.regret(size(RecurrentCell::Lstm, place));
    let run: Vec<String> = (0..9)
        .filter_map(regret)
        .map(|regret| regret.run.to_string())
        .collect();
    let file = own.file.display();
    let note = if run.is_empty() {
        format!(
            "Only costs are shown: {file} has no randomly drawn mappings of an LSTM (batchlab grnn tune --all).\n"
        )
    } else {
        format!(
            "Measured are samples, of {} mappings, on {} ({file}); the best is that of all that were measured. {} of the nine \
             sizes have no samples, and their places are empty.\n",
            run.join(", "),
            own.name(),
            9 - run.len(),
        )
    };
    let best = [
        column("Top-1", |place| Some(regret(place)?.first)),
        column(format!("Top-{FIRST}"), |place| {
            Some(regret(place)?.best_of_first)
        }),
    ];
    let others = [
        column("median", |place| Some(regret(place)?.median)),
        column("slowest", |place| Some(regret(place)?.slowest)),
    ];
    Study::new(
        [
            by_size("State", &series),
            by_size("State", &best),
            by_size("State", &others),
        ],
        note,
    )
}

/// Figure 15.
pub fn networks(model: &Model, own: &Measured) -> Study {
    let at_once = NETWORKS.map(|(_, layers, width, steps)| model.layers(width, layers, steps));
    let column = |name: String, of_layer: &dyn Fn(Size) -> Option<f64>| -> Column {
        let values = NETWORKS.iter().flat_map(|&(_, layers, hidden, steps)| {
            let of_batch = move |batch| {
                of_layer(Size {
                    cell: RecurrentCell::Lstm,
                    hidden,
                    batch,
                    steps,
                })
            };
            NETWORK_BATCHES.map(|batch| Some(f64::from(layers) * of_batch(batch)?))
        });
        (name, values.collect())
    };
    let bars =
        |series: Vec<Column>| columns(&NETWORKS.map(|(name, ..)| name), &NETWORK_BATCHES, &series);
    let of_model = vec![
        column(MODEL.into(), &|size| Some(model.sequence(size))),
        (
            "model, layers in one launch".into(),
            at_once
                .iter()
                .flat_map(|at_once| NETWORK_BATCHES.map(|batch| Some(at_once(batch))))
                .collect(),
        ),
        column(TRADITIONAL.into(), &|size| Some(model.traditional(size))),
    ];
    let measured = |series| column(name_of(&series), &|size| own.ms(series, size));
    Study::new(
        [
            bars(of_model),
            bars(own.series(RecurrentCell::Lstm).map(measured).collect()),
        ],
        own.note(OF_ALL),
    )
}
