//! Request-level batching of language models, as in FasterTransformer (Orca, OSDI 2022, section 2): the requests of a
//! batch start together, with prompts padded to the longest, and return together, when the last of them has ended.

use super::prelude::*;
use super::sequences::KvMemory;
use super::whole::FirstCome;
use crate::core::task::{Iteration, NextDecode};

/// `kind = "static"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Static {
    /// The largest number of requests in a batch.
    #[default = 32]
    pub max_batch: u32,
    /// The longest sequence, prompt and output, for which each request has memory.
    #[default = 2048]
    pub max_length: u32,
}

impl Settings for Static {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "static",
            "language models: batches of whole requests, padded (FasterTransformer)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        require_positive([("max_batch", self.max_batch)])?;
        let memory = KvMemory::new("static", setup, 1, Some(self.max_length))?;
        let fits = memory.capacity / self.max_length;
        let batches = (0..setup.workers).map(|_| StaticBatch::default()).collect();
        Ok(Box::new(StaticPolicy {
            memory,
            queue: FirstCome::new(self.max_batch.min(fits)),
            batches,
        }))
    }

    fn iterates(&self) -> bool {
        true
    }
}

struct StaticPolicy {
    memory: KvMemory,
    /// The waiting requests, with the number of tokens of their prompts.
    queue: FirstCome<u32>,
    /// The batch of each worker.
    batches: Vec<StaticBatch>,
}

/// A batch of requests that start and return together. It is empty while the worker idles.
#[derive(Default)]
struct StaticBatch {
    members: Vec<StaticMember>,
    /// The longest prompt.
    longest: u32,
    /// The number of tokens that each member has received.
    generated: u32,
}

struct StaticMember {
    request: RequestId,
    prompt: u32,
    ended: bool,
    rejected: bool,
}

impl StaticBatch {
    fn begin(&mut self, requests: &[RequestId], prompts: impl Iterator<Item = u32>) {
        self.longest = 0;
        self.generated = 0;
        for (request, prompt) in requests.iter().zip(prompts) {
            self.longest = self.longest.max(prompt);
            self.members.push(StaticMember {
                request: *request,
                prompt,
                ended: false,
                rejected: false,
            });
        }
    }

    fn prompt_tokens(&self) -> u64 {
        let prompts = self.members.iter().map(|member| u64::from(member.prompt));
        prompts.sum()
    }

    fn unfinished_count(&self) -> u64 {
        let unfinished = self.members.iter().filter(|member| !member.ended);
        unfinished.count() as u64
    }
}

impl Policy for StaticPolicy {
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        if let Some(tokens) = self.memory.accept(request, outcomes) {
            self.queue.arrive(request.id, tokens);
        }
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        let batch = &mut self.batches[completed.worker.index()];
        batch.generated += 1;
        let most = self.memory.blocks(0);
        let may_outgrow = batch.longest.saturating_add(batch.generated) > most;
        for member in batch.members.iter_mut().filter(|member| !member.ended) {
            member.ended = completed.ended.binary_search(&member.request).is_ok();
            if !member.ended && may_outgrow && member.prompt.saturating_add(batch.generated) > most
            {
                member.ended = true;
                member.rejected = true;
                outcomes.reject_because(member.request, self.memory.rejection_reason());
            }
        }
        if batch.members.iter().all(|member| member.ended) {
            for member in batch.members.drain(..) {
                if !member.rejected {
                    outcomes.finish(member.request);
                }
            }
        }
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        let mut idle = dispatch.idle();
        while let Some(worker) = idle.next(dispatch) {
            let batch = &mut self.batches[worker.index()];
            let begins = batch.members.is_empty();
            let mut requests = Vec::new();
            if begins {
                let (taken, prompts) = self.queue.take(worker);
                requests.extend_from_slice(taken.requests);
                batch.begin(taken.requests, prompts);
            }
            if batch.members.is_empty() {
                continue;
            }
            let size = batch.members.len() as u32;
            let length = batch.longest.saturating_add(batch.generated);
            let (fed, useful) = if begins {
                (size.saturating_mul(length), batch.prompt_tokens())
            } else {
                (size, batch.unfinished_count())
            };
            let steps = [Step {
                cell: CellId(0),
                batch: fed,
                times: 1,
                input: size.saturating_mul(length),
            }];
            let iteration = Iteration {
                prefilled: requests.len() as u32,
                decodes: !begins,
                blocks: size * self.memory.blocks(0),
                capacity: self.memory.capacity,
            };
            let task = Task::new(worker, &steps, &requests, useful);
            dispatch.submit(&Task {
                batch: size,
                iteration: Some(iteration),
                ..task
            });
        }
    }

    fn repeat(&mut self, worker: WorkerId) -> Option<NextDecode> {
        let batch = &mut self.batches[worker.index()];
        let length = batch.longest.saturating_add(batch.generated + 1);
        if length > self.memory.blocks(0) {
            // A member may outgrow its memory.
            return None;
        }
        batch.generated += 1;
        let size = batch.members.len() as u32;
        Some(NextDecode {
            context: size.saturating_mul(length),
            blocks: size * self.memory.blocks(0),
        })
    }

    fn decides_when_idle(&self) -> bool {
        true
    }
}
