//! Print what run.rs finds in an adapter in Python: `runner FOLDER LACKS COMMAND...`, with LACKS joined by commas.

#[path = "../../../packages/wire/conformance/run.rs"]
mod run;

use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let lacks: Vec<&str> = arguments[1].split(',').collect();
    let mut program =
        Command::new(&arguments[2]).args(&arguments[3..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut asked = program.stdin.take().unwrap();
    let mut answers = BufReader::new(program.stdout.take().unwrap()).lines();
    for kind in ["sse", "partial_json", "inputs"] {
        let (differences, cases) = run::run(&arguments[0], kind, &lacks, |pieces| {
            let given = pieces.iter().map(|piece| if kind == "partial_json" { text(piece) } else { base64(piece) });
            writeln!(asked, "{}", json!({"call": kind, "given": given.collect::<Vec<_>>()})).unwrap();
            let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
            answer.get("error").map_or(Ok(answer.clone()), |error| Err(error.to_string()))
        })?;
        println!("{}", json!({"kind": kind, "differences": differences, "cases": cases}));
    }
    drop(asked); // its end
    program.wait()?;
    Ok(())
}

fn text(piece: &[u8]) -> String {
    String::from_utf8(piece.to_vec()).unwrap()
}

fn base64(bytes: &[u8]) -> String {
    let letters: Vec<char> = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".chars().collect();
    let group = |three: &[u8]| {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        let digit = |at: usize| if at <= three.len() { letters[(bits >> (18 - 6 * at) & 63) as usize] } else { '=' };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}
