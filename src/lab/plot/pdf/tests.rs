//! Tests of the operators of a page, of texts as viewers copy them, and of fonts.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::ZlibDecoder;

use super::*;
use crate::lab::plot::look::PictureFormat;
use crate::lab::plot::sheet::Sheet;

/// A font of one letter, A, drawn for these tests with CFF outlines: a square of 700 by 700, 800 wide, of an em of 1000.
const SQUARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/square.otf");

fn canvas_with(face: Face, marks: Vec<CanvasMark>) -> Canvas {
    let sheet = Sheet {
        face,
        ..Sheet::default()
    };
    Canvas {
        width: 200.0,
        height: 100.0,
        marks,
        ..Canvas::new(sheet)
    }
}

fn text(words: &str, align: Align) -> CanvasMark {
    CanvasMark::Text(TextMark {
        words: words.into(),
        at: (100.0, 50.0),
        size: 10.0,
        align,
        color: (0, 0, 0),
    })
}

/// The unpacked stream of an object.
fn stream(pdf: &[u8], object: Ref) -> Vec<u8> {
    let start = end_of(pdf, &format!("\n{} 0 obj\n", object.get()));
    let packed = start + end_of(&pdf[start..], "stream\n");
    let mut bytes = Vec::new();
    ZlibDecoder::new(&pdf[packed..])
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// The place behind the first occurrence of a part.
fn end_of(bytes: &[u8], part: &str) -> usize {
    let mut windows = bytes.windows(part.len());
    let at = windows.position(|window| window == part.as_bytes());
    at.unwrap_or_else(|| panic!("no {part}")) + part.len()
}

fn content(pdf: &[u8]) -> String {
    String::from_utf8(stream(pdf, CONTENT)).unwrap()
}

/// The texts of a page, letter by letter as its font names them. Glyphs without a letter give `?`.
fn copy_texts(pdf: &[u8]) -> Vec<String> {
    let letters = read_letters(&String::from_utf8(stream(pdf, font::LETTERS)).unwrap());
    content(pdf)
        .lines()
        .filter_map(|line| line.strip_suffix("TJ"))
        .map(|shown| {
            read_strings(shown)
                .chunks(2)
                .map(|code| u16::from_be_bytes([code[0], code[1]]))
                .map(|code| letters.get(&code).copied().unwrap_or('?'))
                .collect()
        })
        .collect()
}

/// Reads lines such as `<0001> <0041>`.
fn read_letters(map: &str) -> BTreeMap<u16, char> {
    let (_, lines) = map.split_once("beginbfchar\n").unwrap_or_default();
    let number = |field: &str| u32::from_str_radix(field, 16).unwrap();
    lines
        .lines()
        .filter_map(|line| line.strip_prefix('<')?.strip_suffix('>')?.split_once("> <"))
        .map(|(code, letter)| (number(code) as u16, char::from_u32(number(letter)).unwrap()))
        .collect()
}

/// The bytes of all strings in parentheses, one after the other.
fn read_strings(shown: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut depth = 0;
    let mut rest = shown.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        let is_limit = (byte == b'(' && depth == 1) || (byte == b')' && depth == 0);
        if depth == 0 || is_limit {
            continue;
        }
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next().unwrap() {
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'b' => bytes.push(8),
            b'f' => bytes.push(12),
            first @ b'0'..=b'7' => {
                let digits = [first, rest.next().unwrap(), rest.next().unwrap()];
                let octal = digits.map(|digit| digit - b'0');
                bytes.push(octal[0] * 64 + octal[1] * 8 + octal[2]);
            }
            escaped => bytes.push(escaped),
        }
    }
    bytes
}

#[test]
fn marks_are_operators_in_the_units_of_the_canvas() {
    let corners = vec![(10.0, 20.0), (30.0, 20.0), (30.0, 40.5)];
    let marks = vec![
        CanvasMark::Line(corners.clone(), (255, 0, 51), 1.5),
        CanvasMark::Area(corners, (0, 255, 0)),
        text("A", Align::Left),
    ];
    let pdf = pdf(&canvas_with(Face::default(), marks)).unwrap();
    assert_eq!(
        content(&pdf).lines().collect::<Vec<_>>(),
        [
            "0.5 0 0 -0.5 0 50 cm",
            "1 j",
            "1 0 0.2 RG",
            "1.5 w",
            "10 20 m",
            "30 20 l",
            "30 40.5 l",
            "S",
            "0 1 0 rg",
            "10 20 m",
            "30 20 l",
            "30 40.5 l",
            "h",
            "f",
            "0 0 0 rg",
            "BT",
            "/F 10 Tf",
            "1 0 0 -1 100 50 Tm",
            "[(\\000\\001)] TJ",
            "ET",
        ]
    );
}

#[test]
fn texts_stand_where_they_are_aligned() {
    let face = Face::find(SQUARE).unwrap();
    // Each letter is 8 units wide.
    for (align, matrix) in [
        (Align::Left, "1 0 0 -1 100 50 Tm"),
        (Align::Center, "1 0 0 -1 92 50 Tm"),
        (Align::Right, "1 0 0 -1 84 50 Tm"),
        (Align::Upright, "0 -1 -1 0 100 58 Tm"),
    ] {
        let pdf = pdf(&canvas_with(face.clone(), vec![text("AA", align)])).unwrap();
        let content = content(&pdf);
        assert!(content.contains(matrix), "{align:?}: {content}");
    }
}

#[test]
fn gaps_between_glyphs_are_those_of_kerning() {
    let face = Face::default();
    let pdf = pdf(&canvas_with(face.clone(), vec![text("0AVAV", Align::Left)])).unwrap();
    // DejaVu Sans moves V after A, and A after V, by 131 of 2048 to the left.
    let content = content(&pdf);
    assert!(
        content.contains(
            "[(\\000\\001\\000\\002) 64 (\\000\\003) 64 (\\000\\002) 64 (\\000\\003)] TJ"
        ),
        "{content}"
    );
}

#[test]
fn what_has_no_extent_is_not_drawn() {
    let level = vec![(10.0, 20.0), (30.0, 20.0), (30.0, 20.0), (10.0, 20.0)];
    let marks = vec![
        CanvasMark::Line(vec![(1.0, 1.0), (1.0, 1.0)], (0, 0, 0), 1.0),
        CanvasMark::Line(Vec::new(), (0, 0, 0), 1.0),
        CanvasMark::Area(level.clone(), (0, 0, 0)),
        CanvasMark::Line(level, (0, 0, 0), 1.0),
    ];
    let pdf = pdf(&canvas_with(Face::default(), marks)).unwrap();
    let content = content(&pdf);
    let drawn: Vec<&str> = content
        .lines()
        .filter(|line| ["f", "S"].contains(line))
        .collect();
    assert_eq!(drawn, ["S"], "the level line");
}

#[test]
fn texts_can_be_copied() {
    let words = [
        "Größe × 5 µs (≤ 1 %)",
        "p99 \\ latency",
        "((AVATAR)",
        "€ Ωμέγα",
    ];
    let aligns = [Align::Left, Align::Upright, Align::Center, Align::Right];
    let marks = words
        .iter()
        .zip(aligns)
        .map(|(words, align)| text(words, align));
    let canvas = canvas_with(Face::default(), marks.collect());
    let first = pdf(&canvas).unwrap();
    assert_eq!(copy_texts(&first), words);
    assert!(!content(&first).contains("ActualText"));
    assert!(pdf(&canvas).unwrap() == first, "the same bytes");
}

#[test]
fn a_missing_letter_is_a_box_and_can_be_copied() {
    let marks = vec![text("日本 a", Align::Left), text("a", Align::Left)];
    let pdf = pdf(&canvas_with(Face::default(), marks)).unwrap();
    assert_eq!(copy_texts(&pdf), ["?? a", "a"]);
    let content = content(&pdf);
    assert!(
        content.contains("/Span <<\n  /ActualText <FEFF65E5672C00200061>\n>> BDC\n"),
        "{content}"
    );
    assert_eq!(content.matches("EMC").count(), 1, "{content}");
}

#[test]
fn a_font_with_cff_outlines_is_embedded() {
    let face = Face::find(SQUARE).unwrap();
    let pdf = pdf(&canvas_with(face, vec![text("AA", Align::Left)])).unwrap();
    assert_eq!(copy_texts(&pdf), ["AA"]);
    let objects = String::from_utf8_lossy(&pdf);
    for part in [
        "+Square-Identity-H/",
        "/Subtype/CIDFontType0/",
        "/FontFile3 8 0 R",
        "/Subtype/CIDFontType0C>>",
        "/W[0[400 800]]",
    ] {
        assert!(objects.contains(part), "{part}: {objects}");
    }
    let program = stream(&pdf, font::PROGRAM);
    assert_eq!(program[..2], [1, 0], "a CFF table of version 1.0");
}

#[test]
fn a_font_without_usable_outlines_is_refused() {
    let mut bytes = dejavu::sans::regular().to_vec();
    let record = end_of(&bytes, "glyf") - 4;
    bytes[record..record + 4].copy_from_slice(b"glyX");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.ttf");
    std::fs::write(&file, bytes).unwrap();
    let face = Face::find(&file.display().to_string()).unwrap();
    assert!(face.font_bytes(PictureFormat::Png).is_ok());
    let error = pdf(&canvas_with(face, vec![text("a", Align::Left)])).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert_eq!(
        error.to_string(),
        "--font: \"DejaVu Sans\" cannot be in a PDF: it has outlines neither of TrueType nor of CFF 1; give the file \
         of another font (.ttf or .otf), one of DejaVu Sans, DejaVu Sans Condensed, DejaVu Serif, or --format svg,png"
    );
}
