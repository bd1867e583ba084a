// Package conformance runs the vectors of this folder against a parser in Go. README.md describes them.
//
// It runs the kinds sse, partial_json and inputs, accepts the conventions under `also`, and compares all aspects but
// `changes`. It needs no other package:
//
//	differences, cases := conformance.Run("conformance", "partial_json", read, "lone_surrogates")
package conformance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

type object = map[string]any

// Reader reads a text that comes in pieces. Its answer can be of any type that encoding/json writes. An infinite number
// is {"$number": "1e400"}, as in the vectors.
type Reader func(pieces []string) (answer any, err error)

var integer = regexp.MustCompile(`\{"\$number": ?"(-?\d{1,300})"\}`)

// Run returns all differences, and the number of cases that the parser supports. It panics if there are no vectors.
func Run(folder, kind string, reader Reader, lacks ...string) ([]string, int) {
	differences, cases := []string{}, 0
	for _, item := range read(os.ReadFile(filepath.Join(folder, kind+".json")))["cases"].([]any) {
		if one := item.(object); !needs(one, lacks) {
			differences = append(differences, compared(reader, kind, one, lacks)...)
			cases++
		}
	}
	return differences, cases
}

// compared runs a case as given, one byte (or code point) at a time, and at once.
func compared(reader Reader, kind string, one object, lacks []string) (differences []string) {
	all, expect := one["steps"].([]any), one["expect"].(object)
	whole, given, fine := "", [][]string{}, [][]string{} // a group of pieces for each step but the end
	for _, step := range all[:len(all)-1] {
		feed, isText := step.(object)["feed"].(string)
		if !isText {
			decoded, _ := base64.StdEncoding.DecodeString(step.(object)["base64"].(string))
			feed = string(decoded)
		}
		pieces := strings.Split(feed, "") // at code points
		if feed == "" {
			pieces = []string{""}
		} else if kind != "partial_json" {
			pieces = pieces[:0]
			for at := range []byte(feed) {
				pieces = append(pieces, feed[at:at+1])
			}
		}
		whole, given, fine = whole+feed, append(given, []string{feed}), append(fine, pieces)
	}
	differences = cut("as given", reader, given, one, all, lacks)
	differences = append(differences, cut("one by one", reader, fine, one, all, lacks)...)
	if len(given) > 0 && expect["outcome"] != "invalid" { // a parser may show nothing of a fragment that is wrong
		joint := []any{joined(all[:len(given)]), all[len(given)]}
		differences = append(differences, cut("at once", reader, [][]string{{whole}}, one, joint, lacks)...)
	}
	return differences
}

// cut runs a case in one cutting: the groups have the pieces of the steps.
func cut(name string, reader Reader, groups [][]string, one object, steps []any, lacks []string) []string {
	differences := []string{}
	compare := func(place string, expected, got object) {
		also, _ := expected["also"].(object)
		for aspect, right := range expected {
			answer, isAnswered := got[aspect]
			isRight := !isAnswered || aspect == "changes" || reflect.DeepEqual(right, answer)
			accepted, _ := also[aspect].([]any)
			for _, value := range accepted {
				isRight = isRight || reflect.DeepEqual(value, answer)
			}
			if !isRight {
				found := fmt.Sprintf("%v: %s %s, expected %v, got %v", one["id"], aspect, place, right, answer)
				differences = append(differences, found)
			}
		}
	}
	pieces := []string{}
	for _, group := range groups {
		pieces = append(pieces, group...)
	}
	returned, err := reader(pieces)
	if err != nil {
		return []string{fmt.Sprintf("%v: error %s, %v", one["id"], name, err)}
	}
	answer := read(json.Marshal(returned))
	answered, _ := answer["steps"].([]any)
	for at, step := range steps {
		count := 1
		if at < len(groups) {
			count = len(groups[at])
		}
		for len(answered) < count {
			answered = append(answered, object{})
		}
		if expected := step.(object); !needs(expected, lacks) {
			compare(fmt.Sprintf("%s step %d", name, at), expected, joined(answered[:count]))
		}
		answered = answered[count:]
	}
	compare(name, one["expect"].(object), answer)
	return differences
}

// joined returns several steps as one: the last value and state, and all lists in order.
func joined(steps []any) object {
	whole := object{}
	for _, step := range steps {
		for key, item := range step.(object) {
			list, isList := item.([]any)
			if before, isOld := whole[key].([]any); isList && isOld && key != "value" && key != "needs" {
				item = append(before[:len(before):len(before)], list...)
			}
			whole[key] = item
		}
	}
	return whole
}

func needs(part object, lacks []string) (isLacking bool) {
	for _, ability := range lacks {
		isLacking = isLacking || strings.Contains(fmt.Sprint(part["needs"]), ability)
	}
	return isLacking
}

// read returns a JSON object. An integer that some readers of JSON would change is a double here, as any number.
func read(text []byte, err error) (whole object) {
	if err == nil {
		err = json.Unmarshal(integer.ReplaceAll(text, []byte("$1")), &whole)
	}
	if err != nil {
		panic(err)
	}
	return whole
}
