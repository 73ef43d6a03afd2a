//! Lists that grow with the places that are asked for.

/// The value at a place of a list, which grows up to it.
pub fn grow<T: Default>(list: &mut Vec<T>, place: usize) -> &mut T {
    if list.len() <= place {
        list.resize_with(place + 1, T::default);
    }
    &mut list[place]
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
