//! Traces: requests with arrival times.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, HashSet};
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rand::RngExt as _;
use smallvec::SmallVec;

use super::cell_graph::CellGraph;
use super::class::{Class, Classes};
use super::input::{self, fields};
use super::model::{Model, Unfolder};
use super::random::RandomSequence;
use super::shape::{MAX_LENGTH, Shape};
use super::shared_list::{ShapesBuilder, SharedList};
use crate::base::error::{Context, Error, Result};
use crate::base::files::{is_packed, unpack, write_typed};
use crate::base::hash::{Fnv1a, HashedReader};
use crate::base::memory::limit_input;
use crate::base::shipped;
use crate::base::units::{Nanos, Rate, RequestId};
use crate::core::workload::arrivals::LAST_ARRIVAL;

/// The requests of a run in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub arrivals: Arc<[Nanos]>,
    pub shapes: SharedList<Shape>,
    /// The class of each request, if the trace has a column for it.
    pub classes: Option<Arc<[Arc<str>]>>,
}

/// The header of a trace without classes.
pub const NATIVE_HEADER: &str = "id,arrival_ns,shape";
const WITH_CLASS: &str = "id,arrival_ns,shape,class";

impl Trace {
    #[allow(clippy::len_without_is_empty)] // no one asks
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Reads a CSV text `id,arrival_ns,shape` with an optional column `class`. Ids are 0, 1, 2 and so on, and arrivals do
    /// not descend. Equal trees become one, so that they share their cell graph. Messages begin with the line.
    pub fn read_from(input: impl Read) -> Result<Trace> {
        Trace::read_rows(input, |_| ())
    }

    /// Reads a trace, and passes on its text piece by piece.
    fn read_rows(input: impl Read, mut note_text: impl FnMut(&[u8])) -> Result<Trace> {
        let mut input = BufReader::with_capacity(1 << 16, input);
        let mut line = Vec::new();
        input
            .read_until(b'\n', &mut line)
            .map_err(|cause| Error::input(format!("line 1: cannot be read: {cause}")))?;
        note_text(&line);
        let header = String::from_utf8_lossy(&line);
        let header = header.trim_start_matches('\u{feff}').trim_end();
        let names: Vec<String> = fields(header).iter().map(String::from).collect();
        let mut rows = match &*names.join(",") {
            NATIVE_HEADER => TraceRows::default(),
            WITH_CLASS => TraceRows {
                classes: Some(Vec::new()),
                ..TraceRows::default()
            },
            _ => {
                return Err(Error::input(format!(
                    "line 1: the header is \"{header}\"; that of a trace is {NATIVE_HEADER} or {WITH_CLASS}; trace import reads \
                     other columns"
                )));
            }
        };
        let mut blank = 0;
        loop {
            // Most rows are chains or trees that lie whole in the buffer.
            let buffer = input.buffer();
            let mut rest = buffer;
            while let Some(after) = rows.add_plain(rest) {
                note_text(&rest[..rest.len() - after.len()]);
                rest = after;
            }
            let taken = buffer.len() - rest.len();
            input.consume(taken);
            line.clear();
            let read = input
                .read_until(b'\n', &mut line)
                .map_err(|cause| format!("cannot be read: {cause}"));
            note_text(&line);
            let added = match (read, line.trim_ascii_end()) {
                (Ok(0), _) => break,
                (Ok(_), []) => {
                    blank += 1;
                    continue;
                }
                (read, row) => read.and_then(|_| {
                    rows.add(str::from_utf8(row).map_err(|_| "is not text in UTF-8")?)
                }),
            };
            added.map_err(|message| {
                Error::input(format!(
                    "line {}: {message}",
                    rows.arrivals.len() + blank + 2
                ))
            })?;
        }
        if rows.arrivals.is_empty() {
            return Err(Error::input(
                "the trace holds no requests; it needs at least one",
            ));
        }
        let classes = rows.classes.map(Arc::from);
        Ok(Trace {
            arrivals: rows.arrivals.into(),
            shapes: rows.shapes.build(),
            classes,
        })
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        write_typed(path, |mut out| self.write_to(&mut out))
    }

    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{}",
            if self.classes.is_some() {
                WITH_CLASS
            } else {
                NATIVE_HEADER
            }
        )?;
        for (id, (arrival, shape)) in self.arrivals.iter().zip(self.shapes.iter()).enumerate() {
            match &self.classes {
                Some(classes) => writeln!(out, "{id},{},{shape},{}", arrival.0, classes[id])?,
                None => writeln!(out, "{id},{},{shape}", arrival.0)?,
            }
        }
        Ok(())
    }

    /// The trace with arrival times multiplied by a factor; one above 1 lowers the load.
    pub fn scale_times(&self, factor: f64) -> Result<Trace> {
        if !(factor > 0.0 && factor.is_finite()) {
            return Err(Error::input(format!(
                "{factor} is not a time scale; it is a number above 0"
            )));
        }
        if factor == 1.0 {
            return Ok(self.clone()); // An f64 has no room for every time.
        }
        let last = self
            .arrivals
            .last()
            .map_or(0.0, |last| last.0 as f64 * factor);
        if last >= u64::MAX as f64 {
            return Err(Error::input(format!(
                "a time scale of {factor} moves the last arrival beyond {}",
                Nanos::MAX
            )));
        }
        let arrivals = self
            .arrivals
            .iter()
            .map(|at| Nanos::round(at.0 as f64 * factor))
            .collect();
        Ok(Trace {
            arrivals,
            ..self.clone()
        })
    }

    /// The trace with each arrival moved later by less than `unit`, at random, so that requests whose stamps are whole
    /// units do not all arrive at once. Requests of one stamp keep their order, and the first arrives at 0.
    ///
    /// # Errors
    /// The stamps are not whole units.
    pub fn spread(&self, unit: Nanos, rng: &mut RandomSequence) -> Result<Trace> {
        let first = self.arrivals.first().copied().unwrap_or_default();
        let is_whole = |at: &Nanos| unit > Nanos::ZERO && (*at - first).0.is_multiple_of(unit.0);
        if let Some(id) = self.arrivals.iter().position(|at| !is_whole(at)) {
            let at = self.arrivals[id];
            return Err(Error::input(format!(
                "request {id} arrives {} after the first, which is not a multiple of {unit}; the time is the unit of the \
                 stamps, and trace info names it",
                at - first
            )));
        }
        let mut arrivals = Vec::with_capacity(self.len());
        for stamp in self.arrivals.chunk_by(|one, next| one == next) {
            let start = arrivals.len();
            for at in stamp {
                arrivals.push(at.saturating_add(Nanos(rng.random_range(0..unit.0))));
            }
            arrivals[start..].sort_unstable();
        }
        let first = arrivals.first().copied().unwrap_or_default();
        Ok(Trace {
            arrivals: arrivals.into_iter().map(|at| at - first).collect(),
            ..self.clone()
        })
    }

    /// The trace with times scaled so that the mean of the gaps is that of the rate, which is (n − 1) / (last − first).
    /// The time from the first request to the last becomes a whole number of nanoseconds. Each arrival is then scaled
    /// exactly and rounded half up.
    pub fn scale_to_rate(&self, rate: Rate) -> Result<Trace> {
        let (Some(first), Some(last)) = (self.arrivals.first(), self.arrivals.last()) else {
            return Ok(self.clone());
        };
        let span = u128::from((*last - *first).0);
        if span == 0 {
            return Err(Error::input(
                "all requests arrive at once; no scale gives them a rate",
            ));
        }
        let scaled = ((self.len() - 1) as f64 * 1e9 / rate.0).round() as u128;
        let at = |at: &Nanos| {
            scaled
                .checked_mul(u128::from(at.0))
                .map(|product| (product + span / 2) / span)
        };
        if at(last).is_none_or(|last| last > u128::from(LAST_ARRIVAL.0)) {
            return Err(Error::input(format!(
                "a rate of {rate}/s moves the last arrival beyond {LAST_ARRIVAL}"
            )));
        }
        let arrivals = self
            .arrivals
            .iter()
            .map(|time| Nanos(at(time).expect("the last is the largest") as u64));
        Ok(Trace {
            arrivals: arrivals.collect(),
            ..self.clone()
        })
    }
}

/// A trace with the hash of its file.
#[derive(Debug)]
pub struct TraceFile {
    pub trace: Trace,
    /// The hash of the file as it is on the disk.
    pub hash: String,
}

impl TraceFile {
    /// Reads a file as [`Trace::read_from`] does, plain or compressed with gzip.
    pub fn read(path: &Path) -> Result<TraceFile> {
        let unreadable = |cause| Error::unreadable(path, &cause);
        let file = shipped::open(path).map_err(unreadable)?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        // An error occurs again when the rest is read.
        if file.fill_buf().is_ok_and(is_packed) {
            let mut file = HashedReader::new(file);
            let trace = Trace::read_from(unpack(&mut file)).within(path.display())?;
            let hash = file.into_hash().map_err(unreadable)?.to_string();
            return Ok(TraceFile { trace, hash });
        }
        // The processor hashes each row while it reads the next, which takes about as long.
        let mut hash = Fnv1a::new();
        let trace = Trace::read_rows(limit_input(file), |text| hash.add(text));
        let trace = trace.within(path.display())?;
        let hash = hash.to_string();
        Ok(TraceFile { trace, hash })
    }
}

/// The name of a class as traces write it.
pub fn class_name(text: &str) -> Result<&str, String> {
    match text {
        "" => Err("is empty; each request has a class".into()),
        _ if text.contains([',', '"'])
            || text.contains(char::is_control)
            || text.trim() != text =>
        {
            Err(format!(
                "{text:?} is not a class; leave out commas, quotes, control characters and blanks around it"
            ))
        }
        _ => Ok(text),
    }
}

/// A set of names, in which equal names share their memory.
#[derive(Default)]
pub struct Names(HashSet<Arc<str>>);

impl Names {
    /// The shared name that equals a text.
    pub fn one(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}

/// The rows of a trace that have been read.
#[derive(Default)]
struct TraceRows {
    arrivals: Vec<Nanos>,
    shapes: ShapesBuilder,
    /// The places of trees among the shapes, by their hashes, so that equal trees are stored once.
    trees: HashMap<u64, u32>,
    classes: Option<Vec<Arc<str>>>,
    names: Names,
}

impl TraceRows {
    /// Adds a valid row with a chain or a tree and without a class, as most rows are, and returns the text after it. It
    /// returns `None` for all other rows and leaves them to [`TraceRows::add`].
    fn add_plain<'t>(&mut self, text: &'t [u8]) -> Option<&'t [u8]> {
        let (id, text) = number_of(text)?;
        let (arrival, text) = number_of(text.strip_prefix(b",")?)?;
        let (shape, after) = plain_shape(text.strip_prefix(b",")?)?;
        let follows = self.arrivals.last().is_none_or(|last| last.0 <= arrival);
        let is_valid = id == self.arrivals.len() as u64 && id <= u32::MAX.into() && follows;
        if !is_valid || self.classes.is_some() {
            return None;
        }
        self.arrivals.push(Nanos(arrival));
        self.push_shape(shape);
        Some(after)
    }

    fn add(&mut self, row: &str) -> Result<(), String> {
        let id = self.arrivals.len();
        let header = if self.classes.is_some() {
            WITH_CLASS
        } else {
            NATIVE_HEADER
        };
        let unquoted;
        let fields: SmallVec<[&str; 4]> = if row.contains('"') {
            unquoted = input::fields(row);
            unquoted.iter().collect()
        } else {
            row.split(',').collect()
        };
        let (&[number, time, shape, ref class @ ..], true) =
            (&fields[..], fields.len() == header.split(',').count())
        else {
            return Err(format!(
                "\"{row}\" has {} fields; a row is {header}",
                fields.len()
            ));
        };
        if number.parse() != Ok(id) || id > u32::MAX as usize {
            return Err(format!(
                "id: \"{number}\" should be {id}; ids are 0, 1, 2 and so on, at most {}",
                u32::MAX
            ));
        }
        let arrival = time.parse().map(Nanos).map_err(|_| {
            format!("arrival_ns: \"{time}\" is not a time; it is a whole number of nanoseconds from 0 to {}", u64::MAX)
        })?;
        if let Some(last) = self.arrivals.last().filter(|last| arrival < **last) {
            return Err(format!(
                "arrival_ns: {time} is before {}, the arrival before it; they may not descend",
                last.0
            ));
        }
        let shape = shape.parse().map_err(|error| format!("shape: {error}"))?;
        if let (Some(classes), [class]) = (&mut self.classes, class) {
            classes.push(
                self.names
                    .one(class_name(class).map_err(|problem| format!("class: {problem}"))?),
            );
        }
        self.arrivals.push(arrival);
        self.push_shape(shape);
        Ok(())
    }

    fn push_shape(&mut self, shape: Shape) {
        let Shape::Tree(tree) = &shape else {
            return self.shapes.push(shape);
        };
        let mut hasher = DefaultHasher::new();
        tree.hash(&mut hasher);
        match self.trees.entry(hasher.finish()) {
            // Another tree with the same hash is stored for itself.
            Entry::Occupied(known) => self.shapes.push_like(*known.get(), shape),
            Entry::Vacant(new) => {
                self.shapes.push(shape);
                new.insert(self.shapes.last_place());
            }
        }
    }
}

/// The chain or the tree of a valid line, and the text after the line.
fn plain_shape(line: &[u8]) -> Option<(Shape, &[u8])> {
    if let Some(text) = line.strip_prefix(b"chain:") {
        let (length, text) = number_of(text)?;
        let is_valid = (1..=MAX_LENGTH.into()).contains(&length);
        let after = text.strip_prefix(b"\n").filter(|_| is_valid)?;
        return Some((Shape::Chain(length as u32), after));
    }
    let text = line.strip_prefix(b"tree:")?;
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let tree = str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    Some((Shape::Tree(Arc::new(tree)), &text[end + 1..]))
}

/// The number of up to 19 digits that a text begins with, which fits 64 bits, and the rest. `None` for other numbers of
/// digits, and near the end of the text, where a group of 8 digits could not be read at once.
#[inline]
fn number_of(text: &[u8]) -> Option<(u64, &[u8])> {
    const POWERS: [u64; 9] = [
        1,
        10,
        100,
        1000,
        10_000,
        100_000,
        1_000_000,
        10_000_000,
        100_000_000,
    ];
    let mut number = 0u64;
    let mut rest = text;
    loop {
        let (part, digits) = digits_of(rest)?;
        number = number.wrapping_mul(POWERS[digits]).wrapping_add(part);
        rest = &rest[digits..];
        if digits < 8 {
            break;
        }
    }
    let digits = text.len() - rest.len();
    if (1..=19).contains(&digits) {
        Some((number, rest))
    } else {
        None
    }
}

/// The number of up to 8 digits that a text of at least 8 bytes begins with, and how many they are. All bytes are
/// computed with at once.
#[inline]
fn digits_of(text: &[u8]) -> Option<(u64, usize)> {
    const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
    const HIGHEST_BITS: u64 = u64::from_le_bytes([0x80; 8]);
    let values = u64::from_le_bytes(*text.first_chunk()?) ^ ZEROS;
    // The highest bit of a byte is set where the value exceeds 9; what a byte above 127 adds to the next comes later.
    let others = (values | values.wrapping_add(u64::from_le_bytes([0x76; 8]))) & HIGHEST_BITS;
    let digits = others.trailing_zeros() / 8;
    // The first digit is in the lowest byte. Zeros are put before it.
    let tens = values.checked_shl(64 - 8 * digits).unwrap_or(0);
    let pairs = tens.wrapping_mul(10).wrapping_add(tens >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let eights = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    Some((eights, digits as usize))
}

/// The requests of a run, unfolded to cell graphs. A clone shares them, for runs that differ only in arrivals.
#[derive(Clone, Debug)]
pub struct Requests {
    pub shapes: SharedList<Shape>,
    pub graphs: SharedList<CellGraph>,
    /// The classes of the requests, or `None` without classes.
    pub classes: Option<Arc<Classes>>,
}

impl Requests {
    /// The largest length of a shape.
    pub fn longest(&self) -> u32 {
        let shapes = self.shapes.values().iter();
        shapes.map(Shape::length).max().unwrap_or(0)
    }

    pub fn unfold(shapes: SharedList<Shape>, model: &Model) -> Result<Requests, String> {
        let mut unfolder = Unfolder::new(model);
        let graphs = shapes
            .try_map(|shape| unfolder.unfold(shape))
            .map_err(|(id, error)| format!("request {id}: {error}"))?;
        Ok(Requests {
            shapes,
            graphs,
            classes: None,
        })
    }

    #[allow(clippy::len_without_is_empty)] // no one asks
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    pub fn request(&self, id: RequestId, arrival: Nanos) -> Request<'_> {
        let class = self.classes.as_ref().map(|classes| classes.class(id));
        Request::new(
            id,
            arrival,
            (&self.shapes[id.index()], &self.graphs[id.index()]),
            class,
        )
    }
}

/// A request as policies see it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub id: RequestId,
    pub arrival: Nanos,
    pub shape: &'a Shape,
    pub graph: &'a CellGraph,
    pub class: Option<&'a Class>,
    /// The instant by which the request should be done, as its class says.
    pub deadline: Option<Nanos>,
}

impl<'a> Request<'a> {
    pub fn new(
        id: RequestId,
        arrival: Nanos,
        (shape, graph): (&'a Shape, &'a CellGraph),
        class: Option<&'a Class>,
    ) -> Request<'a> {
        let deadline = class
            .and_then(|class| class.deadline)
            .map(|deadline| arrival.saturating_add(deadline));
        Request {
            id,
            arrival,
            shape,
            graph,
            class,
            deadline,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::base::hash::hash_bytes;
    use crate::core::workload::random;

    fn read(rows: &str) -> Result<Trace> {
        Trace::read_from(format!("id,arrival_ns,shape\n{rows}").as_bytes())
    }

    #[test]
    fn a_trace_reads_back_as_it_was_written() {
        let text = "id,arrival_ns,shape\n0,5,chain:3\n1,5,seq2seq:2>4\n2,9,tree:3 3 0\n3,18446744073709551615,tokens:7\n\
                    4,18446744073709551615,fixed\n";
        let trace = Trace::read_from(text.as_bytes()).unwrap();
        assert_eq!(trace.arrivals[..2], [Nanos(5), Nanos(5)]);
        let mut out = Vec::new();
        trace.write_to(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text);

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        trace.write(&path).unwrap();
        let file = TraceFile::read(&path).unwrap();
        assert_eq!(file.trace, trace);
        assert_eq!(file.hash, hash_bytes(text.as_bytes()).to_string());

        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        fs::write(&path, &packed).unwrap();
        let file = TraceFile::read(&path).unwrap();
        assert_eq!(file.trace, trace);
        assert_eq!(file.hash, hash_bytes(&packed).to_string());
    }

    #[test]
    fn a_short_cut_reads_what_the_long_way_reads() {
        let mut taken = 0;
        for row in [
            "1,5,chain:3",
            "01,007,chain:09",
            "1,18446744073709551615,chain:1",
            "1,4,chain:3",
            "2,5,chain:3",
            "1,5,chain:0",
            "1,5,chain:1073741824",
            "1,5,chain:1073741825",
            "1,5,chain:",
            "1,5,chain:3,a",
            "1,,chain:3",
            "+1,5,chain:3",
            "1,5,tokens:3",
            "1,5,chain:3 ",
            "1,5,tree:3 3 0",
            "1,5,tree:0",
            "1,5,tree:3 3 0 ",
            "1,5,tree:3  3 0",
            "1,5,tree:1",
            "1,5,tree:3,3,0",
            "1,5,tree:",
            "1,-5,chain:3",
            "",
            "1",
            "1,5",
            "1,5,",
            "1,99999999999999999999,chain:3",
        ] {
            let before = || {
                let mut rows = TraceRows {
                    arrivals: vec![Nanos(5)],
                    ..TraceRows::default()
                };
                rows.shapes.push(Shape::Fixed);
                rows
            };
            let (mut short, mut long) = (before(), before());
            let after = "2,6,chain:4";
            if short.add_plain(format!("{row}\n{after}").as_bytes()) == Some(after.as_bytes()) {
                assert_eq!(long.add(row), Ok(()), "{row}");
                assert_eq!(
                    (short.arrivals, short.shapes.build()),
                    (long.arrivals, long.shapes.build()),
                    "{row}"
                );
                taken += 1;
            }
        }
        assert_eq!(taken, 7);
    }

    #[test]
    fn numbers_end_at_the_first_other_byte() {
        let filler = "////////";
        for digits in [
            "0",
            "7",
            "0123",
            "12345678",
            "123456789",
            "9999999999999999999",
        ] {
            for other in ["/", ":", "\n", "\u{ff}", "\0"] {
                let rest = format!("{other}{filler}");
                let text = format!("{digits}{rest}");
                let expected = (digits.parse().unwrap(), rest.as_bytes());
                assert_eq!(number_of(text.as_bytes()), Some(expected));
            }
        }
        for none in ["", "////////", "1234567", "00000000000000000000////////"] {
            assert_eq!(number_of(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn equal_trees_are_one() {
        let trace = read("0,0,tree:3 3 0\n1,0,tree:0\n2,1,tree:3 3 0\n").unwrap();
        let [a, b, c] = [0, 1, 2].map(|id| &trace.shapes[id]);
        assert!(std::ptr::eq(a, c) && !std::ptr::eq(a, b));
    }

    #[test]
    fn a_broken_row_is_named_with_its_line() {
        for (rows, message) in [
            ("", "the trace holds no requests; it needs at least one"),
            (
                "1,0,fixed\n",
                "line 2: id: \"1\" should be 0; ids are 0, 1, 2 and so on, at most 4294967295",
            ),
            (
                "0,0,fixed\n\n2,0,fixed\n",
                "line 4: id: \"2\" should be 1; ids are 0, 1, 2 and so on, at most 4294967295",
            ),
            (
                "0,0,fixed\n1,1.5,fixed\n",
                "line 3: arrival_ns: \"1.5\" is not a time; it is a whole number of nanoseconds",
            ),
            ("0,-1,fixed\n", "line 2: arrival_ns: \"-1\" is not a time"),
            (
                "0,7,fixed\n1,6,fixed\n",
                "line 3: arrival_ns: 6 is before 7, the arrival before it; they may not descend",
            ),
            (
                "0,7\n",
                "line 2: \"0,7\" has 2 fields; a row is id,arrival_ns,shape",
            ),
            (
                "0,7,chain:0\n",
                "line 2: shape: bad shape \"chain:0\": \"0\" is not a whole number from 1",
            ),
            ("0,7,tree:1\n", "line 2: shape: no node has parent 0"),
        ] {
            let error = read(rows).unwrap_err().to_string();
            assert!(error.starts_with(message), "{rows:?}: {error}");
        }
        let error = Trace::read_from("id,arrival,shape\n".as_bytes())
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "line 1: the header is \"id,arrival,shape\"; that of a trace is id,arrival_ns,shape or \
             id,arrival_ns,shape,class; trace import reads other columns"
        );
        let error = TraceFile::read(Path::new("no/such.csv")).unwrap_err();
        assert!(
            error.to_string().starts_with("no/such.csv: cannot be read"),
            "{error}"
        );
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn quoted_fields_are_those_without_quotes() {
        let quoted = "\"id\",\"arrival_ns\",\"shape\",\"class\"\n\"0\",\"5\",\"tree:3 3 0\",\"a\"\n1,7,\"chain:2\",b\n";
        let plain = "id,arrival_ns,shape,class\n0,5,tree:3 3 0,a\n1,7,chain:2,b\n";
        assert_eq!(
            Trace::read_from(quoted.as_bytes()).unwrap(),
            Trace::read_from(plain.as_bytes()).unwrap()
        );
    }

    #[test]
    fn spread_stamps_keep_their_order_within_their_unit() {
        let stamps = [5, 5, 5, 6, 6, 9u64];
        let rows: Vec<String> = (0..)
            .zip(stamps)
            .map(|(id, second): (usize, u64)| {
                format!("{id},{}000000000,chain:{}\n", second, id + 1)
            })
            .collect();
        let trace = read(&rows.concat()).unwrap();
        let unit = Nanos(1_000_000_000);
        let spread = trace
            .spread(unit, &mut random::sequence(7, 0, "spread"))
            .unwrap();
        let again = trace
            .spread(unit, &mut random::sequence(7, 0, "spread"))
            .unwrap();
        assert_eq!((&spread.shapes, &spread), (&trace.shapes, &again));
        assert!(spread.arrivals.is_sorted() && spread.arrivals[0] == Nanos::ZERO);
        let other = trace
            .spread(unit, &mut random::sequence(8, 0, "spread"))
            .unwrap();
        assert_ne!(spread.arrivals, other.arrivals);
        // Whatever the first one's delay was, each gap is off by less than a unit.
        for (at, second) in spread.arrivals.iter().zip(stamps) {
            assert!(at.0.abs_diff((second - 5) * unit.0) < unit.0);
        }
        let error = trace.spread(Nanos(3_000_000_000), &mut random::sequence(7, 0, "spread"));
        assert!(
            error
                .unwrap_err()
                .to_string()
                .starts_with("request 3 arrives 1s after the first, which is not a multiple of 3s")
        );
    }

    #[test]
    fn scaling_multiplies_the_times() {
        let trace = read("0,3,fixed\n1,10,fixed\n").unwrap();
        assert_eq!(
            trace.scale_times(0.5).unwrap().arrivals[..],
            [Nanos(2), Nanos(5)]
        );
        assert_eq!(trace.scale_times(1.0).unwrap(), trace);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(trace.scale_times(bad).is_err(), "{bad}");
        }
    }
}
