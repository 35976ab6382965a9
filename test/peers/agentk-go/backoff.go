package main

import (
	"context"
	"math/rand"
	"time"
)

// backoff grows from init to max and starts anew after reset without use (doc/reference/tunnel-protocol.md 2.5).
type backoff struct {
	init, max, reset time.Duration
	factor, jitter   float64
	current          time.Duration
	last             time.Time
}

func (b *backoff) next() time.Duration {
	now := time.Now()
	if b.current == 0 || now.Sub(b.last) > b.reset {
		b.current = b.init
	}
	b.last = now
	delay := b.current
	b.current = min(b.max, time.Duration(float64(b.current)*b.factor))
	return delay + time.Duration(rand.Float64()*b.jitter*float64(delay))
}

// sleep says whether it slept to the end.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
