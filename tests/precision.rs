//! The dtypes of a run.

mod follow;
mod support;

use follow::Followed;
use shardwright_tensor::DType;
use shardwright_train::PrecisionConfig;

const BF16: PrecisionConfig =
    PrecisionConfig { weights: DType::Bf16, compute: DType::Bf16, reduce: DType::F32, masters: true };

#[test]
fn zz_measure() {
    for name in ["adamw_bf16", "adamw_bf16_lr2e-3", "adafactor_bf16", "adafactor_bf16_lr2e-3"] {
        for masters in [true, false] {
            for reduce in [DType::F32, DType::Bf16] {
                let mut followed = Followed::new(name);
                followed.step.precision = PrecisionConfig { masters, reduce, ..BF16 };
                let readings = followed.readings("fsdp=8");
                let mut f32 = Followed::new(&name.replace("bf16", "fp32"));
                println!(
                    "{name} masters={masters} reduce={reduce}: bf16 {:?} fp32 {:?}",
                    followed.distance(&readings),
                    f32.distance(&readings)
                );
                f32.step.remat = false;
            }
        }
    }
}
