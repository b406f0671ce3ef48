//! The losses of a run as a picture: an SVG document that needs nothing beside it.

use std::fmt::Write;

/// One line of the picture.
pub(super) struct Line<'a> {
    /// What it is called.
    pub(super) name: &'a str,
    /// Step and loss, by rising steps. Where a loss is no number, the line has a gap.
    pub(super) points: &'a [(usize, f64)],
}

// In pixels.
const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 52.0;

/// How many stretches an axis is divided into, about.
const STRETCHES: f64 = 6.0;

/// Readable in print and without colours too: the second line is dashed.
const STYLE: &str = "\
.page{fill:#ffffff}text{fill:#1f2328}.grid{stroke:#d0d7de;stroke-width:1}.axis{stroke:#57606a;stroke-width:1}\
.y{text-anchor:end}.x,.label{text-anchor:middle}\
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\
.line0{stroke:#0969da}.line1{stroke:#bc4c00;stroke-dasharray:6 4}.dot0{fill:#0969da}.dot1{fill:#bc4c00}\
@media (prefers-color-scheme: dark){.page{fill:#0d1117}text{fill:#e6edf3}.grid{stroke:#30363d}\
.axis{stroke:#8b949e}.line0{stroke:#58a6ff}.line1{stroke:#f0883e}.dot0{fill:#58a6ff}.dot1{fill:#f0883e}}";

/// An axis: the numbers at its ends, and those that are written beside it.
struct Axis {
    from: f64,
    to: f64,
    ticks: Vec<f64>,
    decimals: usize,
}

/// The picture; `None` where there is no loss to be drawn. At most two lines are told apart.
pub(super) fn figure(title: &str, lines: &[Line<'_>]) -> Option<String> {
    let finite = || lines.iter().flat_map(|line| line.points).filter(|(_, loss)| loss.is_finite());
    let steps = Axis::over(finite().map(|(step, _)| *step as f64), 1.0)?;
    let losses = Axis::over(finite().map(|(_, loss)| *loss), 0.0)?;
    let mut body = String::new();
    for tick in &losses.ticks {
        let y = losses.vertical(*tick);
        push(&mut body, format_args!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/>", WIDTH - RIGHT));
        push(&mut body, format_args!("{}", text("y", LEFT - 8.0, y + 4.0, &losses.label(*tick))));
    }
    let floor = HEIGHT - BOTTOM;
    for tick in &steps.ticks {
        let x = steps.horizontal(*tick);
        push(&mut body, format_args!("<path class=\"axis\" d=\"M{x:.1} {floor}v5\"/>"));
        push(&mut body, format_args!("{}", text("x", x, floor + 20.0, &steps.label(*tick))));
    }
    push(&mut body, format_args!("<path class=\"axis\" d=\"M{LEFT} {floor}H{:.1}\"/>", WIDTH - RIGHT));
    push(
        &mut body,
        format_args!("{}", text("label", f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 12.0, "step")),
    );
    let middle = f64::midpoint(TOP, floor);
    push(
        &mut body,
        format_args!("<text class=\"label\" transform=\"translate(18 {middle:.1}) rotate(-90)\">loss</text>"),
    );
    for (number, line) in lines.iter().enumerate() {
        curve(&mut body, number, line, &steps, &losses);
        legend(&mut body, number, line.name);
    }
    let title = escape(title);
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" font-family=\"system-ui, Helvetica, Arial, sans-serif\" \
         font-size=\"12\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{title}</text>\n{body}</svg>\n"
    ))
}

/// A line, and dots where it has too few points to be seen as one, or one between two gaps.
fn curve(body: &mut String, number: usize, line: &Line<'_>, steps: &Axis, losses: &Axis) {
    const FEW: usize = 40;
    let mut path = String::new();
    let mut is_drawing = false;
    let at = |step: usize, loss: f64| (steps.horizontal(step as f64), losses.vertical(loss));
    for &(step, loss) in line.points {
        let command = if is_drawing { 'L' } else { 'M' };
        is_drawing = loss.is_finite();
        if is_drawing {
            let (x, y) = at(step, loss);
            write!(path, "{command}{x:.1} {y:.1}").expect("a string takes all that is written to it");
        }
    }
    push(body, format_args!("<path class=\"line line{number}\" d=\"{path}\"/>"));
    let has_dots = line.points.len() <= FEW;
    let is_drawn = |index: usize| line.points.get(index).is_some_and(|(_, loss)| loss.is_finite());
    for (index, &(step, loss)) in line.points.iter().enumerate() {
        let is_alone = !is_drawn(index + 1) && !index.checked_sub(1).is_some_and(is_drawn);
        if is_drawn(index) && (has_dots || is_alone) {
            let (x, y) = at(step, loss);
            push(body, format_args!("<circle class=\"dot{number}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"));
        }
    }
}

fn legend(body: &mut String, number: usize, name: &str) {
    const ENTRY: f64 = 96.0;
    let x = WIDTH - RIGHT - ENTRY * (2 - number.min(1)) as f64;
    push(body, format_args!("<path class=\"line line{number}\" d=\"M{x:.1} 20h28\"/>"));
    push(body, format_args!("{}", text("name", x + 36.0, 24.0, name)));
}

impl Axis {
    /// An axis that reaches over all numbers, between round ones; `least` is the smallest distance of two ticks, 0 for
    /// any.
    fn over(numbers: impl Iterator<Item = f64>, least: f64) -> Option<Axis> {
        let (low, high) = numbers
            .map(|number| (number, number))
            .reduce(|(low, high), (number, _)| (low.min(number), high.max(number)))?;
        // A single number lies in the middle of something.
        let span = if high > low { high - low } else { low.abs().max(1.0) };
        let distance = round(span / STRETCHES).max(least);
        let (first, last) = ((low / distance).floor(), (high / distance).ceil());
        let last = if last > first { last } else { first + 1.0 };
        let count = (last - first) as usize;
        let ticks = (0..=count).map(|tick| (first + tick as f64) * distance).collect();
        let decimals = (-distance.log10().floor()).max(0.0) as usize;
        Some(Axis { from: first * distance, to: last * distance, ticks, decimals })
    }

    fn part(&self, number: f64) -> f64 {
        (number - self.from) / (self.to - self.from)
    }

    fn horizontal(&self, step: f64) -> f64 {
        LEFT + self.part(step) * (WIDTH - RIGHT - LEFT)
    }

    fn vertical(&self, loss: f64) -> f64 {
        HEIGHT - BOTTOM - self.part(loss) * (HEIGHT - BOTTOM - TOP)
    }

    fn label(&self, tick: f64) -> String {
        /// Longer labels would not fit beside the axis.
        const MOST: f64 = 1e7;
        if tick.abs() >= MOST { format!("{tick:.1e}") } else { format!("{tick:.0$}", self.decimals.min(6)) }
    }
}

/// The next number from here on that is 1, 2 or 5 times a power of ten.
fn round(number: f64) -> f64 {
    let power = 10f64.powf(number.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= number * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

fn text(class: &str, x: f64, baseline: f64, text: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{baseline:.1}\">{}</text>", escape(text))
}

fn push(body: &mut String, element: std::fmt::Arguments<'_>) {
    writeln!(body, "{element}").expect("a string takes all that is written to it");
}

/// Text as it has to be written between tags.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// What is drawn, without what every picture has.
    fn check(train: &[(usize, f64)], expect: Expect) {
        let picture = figure("a < b", &[Line { name: "train", points: train }]);
        let drawn = picture.unwrap_or_default();
        let wanted = |line: &&str| line.contains("line0\" d=\"M72") || line.contains("class=\"y\"");
        let drawn: Vec<&str> = drawn.lines().filter(wanted).collect();
        expect.assert_eq(&drawn.join("\n"));
    }

    #[test]
    fn losses_lie_between_round_numbers() {
        check(
            &[(0, 4.1), (10, 3.2), (20, 2.6)],
            expect![[r#"
            <text class="y" x="64.0" y="352.0">2.5</text>
            <text class="y" x="64.0" y="276.0">3.0</text>
            <text class="y" x="64.0" y="200.0">3.5</text>
            <text class="y" x="64.0" y="124.0">4.0</text>
            <text class="y" x="64.0" y="48.0">4.5</text>
            <path class="line line0" d="M72.0 104.8L424.0 241.6L776.0 332.8"/>"#]],
        );
    }

    #[test]
    fn a_loss_that_is_no_number_is_a_gap() {
        check(
            &[(0, 1.0), (1, f64::NAN), (2, f64::INFINITY), (3, 2.0), (4, 1.5)],
            expect![[r#"
            <text class="y" x="64.0" y="352.0">1.0</text>
            <text class="y" x="64.0" y="291.2">1.2</text>
            <text class="y" x="64.0" y="230.4">1.4</text>
            <text class="y" x="64.0" y="169.6">1.6</text>
            <text class="y" x="64.0" y="108.8">1.8</text>
            <text class="y" x="64.0" y="48.0">2.0</text>
            <path class="line line0" d="M72.0 348.0M600.0 44.0L776.0 196.0"/>"#]],
        );
        assert!(figure("", &[Line { name: "train", points: &[(1, f64::NAN)] }]).is_none());
        assert!(figure("", &[]).is_none());
    }

    #[test]
    fn a_point_between_gaps_is_a_dot() {
        let mut points: Vec<(usize, f64)> = (0..100).map(|step| (step, 1.0)).collect();
        (points[49].1, points[51].1) = (f64::NAN, f64::NAN);
        let drawn = figure("", &[Line { name: "train", points: &points }]).unwrap();
        assert_eq!(drawn.matches("<circle").count(), 1, "{drawn}");
    }

    #[test]
    fn any_numbers_have_an_axis_with_few_ticks() {
        for (low, high) in
            [(0.0, 0.0), (5.0, 5.0), (1e-9, 2e-9), (-3.0, 7.0), (1.0, 1e30), (7.0, 7.0 + 1e-12)]
        {
            let axis = Axis::over([low, high].into_iter(), 0.0).unwrap();
            assert!(axis.from <= low && high <= axis.to, "{low} to {high}: {} to {}", axis.from, axis.to);
            assert!((2..=10).contains(&axis.ticks.len()), "{low} to {high}: {:?}", axis.ticks);
        }
        let steps = Axis::over([1.0, 3.0].into_iter(), 1.0).unwrap();
        assert_eq!(steps.ticks, [1.0, 2.0, 3.0], "there are no half steps");
    }
}
