mod naive;
#[test]
fn x() {
    let case = naive::Case { trace: vec![(0, "chain:2".into())], costs: naive::Costs(vec![("lstm".into(), 1, 1)]), task_ns: 0, gather_ns: 0, workers: 1, policy: naive::Policy::Cellular { max_tasks: 1, limits: vec![("lstm".into(), 4, 1)] } };
    println!("{:?}", naive::simulate(&case));
}
