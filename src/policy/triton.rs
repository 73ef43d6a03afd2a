//! The dynamic batcher of NVIDIA's Triton Inference Server, by its documentation ("Dynamic Batcher" in the user guide's
//! model configuration) and its source (`GetDynamicBatch` in `dynamic_batch_scheduler.cc`, `PriorityQueue` in
//! `scheduler_utils.cc`). docs/TRITON.md lists the fields of `config.pbtxt`.
//!
//! When an instance is free, the requests that waited longest in the most urgent levels form a batch: of the largest
//! preferred size that they fill, or of all of them once the oldest has waited for `max_queue_delay`.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::registry::{Batches, PolicyKind, Settings, Setup};
use super::values::at_least_1;
use super::whole::{PaddedBatch, Waiting};
use super::{Completed, Outcomes, Policy};
use crate::task::{Dispatch, Reason, Task};
use crate::units::{Nanos, RequestId, StreamId, WorkerId};
use crate::workload::trace::Request;

/// `kind = "triton"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Triton {
    /// `max_batch_size` of the model.
    #[default = 64]
    pub max_batch: u32,
    /// Sizes that are sent without a delay. Empty: `max_batch`.
    pub preferred_batch_size: Vec<u32>,
    /// How long the oldest request of a batch that has no preferred size may wait for more.
    #[serde(with = "super::values::time_with_unit")]
    pub max_queue_delay: Nanos,
    /// Larger batches than the smallest preferred size have a preferred size, also after the delay (server#7604; not in
    /// Triton).
    pub mandatory: bool,
    /// The largest sum of the lengths in a batch; a longer request is a batch of its own (ray#58956; Triton leaves such
    /// rules to custom batching).
    pub max_total: Option<u64>,
    /// 0: without levels. A class of priority 1 has the last level, one of priority `priority_levels` the first.
    pub priority_levels: u32,
    /// The level of requests without a class or with priority 0.
    pub default_priority_level: u32,
    pub default_queue_policy: QueuePolicy,
    /// By level, from "1", the most urgent.
    pub priority_queue_policy: BTreeMap<String, QueuePolicy>,
    /// Responses leave in the order of arrival.
    pub preserve_ordering: bool,
    /// `count` of the instance group: each has a stream, and all of a worker share it.
    #[default = 1]
    pub instances: u16,
    /// Batches of an instance behind the running one, with fixed members. TensorRT's backend has 1: its instance takes
    /// the next batch when the running one has read its inputs (`ready_for_input_` in `tensorrt_backend`).
    pub ahead: u32,
}

/// Each worker counts the tasks of each of its instances.
const MOST_INSTANCES: u32 = 64;
/// Each has a queue.
const MOST_LEVELS: u32 = 1_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueuePolicy {
    /// Requests that arrive while this number of requests wait in the level are rejected. 0: no limit.
    pub max_queue_size: u32,
    /// How long a request may wait. Zero: no limit.
    #[serde(with = "super::values::time_with_unit")]
    pub default_timeout: Nanos,
    pub timeout_action: TimeoutAction,
    /// Whether the deadline of a request's class replaces a longer timeout.
    pub allow_timeout_override: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeoutAction {
    #[default]
    Reject,
    /// The request waits until no other of its level or a more urgent one waits.
    Delay,
}

impl Settings for Triton {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("triton", "whole sequences by preferred sizes, delay, priorities and timeouts (Triton)")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        setup.require_sequences("triton")?;
        let levels = self.check()?;
        let mut preferred = self.preferred_batch_size.clone();
        preferred.sort_unstable();
        if preferred.is_empty() {
            preferred.push(self.max_batch);
        }
        let instances = usize::from(self.instances);
        Ok(Box::new(TritonPolicy {
            settings: Triton { preferred_batch_size: preferred, ..self.clone() },
            levels,
            unfinished: vec![0; setup.workers * instances],
            sent: VecDeque::new(),
            batch: PaddedBatch::default(),
            wake: None,
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }

    fn streams(&self, _: &Setup<'_>) -> u16 {
        self.instances
    }
}

impl Triton {
    /// As `ValidateModelConfig` in `model_config_utils.cc`. Returns the empty queues.
    pub fn check(&self) -> Result<Vec<Level>, String> {
        at_least_1([("max_batch", self.max_batch), ("instances", self.instances.into())])?;
        for (key, value, most) in [
            ("instances", self.instances.into(), MOST_INSTANCES),
            ("priority_levels", self.priority_levels, MOST_LEVELS),
        ] {
            if value > most {
                return Err(format!("{key}: {value} is too large; at most {most}"));
            }
        }
        self.check_sizes()?;
        let levels = self.levels()?;
        if self.preserve_ordering && levels.len() > 1 {
            return Err(format!("preserve_ordering: not with several priority_levels ({})", levels.len()));
        }
        let delays = |level: &Level| level.policy.timeout_action == TimeoutAction::Delay;
        if self.preserve_ordering && levels.iter().any(delays) {
            return Err("preserve_ordering: not with the timeout_action \"delay\"".into());
        }
        Ok(levels)
    }

    fn check_sizes(&self) -> Result<(), String> {
        let Triton { max_batch, preferred_batch_size: preferred, .. } = self;
        if let Some(size) = preferred.iter().find(|size| **size == 0 || *size > max_batch) {
            return Err(format!("preferred_batch_size: {size} must be between 1 and max_batch ({max_batch})"));
        }
        if self.mandatory && preferred.is_empty() {
            return Err("mandatory: no size is preferred; give preferred_batch_size, or leave it out".into());
        }
        if self.max_total == Some(0) {
            return Err("max_total: 0 is too small; at least 1, or leave it out".into());
        }
        Ok(())
    }

    /// The empty queues of all levels.
    fn levels(&self) -> Result<Vec<Level>, String> {
        let Triton { priority_levels: levels, default_priority_level: default, .. } = self;
        let allowed = if *levels == 0 { 0..=0 } else { 1..=*levels };
        if !allowed.contains(default) {
            let (first, last) = allowed.into_inner();
            return Err(format!(
                "default_priority_level: {default} must be from {first} to {last} where priority_levels is {levels}"
            ));
        }
        let mut queues = vec![Level::new(self.default_queue_policy.clone()); (*levels).max(1) as usize];
        for (name, policy) in &self.priority_queue_policy {
            let level = name.parse::<u32>().ok().filter(|level| *level > 0 && level <= levels);
            let level = level.ok_or_else(|| {
                format!("priority_queue_policy.{name}: not a level; priority_levels is {levels}, and 1 the most urgent")
            })?;
            queues[level as usize - 1] = Level::new(policy.clone());
        }
        Ok(queues)
    }

    fn level(&self, request: &Request<'_>) -> usize {
        let levels = self.priority_levels;
        let priority = request.class.map_or(0, |class| class.priority);
        let level = match u32::try_from(priority) {
            Ok(0) => self.default_priority_level,
            Ok(priority) => (levels + 1).saturating_sub(priority),
            Err(_) => levels,
        };
        level.clamp(1, levels.max(1)) as usize - 1
    }

    fn largest_preferred(&self, requests: usize) -> Option<usize> {
        self.preferred_batch_size.iter().map(|size| *size as usize).rfind(|size| *size <= requests)
    }
}

/// The requests of a level, those that are past their timeout last.
#[derive(Clone)]
pub struct Level {
    policy: QueuePolicy,
    queue: VecDeque<Waiting>,
    delayed: VecDeque<Waiting>,
    /// The earliest timeout in `queue`.
    expires: Nanos,
}

impl Level {
    fn new(policy: QueuePolicy) -> Level {
        Level { policy, queue: VecDeque::new(), delayed: VecDeque::new(), expires: Nanos::MAX }
    }

    fn len(&self) -> usize {
        self.queue.len() + self.delayed.len()
    }

    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        let QueuePolicy { max_queue_size, default_timeout, allow_timeout_override, .. } = self.policy;
        if max_queue_size > 0 && self.len() >= max_queue_size as usize {
            return outcomes.reject(request.id);
        }
        let given = Some(default_timeout).filter(|timeout| *timeout > Nanos::ZERO);
        let given = given.map(|timeout| request.arrival.saturating_add(timeout));
        let own = request.deadline.filter(|_| allow_timeout_override);
        let expires = given.into_iter().chain(own).min().unwrap_or(Nanos::MAX);
        self.expires = self.expires.min(expires);
        self.queue.push_back(Waiting::new(request, expires));
    }

    /// Rejects or delays the requests whose timeout has come.
    fn expire(&mut self, dispatch: &mut Dispatch<'_>) {
        let now = dispatch.now();
        if now < self.expires {
            return;
        }
        let Level { policy, queue, delayed, expires } = self;
        *expires = Nanos::MAX;
        queue.retain(|waiting| {
            let late = waiting.due <= now;
            match (late, policy.timeout_action) {
                (false, _) => *expires = waiting.due.min(*expires),
                (true, TimeoutAction::Reject) => dispatch.reject(waiting.request),
                (true, TimeoutAction::Delay) => delayed.push_back(waiting.clone()),
            }
            !late
        });
    }
}

struct TritonPolicy {
    settings: Triton,
    /// From the most urgent.
    levels: Vec<Level>,
    /// Tasks of each instance, worker by worker.
    unfinished: Vec<u32>,
    /// With `preserve_ordering`: the requests that were sent, and whether they are done.
    sent: VecDeque<(RequestId, bool)>,
    batch: PaddedBatch,
    wake: Option<Nanos>,
}

/// What an instance that is free is to do.
enum Next {
    Send { size: usize, rule: &'static str },
    Wait(Nanos),
    Nothing,
}

impl TritonPolicy {
    /// `GetDynamicBatch`, for requests of one row each.
    fn next(&self, now: Nanos) -> Next {
        let Triton { max_batch, max_queue_delay: delay, mandatory, max_total, .. } = &self.settings;
        let (mut fitting, mut total, mut oldest, mut full) = (0, 0, Nanos::MAX, false);
        for waiting in self.levels.iter().flat_map(|level| level.queue.iter().chain(&level.delayed)) {
            total += u64::from(waiting.length);
            full = fitting == *max_batch as usize || (fitting > 0 && max_total.is_some_and(|most| total > most));
            if full {
                break;
            }
            fitting += 1;
            oldest = oldest.min(waiting.arrival);
        }
        if fitting == 0 {
            return Next::Nothing;
        }
        let expires = oldest.saturating_add(*delay);
        let delayed = *delay > Nanos::ZERO && expires <= now;
        match self.settings.largest_preferred(fitting) {
            Some(size) if !delayed || *mandatory => Next::Send { size, rule: "the largest preferred size" },
            _ if full => Next::Send { size: fitting, rule: "no more fit" },
            _ if delayed => Next::Send { size: fitting, rule: "max_queue_delay is over" },
            _ if *delay == Nanos::ZERO => Next::Send { size: fitting, rule: "without max_queue_delay, all that wait" },
            _ => Next::Wait(expires),
        }
    }

    fn send(&mut self, size: usize, rule: &str, worker: WorkerId, stream: StreamId, dispatch: &mut Dispatch<'_>) {
        let waiting: usize = self.levels.iter().map(Level::len).sum();
        self.batch.clear();
        for level in &mut self.levels {
            let wanted = size - self.batch.requests.len();
            let queued = wanted.min(level.queue.len());
            let delayed = (wanted - queued).min(level.delayed.len());
            self.batch.extend(level.queue.drain(..queued).chain(level.delayed.drain(..delayed)));
        }
        if self.settings.preserve_ordering {
            self.sent.extend(self.batch.requests.iter().map(|request| (*request, false)));
        }
        dispatch.submit_because(&Task { stream, ..self.batch.task(worker) }, || Reason {
            what: "the requests that have waited longest, of the most urgent levels".into(),
            size: format!("{size} of {waiting} that wait: {rule}"),
            when: format!("instance {stream} of worker {worker} was free"),
        });
    }

    /// The instance of a worker with the fewest tasks.
    fn instance(&mut self, worker: WorkerId) -> (&mut u32, StreamId) {
        let instances = usize::from(self.settings.instances);
        let tasks = self.unfinished[worker.index() * instances..][..instances].iter_mut();
        let (place, tasks) = tasks.enumerate().min_by_key(|(_, tasks)| **tasks).expect("at least one instance");
        (tasks, StreamId(place as u16))
    }
}

impl Policy for TritonPolicy {
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        self.levels[self.settings.level(request)].arrive(request, outcomes);
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        let instances = usize::from(self.settings.instances);
        self.unfinished[completed.worker.index() * instances + completed.stream.index()] -= 1;
        if !self.settings.preserve_ordering {
            return completed.requests.iter().for_each(|request| outcomes.finish(*request));
        }
        for request in completed.requests {
            let place = self.sent.partition_point(|(other, _)| other < request);
            self.sent[place].1 = true;
        }
        while let Some((request, true)) = self.sent.front().copied() {
            self.sent.pop_front();
            outcomes.finish(request);
        }
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.levels.iter_mut().for_each(|level| level.expire(dispatch));
        self.wake = self.levels.iter().map(|level| level.expires).min().filter(|at| *at < Nanos::MAX);
        for unfinished in 0..usize::from(self.settings.instances) * (self.settings.ahead as usize + 1) {
            let mut workers = dispatch.with_unfinished(unfinished);
            while let Some(worker) = workers.next(dispatch) {
                match self.next(dispatch.now()) {
                    Next::Send { size, rule } => {
                        let (tasks, stream) = self.instance(worker);
                        *tasks += 1;
                        self.send(size, rule, worker, stream, dispatch);
                    }
                    Next::Wait(until) => {
                        self.wake = Some(self.wake.map_or(until, |wake| wake.min(until)));
                        return;
                    }
                    Next::Nothing => return,
                }
            }
        }
    }

    fn works_ahead(&self) -> bool {
        self.settings.ahead > 0 || self.settings.instances > 1
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake
    }
}
