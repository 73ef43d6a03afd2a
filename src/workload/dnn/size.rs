//! Sizes as functions of a request's length: `512`, `12*tokens`, `tokens*tokens*12 + 64`.

/// A polynomial of `tokens` with natural coefficients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// By power; the last is not 0.
    coefficients: Vec<u64>,
}

/// The largest size: far beyond any layer, and far from an overflow.
pub const MAX_SIZE: u64 = 1 << 40;

/// The most factors `tokens` in a product.
const MAX_POWER: usize = 3;

impl Size {
    pub fn constant(size: u64) -> Size {
        let mut size = Size { coefficients: vec![size] };
        size.trim();
        size
    }

    pub fn parse(text: &str) -> Result<Size, String> {
        let refuse = || {
            format!(
                "\"{text}\" is not a sum of products of whole numbers and tokens, such as 64, 12*tokens or 3*tokens*tokens + 64"
            )
        };
        let mut coefficients = vec![0u64; MAX_POWER + 1];
        for term in text.split('+') {
            let (mut power, mut product) = (0, 1u64);
            for factor in term.split('*').map(str::trim) {
                match factor {
                    "tokens" if power < MAX_POWER => power += 1,
                    "tokens" => {
                        return Err(format!("\"{text}\" has more than {MAX_POWER} factors tokens in a product"));
                    }
                    _ if !factor.bytes().all(|digit| digit.is_ascii_digit()) => return Err(refuse()),
                    _ => product = factor.parse().ok().and_then(|n| product.checked_mul(n)).ok_or_else(refuse)?,
                }
            }
            let sum = coefficients[power].checked_add(product);
            coefficients[power] = sum.filter(|sum| *sum <= MAX_SIZE).ok_or_else(|| too_large(text))?;
        }
        let mut size = Size { coefficients };
        size.trim();
        Ok(size)
    }

    fn trim(&mut self) {
        while self.coefficients.last() == Some(&0) {
            self.coefficients.pop();
        }
    }

    /// The size for this number of tokens, up to [`MAX_SIZE`].
    pub fn checked_at(&self, tokens: u32) -> Option<u64> {
        let value = self.coefficients.iter().rev().try_fold(0u64, |sum, coefficient| {
            sum.checked_mul(u64::from(tokens)).and_then(|sum| sum.checked_add(*coefficient))
        });
        value.filter(|value| *value <= MAX_SIZE)
    }

    /// The size for this number of tokens, at most [`MAX_SIZE`].
    pub fn at(&self, tokens: u32) -> u64 {
        self.checked_at(tokens).unwrap_or(MAX_SIZE)
    }

    /// Whether it is the same for all requests.
    pub fn is_constant(&self) -> bool {
        self.coefficients.len() <= 1
    }
}

/// The message for a size above [`MAX_SIZE`].
pub fn too_large(text: &str) -> String {
    format!("\"{text}\" is more than {MAX_SIZE}, which nothing is as large as")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_products_are_read() {
        for (text, of_three) in [
            ("0", 0),
            ("64", 64),
            ("tokens", 3),
            (" 12 * tokens ", 36),
            ("tokens*tokens*12*4", 432),
            ("2*tokens*tokens + tokens*5 + 7+1", 41),
        ] {
            assert_eq!(Size::parse(text).unwrap().at(3), of_three, "{text}");
        }
        assert!(Size::parse("3*4").unwrap().is_constant());
        assert_eq!(Size::parse("3*4"), Ok(Size::constant(12)));
        assert!(!Size::parse("tokens").unwrap().is_constant());
    }

    #[test]
    fn what_is_no_size_is_quoted() {
        for bad in ["", "token", "3*", "-1", "1.5", "tokens^2", "tokens tokens", "99999999999999999999"] {
            let error = Size::parse(bad).unwrap_err();
            assert!(error.starts_with(&format!("\"{bad}\" is not a sum of products")), "{error}");
        }
        assert!(Size::parse("tokens*tokens*tokens*tokens").unwrap_err().contains("more than 3 factors"));
        assert!(Size::parse("2000000000000").unwrap_err().contains("is more than 1099511627776"));
        assert_eq!(Size::parse("tokens*tokens").unwrap().checked_at(1 << 21), None);
    }
}
