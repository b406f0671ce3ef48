//! Every printed form is read back as what it was, and no text makes a parser panic.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use proptest::prelude::*;
use proptest::sample::Index;
use shardwright_mesh::{
    AbstractMesh, AxisName, DimSharding, DrawStyle, HloSharding, Mesh, NamedSharding, PartitionSpec,
    ReplicaGroups, SdySharding, draw_mesh, draw_sharding,
};

/// A mesh whose axes are products of factors, and for each factor the list in which it stands: a dim of an
/// array, or one of three others. On the mesh of all factors, each factor is an axis.
#[derive(Debug)]
struct Written {
    /// What the axes are called.
    names: Vec<&'static str>,
    /// The axes, each as its factors.
    axes: Vec<Vec<usize>>,
    /// Axis and factor, in the order in which they are named.
    order: Vec<(usize, usize)>,
    /// For each of `order`: a dim, or `rank` and up.
    places: Vec<usize>,
    rank: usize,
    device_ids: Option<Vec<usize>>,
    /// What Shardy's module calls the mesh, in quotes where it needs them.
    symbol: String,
}

/// Every kind of name that an axis may have; `3` could be a number, `p0` and `replicated` stand for other things too.
const NAMES: [&str; 8] = ["a0", "x", "data-parallel", "_y.z", "3", "p0", "replicated", "Z9_-."];

impl Written {
    fn size(&self) -> usize {
        self.axes.iter().flatten().product()
    }

    /// `'x'=6` and so on, between brackets.
    fn mesh(&self, quote: char) -> String {
        let axis = |(name, factors): (&&str, &Vec<usize>)| {
            format!("{quote}{name}{quote}={}", factors.iter().product::<usize>())
        };
        self.names.iter().zip(&self.axes).map(axis).collect::<Vec<_>>().join(",")
    }

    fn hlo_mesh(&self) -> String {
        let ids = self.device_ids.as_ref().map(|list| format!(", device_ids=({})", join(list)));
        format!("mesh[{}]{}", self.mesh('\''), ids.unwrap_or_default())
    }

    /// The references of one list, between braces.
    fn refs(&self, place: usize, quote: char) -> String {
        let refs = self.order.iter().zip(&self.places).filter(|(_, at)| **at == place);
        let text = |((axis, factor), _): (&(usize, usize), _)| {
            let factors = &self.axes[*axis];
            let pre_size: usize = factors[..*factor].iter().product();
            let part = format!(":({pre_size}){}", factors[*factor]);
            let name = self.names[*axis];
            format!("{quote}{name}{quote}{}", if factors.len() > 1 { part } else { String::new() })
        };
        format!("{{{}}}", refs.map(text).collect::<Vec<_>>().join(", "))
    }

    fn dims(&self, quote: char) -> String {
        (0..self.rank).map(|dim| self.refs(dim, quote)).collect::<Vec<_>>().join(", ")
    }

    /// The text of a sharding, with a last list besides those of sdy.
    fn hlo_sharding(&self) -> String {
        let lists = ["replicated", "unreduced", "manual"].iter().enumerate();
        let lists = lists.map(|(idx, word)| format!(", {word}={}", self.refs(self.rank + idx, '\'')));
        format!("{{{}, [{}]{}}}", self.hlo_mesh(), self.dims('\''), lists.collect::<String>())
    }

    fn sdy_sharding(&self) -> String {
        let lists = ["replicated", "unreduced"].iter().enumerate();
        let lists = lists.map(|(idx, word)| format!(", {word}={}", self.refs(self.rank + idx, '"')));
        format!("<@{}, [{}]{}>", self.symbol, self.dims('"'), lists.collect::<String>())
    }

    /// The groups along the first list.
    fn groups(&self) -> String {
        format!("{} {}", self.hlo_mesh(), self.refs(0, '\''))
    }

    fn factor_mesh(&self) -> AbstractMesh {
        let factors = self.axes.iter().enumerate().flat_map(|(axis, factors)| {
            factors.iter().enumerate().map(move |(factor, size)| (self.factor_name(axis, factor), *size))
        });
        AbstractMesh::new(factors).unwrap()
    }

    fn factor_name(&self, axis: usize, factor: usize) -> String {
        format!("{}.{factor}", self.names[axis])
    }

    /// The factors of one list, by the names that they have in the mesh of factors.
    fn names(&self, place: usize) -> Vec<String> {
        let refs = self.order.iter().zip(&self.places).filter(|(_, at)| **at == place);
        refs.map(|((axis, factor), _)| self.factor_name(*axis, *factor)).collect()
    }

    fn spec(&self) -> PartitionSpec {
        PartitionSpec::new((0..self.rank).map(|dim| DimSharding::from(self.names(dim))))
    }
}

fn written() -> impl Strategy<Value = Written> {
    let axes = prop::collection::vec(prop::collection::vec(2_usize..=3, 1..=3), 1..=3);
    (axes, 1_usize..=3, any::<bool>()).prop_flat_map(|(axes, rank, is_listed)| {
        let factors = axes.iter().enumerate().flat_map(|(axis, f)| (0..f.len()).map(move |idx| (axis, idx)));
        let factors: Vec<_> = factors.collect();
        let places = prop::collection::vec(0..rank + 4, factors.len());
        let size: usize = axes.iter().flatten().product();
        let ids = Just((0..size).collect::<Vec<_>>()).prop_shuffle();
        let names = Just(NAMES.to_vec()).prop_shuffle();
        let order = Just(factors).prop_shuffle();
        (order, places, ids, names, symbols()).prop_map(move |(order, places, ids, mut names, symbol)| {
            let device_ids = is_listed.then_some(ids);
            names.truncate(axes.len());
            Written { names, axes: axes.clone(), order, places, rank, device_ids, symbol }
        })
    })
}

/// A counted array, the sizes of two dims of tiles and perhaps of copies, and a mesh, all of as many devices.
fn counted() -> impl Strategy<Value = (String, Vec<usize>, AbstractMesh)> {
    let factors = prop::collection::vec(2_usize..=3, 1..=5);
    (factors, 1_usize..=5).prop_flat_map(|(factors, n_axes)| {
        let n = factors.len();
        let permutation = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
        let places = prop::collection::vec(0_usize..4, n);
        let axes = prop::collection::vec(0..n_axes, n);
        (Just(factors), permutation, places, axes).prop_map(move |(factors, permutation, places, axes)| {
            let product = |places: &[usize], wanted: usize| -> usize {
                factors
                    .iter()
                    .zip(places)
                    .filter(|(_, place)| **place == wanted)
                    .map(|(size, _)| size)
                    .product()
            };
            let mut tiles = vec![product(&places, 0), product(&places, 1)];
            let copies = product(&places, 2) * product(&places, 3);
            tiles.extend((copies > 1).then_some(copies));
            let axes = (0..n_axes).map(|axis| (NAMES[axis], product(&axes, axis)));
            let order = format!("[{}]T({})", join(&factors), join(&permutation));
            (order, tiles, AbstractMesh::new(axes).unwrap())
        })
    })
}

fn join(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Symbols that need no quotes, and such with anything in quotes.
fn symbols() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z_][A-Za-z0-9_$.]{0,5}",
        prop::sample::select(vec!["", "0", "a-b", " a ", "é", "$a", "a'b", "mesh", "@", ">"])
            .prop_map(|name| format!("\"{name}\"")),
    ]
}

/// Prints and reads.
fn again<T: Display + FromStr<Err: Debug>>(value: &T) -> T {
    value.to_string().parse().unwrap()
}

/// Text with some of its characters deleted, doubled or replaced.
fn mutate(text: &str, edits: &[(Index, u8, char)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, kind, c) in edits {
        if chars.is_empty() {
            break;
        }
        let at = at.index(chars.len());
        match kind {
            0 => drop(chars.remove(at)),
            1 => chars.insert(at, chars[at]),
            2 => chars[at] = *c,
            _ => chars.truncate(at),
        }
    }
    chars.into_iter().collect()
}

/// What is read is what its printed form is read as.
fn check_all(text: &str) {
    fn check<T: Display + FromStr<Err: Debug> + PartialEq + Debug>(text: &str) -> Option<T> {
        let value: T = text.parse().ok()?;
        assert_eq!(again(&value), value);
        Some(value)
    }
    let mesh = AbstractMesh::parse("a0=2, a1=6, a2=3").unwrap();
    if let Some(sharding) = check::<HloSharding>(text) {
        let _ = sharding.to_named(&mesh, 2);
    }
    if let Some(groups) = check::<ReplicaGroups>(text) {
        let _ = groups.axes_of(&mesh);
    }
    if let Some(sharding) = check::<SdySharding>(text) {
        let _ = sharding.to_named(&mesh);
    }
    check::<PartitionSpec>(text);
    if let Ok(mesh) = Mesh::from_sdy_text(text) {
        assert_eq!(Mesh::from_sdy_text(&mesh.sdy_text()), Ok(mesh));
    }
    if let Ok(mesh) = AbstractMesh::parse(text) {
        assert_eq!(AbstractMesh::parse(&mesh.to_string()), Ok(mesh));
    }
    let _ = HloSharding::parse_tuple(text);
    let _ = serde_json::from_str::<NamedSharding>(text);
    let _ = serde_json::from_str::<Mesh>(text);
}

proptest! {
    #[test]
    fn named_shardings_are_read_back(written in written()) {
        let mesh = written.factor_mesh();
        let sharding = NamedSharding::new(&mesh, written.spec()).unwrap();
        prop_assert_eq!(sharding.hlo_sharding().to_named(&mesh, written.rank), Ok(sharding.clone()));
        prop_assert_eq!(again(&sharding.hlo_sharding()), sharding.hlo_sharding());
        let read: SdySharding = sharding.sdy_text().parse().unwrap();
        prop_assert_eq!(read.to_named(&mesh), Ok(sharding.clone()));
        let json = serde_json::to_string(&sharding).unwrap();
        prop_assert_eq!(serde_json::from_str::<NamedSharding>(&json).unwrap(), sharding);
    }

    #[test]
    fn meshes_are_read_back(written in written()) {
        let ids = written.device_ids.clone().unwrap_or_else(|| (0..written.size()).collect());
        let mesh = Mesh::new(written.factor_mesh(), ids).unwrap();
        prop_assert_eq!(Mesh::from_sdy_text(&mesh.sdy_text()).unwrap(), mesh.clone());
        let json = serde_json::to_string(&mesh).unwrap();
        prop_assert_eq!(serde_json::from_str::<Mesh>(&json).unwrap(), mesh);
    }

    #[test]
    fn references_mean_factors(written in written()) {
        let sharding: HloSharding = written.hlo_sharding().parse().unwrap();
        prop_assert_eq!(again(&sharding), sharding.clone());
        let sdy: SdySharding = written.sdy_sharding().parse().unwrap();
        prop_assert_eq!(again(&sdy), sdy);

        // The last two lists are of devices that hold no copies, and a list of devices is in its own order.
        let holds_copies = written.places.iter().all(|&place| ![1, 2].contains(&(place.wrapping_sub(written.rank))));
        if holds_copies && written.device_ids.is_none() {
            let mesh = written.factor_mesh();
            let expected = NamedSharding::new(&mesh, written.spec()).unwrap();
            prop_assert_eq!(sharding.to_named(&mesh, written.rank), Ok(expected));
        }
    }

    #[test]
    fn counted_and_listed_devices_have_the_same_axes((order, tiles, mesh) in counted()) {
        let copies = if tiles.len() > 2 { " last_tile_dim_replicate" } else { "" };
        let text = |devices: &str| format!("{{devices=[{}]{devices}{copies}}}", join(&tiles));
        let counted: HloSharding = text(&format!("<={order}")).parse().unwrap();
        let HloSharding::Tiled(tiled) = &counted else { panic!("{counted} is tiled") };
        let listed: HloSharding = text(&join(&tiled.devices().collect::<Vec<_>>())).parse().unwrap();
        prop_assert_eq!(counted.to_named(&mesh, 2).ok(), listed.to_named(&mesh, 2).ok());
    }

    #[test]
    fn groups_run_over_factors(written in written()) {
        let groups: ReplicaGroups = written.groups().parse().unwrap();
        prop_assert_eq!(again(&groups), groups.clone());
        let listed = ReplicaGroups::list(groups.groups()).unwrap();
        prop_assert_eq!(again(&listed), listed.clone());
        prop_assert_eq!(listed.group_size(), groups.group_size());
        let mut devices = groups.groups().concat();
        devices.sort();
        prop_assert!(devices.into_iter().eq(0..written.size()));
        if written.device_ids.is_none() {
            let mesh = written.factor_mesh();
            let names = written.names(0);
            let is_named = |axis: &&AxisName| names.iter().any(|name| *name == *axis.as_str());
            let expected: Vec<_> = mesh.axis_names().filter(is_named).cloned().collect();
            for groups in [groups, listed] {
                prop_assert_eq!(&groups.axes_of(&mesh).unwrap(), &expected);
            }
        }
    }

    #[test]
    fn damaged_text_makes_no_parser_panic(
        written in written(),
        edits in prop::collection::vec((any::<Index>(), 0..4_u8, any::<char>()), 1..4),
        insert in "[-a0-9'\"=:,<>@?T(){}\\[\\] ]{0,4}",
    ) {
        let tiles = format!("{{devices=[2,1,{}]<=[{}]T(1,0) last_tile_dim_replicate}}", written.size(), insert);
        let json = format!(r#"{{"mesh": {{"a": 2{insert}}}, "spec": [["a"], null]}}"#);
        let sdy_mesh = format!("<[{}], device_ids=[0{insert}]>", written.mesh('"'));
        let texts = [
            written.hlo_sharding(), written.sdy_sharding(), written.groups(), tiles, json, sdy_mesh,
            written.spec().to_string(), written.factor_mesh().to_string(),
        ];
        for text in texts {
            check_all(&text);
            check_all(&mutate(&text, &edits));
            check_all(&mutate(&format!("{insert}{text}"), &edits));
        }
    }
}

#[test]
fn texts_that_ask_for_too_much_are_refused() {
    let many_axes = |axis: &dyn Fn(usize) -> String| (0..100_000).map(axis).collect::<Vec<_>>().join(",");
    let mesh = many_axes(&|idx| format!("'x{idx}'=1"));
    let ones = many_axes(&|_| "1".into());
    let refs = many_axes(&|_| "'x'".into());
    let texts = [
        format!("{{mesh[{mesh}], [{{}}]}}"),
        format!("{{mesh['x'=2], [{{{refs}}}]}}"),
        format!("{{devices=[{ones},0]<=[{ones},1]}}"),
        "{".repeat(100_000),
        format!("[{}", "1,".repeat(100_000)),
        "(".repeat(100_000),
    ];
    for text in texts {
        assert!(text.parse::<HloSharding>().is_err());
        assert!(text.parse::<ReplicaGroups>().is_err());
        assert!(text.parse::<SdySharding>().is_err());
        assert!(text.parse::<PartitionSpec>().is_err());
        assert!(HloSharding::parse_tuple(&text).is_err());
    }
    assert!(serde_json::from_str::<PartitionSpec>(&"[".repeat(100_000)).is_err());
    // Long but legal: a hundred thousand dims that are not split.
    let sharding: HloSharding = format!("{{devices=[{ones},8]<=[{ones},8]}}").parse().unwrap();
    let mesh = AbstractMesh::parse("x=2, y=4").unwrap();
    let named = sharding.to_named(&mesh, 100_001).unwrap();
    assert_eq!(named.spec().axes().count(), 2);
}

#[test]
fn meshes_larger_than_memory_are_read_and_printed() {
    let mesh = AbstractMesh::parse("x=2097152, y=2").unwrap();
    let sharding = NamedSharding::new(&mesh, "(x, y)".parse().unwrap()).unwrap();
    assert_eq!(sharding.hlo_sharding().to_string(), "{devices=[2097152,2]<=[4194304]}");
    assert_eq!(again(&sharding.hlo_sharding()).to_named(&mesh, 2), Ok(sharding));

    let shape = AbstractMesh::parse("x=4294967296, y=2147483648, z=1").unwrap();
    let mesh = Mesh::iota(shape.clone());
    assert_eq!(Mesh::from_sdy_text(&mesh.sdy_text()).as_ref(), Ok(&mesh));
    let json = serde_json::to_string(&mesh).unwrap();
    assert_eq!(serde_json::from_str::<Mesh>(&json).unwrap(), mesh);
    assert_eq!(mesh.device_id(shape.size() - 1), shape.size() - 1);
    for spec in ["(x, y)", "(y, -)", "((y,x), z)", "(-, x)", "(-, -)"] {
        let sharding = mesh.sharding(spec.parse().unwrap()).unwrap();
        let read = again(&sharding.hlo_sharding()).to_named(&shape, 2).unwrap();
        // An axis of size 1 leaves no mark.
        assert_eq!(read.hlo_sharding(), sharding.hlo_sharding());
        let refused = sharding.shards(&[8, 8]).unwrap_err().to_string();
        assert!(refused.contains("at most 1048576 are listed"), "{refused}");
        assert!(sharding.hlo_device_sharding(&mesh).is_err());
        assert!(draw_sharding(&mesh, &sharding, &[8, 8], DrawStyle::Plain).unwrap().lines().count() < 100);
    }
    let text = "{mesh['x'=4294967296,'y'=2147483648], [{'y'}, {}]}";
    let named = text.parse::<HloSharding>().unwrap().to_named(&shape, 2).unwrap();
    assert_eq!(named.spec().to_string(), "(y, -)");
    assert!(draw_mesh(&mesh, DrawStyle::Plain).lines().count() < 100);
    let largest = Mesh::iota(AbstractMesh::parse(&format!("x={}", usize::MAX)).unwrap());
    assert_eq!(largest.device_ids().len(), usize::MAX);
}

/// Names are compared in a time that is the product of their lengths, and shown in errors.
#[test]
fn long_names_are_refused_and_shown_in_part() {
    let name = "a".repeat(100_000);
    let mesh = AbstractMesh::parse("axis=2").unwrap();
    let errors = [
        AbstractMesh::new([(&name, 2)]).unwrap_err().to_string(),
        AbstractMesh::parse(&format!("{name}=2")).unwrap_err().to_string(),
        AbstractMesh::parse(&format!("x={name}")).unwrap_err().to_string(),
        AbstractMesh::parse(&name).unwrap_err().to_string(),
        format!("({name})").parse::<PartitionSpec>().unwrap_err().to_string(),
        format!("{{mesh['axis'=2], [{{'{name}'}}]}}").parse::<HloSharding>().unwrap_err().to_string(),
        format!("<@mesh, [{{\"{name}\"}}]>").parse::<SdySharding>().unwrap_err().to_string(),
        NamedSharding::new(&mesh, PartitionSpec::split(1, 0, name)).unwrap_err().to_string(),
    ];
    for error in errors {
        assert!(error.len() < 1000 && error.contains("aaaa"), "{error}");
    }
}
