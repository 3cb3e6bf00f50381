package watermillsqs

import (
	"math/rand/v2"
	"time"
)

// ExponentialBackoff returns a function for [SubscriberConfig].Backoff: the delay
// starts at initial after the first delivery, doubles with each further one up to
// limit, and is spread at random over its upper half, so that messages that failed
// together do not come back together.
//
// The receive count counts every receive, also those by other consumers and those
// whose lease expired, so the delay is a floor for how often a message comes back,
// not a count of the handler's failures.
func ExponentialBackoff(initial, limit time.Duration) func(receiveCount int) time.Duration {
	return func(receiveCount int) time.Duration {
		d := exponential(initial, limit, receiveCount-1)
		if d < 2 {
			return d
		}
		return d/2 + rand.N(d/2+1)
	}
}

// exponential is initial doubled n times, at most limit.
func exponential(initial, limit time.Duration, n int) time.Duration {
	d := min(initial, limit)
	for ; n > 0 && d > 0 && d < limit; n-- {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return max(d, 0)
}
