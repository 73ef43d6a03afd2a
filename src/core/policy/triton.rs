//! The dynamic batcher of NVIDIA's Triton Inference Server, by its documentation ("Dynamic Batcher" in the user guide's
//! model configuration) and its source (`GetDynamicBatch` in `dynamic_batch_scheduler.cc`, `PriorityQueue` in
//! `scheduler_utils.cc`). docs/TRITON.md lists the fields of `config.pbtxt`.
//!
//! When an instance is free, the requests that waited longest in the most urgent levels form a batch: of the largest
//! preferred size that they fill, or of all of them once the oldest has waited for `max_queue_delay`. In release 21.10
//! batches are formed before an instance is free ([`ClosedBatches`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::closed_batches::{self, ClosedBatches, Version};
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
    /// The sizes of batches that are sent without a delay; if the list is empty, `max_batch`.
    pub preferred_batch_size: Vec<u32>,
    /// The time that the oldest request of a batch without a preferred size may wait for more.
    #[serde(with = "super::values::time_with_unit")]
    pub max_queue_delay: Nanos,
    /// Whether batches above the smallest preferred size have a preferred size even after the delay (server#7604; not
    /// in Triton).
    pub mandatory: bool,
    /// The largest sum of the lengths in a batch. A longer request is a batch of its own (ray#58956; Triton leaves such
    /// rules to custom batching).
    pub max_total: Option<u64>,
    /// The number of levels; 0 for none. A class of priority 1 has the last level, one of priority `priority_levels`
    /// the first.
    pub priority_levels: u32,
    /// The level of requests without a class or with priority 0.
    pub default_priority_level: u32,
    pub default_queue_policy: QueuePolicy,
    /// The policies of levels, from "1", the most urgent.
    pub priority_queue_policy: BTreeMap<String, QueuePolicy>,
    /// Whether responses leave in the order of arrival.
    pub preserve_ordering: bool,
    /// The `count` of the instance group. Each instance has a stream, and all instances of a worker share it.
    #[default = 1]
    pub instances: u16,
    /// The number of an instance's batches behind the running one, with fixed members. TensorRT's backend has 1,
    /// because its instance takes the next batch when the running one has read its inputs (`ready_for_input_` in
    /// `tensorrt_backend`).
    pub ahead: u32,
    pub version: Version,
}

/// The largest number of instances. It is limited because each worker counts the tasks of each instance.
const MOST_INSTANCES: u32 = 64;
/// The largest number of levels. It is limited because each level has a queue.
const MOST_LEVELS: u32 = 1_000;

/// The policy of a level.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueuePolicy {
    /// The number of waiting requests from which on further ones are rejected; 0 for no limit.
    pub max_queue_size: u32,
    /// The time that a request may wait; zero for no limit.
    #[serde(with = "super::values::time_with_unit")]
    pub default_timeout: Nanos,
    pub timeout_action: TimeoutAction,
    /// Whether the deadline of a request's class replaces a longer timeout.
    pub allow_timeout_override: bool,
}

/// What becomes of a request that has waited too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeoutAction {
    #[default]
    Reject,
    /// The request waits until no other request of its level or a more urgent one waits.
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
        let levels = self.check()?;
        let mut settings = self.clone();
        settings.preferred_batch_size.sort_unstable();
        if settings.preferred_batch_size.is_empty() {
            settings.preferred_batch_size.push(self.max_batch);
        }
        let unfinished = vec![vec![0; self.instances.into()]; setup.workers];
        let instances = setup.workers * usize::from(self.instances);
        let closed = ClosedBatches::new(
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

    fn full_batch(&self) -> Option<u32> {
        if self.max_queue_delay == Nanos::ZERO {
            return None;
        }
        let smallest = self.preferred_batch_size.iter().min();
        Some(*smallest.unwrap_or(&self.max_batch))
    }

    fn streams(&self, _: &Setup<'_>) -> u16 {
        self.instances
    }
}

impl Triton {
    /// Checks the settings like `ValidateModelConfig` in `model_config_utils.cc`, and returns the empty queues.
    pub fn check(&self) -> Result<Vec<Level>, String> {
        require_positive([
            ("max_batch", self.max_batch),
            ("instances", self.instances.into()),
        ])?;
        refuse_above("instances", self.instances.into(), MOST_INSTANCES)?;
        refuse_above("priority_levels", self.priority_levels, MOST_LEVELS)?;
        self.check_sizes()?;
        let levels = self.levels()?;
        refuse_if(self.preserve_ordering && levels.len() > 1, || {
            format!(
                "preserve_ordering: not with several priority_levels ({})",
                levels.len()
            )
        })?;
        let mut actions = levels.iter().map(|level| level.policy.timeout_action);
        let delays = actions.any(|action| action == TimeoutAction::Delay);
        refuse_if(self.preserve_ordering && delays, || {
            "preserve_ordering: not with the timeout_action \"delay\"".to_string()
        })?;
        Ok(levels)
    }

    fn check_sizes(&self) -> Result<(), String> {
        let max_batch = self.max_batch;
        for size in &self.preferred_batch_size {
            refuse_if(!(1..=max_batch).contains(size), || {
                format!(
                    "preferred_batch_size: {size} must be between 1 and max_batch ({max_batch})"
                )
            })?;
        }
        refuse_if(
            self.mandatory && self.preferred_batch_size.is_empty(),
            || {
                "mandatory: no size is preferred; give preferred_batch_size, or leave it out"
                    .to_string()
            },
        )?;
        // These keys are not Triton's own.
        for (key, given) in [
            ("mandatory", self.mandatory),
            ("max_total", self.max_total.is_some()),
        ] {
            refuse_if(given && self.version == Version::Closed, || {
                format!(
                    "{key}: not with version \"21.10\", which merges batches up to max_batch; leave one out"
                )
            })?;
        }
        refuse_if(self.max_total == Some(0), || {
            "max_total: 0 is too small; at least 1, or leave it out".to_string()
        })
    }

    /// The empty queues of all levels.
    fn levels(&self) -> Result<Vec<Level>, String> {
        let default = self.default_priority_level;
        let last = self.priority_levels;
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
            match name.parse::<u32>() {
                Ok(level) if (1..=last).contains(&level) => {
                    levels[level as usize - 1].policy = policy.clone();
                }
                _ => {
                    return Err(format!(
                        "priority_queue_policy.{name}: not a level; priority_levels is {last}, and 1 the most urgent"
                    ));
                }
            }
        }
        Ok(levels)
    }

    /// The place of a request's level.
    fn level(&self, request: &Request<'_>) -> usize {
        let last = i64::from(self.priority_levels);
        let level = match request.class {
            Some(class) if class.priority != 0 => last + 1 - i64::from(class.priority),
            _ => self.default_priority_level.into(),
        };
        level.clamp(1, last.max(1)) as usize - 1
    }

    fn largest_preferred(&self, requests: usize) -> Option<usize> {
        let mut sizes = self.preferred_batch_size.iter().map(|size| *size as usize);
        sizes.rfind(|size| *size <= requests)
    }
}

fn refuse_above(key: &str, value: u32, most: u32) -> Result<(), String> {
    refuse_if(value > most, || {
        format!("{key}: {value} is too large; at most {most}")
    })
}

/// The requests of a level.
#[derive(Clone, Default)]
pub struct Level {
    policy: QueuePolicy,
    queue: VecDeque<Waiting>,
    /// The requests that are past their timeout, which come last.
    delayed: VecDeque<Waiting>,
    /// The earliest timeout in `queue`, once [`Level::expire`] was called.
    expires: Nanos,
}

impl Level {
    fn len(&self) -> usize {
        self.queue.len() + self.delayed.len()
    }

    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        let max_queue_size = self.policy.max_queue_size as usize;
        if max_queue_size > 0 && self.len() >= max_queue_size {
            return outcomes.reject(request.id);
        }
        let mut expires = Nanos::MAX;
        if self.policy.default_timeout > Nanos::ZERO {
            expires = request.arrival.saturating_add(self.policy.default_timeout);
        }
        if self.policy.allow_timeout_override
            && let Some(deadline) = request.deadline
        {
            expires = expires.min(deadline);
        }
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
            if waiting.due > now {
                *expires = waiting.due.min(*expires);
                return true;
            }
            match policy.timeout_action {
                TimeoutAction::Reject => dispatch.reject(waiting.request),
                TimeoutAction::Delay => delayed.push_back(waiting.clone()),
            }
            false
        });
    }
}

/// The origin of a batch.
enum BatchOrigin {
    Formed {
        /// The number of waiting requests, including those of the batch.
        waiting: usize,
        rule: &'static str,
    },
    Closed {
        merged: usize,
    },
}

/// Takes the first `count` of the waiting requests.
fn take_first(levels: &mut [Level], mut count: usize) -> impl Iterator<Item = Waiting> {
    let queues = levels
        .iter_mut()
        .flat_map(|level| [&mut level.queue, &mut level.delayed]);
    queues.flat_map(move |queue| {
        let size = count.min(queue.len());
        count -= size;
        queue.drain(..size)
    })
}

#[derive(Default)]
struct TritonPolicy {
    settings: Triton,
    /// The levels from the most urgent one.
    levels: Vec<Level>,
    closed: Option<ClosedBatches>,
    /// The numbers of unfinished tasks of each worker's instances.
    unfinished: Vec<Vec<u32>>,
    /// The requests that were sent and have not left, if responses leave in order.
    sent: VecDeque<RequestId>,
    /// The sent requests that are done and wait for earlier ones to leave.
    done: BTreeSet<RequestId>,
    batch: PaddedBatch,
    wake: Option<Nanos>,
}

impl TritonPolicy {
    /// Triton's `GetDynamicBatch` for requests of one entry each: the size of the batch that a free instance is to
    /// send, and the rule that gives it. Otherwise returns the instant until which it waits for more requests, if any
    /// wait.
    fn next_batch(&self, now: Nanos) -> Result<(usize, &'static str), Option<Nanos>> {
        let delay = self.settings.max_queue_delay;
        let max_batch = self.settings.max_batch as usize;
        let max_total = self.settings.max_total.unwrap_or(u64::MAX);
        let mut fitting = 0;
        let mut total = 0;
        let mut oldest = Nanos::MAX;
        let mut full = false;
        for waiting in self.waiting() {
            total += u64::from(waiting.length);
            full = fitting == max_batch || (fitting > 0 && total > max_total);
            if full {
                break;
            }
            fitting += 1;
            oldest = oldest.min(waiting.arrival);
        }
        if fitting == 0 {
            return Err(None);
        }
        let expires = oldest.saturating_add(delay);
        let delayed = delay > Nanos::ZERO && expires <= now;
        match self.settings.largest_preferred(fitting) {
            Some(size) if !delayed || self.settings.mandatory => {
                Ok((size, "the largest preferred size"))
            }
            _ if full => Ok((fitting, "no more fit")),
            _ if delayed => Ok((fitting, "max_queue_delay is over")),
            _ if delay == Nanos::ZERO => Ok((fitting, "without max_queue_delay, all that wait")),
            _ => Err(Some(expires)),
        }
    }

    /// All waiting requests, from the most urgent level.
    fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        let levels = self.levels.iter();
        levels.flat_map(|level| level.queue.iter().chain(&level.delayed))
    }

    /// Closes batches while there is room for them. Returns the instant until which no batch is ready, if requests wait
    /// for that.
    fn close(&mut self, now: Nanos) -> Option<Nanos> {
        while self.closed.as_ref().is_some_and(ClosedBatches::has_place) {
            match self.next_batch(now) {
                Err(until) => return until,
                Ok((size, _)) => {
                    let closed = self.closed.as_mut().expect("there is room for a batch");
                    closed.close(take_first(&mut self.levels, size));
                }
            }
        }
        None
    }

    /// Fills `batch` for a free instance. Otherwise returns the instant until which no batch is ready, if requests wait
    /// for that.
    fn take(&mut self, now: Nanos) -> Result<BatchOrigin, Option<Nanos>> {
        let until = self.close(now);
        if let Some(closed) = &mut self.closed {
            return match closed.take(now, &mut self.batch) {
                0 => Err(until),
                merged => Ok(BatchOrigin::Closed { merged }),
            };
        }
        let (size, rule) = self.next_batch(now)?;
        let waiting = self.levels.iter().map(Level::len).sum();
        self.batch.fill(take_first(&mut self.levels, size));
        Ok(BatchOrigin::Formed { waiting, rule })
    }

    /// Sends the batch to the worker's instance with the smallest number of tasks.
    fn send(&mut self, origin: &BatchOrigin, worker: WorkerId, dispatch: &mut Dispatch<'_>) {
        if self.settings.preserve_ordering {
            self.sent.extend(&self.batch.requests);
        }
        let instances = self.unfinished[worker.index()].iter_mut().enumerate();
        let (place, tasks) = instances
            .min_by_key(|(_, tasks)| **tasks)
            .expect("at least one instance");
        *tasks += 1;
        let stream = StreamId(place as u16);
        let size = self.batch.requests.len();
        let task = Task {
            stream,
            ..self.batch.task(worker)
        };
        dispatch.submit_because(&task, || Reason {
            what: "the requests that have waited longest, of the most urgent levels".into(),
            size: match origin {
                BatchOrigin::Formed { waiting, rule } => {
                    format!("{size} of {waiting} that wait: {rule}")
                }
                BatchOrigin::Closed { merged } => {
                    closed_batches::reason(size, *merged, self.settings.max_queue_delay)
                }
            },
            when: format!("instance {stream} of worker {worker} was free"),
        });
    }

    /// Offers a batch to each instance that may have one. Returns the instant until which no batch is ready, if
    /// requests wait for that.
    fn send_all(&mut self, dispatch: &mut Dispatch<'_>) -> Option<Nanos> {
        let now = dispatch.now();
        let batches_of_instance = self.settings.ahead as usize + 1;
        for unfinished in 0..usize::from(self.settings.instances) * batches_of_instance {
            let mut workers = dispatch.with_unfinished(unfinished);
            while let Some(worker) = workers.next(dispatch) {
                match self.take(now) {
                    Ok(origin) => self.send(&origin, worker, dispatch),
                    Err(until) => return until,
                }
            }
        }
        self.close(now)
    }
}

impl Policy for TritonPolicy {
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        self.levels[self.settings.level(request)].arrive(request, outcomes);
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        self.unfinished[completed.worker.index()][completed.stream.index()] -= 1;
        if !self.settings.preserve_ordering {
            for request in completed.requests {
                outcomes.finish(*request);
            }
            return;
        }
        self.done.extend(completed.requests);
        while let Some(first) = self.sent.front()
            && self.done.remove(first)
        {
            outcomes.finish(*first);
            self.sent.pop_front();
        }
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        for level in &mut self.levels {
            level.expire(dispatch);
        }
        let expires = self.levels.iter().map(|level| level.expires).min();
        let expires = expires.filter(|at| *at < Nanos::MAX);
        let until = self.send_all(dispatch);
        self.wake = expires.into_iter().chain(until).min();
    }

    fn works_ahead(&self) -> bool {
        self.settings.ahead > 0 || self.settings.instances > 1 || self.closed.is_some()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake
    }
}
