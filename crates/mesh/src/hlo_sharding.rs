//! The HLO spelling of a sharding, as XLA prints and reads it.
//!
//! ```text
//! sharding = "{replicated}" | "{maximal device=" id "}" | "{manual}" | "{unreduced}" | "{unknown}"
//!          | "{devices=[" sizes "]" ( "<=" iota | ids ) [ marker ] "}"
//!          | "{" mesh ", [" [ dim { "," dim } ] "]" { ", " list-name "={" refs "}" } "}"
//!          | "{" mesh ", replicated}" | "{" mesh ", manual}" | "{" mesh ", unreduced}"
//!          | "{maximal_mesh[device_id=" id "]}"
//! iota     = "[" sizes "]" [ "T(" permutation ")" ]
//! marker   = "last_tile_dim_replicate" | "last_tile_dims={" kind { "," kind } "}"
//! mesh     = "mesh[" [ axis "=" size { "," axis "=" size } ] "]" [ ", device_ids=(" ( iota | ids ) ")" ]
//! ```
//!
//! The *tiled* form numbers tiles, not axes: `devices=[2,1,4]…` is an array of partitions with one dim per
//! tensor dim and, if the sharding leaves copies, a last one that holds them. An axis of size 1 leaves no mark
//! in it, and what is split nowhere is `{replicated}`. The *named* form, which newer compilers print, names
//! the axes of a mesh, perhaps one of the compiler's making. Dims and refs are those of the sdy grammar, with `'`
//! for `"`.
//!
//! In front of the closing brace may stand `metadata={…}`, in the named form behind a comma; it is skipped.
//!
//! Where the named form says no more than another one, it is read as that: `{mesh['x'=2], replicated}` is
//! `{replicated}`.

use std::fmt;
use std::str::FromStr;

use crate::axis_ref::{AxisRef, DimAxes, Parts, Quoted, scan_lists};
use crate::device_order::DeviceOrder;
use crate::sdy::scan_axes;
use crate::text::{HLO_QUOTE, Scanner, TextError, check_listed, device_count, join};
use crate::{Mesh, NamedSharding, ShardingError};

/// A sharding as HLO writes it. `Display` prints that, and `FromStr` reads it.
///
/// The devices in it are partitions of the program. Two spellings of one sharding, such as `<=[2]` and `0,1`,
/// compare unequal; [`HloSharding::to_named`] makes them the same.
///
/// ```
/// use shardwright_mesh::{AbstractMesh, HloSharding};
///
/// let mesh = AbstractMesh::parse("data=2, fsdp=4")?;
/// let sharding: HloSharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}".parse()?;
/// let named = sharding.to_named(&mesh, 2)?;
/// assert_eq!(named.spec().to_string(), "(fsdp, -)");
/// assert_eq!(named.hlo_sharding(), sharding);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HloSharding {
    /// Every device has the whole array.
    Replicated,
    /// One device has the whole array, the others nothing.
    Maximal {
        /// That device.
        device: usize,
    },
    /// The program itself says what each device has.
    Manual,
    /// Every device has a summand of the array.
    Unreduced,
    /// The choice is the compiler's.
    Unknown,
    /// The array is cut into tiles, which are numbered.
    Tiled(TileSharding),
    /// The array is cut along named axes.
    Named(MeshSharding),
}

/// A sharding that numbers tiles.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TileSharding {
    // Their product, with the sizes of the subgroups, is the number of devices.
    tiles: Vec<usize>,
    subgroups: Vec<(Subgroup, usize)>,
    pub(crate) order: DeviceOrder,
}

/// How the devices that share a tile share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subgroup {
    /// Each has a copy.
    Replicated,
    /// The program itself says what each has.
    Manual,
    /// Each has a summand.
    Unreduced,
}

/// A sharding along the axes of a mesh, or along parts of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MeshSharding {
    mesh: Mesh,
    dims: Vec<DimAxes>,
    // Parts of different references do not overlap.
    replicated: Vec<AxisRef>,
    unreduced: Vec<AxisRef>,
    manual: Vec<AxisRef>,
}

impl HloSharding {
    /// Reads the sharding of a tuple, `{{replicated}, {devices=[2]<=[2]}}`, or that of one array.
    ///
    /// # Errors
    ///
    /// Text of another form; tuples in tuples are one.
    pub fn parse_tuple(text: &str) -> Result<Vec<Self>, TextError> {
        let mut scanner = Scanner::new(GRAMMAR, HLO_QUOTE, text);
        let mut whole = scanner;
        let is_tuple = whole.eats("{") && (whole.sees("{") || whole.sees("}"));
        let shardings = match is_tuple {
            true => {
                scanner = whole;
                scanner.list("}", scan)?
            }
            false => vec![scan(&mut scanner)?],
        };
        scanner.end().map(|()| shardings)
    }
}

impl TileSharding {
    fn new(
        tiles: Vec<usize>,
        subgroups: Vec<(Subgroup, usize)>,
        order: DeviceOrder,
    ) -> Result<Self, TextError> {
        let sizes: Vec<_> = tiles.iter().chain(subgroups.iter().map(|(_, size)| size)).copied().collect();
        let (expected, found) = (device_count(&sizes)?, order.len());
        if expected != found {
            return Err(TextError::DeviceCount { expected, found });
        }
        Ok(Self { tiles, subgroups, order })
    }

    /// A sharding whose devices are an array of these sizes that counts from 0, transposed, and read row-major: what
    /// `devices=[…]<=[2,4]T(1,0)` says. `subgroups` are outermost first.
    ///
    /// # Errors
    ///
    /// The permutation is none, or there are more or fewer devices than tiles and subgroups have.
    pub fn of_counted(
        tiles: Vec<usize>,
        subgroups: Vec<(Subgroup, usize)>,
        sizes: &[usize],
        permutation: &[usize],
    ) -> Result<Self, TextError> {
        Self::new(tiles, subgroups, DeviceOrder::checked_iota(sizes, permutation)?)
    }

    /// A sharding whose devices are these, those of the first tile first.
    ///
    /// # Errors
    ///
    /// A device comes twice, or there are more or fewer than tiles and subgroups have.
    pub fn of_devices(
        tiles: Vec<usize>,
        subgroups: Vec<(Subgroup, usize)>,
        devices: Vec<usize>,
    ) -> Result<Self, TextError> {
        Self::new(tiles, subgroups, DeviceOrder::list(devices)?)
    }

    /// The sizes and the permutation of [`TileSharding::of_counted`], if the devices are in such an order.
    pub fn counted(&self) -> Option<(&[usize], &[usize])> {
        match &self.order {
            DeviceOrder::Iota { dims, permutation } => Some((dims, permutation)),
            DeviceOrder::List(_) => None,
        }
    }

    /// Into how many tiles each dim of the array is cut.
    pub fn tiles(&self) -> &[usize] {
        &self.tiles
    }

    /// How the devices of a tile share it, outermost first, and how many there are of each kind.
    pub fn subgroups(&self) -> &[(Subgroup, usize)] {
        &self.subgroups
    }

    /// The devices, those of the first tile first; tiles are counted row-major. They are worked out as they are
    /// asked for: a short text may count more than memory holds.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = usize> + Clone + '_ {
        self.order.devices()
    }
}

impl MeshSharding {
    /// The mesh that the text names. Its axes need not be those of the program's mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The first dim, if any, that the compiler may split further.
    pub(crate) fn open_dim(&self) -> Option<usize> {
        self.dims.iter().position(|dim| dim.is_open)
    }

    fn parts(&self) -> Result<Parts, TextError> {
        let dims = self.dims.iter().flat_map(|dim| &dim.axes);
        let refs = dims.chain(&self.manual).chain(&self.unreduced).chain(&self.replicated);
        Parts::new(self.mesh.shape(), &refs.collect::<Vec<_>>())
    }

    /// The same sharding by numbers, if the references are those of the mesh.
    pub(crate) fn tiled(&self) -> Result<TileSharding, TextError> {
        let parts = self.parts()?;
        let mut used = parts.of_refs.iter();
        let mut extent = |refs: &Vec<AxisRef>| -> usize {
            used.by_ref().take(refs.len()).map(|run| parts.extent(run.clone())).product()
        };
        let tiles = self.dims.iter().map(|dim| extent(&dim.axes)).collect();
        let (manual, unreduced) = (extent(&self.manual), extent(&self.unreduced));
        let replicated = extent(&self.replicated) * parts.extent(parts.free());
        let subgroups = [
            (Subgroup::Manual, manual),
            (Subgroup::Unreduced, unreduced),
            (Subgroup::Replicated, replicated),
        ];
        let subgroups = subgroups.into_iter().filter(|(_, size)| *size > 1).collect();
        let order = parts.devices(&self.mesh, &[parts.used(), parts.free()].concat());
        TileSharding::new(tiles, subgroups, order)
    }
}

impl NamedSharding {
    /// The sharding as HLO has it: `{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}`.
    ///
    /// The numbers are partitions; the device order of a [`Mesh`] plays no part.
    pub fn hlo_sharding(&self) -> HloSharding {
        self.tiles_in(self.device_order(self.spec().rank()))
    }

    /// The sharding as HLO has it, with device ids for partitions:
    /// `{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}`.
    ///
    /// This is for programs and people that number partitions by device id. Programs of this workspace
    /// number them by mesh position; theirs is [`NamedSharding::hlo_sharding`].
    ///
    /// # Errors
    ///
    /// The sharding is over another mesh, or one of more than a million devices, as they are listed one by one.
    pub fn hlo_device_sharding(&self, mesh: &Mesh) -> Result<HloSharding, ShardingError> {
        self.check_mesh(mesh)?;
        self.check_listed()?;
        let order = self.device_order(self.spec().rank());
        let ids = order.devices().map(|partition| mesh.device_id(partition));
        Ok(self.tiles_in(DeviceOrder::List(ids.collect())))
    }

    /// The partitions in ascending order for each tile of the first `n_dims` dims, the first tile first.
    pub(crate) fn device_order(&self, n_dims: usize) -> DeviceOrder {
        let sizes: Vec<_> = self.mesh().axes().iter().map(|(_, size)| *size).collect();
        let mut axes = self.tile_axes().iter().take(n_dims).flatten().copied().collect::<Vec<_>>();
        let others = (0..sizes.len()).filter(|axis| !axes.contains(axis)).collect::<Vec<_>>();
        axes.extend(others);
        DeviceOrder::iota(&sizes, &axes)
    }

    fn tiles_in(&self, order: DeviceOrder) -> HloSharding {
        if self.is_fully_replicated() {
            return HloSharding::Replicated;
        }
        let replicas = Some((Subgroup::Replicated, self.replica_count())).filter(|(_, count)| *count > 1);
        let subgroups = replicas.into_iter().collect();
        HloSharding::Tiled(TileSharding { tiles: self.shards_per_dim(), subgroups, order })
    }
}

const GRAMMAR: &str = "hlo sharding";

impl FromStr for HloSharding {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut scanner = Scanner::new(GRAMMAR, HLO_QUOTE, text);
        let sharding = scan(&mut scanner)?;
        scanner.end().map(|()| sharding)
    }
}

fn scan(scanner: &mut Scanner<'_>) -> Result<HloSharding, TextError> {
    scanner.expect("{", "'{'")?;
    let sharding = if scanner.eats("maximal_mesh") {
        scanner.expect("[", "'['")?;
        scanner.expect("device_id", "device_id")?;
        scanner.expect("=", "'='")?;
        let device = scanner.number()?;
        scanner.expect("]", "']'").map(|()| HloSharding::Maximal { device })?
    } else if scanner.eats("maximal") {
        scanner.expect("device", "device")?;
        scanner.expect("=", "'='")?;
        HloSharding::Maximal { device: scanner.number()? }
    } else if scanner.eats("devices") {
        scanner.expect("=", "'='")?;
        HloSharding::Tiled(scan_tiles(scanner)?)
    } else if scanner.sees("mesh") {
        scan_named(scanner)?
    } else {
        scan_word(scanner)?
    };
    skip_metadata(scanner)?;
    scanner.expect("}", "'}'").map(|()| sharding)
}

/// Skips `metadata={…}`, which says where in a model the sharding comes from, and the comma before it.
fn skip_metadata(scanner: &mut Scanner<'_>) -> Result<(), TextError> {
    let mut ahead = *scanner;
    ahead.eats(",");
    if !ahead.eats("metadata") {
        return Ok(());
    }
    *scanner = ahead;
    scanner.expect("=", "'='")?;
    scanner.expect("{", "'{'")?;
    let mut depth = 1_usize;
    while depth > 0 {
        scanner.run(|c| !"{}\"".contains(c));
        if scanner.eats("{") {
            depth += 1;
        } else if scanner.eats("\"") {
            scanner.string_end()?;
        } else {
            scanner.expect("}", "'}'")?;
            depth -= 1;
        }
    }
    Ok(())
}

fn scan_word(scanner: &mut Scanner<'_>) -> Result<HloSharding, TextError> {
    let words = [
        ("replicated", HloSharding::Replicated),
        ("manual", HloSharding::Manual),
        ("unreduced", HloSharding::Unreduced),
        ("unknown", HloSharding::Unknown),
    ];
    let found = words.into_iter().find(|(word, _)| scanner.eats(word));
    found.map(|(_, sharding)| sharding).ok_or_else(|| {
        scanner.unexpected("replicated, maximal, manual, unreduced, unknown, devices= or mesh[")
    })
}

/// Reads `[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate`.
fn scan_tiles(scanner: &mut Scanner<'_>) -> Result<TileSharding, TextError> {
    scanner.expect("[", "'['")?;
    let mut tiles = scanner.list("]", Scanner::number)?;
    let order = match scanner.eats("<=") {
        true => DeviceOrder::scan_iota(scanner)?,
        false => DeviceOrder::list(scan_ids(scanner)?)?,
    };
    let kinds = match scanner.eats("last_tile_dims") {
        true => {
            scanner.expect("=", "'='")?;
            scanner.expect("{", "'{'")?;
            scanner.list("}", scan_subgroup)?
        }
        false if scanner.eats("last_tile_dim_replicate") => vec![Subgroup::Replicated],
        false => Vec::new(),
    };
    let Some(rank) = tiles.len().checked_sub(kinds.len()) else {
        return Err(scanner.unexpected("as many sizes as there are subgroups"));
    };
    let sizes = tiles.split_off(rank);
    TileSharding::new(tiles, kinds.into_iter().zip(sizes).collect(), order)
}

fn scan_subgroup(scanner: &mut Scanner<'_>) -> Result<Subgroup, TextError> {
    let kinds = [Subgroup::Replicated, Subgroup::Manual, Subgroup::Unreduced];
    let found = kinds.into_iter().find(|kind| scanner.eats(kind.word()));
    found.ok_or_else(|| scanner.unexpected("replicated, manual or unreduced"))
}

/// Reads `0,4,1,5`: at least one device.
fn scan_ids(scanner: &mut Scanner<'_>) -> Result<Vec<usize>, TextError> {
    let mut ids = vec![scanner.number()?];
    while scanner.eats(",") {
        ids.push(scanner.number()?);
    }
    Ok(ids)
}

/// Reads `mesh['x'=2,'y'=2], device_ids=(0,2,1,3)`; the devices may be missing, and then count up.
pub(crate) fn scan_mesh(scanner: &mut Scanner<'_>) -> Result<Mesh, TextError> {
    scanner.expect("mesh", "mesh")?;
    scanner.expect("[", "'['")?;
    let shape = scan_axes(scanner)?;
    let mut ahead = *scanner;
    if !(ahead.eats(",") && ahead.eats("device_ids")) {
        return Ok(Mesh::iota(shape));
    }
    *scanner = ahead;
    scanner.expect("=", "'='")?;
    scanner.expect("(", "'('")?;
    let mesh = match scanner.sees("[") {
        true => Mesh::counted(shape, DeviceOrder::scan_iota(scanner)?)?,
        false => Mesh::new(shape, scan_ids(scanner)?)?,
    };
    if !mesh.is_iota() {
        // Other spellings list them.
        check_listed(mesh.shape().size())?;
    }
    scanner.expect(")", "')'").map(|()| mesh)
}

/// The spelling that [`scan_mesh`] reads.
pub(crate) fn mesh_text(mesh: &Mesh) -> String {
    let axes = mesh.shape().axes().iter().map(|(name, size)| format!("'{name}'={size}"));
    let axes = axes.collect::<Vec<_>>().join(",");
    match mesh.is_iota() {
        true => format!("mesh[{axes}]"),
        false => format!("mesh[{axes}], device_ids=({})", mesh.device_order()),
    }
}

fn scan_named(scanner: &mut Scanner<'_>) -> Result<HloSharding, TextError> {
    let mesh = scan_mesh(scanner)?;
    scanner.expect(",", "','")?;
    if !scanner.eats("[") {
        return scan_word(scanner);
    }
    let dims = scanner.list("]", DimAxes::scan)?;
    let words = ["replicated", "unreduced", "manual"];
    let [replicated, unreduced, manual] =
        scan_lists(scanner, words, "replicated=, unreduced= or manual=, each once")?;
    let sharding = MeshSharding { mesh, dims, replicated, unreduced, manual };
    sharding.parts()?;
    Ok(HloSharding::Named(sharding))
}

impl Subgroup {
    fn word(self) -> &'static str {
        match self {
            Self::Replicated => "replicated",
            Self::Manual => "manual",
            Self::Unreduced => "unreduced",
        }
    }
}

impl fmt::Display for HloSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replicated => f.write_str("{replicated}"),
            Self::Maximal { device } => write!(f, "{{maximal device={device}}}"),
            Self::Manual => f.write_str("{manual}"),
            Self::Unreduced => f.write_str("{unreduced}"),
            Self::Unknown => f.write_str("{unknown}"),
            Self::Tiled(sharding) => write!(f, "{{{sharding}}}"),
            Self::Named(sharding) => write!(f, "{{{sharding}}}"),
        }
    }
}

impl fmt::Display for TileSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.tiles.iter().chain(self.subgroups.iter().map(|(_, size)| size));
        let arrow = if matches!(self.order, DeviceOrder::Iota { .. }) { "<=" } else { "" };
        write!(f, "devices=[{}]{arrow}{}", join(&sizes.copied().collect::<Vec<_>>()), self.order)?;
        match self.subgroups.as_slice() {
            [] => Ok(()),
            [(Subgroup::Replicated, _)] => f.write_str(" last_tile_dim_replicate"),
            subgroups => {
                let words: Vec<_> = subgroups.iter().map(|(kind, _)| kind.word()).collect();
                write!(f, " last_tile_dims={{{}}}", words.join(", "))
            }
        }
    }
}

impl fmt::Display for MeshSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<_> = self.dims.iter().map(|dim| Quoted(HLO_QUOTE, dim).to_string()).collect();
        write!(f, "{}, [{}]", mesh_text(&self.mesh), dims.join(", "))?;
        let lists =
            [("replicated", &self.replicated), ("unreduced", &self.unreduced), ("manual", &self.manual)];
        for (word, axes) in lists {
            if !axes.is_empty() {
                write!(f, ", {word}={{{}}}", Quoted(HLO_QUOTE, axes.as_slice()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
