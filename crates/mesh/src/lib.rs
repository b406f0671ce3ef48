//! Named device grids, partition specs and shardings.
