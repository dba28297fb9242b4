//! Object algebra: three-way and strategic merge, ownership, tracker records.
