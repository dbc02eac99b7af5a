//! Peak rates of the processor, by loops on registers, and the share of them that matrix products reach.
//! `cargo run --release -p weir-kernels --example peak`; `-- --loops` skips the products.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(unsafe_code, clippy::print_stdout, reason = "a program for a terminal; its loops are assembly")]

use std::time::Instant;

use weir_kernels::{
    AlignedVec, Epilogue, Group, Int8Matrix, Isa, Kernels, Matmul, MatmulInt8, Panels, QuantizedRows,
    QuantizedWeight,
};

/// Multiply-adds of an iteration, and a function that runs that many iterations.
type Loop = (f64, fn(u64));

fn main() {
    let kernels = Kernels::current();
    let (float, int8) = peaks(kernels.isa);
    println!(
        "{}: peak {float:.1} G f32 multiply-adds/s, {int8:.1} G int8 multiply-adds/s on one core",
        kernels.isa.name()
    );
    #[cfg(target_arch = "x86_64")]
    if kernels.isa == Isa::Avx2 {
        let quads = best(6.0 * 64.0, x86::multiply_quads_ymm);
        println!("byte products added in quads: {quads:.1} G multiply-adds/s");
    }
    #[cfg(target_arch = "x86_64")]
    if kernels.isa == Isa::Avx512Bf16 {
        let pairs = best(12.0 * 32.0, x86::dot_bf16_zmm);
        println!("bf16 products: {pairs:.1} G multiply-adds/s");
    }
    if std::env::args().any(|argument| argument == "--loops") {
        return;
    }
    println!(
        "{:>6} {:>6} {:>6} {:>10} {:>6} {:>10} {:>6}",
        "rows", "depth", "cols", "int8 G/s", "share", "f32 G/s", "share"
    );
    for (depth, columns) in [(384, 1152), (384, 384), (384, 1536), (1536, 384)] {
        for rows in [4, 6, 8, 12, 16, 32, 48, 128, 256] {
            let (i, f) =
                (product_int8(kernels, rows, depth, columns), product_f32(kernels, rows, depth, columns));
            println!(
                "{rows:6} {depth:6} {columns:6} {i:10.1} {:5.0}% {f:10.1} {:5.0}%",
                100.0 * i / int8,
                100.0 * f / float
            );
        }
    }
}

/// Billions of multiply-adds per second, in the fastest of nine runs.
fn best(per_iteration: f64, mut run: impl FnMut(u64)) -> f64 {
    let mut iterations = 1;
    let timed = |run: &mut dyn FnMut(u64), iterations| {
        let started = Instant::now();
        run(iterations);
        started.elapsed().as_secs_f64()
    };
    while timed(&mut run, iterations) < 0.004 {
        iterations *= 2;
    }
    let least = (0..9).map(|_| timed(&mut run, iterations)).fold(f64::INFINITY, f64::min);
    per_iteration * iterations as f64 / least / 1e9
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919) % 2001) as f32 / 1000.0 - 1.0).collect()
}

fn product_int8(kernels: &Kernels, rows: usize, depth: usize, columns: usize) -> f64 {
    let weight = QuantizedWeight::new(&numbers(columns * depth), depth);
    let packing = kernels.packing_int8;
    let data = packing.pack(&weight.codes, columns, depth);
    let b = Int8Matrix {
        panels: Panels { depth, columns, packing, data: &data },
        scale: &weight.scale,
        sum: &weight.sum,
    };
    let mut a = QuantizedRows::new();
    a.resize(rows, depth, Group::Pair, kernels.code_bytes);
    (kernels.quantize)(&numbers(rows * depth), depth, &mut a);
    let mut out = AlignedVec::<f32>::zeroed(rows * columns);
    best((rows * depth * columns) as f64, |iterations| {
        for _ in 0..iterations {
            (kernels.matmul_int8)(MatmulInt8 {
                a: &a,
                b,
                bias: &weight.sum,
                epilogue: Epilogue::Store,
                out: &mut out,
                out_stride: columns,
            });
        }
    })
}

fn product_f32(kernels: &Kernels, rows: usize, depth: usize, columns: usize) -> f64 {
    let packing = kernels.packing;
    let data = packing.pack(&numbers(columns * depth), columns, depth);
    let (a, bias) = (numbers(rows * depth), numbers(columns));
    let mut out = AlignedVec::<f32>::zeroed(rows * columns);
    best((rows * depth * columns) as f64, |iterations| {
        for _ in 0..iterations {
            (kernels.matmul)(Matmul {
                rows,
                a: &a,
                a_stride: depth,
                b: Panels { depth, columns, packing, data: &data },
                bias: &bias,
                epilogue: Epilogue::Store,
                out: &mut out,
                out_stride: columns,
            });
        }
    })
}

/// Peak rates of f32 and int8.
fn peaks(isa: Isa) -> (f64, f64) {
    let (float, int8) = loops(isa);
    (best(float.0, float.1), best(int8.0, int8.1))
}

#[cfg(target_arch = "x86_64")]
fn loops(isa: Isa) -> (Loop, Loop) {
    match isa {
        Isa::Avx512 | Isa::Avx512Bf16 => ((12.0 * 16.0, x86::fma_zmm), (12.0 * 64.0, x86::dot_zmm)),
        Isa::Scalar | Isa::Avx2 | Isa::Neon | Isa::NeonDot => {
            ((12.0 * 8.0, x86::fma_ymm), (6.0 * 32.0, x86::multiply_bytes_ymm))
        }
    }
}

#[cfg(target_arch = "aarch64")]
fn loops(isa: Isa) -> (Loop, Loop) {
    let int8: Loop = match isa {
        Isa::NeonDot => (12.0 * 16.0, arm::dot),
        Isa::Scalar | Isa::Avx2 | Isa::Avx512 | Isa::Avx512Bf16 | Isa::Neon => {
            (12.0 * 4.0, arm::multiply_words)
        }
    };
    ((12.0 * 4.0, arm::fma), int8)
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::asm;

    /// Defines a function with a loop of twelve independent instructions.
    macro_rules! register_loop {
        ($name:ident, $line:literal) => {
            pub(super) fn $name(iterations: u64) {
                // SAFETY: only registers are touched, all declared; a table is only handed out after its instruction set was detected.
                unsafe {
                    asm!(
                        ".arch_extension dotprod",
                        "2:",
                        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19",
                        $line,
                        ".endr",
                        "subs {iterations}, {iterations}, #1",
                        "b.ne 2b",
                        iterations = inout(reg) iterations => _,
                        out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                        out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _,
                        options(nomem, nostack)
                    );
                }
            }
        };
    }

    register_loop!(fma, "fmla v\\i\\().4s, v20.4s, v21.4s");
    register_loop!(multiply_words, "smlal v\\i\\().4s, v20.4h, v21.4h");
    register_loop!(dot, "sdot v\\i\\().4s, v20.16b, v21.16b");
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;

    /// Defines a function with a loop of independent instructions or sequences of them.
    macro_rules! register_loop {
        ($name:ident, $($line:literal),* $(,)?) => {
            pub(super) fn $name(iterations: u64) {
                // SAFETY: only registers are touched, all declared; a table is only handed out after its instruction set was detected.
                unsafe {
                    asm!(
                        "2:",
                        $($line,)*
                        "dec {iterations}",
                        "jnz 2b",
                        iterations = inout(reg) iterations => _,
                        out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                        out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                        out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                        options(nomem, nostack)
                    );
                }
            }
        };
    }

    register_loop!(
        fma_ymm,
        "vfmadd231ps ymm0, ymm12, ymm13",
        "vfmadd231ps ymm1, ymm12, ymm13",
        "vfmadd231ps ymm2, ymm12, ymm13",
        "vfmadd231ps ymm3, ymm12, ymm13",
        "vfmadd231ps ymm4, ymm12, ymm13",
        "vfmadd231ps ymm5, ymm12, ymm13",
        "vfmadd231ps ymm6, ymm12, ymm13",
        "vfmadd231ps ymm7, ymm12, ymm13",
        "vfmadd231ps ymm8, ymm12, ymm13",
        "vfmadd231ps ymm9, ymm12, ymm13",
        "vfmadd231ps ymm10, ymm12, ymm13",
        "vfmadd231ps ymm11, ymm12, ymm13",
    );
    register_loop!(
        fma_zmm,
        "vfmadd231ps zmm0, zmm12, zmm13",
        "vfmadd231ps zmm1, zmm12, zmm13",
        "vfmadd231ps zmm2, zmm12, zmm13",
        "vfmadd231ps zmm3, zmm12, zmm13",
        "vfmadd231ps zmm4, zmm12, zmm13",
        "vfmadd231ps zmm5, zmm12, zmm13",
        "vfmadd231ps zmm6, zmm12, zmm13",
        "vfmadd231ps zmm7, zmm12, zmm13",
        "vfmadd231ps zmm8, zmm12, zmm13",
        "vfmadd231ps zmm9, zmm12, zmm13",
        "vfmadd231ps zmm10, zmm12, zmm13",
        "vfmadd231ps zmm11, zmm12, zmm13",
    );
    register_loop!(
        dot_zmm,
        "vpdpbusd zmm0, zmm12, zmm13",
        "vpdpbusd zmm1, zmm12, zmm13",
        "vpdpbusd zmm2, zmm12, zmm13",
        "vpdpbusd zmm3, zmm12, zmm13",
        "vpdpbusd zmm4, zmm12, zmm13",
        "vpdpbusd zmm5, zmm12, zmm13",
        "vpdpbusd zmm6, zmm12, zmm13",
        "vpdpbusd zmm7, zmm12, zmm13",
        "vpdpbusd zmm8, zmm12, zmm13",
        "vpdpbusd zmm9, zmm12, zmm13",
        "vpdpbusd zmm10, zmm12, zmm13",
        "vpdpbusd zmm11, zmm12, zmm13",
    );
    register_loop!(
        dot_bf16_zmm,
        "vdpbf16ps zmm0, zmm12, zmm13",
        "vdpbf16ps zmm1, zmm12, zmm13",
        "vdpbf16ps zmm2, zmm12, zmm13",
        "vdpbf16ps zmm3, zmm12, zmm13",
        "vdpbf16ps zmm4, zmm12, zmm13",
        "vdpbf16ps zmm5, zmm12, zmm13",
        "vdpbf16ps zmm6, zmm12, zmm13",
        "vdpbf16ps zmm7, zmm12, zmm13",
        "vdpbf16ps zmm8, zmm12, zmm13",
        "vdpbf16ps zmm9, zmm12, zmm13",
        "vdpbf16ps zmm10, zmm12, zmm13",
        "vdpbf16ps zmm11, zmm12, zmm13",
    );
    register_loop!(
        multiply_bytes_ymm,
        "vpmaddubsw ymm14, ymm12, ymm13",
        "vpmaddwd ymm14, ymm14, ymm11",
        "vpaddd ymm0, ymm0, ymm14",
        "vpmaddubsw ymm15, ymm12, ymm13",
        "vpmaddwd ymm15, ymm15, ymm11",
        "vpaddd ymm1, ymm1, ymm15",
        "vpmaddubsw ymm14, ymm12, ymm13",
        "vpmaddwd ymm14, ymm14, ymm11",
        "vpaddd ymm2, ymm2, ymm14",
        "vpmaddubsw ymm15, ymm12, ymm13",
        "vpmaddwd ymm15, ymm15, ymm11",
        "vpaddd ymm3, ymm3, ymm15",
        "vpmaddubsw ymm14, ymm12, ymm13",
        "vpmaddwd ymm14, ymm14, ymm11",
        "vpaddd ymm4, ymm4, ymm14",
        "vpmaddubsw ymm15, ymm12, ymm13",
        "vpmaddwd ymm15, ymm15, ymm11",
        "vpaddd ymm5, ymm5, ymm15",
    );
    register_loop!(
        multiply_quads_ymm,
        "vpmaddubsw ymm14, ymm12, ymm13",
        "vpmaddubsw ymm15, ymm12, ymm13",
        "vpaddw ymm14, ymm14, ymm15",
        "vpmaddwd ymm14, ymm14, ymm11",
        "vpaddd ymm0, ymm0, ymm14",
        "vpmaddubsw ymm9, ymm12, ymm13",
        "vpmaddubsw ymm10, ymm12, ymm13",
        "vpaddw ymm9, ymm9, ymm10",
        "vpmaddwd ymm9, ymm9, ymm11",
        "vpaddd ymm1, ymm1, ymm9",
        "vpmaddubsw ymm14, ymm12, ymm13",
        "vpmaddubsw ymm15, ymm12, ymm13",
        "vpaddw ymm14, ymm14, ymm15",
        "vpmaddwd ymm14, ymm14, ymm11",
        "vpaddd ymm2, ymm2, ymm14",
        "vpmaddubsw ymm9, ymm12, ymm13",
        "vpmaddubsw ymm10, ymm12, ymm13",
        "vpaddw ymm9, ymm9, ymm10",
        "vpmaddwd ymm9, ymm9, ymm11",
        "vpaddd ymm3, ymm3, ymm9",
        "vpmaddubsw ymm14, ymm12, ymm13",
        "vpmaddubsw ymm15, ymm12, ymm13",
        "vpaddw ymm14, ymm14, ymm15",
        "vpmaddwd ymm14, ymm14, ymm11",
        "vpaddd ymm4, ymm4, ymm14",
        "vpmaddubsw ymm9, ymm12, ymm13",
        "vpmaddubsw ymm10, ymm12, ymm13",
        "vpaddw ymm9, ymm9, ymm10",
        "vpmaddwd ymm9, ymm9, ymm11",
        "vpaddd ymm5, ymm5, ymm9",
    );
}
