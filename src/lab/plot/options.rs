//! What a figure shows and how, as the user asks for it.

use super::axis::{Axis, AxisWish, Spread};
use super::canvas::Canvas;
use super::data::OF_REPLICATIONS;
use super::face::Face;
use super::kind::FigureKind;
use super::look::{Length, Look};
use super::remark::Stated;
use super::sheet::Sheet;
use super::undrawn::Undrawn;
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::base::units::Nanos;

// The doc comments of the fields are the help of the options.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PlotOptions {
    /// Title of the figure
    #[arg(long)]
    pub title: Option<String>,
    /// Draw only these policies, by their labels
    #[arg(long, value_name = "A,B")]
    pub policies: Vec<String>,
    /// Point whose requests are shown: a rate, or a folder's name such as `trace` [default: the highest rate that
    /// saturates no policy, but for policies that are saturated at every rate]
    #[arg(long)]
    pub point: Option<String>,
    /// Swept key on the x axis of throughput-rate, latency-rate, goodput, bars, heat-map, knee, workers and tune, such
    /// as device.workers or max_batch
    #[arg(long, value_name = "KEY")]
    pub x: Option<String>,
    /// Swept key on the y axis of heat-map
    #[arg(long, value_name = "KEY")]
    pub y: Option<String>,
    /// Value of heat-map: a column of summary.csv, knee_rps or workers [default: p99_ms, or what a search has found]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Show each class of requests (classes.csv) as a series of its own
    #[arg(long)]
    pub by_class: bool,
    /// Latency objective with its unit, such as 100ms, drawn as a line in latency-rate [default: the scenario's]
    #[arg(long, value_parser = Nanos::parse)]
    pub slo: Option<Nanos>,
    /// Draw tails (1 - CDF on a logarithmic axis) instead of distributions
    #[arg(long)]
    pub tail: bool,
    /// Draw only the first N requests of a schedule
    #[arg(long, value_name = "N")]
    pub first: Option<usize>,
    /// Give each results folder a panel of its own, beside each other where there is room
    #[arg(long)]
    pub panels: bool,
    #[command(flatten)]
    pub look: Look,
    /// The font that the look names, after it is read.
    #[arg(skip)]
    pub face: Face,
    /// Values that a paper states.
    #[arg(skip)]
    pub stated: Vec<Stated>,
}

impl PlotOptions {
    /// The name of the files of a kind: the kind's name and, with a swept key on the x axis, the key.
    pub fn stem(&self, kind: FigureKind) -> String {
        match &self.x {
            Some(key) => folder_name(&format!("{kind}-by-{key}")),
            None => kind.to_string(),
        }
    }

    /// A sentence about what the figure shows.
    pub fn caption(&self, kind: FigureKind, canvas: &Canvas) -> String {
        let mut caption = self.describe(kind);
        if canvas
            .data
            .iter()
            .any(|datum| datum.interval == OF_REPLICATIONS)
        {
            caption += "; whiskers with caps are 95 % intervals over replications";
        }
        caption
    }

    fn describe(&self, kind: FigureKind) -> String {
        let about = kind.about();
        if let Some(key) = &self.x {
            for by_load in [" against offered rate", " by load"] {
                if about.contains(by_load) {
                    return about.replace(by_load, &format!(" against {key}"));
                }
            }
        }
        about
    }

    /// The font that the look names, or the one that was read before.
    pub(super) fn read_face(&self) -> Result<Face> {
        match &self.look.font {
            Some(font) => Face::find(font),
            None => Ok(self.face.clone()),
        }
    }

    pub(super) fn sheet(&self) -> Sheet {
        Sheet::new(&self.look, self.face.clone())
    }

    /// The options of a figure with panels, where equal policies of several folders have one label and one style.
    pub(super) fn with_panels(&self) -> PlotOptions {
        PlotOptions {
            panels: true,
            ..self.clone()
        }
    }

    /// How values are spread along the y axis, if the user asks for it.
    pub(super) fn y_spread(&self) -> Option<Spread> {
        self.look.y_scale.map(Spread::from)
    }

    /// The axes with the labels, spreads and ends that the user asks for. `least` has the least values above 0.
    pub(super) fn axes(&self, [x, y]: [Axis; 2], least: [f64; 2]) -> Result<[Axis; 2], Undrawn> {
        let x_wish = AxisWish {
            scale_option: "--x-scale",
            range_option: "--x-range",
            spread: self.look.x_scale.map(Spread::from),
            range: self.look.x_range,
        };
        let y_wish = AxisWish {
            scale_option: "--y-scale",
            range_option: "--y-range",
            spread: self.y_spread(),
            range: self.look.y_range,
        };
        let x = self
            .with_label(x, "x")
            .with_wish(&x_wish, least[0])
            .map_err(Error::input)?;
        let y = self
            .with_label(y, "y")
            .with_wish(&y_wish, least[1])
            .map_err(Error::input)?;
        Ok([x, y])
    }

    /// The axis with another label, if the user gives it one by this name.
    fn with_label(&self, mut axis: Axis, name: &str) -> Axis {
        let label = self.look.name(name);
        if label != name {
            axis.label = label.into();
        }
        axis
    }

    /// Fails if the figure is larger than its sheet.
    pub(super) fn check_size(&self, canvas: &Canvas) -> Result<(), Undrawn> {
        let sheet = &canvas.sheet;
        let height = sheet.height.unwrap_or(canvas.height);
        for (side, given, needed) in [
            ("width", sheet.width, canvas.width),
            ("height", height, canvas.height),
        ] {
            if needed > given {
                let given = Length((given * sheet.unit).ceil());
                let needed = Length((needed * sheet.unit).ceil());
                return Err(Error::input(format!(
                    "--{side}: {given} is too little for this figure, which needs {needed}; give more, a smaller \
                     --font-size, or --legend none"
                ))
                .into());
            }
        }
        Ok(())
    }
}
