// encoding/json: `Decoder.Token`, the only reader of Go's standard library that answers before the end of a text, and
// `Unmarshal` of the whole, which programs in Go call when an input has ended.
//
// The program speaks the lines of packages/wire/conformance/adapters/program.py.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"
)

type object = map[string]any

// source hands the fragments to the decoder, and reports when it asks for the next one.
type source struct {
	asked  chan bool
	given  chan string
	rest   string
	isOver bool
}

func (from *source) Read(into []byte) (int, error) {
	for from.rest == "" {
		if from.isOver {
			return 0, io.EOF
		}
		from.asked <- true
		fragment, isOpen := <-from.given
		from.rest, from.isOver = fragment, !isOpen
	}
	count := copy(into, from.rest)
	from.rest = from.rest[count:]
	return count, nil
}

// reading is the value so far, with the open containers, and the key of the member whose value comes next.
type reading struct {
	root any
	open []any // of object or *[]any
	key  *string
}

func (so *reading) take(token json.Token) {
	var top, value any = nil, token
	if depth := len(so.open); depth > 0 {
		top = so.open[depth-1]
	}
	switch token {
	case json.Delim('}'), json.Delim(']'):
		so.open = so.open[:len(so.open)-1]
		return
	case json.Delim('{'):
		value = object{}
	case json.Delim('['):
		value = &[]any{}
	}
	switch top := top.(type) {
	case object:
		if so.key == nil {
			key := token.(string)
			so.key = &key
			return
		}
		top[*so.key], so.key = value, nil
	case *[]any:
		*top = append(*top, value)
	default:
		so.root = value
	}
	if _, isContainer := token.(json.Delim); isContainer {
		so.open = append(so.open, value)
	}
}

func partialJSON(fragments []string) object {
	from := &source{asked: make(chan bool), given: make(chan string)}
	so, ended := &reading{root: object{"$nothing": true}}, make(chan bool)
	go func() {
		decoder := json.NewDecoder(from)
		decoder.UseNumber()
		token, err := decoder.Token()
		for ; err == nil; token, err = decoder.Token() {
			if so.take(token); len(so.open) == 0 {
				break // a program reads one value
			}
		}
		close(ended)
	}()
	wait := func() (isReading bool) {
		select {
		case isReading = <-from.asked:
		case <-ended:
		}
		return isReading
	}
	isReading, steps := wait(), []object{}
	show := func() {
		text, _ := json.Marshal(so.root)
		steps = append(steps, object{"value": json.RawMessage(text)})
	}
	for _, fragment := range fragments {
		if isReading {
			from.given <- fragment
			isReading = wait()
		}
		show()
	}
	close(from.given)
	<-ended
	show()
	return object{"steps": steps, "outcome": outcome(strings.Join(fragments, ""))}
}

func outcome(text string) string {
	var whole any
	if err := json.Unmarshal([]byte(text), &whole); err == nil {
		return "valid"
	} else if err.Error() == "unexpected end of JSON input" {
		return "incomplete"
	}
	return "invalid"
}

func main() {
	lines, answers := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked struct {
			Call  string
			Given []string
		}
		if err := json.Unmarshal(line, &asked); err != nil {
			panic(err)
		}
		answer := object{"kinds": []string{"partial_json"}, "lacks": []string{"growing_strings", "infinity", "lone_surrogates"}}
		if asked.Call == "partial_json" {
			answer = partialJSON(asked.Given)
		}
		if err := answers.Encode(answer); err != nil {
			panic(err)
		}
	}
}
