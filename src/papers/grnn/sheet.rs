//! The data sheets that come with batchlab, by the name that a driver has for the GPU.

use serde::Deserialize;

/// Names of devices, as `--device` of `batchlab grnn` takes them, and their files.
const SHEETS: [(&str, &str); 4] = [
    ("titan-v", include_str!("../../../scenarios/devices/titan-v.toml")),
    ("v100", include_str!("../../../scenarios/devices/v100.toml")),
    ("titan-rtx", include_str!("../../../scenarios/devices/titan-rtx.toml")),
    ("h200", include_str!("../../../scenarios/devices/h200.toml")),
];

/// What a data sheet says that figures need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sheet {
    /// The name of the device.
    pub device: &'static str,
    /// Floating-point operations in a nanosecond, in float32.
    pub peak: u32,
    /// Those of the whole GPU.
    pub multiprocessors: u32,
}

#[derive(Deserialize)]
struct File {
    name: String,
    multiprocessors: u32,
    f32: Unit,
}

#[derive(Deserialize)]
struct Unit {
    peak_gflops: u32,
}

impl Sheet {
    /// That of a GPU; nothing if there is none. The device's name has to be among the words of the GPU's: drivers say "NVIDIA TITAN V", and a
    /// GH200 is no H200.
    pub fn of(gpu: &str) -> Option<Sheet> {
        let gpu = words(gpu);
        SHEETS.iter().find_map(|(device, text)| {
            let file: File = toml::from_str(text).expect("a released file has all of it");
            let name = words(&file.name);
            gpu.windows(name.len()).any(|part| part == name).then_some(Sheet {
                device,
                peak: file.f32.peak_gflops,
                multiprocessors: file.multiprocessors,
            })
        })
    }
}

fn words(name: &str) -> Vec<String> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_known_by_the_words_of_its_name() {
        let device = |gpu| Sheet::of(gpu).map(|sheet| sheet.device);
        assert_eq!(device("NVIDIA TITAN V"), Some("titan-v"));
        assert_eq!(device("Tesla V100-SXM2-16GB"), Some("v100"));
        assert_eq!(device("NVIDIA TITAN RTX"), Some("titan-rtx"));
        assert_eq!(device("NVIDIA GH200 480GB"), None);
        assert_eq!(Sheet::of("NVIDIA H200"), Some(Sheet { device: "h200", peak: 66_908, multiprocessors: 132 }));
    }
}
