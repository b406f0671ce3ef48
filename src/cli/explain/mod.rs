//! `shardwright explain`.

mod html;
