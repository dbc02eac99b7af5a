//! The text of Jupyter notebooks.

use serde_json::Value;

/// The cells of a notebook with a blank line between them, without outputs, which are results and often images.
///
/// # Errors
/// When the file is no notebook.
pub(crate) fn text(source: &str) -> Result<String, String> {
    if source.trim().is_empty() {
        return Ok(String::new());
    }
    let notebook: Value = serde_json::from_str(source)
        .map_err(|error| format!("is not a notebook: {error}; save it again with Jupyter"))?;
    // before version 4 of the format, cells were in worksheets
    let cells = notebook.get("cells").or_else(|| notebook.pointer("/worksheets/0/cells"));
    let cells = cells
        .and_then(Value::as_array)
        .ok_or("is not a notebook: it has no `cells`; save it again with Jupyter")?;
    let texts: Vec<String> = cells.iter().map(text_of_cell).filter(|text| !text.is_empty()).collect();
    Ok(texts.join("\n\n"))
}

/// A cell's source, which is a text or its lines.
fn text_of_cell(cell: &Value) -> String {
    let text = match cell.get("source").or_else(|| cell.get("input")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
    };
    text.trim_end().trim_start_matches(['\r', '\n']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn the_cells_of_a_notebook_are_its_text() {
        let cells = r##"[{"cell_type": "markdown", "source": ["# T\n", "x\n"]}, {"source": []},
            {"cell_type": "code", "source": "  y = 1", "outputs": [{"text": "no"}]}, {"input": ["z"]}]"##;
        let expected = Ok("# T\nx\n\n  y = 1\n\nz".to_owned());
        assert_eq!(text(&format!(r#"{{"cells": {cells}}}"#)), expected);
        assert_eq!(text(&format!(r#"{{"worksheets": [{{"cells": {cells}}}]}}"#)), expected);
        assert_eq!(text("\n"), Ok(String::new()));
        assert_eq!(
            text("[]").unwrap_err(),
            "is not a notebook: it has no `cells`; save it again with Jupyter"
        );
        assert!(text("{").unwrap_err().starts_with("is not a notebook: EOF"));
    }
}
