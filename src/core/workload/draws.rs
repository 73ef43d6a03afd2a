//! Requests that are drawn one by one.

use rand_distr::Distribution as _;
use rand_distr::weighted::WeightedIndex;

use super::arrivals::RequestSupply;
use super::cell_graph::CellGraph;
use super::class::Class;
use super::dataset::Sampler;
use super::model::{Model, Unfolder};
use super::random::RandomSequence;
use super::shape::Shape;
use super::trace::Request;
use crate::base::units::{Nanos, RequestId};

/// Draws the shapes and classes of a run in the order of arrival.
pub struct Draws<'a> {
    /// The dataset of all requests.
    pub shapes: (Sampler<'a>, RandomSequence),
    /// The dataset of each class; `None` for a class without one of its own.
    pub own: Vec<Option<(Sampler<'a>, RandomSequence)>>,
    /// The shares of the classes; `None` without classes.
    pub classes: Option<(WeightedIndex<f64>, RandomSequence)>,
}

impl Draws<'_> {
    /// Draws the shape and the class of the next request. The class is 0 without classes.
    #[inline]
    pub fn draw(&mut self) -> (Shape, u16) {
        let class = match &mut self.classes {
            None => 0,
            Some((shares, random)) => shares.sample(random),
        };
        // A shape is drawn for every request, so that classes with datasets of their own shift no other.
        let (sampler, random) = &mut self.shapes;
        let mut shape = sampler.draw(random);
        if let Some(Some((sampler, random))) = self.own.get_mut(class) {
            shape = sampler.draw(random);
        }
        (shape, class as u16)
    }
}

/// Requests that exist only from their arrival on.
pub struct Drawn<'a> {
    draws: Draws<'a>,
    model: &'a Model,
    /// The unfolder that keeps the graphs of the shapes, if samplers draw the same shapes again.
    unfolder: Unfolder<'a>,
    lasting: bool,
    classes: Vec<Class>,
    next: u64,
    count: u64,
    shape: Shape,
    graph: CellGraph,
}

impl<'a> Drawn<'a> {
    /// Requests of a model that takes all shapes that can be drawn.
    pub fn new(draws: Draws<'a>, model: &'a Model, classes: Vec<Class>, count: u64) -> Drawn<'a> {
        let lasting = draws
            .own
            .iter()
            .flatten()
            .chain([&draws.shapes])
            .all(|(sampler, _)| sampler.is_lasting());
        Drawn {
            draws,
            model,
            unfolder: Unfolder::new(model),
            lasting,
            classes,
            next: 0,
            count,
            shape: Shape::Fixed,
            graph: CellGraph::chains([]),
        }
    }
}

impl RequestSupply for Drawn<'_> {
    fn count(&self) -> u64 {
        self.count
    }

    fn next(&mut self, arrival: Nanos) -> Request<'_> {
        let (shape, class) = self.draws.draw();
        let graph = if self.lasting {
            self.unfolder.unfold(&shape)
        } else {
            Unfolder::new(self.model).unfold(&shape)
        };
        self.shape = shape;
        self.graph = graph.expect("the model takes all shapes that can be drawn");
        let id = RequestId(self.next);
        self.next += 1;
        Request::new(
            id,
            arrival,
            (&self.shape, &self.graph),
            self.classes.get(usize::from(class)),
        )
    }
}
