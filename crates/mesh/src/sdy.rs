//! The Shardy spelling of meshes and shardings: the bodies of `#sdy.mesh` and `#sdy.sharding` attributes.
//!
//! ```text
//! mesh     = "<[" [ axis "=" size { "," axis "=" size } ] "]" [ ", device_ids=[" id { "," id } "]" ] ">"
//! sharding = "<@" mesh-name ", [" [ dim { "," dim } ] "]" { ", " list-name "=" "{" refs "}" } ">"
//! dim      = "{" [ refs [ ", ?" ] | "?" ] "}" [ "p" priority ]
//! refs     = ref { "," ref }          ref = axis [ ":(" pre-size ")" size ]
//! ```
//!
//! An axis is in `"`. The name of a mesh is `[A-Za-z_][A-Za-z0-9_$.]*`, or anything without escapes in `"`.
//!
//! A list is `replicated` or `unreduced`. A dim that ends in `?` is *open*: propagation may split it further.

use std::fmt;
use std::str::FromStr;

use crate::axis_ref::{AxisRef, DimAxes, Parts, Quoted, scan_lists};
use crate::text::{SDY_QUOTE, Scanner, TextError};
use crate::{AbstractMesh, Mesh, NamedSharding};

/// A sharding as Shardy writes it. It can say more than a [`NamedSharding`]: dims that are open, priorities
/// of propagation, parts of axes, sums that are still to be made.
///
/// `Display` prints the attribute's body, and `FromStr` reads it, with `#sdy.sharding` before it or without.
///
/// ```
/// use shardwright_mesh::{AbstractMesh, SdySharding};
///
/// let sharding: SdySharding = r#"#sdy.sharding<@mesh, [{"data", "fsdp"}, {}]>"#.parse()?;
/// let mesh = AbstractMesh::parse("data=2, fsdp=4")?;
/// assert_eq!(sharding.to_named(&mesh)?.spec().to_string(), "((data,fsdp), -)");
///
/// let part: SdySharding = r#"<@mesh, [{"fsdp":(1)2}]>"#.parse()?;
/// assert!(part.to_named(&mesh).unwrap_err().to_string().contains("sub-axis"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SdySharding {
    mesh_name: String,
    pub(crate) dims: Vec<SdyDim>,
    pub(crate) replicated: Vec<AxisRef>,
    pub(crate) unreduced: Vec<AxisRef>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SdyDim {
    pub(crate) axes: DimAxes,
    /// Which dims propagate first: those of a lower number.
    priority: Option<usize>,
}

impl SdySharding {
    /// What the module calls the mesh, without the `@`.
    pub fn mesh_name(&self) -> &str {
        &self.mesh_name
    }

    /// Whether all axes that it names are this mesh's, and none is used twice.
    ///
    /// # Errors
    ///
    /// The first axis of which that is not so.
    pub fn check_axes(&self, mesh: &AbstractMesh) -> Result<(), TextError> {
        let of_dims = self.dims.iter().flat_map(|dim| &dim.axes.axes);
        let all: Vec<_> = of_dims.chain(&self.replicated).chain(&self.unreduced).collect();
        Parts::new(mesh, &all).map(drop)
    }

    /// The same with every dim closed: where the array lies if propagation splits it no further. None if it says
    /// nothing of that, since every dim is open and split over no axis.
    pub fn closed(mut self) -> Option<Self> {
        let says_nothing = |dim: &SdyDim| dim.axes.is_open && dim.axes.axes.is_empty();
        if !self.dims.is_empty() && self.dims.iter().all(says_nothing) {
            return None;
        }
        self.dims.iter_mut().for_each(|dim| dim.axes.is_open = false);
        Some(self)
    }

    /// The same over a mesh that the module calls by this name.
    #[must_use]
    pub fn with_mesh_name(self, mesh_name: impl Into<String>) -> SdySharding {
        SdySharding { mesh_name: mesh_name.into(), ..self }
    }
}

impl AbstractMesh {
    /// The mesh as a Shardy attribute body: `<["data"=2, "fsdp"=4]>`.
    pub fn sdy_text(&self) -> String {
        format!("<{}>", axes_text(self))
    }
}

impl Mesh {
    /// The mesh as a Shardy attribute body, with its devices unless they just count up:
    /// `<["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>`.
    ///
    /// Programs of this workspace number partitions by mesh position, and their mesh is that of
    /// [`AbstractMesh::sdy_text`].
    pub fn sdy_text(&self) -> String {
        if self.is_iota() {
            return self.shape().sdy_text();
        }
        let ids: Vec<_> = self.device_ids().map(|id| id.to_string()).collect();
        format!("<{}, device_ids=[{}]>", axes_text(self.shape()), ids.join(", "))
    }

    /// Reads a Shardy attribute body, with `#sdy.mesh` before it or without. Reads what
    /// [`Mesh::sdy_text`] prints.
    ///
    /// # Errors
    ///
    /// Text of another form, or a mesh that [`AbstractMesh::new`] or [`Mesh::new`] refuses.
    pub fn from_sdy_text(text: &str) -> Result<Self, TextError> {
        let mut scanner = Scanner::new("sdy mesh", SDY_QUOTE, text);
        scanner.eats("#sdy.mesh");
        scanner.expect("<", "'<'")?;
        scanner.expect("[", "'['")?;
        let shape = scan_axes(&mut scanner)?;
        let mut device_ids = None;
        if scanner.eats(",") {
            scanner.expect("device_ids", "device_ids")?;
            scanner.expect("=", "'='")?;
            scanner.expect("[", "'['")?;
            device_ids = Some(scanner.list("]", Scanner::number)?);
        }
        scanner.expect(">", "'>'")?;
        scanner.end()?;
        Ok(Mesh::with_ids(shape, device_ids)?)
    }
}

impl NamedSharding {
    /// The sharding as a Shardy attribute body, `<@mesh, [{"data", "fsdp"}, {}]>`, for a mesh that the module
    /// calls `@mesh`. All dims are closed: propagation does not split them further.
    pub fn sdy_text(&self) -> String {
        SdySharding::from(self).to_string()
    }
}

/// Over a mesh that the module calls `@mesh`, with all dims closed.
impl From<&NamedSharding> for SdySharding {
    fn from(sharding: &NamedSharding) -> Self {
        let whole = |axis: &crate::AxisName| AxisRef { axis: axis.clone(), part: None };
        let dim = |dim: &crate::DimSharding| SdyDim {
            axes: DimAxes { axes: dim.axes.iter().map(whole).collect(), is_open: false },
            priority: None,
        };
        let dims = sharding.spec().dims().iter().map(dim).collect();
        Self { mesh_name: "mesh".into(), dims, replicated: Vec::new(), unreduced: Vec::new() }
    }
}

impl FromStr for SdySharding {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut scanner = Scanner::new("sdy sharding", SDY_QUOTE, text);
        scanner.eats("#sdy.sharding");
        scanner.expect("<", "'<'")?;
        scanner.expect("@", "'@' and the name of a mesh")?;
        let mesh_name = scan_symbol(&mut scanner)?;
        scanner.expect(",", "','")?;
        scanner.expect("[", "'['")?;
        let dims = scanner.list("]", |scanner| {
            let axes = DimAxes::scan(scanner)?;
            let priority = if scanner.eats("p") { Some(scanner.number()?) } else { None };
            Ok(SdyDim { axes, priority })
        })?;
        let [replicated, unreduced] =
            scan_lists(&mut scanner, ["replicated", "unreduced"], "replicated= or unreduced=, each once")?;
        scanner.expect(">", "'>'")?;
        scanner.end()?;
        Ok(Self { mesh_name, dims, replicated, unreduced })
    }
}

impl fmt::Display for SdySharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.mesh_name {
            name if is_bare_symbol(name) => write!(f, "<@{name}, [")?,
            name => write!(f, "<@\"{name}\", [")?,
        }
        for (idx, SdyDim { axes, priority }) in self.dims.iter().enumerate() {
            write!(f, "{}{}", if idx == 0 { "" } else { ", " }, Quoted(SDY_QUOTE, axes))?;
            if let Some(priority) = priority {
                write!(f, "p{priority}")?;
            }
        }
        f.write_str("]")?;
        for (word, axes) in [("replicated", &self.replicated), ("unreduced", &self.unreduced)] {
            if !axes.is_empty() {
                write!(f, ", {word}={{{}}}", Quoted(SDY_QUOTE, axes.as_slice()))?;
            }
        }
        f.write_str(">")
    }
}

fn axes_text(mesh: &AbstractMesh) -> String {
    let axes: Vec<_> = mesh.axes().iter().map(|(name, size)| format!("\"{name}\"={size}")).collect();
    format!("[{}]", axes.join(", "))
}

/// Reads `"x"=2, "y"=4]`: a mesh behind its opening bracket.
pub(crate) fn scan_axes(scanner: &mut Scanner<'_>) -> Result<AbstractMesh, TextError> {
    let axes = scanner.list("]", |scanner| {
        let name = scanner.axis_name()?;
        scanner.expect("=", "'='")?;
        Ok((name, scanner.number()?))
    })?;
    Ok(AbstractMesh::new(axes)?)
}

/// Whether a symbol may stand without quotes.
fn is_bare_symbol(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(is_in_bare_symbol)
}

fn is_in_bare_symbol(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_$.".contains(c)
}

/// Reads the name of a symbol behind its `@`.
fn scan_symbol(scanner: &mut Scanner<'_>) -> Result<String, TextError> {
    let mut start = *scanner;
    let name = match scanner.quoted()? {
        Some(name) if name.contains(|c: char| c == '\\' || c.is_control()) => {
            return Err(start.unexpected("a name without escapes or control characters"));
        }
        Some(name) => name,
        None => Some(scanner.run(is_in_bare_symbol))
            .filter(|name| is_bare_symbol(name))
            .ok_or_else(|| start.unexpected("the name of a mesh"))?,
    };
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check_meshes(texts: &[&str], expect: Expect) {
        let show = |text: &&str| match Mesh::from_sdy_text(text) {
            Ok(mesh) => format!(
                "{}  {} {:?}\n",
                mesh.sdy_text(),
                mesh.shape(),
                mesh.device_ids().take(8).collect::<Vec<_>>()
            ),
            Err(error) => format!("error: {error}\n"),
        };
        expect.assert_eq(&texts.iter().map(show).collect::<String>());
    }

    /// Reads shardings and finds their specs on `data=2, fsdp=4`.
    fn check(texts: &[&str], expect: Expect) {
        let mesh = AbstractMesh::parse("data=2, fsdp=4").unwrap();
        let show = |text: &&str| match text.parse::<SdySharding>() {
            Ok(sharding) => {
                assert_eq!(sharding.to_string().parse(), Ok(sharding.clone()));
                match sharding.to_named(&mesh) {
                    Ok(named) => format!("{sharding}\n  {}\n", named.spec()),
                    Err(error) => format!("{sharding}\n  error: {error}\n"),
                }
            }
            Err(error) => format!("error: {error}\n"),
        };
        expect.assert_eq(&texts.iter().map(show).collect::<String>());
    }

    #[test]
    fn meshes_are_read_and_printed() {
        check_meshes(
            &[
                r#"<["data"=2, "fsdp"=4]>"#,
                r#"#sdy.mesh< [ "x" = 2,"y"=2 ] , device_ids = [0,2,1,3] >"#,
                r#"<["x"=2], device_ids=[0, 1]>"#,
                "<[]>",
                "<[], device_ids=[3]>",
            ],
            expect![[r#"
                <["data"=2, "fsdp"=4]>  data=2, fsdp=4 [0, 1, 2, 3, 4, 5, 6, 7]
                <["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>  x=2, y=2 [0, 2, 1, 3]
                <["x"=2]>  x=2 [0, 1]
                <[]>  [] [0]
                <[], device_ids=[3]>  [] [3]
            "#]],
        );
    }

    #[test]
    fn bad_meshes_say_where() {
        check_meshes(
            &[
                "",
                r#"<["x"=2"#,
                r#"<["x"=2, "x"=2]>"#,
                r#"<["x"=0]>"#,
                r#"<["x y"=2]>"#,
                r#"<["x=2]>"#,
                r#"<["x"=-2]>"#,
                r#"<["x"=2], device_ids=[0]>"#,
                r#"<["x"=2], device_ids=[1, 1]>"#,
                r#"<["x"=2]> y"#,
                r#"<["x"=2], ids=[0, 1]>"#,
                r#"<["x"=99999999999]>"#,
                r#"<["x"=99999999999999999999]>"#,
            ],
            expect![[r#"
                error: sdy mesh "": expected '<' at byte 0, found the end
                error: sdy mesh "<[\"x\"=2": expected ',' or ']' at byte 7, found the end
                error: axis x is listed twice
                error: axis x has size 0; a size is at least 1
                error: axis name "x y" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'
                error: sdy mesh "<[\"x=2]>": expected a closing quote at byte 3, found 'x'
                error: sdy mesh "<[\"x\"=-2]>": expected a number at byte 6, found '-'
                error: device ids given: 1, but mesh x=2 takes 2
                error: device id 1 is at mesh position 0 and again at 1
                error: sdy mesh "<[\"x\"=2]> y": expected the end at byte 10, found 'y'
                error: sdy mesh "<[\"x\"=2], ids=[0, 1]>": expected device_ids at byte 10, found 'i'
                <["x"=99999999999]>  x=99999999999 [0, 1, 2, 3, 4, 5, 6, 7]
                error: sdy mesh "<[\"x\"=99999999999999999999]>": expected a number that is not so large at byte 6, found '9'
            "#]],
        );
    }

    #[test]
    fn axes_are_checked_against_a_mesh() {
        let mesh = AbstractMesh::parse("data=2, model=4").unwrap();
        let check = |text: &str| {
            let sharding: SdySharding = text.parse().unwrap();
            sharding.check_axes(&mesh).map_or_else(|error| format!("{error}\n"), |()| "fine\n".to_owned())
        };
        expect![[r#"
            fine
            axis mdl is not in mesh data=2, model=4; did you mean model?
            axis data is used twice, in parts that overlap or do not fit side by side
            axis fsdp is not in mesh data=2, model=4
            "model":(2)4 is no sub-axis: (m)k needs m at least 1, k at least 2, and an axis size that m·k divides
        "#]].assert_eq(
            &[
                r#"<@mesh, [{"model", ?}, {?}], unreduced={"data"}>"#,
                r#"<@mesh, [{"mdl"}, {}]>"#,
                r#"<@mesh, [{"data"}, {"data"}]>"#,
                r#"<@mesh, [{}], replicated={"fsdp"}>"#,
                r#"<@mesh, [{"model":(2)4}]>"#,
            ]
            .map(check)
            .concat(),
        );
    }

    #[test]
    fn open_dims_are_closed() {
        for (text, closed) in [
            (r#"<@mesh, [{?}, {?}]>"#, None),
            (r#"<@mesh, []>"#, Some("<@mesh, []>")),
            (r#"<@mesh, [{}, {?}]>"#, Some("<@mesh, [{}, {}]>")),
            (r#"<@mesh, [{"data", ?}, {?}p1]>"#, Some(r#"<@mesh, [{"data"}, {}p1]>"#)),
        ] {
            let sharding: SdySharding = text.parse().unwrap();
            assert_eq!(sharding.closed().map(|s| s.to_string()).as_deref(), closed, "{text}");
        }
    }

    #[test]
    fn shardings_are_read_and_printed() {
        check(
            &[
                "<@mesh, []>",
                r#"#sdy.sharding<@mesh,[{},{"fsdp"}]>"#,
                r#"<@mesh, [{"data", "fsdp"}, {}]>"#,
                r#"<@mesh, [{"data"}p0, {}p1], replicated={"fsdp"}>"#,
                r#"<@"the mesh", [{}]>"#,
                r#"<@"mesh", [{}]>"#,
                r#"<@"", [{}]>"#,
                r#"<@"a-b", [{}]>"#,
                r#"<@"0", [{}]>"#,
                r#"<@" a", [{}]>"#,
                "<@_m.0$, [{}]>",
            ],
            expect![[r#"
                <@mesh, []>
                  ()
                <@mesh, [{}, {"fsdp"}]>
                  (-, fsdp)
                <@mesh, [{"data", "fsdp"}, {}]>
                  ((data,fsdp), -)
                <@mesh, [{"data"}p0, {}p1], replicated={"fsdp"}>
                  (data, -)
                <@"the mesh", [{}]>
                  (-)
                <@mesh, [{}]>
                  (-)
                <@"", [{}]>
                  (-)
                <@"a-b", [{}]>
                  (-)
                <@"0", [{}]>
                  (-)
                <@" a", [{}]>
                  (-)
                <@_m.0$, [{}]>
                  (-)
            "#]],
        );
    }

    #[test]
    fn what_no_named_sharding_holds_is_named() {
        check(
            &[
                r#"<@mesh, [{"data", ?}, {}]>"#,
                r#"<@mesh, [{?}p2]>"#,
                r#"<@mesh, [{"fsdp":(1)2}]>"#,
                r#"<@mesh, [{}], replicated={"fsdp":(2)2}, unreduced={"data"}>"#,
                r#"<@mesh, [{"model"}]>"#,
                r#"<@mesh, [{"data"}, {"data"}]>"#,
                r#"<@mesh, [{}], replicated={"model"}>"#,
                r#"<@mesh, [{"data"}], replicated={"data"}>"#,
            ],
            expect![[r#"
                <@mesh, [{"data", ?}, {}]>
                  error: not representable: dim 0 is open, so the compiler may split it further
                <@mesh, [{?}p2]>
                  error: not representable: dim 0 is open, so the compiler may split it further
                <@mesh, [{"fsdp":(1)2}]>
                  error: not representable: dim 0 is split over sub-axis "fsdp":(1)2, and a named sharding splits over whole axes
                <@mesh, [{}], replicated={"fsdp":(2)2}, unreduced={"data"}>
                  error: not representable: the sharding <@mesh, [{}], replicated={"fsdp":(2)2}, unreduced={"data"}> is partly unreduced
                <@mesh, [{"model"}]>
                  error: spec (model) splits dim 0 over axis model, which mesh data=2, fsdp=4 does not have
                <@mesh, [{"data"}, {"data"}]>
                  error: spec (data, data) uses axis data for dim 0 and again for dim 1; an axis can split once
                <@mesh, [{}], replicated={"model"}>
                  error: axis model is not in mesh data=2, fsdp=4
                <@mesh, [{"data"}], replicated={"data"}>
                  error: axis data is used twice, in parts that overlap or do not fit side by side
            "#]],
        );
    }

    #[test]
    fn bad_shardings_say_where() {
        check(
            &[
                "",
                "<mesh, []>",
                "<@, []>",
                "<@a-b, []>",
                "<@0, []>",
                r#"<@"a\"b", []>"#,
                "<@\"a\nb\", []>",
                r#"<@"a, []>"#,
                r#"<@mesh, [{'a"b'}]>"#,
                r#"<@mesh, [{"a b"}]>"#,
                r#"<@mesh, [{""}]>"#,
                "<@mesh, [{a}]>",
                "<@mesh>",
                r#"<@mesh, [{"a"]>"#,
                r#"<@mesh, [{"a" "b"}]>"#,
                r#"<@mesh, [{?, "a"}]>"#,
                r#"<@mesh, [{"a":(0)2}]>"#,
                r#"<@mesh, [{"a":(1)1}]>"#,
                r#"<@mesh, [{"a":2}]>"#,
                r#"<@mesh, [{}p]>"#,
                r#"<@mesh, [], replicated={"a"}, replicated={"b"}>"#,
                r#"<@mesh, [], manual={"a"}>"#,
                r#"<@mesh, []"#,
            ],
            expect![[r#"
                error: sdy sharding "": expected '<' at byte 0, found the end
                error: sdy sharding "<mesh, []>": expected '@' and the name of a mesh at byte 1, found 'm'
                error: sdy sharding "<@, []>": expected the name of a mesh at byte 2, found ','
                error: sdy sharding "<@a-b, []>": expected ',' at byte 3, found '-'
                error: sdy sharding "<@0, []>": expected the name of a mesh at byte 2, found '0'
                error: sdy sharding "<@\"a\\\"b\", []>": expected a name without escapes or control characters at byte 2, found '"'
                error: sdy sharding "<@\"a\nb\", []>": expected a name without escapes or control characters at byte 2, found '"'
                error: sdy sharding "<@\"a, []>": expected a closing quote at byte 3, found 'a'
                error: sdy sharding "<@mesh, [{'a\"b'}]>": expected the name of an axis at byte 10, found '\''
                error: axis name "a b" is not allowed: a name is made of at most 128 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'
                error: sdy sharding "<@mesh, [{\"\"}]>": expected the name of an axis at byte 12, found '}'
                error: sdy sharding "<@mesh, [{a}]>": expected the name of an axis at byte 10, found 'a'
                error: sdy sharding "<@mesh>": expected ',' at byte 6, found '>'
                error: sdy sharding "<@mesh, [{\"a\"]>": expected ',' or '}' at byte 13, found ']'
                error: sdy sharding "<@mesh, [{\"a\" \"b\"}]>": expected ',' or '}' at byte 14, found '"'
                error: sdy sharding "<@mesh, [{?, \"a\"}]>": expected nothing after '?' at byte 13, found '"'
                error: "a":(0)2 is no sub-axis: (m)k needs m at least 1, k at least 2, and an axis size that m·k divides
                error: "a":(1)1 is no sub-axis: (m)k needs m at least 1, k at least 2, and an axis size that m·k divides
                error: sdy sharding "<@mesh, [{\"a\":2}]>": expected '(' at byte 14, found '2'
                error: sdy sharding "<@mesh, [{}p]>": expected a number at byte 12, found ']'
                error: sdy sharding "<@mesh, [], replicated={\"a\"}, replicated={\"b\"}>": expected replicated= or unreduced=, each once at byte 40, found '='
                error: sdy sharding "<@mesh, [], manual={\"a\"}>": expected replicated= or unreduced=, each once at byte 12, found 'm'
                error: sdy sharding "<@mesh, []": expected '>' at byte 10, found the end
            "#]],
        );
    }
}
