//! Lists that grow with the places that are asked for.

/// The value at a place of a list, which grows up to it.
#[inline]
pub fn grow<T: Default>(list: &mut Vec<T>, place: usize) -> &mut T {
    if list.len() <= place {
        extend(list, place + 1);
    }
    &mut list[place]
}

/// Most calls find the place, so that growing is not part of them.
#[cold]
fn extend<T: Default>(list: &mut Vec<T>, length: usize) {
    list.resize_with(length, T::default);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_grows_up_to_the_place_and_keeps_its_values() {
        let mut list = vec![5, 6];
        *grow(&mut list, 3) += 7;
        *grow(&mut list, 0) += 1;
        assert_eq!(list, [6, 6, 0, 7]);
    }
}
