//! The part of a font that a PDF contains: a composite font, whose codes are the numbers of its glyphs (ISO 32000-1,
//! section 9.7).

use ab_glyph::GlyphId;
use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Filter, Finish, Name, Pdf, Rect, Ref, Str};
use subsetter::GlyphRemapper;
use ttf_parser::{RawFace, Tag, name_id};

use super::compress;
use crate::base::error::Result;
use crate::lab::plot::face::{Face, name_in_font};
use crate::lab::plot::look::PictureFormat;

/// Lengths in a font are thousandths of the size of its letters.
pub const UNITS: f32 = 1000.0;

/// The object of the font.
pub const FONT: Ref = Ref::new(5);
const DESCENDANT: Ref = Ref::new(6);
const DESCRIPTOR: Ref = Ref::new(7);
pub const PROGRAM: Ref = Ref::new(8);
pub const LETTERS: Ref = Ref::new(9);

const SYSTEM: SystemInfo = SystemInfo {
    registry: Str(b"Adobe"),
    ordering: Str(b"Identity"),
    supplement: 0,
};

/// The glyphs of a font that texts use. They are numbered in the order in which they are added, after the glyph for
/// missing letters.
pub struct FontSubset<'a> {
    face: &'a Face,
    bytes: &'a [u8],
    font: ttf_parser::Face<'a>,
    numbers: GlyphRemapper,
    /// The glyphs by their numbers in the subset.
    glyphs: Vec<SubsetGlyph>,
}

struct SubsetGlyph {
    /// The letter that a viewer copies. It is the first with this glyph; the glyph for missing letters has none.
    letter: Option<char>,
    advance: f32,
}

impl<'a> FontSubset<'a> {
    /// A subset without letters. A font that PDFs cannot contain is an error.
    pub fn new(face: &'a Face) -> Result<FontSubset<'a>> {
        let bytes = face.font_bytes(PictureFormat::Pdf)?;
        let font = ttf_parser::Face::parse(bytes, 0).map_err(|cause| face.pdf_error(cause))?;
        let mut subset = FontSubset {
            face,
            bytes,
            font,
            numbers: GlyphRemapper::new(),
            glyphs: Vec::new(),
        };
        subset.push(GlyphId(0), None);
        Ok(subset)
    }

    /// Adds a letter's glyph, unless it is there already, and returns its number.
    pub fn add(&mut self, glyph: GlyphId, letter: char) -> u16 {
        let number = self.numbers.remap(glyph.0);
        if usize::from(number) == self.glyphs.len() {
            self.push(glyph, Some(letter));
        }
        number
    }

    fn push(&mut self, glyph: GlyphId, letter: Option<char>) {
        let advance = self.font.glyph_hor_advance(ttf_parser::GlyphId(glyph.0));
        self.glyphs.push(SubsetGlyph {
            letter,
            advance: self.scale(advance.unwrap_or(0)),
        });
    }

    /// Whether a viewer that copies these glyphs gets the words.
    pub fn spells(&self, glyphs: &[u16], words: &str) -> bool {
        let letters = glyphs.iter().map(|&glyph| self.glyph(glyph).letter);
        letters.eq(words.chars().map(Some))
    }

    /// The width of a glyph in thousandths of the letters' size.
    pub fn advance(&self, glyph: u16) -> f32 {
        self.glyph(glyph).advance
    }

    fn glyph(&self, number: u16) -> &SubsetGlyph {
        &self.glyphs[usize::from(number)]
    }

    /// A length of the font in thousandths of the letters' size.
    fn scale(&self, length: impl Into<f32>) -> f32 {
        length.into() / f32::from(self.font.units_per_em()) * UNITS
    }

    /// Writes the font as the object [`FONT`].
    pub fn embed(&self, document: &mut Pdf) -> Result<()> {
        let subset = subsetter::subset(self.bytes, 0, &self.numbers)
            .map_err(|cause| self.face.pdf_error(cause))?;
        let name = self.name(&subset);
        let cff = cff_table(&subset);
        self.write_font(document, &name, cff.is_some());
        self.write_descriptor(document, &name, cff.is_some());
        self.write_letters(document);
        write_program(document, &subset, cff);
        Ok(())
    }

    /// The name of the font after six letters that differ between subsets (section 9.6.4).
    fn name(&self, subset: &[u8]) -> String {
        let name = name_in_font(&self.font, name_id::POST_SCRIPT_NAME);
        format!("{}+{}", tag(subset), name.as_deref().unwrap_or("unknown"))
    }

    fn write_font(&self, document: &mut Pdf, name: &str, is_cff: bool) {
        const ENCODING: &str = "Identity-H";
        let composite_name = if is_cff {
            format!("{name}-{ENCODING}")
        } else {
            name.to_string()
        };
        document
            .type0_font(FONT)
            .base_font(Name(composite_name.as_bytes()))
            .encoding_predefined(Name(ENCODING.as_bytes()))
            .descendant_font(DESCENDANT)
            .to_unicode(LETTERS);
        let mut descendant = document.cid_font(DESCENDANT);
        descendant
            .base_font(Name(name.as_bytes()))
            .system_info(SYSTEM)
            .font_descriptor(DESCRIPTOR);
        if is_cff {
            descendant.subtype(CidFontType::Type0);
        } else {
            descendant
                .subtype(CidFontType::Type2)
                .cid_to_gid_map_predefined(Name(b"Identity"));
        }
        let advances = self.glyphs.iter().map(|glyph| glyph.advance);
        descendant.widths().consecutive(0, advances);
    }

    fn write_descriptor(&self, document: &mut Pdf, name: &str, is_cff: bool) {
        /// The width of stems, by which a viewer without this font would choose another one.
        const STEM: f32 = 80.0;
        let font = &self.font;
        let mut flags = FontFlags::SYMBOLIC;
        flags.set(FontFlags::FIXED_PITCH, font.is_monospaced());
        flags.set(FontFlags::ITALIC, font.is_italic());
        let bounds = font.global_bounding_box();
        let [left, bottom, right, top] =
            [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max].map(|side| self.scale(side));
        let capital_height = font.capital_height().unwrap_or(font.ascender());
        let mut descriptor = document.font_descriptor(DESCRIPTOR);
        descriptor
            .name(Name(name.as_bytes()))
            .flags(flags)
            .bbox(Rect::new(left, bottom, right, top))
            .italic_angle(font.italic_angle())
            .ascent(self.scale(font.ascender()))
            .descent(self.scale(font.descender()))
            .cap_height(self.scale(capital_height))
            .stem_v(STEM);
        if is_cff {
            descriptor.font_file3(PROGRAM);
        } else {
            descriptor.font_file2(PROGRAM);
        }
    }

    /// Writes the letters of the glyphs, for viewers that search and copy.
    fn write_letters(&self, document: &mut Pdf) {
        let mut letters = UnicodeCmap::new(Name(b"Letters"), SYSTEM);
        for (number, glyph) in (0u16..).zip(&self.glyphs) {
            if let Some(letter) = glyph.letter {
                letters.pair(number, letter);
            }
        }
        document
            .cmap(LETTERS, &compress(&letters.finish()))
            .filter(Filter::FlateDecode);
    }
}

/// Writes the outlines: a TrueType font as a whole, of a CFF font only the table that has them.
fn write_program(document: &mut Pdf, subset: &[u8], cff: Option<&[u8]>) {
    let program = cff.unwrap_or(subset);
    let packed = compress(program);
    let mut stream = document.stream(PROGRAM, &packed);
    stream.filter(Filter::FlateDecode);
    if cff.is_some() {
        stream.pair(Name(b"Subtype"), Name(b"CIDFontType0C"));
    } else {
        stream.pair(Name(b"Length1"), program.len() as i32);
    }
    stream.finish();
}

fn cff_table(font: &[u8]) -> Option<&[u8]> {
    let tables = RawFace::parse(font, 0).ok()?;
    tables.table(Tag::from_bytes(b"CFF "))
}

/// Six capital letters that depend on the bytes.
fn tag(bytes: &[u8]) -> String {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    let mut rest = sum.sum();
    let mut tag = String::new();
    for _ in 0..6 {
        tag.push(char::from(b'A' + (rest % 26) as u8));
        rest /= 26;
    }
    tag
}
