//! Lists of requests' shapes and graphs, which store equal ones once.

use std::mem::discriminant;
use std::ops::Index;
use std::sync::Arc;

use super::cell_graph::CellGraph;
use super::shape::Shape;

/// A list in which items may share a value. Clones share all values.
#[derive(Debug)]
pub struct SharedList<T> {
    /// The place of each item's value. Items that share a value have the place of their first one.
    places: Arc<[u32]>,
    values: Arc<[T]>,
}

/// The sizes that have a place each in a [`ShapesBuilder`], which holds most lengths of sentences.
const SHARED_SIZES: u32 = 1 << 14;

impl<T> SharedList<T> {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> + DoubleEndedIterator + Clone {
        self.places
            .iter()
            .map(|place| &self.values[*place as usize])
    }

    /// The different values, in the order of their first items. Values that are stored apart may be equal.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The different values, each with the number of items that have it.
    pub fn counts(&self) -> impl Iterator<Item = (&T, u32)> {
        let mut counts = vec![0; self.values.len()];
        for place in &*self.places {
            counts[*place as usize] += 1;
        }
        self.values.iter().zip(counts)
    }

    /// The list of what a function makes of each value.
    pub fn map<U>(&self, make: impl FnMut(&T) -> U) -> SharedList<U> {
        SharedList {
            places: Arc::clone(&self.places),
            values: self.values.iter().map(make).collect(),
        }
    }

    /// The list of what a function makes of each value. An error comes with the first item that has the value.
    pub fn try_map<U, E>(
        &self,
        make: impl FnMut(&T) -> Result<U, E>,
    ) -> Result<SharedList<U>, (usize, E)> {
        let mut values = Vec::with_capacity(self.values.len());
        for value in self.values.iter().map(make) {
            values.push(value.map_err(|error| {
                let place = values.len() as u32;
                let first = self.places.iter().position(|other| *other == place);
                (first.unwrap_or(0), error)
            })?);
        }
        Ok(SharedList {
            places: Arc::clone(&self.places),
            values: values.into(),
        })
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> SharedList<T> {
        SharedList {
            places: Arc::default(),
            values: Arc::default(),
        }
    }
}

impl<T> Clone for SharedList<T> {
    fn clone(&self) -> SharedList<T> {
        SharedList {
            places: Arc::clone(&self.places),
            values: Arc::clone(&self.values),
        }
    }
}

impl<T: PartialEq> PartialEq for SharedList<T> {
    fn eq(&self, other: &SharedList<T>) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for SharedList<T> {}

impl<T> Index<usize> for SharedList<T> {
    type Output = T;

    fn index(&self, item: usize) -> &T {
        &self.values[self.places[item] as usize]
    }
}

impl FromIterator<CellGraph> for SharedList<CellGraph> {
    fn from_iter<I: IntoIterator<Item = CellGraph>>(graphs: I) -> SharedList<CellGraph> {
        let values: Arc<[CellGraph]> = graphs.into_iter().collect();
        SharedList {
            places: (0..values.len() as u32).collect(),
            values,
        }
    }
}

impl From<Vec<CellGraph>> for SharedList<CellGraph> {
    fn from(graphs: Vec<CellGraph>) -> SharedList<CellGraph> {
        graphs.into_iter().collect()
    }
}

impl From<Vec<Shape>> for SharedList<Shape> {
    fn from(shapes: Vec<Shape>) -> SharedList<Shape> {
        shapes.into_iter().collect()
    }
}

impl FromIterator<Shape> for SharedList<Shape> {
    fn from_iter<I: IntoIterator<Item = Shape>>(shapes: I) -> SharedList<Shape> {
        let mut builder = ShapesBuilder::default();
        for shape in shapes {
            builder.push(shape);
        }
        builder.build()
    }
}

/// A list of shapes that grows. Shapes of one size share their value if the size is small.
#[derive(Debug, Default)]
pub struct ShapesBuilder {
    places: Vec<u32>,
    values: Vec<Shape>,
    /// One more than the place of each size, by the size; 0 for sizes that have not come. All have the kind of the
    /// first shape.
    known: Vec<u32>,
}

impl ShapesBuilder {
    #[inline]
    pub fn push(&mut self, shape: Shape) {
        let size = match shape {
            Shape::Chain(size) | Shape::Tokens(size) | Shape::Graph(size) => size,
            Shape::Fixed => 0,
            Shape::Seq2Seq { .. } | Shape::Tree(_) | Shape::Llm { .. } => u32::MAX,
        };
        let place = if size < SHARED_SIZES && self.is_of_first_kind(&shape) {
            self.find_or_add(size as usize, shape)
        } else {
            self.add(shape)
        };
        self.places.push(place);
    }

    /// Adds a shape that is stored at this place already; otherwise it gets a place of its own.
    pub fn push_like(&mut self, place: u32, shape: Shape) {
        if self.values[place as usize] == shape {
            self.places.push(place);
        } else {
            self.push(shape);
        }
    }

    /// The place of the last shape.
    pub fn last_place(&self) -> u32 {
        self.places[self.places.len() - 1]
    }

    fn is_of_first_kind(&self, shape: &Shape) -> bool {
        self.values
            .first()
            .is_none_or(|first| discriminant(first) == discriminant(shape))
    }

    #[inline]
    fn find_or_add(&mut self, size: usize, shape: Shape) -> u32 {
        if self.known.len() <= size {
            self.known.resize(size + 1, 0);
        }
        if self.known[size] == 0 {
            self.known[size] = self.add(shape) + 1;
        }
        self.known[size] - 1
    }

    fn add(&mut self, shape: Shape) -> u32 {
        self.values.push(shape);
        self.values.len() as u32 - 1
    }

    pub fn build(self) -> SharedList<Shape> {
        SharedList {
            places: self.places.into(),
            values: self.values.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_one_small_size_share_their_value() {
        let texts = [
            "chain:3",
            "chain:7",
            "chain:3",
            "tokens:3",
            "seq2seq:3>3",
            "seq2seq:3>3",
            "chain:99999",
            "chain:99999",
            "chain:7",
        ];
        let shapes: SharedList<Shape> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let read: Vec<String> = shapes.iter().map(Shape::to_string).collect();
        assert_eq!(read, texts);
        assert_eq!(shapes.values().len(), 7, "two chains came again");
        assert!(std::ptr::eq(&shapes[0], &shapes[2]) && std::ptr::eq(&shapes[1], &shapes[8]));
        let apart: SharedList<Shape> = texts
            .iter()
            .rev()
            .map(|text| text.parse().unwrap())
            .collect();
        assert!(shapes != apart && shapes == shapes.clone());
    }

    #[test]
    fn values_are_counted_and_an_error_names_the_first_item() {
        let shapes: SharedList<Shape> = [5, 6, 5, 9, 6].map(Shape::Chain).into_iter().collect();
        let lengths = shapes.map(Shape::length);
        assert_eq!(lengths.iter().copied().collect::<Vec<_>>(), [5, 6, 5, 9, 6]);
        let counts: Vec<(u32, u32)> = lengths.counts().map(|(length, n)| (*length, n)).collect();
        assert_eq!(counts, [(5, 2), (6, 2), (9, 1)]);
        let refused = shapes.try_map(|shape| match shape.length() {
            9 => Err("nine"),
            length => Ok(length),
        });
        assert_eq!(refused.unwrap_err(), (3, "nine"));
    }
}
