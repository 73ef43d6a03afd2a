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
        let (shapes, class) = self.draw_class();
        (shapes.draw(), class)
    }

    /// Draws the class of the next request. Returns the dataset from which its shape is drawn next, and the class.
    #[inline(always)]
    fn draw_class(&mut self) -> (&mut ShapeDraws<'a>, u16) {
        let class = match &mut self.classes {
            None => 0,
            Some((shares, random)) => shares.sample(random),
        };
        let shapes = match self.own.get_mut(class) {
            Some(Some(own)) => {
                // A shape is drawn for every request, so that classes with datasets of their own shift no other.
                self.shapes.skip();
                own
            }
            _ => &mut self.shapes,
        };
        (shapes, class as u16)
    }
}

/// The number of rows that are drawn at once.
const BLOCK: usize = 64;

/// Draws the shapes of a dataset. The rows of a table are drawn in blocks, so that the processor draws a row while it
/// still looks up the one before.
pub struct ShapeDraws<'a> {
    sampler: Sampler<'a>,
    random: RandomSequence,
    /// The rows of a table that were drawn last.
    rows: [u32; BLOCK],
    /// The place in `rows` of the next row.
    next_row: usize,
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
            rows: [0; BLOCK],
            next_row: BLOCK,
            graphs: Vec::new(),
            last: Shape::Fixed,
        }
    }

    fn draw(&mut self) -> Shape {
        match self.sampler.table() {
            Some(rows) => rows[self.draw_row()].0.clone(),
            None => self.sampler.draw(&mut self.random),
        }
    }

    /// Draws a shape that is not used.
    fn skip(&mut self) {
        match self.sampler.table() {
            Some(_) => _ = self.draw_row(),
            None => _ = self.sampler.draw(&mut self.random),
        }
    }

    /// Draws a row of a table.
    #[inline]
    fn draw_row(&mut self) -> usize {
        if self.next_row == BLOCK {
            for row in &mut self.rows {
                *row = self.sampler.draw_row(&mut self.random) as u32;
            }
            self.next_row = 0;
        }
        self.next_row += 1;
        self.rows[self.next_row - 1] as usize
    }

    /// Draws a shape with its graph. The graph of a row of a table is made once.
    #[inline(always)]
    fn draw_unfolded(&mut self, model: &Model) -> (&Shape, &CellGraph) {
        let (place, shape) = match self.sampler.table() {
            Some(rows) => {
                let row = self.draw_row();
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

    #[inline(always)]
    fn next(&mut self, arrival: Nanos) -> Request<'_> {
        let (shapes, class) = self.draws.draw_class();
        let unfolded = shapes.draw_unfolded(self.model);
        let id = RequestId(self.next);
        self.next += 1;
        Request::new(id, arrival, unfolded, self.classes.get(usize::from(class)))
    }
}
