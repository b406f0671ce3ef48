use shardwright_data::{
    Batch, BatchPlan, Batches, BlockOptions, Blocks, DataError, IGNORED_LABEL, Packing, Position, Steps,
};

use crate::fixture::{Fixture, text};

/// Blocks of four ids, all of which are the number of the block.
fn numbered(n: i32) -> Blocks {
    let options = BlockOptions { block_size: 4, packing: Packing::Carry };
    Blocks::from_rows((0..n).map(|block| Ok(vec![block; 4])), &options).unwrap()
}

fn made(steps: Steps) -> Vec<Batch> {
    steps.collect::<Result<_, DataError>>().unwrap()
}

fn indices(steps: Steps) -> Vec<Vec<usize>> {
    made(steps).into_iter().map(|batch| batch.block_indices).collect()
}

#[test]
fn a_dropped_last_batch_leaves_full_ones() {
    let plan = BatchPlan { drop_last: true, shuffle: false, ..BatchPlan::new(4) };
    let batches = Batches::new(&numbered(10), plan).unwrap();
    assert_eq!((batches.steps_per_epoch(), batches.dropped_blocks()), (2, 2));
    assert_eq!(indices(batches.steps(0..3)), [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3]]);
}

#[test]
fn a_kept_last_batch_is_filled_with_rows_that_do_not_count() {
    let plan = BatchPlan { shuffle: false, ..BatchPlan::new(4) };
    let batches = Batches::new(&numbered(10), plan).unwrap();
    assert_eq!((batches.steps_per_epoch(), batches.dropped_blocks()), (3, 0));
    let last = batches.batch(batches.position(2)).unwrap();
    assert_eq!(last.block_indices, [8, 9]);
    let rows = |filler: i32| [[8; 4], [9; 4], [filler; 4], [filler; 4]].concat();
    assert_eq!(last.input_ids.as_slice::<i32>().unwrap(), rows(0));
    assert_eq!(last.labels.as_slice::<i32>().unwrap(), rows(IGNORED_LABEL));
    assert!(made(batches.steps(0..9)).iter().all(|batch| batch.input_ids.ty().to_string() == "s32[4,4]"));
}

#[test]
fn labels_are_the_ids_of_the_blocks() {
    let blocks = Fixture::new().blocks(&[&text(1000)], 128).unwrap();
    let batches = Batches::new(&blocks, BatchPlan::new(3)).unwrap();
    let full = made(batches.steps(0..batches.steps_per_epoch()));
    for batch in full.iter().filter(|batch| batch.block_indices.len() == 3) {
        assert_eq!(batch.input_ids, batch.labels);
        let rows = batch.input_ids.as_slice::<i32>().unwrap().chunks(128);
        assert!(rows.eq(batch.block_indices.iter().map(|&index| blocks.block(index).unwrap())));
    }
}

#[test]
fn a_run_that_resumes_reads_on_where_it_stopped() {
    let batches = || Batches::new(&numbered(40), BatchPlan::new(4)).unwrap();
    let whole = indices(batches().steps(0..30));
    for start in [5, 15, 20, 25] {
        assert_eq!(indices(batches().steps(start..30)), whole[start as usize..], "from step {start}");
    }
    for epoch in whole.chunks(10) {
        let mut seen = epoch.concat();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..40), "an epoch has each block once");
    }
    assert_ne!(whole[..10], whole[10..20]);
    assert_ne!(whole[10..20], whole[20..]);
}

#[test]
fn the_order_depends_on_seed_and_epoch_alone() {
    let order = |seed, batch| {
        let batches = Batches::new(&numbered(24), BatchPlan { seed, ..BatchPlan::new(batch) }).unwrap();
        let fourth = batches.starting_at(Position { epoch: 3, blocks: 0 });
        indices(fourth.steps(0..batches.steps_per_epoch())).concat()
    };
    assert_eq!(order(1, 4), order(1, 4));
    assert_eq!(order(1, 4), order(1, 6), "the batch size only cuts the order");
    assert_ne!(order(1, 4), order(2, 4));
}

#[test]
fn batches_are_prefetched_in_order() {
    let batches = Batches::new(&numbered(10), BatchPlan::new(4)).unwrap();
    let prefetched = batches.prefetch(2..8).unwrap().map(Result::unwrap);
    assert!(prefetched.eq(made(batches.steps(2..8))));
}

#[test]
fn plans_without_a_step_are_errors() {
    let message = |global_batch_size, drop_last| {
        let plan = BatchPlan { drop_last, ..BatchPlan::new(global_batch_size) };
        Batches::new(&numbered(3), plan).unwrap_err().to_string()
    };
    assert_eq!(message(0, false), "global batch size 0: it must be at least 1");
    assert_eq!(
        message(4, true),
        "3 blocks are fewer than one global batch of 4, and the last ragged batch is dropped: add text, lower the \
         global batch to 3 or less, or keep the last batch (drop_last false)"
    );
    let too_large = "a global batch of 18446744073709551615 blocks of 4 tokens is more than can be addressed";
    assert_eq!(message(usize::MAX, false), too_large);
    assert_eq!(Batches::new(&numbered(3), BatchPlan::new(4)).unwrap().steps_per_epoch(), 1);
}
