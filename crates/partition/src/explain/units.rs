//! What became of each wrapped unit.

use std::collections::{BTreeMap, BTreeSet};

use super::traffic::volume;
use super::verdict::against_plan;
use super::{
    Cause, ExplainedCollective, Grade, ParameterReport, Pass, Piece, Purpose, Subject, SubjectUnit,
    UnitReport, Verdict,
};
use crate::report::Bytes;

/// One report for each wrapped unit.
pub(super) fn units(
    subject: &Subject,
    parameters: &[ParameterReport],
    collectives: &[ExplainedCollective],
) -> Vec<UnitReport> {
    let mut reports: Vec<UnitReport> = subject.units.iter().map(empty).collect();
    let places: BTreeMap<&str, usize> =
        subject.units.iter().enumerate().map(|(place, unit)| (unit.path.as_str(), place)).collect();
    let mut said: Vec<BTreeSet<(Grade, &str)>> = vec![BTreeSet::new(); reports.len()];
    for parameter in parameters {
        let Some(&place) = parameter.unit.as_deref().and_then(|unit| places.get(unit)) else { continue };
        let argument = &subject.arguments[parameter.argument];
        let report = &mut reports[place];
        report.parameters.1 += 1;
        report.parameter_bytes = report.parameter_bytes.saturating_add(subject.bytes_in_use(argument));
        if subject.is_split(argument) {
            report.parameters.0 += 1;
            said[place].insert((parameter.verdict.grade, parameter.verdict.summary.as_str()));
        }
    }
    let place_of = |name: &str| subject.unit_of(name).map(|unit| places[unit.path.as_str()]);
    for collective in collectives {
        for piece in &collective.pieces {
            let (Cause::Argument(name) | Cause::GradientOf(name)) = &piece.cause else { continue };
            if let Some(place) = place_of(name) {
                add(&mut reports[place], collective, piece);
            }
        }
    }
    for (collective, piece) in against_plan(subject, collectives) {
        if let Some(place) = place_of(&piece.op_name) {
            let sum = &mut reports[place].activation_bytes;
            *sum = sum.saturating_add(volume(collective, piece).array_bytes);
        }
    }
    reports.iter_mut().zip(&said).for_each(|(report, said)| conclude(report, said));
    reports
}

fn empty(unit: &SubjectUnit) -> UnitReport {
    UnitReport {
        path: unit.path.clone(),
        class: unit.class.clone(),
        parameters: (0, 0),
        parameter_bytes: 0,
        gathered_bytes: (0, 0),
        reduced_bytes: 0,
        activation_bytes: 0,
        verdict: Verdict::new(Grade::NotSharded, "none of its parameters is split for storage"),
    }
}

fn add(report: &mut UnitReport, collective: &ExplainedCollective, piece: &Piece) {
    let sum = match (piece.purpose, piece.pass) {
        (Purpose::Weight, Some(Pass::Recompute | Pass::Backward)) => &mut report.gathered_bytes.1,
        (Purpose::Weight, _) => &mut report.gathered_bytes.0,
        (Purpose::Gradient, _) => &mut report.reduced_bytes,
        _ => return,
    };
    *sum = sum.saturating_add(volume(collective, piece).array_bytes);
}

/// The last word on a unit, of whose split parameters this was said.
fn conclude(report: &mut UnitReport, said: &BTreeSet<(Grade, &str)>) {
    if let Some(&(grade, worst)) = said.last() {
        let who = if said.len() == 1 { "each weight" } else { "at worst, a weight is" };
        report.verdict = Verdict::new(grade, format!("{who} {worst}"));
    }
    if report.activation_bytes > 0 {
        report.verdict.grade = report.verdict.grade.max(Grade::Costly);
        report.verdict.summary += &format!("; {} of activations travel", Bytes(report.activation_bytes));
    }
}
