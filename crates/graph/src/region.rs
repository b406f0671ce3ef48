//! Regions: instructions inside an instruction, such as the body of a loop.
//!
//! A graph writes into one region at a time, the innermost of those that are open. What the regions around it define
//! can be used in it; what it defines is gone when it ends.

use std::collections::HashMap;
use std::ops::Range;

use shardwright_hlo::{Instruction, Location, Op, Region, UnitId, ValueId};
use shardwright_tensor::{HostArray, TensorType};

use crate::scan::Scan;
use crate::{Graph, GraphError};

type Result<T> = std::result::Result<T, GraphError>;

/// A region that is being written; the first one is the program itself.
#[derive(Default)]
pub(crate) struct Scope {
    /// What was written of the region around it.
    pub(crate) around: Vec<Instruction>,
    /// Constants that it turns out to need at its start.
    constants: Vec<Instruction>,
    /// How many values and units there were when it began.
    first_value: usize,
    first_unit: usize,
    /// In a loop, something that is another number in each iteration.
    counter: Option<ValueId>,
    /// For values that are shards, what brings them together, once that is written in this region.
    assembled: HashMap<ValueId, ValueId>,
}

/// A region that has been written.
pub(crate) struct Written {
    pub(crate) region: Region,
    /// How many constants were put before what was written one by one.
    pub(crate) constants: usize,
    /// Its units, with their instructions in it.
    pub(crate) units: Vec<(UnitId, Range<usize>)>,
}

impl Graph {
    /// Writes a region that takes values of these types; `counter` is the index of the one that counts iterations.
    pub(crate) fn region(
        &self,
        types: &[TensorType],
        counter: Option<usize>,
        body: impl FnOnce(&[ValueId]) -> Result<Vec<ValueId>>,
    ) -> Result<Written> {
        let arguments: Vec<ValueId> = types.iter().map(|ty| self.new_value(ty.clone())).collect();
        self.open(counter.map(|index| arguments[index]));
        let location = self.location.get();
        let results = body(&arguments);
        self.location.set(location);
        let mut written = self.close(results.is_ok());
        (written.region.arguments, written.region.results) = (arguments, results?);
        Ok(written)
    }

    fn open(&self, counter: Option<ValueId>) {
        let mut module = self.module.borrow_mut();
        let scope = Scope {
            first_value: module.values.len(),
            first_unit: module.units.len(),
            around: std::mem::take(&mut module.instructions),
            counter,
            ..Scope::default()
        };
        self.scopes.borrow_mut().push(scope);
    }

    /// Ends the innermost region. Seen from around it, all of its units are the one instruction that comes next.
    fn close(&self, whole: bool) -> Written {
        let scope = self.scopes.borrow_mut().pop().expect("it was opened");
        let units = self.own_units(scope.first_unit);
        let mut module = self.module.borrow_mut();
        let written = std::mem::replace(&mut module.instructions, scope.around);
        let count = scope.constants.len();
        let at = module.instructions.len();
        let shifted = |id: UnitId| {
            let Range { start, end } = module.units[id.0 as usize].instructions;
            (id, start + count..end + count)
        };
        let units: Vec<_> = units.into_iter().map(shifted).collect();
        for unit in &mut module.units[scope.first_unit..] {
            unit.instructions = at..at + usize::from(whole);
        }
        self.enclosed.borrow_mut().extend(units.iter().map(|(id, _)| *id));
        let instructions = scope.constants.into_iter().chain(written).collect();
        Written { region: Region { instructions, ..Region::default() }, constants: count, units }
    }

    /// The units of the region that is being written, those in regions inside it left out.
    pub(crate) fn units_here(&self) -> Vec<UnitId> {
        let first = self.scopes.borrow().last().expect("the program is one").first_unit;
        self.own_units(first)
    }

    fn own_units(&self, first: usize) -> Vec<UnitId> {
        let count = self.module.borrow().units.len();
        let enclosed = self.enclosed.borrow();
        let ids = (0..).map(UnitId).take(count).skip(first);
        ids.filter(|id| !enclosed.contains(id)).collect()
    }

    /// Zeros that are there when the region that is being written starts.
    pub(crate) fn zeros(&self, ty: &TensorType) -> ValueId {
        let (value, instruction) = self.splat_of_zeros(ty);
        self.scopes.borrow_mut().last_mut().expect("the program is one").constants.push(instruction);
        value
    }

    pub(crate) fn splat_of_zeros(&self, ty: &TensorType) -> (ValueId, Instruction) {
        let value = self.new_value(ty.clone());
        let element = HostArray::zeros(TensorType::scalar(ty.dtype));
        let op = Op::Splat { element, shape: ty.shape.clone() };
        let (operands, results, regions) = (Vec::new(), vec![value], Vec::new());
        (value, Instruction { op, operands, results, regions, location: Location::default() })
    }

    pub(crate) fn new_value(&self, ty: TensorType) -> ValueId {
        self.module.borrow_mut().new_value(ty.into())
    }

    /// How many instructions the region that is being written has, constants at its start left out.
    pub(crate) fn position(&self) -> usize {
        self.module.borrow().instructions.len()
    }

    /// What was written of the regions that are open, from the inside out.
    pub(crate) fn open_code(&self) -> Vec<Vec<Instruction>> {
        let around = self.scopes.borrow();
        let around = around.iter().skip(1).rev().map(|scope| scope.around.clone());
        std::iter::once(self.module.borrow().instructions.clone()).chain(around).collect()
    }

    /// If `x` comes from around a loop whose body is being written: what changes from one iteration to the next there.
    pub(crate) fn counter_around(&self, x: ValueId) -> Option<ValueId> {
        let scopes = self.scopes.borrow();
        let scope = scopes.iter().rev().find(|scope| scope.counter.is_some())?;
        scope.counter.filter(|_| x.index() < scope.first_value)
    }

    /// What brings a stored value together, in the regions that are open.
    pub(crate) fn known_assembly(&self, x: ValueId) -> Option<ValueId> {
        self.scopes.borrow().iter().rev().find_map(|scope| scope.assembled.get(&x).copied())
    }

    pub(crate) fn remember_assembly(&self, x: ValueId, whole: ValueId) {
        self.scopes.borrow_mut().last_mut().expect("the program is one").assembled.insert(x, whole);
    }

    /// Puts an instruction with regions in the place of the one with the same first result, wherever that is, and
    /// constants that it uses at the start of the region around it.
    pub(crate) fn replace(&self, instruction: Instruction, constants: Vec<Instruction>) {
        let mut module = self.module.borrow_mut();
        let mut scopes = self.scopes.borrow_mut();
        let mut edit = Replacement { instruction, constants, scans: &mut self.scans.borrow_mut() };
        let mut depth = scopes.len() - 1;
        let mut found = edit.put(&mut module.instructions);
        while found == Found::No && depth > 0 {
            found = edit.put(&mut scopes[depth].around);
            depth -= 1;
        }
        if found == Found::Here {
            scopes[depth].constants.append(&mut edit.constants);
        }
    }

    /// Puts the constants that the program itself turned out to need at its start.
    pub(crate) fn write_constants(&self) {
        let constants = std::mem::take(&mut self.scopes.borrow_mut()[0].constants);
        let mut module = self.module.borrow_mut();
        for unit in &mut module.units {
            unit.instructions.start += constants.len();
            unit.instructions.end += constants.len();
        }
        module.instructions.splice(0..0, constants);
    }
}

/// An instruction that is looked for, to be replaced.
struct Replacement<'a> {
    instruction: Instruction,
    constants: Vec<Instruction>,
    scans: &'a mut HashMap<ValueId, Scan>,
}

#[derive(PartialEq)]
enum Found {
    No,
    Here,
    InRegion,
}

impl Replacement<'_> {
    fn put(&mut self, code: &mut [Instruction]) -> Found {
        for place in code {
            if place.results.first() == self.instruction.results.first() {
                std::mem::swap(place, &mut self.instruction);
                return Found::Here;
            }
            for region in &mut place.regions {
                let found = self.put(&mut region.instructions);
                if found == Found::Here {
                    if let Some(scan) = place.results.first().and_then(|first| self.scans.get_mut(first)) {
                        scan.shift(self.constants.len());
                    }
                    region.instructions.splice(0..0, self.constants.drain(..));
                    return Found::InRegion;
                }
                if found == Found::InRegion {
                    return found;
                }
            }
        }
        Found::No
    }
}
