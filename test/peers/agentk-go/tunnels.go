package main

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const maxIdleTime = time.Minute // an idle slot over the minimum stops after it (doc/reference/tunnel-protocol.md 2.7)

// tunnels keeps enough idle Connect streams. One slot has one stream at a time, one stream carries one call.
type tunnels struct {
	kas, api *grpc.ClientConn
	options  *options
	// ends idle waits; running calls go on
	leaving context.Context

	mutex       sync.Mutex
	idle, total int
	slots       sync.WaitGroup
	// the first streams have sent their descriptor, or failed to
	opened sync.WaitGroup
}

func (t *tunnels) start() {
	t.opened.Add(t.options.minIdle)
	t.mutex.Lock()
	t.addSlots(t.options.minIdle, t.opened.Done)
	t.mutex.Unlock()
	t.opened.Wait()
}

func (t *tunnels) addSlots(count int, opened func()) {
	for range min(count, t.options.maxTunnels-t.total) {
		t.total++
		t.idle++
		t.slots.Add(1)
		go t.run(opened)
	}
}

func (t *tunnels) becameActive() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.idle--
	if t.idle < t.options.minIdle {
		t.addSlots(t.options.scaleUp, func() {})
	}
	emit("active", fields{"idle": t.idle, "total": t.total})
}

func (t *tunnels) becameIdle() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.idle++
}

// stopIdle says whether a slot without use may go.
func (t *tunnels) stopIdle(lastUse time.Time) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.leaving.Err() == nil && (t.idle <= t.options.minIdle || time.Since(lastUse) < maxIdleTime) {
		return false
	}
	t.idle--
	t.total--
	return true
}

func (t *tunnels) run(opened func()) {
	defer t.slots.Done()
	var once sync.Once
	wait := backoff{init: t.options.backoffInit, max: 20 * time.Second, reset: 25 * time.Second, factor: 1.6, jitter: 0.2}
	lastUse := time.Now()
	for {
		tunnel := &tunnel{tunnels: t, opened: func() { once.Do(opened) }}
		err := tunnel.run()
		once.Do(opened)
		code := status.Code(err)
		emit("tunnel-closed", fields{"code": code.String(), "message": status.Convert(err).Message(), "method": tunnel.method})
		if tunnel.method != "" {
			lastUse = time.Now()
			t.becameIdle()
		}
		if t.stopIdle(lastUse) {
			return
		}
		if code != codes.OK && code != codes.Canceled && code != codes.DeadlineExceeded {
			delay := wait.next()
			emit("backing-off", fields{"ms": delay.Milliseconds()})
			sleep(t.leaving, delay)
		}
	}
}
