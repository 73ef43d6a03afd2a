//! The font of a figure, and the widths of texts in it. No font of the system is used, so a drawing always gives the same
//! bytes.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use ab_glyph::{Font, FontArc, Glyph, PxScale, ScaleFont};

use crate::base::error::{Error, Result};

/// A name, and its file.
type BuiltIn = (&'static str, fn() -> &'static [u8]);

const BUILT_IN: [BuiltIn; 3] = [
    ("DejaVu Sans", dejavu::sans::regular),
    ("DejaVu Sans Condensed", dejavu::sans_condensed::regular),
    ("DejaVu Serif", dejavu::serif::regular),
];

/// For viewers that lack the font; Verdana has the widths of DejaVu Sans.
const FALLBACKS: &str = "DejaVu Sans, Verdana, Arial, sans-serif";

static DEFAULT: LazyLock<Face> = LazyLock::new(|| Face::built_in(&BUILT_IN[0]));

#[derive(Clone)]
pub struct Face {
    /// The name of the family.
    name: String,
    font: FontArc,
    bytes: Arc<Cow<'static, [u8]>>,
    /// Whether the bytes are those of the family; otherwise they only stand in for its widths.
    pub is_own: bool,
}

impl Default for Face {
    fn default() -> Face {
        DEFAULT.clone()
    }
}

impl fmt::Debug for Face {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Face").field(&self.name).finish()
    }
}

impl Face {
    fn built_in((name, file): &BuiltIn) -> Face {
        let font = FontArc::try_from_slice(file()).expect("the built-in font can be read");
        Face {
            name: name.to_string(),
            font,
            bytes: Arc::new(Cow::Borrowed(file())),
            is_own: true,
        }
    }

    /// A built-in font by its name, a font file, or the name of a font that only an SVG's viewer has.
    pub fn of(given: &str) -> Result<Face> {
        if let Some(font) = BUILT_IN
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(given))
        {
            return Ok(Face::built_in(font));
        }
        if is_file(given) {
            return Face::read(Path::new(given));
        }
        if given.trim().is_empty() || given.contains(['"', '\'', ';', '<', '>', '&', '/', '\\']) {
            return Err(Error::input(format!(
                "--font: \"{given}\" is neither the name of a font nor a file of one"
            )));
        }
        Ok(Face {
            name: given.into(),
            is_own: false,
            ..Face::default()
        })
    }

    fn read(path: &Path) -> Result<Face> {
        let bytes = std::fs::read(path).map_err(|cause| Error::unreadable(path, &cause))?;
        let wrong = || Error::at(path, "is not a TrueType or OpenType font");
        let parsed = ttf_parser::Face::parse(&bytes, 0).map_err(|_| wrong())?;
        let named = |id| {
            parsed
                .names()
                .into_iter()
                .filter(|name| name.name_id == id)
                .find_map(|name| name.to_string())
        };
        let family =
            named(ttf_parser::name_id::FAMILY).or_else(|| named(ttf_parser::name_id::FULL_NAME));
        let name = family.unwrap_or_else(|| {
            path.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        });
        let font = FontArc::try_from_vec(bytes.clone()).map_err(|_| wrong())?;
        Ok(Face {
            name,
            font,
            bytes: Arc::new(Cow::Owned(bytes)),
            is_own: true,
        })
    }

    /// The bytes of the font, for a format that holds the font itself.
    pub fn embedded(&self, format: &str) -> Result<&[u8]> {
        let built_in: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        let (name, built_in) = (&self.name, built_in.join(", "));
        match self.is_own {
            true => Ok(&self.bytes),
            false => Err(Error::input(format!(
                "--font: \"{name}\" is not built in, and {format} needs its letters; give the font's file (.ttf or .otf), \
                 one of {built_in}, or --format svg"
            ))),
        }
    }

    /// The family and fallbacks, for SVG viewers.
    pub fn families(&self) -> String {
        match FALLBACKS.starts_with(&format!("{},", self.name)) {
            true => FALLBACKS.into(),
            false => format!("{}, {FALLBACKS}", self.name),
        }
    }

    pub fn has(&self, letter: char) -> bool {
        self.font.glyph_id(letter).0 != 0
    }

    pub fn width(&self, words: &str, size: f64) -> f64 {
        f64::from(self.placed(words, size as f32).1)
    }

    /// Shortened with an ellipsis if too wide.
    pub fn fitted(&self, words: &str, size: f64, width: f64) -> String {
        let ends = words.char_indices().map(|(end, _)| end).rev();
        let shorter = ends.map(|end| format!("{}…", words[..end].trim_end()));
        let mut all = [words.to_string()].into_iter().chain(shorter);
        all.find(|text| self.width(text, size) <= width)
            .unwrap_or_default()
    }

    pub fn font(&self) -> &FontArc {
        &self.font
    }

    /// From the origin, and the width.
    pub fn placed(&self, words: &str, size: f32) -> (Vec<Glyph>, f32) {
        // ab_glyph's scale is the height from the deepest to the highest letter.
        let em = self
            .font
            .units_per_em()
            .unwrap_or(self.font.height_unscaled());
        let scale = PxScale::from(size * self.font.height_unscaled() / em);
        let font = self.font.as_scaled(scale);
        let mut x = 0.0;
        let mut glyphs: Vec<Glyph> = Vec::with_capacity(words.len());
        for letter in words.chars() {
            let id = font.glyph_id(letter);
            if let Some(before) = glyphs.last() {
                x += font.kern(before.id, id);
            }
            glyphs.push(id.with_scale_and_position(scale, ab_glyph::point(x, 0.0)));
            x += font.h_advance(id);
        }
        (glyphs, x)
    }
}

/// Whether the text names a file rather than a family.
pub fn is_file(given: &str) -> bool {
    let ending = Path::new(given)
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default();
    ["ttf", "otf", "ttc"]
        .iter()
        .any(|known| ending.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_wide_as_its_letters() {
        let face = Face::default();
        let (one, two) = (face.width("0", 10.0), face.width("00", 10.0));
        assert!(
            (6.3..6.4).contains(&one),
            "{one}: a digit of DejaVu Sans is 0.636 em wide"
        );
        assert!((two - 2.0 * one).abs() < 0.01);
        assert_eq!(face.fitted("cellular", 10.0, 100.0), "cellular");
        let short = face.fitted("a label that is far too long", 10.0, 50.0);
        assert!(short.ends_with('…') && face.width(&short, 10.0) <= 50.0);
    }

    #[test]
    fn a_font_is_built_in_a_file_or_a_name_for_viewers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.ttf");
        std::fs::write(&file, dejavu::serif::bold()).unwrap();
        let serif = Face::of("dejavu serif").unwrap();
        let read = Face::of(&file.display().to_string()).unwrap();
        assert_eq!(
            (serif.name.as_str(), read.name.as_str()),
            ("DejaVu Serif", "DejaVu Serif")
        );
        assert!(
            read.width("word", 10.0) > serif.width("word", 10.0),
            "the file is the bold one"
        );
        assert!(read.embedded("PDF").unwrap() == dejavu::serif::bold());
        let other = Face::of("Times New Roman").unwrap();
        assert!(
            other
                .families()
                .starts_with("Times New Roman, DejaVu Sans, ")
        );
        let error = other.embedded("PDF").unwrap_err().to_string();
        assert!(
            error.contains(
                "--font: \"Times New Roman\" is not built in, and PDF needs its letters; give"
            ),
            "{error}"
        );
        assert_eq!(Face::default().families(), FALLBACKS);
        std::fs::write(&file, "no font").unwrap();
        let error = Face::of(&file.display().to_string())
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("mine.ttf: is not a TrueType or OpenType font"),
            "{error}"
        );
        assert!(
            Face::of("nowhere.otf")
                .unwrap_err()
                .to_string()
                .contains("nowhere.otf: cannot be read")
        );
        assert!(
            Face::of("a/b")
                .unwrap_err()
                .to_string()
                .contains("neither the name of a font nor a file")
        );
    }
}
