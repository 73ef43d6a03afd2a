//! The dynamic batcher of NVIDIA's Triton Inference Server, by its documentation ("Dynamic Batcher" in the user guide's
//! model configuration) and its source (`GetDynamicBatch` in `dynamic_batch_scheduler.cc`, `PriorityQueue` in
//! `scheduler_utils.cc`). docs/TRITON.md lists the fields of `config.pbtxt`.
//!
//! When an instance is free, the requests that waited longest in the most urgent levels form a batch: of the largest
//! preferred size that they fill, or of all of them once the oldest has waited for `max_queue_delay`. In release 21.10
//! batches are formed before an instance is free ([`ClosedBatches`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::closed::{self, ClosedBatches, Version};
use super::prelude::*;
use super::whole::{PaddedBatch, Waiting};
use crate::base::error::refuse_if;
use crate::base::units::StreamId;

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
    pub version: Version,
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
        PolicyKind::new(
            "triton",
            "whole sequences by preferred sizes, delay, priorities and timeouts (Triton)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        setup.require_sequences("triton")?;
        let (levels, mut settings) = (self.check()?, self.clone());
        settings.preferred_batch_size.sort_unstable();
        if settings.preferred_batch_size.is_empty() {
            settings.preferred_batch_size.push(self.max_batch);
        }
        let unfinished = vec![vec![0; self.instances.into()]; setup.workers];
        let instances = setup.workers * usize::from(self.instances);
        let closed = ClosedBatches::of(
            Some(self.version),
            instances,
            self.max_batch,
            self.max_queue_delay,
        );
        Ok(Box::new(TritonPolicy {
            settings,
            levels,
            closed,
            unfinished,
            ..TritonPolicy::default()
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
        at_least_1([
            ("max_batch", self.max_batch),
            ("instances", self.instances.into()),
        ])?;
        for (key, value, most) in [
            ("instances", self.instances.into(), MOST_INSTANCES),
            ("priority_levels", self.priority_levels, MOST_LEVELS),
        ] {
            refuse_if(value > most, || {
                format!("{key}: {value} is too large; at most {most}")
            })?;
        }
        let Triton {
            max_batch,
            preferred_batch_size: preferred,
            ..
        } = self;
        if let Some(size) = preferred
            .iter()
            .find(|size| !(1..=*max_batch).contains(size))
        {
            return Err(format!(
                "preferred_batch_size: {size} must be between 1 and max_batch ({max_batch})"
            ));
        }
        refuse_if(self.mandatory && preferred.is_empty(), || {
            "mandatory: no size is preferred; give preferred_batch_size, or leave it out"
                .to_string()
        })?;
        let own = [
            ("mandatory", self.mandatory),
            ("max_total", self.max_total.is_some()),
        ];
        if let Some((key, _)) = own
            .iter()
            .find(|(_, given)| *given && self.version == Version::Closed)
        {
            return Err(format!(
                "{key}: not with version \"21.10\", which merges batches up to max_batch; leave one out"
            ));
        }
        refuse_if(self.max_total == Some(0), || {
            "max_total: 0 is too small; at least 1, or leave it out".to_string()
        })?;
        let levels = self.levels()?;
        refuse_if(self.preserve_ordering && levels.len() > 1, || {
            format!(
                "preserve_ordering: not with several priority_levels ({})",
                levels.len()
            )
        })?;
        let delays = levels
            .iter()
            .any(|level| level.policy.timeout_action == TimeoutAction::Delay);
        refuse_if(self.preserve_ordering && delays, || {
            "preserve_ordering: not with the timeout_action \"delay\"".to_string()
        })?;
        Ok(levels)
    }

    /// The empty queues of all levels.
    fn levels(&self) -> Result<Vec<Level>, String> {
        let (default, last) = (self.default_priority_level, self.priority_levels);
        let first = last.min(1);
        refuse_if(!(first..=last).contains(&default), || {
            format!(
                "default_priority_level: {default} must be from {first} to {last} where priority_levels is {last}"
            )
        })?;
        let level = Level {
            policy: self.default_queue_policy.clone(),
            ..Level::default()
        };
        let mut levels = vec![level; last.max(1) as usize];
        for (name, policy) in &self.priority_queue_policy {
            let level = name.parse::<u32>().ok().filter(|level| (1..=last).contains(level)).ok_or_else(|| {
                format!("priority_queue_policy.{name}: not a level; priority_levels is {last}, and 1 the most urgent")
            })?;
            levels[level as usize - 1].policy = policy.clone();
        }
        Ok(levels)
    }

    fn level(&self, request: &Request<'_>) -> usize {
        let last = i64::from(self.priority_levels);
        let level = match request.class.map_or(0, |class| class.priority) {
            0 => self.default_priority_level.into(),
            priority => last + 1 - i64::from(priority),
        };
        level.clamp(1, last.max(1)) as usize - 1
    }

    fn largest_preferred(&self, requests: usize) -> Option<usize> {
        self.preferred_batch_size
            .iter()
            .map(|size| *size as usize)
            .rfind(|size| *size <= requests)
    }
}

/// The requests of a level, those that are past their timeout last.
#[derive(Clone, Default)]
pub struct Level {
    policy: QueuePolicy,
    queue: VecDeque<Waiting>,
    delayed: VecDeque<Waiting>,
    /// The earliest timeout in `queue`, once [`Level::expire`] was called.
    expires: Nanos,
}

impl Level {
    fn len(&self) -> usize {
        self.queue.len() + self.delayed.len()
    }

    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        let QueuePolicy {
            max_queue_size,
            default_timeout,
            allow_timeout_override,
            ..
        } = self.policy;
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
        let Level {
            policy,
            queue,
            delayed,
            expires,
        } = self;
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

/// Where a batch comes from.
enum Chosen {
    Formed {
        /// The number of waiting requests, the chosen ones included.
        waiting: usize,
        rule: &'static str,
    },
    Closed {
        merged: usize,
    },
}

/// The first of the waiting requests.
fn first(levels: &mut [Level], mut wanted: usize) -> impl Iterator<Item = Waiting> {
    levels
        .iter_mut()
        .flat_map(|level| [&mut level.queue, &mut level.delayed])
        .flat_map(move |queue| {
            let size = wanted.min(queue.len());
            wanted -= size;
            queue.drain(..size)
        })
}

#[derive(Default)]
struct TritonPolicy {
    settings: Triton,
    /// From the most urgent.
    levels: Vec<Level>,
    closed: Option<ClosedBatches>,
    /// Tasks of each worker's instances.
    unfinished: Vec<Vec<u32>>,
    /// With `preserve_ordering`: the requests that were sent, and those of them that wait for earlier ones to leave.
    sent: VecDeque<RequestId>,
    done: BTreeSet<RequestId>,
    batch: PaddedBatch,
    wake: Option<Nanos>,
}

impl TritonPolicy {
    /// `GetDynamicBatch`, for requests of one row each: the size of the batch that a free instance is to send, and the rule
    /// that gives it. Otherwise until when it waits for more requests, if any are there.
    fn next(&self, now: Nanos) -> Result<(usize, &'static str), Option<Nanos>> {
        let Triton {
            max_batch,
            max_queue_delay: delay,
            mandatory,
            max_total,
            ..
        } = &self.settings;
        let (mut fitting, mut total, mut oldest, mut full) = (0, 0, Nanos::MAX, false);
        for waiting in self
            .levels
            .iter()
            .flat_map(|level| level.queue.iter().chain(&level.delayed))
        {
            total += u64::from(waiting.length);
            full = fitting == *max_batch as usize
                || (fitting > 0 && max_total.is_some_and(|most| total > most));
            if full {
                break;
            }
            fitting += 1;
            oldest = oldest.min(waiting.arrival);
        }
        if fitting == 0 {
            return Err(None);
        }
        let expires = oldest.saturating_add(*delay);
        let delayed = *delay > Nanos::ZERO && expires <= now;
        match self.settings.largest_preferred(fitting) {
            Some(size) if !delayed || *mandatory => Ok((size, "the largest preferred size")),
            _ if full => Ok((fitting, "no more fit")),
            _ if delayed => Ok((fitting, "max_queue_delay is over")),
            _ if *delay == Nanos::ZERO => Ok((fitting, "without max_queue_delay, all that wait")),
            _ => Err(Some(expires)),
        }
    }

    /// Closes batches while there is a place. Returns until when no batch is ready, if requests wait for that.
    fn close(&mut self, now: Nanos) -> Option<Nanos> {
        while self.closed.as_ref().is_some_and(ClosedBatches::has_place) {
            match self.next(now) {
                Err(until) => return until,
                Ok((size, _)) => {
                    self.closed
                        .as_mut()
                        .expect("it has a place")
                        .close(first(&mut self.levels, size));
                }
            }
        }
        None
    }

    /// Fills `batch` for a free instance. Otherwise returns until when no batch is ready, if requests wait for that.
    fn take(&mut self, now: Nanos) -> Result<Chosen, Option<Nanos>> {
        let until = self.close(now);
        if let Some(closed) = &mut self.closed {
            return match closed.take(now, &mut self.batch) {
                0 => Err(until),
                merged => Ok(Chosen::Closed { merged }),
            };
        }
        let (size, rule) = self.next(now)?;
        let waiting = self.levels.iter().map(Level::len).sum();
        self.batch.fill(first(&mut self.levels, size));
        Ok(Chosen::Formed { waiting, rule })
    }

    /// Sends the batch to the worker's instance with the fewest tasks.
    fn send(&mut self, chosen: &Chosen, worker: WorkerId, dispatch: &mut Dispatch<'_>) {
        if self.settings.preserve_ordering {
            self.sent.extend(&self.batch.requests);
        }
        let instances = self.unfinished[worker.index()].iter_mut().enumerate();
        let (place, tasks) = instances
            .min_by_key(|(_, tasks)| **tasks)
            .expect("at least one instance");
        *tasks += 1;
        let (stream, size) = (StreamId(place as u16), self.batch.requests.len());
        dispatch.submit_because(
            &Task {
                stream,
                ..self.batch.task(worker)
            },
            || Reason {
                what: "the requests that have waited longest, of the most urgent levels".into(),
                size: match chosen {
                    Chosen::Formed { waiting, rule } => {
                        format!("{size} of {waiting} that wait: {rule}")
                    }
                    Chosen::Closed { merged } => {
                        closed::reason(size, *merged, self.settings.max_queue_delay)
                    }
                },
                when: format!("instance {stream} of worker {worker} was free"),
            },
        );
    }
}

impl Policy for TritonPolicy {
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        self.levels[self.settings.level(request)].arrive(request, outcomes);
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        self.unfinished[completed.worker.index()][completed.stream.index()] -= 1;
        if !self.settings.preserve_ordering {
            return completed
                .requests
                .iter()
                .for_each(|request| outcomes.finish(*request));
        }
        self.done.extend(completed.requests);
        while let Some(first) = self.sent.front().filter(|first| self.done.remove(*first)) {
            outcomes.finish(*first);
            self.sent.pop_front();
        }
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.levels
            .iter_mut()
            .for_each(|level| level.expire(dispatch));
        self.wake = self
            .levels
            .iter()
            .map(|level| level.expires)
            .min()
            .filter(|at| *at < Nanos::MAX);
        let now = dispatch.now();
        let until = 'offered: {
            for unfinished in
                0..usize::from(self.settings.instances) * (self.settings.ahead as usize + 1)
            {
                let mut workers = dispatch.with_unfinished(unfinished);
                while let Some(worker) = workers.next(dispatch) {
                    match self.take(now) {
                        Ok(chosen) => self.send(&chosen, worker, dispatch),
                        Err(until) => break 'offered until,
                    }
                }
            }
            self.close(now)
        };
        self.wake = self.wake.into_iter().chain(until).min();
    }

    fn works_ahead(&self) -> bool {
        self.settings.ahead > 0 || self.settings.instances > 1 || self.closed.is_some()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake
    }
}
