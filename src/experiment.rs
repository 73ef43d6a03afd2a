//! A scenario run: its points, in parallel, and what they write.
