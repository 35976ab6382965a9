package main

import (
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// ConnectRequest and ConnectResponse (doc/reference/tunnel-protocol.md 1.2).
const (
	requestInfo = 1
	toAgent     = 2
	closeSend   = 3
)

var connectResponseOrder = order{0: {requestInfo, -1}, requestInfo: {toAgent, closeSend, -1}, toAgent: {toAgent, closeSend, -1}, closeSend: {-1}}

type connectResponse struct {
	kind   int
	method string
	meta   metadata.MD
	data   []byte
}

func decodeConnectResponse(message []byte) (*connectResponse, error) {
	response := &connectResponse{meta: metadata.MD{}}
	err := readMessage(message, func(number protowire.Number, bytes []byte, _ uint64) error {
		if number < requestInfo || number > closeSend {
			return nil
		}
		response.kind = int(number)
		return readMessage(bytes, func(inner protowire.Number, bytes []byte, _ uint64) (err error) {
			switch {
			case number == requestInfo && inner == 1:
				response.method, err = text(bytes)
			case number == requestInfo && inner == 2:
				err = readEntry(bytes, response.meta)
			case number == toAgent && inner == 1:
				response.data = bytes
			}
			return err
		})
	})
	if err != nil {
		return nil, invalid("%v", err)
	}
	if response.kind == 0 {
		return nil, invalid("invalid ConnectResponse.Msg: value is required")
	}
	return response, nil
}

func descriptorMessage(services map[string][]string) []byte {
	var descriptor []byte
	for name, methods := range services {
		service := appendText(nil, 1, name)
		for _, method := range methods {
			service = appendMessage(service, 2, appendText(nil, 1, method))
		}
		descriptor = appendMessage(descriptor, 1, service)
	}
	return appendMessage(nil, 1, appendMessage(nil, 1, descriptor))
}

func headerMessage(meta metadata.MD) []byte {
	return appendMessage(nil, 2, appendMultimap(nil, 1, meta))
}
func trailerMessage(meta metadata.MD) []byte {
	return appendMessage(nil, 4, appendMultimap(nil, 1, meta))
}

func dataMessage(data []byte) []byte {
	if len(data) == 0 {
		return appendMessage(nil, 3, nil)
	}
	return appendMessage(nil, 3, appendMessage(nil, 1, data))
}

func errorMessage(err error) []byte {
	bytes, _ := proto.Marshal(status.Convert(err).Proto())
	return appendMessage(nil, 5, appendMessage(nil, 1, bytes))
}
