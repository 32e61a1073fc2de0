//! Samples being moved from frames into other frames: rows of one or several columns, with their
//! numbering.

use catchment_frame::Span;

/// Rows that are not yet in a frame.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    first: u64,
    /// The number after the last one.
    end: u64,
    rows: u64,
    spans: Vec<Span>,
    columns: Vec<Vec<u8>>,
    row_bytes: Vec<usize>,
}

impl Waiting {
    /// None yet, for columns with rows of that many bytes.
    pub(crate) fn new(row_bytes: impl Into<Vec<usize>>) -> Self {
        let row_bytes = row_bytes.into();
        let columns = row_bytes.iter().map(|_| Vec::new()).collect();
        Self { first: 0, end: 0, rows: 0, spans: Vec::new(), columns, row_bytes }
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    pub(crate) fn columns(&self) -> &[Vec<u8>] {
        &self.columns
    }

    /// The columns, to append as many rows as were numbered.
    pub(crate) fn columns_mut(&mut self) -> &mut [Vec<u8>] {
        &mut self.columns
    }

    /// Adds that many rows, numbered from `number`, which is after the existing ones.
    pub(crate) fn number(&mut self, number: u64, rows: u64) {
        if rows == 0 {
            return;
        }
        if self.rows == 0 {
            self.first = number;
        } else if number != self.end {
            self.spans.push(Span { row: self.rows, sample: number });
        }
        self.end = number + rows;
        self.rows += rows;
    }

    /// Takes rows of a single column.
    pub(crate) fn take(&mut self, number: u64, bytes: &[u8]) {
        self.number(number, (bytes.len() / self.row_bytes[0]) as u64);
        self.columns[0].extend_from_slice(bytes);
    }

    /// Takes back rows that were split off.
    pub(crate) fn join(&mut self, later: Self) {
        let mut starts = vec![Span { row: 0, sample: later.first }];
        starts.extend_from_slice(&later.spans);
        let ends = later.spans.iter().map(|span| span.row).chain([later.rows]);
        for (start, end) in starts.iter().zip(ends) {
            self.number(start.sample, end - start.row);
        }
        for (mine, theirs) in self.columns.iter_mut().zip(&later.columns) {
            mine.extend_from_slice(theirs);
        }
    }

    /// Splits off the rows from `end` on.
    pub(crate) fn split_off(&mut self, end: u64) -> Self {
        let mut later = Self::new(self.row_bytes.clone());
        if self.rows == 0 || self.end <= end {
            return later;
        }
        // The pieces without a gap: their start, and the row.
        let mut starts = vec![Span { row: 0, sample: self.first }];
        starts.append(&mut self.spans);
        let index = starts.partition_point(|span| span.sample < end);
        let mut at = starts.get(index).map_or(self.rows, |span| span.row);
        let mut mine_end = end;
        if let Some(last) = index.checked_sub(1).map(|last| starts[last]) {
            at = at.min(last.row + (end - last.sample));
            mine_end = last.sample + (at - last.row);
        }
        (later.end, later.rows) = (self.end, self.rows - at);
        let mut spans = starts.split_off(index);
        let inside = spans.first().is_none_or(|span| span.row > at);
        later.first = if inside { end } else { spans.remove(0).sample };
        later.spans = spans.iter().map(|s| Span { row: s.row - at, sample: s.sample }).collect();
        starts.drain(..starts.len().min(1));
        self.spans = starts;
        let columns = self.columns.iter_mut().zip(&mut later.columns).zip(&self.row_bytes);
        for ((mine, theirs), row_bytes) in columns {
            *theirs = mine.split_off(at as usize * row_bytes);
        }
        (self.rows, self.end) = (at, mine_end);
        later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(waiting: &Waiting) -> Vec<u64> {
        let mut starts = vec![Span { row: 0, sample: waiting.first() }];
        starts.extend_from_slice(waiting.spans());
        let of = |row: u64| {
            let span = starts.iter().rev().find(|span| span.row <= row).expect("a span");
            span.sample + (row - span.row)
        };
        let numbers: Vec<u64> = (0..waiting.rows()).map(of).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(waiting.columns()[0], bytes);
        let bytes: Vec<u8> = numbers.iter().map(|&number| number as u8).collect();
        assert_eq!(waiting.columns()[1], bytes);
        numbers
    }

    #[test]
    fn rows_are_split_at_any_border_and_keep_their_numbers() {
        let all = [3, 4, 5, 9, 10, 20, 21, 22, 40];
        for end in 0..45 {
            let mut waiting = Waiting::new([8, 1]);
            for number in all {
                waiting.number(number, 1);
                waiting.columns_mut()[0].extend_from_slice(&number.to_le_bytes());
                waiting.columns_mut()[1].push(number as u8);
            }
            let later = waiting.split_off(end);
            let (before, after): (Vec<u64>, Vec<u64>) = all.iter().partition(|&&n| n < end);
            assert_eq!(unpacked(&waiting), before, "before {end}");
            assert_eq!(unpacked(&later), after, "from {end}");
            waiting.join(later);
            assert_eq!(unpacked(&waiting), all, "joined at {end}");
        }
    }
}
