//! Tests of cost tables, and of the costs of devices that they give.

use super::*;
use crate::base::units::{CellId, Share, WorkerId};
use crate::core::cost::task_times::TaskTimes;
use crate::core::cost::timing::Timing as _;
use crate::core::cost::{CostModel as _, MemberKind};
use crate::core::task::{Step, Task};
use crate::core::workload::shared_list::SharedList;

#[test]
fn a_table_is_read_whatever_the_order_of_its_rows_and_columns() {
    let table = CostTable::parse(
        "\u{feff}batch, cell,ns\n# measured\n8,\"lstm\",20\n4,lstm,10\n\n1,gather,3\n",
        "t.csv",
    )
    .unwrap();
    let device = table
        .costs_for(&Model::Lstm.cell_types(), Overhead::default())
        .unwrap();
    let step = |batch| Step {
        cell: CellId(0),
        batch,
        times: 1,
        input: 0,
    };
    assert_eq!(device.cell(&step(6)), Nanos(15));
    assert_eq!(device.extra(Extra::Gather, 2), Nanos(6));
}

#[test]
fn the_rows_of_a_name_hold_for_the_cells_that_add_a_number_to_it() {
    let rows = "cell,batch,ns\ninternal,1,10\ninternal.switch,1,3\ninternal2,1,20\nleaf,1,5\n";
    let cells = Model::ChildSumByArity(3).cell_types();
    let device = CostTable::parse(rows, "t.csv")
        .unwrap()
        .costs_for(&cells, Overhead::default())
        .unwrap();
    let step = |cell| Step {
        cell: CellId(cell),
        batch: 1,
        times: 1,
        input: 0,
    };
    assert_eq!(
        [0, 1, 2, 3].map(|cell| device.cell(&step(cell)).0),
        [10, 20, 10, 5]
    );
    assert_eq!(
        [0, 1, 2, 3].map(|cell| device.switch(&step(cell), MemberKind::Nodes).0),
        [3, 3, 3, 0]
    );
}

#[test]
fn overheads_are_the_scenarios_or_the_tables_or_nothing() {
    let rows = "cell,batch,ns\nlstm,1,10\ntask,1,3\ntask,3,7\ngather,1,20\nlaunch,2,40\n";
    let table = CostTable::parse(rows, "t.csv").unwrap();
    let device = |overhead| {
        table
            .costs_for(&Model::Lstm.cell_types(), overhead)
            .unwrap()
    };
    let measured = device(Overhead::default());
    let extras = |device: &TableCosts, task, gather, launch| {
        let extras = [
            (Extra::Task, task),
            (Extra::Gather, gather),
            (Extra::Launch, launch),
        ];
        extras.map(|(extra, batch)| device.extra(extra, batch).0)
    };
    assert_eq!(extras(&measured, 2, 2, 1), [5, 40, 40]);
    let given = Overhead {
        task: Some(Nanos(0)),
        gather: None,
        launch: Some(Nanos(1)),
    };
    assert_eq!(extras(&device(given), 9, 1, 9), [0, 20, 1]);
    let none = CostTable::parse("cell,batch,ns\nlstm,1,10\n", "t.csv").unwrap();
    let none = none
        .costs_for(&Model::Lstm.cell_types(), Overhead::default())
        .unwrap();
    assert_eq!(extras(&none, 9, 9, 9), [0; 3]);
}

#[test]
fn a_launch_may_depend_on_the_members_and_on_the_decision_before() {
    let rows = "cell,batch,ns\nlstm,1,10\nlaunch,2,40\nlaunch.gather,2,90\nlaunch.further,2,6\n";
    let table = CostTable::parse(rows, "t.csv").unwrap();
    let cells = Model::Lstm.cell_types();
    let device = table.costs_for(&cells, Overhead::default()).unwrap();
    let launches = |device: &TableCosts| {
        [
            device.launch(2, false).0,
            device.launch(2, true).0,
            device.further_launch(2).map_or(0, |time| time.0),
        ]
    };
    assert_eq!(launches(&device), [40, 90, 6]);
    let given = Overhead {
        launch: Some(Nanos(7)),
        ..Overhead::default()
    };
    assert_eq!(
        launches(&table.costs_for(&cells, given).unwrap()),
        [7, 7, 0]
    );
    let mut times = TaskTimes::new(device, &SharedList::default());
    let mut start = |submit| {
        let step = Step {
            cell: CellId(0),
            batch: 2,
            times: 1,
            input: 0,
        };
        let steps = [step];
        let task = Task::new(WorkerId(1), &steps, &[], 2);
        times.start(&task, Nanos(submit), true).earliest.0
    };
    // Three tasks of the first decision, one of the second, two of the third.
    let starts = [100, 100, 100, 200, 300, 300, 400].map(|submit| start(submit) - submit);
    assert_eq!(starts, [40, 40, 40, 52, 40, 40, 46]);
}

#[test]
fn steps_of_whole_requests_have_rows_of_their_own_or_those_of_the_cell() {
    let rows = "cell,batch,ns\nencoder,1,10\nencoder.switch,1,3\nencoder.whole,1,8\nencoder.whole,3,16\n\
                decoder,1,20\ndecoder.switch,1,5\nwhole,1,2\nwhole,2,7\n";
    let cells = Model::Seq2Seq.cell_types();
    let device = |rows: &str| {
        CostTable::parse(rows, "t.csv")
            .unwrap()
            .costs_for(&cells, Overhead::default())
    };
    let costs = |rows: &str, cell: &str| {
        let device = device(rows).unwrap();
        let cell = CellId(cells.iter().position(|known| known.name == cell).unwrap() as u16);
        let step = Step {
            cell,
            batch: 2,
            times: 1,
            input: 0,
        };
        let switch = device.switch(&step, MemberKind::Requests);
        [
            device.runs(&step, MemberKind::Requests).time.0,
            switch.0,
            device.extra(Extra::Requests, 2).0,
        ]
    };
    assert_eq!(
        costs(rows, "encoder"),
        [12, 0, 7],
        "the switch of other tasks is none of these"
    );
    assert_eq!(costs(rows, "decoder"), [40, 10, 7]);
    assert_eq!(
        costs(&format!("{rows}encoder.whole.switch,2,1\n"), "encoder"),
        [12, 1, 7]
    );
    assert_eq!(
        costs("cell,batch,ns\nencoder,1,10\ndecoder,1,20\n", "encoder"),
        [20, 0, 0]
    );

    let error = device(&format!("{rows}decoder.whole.switch,2,1\n"))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "t.csv: rows for \"decoder.whole.switch\" but none for \"decoder.whole\"; they are added to those"
    );
    let twice = CostTable::parse(&format!("{rows}encoder.whole,3,1\n"), "t.csv")
        .unwrap_err()
        .to_string();
    assert!(
        twice.contains("t.csv:10: a second row for the cell \"encoder.whole\" at batch 3"),
        "{twice}"
    );
}

fn demands(rows: &str, sizes: &Sizes, batches: &[u32]) -> Vec<f64> {
    let table =
        CostTable::parse(rows, "t.csv")
            .unwrap()
            .with_traffic(&Model::Lstm, sizes, Precision::F32);
    let device = table
        .costs_for(&Model::Lstm.cell_types(), Overhead::default())
        .unwrap();
    let of = |batch: &u32| {
        device.demand(&Step {
            cell: CellId(0),
            batch: *batch,
            times: 1,
            input: 0,
        })
    };
    batches
        .iter()
        .map(|batch| of(batch).0 as f64 / Share::WHOLE.0 as f64)
        .collect()
}

#[test]
fn demands_lie_on_lines_between_rows_and_nowhere_beyond() {
    let rows = "cell,batch,ns\nlstm,1,100\nlstm,64,100\nlstm.demand,4,250000\nlstm.demand,8,750000\n\
                bandwidth_mb_s,1,1\n";
    let found = demands(rows, &Sizes::square(1024), &[1, 4, 6, 8, 9, 64, 5000]);
    let wanted = [0.25, 0.25, 0.5, 0.75, 0.75, 0.75, 0.75];
    assert!(
        found
            .iter()
            .zip(wanted)
            .all(|(found, wanted)| (found - wanted).abs() < 1e-9),
        "{found:?}"
    );
    let one = demands(
        "cell,batch,ns\nlstm,1,9\nlstm.demand,3,500000\n",
        &Sizes::square(4),
        &[1, 3, 9],
    );
    assert_eq!(one, [0.5; 3], "a single row");
    let whole = demands(
        "cell,batch,ns\nlstm,1,9\nlstm.demand,1,1000000\n",
        &Sizes::square(4),
        &[1],
    );
    assert_eq!(whole, [1.0]);
    let table = CostTable::parse(
        "cell,batch,ns\nlstm,1,9000\nlstm.demand,1,9\nlstm.demand,2,1\n",
        "t.csv",
    )
    .unwrap();
    assert_eq!(table.doubts(), Vec::<String>::new(), "a demand may fall");
}

#[test]
fn times_that_no_device_has_are_doubted() {
    let doubts = |rows: &str| {
        let table = CostTable::parse(&format!("cell,batch,ns\n{rows}"), "t.csv").unwrap();
        table.doubts()
    };
    assert_eq!(
        doubts("resnet50,1,2\nresnet50,8,6\ntask,1,1\n"),
        [
            "t.csv: a batch of 8 of resnet50 takes 6ns, and nothing takes longer: are these milliseconds? the column ns has \
          nanoseconds"
        ]
    );
    assert_eq!(doubts("add,1,200\nresnet50,1,1000\n"), [""; 0]);
    for (row, message) in [
        (
            "resnet50,1,2.05",
            "t.csv:2: ns: \"2.05\" is not a whole number of nanoseconds, 0 or more; 2.05 ms are 2050000",
        ),
        (
            "resnet50,1,soon",
            "t.csv:2: ns: \"soon\" is not a whole number of nanoseconds, 0 or more",
        ),
    ] {
        let error = CostTable::parse(&format!("cell,batch,ns\n{row}\n"), "t.csv").unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let error = CostTable::parse("cell;batch;ns\nresnet50;1;5\n", "t.csv").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("t.csv:1: the columns are separated by semicolons"),
        "{error}"
    );
}

#[test]
fn a_device_with_a_bandwidth_is_shared_by_what_steps_move_too() {
    // Gates from 8 numbers to 16: 4 · (128 + 24 · batch) bytes, and a byte in a nanosecond. 64 is preferred.
    let rows = "cell,batch,ns\nlstm,1,4000\nlstm,64,4000\nlstm,128,8000\n";
    let with = format!("{rows}bandwidth_mb_s,1,1000\n");
    assert_eq!(
        demands(rows, &Sizes::square(4), &[1, 16, 64]),
        [1.0 / 64.0, 0.25, 1.0]
    );
    let found = demands(&with, &Sizes::square(4), &[1, 16, 64]);
    let wanted = [0.152, 0.512, 1.0];
    assert!(
        found
            .iter()
            .zip(wanted)
            .all(|(found, wanted)| (found - wanted).abs() < 1e-9),
        "{found:?}"
    );
}

#[test]
fn a_padded_input_takes_the_next_size() {
    let table = CostTable::parse(
        "cell,batch,ns,input\nbert,1,10,64\nbert,1,20,128\n",
        "t.csv",
    )
    .unwrap();
    let device = table
        .costs_for(&Model::Dnn("bert".into()).cell_types(), Overhead::default())
        .unwrap();
    let at = |input| {
        device
            .cell(&Step {
                cell: CellId(0),
                batch: 1,
                times: 1,
                input,
            })
            .0
    };
    assert_eq!([at(1), at(64), at(65), at(128)], [10, 10, 20, 20]);
    assert_eq!(table.largest_input("bert"), Some(128));
    assert_eq!(device.measured_batches(CellId(0)), 1..=1);
}

#[test]
fn iterations_are_interpolated_over_tokens_and_context() {
    let rows = "cell,tokens,context,ns\niteration,1,0,100\niteration,11,0,200\niteration,1,1000,300\n\
                iteration,11,1000,500\ntask,1,,7\n";
    let table = CostTable::parse(rows, "t.csv").unwrap();
    let device = table
        .costs_for(&Model::Llm(None).cell_types(), Overhead::default())
        .unwrap();
    let at = |batch, input| {
        device
            .cell(&Step {
                cell: CellId(0),
                batch,
                times: 1,
                input,
            })
            .0
    };
    assert_eq!(
        [at(1, 0), at(11, 0), at(1, 1000), at(11, 1000)],
        [100, 200, 300, 500]
    );
    assert_eq!(
        [at(6, 0), at(1, 500), at(6, 500), at(6, 1)],
        [150, 200, 275, 150],
        "0.25 is rounded down"
    );
    assert_eq!(at(6, 2000), 650, "beyond the last, the line goes on");
    assert_eq!(device.extra(Extra::Task, 9), Nanos(63));
    let error = CostTable::parse("cell,tokens,context,ns\niteration,x,0,1\n", "t.csv")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("t.csv:2: tokens: \"x\" is not a whole number"),
        "{error}"
    );
}

#[test]
fn broken_tables_are_named_by_line() {
    for (text, part) in [
        ("", "t.csv:1: no column \"cell\""),
        ("cell,batch\nlstm,1\n", "t.csv:1: no column \"ns\""),
        ("cell,batch,ns,colour\n", "unknown column \"colour\""),
        (
            "cell,batch,ns,ns\n",
            "t.csv:1: column \"ns\" is given twice",
        ),
        ("cell,batch,ns\n", "no rows"),
        (
            "# measured\r\n\r\ncell,batch,ns\r\nlstm,1,5\r\n\r\nlstm,x,5\r\n",
            "t.csv:6: batch: \"x\" is not a whole",
        ),
        (
            "cell,batch,ns\nlstm,0,5\n",
            "t.csv:2: batch: \"0\" is not a whole number from 1",
        ),
        (
            "cell,batch,ns\nlstm,1048577,5\n",
            "t.csv:2: batch: \"1048577\" is not a whole number from 1 to 1048576",
        ),
        (
            "cell,batch,ns\nlstm,1\n",
            "t.csv:2: \"lstm,1\" has 2 fields where the header has 3",
        ),
        (
            "cell,batch,ns\n\nlstm,1,5\nlstm,1,6\n",
            "t.csv:4: a second row for the cell",
        ),
        (
            "cell,batch,ns\nlstm,1,-5\n",
            "t.csv:2: ns: \"-5\" is not a whole number of nanoseconds",
        ),
        (
            "cell,batch,ns\n,1,5\n",
            "t.csv:2: cell: \"\" is not the name",
        ),
        ("cell,batch,ns,input\nlstm,1,5,x\n", "t.csv:2: input: \"x\""),
        (
            "cell,batch,ns\nlstm.demand,2,1000001\n",
            "t.csv:2: ns: 1000001 parts per million; a demand is at most 1000000",
        ),
        (
            "cell,batch,ns\nbandwidth_mb_s,2,5\n",
            "t.csv:2: \"bandwidth_mb_s\" with batch 2 and 5; the bandwidth of",
        ),
        (
            "cell,batch,ns\nlstm,1,5\nbandwidth_mb_s,1,0\n",
            "t.csv:3: \"bandwidth_mb_s\" with batch 1 and 0; the",
        ),
        (
            "cell,batch,ns,stddev_ns\nlstm,1,5,nan\n",
            "t.csv:2: stddev_ns: \"nan\"",
        ),
    ] {
        let error = CostTable::parse(text, "t.csv").unwrap_err().to_string();
        assert!(error.contains(part), "{text:?} gave {error:?}");
    }
    let table = CostTable::parse("cell,batch,ns\nlstm,1,5\n", "t.csv").unwrap();
    let error = table
        .costs_for(&Model::Gru.cell_types(), Overhead::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no rows for the cell \"gru\"") && error.contains("has: lstm"),
        "{error}"
    );
}
