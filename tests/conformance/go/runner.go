// Print what run.go finds in an adapter in Python: `runner FOLDER LACKS COMMAND...`, with LACKS joined by commas.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"vectors/conformance"
)

func main() {
	program := exec.Command(os.Args[3], os.Args[4:]...)
	asked, err := program.StdinPipe()
	check(err)
	output, err := program.StdoutPipe()
	check(err)
	check(program.Start())
	answers := bufio.NewReader(output)
	for _, kind := range []string{"sse", "partial_json", "inputs"} {
		ask := func(pieces []string) (any, error) {
			given := make([]string, len(pieces))
			for at, piece := range pieces {
				if given[at] = piece; kind != "partial_json" {
					given[at] = base64.StdEncoding.EncodeToString([]byte(piece))
				}
			}
			check(json.NewEncoder(asked).Encode(map[string]any{"call": kind, "given": given}))
			line, err := answers.ReadBytes('\n')
			check(err)
			var answer map[string]any
			if err := json.Unmarshal(line, &answer); err != nil || answer["error"] != nil {
				return nil, fmt.Errorf("%v %v", err, answer["error"])
			}
			return answer, nil
		}
		differences, cases := conformance.Run(os.Args[1], kind, ask, strings.Split(os.Args[2], ",")...)
		check(json.NewEncoder(os.Stdout).Encode(map[string]any{"kind": kind, "differences": differences, "cases": cases}))
	}
	check(asked.Close()) // its end
	check(program.Wait())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
