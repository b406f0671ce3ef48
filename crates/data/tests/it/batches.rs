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

#[test]
fn short_rows_are_filled_with_what_is_no_label() {
    let options = BlockOptions { block_size: 4, packing: Packing::PadToBlock { pad_id: 9 } };
    let blocks = Blocks::from_rows([Ok(vec![1, 2]), Ok(vec![3, 9, 9, 4, 5])], &options).unwrap();
    let batch = Batches::new(&blocks, BatchPlan::evaluation(3)).unwrap();
    let batch = batch.batch(Position::default()).unwrap();
    let x = IGNORED_LABEL;
    assert_eq!(batch.input_ids.as_slice::<i32>().unwrap(), [1, 2, 9, 9, 3, 9, 9, 4, 0, 0, 0, 0]);
    assert_eq!(batch.labels.as_slice::<i32>().unwrap(), [1, 2, x, x, 3, 9, 9, 4, x, x, x, x]);
}

#[test]
fn each_block_is_evaluated_once_whatever_the_batch_size() {
    for size in [1, 2, 4, 5, 16, 64] {
        let batches = Batches::new(&numbered(13), BatchPlan::evaluation(size)).unwrap();
        let all = made(batches.steps(0..batches.steps_per_epoch()));
        let labels = all.iter().flat_map(|batch| batch.labels.as_slice::<i32>().unwrap());
        let real: Vec<i32> = labels.copied().filter(|&label| label != IGNORED_LABEL).collect();
        assert!(real.into_iter().eq((0..13).flat_map(|block| [block; 4])), "batch size {size}");
        assert_eq!(all.iter().map(|batch| batch.global_rows).sum::<usize>(), 13);
    }
}

#[test]
fn an_epoch_ends_with_the_micro_batches_that_are_left() {
    let steps = |blocks, drop_last| {
        let plan = BatchPlan { accumulation: 4, drop_last, shuffle: false, ..BatchPlan::new(8) };
        let batches = Batches::new(&numbered(blocks), plan).unwrap();
        indices(batches.steps(0..batches.steps_per_epoch()))
    };
    let full = (0..8).collect::<Vec<usize>>();
    assert_eq!(steps(13, true), [full.clone(), vec![8, 9, 10, 11]], "two of four, and one block dropped");
    assert_eq!(steps(13, false), [full.clone(), vec![8, 9, 10, 11, 12]]);
    assert_eq!(steps(9, true), [full]);
    assert_eq!(steps(3, true), [[0, 1]], "less than an update is an update");
}

#[test]
fn processes_feed_their_rows_of_each_micro_batch() {
    let plan = BatchPlan { accumulation: 2, shuffle: false, ..BatchPlan::new(8) };
    let batches = Batches::new(&numbered(13), plan).unwrap();
    let parts = [0, 1].map(|process| made(batches.for_process(process, 2).unwrap().steps(0..2)));
    let rows = |batch: &Batch| batch.block_indices.clone();
    assert_eq!(parts[0].iter().map(rows).collect::<Vec<_>>(), [vec![0, 1, 4, 5], vec![8, 9, 12]]);
    assert_eq!(parts[1].iter().map(rows).collect::<Vec<_>>(), [vec![2, 3, 6, 7], vec![10, 11]]);
    for (step, whole) in made(batches.steps(0..2)).iter().enumerate() {
        let [first, second] = [&parts[0][step], &parts[1][step]];
        assert_eq!((first.global_rows, second.global_rows), (whole.global_rows, whole.global_rows));
        assert_eq!(first.input_ids.ty().to_string(), "s32[4,4]");
        for (part, of_whole) in [(&first.input_ids, &whole.input_ids), (&first.labels, &whole.labels)] {
            let (part, of_whole) = (part.as_slice::<i32>().unwrap(), of_whole.as_slice::<i32>().unwrap());
            assert_eq!((&part[..8], &part[8..]), (&of_whole[..8], &of_whole[16..24]));
        }
        let (part, of_whole) =
            (second.labels.as_slice::<i32>().unwrap(), whole.labels.as_slice::<i32>().unwrap());
        assert_eq!((&part[..8], &part[8..]), (&of_whole[8..16], &of_whole[24..]));
    }
}

#[test]
fn batches_that_do_not_divide_are_errors() {
    let batches = |global_batch_size, accumulation| {
        let plan = BatchPlan { accumulation, ..BatchPlan::new(global_batch_size) };
        Batches::new(&numbered(13), plan)
    };
    for accumulation in [0, 4] {
        assert_eq!(
            batches(6, accumulation).unwrap_err().to_string(),
            format!(
                "a global batch of 6 blocks does not divide into {accumulation} micro-batches: expected a multiple of \
                 the number of accumulation steps, which is at least 1"
            )
        );
    }
    let batches = batches(12, 2).unwrap();
    let message = |process, processes| batches.for_process(process, processes).unwrap_err().to_string();
    assert_eq!(
        message(0, 4),
        "a batch of 6 blocks does not divide over 4 processes: expected a multiple of 4"
    );
    assert_eq!(message(2, 2), "there is no process 2 of 2: they are counted from 0");
    assert_eq!(message(0, 0), "there is no process 0 of 0: they are counted from 0");
}

/// A run that changes its batch size goes on with the blocks that it has not seen, in the same order.
#[test]
fn another_batch_size_goes_on_where_the_last_one_stopped() {
    let batches = |size, drop_last| {
        Batches::new(&numbered(20), BatchPlan { drop_last, ..BatchPlan::new(size) }).unwrap()
    };
    for drop_last in [false, true] {
        let first = batches(4, drop_last);
        let order: Vec<usize> = indices(first.steps(0..10)).concat();
        for steps in 0..10 {
            let resumed = batches(3, drop_last).starting_at(first.position(steps));
            let seen = indices(first.steps(0..steps)).concat();
            let rest = indices(resumed.steps(0..10)).concat();
            let left = 20 - seen.len() % 20;
            let used = if drop_last { left - left % 3 } else { left };
            assert_eq!(rest[..used], order[seen.len()..][..used], "after {steps} steps");
        }
    }
    let batches = batches(3, true);
    assert_eq!(batches.position(6), Position { epoch: 1, blocks: 0 }, "two blocks were dropped");
    let behind = Position { epoch: 4, blocks: 19 };
    assert_eq!(batches.starting_at(behind).position(0), Position { epoch: 5, blocks: 0 });
    assert_eq!(batches.block_indices(behind), batches.block_indices(Position { epoch: 5, blocks: 0 }));
}
