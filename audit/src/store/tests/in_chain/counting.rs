//! A shelf that counts what is read of it: rows and octets, and blocks of its index.

use std::ops::RangeInclusive;

use crate::{
    search::{
        posting::Places,
        walk::{Block, Chain, Shelf},
    },
    store::StoreError,
};

pub(in crate::store::tests) struct Counting<S> {
    pub(in crate::store::tests) shelf: S,
    pub(in crate::store::tests) rows: usize,
    pub(in crate::store::tests) octets: usize,
    pub(in crate::store::tests) blocks: usize,
}

impl<S> Counting<S> {
    pub(in crate::store::tests) const fn new(shelf: S) -> Self {
        Self {
            shelf,
            rows: 0,
            octets: 0,
            blocks: 0,
        }
    }

    fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a String>) {
        for text in texts {
            self.rows += 1;
            self.octets += text.len();
        }
    }

    fn lines(&mut self, lines: Vec<(u64, String)>) -> Vec<(u64, String)> {
        self.texts(lines.iter().map(|(_, line)| line));
        lines
    }
}

impl<S: Shelf> Shelf for Counting<S> {
    fn place(&self) -> String {
        self.shelf.place()
    }

    fn chains(&mut self) -> Result<Vec<Chain>, StoreError> {
        self.shelf.chains()
    }

    fn blocks(&mut self, chain: u32, before: u64, most: u32) -> Result<Vec<Block>, StoreError> {
        self.shelf.blocks(chain, before, most)
    }

    fn meet(&mut self, blocks: &[i64], groups: &[Vec<i64>]) -> Result<Vec<Places>, StoreError> {
        self.blocks += blocks.len();
        self.shelf.meet(blocks, groups)
    }

    fn lines_at(&mut self, chain: u32, places: &[u64]) -> Result<Vec<(u64, String)>, StoreError> {
        let lines = self.shelf.lines_at(chain, places)?;
        Ok(self.lines(lines))
    }

    fn lines_before(
        &mut self,
        chain: u32,
        before: u64,
        from: u64,
        most: u32,
    ) -> Result<Vec<(u64, String)>, StoreError> {
        let lines = self.shelf.lines_before(chain, before, from, most)?;
        Ok(self.lines(lines))
    }

    fn strays(&mut self, most: u32) -> Result<(u64, Vec<i64>), StoreError> {
        self.shelf.strays(most)
    }

    fn count(&mut self, keys: (i64, i64)) -> Result<u64, StoreError> {
        self.shelf.count(keys)
    }

    fn checkpoints(&mut self, chain: u32) -> Result<Vec<String>, StoreError> {
        let lines = self.shelf.checkpoints(chain)?;
        self.texts(&lines);
        Ok(lines)
    }

    fn newest_checkpoints(
        &mut self,
        chain: u32,
        ends: RangeInclusive<u64>,
        most: u32,
    ) -> Result<Vec<String>, StoreError> {
        let lines = self.shelf.newest_checkpoints(chain, ends, most)?;
        self.texts(&lines);
        Ok(lines)
    }

    fn checkpoint(&mut self, chain: u32, number: u64) -> Result<Option<String>, StoreError> {
        let line = self.shelf.checkpoint(chain, number)?;
        self.texts(&line);
        Ok(line)
    }

    fn lines_after(
        &mut self,
        chain: u32,
        after: u64,
        most: u32,
    ) -> Result<Vec<(u64, String)>, StoreError> {
        let lines = self.shelf.lines_after(chain, after, most)?;
        Ok(self.lines(lines))
    }
}
