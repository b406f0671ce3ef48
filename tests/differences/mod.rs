//! Gradients held against central differences in f64, on one device and split over eight.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::ops::Range;

use shardwright_graph::{Graph, GraphError, Recompute, Value};
use shardwright_hlo::{ArgumentKind, Unit, VerifiedModule, verify};
use shardwright_mesh::{AbstractMesh, Mesh};
use shardwright_partition::ShardedModule;
use shardwright_runtime::{Argument, Executable, RuntimeError, ShardedArray};
use shardwright_tensor::{DType, HostArray};

use crate::support::runtime;

pub(crate) type Result<T, E = GraphError> = std::result::Result<T, E>;
pub(crate) type Build = dyn Fn(&Graph, &[Value]) -> Result<Value>;
pub(crate) type Remat = dyn Fn(&Unit) -> Recompute;

/// How arrays are split: the spec for each rank.
pub(crate) type Split = fn(usize) -> String;

/// The meshes that gradients are taken on besides one device, and how all arrays are split there.
pub(crate) const SPLITS: [(&str, Split); 2] = [
    ("x=8", |rank| spec(rank, |dim| if dim == 0 { "x" } else { "-" })),
    ("a=2,b=4", |rank| {
        spec(rank, |dim| {
            if dim == 0 {
                "a"
            } else if dim + 1 == rank {
                "b"
            } else {
                "-"
            }
        })
    }),
];
pub(crate) const WHOLE: (&str, Split) = ("x=1", |rank| spec(rank, |_| "-"));

pub(crate) fn spec(rank: usize, axis: impl Fn(usize) -> &'static str) -> String {
    format!("({})", (0..rank).map(axis).collect::<Vec<_>>().join(", "))
}

/// A function of some arrays, at a point.
pub(crate) struct Case<'a> {
    pub(crate) name: &'a str,
    pub(crate) inputs: Vec<HostArray>,
    pub(crate) build: &'a Build,
    /// Distance of the points that differences are taken between; no kink is closer than twice that.
    pub(crate) step: f64,
    /// Allowed distance of a gradient from the differences, relative to 1 and the largest gradient.
    pub(crate) tolerance: f64,
    /// Allowed distance between one device and several.
    pub(crate) spread: f64,
    pub(crate) splits: &'a [(&'static str, Split)],
}

/// Checks a function of f64 arrays with elements in −2..2.
#[track_caller]
pub(crate) fn check(
    name: &str,
    inputs: &[&[usize]],
    build: impl Fn(&Graph, &[Value]) -> Result<Value> + 'static,
) {
    check_on(-2.0..2.0, name, inputs, build);
}

/// Checks a function of f64 arrays with elements in a range.
#[track_caller]
pub(crate) fn check_on(
    range: Range<f64>,
    name: &str,
    inputs: &[&[usize]],
    build: impl Fn(&Graph, &[Value]) -> Result<Value> + 'static,
) {
    Case::new(name, inputs, &range, &build).check();
}

/// Checks a function that XLA cannot split.
#[track_caller]
pub(crate) fn check_whole(
    name: &str,
    inputs: &[&[usize]],
    build: impl Fn(&Graph, &[Value]) -> Result<Value> + 'static,
) {
    Case { splits: &[], ..Case::new(name, inputs, &(-2.0..2.0), &build) }.check();
}

impl<'a> Case<'a> {
    pub(crate) fn new(name: &'a str, inputs: &[&[usize]], range: &Range<f64>, build: &'a Build) -> Case<'a> {
        let inputs = inputs.iter().zip(1..).map(|(dims, seed)| random(seed, dims, range)).collect();
        Case { name, inputs, build, step: 1e-3, tolerance: 1e-9, spread: 1e-12, splits: &SPLITS }
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let program = self.compile(WHOLE, &|_| Recompute::Nothing);
        let gradients = self.call(&program);
        self.compare("differences", &gradients[1..], &self.differences(&program), self.tolerance);
        for &place in self.splits {
            self.compare(place.0, &self.gradients(place, &|_| Recompute::Nothing), &gradients, self.spread);
        }
    }

    /// The loss, and its gradients with respect to the inputs.
    pub(crate) fn gradients(&self, place: (&str, Split), remat: &Remat) -> Vec<Vec<f64>> {
        self.call(&self.compile(place, remat))
    }

    pub(crate) fn call(&self, program: &Executable) -> Vec<Vec<f64>> {
        call(program, &self.inputs).iter().map(HostArray::to_f64).collect()
    }

    pub(crate) fn compile(&self, place: (&str, Split), remat: &Remat) -> Executable {
        compile(self.module(remat), place).unwrap_or_else(|e| panic!("{} on {}: {e}", self.name, place.0))
    }

    /// For each element of each input, how the loss changes with it: differences of fourth order.
    pub(crate) fn differences(&self, program: &Executable) -> Vec<Vec<f64>> {
        let mut inputs = self.inputs.clone();
        let mut slope = |input: usize, element: usize| {
            let original = inputs[input].clone();
            let mut values = original.to_f64();
            let center = values[element];
            let mut loss_at = |steps: f64| {
                values[element] = center + steps * self.step;
                let moved = HostArray::from_slice(original.dims(), &values).unwrap();
                inputs[input] = moved.cast(original.dtype());
                call(program, &inputs)[0].to_f64()[0]
            };
            let (near, far) = (loss_at(1.0) - loss_at(-1.0), loss_at(2.0) - loss_at(-2.0));
            inputs[input] = original;
            (8.0 * near - far) / (12.0 * self.step)
        };
        let sizes = self.inputs.iter().map(|i| i.ty().shape.element_count());
        sizes.enumerate().map(|(i, size)| (0..size).map(|e| slope(i, e)).collect()).collect()
    }

    /// The sum of the function's elements, each times a number of its own, and its gradients.
    pub(crate) fn module(&self, remat: &Remat) -> VerifiedModule {
        let g = Graph::new(self.name);
        let argument = |(index, input): (usize, &HostArray)| {
            g.argument(format!("x{index}"), input.ty().clone(), ArgumentKind::Parameter)
        };
        let x: Vec<Value> = self.inputs.iter().enumerate().map(argument).collect();
        let append = || {
            let y = g.convert((self.build)(&g, &x)?, DType::F64)?;
            let dims = g.dims(y);
            let weighted = g.mul(y, g.constant(random(0, &dims, &(0.5..1.5)))?)?;
            let loss = g.sum(weighted, &(0..dims.len()).collect::<Vec<_>>())?;
            g.output("loss", loss);
            let gradients = g.gradients(loss, &x, remat)?;
            gradients.into_iter().enumerate().for_each(|(i, gradient)| g.output(format!("d{i}"), gradient));
            Ok::<_, GraphError>(())
        };
        append().unwrap_or_else(|e| panic!("{}: {e}", self.name));
        verify(g.finish()).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    #[track_caller]
    pub(crate) fn compare(&self, what: &str, found: &[Vec<f64>], expected: &[Vec<f64>], tolerance: f64) {
        let lengths = |values: &[Vec<f64>]| values.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(found), lengths(expected), "{}", self.name);
        let largest = expected.iter().flatten().fold(1.0, |m: f64, v| m.max(v.abs()));
        for (array, (found, expected)) in found.iter().zip(expected).enumerate() {
            for (element, (f, e)) in found.iter().zip(expected).enumerate() {
                let fits = (f - e).abs() <= tolerance * largest;
                assert!(fits, "{}, array {array}, element {element}: {f}, by {what} {e}", self.name);
            }
        }
    }
}

pub(crate) fn compile(
    module: VerifiedModule,
    (mesh, split): (&str, Split),
) -> Result<Executable, RuntimeError> {
    let mesh = Mesh::iota(AbstractMesh::parse(mesh).unwrap());
    let sharding = |value| mesh.sharding(split(module.ty(value).rank()).parse().unwrap()).unwrap();
    let arguments = module.arguments.iter().map(|a| sharding(a.value)).collect();
    let outputs = module.outputs.iter().map(|o| sharding(o.value)).collect();
    let sharded = ShardedModule::new(module, mesh.shape(), arguments, outputs).unwrap();
    runtime(8).compile(&sharded, &mesh)
}

pub(crate) fn call(program: &Executable, inputs: &[HostArray]) -> Vec<HostArray> {
    let runtime = runtime(8);
    let place = |(input, place): (&HostArray, &shardwright_runtime::ExecutableValue)| {
        Argument::Donate(ShardedArray::from_host(&runtime, program.mesh(), &place.sharding, input).unwrap())
    };
    let arguments = inputs.iter().zip(program.arguments()).map(place);
    let outputs = program.execute(arguments).unwrap().outputs;
    outputs.iter().map(|o| o.to_host().unwrap()).collect()
}

/// An f64 array of numbers that look random: SplitMix64 of the seed and the index.
pub(crate) fn random(seed: u64, dims: &[usize], range: &Range<f64>) -> HostArray {
    let count: usize = dims.iter().product();
    let value = |index: u64| {
        let mut z = (seed << 32 | index).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let unit = ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64;
        range.start + unit * (range.end - range.start)
    };
    HostArray::from_slice(dims, &(0..count as u64).map(value).collect::<Vec<_>>()).unwrap()
}
