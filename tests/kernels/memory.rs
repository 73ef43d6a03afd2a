//! Memory as kernels get it: aligned as a device aligns it, with guards on both sides.

use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::thread;

use half::{bf16, f16};

use super::host_cuda::Element;

/// What a device's allocations are aligned to, in bytes.
const ALIGNMENT: usize = 256;

/// The guard numbers on each side, which must not change.
const GUARDS: usize = 64;

/// An array of a kernel's.
pub struct Memory<T: Copy + PartialEq + Debug> {
    all: Vec<T>,
    begin: usize,
    length: usize,
    guard: T,
}

impl<T: Copy + PartialEq + Debug> Memory<T> {
    /// `length` numbers, all of them `value`. The guards on both sides are `guard`, which must be equal to itself.
    pub fn new(length: usize, value: T, guard: T) -> Memory<T> {
        let mut all = vec![guard; length + 2 * GUARDS + ALIGNMENT / size_of::<T>()];
        let begin = GUARDS + all[GUARDS..].as_ptr().align_offset(ALIGNMENT);
        all[begin..begin + length].fill(value);
        Memory {
            all,
            begin,
            length,
            guard,
        }
    }

    /// Where a kernel finds it.
    pub fn pointer(&mut self) -> *mut T {
        self.all[self.begin..].as_mut_ptr()
    }
}

impl<T: Copy + PartialEq + Debug> Deref for Memory<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.all[self.begin..self.begin + self.length]
    }
}

impl<T: Copy + PartialEq + Debug> DerefMut for Memory<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.all[self.begin..self.begin + self.length]
    }
}

impl<T: Copy + PartialEq + Debug> Drop for Memory<T> {
    fn drop(&mut self) {
        if !thread::panicking() {
            let (before, rest) = self.all.split_at(self.begin);
            let guards = before.iter().chain(&rest[self.length..]);
            assert!(
                guards.clone().all(|number| *number == self.guard),
                "a kernel wrote outside of its memory"
            );
        }
    }
}

/// Float32 numbers, none of which is one yet.
pub fn floats(length: usize) -> Memory<f32> {
    Memory::new(length, f32::NAN, 12345.0)
}

/// Whole numbers, all of them `value`.
pub fn words(length: usize, value: u32) -> Memory<u32> {
    Memory::new(length, value, 0xdead_beef)
}

/// The bits of a number in a number format; those of the narrow ones stand in the lower half.
pub fn bits_of(element: Element, x: f32) -> u32 {
    match element {
        Element::F32 => x.to_bits(),
        Element::F16 => u32::from(f16::from_f32(x).to_bits()),
        Element::Bf16 => u32::from(bf16::from_f32(x).to_bits()),
    }
}

/// The number that bits mean.
pub fn number_of(element: Element, bits: u32) -> f32 {
    match element {
        Element::F32 => f32::from_bits(bits),
        Element::F16 => f16::from_bits(bits as u16).to_f32(),
        Element::Bf16 => bf16::from_bits(bits as u16).to_f32(),
    }
}

/// The nearest number of a number format.
pub fn rounded(element: Element, x: f32) -> f32 {
    number_of(element, bits_of(element, x))
}

/// Numbers of the format that kernels are compiled for.
pub struct Elements {
    element: Element,
    bytes: Memory<u8>,
}

impl Elements {
    /// So many, none of which is a number yet.
    pub fn new(element: Element, length: usize) -> Elements {
        Elements {
            element,
            bytes: Memory::new(length * Elements::bytes(element), 0xff, 0xa5),
        }
    }

    /// Those nearest to given numbers.
    pub fn of(element: Element, numbers: &[f32]) -> Elements {
        let mut elements = Elements::new(element, numbers.len());
        let width = Elements::bytes(element);
        for (bytes, number) in elements.bytes.chunks_exact_mut(width).zip(numbers) {
            bytes.copy_from_slice(&bits_of(element, *number).to_le_bytes()[..width]);
        }
        elements
    }

    fn bytes(element: Element) -> usize {
        if element == Element::F32 { 4 } else { 2 }
    }

    /// Where a kernel finds them.
    pub fn pointer(&mut self) -> *mut u8 {
        self.bytes.pointer()
    }

    /// The bits of all of them.
    pub fn bits(&self) -> Vec<u32> {
        let width = Elements::bytes(self.element);
        let wide = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |bits, byte| bits << 8 | u32::from(*byte))
        };
        self.bytes.chunks_exact(width).map(wide).collect()
    }

    /// All of them.
    pub fn numbers(&self) -> Vec<f32> {
        self.bits()
            .into_iter()
            .map(|bits| number_of(self.element, bits))
            .collect()
    }
}
