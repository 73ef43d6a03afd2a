//! The font of a figure, and the widths of texts in it. No font of the system is used, so a drawing always gives the
//! same bytes.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use ab_glyph::{Font, FontArc, Glyph, PxScale, ScaleFont};
use ttf_parser::{RawFace, Tag};

use super::look::PictureFormat;
use crate::base::error::{Error, Result};

/// The name of a built-in font, and its file.
type BuiltIn = (&'static str, fn() -> &'static [u8]);

const BUILT_IN: [BuiltIn; 3] = [
    ("DejaVu Sans", dejavu::sans::regular),
    ("DejaVu Sans Condensed", dejavu::sans_condensed::regular),
    ("DejaVu Serif", dejavu::serif::regular),
];

/// The fonts for viewers that lack the figure's font. Verdana has the widths of DejaVu Sans.
const FALLBACKS: &str = "DejaVu Sans, Verdana, Arial, sans-serif";

static DEFAULT: LazyLock<Face> = LazyLock::new(|| Face::built_in(&BUILT_IN[0]));

/// A font with its name.
#[derive(Clone)]
pub struct Face {
    /// The name of the family.
    name: String,
    font: FontArc,
    bytes: Arc<Cow<'static, [u8]>>,
    /// Whether the bytes are those of the family; otherwise their widths replace those of the family.
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

    /// The font that a user names: a built-in font, a font file, or a font that only an SVG's viewer has.
    pub fn find(given: &str) -> Result<Face> {
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
        let parsed = ttf_parser::Face::parse(&bytes, 0).map_err(|_| font_error(path))?;
        let family = name_in_font(&parsed, ttf_parser::name_id::FAMILY)
            .or_else(|| name_in_font(&parsed, ttf_parser::name_id::FULL_NAME));
        let name = family.unwrap_or_else(|| {
            path.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        });
        let font = FontArc::try_from_vec(bytes.clone()).map_err(|_| font_error(path))?;
        Ok(Face {
            name,
            font,
            bytes: Arc::new(Cow::Owned(bytes)),
            is_own: true,
        })
    }

    /// The bytes of the font, for a format that contains the font itself.
    pub fn font_bytes(&self, format: PictureFormat) -> Result<&[u8]> {
        if !self.is_own {
            let name = &self.name;
            let format = format.extension().to_uppercase();
            let built_in = built_in_names();
            return Err(Error::input(format!(
                "--font: \"{name}\" is not built in, and {format} needs its letters; give the font's file (.ttf or \
                 .otf), one of {built_in}, or --format svg"
            )));
        }
        if format == PictureFormat::Pdf && !has_pdf_outlines(&self.bytes) {
            return Err(self.pdf_error("it has outlines neither of TrueType nor of CFF 1"));
        }
        Ok(&self.bytes)
    }

    /// The error for a font that cannot be in a PDF, with what is wrong with it.
    pub fn pdf_error(&self, fault: impl fmt::Display) -> Error {
        let name = &self.name;
        let built_in = built_in_names();
        Error::input(format!(
            "--font: \"{name}\" cannot be in a PDF: {fault}; give the file of another font (.ttf or .otf), one of \
             {built_in}, or --format svg,png"
        ))
    }

    /// The font's family and its fallbacks, for viewers of SVGs.
    pub fn families(&self) -> String {
        if FALLBACKS.starts_with(&format!("{},", self.name)) {
            FALLBACKS.into()
        } else {
            format!("{}, {FALLBACKS}", self.name)
        }
    }

    /// Whether the font has a letter.
    pub fn has(&self, letter: char) -> bool {
        self.font.glyph_id(letter).0 != 0
    }

    /// The width of a text of this size.
    pub fn width(&self, words: &str, size: f64) -> f64 {
        let (_, width) = self.place_glyphs(words, size as f32);
        f64::from(width)
    }

    /// The text, shortened with an ellipsis if it is wider than `width`.
    pub fn shorten(&self, words: &str, size: f64, width: f64) -> String {
        if self.width(words, size) <= width {
            return words.to_string();
        }
        for (end, _) in words.char_indices().rev() {
            let shorter = format!("{}…", words[..end].trim_end());
            if self.width(&shorter, size) <= width {
                return shorter;
            }
        }
        String::new()
    }

    pub fn font(&self) -> &FontArc {
        &self.font
    }

    /// The glyphs of a text that begins at the origin, and the text's width.
    pub fn place_glyphs(&self, words: &str, size: f32) -> (Vec<Glyph>, f32) {
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

fn built_in_names() -> String {
    BUILT_IN.map(|(name, _)| name).join(", ")
}

/// Whether a font has outlines of one of the two kinds that PDFs allow. Those of CFF 2 are a third kind, and fonts of
/// pictures have none.
fn has_pdf_outlines(font: &[u8]) -> bool {
    let Ok(tables) = RawFace::parse(font, 0) else {
        return false;
    };
    [b"glyf", b"CFF "]
        .iter()
        .any(|tag| tables.table(Tag::from_bytes(tag)).is_some())
}

fn font_error(path: &Path) -> Error {
    Error::mistake(path, "is not a TrueType or OpenType font")
}

/// A name that the font gives itself.
pub fn name_in_font(font: &ttf_parser::Face<'_>, id: u16) -> Option<String> {
    font.names()
        .into_iter()
        .filter(|name| name.name_id == id)
        .find_map(|name| name.to_string())
}

/// Whether the text names a file rather than a family.
pub fn is_file(given: &str) -> bool {
    let ending = Path::new(given).extension().unwrap_or_default();
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
        let one = face.width("0", 10.0);
        let two = face.width("00", 10.0);
        assert!(
            (6.3..6.4).contains(&one),
            "{one}: a digit of DejaVu Sans is 0.636 em wide"
        );
        assert!((two - 2.0 * one).abs() < 0.01);
        assert_eq!(face.shorten("cellular", 10.0, 100.0), "cellular");
        let short = face.shorten("a label that is far too long", 10.0, 50.0);
        assert!(short.ends_with('…') && face.width(&short, 10.0) <= 50.0);
    }

    #[test]
    fn a_font_is_built_in_a_file_or_a_name_for_viewers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.ttf");
        std::fs::write(&file, dejavu::serif::bold()).unwrap();
        let serif = Face::find("dejavu serif").unwrap();
        let read = Face::find(&file.display().to_string()).unwrap();
        assert_eq!(
            (serif.name.as_str(), read.name.as_str()),
            ("DejaVu Serif", "DejaVu Serif")
        );
        assert!(
            read.width("word", 10.0) > serif.width("word", 10.0),
            "the file is the bold one"
        );
        assert!(read.font_bytes(PictureFormat::Pdf).unwrap() == dejavu::serif::bold());
        let other = Face::find("Times New Roman").unwrap();
        assert!(
            other
                .families()
                .starts_with("Times New Roman, DejaVu Sans, ")
        );
        let error = other
            .font_bytes(PictureFormat::Pdf)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(
                "--font: \"Times New Roman\" is not built in, and PDF needs its letters; give"
            ),
            "{error}"
        );
        assert_eq!(Face::default().families(), FALLBACKS);
        std::fs::write(&file, "no font").unwrap();
        let error = Face::find(&file.display().to_string())
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("mine.ttf: is not a TrueType or OpenType font"),
            "{error}"
        );
        assert!(
            Face::find("nowhere.otf")
                .unwrap_err()
                .to_string()
                .contains("nowhere.otf: cannot be read")
        );
        assert!(
            Face::find("a/b")
                .unwrap_err()
                .to_string()
                .contains("neither the name of a font nor a file")
        );
    }
}
