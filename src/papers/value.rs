//! Values that papers state: the text that is shown, and the numbers in it.

use serde::Deserialize;

/// A value that a paper states, such as `20,000 req/s` or `16.1; 39.0; 57.7 %`.
///
/// The numbers and the unit are read from the text. A check therefore compares with exactly what a reader sees.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "String")]
pub struct PaperValue {
    text: String,
    numbers: Vec<f64>,
    /// The text after the last number.
    unit: String,
}

impl From<String> for PaperValue {
    fn from(text: String) -> PaperValue {
        let mut numbers = Vec::new();
        let mut end_of_last = text.len();
        let mut start = 0;
        for word in text.split([' ', ';', '/']) {
            if let Some(number) = parse_number(word) {
                numbers.push(number);
                end_of_last = start + word.len();
            }
            start += word.len() + 1;
        }
        PaperValue {
            unit: text[end_of_last..].trim().to_string(),
            numbers,
            text,
        }
    }
}

/// A number, with or without commas between its thousands.
fn parse_number(word: &str) -> Option<f64> {
    word.replace(',', "").parse().ok()
}

impl PaperValue {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn numbers(&self) -> &[f64] {
        &self.numbers
    }

    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// The only number of the text.
    ///
    /// # Panics
    /// The text has none or several. The texts are inside the program, so this is a mistake in it.
    pub fn number(&self) -> f64 {
        match self.numbers[..] {
            [number] => number,
            _ => panic!("\"{}\" does not state one number", self.text),
        }
    }

    /// The two ends of a range.
    ///
    /// # Panics
    /// The text does not have two numbers.
    pub fn range(&self) -> (f64, f64) {
        match self.numbers[..] {
            [low, high] => (low, high),
            _ => panic!("\"{}\" does not state a range", self.text),
        }
    }

    /// The numbers in the units of the figures: milliseconds for times, requests per second for rates.
    pub fn figure_numbers(&self) -> impl Iterator<Item = f64> {
        let scale = if self.unit == "µs" { 1e-3 } else { 1.0 };
        self.numbers.iter().map(move |number| number * scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_unit_are_read_from_the_text() {
        let cases: [(&str, &[f64], &str); 8] = [
            ("20,000 req/s", &[20_000.0], "req/s"),
            ("0.87", &[0.87], ""),
            ("16.1; 39.0; 57.7 %", &[16.1, 39.0, 57.7], "%"),
            ("3.5 to 6 %", &[3.5, 6.0], "%"),
            ("above 100 ms", &[100.0], "ms"),
            ("449/17; 322/3", &[449.0, 17.0, 322.0, 3.0], ""),
            ("BertBase 2; ResNet152 4", &[2.0, 4.0], ""),
            ("true", &[], ""),
        ];
        for (text, numbers, unit) in cases {
            let value = PaperValue::from(text.to_string());
            assert_eq!((value.numbers(), value.unit()), (numbers, unit), "{text}");
            assert_eq!(value.text(), text);
        }
    }

    #[test]
    fn figures_show_milliseconds() {
        let value = PaperValue::from("185 µs".to_string());
        assert_eq!(value.figure_numbers().collect::<Vec<_>>(), [0.185]);
    }
}
