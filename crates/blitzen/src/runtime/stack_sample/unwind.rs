//! Finds the callers in the copy of a stack, by the tables that the compiler has made for panics:
//! programs have them whether or not their functions keep a frame pointer.

use std::ffi::c_void;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, NativeEndian, RegisterRule, UnwindContext,
    UnwindSection,
};

/// How many calls are followed.
const MAX_FRAMES: usize = 128;

/// What was copied of a thread.
pub(super) struct StackCopy {
    pub(super) pc: u64,
    /// By their numbers in the tables.
    pub(super) registers: [u64; REGISTERS],
    /// From the stack pointer on.
    pub(super) words: Vec<u64>,
}

#[cfg(target_arch = "x86_64")]
mod machine {
    /// How many registers the tables know.
    pub(in super::super) const REGISTERS: usize = 17;
    pub(in super::super) const STACK_POINTER: usize = 7;
    pub(super) const RETURN_ADDRESS: usize = 16;

    /// The registers in the order of the tables, and the program counter.
    pub(in super::super) fn registers_of(context: &libc::ucontext_t) -> ([u64; REGISTERS], u64) {
        use libc::{
            REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RAX, REG_RBP,
            REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RIP, REG_RSI, REG_RSP,
        };
        const ORDER: [i32; REGISTERS] = [
            REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8, REG_R9,
            REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
        ];
        let registers = ORDER.map(|index| context.uc_mcontext.gregs[index as usize] as u64);
        (registers, registers[RETURN_ADDRESS])
    }

    /// Loads a word without the checks of a sanitizer, which may have marked parts of a stack.
    ///
    /// # Safety
    /// The address is one of a word in memory that can be read.
    pub(in super::super) unsafe fn load_word(address: usize) -> u64 {
        let word;
        // SAFETY: the caller's promise.
        unsafe {
            std::arch::asm!(
                "mov {word}, [{address}]",
                word = out(reg) word,
                address = in(reg) address,
                options(nostack, readonly, preserves_flags),
            );
        }
        word
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    /// How many registers the tables know.
    pub(in super::super) const REGISTERS: usize = 32;
    pub(in super::super) const STACK_POINTER: usize = 31;
    pub(super) const RETURN_ADDRESS: usize = 30;

    /// The registers in the order of the tables, and the program counter.
    pub(in super::super) fn registers_of(context: &libc::ucontext_t) -> ([u64; REGISTERS], u64) {
        let context = &context.uc_mcontext;
        let mut registers = [0; REGISTERS];
        registers[..31].copy_from_slice(&context.regs);
        registers[STACK_POINTER] = context.sp;
        (registers, context.pc)
    }

    /// Loads a word without the checks of a sanitizer, which may have marked parts of a stack.
    ///
    /// # Safety
    /// The address is one of a word in memory that can be read.
    pub(in super::super) unsafe fn load_word(address: usize) -> u64 {
        let word;
        // SAFETY: the caller's promise.
        unsafe {
            std::arch::asm!(
                "ldr {word}, [{address}]",
                word = out(reg) word,
                address = in(reg) address,
                options(nostack, readonly, preserves_flags),
            );
        }
        word
    }
}

use machine::RETURN_ADDRESS;
pub(super) use machine::{REGISTERS, STACK_POINTER, load_word, registers_of};

/// Registers of a caller; `None` for those that it has not saved.
type Registers = [Option<u64>; REGISTERS];

impl StackCopy {
    fn word(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.registers[STACK_POINTER])?;
        let index = usize::try_from(offset / 8).ok()?;
        offset
            .is_multiple_of(8)
            .then(|| self.words.get(index).copied())?
    }
}

/// The addresses of the code that runs and of its callers: each inside the instruction that runs, or
/// behind the one that calls.
pub(super) fn addresses(copy: &StackCopy) -> Vec<usize> {
    // Behind the first byte of what runs, as if it were a call: whoever looks up a name goes back by
    // one.
    let mut addresses = vec![copy.pc as usize + 1];
    let mut registers: Registers = copy.registers.map(Some);
    let mut pc = copy.pc;
    while addresses.len() < MAX_FRAMES {
        let Some(stack_pointer) = registers[STACK_POINTER] else {
            break;
        };
        let Some(caller) = find_rules(pc).and_then(|rules| rules.caller(copy, &registers)) else {
            break;
        };
        let (Some(return_address), Some(caller_stack)) =
            (caller[RETURN_ADDRESS], caller[STACK_POINTER])
        else {
            break;
        };
        // Stacks grow downwards, and the outermost function has no caller.
        let is_further = caller_stack > stack_pointer || addresses.len() == 1;
        if return_address == 0 || caller_stack < stack_pointer || !is_further {
            break;
        }
        addresses.push(return_address as usize);
        // A call is looked up by itself: what follows may be another function.
        pc = return_address - 1;
        registers = caller;
    }
    addresses
}

/// How to find the registers of a caller.
struct Rules {
    /// The frame's address is that register with that added.
    frame: (usize, i64),
    registers: Vec<(usize, Rule)>,
}

enum Rule {
    /// In memory, so far from the frame's address.
    At(i64),
    /// The frame's address with that added.
    Is(i64),
    /// In another register.
    Same(usize),
    Lost,
}

impl Rules {
    fn caller(&self, copy: &StackCopy, registers: &Registers) -> Option<Registers> {
        let (base, offset) = self.frame;
        let frame = (*registers.get(base)?)?.wrapping_add_signed(offset);
        let mut caller = *registers;
        // On x86 it is always saved by a rule; on others it may still be in its register.
        if cfg!(target_arch = "x86_64") {
            caller[RETURN_ADDRESS] = None;
        }
        caller[STACK_POINTER] = Some(frame);
        for (register, rule) in &self.registers {
            let value = match rule {
                Rule::At(offset) => copy.word(frame.wrapping_add_signed(*offset)),
                Rule::Is(offset) => Some(frame.wrapping_add_signed(*offset)),
                Rule::Same(other) => registers.get(*other).copied().flatten(),
                Rule::Lost => None,
            };
            // Vector registers have numbers too, which lead nowhere.
            if let Some(slot) = caller.get_mut(*register) {
                *slot = value;
            }
        }
        Some(caller)
    }
}

/// Looks an address up in the tables of the program and its libraries.
fn find_rules(pc: u64) -> Option<Rules> {
    let mut search = Search { pc, found: None };
    // SAFETY: `visit` gets the pointer to `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

struct Search {
    pc: u64,
    found: Option<Rules>,
}

/// Looks into one library, which the loader keeps until this returns. Returns 1 to end the search.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    search: *mut c_void,
) -> libc::c_int {
    // SAFETY: from `find_rules`.
    let search = unsafe { &mut *search.cast::<Search>() };
    // SAFETY: the loader passes it.
    let info = unsafe { &*info };
    // SAFETY: the loader's headers of that library.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr;
    let range = |header: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(header.p_vaddr);
        start..start.wrapping_add(header.p_memsz)
    };
    let loaded = |address: u64| {
        let is_loaded = |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD;
        let mut headers = headers.iter().filter(is_loaded);
        headers.find(|header| range(header).contains(&address))
    };
    if loaded(search.pc).is_none() {
        return 0;
    }
    let table = headers
        .iter()
        .find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
    let table = table.map(|header| range(header).start);
    // From an address to the end of the part of the library that it is in.
    let bytes_from = |address: u64| {
        let header = loaded(address).filter(|header| header.p_flags & libc::PF_R != 0)?;
        let end = base
            .wrapping_add(header.p_vaddr)
            .wrapping_add(header.p_filesz);
        let len = end.checked_sub(address)?;
        // SAFETY: the loader has mapped it for reading, and does not unmap it before this function
        // returns. It is constant: the tables of a library are.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, len as usize) })
    };
    search.found = table.and_then(|table| rules_in(table, bytes_from, search.pc));
    1
}

/// Looks an address up in the tables of one library, whose index is at `table`.
fn rules_in<'a>(
    table: u64,
    bytes_from: impl Fn(u64) -> Option<&'a [u8]>,
    pc: u64,
) -> Option<Rules> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(table);
    let index = EhFrameHdr::new(bytes_from(table)?, NativeEndian);
    let index = index.parse(&bases, 8).ok()?;
    let frames_at = index.eh_frame_ptr().direct().ok()?;
    let bases = bases.set_eh_frame(frames_at);
    let frames = EhFrame::new(bytes_from(frames_at)?, NativeEndian);
    let entry = index
        .table()?
        .fde_for_address(&frames, &bases, pc, EhFrame::cie_from_offset)
        .ok()?;
    let mut context = UnwindContext::new();
    let row = entry
        .unwind_info_for_address(&frames, &bases, &mut context, pc)
        .ok()?;
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        return None; // only a few functions of the system's libraries need more
    };
    let rule = |rule: &RegisterRule<usize>| match rule {
        RegisterRule::SameValue => None,
        RegisterRule::Offset(offset) => Some(Rule::At(*offset)),
        RegisterRule::ValOffset(offset) => Some(Rule::Is(*offset)),
        RegisterRule::Register(other) => Some(Rule::Same(other.0.into())),
        _ => Some(Rule::Lost),
    };
    Some(Rules {
        frame: (register.0.into(), *offset),
        registers: row
            .registers()
            .filter_map(|(register, how)| Some((register.0.into(), rule(how)?)))
            .collect(),
    })
}
