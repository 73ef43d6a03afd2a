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
    pub shapes: ShapeDraws<'a>,
    /// The dataset of each class; `None` for a class without one of its own.
    pub own: Vec<Option<ShapeDraws<'a>>>,
    /// The shares of the classes; `None` without classes.
    pub classes: Option<(WeightedIndex<f64>, RandomSequence)>,
}

impl<'a> Draws<'a> {
    /// Draws the shape and the class of the next request. The class is 0 without classes.
    pub fn draw(&mut self) -> (Shape, u16) {
        self.draw_by(ShapeDraws::draw)
    }

    /// Draws the next request, whose shape this function draws from a dataset.
    #[inline]
    fn draw_by<'s, T>(&'s mut self, draw: impl Fn(&'s mut ShapeDraws<'a>) -> T) -> (T, u16) {
        let class = match &mut self.classes {
            None => 0,
            Some((shares, random)) => shares.sample(random),
        };
        // A shape is drawn for every request, so that classes with datasets of their own shift no other.
        let mut drawn = draw(&mut self.shapes);
        if let Some(Some(own)) = self.own.get_mut(class) {
            drawn = draw(own);
        }
        (drawn, class as u16)
    }
}

/// Draws the shapes of a dataset.
pub struct ShapeDraws<'a> {
    sampler: Sampler<'a>,
    random: RandomSequence,
    /// The graph of each row of a table that was drawn, or else the graph of the last shape.
    graphs: Vec<Option<CellGraph>>,
    /// The last shape that is in no table.
    last: Shape,
}

impl<'a> ShapeDraws<'a> {
    pub fn new(sampler: Sampler<'a>, random: RandomSequence) -> ShapeDraws<'a> {
        ShapeDraws {
            sampler,
            random,
            graphs: Vec::new(),
            last: Shape::Fixed,
        }
    }

    fn draw(&mut self) -> Shape {
        self.sampler.draw(&mut self.random)
    }

    /// Draws a shape with its graph. The graph of a row of a table is made once.
    #[inline]
    fn draw_unfolded(&mut self, model: &Model) -> (&Shape, &CellGraph) {
        let (place, shape) = match self.sampler.table() {
            Some(rows) => {
                let row = self.sampler.draw_row(&mut self.random);
                (row, &rows[row].0)
            }
            None => {
                self.graphs.clear();
                self.last = self.sampler.draw(&mut self.random);
                (0, &self.last)
            }
        };
        if place >= self.graphs.len() {
            self.graphs.resize(place + 1, None);
        }
        let graph = self.graphs[place].get_or_insert_with(|| {
            let graph = Unfolder::new(model).unfold(shape);
            graph.expect("the model takes all shapes that can be drawn")
        });
        (shape, graph)
    }
}

/// Requests that exist only from their arrival on.
pub struct Drawn<'a> {
    draws: Draws<'a>,
    model: &'a Model,
    classes: Vec<Class>,
    next: u64,
    count: u64,
}

impl<'a> Drawn<'a> {
    /// Requests of a model that takes all shapes that can be drawn.
    pub fn new(draws: Draws<'a>, model: &'a Model, classes: Vec<Class>, count: u64) -> Drawn<'a> {
        Drawn {
            draws,
            model,
            classes,
            next: 0,
            count,
        }
    }
}

impl RequestSupply for Drawn<'_> {
    fn count(&self) -> u64 {
        self.count
    }

    fn next(&mut self, arrival: Nanos) -> Request<'_> {
        let model = self.model;
        let (unfolded, class) = self.draws.draw_by(|shapes| shapes.draw_unfolded(model));
        let id = RequestId(self.next);
        self.next += 1;
        Request::new(id, arrival, unfolded, self.classes.get(usize::from(class)))
    }
}
