package main

import (
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// fault is a way to misbehave: for all calls by --fault, for one call by its HTTP header X-Agent-Fault.
type fault string

const (
	noFault             fault = ""
	failBeforeHeader    fault = "fail-before-header"    // error straight after the descriptor
	wrongOrder          fault = "wrong-order"           // message before header
	noTrailer           fault = "no-trailer"            // end of stream without a trailer
	errorWithoutTrailer fault = "error-without-trailer" // as agents before 13.10
	errorMidResponse    fault = "error-mid-response"    // trailer and error after the first chunk of the body
	endMidResponse      fault = "end-mid-response"      // end of stream after the first chunk of the body
	hugeMessage         fault = "huge-message"          // a message over 4 MiB
	hang                fault = "hang"                  // the call is taken, nothing is answered
	badHTTPOrder        fault = "bad-http-order"        // body before the HTTP header
	emptyHTTPMessage    fault = "empty-http-message"    // a message whose oneof is not set
)

const faultHeader = "X-Agent-Fault"

func (o *options) faultFor(firstMessage []byte) fault {
	request, err := decodeHTTPRequest(firstMessage)
	if err == nil && len(request.header[faultHeader]) > 0 {
		return fault(request.header[faultHeader][0])
	}
	return o.fault
}

// live holds the connections to kas: SIGUSR1 cuts them, as a network does.
var live connections

type connections struct {
	sync.Mutex
	all []net.Conn
}

func (c *connections) add(connection net.Conn) {
	c.Lock()
	defer c.Unlock()
	c.all = append(c.all, connection)
}

func (c *connections) cut() {
	c.Lock()
	defer c.Unlock()
	for _, connection := range c.all {
		_ = connection.Close()
	}
	c.all = nil
}

func (c *connections) cutOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
			c.cut()
		}
	}()
}
