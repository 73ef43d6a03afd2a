//! Finds rules that unfold every shape to a chain.

use super::expression::{Item, Linear};
use super::rule::{Family, Need, Range};

/// The order in which a chain runs through a family's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Whether the families follow each other, each a chain along its only index, for all sizes.
///
/// This holds if three conditions are met. Within each family a node needs the one at the index before it (or after it:
/// [`Direction::Down`]), and no need within the family points the other way. The first node of a family needs the last
/// one of the previous family. All other needs point to earlier families. Then every two nodes are ordered, and further
/// needs neither matter nor close a cycle.
pub(super) fn is_chain(families: &[Family]) -> bool {
    let mut before: Option<(usize, &Family, Direction)> = None;
    for (number, family) in families.iter().enumerate() {
        let Some(direction) = direction(number, family) else { return false };
        if family.needs.iter().any(|need| need.family > number) {
            return false;
        }
        if let Some((last_number, last, last_direction)) = before {
            let of_first = match (direction, family.range.last()) {
                (Direction::Down, Some(last)) => last.clone(),
                _ => Linear::number(1),
            };
            let wanted = match (last_direction, last.range.last()) {
                (Direction::Up, Some(last)) => last.clone(),
                _ => Linear::number(1),
            };
            let linked = |need: &Need| {
                need.family == last_number
                    && match &need.items[..] {
                        [] | [Item::All] => true,
                        [Item::Span(low, high)] => low == high && high.with_first(&of_first).as_ref() == Some(&wanted),
                        _ => false,
                    }
            };
            if !family.needs.iter().any(linked) {
                return false;
            }
        }
        before = Some((number, family, direction));
    }
    true
}

/// The order of a family's nodes if they are a chain by themselves for all sizes.
fn direction(number: usize, family: &Family) -> Option<Direction> {
    let Range::Indices(lasts) = &family.range else { return None };
    let own = || family.needs.iter().filter(|need| need.family == number).map(|need| &need.items[..]);
    match &lasts[..] {
        [] if own().next().is_none() => Some(Direction::Up),
        [last] if last.is_positive() => {
            let by = |item: &[Item], steps: i64| {
                let there = Linear::first_index(steps);
                matches!(item, [Item::Span(low, high)] if *low == there && *high == there)
            };
            // The distance to the nearest needed node, upwards; `None` if it depends on the index.
            let nearest_up = |item: &[Item]| match item {
                [Item::Span(low, _)] if low.sizes == [0; 3] && low.indices == [1] => Some(low.constant),
                _ => None,
            };
            let nearest_down = |item: &[Item]| match item {
                [Item::Span(_, high)] if high.sizes == [0; 3] && high.indices == [1] => Some(-high.constant),
                _ => None,
            };
            if own().any(|item| by(item, -1)) && own().all(|item| nearest_down(item).is_some_and(|steps| steps >= 1)) {
                Some(Direction::Up)
            } else if own().any(|item| by(item, 1))
                && own().all(|item| nearest_up(item).is_some_and(|steps| steps >= 1))
            {
                Some(Direction::Down)
            } else {
                None
            }
        }
        _ => None,
    }
}
