package main

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// A reader takes the fields of one message; fields it does not know are skipped, as protobuf wants.
type reader func(number protowire.Number, bytes []byte, varint uint64) error

func readMessage(message []byte, read reader) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var bytes []byte
		var varint uint64
		switch kind {
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(message)
			if bytes == nil {
				bytes = []byte{}
			}
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := read(number, bytes, varint); err != nil {
			return err
		}
	}
	return nil
}

// text refuses what is not UTF-8, as Go's protobuf does for fields of type string.
func text(bytes []byte) (string, error) {
	if !utf8.Valid(bytes) {
		return "", fmt.Errorf("string field contains invalid UTF-8")
	}
	return string(bytes), nil
}

func appendMessage(to []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), message)
}

func appendText(to []byte, number protowire.Number, value string) []byte {
	if value == "" {
		return to
	}
	return appendMessage(to, number, []byte(value))
}

func appendNumber(to []byte, number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), value)
}

// multimap is map<string, prototool.Values>: HTTP headers, queries and gRPC metadata.
func appendMultimap(to []byte, number protowire.Number, multimap map[string][]string) []byte {
	for key, values := range multimap {
		var inner []byte
		for _, value := range values {
			inner = appendMessage(inner, 1, []byte(value))
		}
		entry := appendMessage(appendText(nil, 1, key), 2, inner)
		to = appendMessage(to, number, entry)
	}
	return to
}

func readEntry(entry []byte, multimap map[string][]string) error {
	key, values := "", []string{}
	err := readMessage(entry, func(number protowire.Number, bytes []byte, _ uint64) (err error) {
		switch number {
		case 1:
			key, err = text(bytes)
		case 2:
			err = readMessage(bytes, func(number protowire.Number, bytes []byte, _ uint64) error {
				value, err := text(bytes)
				if number == 1 {
					values = append(values, value)
				}
				return err
			})
		}
		return err
	})
	multimap[key] = values
	return err
}

// order is the table of what may follow what; 0 is the start, -1 the end (doc/reference/tunnel-protocol.md 1.2, 1.3).
type order map[int][]int

func (o order) check(from, to int) error {
	for _, allowed := range o[from] {
		if allowed == to {
			return nil
		}
	}
	return status.Errorf(codes.InvalidArgument, "transition from %d to %d is not allowed. Allowed: %v", from, to, o[from])
}

// invalid is how a stock client reports a message that does not validate (doc/reference/tunnel-protocol.md 1.17).
func invalid(format string, arguments ...any) error {
	return status.Errorf(codes.InvalidArgument, "invalid server response: "+format, arguments...)
}
