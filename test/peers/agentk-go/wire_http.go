package main

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// HttpRequest and HttpResponse have the same four kinds of message, in the same order
// (doc/reference/tunnel-protocol.md 1.3).
const (
	httpHeader      = 1
	httpData        = 2
	httpTrailer     = 3
	httpUpgradeData = 4
)

var httpOrder = order{
	0: {httpHeader}, httpHeader: {httpData, httpTrailer}, httpData: {httpData, httpTrailer},
	httpTrailer: {httpUpgradeData, -1}, httpUpgradeData: {httpUpgradeData, -1},
}

type impersonation struct {
	username, uid string
	groups        []string
	extra         []extraKeyVal
}

type extraKeyVal struct {
	key    string
	values []string
}

func (i impersonation) empty() bool {
	return i.username == "" && i.uid == "" && len(i.groups) == 0 && len(i.extra) == 0
}

type httpRequest struct {
	kind          int
	method, path  string
	header, query map[string][]string
	contentLength *int64
	impersonation impersonation
	data          []byte
}

func decodeHTTPRequest(message []byte) (*httpRequest, error) {
	request := &httpRequest{header: map[string][]string{}, query: map[string][]string{}}
	present := false
	err := readMessage(message, func(number protowire.Number, bytes []byte, _ uint64) error {
		if number < httpHeader || number > httpUpgradeData {
			return nil
		}
		request.kind = int(number)
		return readMessage(bytes, func(inner protowire.Number, bytes []byte, varint uint64) error {
			switch {
			case number == httpHeader && inner == 1:
				present = true
				return request.readHeader(bytes)
			case number == httpHeader && inner == 2:
				return request.readExtra(bytes)
			case number == httpHeader && inner == 3:
				length := int64(varint)
				request.contentLength = &length
			case inner == 1:
				request.data = bytes
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return nil, invalid("%v", err)
	case request.kind == 0:
		return nil, invalid("invalid HttpRequest.Message: value is required")
	case request.kind != httpHeader:
		return request, nil
	case !present:
		return nil, invalid("invalid HttpRequest_Header.Request: value is required")
	case request.method == "":
		return nil, invalid("invalid HttpRequest.Method: value length must be at least 1 bytes")
	case request.path == "":
		return nil, invalid("invalid HttpRequest.UrlPath: value length must be at least 1 bytes")
	case request.contentLength != nil && *request.contentLength < -1:
		return nil, invalid("invalid HttpRequest_Header.ContentLength: value must be greater than or equal to -1")
	}
	return request, nil
}

func (r *httpRequest) readHeader(message []byte) error {
	return readMessage(message, func(number protowire.Number, bytes []byte, _ uint64) (err error) {
		switch number {
		case 1:
			r.method, err = text(bytes)
		case 2:
			err = readEntry(bytes, r.header)
		case 3:
			r.path, err = text(bytes)
		case 4:
			err = readEntry(bytes, r.query)
		}
		return err
	})
}

const headerExtraType = "type.googleapis.com/gitlab.agent.kubernetes_api.rpc.HeaderExtra"

// readExtra reads google.protobuf.Any{HeaderExtra{imp_config}} (doc/reference/tunnel-protocol.md 1.4).
func (r *httpRequest) readExtra(message []byte) error {
	typeURL, value := "", []byte(nil)
	err := readMessage(message, func(number protowire.Number, bytes []byte, _ uint64) (err error) {
		switch number {
		case 1:
			typeURL, err = text(bytes)
		case 2:
			value = bytes
		}
		return err
	})
	if err != nil {
		return err
	}
	if typeURL != headerExtraType {
		return invalid("unexpected extra %q", typeURL)
	}
	return readMessage(value, func(number protowire.Number, bytes []byte, _ uint64) error {
		if number != 1 {
			return nil
		}
		return readMessage(bytes, r.impersonation.read)
	})
}

func (i *impersonation) read(number protowire.Number, bytes []byte, _ uint64) error {
	if number == 4 {
		entry := extraKeyVal{}
		i.extra = append(i.extra, entry)
		return readMessage(bytes, i.extra[len(i.extra)-1].read)
	}
	value, err := text(bytes)
	switch number {
	case 1:
		i.username = value
	case 2:
		i.groups = append(i.groups, value)
	case 3:
		i.uid = value
	}
	return err
}

func (e *extraKeyVal) read(number protowire.Number, bytes []byte, _ uint64) error {
	value, err := text(bytes)
	switch number {
	case 1:
		e.key = value
	case 2:
		e.values = append(e.values, value)
	}
	return err
}

func httpHeaderMessage(code int, statusLine string, header map[string][]string) []byte {
	response := appendNumber(nil, 1, uint64(code))
	response = appendMultimap(appendText(response, 2, statusLine), 3, header)
	return appendMessage(nil, httpHeader, appendMessage(nil, 1, response))
}

func httpDataMessage(kind protowire.Number, data []byte) []byte {
	return appendMessage(nil, kind, appendMessage(nil, 1, data))
}

func httpTrailerMessage() []byte { return appendMessage(nil, httpTrailer, nil) }
