//! A plan as text and as JSON.

use serde_json::{Value, json};

use super::super::terminal::{Align, render_table};
use super::basis::GIB;
use super::compute::{Figure, Plan, Shape};

/// As text for a terminal.
pub(super) fn text(plan: &Plan) -> String {
    let mut text = format!("{}\n\n", headline(plan.shape));
    text.push_str(&processes(plan));
    text.push_str(&format!("\nPrices: {}\n\n", plan.prices.source));
    text.push_str(&figures(&plan.figures));
    for note in &plan.notes {
        text.push_str(&format!("\nnote: {note}\n"));
    }
    text
}

fn headline(shape: Shape) -> &'static str {
    match shape {
        Shape::One => "One gateway with its own data directory.",
        Shape::Replicas => {
            "Gateways that each hold the index, over PostgreSQL, with Redis for shared limits."
        }
        Shape::Qdrant => "Gateways over PostgreSQL and a Qdrant cluster, with Redis for shared limits.",
    }
}

fn processes(plan: &Plan) -> String {
    let header = [
        ("PROCESS", Align::Left),
        ("COUNT", Align::Right),
        ("CORES EACH", Align::Right),
        ("MEMORY EACH", Align::Right),
        ("DISK EACH", Align::Right),
        ("COST A MONTH", Align::Right),
        ("MEMORY IS", Align::Left),
    ];
    let currency = &plan.prices.currency;
    let mut rows: Vec<[String; 7]> = plan
        .processes
        .iter()
        .map(|process| {
            [
                process.name.to_owned(),
                grouped(process.count as f64, 0),
                grouped(process.cores_each as f64, 0),
                size(process.memory_bytes_each),
                size(process.disk_bytes_each),
                format!("{} {currency}", grouped(process.cost_a_month, 0)),
                process.memory_kind.name().to_owned(),
            ]
        })
        .collect();
    let total: u64 = plan.processes.iter().map(|process| process.count).sum();
    let mut last: [String; 7] = std::array::from_fn(|_| String::new());
    "all".clone_into(&mut last[0]);
    last[1] = grouped(total as f64, 0);
    last[5] = format!("{} {currency}", grouped(plan.cost_a_month, 0));
    rows.push(last);
    render_table(header, &rows)
}

fn figures(figures: &[Figure]) -> String {
    let header =
        [("FIGURE", Align::Left), ("VALUE", Align::Right), ("KIND", Align::Left), ("FROM", Align::Left)];
    let rows: Vec<[String; 4]> = figures
        .iter()
        .map(|figure| {
            [figure.name.to_owned(), value(figure), figure.kind.name().to_owned(), figure.source.clone()]
        })
        .collect();
    render_table(header, &rows)
}

fn value(figure: &Figure) -> String {
    let decimals = if figure.value.fract() == 0.0 { 0 } else { 2 };
    match figure.unit {
        "bytes" if figure.value >= GIB / 10.0 => size(figure.value),
        "" => grouped(figure.value, decimals),
        "/s" => format!("{}/s", grouped(figure.value, decimals)),
        unit => format!("{} {unit}", grouped(figure.value, decimals)),
    }
}

/// Bytes in the unit that shows them best.
fn size(bytes: f64) -> String {
    const TIB: f64 = GIB * 1_024.0;
    match bytes {
        bytes if bytes >= TIB => format!("{} TiB", grouped(bytes / TIB, 2)),
        bytes if bytes >= 10.0 * GIB => format!("{} GiB", grouped(bytes / GIB, 0)),
        bytes => format!("{} GiB", grouped(bytes / GIB, 2)),
    }
}

/// A number with commas between thousands.
fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut shown = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    if fraction.is_empty() { shown } else { format!("{shown}.{fraction}") }
}

/// As JSON: sizes in bytes, rates per second, costs a month.
pub(super) fn json(plan: &Plan) -> Value {
    let processes = plan.processes.iter().map(|process| {
        json!({
            "name": process.name,
            "count": process.count,
            "cores_each": process.cores_each,
            "memory_bytes_each": process.memory_bytes_each.round(),
            "memory_kind": process.memory_kind.name(),
            "disk_bytes_each": process.disk_bytes_each.round(),
            "cost_a_month": cents(process.cost_a_month),
        })
    });
    let figures = plan.figures.iter().map(|figure| {
        json!({
            "name": figure.name,
            "value": figure.value,
            "unit": figure.unit,
            "kind": figure.kind.name(),
            "source": figure.source,
        })
    });
    json!({
        "shape": plan.shape.name(),
        "processes": processes.collect::<Vec<_>>(),
        "cost_a_month": cents(plan.cost_a_month),
        "prices": {
            "currency": plan.prices.currency,
            "source": plan.prices.source,
            "core": plan.prices.core,
            "memory_gib": plan.prices.memory_gib,
            "disk_gib": plan.prices.disk_gib,
        },
        "figures": figures.collect::<Vec<_>>(),
        "notes": plan.notes,
    })
}

fn cents(money: f64) -> f64 {
    (money * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(1_234_567.891, 2), "1,234,567.89");
        assert_eq!(grouped(999.0, 0), "999");
        assert_eq!(grouped(1_000.0, 0), "1,000");
        assert_eq!(grouped(0.5, 1), "0.5");
    }

    #[test]
    fn sizes_have_the_unit_that_shows_them_best() {
        assert_eq!(size(GIB / 2.0), "0.50 GiB");
        assert_eq!(size(12.4 * GIB), "12 GiB");
        assert_eq!(size(1_536.0 * GIB), "1.50 TiB");
    }
}
