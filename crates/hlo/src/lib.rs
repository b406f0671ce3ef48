//! The program: StableHLO ops, inference, verification and text.
