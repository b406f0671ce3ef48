use std::sync::Arc;

use expect_test::{Expect, expect};
use shardwright_hlo::{ArgumentInfo, OutputInfo, StatedSharding};
use shardwright_tensor::DType;

use super::*;
use crate::{LintOptions, lint};

/// A signature from lines: arguments as `name dtype[dims]`, with `donated` behind those that are to no output in
/// particular, then outputs as `name dtype[dims] <- donor`. A sharding may follow as `@ [{"x"}, {}]`, over the mesh
/// `x=2, y=4`.
fn signature(arguments: &[&str], outputs: &[&str]) -> Signature {
    let stated = |text: &str| {
        let (rest, sharding) = text.split_once(" @ ")?;
        let sharding = format!("<@mesh, {sharding}>").parse().unwrap();
        let mesh = AbstractMesh::parse("x=2, y=4").unwrap();
        Some((rest.to_owned(), StatedSharding::Sdy { mesh, sharding }))
    };
    let ty = |text: &str| {
        let (dtype, dims) = text.strip_suffix(']').unwrap().split_once('[').unwrap();
        let dtype = DType::ALL.into_iter().find(|d| d.name() == dtype).unwrap();
        let dims: Vec<usize> =
            dims.split(',').filter(|d| !d.is_empty()).map(|d| d.parse().unwrap()).collect();
        TensorType::new(dtype, dims).unwrap()
    };
    let argument = |text: &&str| {
        let (text, stated) = stated(text).map_or(((*text).to_owned(), None), |(text, s)| (text, Some(s)));
        let (text, donated) = text.strip_suffix(" donated").map_or((&*text, false), |text| (text, true));
        let (name, of) = text.rsplit_once(' ').unwrap();
        ArgumentInfo { name: name.into(), ty: ty(of), kind: ArgumentKind::Other, donated, stated }
    };
    let output = |text: &&str| {
        let (text, stated) = stated(text).map_or(((*text).to_owned(), None), |(text, s)| (text, Some(s)));
        let (text, donor) = match text.split_once(" <- ") {
            Some((text, donor)) => (text.to_owned(), Some(donor.parse().unwrap())),
            None => (text, None),
        };
        let (name, of) = text.rsplit_once(' ').unwrap();
        OutputInfo { name: name.into(), ty: ty(of), donor, stated }
    };
    Signature {
        name: "step".into(),
        arguments: arguments.iter().map(argument).collect(),
        outputs: outputs.iter().map(output).collect(),
    }
}

/// A train step with one moment, its loss, and a key for random numbers.
fn step() -> Signature {
    signature(
        &[
            "params['b'] f32[16]",
            "params['w'] f32[32,128]",
            "mu['b'] f32[16]",
            "mu['w'] f32[32,128]",
            "count f32[]",
            "x f32[16,32]",
            "y s32[16]",
            "key u32[2]",
        ],
        &[
            "b f32[16] <- 0",
            "w f32[32,128] <- 1",
            "mb f32[16] <- 2",
            "mw f32[32,128] <- 3",
            "t f32[] <- 4",
            "loss f32[]",
        ],
    )
}

fn needed() -> RuleOptions {
    let needed = vec![true, true, false, false, false, true, true, true];
    RuleOptions { needed: Some(needed), ..RuleOptions::default() }
}

/// The plan as a table, with what is worth knowing of it, or what is wrong.
#[track_caller]
fn check(signature: &Signature, mesh: &str, rules: &[&str], options: &RuleOptions, expect: Expect) {
    let mesh = AbstractMesh::parse(mesh).unwrap();
    let mut parsed = ShardRules::default();
    for rule in rules {
        match rule.strip_prefix("--donate ") {
            Some(pattern) => parsed.donate(pattern).unwrap(),
            None => parsed.push(rule).unwrap(),
        }
    }
    let text = match ShardingPlan::by_rules(signature, &mesh, &parsed, options) {
        Ok(plan) => {
            let is_shown = |l: &Lint| !matches!(l.code, LintCode::BelowTile | LintCode::InsideUnknown);
            let lints = lint(&plan, &LintOptions::default()).into_iter().filter(is_shown);
            let lints: String = lints.map(|lint| format!("\n{}: {lint}", lint.severity)).collect();
            format!("{}{lints}", plan.table())
        }
        Err(error) => format!("error: {error}"),
    };
    expect.assert_eq(&text);
}

#[test]
fn a_train_step_needs_no_rules() {
    check(
        &step(),
        "fsdp=8",
        &[],
        &needed(),
        expect![[r#"
                    name         type         kind        spec       bytes/device  decided by
            #0      params['b']  f32[16]      parameter?  (fsdp)                8  FSDP rule
            #1      params['w']  f32[32,128]  parameter?  (-, fsdp)          2048  FSDP rule
            #2      mu['b']      f32[16]      state?      (fsdp)                8  as params['b']
            #3      mu['w']      f32[32,128]  state?      (-, fsdp)          2048  as params['w']
            #4      count        f32[]        other       ()                    4  default
            #5      x            f32[16,32]   batch?      (fsdp, -)           256  dim 0 over the data axes
            #6      y            s32[16]      batch?      (fsdp)                8  dim 0 over the data axes
            #7      key          u32[2]       other       (-)                   8  default
            out:#0  b            f32[16]      in place    (fsdp)                8  as params['b']
            out:#1  w            f32[32,128]  in place    (-, fsdp)          2048  as params['w']
            out:#2  mb           f32[16]      in place    (fsdp)                8  as mu['b']
            out:#3  mw           f32[32,128]  in place    (-, fsdp)          2048  as mu['w']
            out:#4  t            f32[]        in place    ()                    4  as count
            out:#5  loss         f32[]        output      ()                    4  default
            mesh fsdp=8: arguments 35020 bytes, 4388 on each device
            ? is what it looks like; a rule such as NAME=batch says what it is"#]],
    );
}

#[test]
fn what_is_donated_to_no_output_in_particular_is_kept_between_steps_too() {
    check(
        &signature(
            &["w f32[32,128] donated", "v f32[32,128] donated", "x f32[16,32]"],
            &["a f32[32,128]", "b f32[32,128]", "loss f32[]"],
        ),
        "fsdp=8",
        &[],
        &RuleOptions { needed: Some(vec![true, false, true]), ..RuleOptions::default() },
        expect![[r#"
                    name  type         kind        spec       bytes/device  decided by
            #0      w     f32[32,128]  parameter?  (-, fsdp)          2048  FSDP rule
            #1      v     f32[32,128]  state?      (-, fsdp)          2048  as w
            #2      x     f32[16,32]   batch?      (fsdp, -)           256  dim 0 over the data axes
            out:#0  a     f32[32,128]  output      (-, -)            16384  default
            out:#1  b     f32[32,128]  output      (-, -)            16384  default
            out:#2  loss  f32[]        output      ()                    4  default
            mesh fsdp=8: arguments 34816 bytes, 4352 on each device
            ? is what it looks like; a rule such as NAME=batch says what it is"#]],
    );
}

#[test]
fn without_knowing_what_a_loss_needs_moments_are_parameters() {
    check(
        &step(),
        "data=2, fsdp=4, tensor=2",
        &[],
        &RuleOptions::default(),
        expect![[r#"
                    name         type         kind        spec              bytes/device  decided by
            #0      params['b']  f32[16]      parameter?  (fsdp)                      16  FSDP rule
            #1      params['w']  f32[32,128]  parameter?  (-, fsdp)                 4096  FSDP rule
            #2      mu['b']      f32[16]      parameter?  (fsdp)                      16  FSDP rule
            #3      mu['w']      f32[32,128]  parameter?  (-, fsdp)                 4096  FSDP rule
            #4      count        f32[]        other       ()                           4  default
            #5      x            f32[16,32]   batch?      ((data,fsdp), -)           256  dim 0 over the data axes
            #6      y            s32[16]      batch?      ((data,fsdp))                8  dim 0 over the data axes
            #7      key          u32[2]       other       (-)                          8  default
            out:#0  b            f32[16]      in place    (fsdp)                      16  as params['b']
            out:#1  w            f32[32,128]  in place    (-, fsdp)                 4096  as params['w']
            out:#2  mb           f32[16]      in place    (fsdp)                      16  as mu['b']
            out:#3  mw           f32[32,128]  in place    (-, fsdp)                 4096  as mu['w']
            out:#4  t            f32[]        in place    ()                           4  as count
            out:#5  loss         f32[]        output      ()                           4  default
            mesh data=2, fsdp=4, tensor=2: arguments 35020 bytes, 8500 on each device
            ? is what it looks like; a rule such as NAME=batch says what it is
            warning: no argument is split over axis tensor: 2 groups of devices compute the same; split a batch or parameters over tensor, or leave it out of the mesh [unused-axis]"#]],
    );
}

#[test]
fn the_last_rule_counts_and_states_follow() {
    check(
        &step(),
        "data=2, fsdp=4",
        &[
            "params.*=fsdp",
            "params['w']=(fsdp, -)",
            "f32[16]=replicated",
            "x=(data,fsdp)",
            "kind:batch=(data)",
            "#7=other",
        ],
        &needed(),
        expect![[r#"
                    name         type         kind        spec       bytes/device  decided by
            #0      params['b']  f32[16]      parameter?  (-)                  64  rule f32[16]=replicated
            #1      params['w']  f32[32,128]  parameter?  (fsdp, -)          4096  rule params['w']=(fsdp, -)
            #2      mu['b']      f32[16]      state?      (-)                  64  rule f32[16]=replicated
            #3      mu['w']      f32[32,128]  state?      (fsdp, -)          4096  as params['w']
            #4      count        f32[]        other       ()                    4  default
            #5      x            f32[16,32]   batch?      (data, -)          1024  rule kind:batch=(data)
            #6      y            s32[16]      batch?      (data)               32  rule kind:batch=(data)
            #7      key          u32[2]       other       (-)                   8  default
            out:#0  b            f32[16]      in place    (-)                  64  as params['b']
            out:#1  w            f32[32,128]  in place    (fsdp, -)          4096  as params['w']
            out:#2  mb           f32[16]      in place    (-)                  64  as mu['b']
            out:#3  mw           f32[32,128]  in place    (fsdp, -)          4096  as mu['w']
            out:#4  t            f32[]        in place    ()                    4  as count
            out:#5  loss         f32[]        output      ()                    4  default
            mesh data=2, fsdp=4: arguments 35020 bytes, 9388 on each device
            ? is what it looks like; a rule such as NAME=batch says what it is
            warning: rule params.*=fsdp decides nothing: later rules match all that it matches; drop it, or write it after them [rule-overruled]
            warning: rule x=(data,fsdp) decides nothing: later rules match all that it matches; drop it, or write it after them [rule-overruled]"#]],
    );
}

#[test]
fn rules_that_do_nothing_are_told() {
    check(
        &step(),
        "fsdp=8",
        &["parms.*=fsdp", "out:los=replicated", "--donate nothing"],
        &needed(),
        expect![[r#"
            error: 3 problems
              rule --donate nothing matches none of the 8 arguments; nearest to it are count, params['b'], params['w']
              rule parms.*=fsdp matches none of the 8 arguments; nearest to it are params['b'], params['w'], mu['b']
              rule out:los=replicated matches none of the 6 outputs; nearest to it are t, loss, b"#]],
    );
    check(
        &step(),
        "fsdp=8",
        &["params.w=(fsdp, -)", "params.*=fsdp"],
        &needed(),
        expect![[r#"
                    name         type         kind        spec       bytes/device  decided by
            #0      params['b']  f32[16]      parameter?  (fsdp)                8  rule params.*=fsdp
            #1      params['w']  f32[32,128]  parameter?  (-, fsdp)          2048  rule params.*=fsdp
            #2      mu['b']      f32[16]      state?      (fsdp)                8  as params['b']
            #3      mu['w']      f32[32,128]  state?      (-, fsdp)          2048  as params['w']
            #4      count        f32[]        other       ()                    4  default
            #5      x            f32[16,32]   batch?      (fsdp, -)           256  dim 0 over the data axes
            #6      y            s32[16]      batch?      (fsdp)                8  dim 0 over the data axes
            #7      key          u32[2]       other       (-)                   8  default
            out:#0  b            f32[16]      in place    (fsdp)                8  as params['b']
            out:#1  w            f32[32,128]  in place    (-, fsdp)          2048  as params['w']
            out:#2  mb           f32[16]      in place    (fsdp)                8  as mu['b']
            out:#3  mw           f32[32,128]  in place    (-, fsdp)          2048  as mu['w']
            out:#4  t            f32[]        in place    ()                    4  as count
            out:#5  loss         f32[]        output      ()                    4  default
            mesh fsdp=8: arguments 35020 bytes, 4388 on each device
            ? is what it looks like; a rule such as NAME=batch says what it is
            warning: rule params.w=(fsdp, -) decides nothing: later rules match all that it matches; drop it, or write it after them [rule-overruled]"#]],
    );
}

#[test]
fn inference_is_not_guessed_at() {
    let decode = signature(&["wq f32[64,64]", "wk f32[64,64]", "x f32[8,64]"], &["top f32[8,4]"]);
    check(
        &decode,
        "fsdp=8",
        &[],
        &RuleOptions::default(),
        expect![[r#"
                name  type        kind    spec    bytes/device  decided by
        #0      wq    f32[64,64]  other   (-, -)         16384  default
        #1      wk    f32[64,64]  other   (-, -)         16384  default
        #2      x     f32[8,64]   other   (-, -)          2048  default
        out:#0  top   f32[8,4]    output  (-, -)           128  default
        mesh fsdp=8: arguments 34816 bytes, 34816 on each device
        warning: no argument is split over axis fsdp: 8 groups of devices compute the same; split a batch or parameters over fsdp, or leave it out of the mesh [unused-axis]"#]],
    );
    check(
        &decode,
        "fsdp=8",
        &["w*=fsdp", "x=batch", "out:top=(fsdp)"],
        &RuleOptions::default(),
        expect![[r#"
                    name  type        kind        spec       bytes/device  decided by
            #0      wq    f32[64,64]  parameter?  (fsdp, -)          2048  rule w*=fsdp
            #1      wk    f32[64,64]  parameter?  (fsdp, -)          2048  rule w*=fsdp
            #2      x     f32[8,64]   batch       (fsdp, -)           256  dim 0 over the data axes
            out:#0  top   f32[8,4]    output      (fsdp, -)            16  rule out:top=(fsdp)
            mesh fsdp=8: arguments 34816 bytes, 4352 on each device
            ? is what it looks like; a rule such as NAME=batch says what it is"#]],
    );
}

#[test]
fn a_batch_that_is_unclear_is_none() {
    let unclear = signature(
        &["w f32[64,64]", "x f32[16,64]", "mask f32[64,64]", "y s32[16]"],
        &["w f32[64,64] <- 0", "loss f32[]"],
    );
    check(
        &unclear,
        "fsdp=8",
        &[],
        &RuleOptions::default(),
        expect![[r#"
                    name  type        kind        spec       bytes/device  decided by
            #0      w     f32[64,64]  parameter?  (fsdp, -)          2048  FSDP rule
            #1      x     f32[16,64]  other       (-, -)             4096  default
            #2      mask  f32[64,64]  other       (-, -)            16384  default
            #3      y     s32[16]     other       (-)                  64  default
            out:#0  w     f32[64,64]  in place    (fsdp, -)          2048  as w
            out:#1  loss  f32[]       output      ()                    4  default
            mesh fsdp=8: arguments 36928 bytes, 22592 on each device
            ? is what it looks like; a rule such as NAME=batch says what it is
            warning: which arguments are the batch is unclear, and none is split: dim 0 of x f32[16,64], mask f32[64,64], y s32[16] is not one size that 8 divides; say which is, as in --shard 'x=batch' [no-batch]"#]],
    );
    check(
        &unclear,
        "fsdp=8",
        &["y=batch"],
        &RuleOptions::default(),
        expect![[r#"
                    name  type        kind        spec       bytes/device  decided by
            #0      w     f32[64,64]  parameter?  (fsdp, -)          2048  FSDP rule
            #1      x     f32[16,64]  batch?      (fsdp, -)           512  dim 0 over the data axes
            #2      mask  f32[64,64]  other       (-, -)            16384  default
            #3      y     s32[16]     batch       (fsdp)                8  dim 0 over the data axes
            out:#0  w     f32[64,64]  in place    (fsdp, -)          2048  as w
            out:#1  loss  f32[]       output      ()                    4  default
            mesh fsdp=8: arguments 36928 bytes, 18952 on each device
            ? is what it looks like; a rule such as NAME=batch says what it is"#]],
    );
    check(
        &unclear,
        "fsdp=12",
        &["y=batch"],
        &RuleOptions::default(),
        expect!["error: y: a batch of 16 does not divide over 12 data shards (mesh fsdp=12)"],
    );
}

#[test]
fn arguments_are_donated_in_order() {
    let step = signature(&["a f32[8]", "b f32[8]", "x s32[8]"], &["loss f32[]", "one f32[8]", "two f32[8]"]);
    check(
        &step,
        "fsdp=8",
        &["--donate *"],
        &RuleOptions::default(),
        expect![
            "error: argument x: it shall be donated, and no output of type s32[8] is left to take its memory over"
        ],
    );
    check(
        &step,
        "fsdp=8",
        &["--donate #0..2"],
        &RuleOptions::default(),
        expect![[r#"
                    name  type    kind        spec    bytes/device  decided by
            #0      a     f32[8]  parameter?  (fsdp)             4  FSDP rule
            #1      b     f32[8]  parameter?  (fsdp)             4  FSDP rule
            #2      x     s32[8]  batch?      (fsdp)             4  dim 0 over the data axes
            out:#0  loss  f32[]   output      ()                 4  default
            out:#1  one   f32[8]  in place    (fsdp)             4  as a
            out:#2  two   f32[8]  in place    (fsdp)             4  as b
            mesh fsdp=8: arguments 96 bytes, 12 on each device
            ? is what it looks like; a rule such as NAME=batch says what it is"#]],
    );
}

#[test]
fn what_the_program_states_is_honoured() {
    let stated = signature(
        &[
            r#"w f32[8,8] @ [{"y"}, {}]"#,
            "m f32[8,8]",
            r#"x f32[8,8] @ [{"x", ?}, {?}]"#,
            "z f32[8,8] @ [{?}, {?}]",
        ],
        &["w f32[8,8] <- 0", r#"m f32[8,8] <- 1 @ [{}, {"y"}]"#, r#"out f32[8,8] @ [{"x"}, {}]"#],
    );
    check(
        &stated,
        "x=2, y=4",
        &[],
        &RuleOptions::default(),
        expect![[r#"
                name  type      kind        spec        bytes/device  decided by
        #0      w     f32[8,8]  parameter?  (y, -)                64  stated by the program
        #1      m     f32[8,8]  parameter?  (-, y)                64  stated by the program
        #2      x     f32[8,8]  batch?      (x, -)               128  stated by the program
        #3      z     f32[8,8]  batch?      ((x,y), -)            32  dim 0 over the data axes
        out:#0  w     f32[8,8]  in place    (y, -)                64  as w
        out:#1  m     f32[8,8]  in place    (-, y)                64  stated by the program
        out:#2  out   f32[8,8]  output      (x, -)               128  stated by the program
        mesh x=2, y=4: arguments 1024 bytes, 288 on each device
        ? is what it looks like; a rule such as NAME=batch says what it is"#]],
    );
    check(
        &stated,
        "x=2, y=4",
        &["w=replicated", "m=(x)", "x=(x)", "out:out=replicated", "out:w=(y, x)"],
        &RuleOptions::default(),
        expect![[r#"
            error: 3 problems
              argument w: rule w=replicated says (-, -), and the program itself says (y, -); drop the rule, or export the program without that sharding
              argument m: rule m=(x) says (x, -), and the program itself says (-, y); drop the rule, or export the program without that sharding
              output out: rule out:out=replicated says (-, -), and the program itself says (x, -); drop the rule, or export the program without that sharding"#]],
    );
    let odd = signature(&[r#"w f32[8,8] @ [{"y":(1)2}, {}]"#, r#"x f32[8] @ [{"y"}, {}]"#], &[]);
    check(
        &odd,
        "x=2, y=4",
        &[],
        &RuleOptions::default(),
        expect![[r#"
        error: 2 problems
          argument w: the program says that it is sharded <@mesh, [{"y":(1)2}, {}]>, which is of no use here: not representable: dim 0 is split over sub-axis "y":(1)2, and a named sharding splits over whole axes
          argument x: the program says that it is sharded <@mesh, [{"y"}, {}]>, which is of no use here: spec (y, -) is for rank 2, but shape [8] has rank 1; a spec has one entry per dim, - where it is not split"#]],
    );
}

#[test]
fn shardings_that_do_not_fit_name_everything() {
    let step = signature(&["w f32[256,20,1000]", "bias f32[64]", "s f32[]"], &["y f32[5]"]);
    check(
        &step,
        "data=2, fsdp=4",
        &["w=(-, fsdp)", "bias=(-, fsdp)", "out:y=(mdl, fsdp)", "s=((fsdp,fsdp))", "s=(data)", "s=state"],
        &RuleOptions::default(),
        expect![[r#"
            error: 6 problems
              rule out:y=(mdl, fsdp): spec ((mdl,fsdp)) splits dim 0 over axis mdl, which mesh data=2, fsdp=4 does not have
              rule s=((fsdp,fsdp)): spec ((fsdp,fsdp)) uses axis fsdp for dim 0 and again for dim 0; an axis can split once
              argument s: rule s=state says that it is a state, and no parameter has its shape f32[]; say which are parameters, or where it lies
              argument w: rule w=(-, fsdp): spec (-, fsdp) is for rank 2, but shape [256, 20, 1000] has rank 3; a spec has one entry per dim, - where it is not split
              argument bias: rule bias=(-, fsdp): spec (-, fsdp) is for rank 2, but shape [64] has rank 1; a spec has one entry per dim, - where it is not split
              argument s: rule s=(data): spec (data) is for rank 1, but shape [] has rank 0; a spec has one entry per dim, - where it is not split"#]],
    );
    let four = RuleOptions { axis: Some("model".into()), ..RuleOptions::default() };
    check(
        &step,
        "data=2, fsdp=4",
        &["w=(-, -, -, fsdp)"],
        &four,
        expect![[r#"
        error: 2 problems
          the mesh (data=2, fsdp=4) has no axis model to split parameters over
          argument w: rule w=(-, -, -, fsdp): spec (-, -, -, fsdp) is for rank 4, but shape [256, 20, 1000] has rank 3; a spec has one entry per dim, - where it is not split"#]],
    );
}

#[test]
fn uneven_dims_cost_padding() {
    let step = signature(&["w f32[5]"], &["y f32[5]"]);
    check(
        &step,
        "fsdp=4",
        &["w=fsdp", "out:y=fsdp"],
        &RuleOptions::default(),
        expect![[r#"
                name  type    kind        spec    bytes/device  decided by
        #0      w     f32[5]  parameter?  (fsdp)             8  rule w=fsdp
        out:#0  y     f32[5]  output      (fsdp)             8  rule out:y=fsdp
        mesh fsdp=4: arguments 20 bytes, 8 on each device
        ? is what it looks like; a rule such as NAME=batch says what it is
        warning: w: f32[5] (fsdp): dim 0 of 5 does not divide into 4 shards; padding costs 12 B (60.0 %); sizes of 4 and 8 would do, or another dim [padding]"#]],
    );
}

#[test]
fn meshes_are_asked_for_or_stated() {
    let stated = signature(&[r#"w f32[8,8] @ [{"y"}, {}]"#], &[]);
    let plain = signature(&["w f32[8,8]"], &[]);
    let choose = |signature: &Signature, own: Option<&str>, asked: Option<&str>| {
        let mesh = |text: &str| AbstractMesh::parse(text).unwrap();
        let own = own.map(mesh);
        match choose_mesh(signature, &own, asked.map(mesh)) {
            Ok(mesh) => format!("{mesh}\n"),
            Err(error) => format!("error: {error}\n"),
        }
    };
    let told = [
        choose(&stated, None, None),
        choose(&stated, None, Some("x=2,y=4")),
        choose(&stated, None, Some("fsdp=8")),
        choose(&stated, Some("x=8"), None),
        choose(&plain, Some("x=8"), None),
        choose(&plain, None, Some("fsdp=8")),
        choose(&plain, None, None),
    ];
    expect![[r#"
        x=2, y=4
        x=2, y=4
        error: the mesh fsdp=8 was asked for, and the program states shardings over its own mesh x=2, y=4; leave the mesh out to use that, or export the program without shardings
        error: the program states shardings over two meshes, x=2, y=4 and x=8, and can be run on one
        x=8
        fsdp=8
        error: there is no mesh: the program states none, so give one, such as --mesh fsdp=8
    "#]].assert_eq(&told.concat());
}

#[test]
fn states_of_what_is_no_parameter_are_whole() {
    let mut step = signature(&["a f32[8]", "b f32[8]"], &[]);
    step.arguments[0].kind = ArgumentKind::State { parameter: 1, without: None };
    step.arguments[1].kind = ArgumentKind::State { parameter: 7, without: None };
    check(
        &step,
        "fsdp=8",
        &[],
        &RuleOptions::default(),
        expect![[r#"
            name  type    kind   spec  bytes/device  decided by
        #0  a     f32[8]  state  (-)             32  default
        #1  b     f32[8]  state  (-)             32  default
        mesh fsdp=8: arguments 64 bytes, 64 on each device
        warning: no argument is split over axis fsdp: 8 groups of devices compute the same; split a batch or parameters over fsdp, or leave it out of the mesh [unused-axis]"#]],
    );
}

#[test]
fn a_program_whose_inside_is_not_known_is_told_of() {
    let mesh = AbstractMesh::parse("fsdp=8").unwrap();
    let codes = |uses: Option<Vec<ArgumentUse>>| {
        let options = RuleOptions { uses, ..needed() };
        let plan = ShardingPlan::by_rules(&step(), &mesh, &ShardRules::default(), &options).unwrap();
        lint(&plan, &LintOptions::default()).into_iter().map(|lint| lint.code).collect::<Vec<_>>()
    };
    assert!(codes(None).contains(&LintCode::InsideUnknown));
    assert!(!codes(Some(Vec::new())).contains(&LintCode::InsideUnknown));
}

#[test]
fn dims_of_which_one_index_is_taken_are_not_split() {
    let uses = vec![ArgumentUse { sliced: Some(0), is_overwritten: false }; 3];
    let options = RuleOptions { uses: Some(uses), ..RuleOptions::default() };
    let scan = signature(
        &["w f32[16,16]", "scale f32[16]", "x f32[16,8]"],
        &["w f32[16,16] <- 0", "scale f32[16] <- 1", "loss f32[]"],
    );
    check(
        &scan,
        "fsdp=8",
        &["w=fsdp", "x=replicated"],
        &options,
        expect![[r#"
                    name   type        kind        spec       bytes/device  decided by
            #0      w      f32[16,16]  parameter?  (-, fsdp)           128  rule w=fsdp
            #1      scale  f32[16]     parameter?  (-)                  64  FSDP rule; dim 0 is sliced
            #2      x      f32[16,8]   other       (-, -)              512  rule x=replicated
            out:#0  w      f32[16,16]  in place    (-, fsdp)           128  as w
            out:#1  scale  f32[16]     in place    (-)                  64  as scale
            out:#2  loss   f32[]       output      ()                    4  default
            mesh fsdp=8: arguments 1600 bytes, 704 on each device
            ? is what it looks like; a rule such as NAME=batch says what it is"#]],
    );
    check(
        &scan,
        "fsdp=8",
        &["scale=replicated", "x=other"],
        &options,
        expect![[r#"
                name   type        kind        spec       bytes/device  decided by
        #0      w      f32[16,16]  parameter?  (-, fsdp)           128  FSDP rule; dim 0 is sliced
        #1      scale  f32[16]     parameter?  (-)                  64  rule scale=replicated
        #2      x      f32[16,8]   other       (-, -)              512  default
        out:#0  w      f32[16,16]  in place    (-, fsdp)           128  as w
        out:#1  scale  f32[16]     in place    (-)                  64  as scale
        out:#2  loss   f32[]       output      ()                    4  default
        mesh fsdp=8: arguments 1600 bytes, 704 on each device
        ? is what it looks like; a rule such as NAME=batch says what it is"#]],
    );
}

#[test]
fn what_an_output_in_place_states_is_told_once() {
    check(
        &signature(&["w f32[8,8]"], &[r#"w f32[8,8] <- 0 @ [{"y"}]"#]),
        "x=2, y=4",
        &[],
        &RuleOptions::default(),
        expect![[
            r#"error: output w: the program says that it is sharded <@mesh, [{"y"}]>, which is of no use here: spec (y) is for rank 1, but shape [8, 8] has rank 2; a spec has one entry per dim, - where it is not split"#
        ]],
    );
}

#[test]
fn a_sharding_that_many_outputs_share_is_looked_at_once() {
    const OUTPUTS: usize = 10_000;
    let devices: Vec<String> = (0..100_000).map(|device| (device ^ 1).to_string()).collect();
    let shared = format!("{{devices=[100000]{}}}", devices.join(","));
    let stated = StatedSharding::Hlo(Arc::new(shared.parse().unwrap()));
    let ty = TensorType::new(DType::F32, [8]).unwrap();
    let output = |index| OutputInfo {
        name: format!("out{index}"),
        ty: ty.clone(),
        donor: None,
        stated: Some(stated.clone()),
    };
    let step = Signature { outputs: (0..OUTPUTS).map(output).collect(), ..signature(&[], &[]) };
    let mesh = AbstractMesh::parse("fsdp=100000").unwrap();
    let error = ShardingPlan::by_rules(&step, &mesh, &ShardRules::default(), &RuleOptions::default());
    let problems = error.unwrap_err().problems;
    assert_eq!(problems.len(), OUTPUTS);
    expect!["output out0: the program says that it is sharded {devices=[100000]1,0,3,2,5,4,7,6,9,8,11,10,13,12,15,14,17,16,19,18,21,20,23,22,25,24,27,26,29,28,31,30,33,32,35,34,37,36…, which is of no use here: no axes of mesh fsdp=100000 cut dim 0 into the 100000 tiles of {devices=[100000]1,0,3,2,5,4,7,6,9,8,11,10,13,12,15,14,17,16,19,18,21,20,23,22,25,24,27,26,29,28,31,30,33,32,35,34,37,36,39,38,41,40,43,42,45,44,47,46,49,48,51,…"].assert_eq(&problems[0].to_string());
}

#[test]
fn donated_arguments_and_outputs_may_be_many() {
    const COUNT: usize = 100_000;
    let ty = TensorType::new(DType::F32, [8]).unwrap();
    let mut many = signature(&[], &[]);
    for index in 0..COUNT {
        let (name, ty, stated) = (format!("a{index}"), ty.clone(), None);
        many.arguments.push(ArgumentInfo {
            name: name.clone(),
            ty: ty.clone(),
            kind: ArgumentKind::Other,
            donated: false,
            stated: None,
        });
        many.outputs.push(OutputInfo { name, ty, donor: None, stated });
    }
    let mut rules = ShardRules::default();
    rules.donate("*").unwrap();
    let mesh = AbstractMesh::parse("fsdp=8").unwrap();
    let plan = ShardingPlan::by_rules(&many, &mesh, &rules, &RuleOptions::default()).unwrap();
    assert!(plan.outputs().iter().enumerate().all(|(index, output)| output.donor == Some(index)));
}
